//! Databases whose rows lie in pages, through the library and through the engine's interface.

use boundary::{Bounds, Ending, SchemaBuilder, Transaction, Verbs};
use isles::{Database, Error, OpenReason};
use pages::{PagedLogOptions, PagedOptions};
use platform::Hardware;
use schema::TableOptions;

use crate::common::{Directory, Person, person};

fn open(directory: &Directory) -> (boundary::Database<Hardware>, schema::Table<Person>) {
    let mut schema = SchemaBuilder::new();
    let people = schema.declare_rows::<Person>("people", &TableOptions::default()).expect("a table");
    let options = PagedOptions {
        sessions_max: 2,
        directory: Some(directory.0.clone()),
        log: Some(PagedLogOptions::default()),
        ..PagedOptions::default()
    };
    let opened = engine_native::open_paged(Hardware::core(), &options, schema, None);
    (opened.expect("a database").0, people)
}

#[test]
fn databases_of_pages_report_durable_commits() {
    let directory = Directory::new("pages-durable");
    let (database, people) = open(&directory);
    let c = Hardware::core();
    let object = database.object();
    assert!(!object.traits().snapshots, "no caller moves snapshots on");
    assert!(object.roaming_session(c, None, false).is_some_and(|session| session.is_ok()));
    let mut session = database.session(c, None, false).expect("a session");
    let insert = |t: &mut Transaction<'_>| t.insert(people, &person(1));
    let Ok(Ending::Committed((), commit)) = session.transact(&Bounds::default(), insert) else {
        panic!("no transaction conflicts");
    };
    assert!(!object.is_durable(c, commit.durable_with), "no session has waited");
    assert_eq!(object.wait_durable_until(c, commit.durable_with, None), Ok(true));
    assert!(object.is_durable(c, commit.durable_with));
    // This call needs no session.
    let last = database.session(c, None, false).expect("the last session");
    assert!(object.is_durable(c, commit.durable_with));
    assert_eq!(object.wait_durable_until(c, commit.durable_with, None), Ok(true));
    drop(last);
}

#[test]
fn a_directory_of_pages_is_no_memory_database() {
    let directory = Directory::new("pages-opened");
    let (database, _) = open(&directory);
    database.close(Hardware::core()).expect("closed");
    let mut builder = Database::at(&directory.0);
    builder.table::<Person>("people");
    let refusal = builder.open();
    assert!(matches!(refusal, Err(Error::Open { reason: OpenReason::SomethingElse, .. })), "{refusal:?}");
    open(&directory).0.close(Hardware::core()).expect("nothing happened to it");
}

fn in_pages(directory: &Directory) -> (Database, isles::Table<Person>) {
    let mut builder = directory.in_pages();
    let people = builder.table::<Person>("people");
    (builder.open().expect("a database"), people)
}

#[test]
fn rows_in_pages_are_used_as_rows_in_memory() {
    let directory = Directory::new("pages-library");
    let (database, people) = in_pages(&directory);
    for id in 1..=300 {
        database.transaction(|t| t.insert(people, &person(id))).expect("no transaction conflicts");
    }
    // Transaction objects: one is dropped, one rolls back, one commits.
    let mut session = database.session().expect("a session");
    {
        let mut open = session.begin().expect("it begins");
        open.delete(people, &1).expect("it is there");
    }
    let mut open = session.begin().expect("it begins");
    open.delete(people, &2).expect("it is there");
    open.roll_back().expect("no transaction conflicts");
    let mut open = session.begin().expect("it begins");
    open.delete(people, &3).expect("it is there");
    open.commit().expect("no transaction conflicts");
    drop(session);
    let there = |(database, people): (&Database, isles::Table<Person>)| -> Vec<u64> {
        let ids = database.transaction(|t| (1..=4).filter_map(|id| t.get(people, &id).transpose()).collect());
        let found: Vec<Person> = ids.expect("no transaction conflicts");
        found.into_iter().map(|person| person.id).collect()
    };
    assert_eq!(there((&database, people)), [1, 2, 4]);
    let refused = database.snapshot(|_| Ok(()));
    assert!(matches!(refused, Err(Error::NoSnapshots { .. })), "{refused:?}");
    // A copy of an open database has the same rows as the database.
    let copy = Directory::new("pages-library-copy");
    let made = database.backup(&copy.0).expect("a copy");
    assert!(made.pages.is_some_and(|pages| pages > 3), "{made:?}");
    let memory = database.statistics().memory;
    assert!(
        memory.used > 0 && memory.used <= memory.touched && memory.touched <= memory.reserved,
        "{memory:?}"
    );
    // A copy was never closed, and can be checked all the same.
    let checked = Database::check(&copy.0).expect("it is whole");
    assert_eq!((&checked.tables[..], checked.closed), (&[("people".to_owned(), 299)][..], false));
    database.flush().expect("the disk is there");
    database.close().expect("it closes");
    let checked = Database::check(&directory.0).expect("it is whole");
    assert_eq!(checked.tables, [("people".to_owned(), 299)]);
    for directory in [&directory, &copy] {
        let (database, people) = in_pages(directory);
        assert_eq!(there((&database, people)), [1, 2, 4]);
        database.close().expect("it closes");
    }
}

#[test]
fn unsupported_operations_over_pages_are_refused() {
    let refused = Database::in_memory().pages(8 << 20).open();
    assert!(matches!(refused, Err(Error::Misuse(why)) if why.contains("directory")), "{refused:?}");
    let directory = Directory::new("pages-refused");
    let small = Database::at(&directory.0).pages(1 << 20).open();
    let Err(Error::Open { reason: OpenReason::TooSmall, source }) = small else { panic!("{small:?}") };
    assert!(source.to_string().contains("too small for 64 sessions"), "{source}");
    Database::at(&directory.0).open().expect("rows in memory").close().expect("it closes");
    let other = Database::at(&directory.0).pages(8 << 20).sessions(4).open();
    let Err(Error::Open { reason: OpenReason::SomethingElse, source }) = other else { panic!("{other:?}") };
    assert!(source.to_string().contains("holds rows in memory"), "{source}");
}

/// A row with `$before` words before its keys and `$after` words behind them: beside other columns,
/// or in a piece of a long row.
macro_rules! shape {
    ($module:ident, $before:literal, $after:literal) => {
        mod $module {
            use isles::{Builder, Database, Row, Table, Text, prefix, text};

            #[derive(Row, Clone, Debug, PartialEq)]
            #[row(key(region, id), unique_index(by_name(name)), index(by_kind(kind, id)))]
            struct Shape {
                before: [u64; $before],
                flag: bool,
                name: Text<11>,
                region: u16,
                count: u8,
                id: u32,
                kind: Text<5>,
                price: Option<i64>,
                after: [u64; $after],
                remark: Option<String>,
                notes: Vec<u8>,
            }

            fn shape(id: u32) -> Shape {
                Shape {
                    before: [u64::from(id); $before],
                    flag: false,
                    name: format!("n{id}").try_into().expect("it fits"),
                    region: (id % 3) as u16,
                    count: 0,
                    id,
                    kind: format!("k{}", id % 4).try_into().expect("it fits"),
                    price: None,
                    after: [u64::from(id); $after],
                    remark: None,
                    notes: vec![id as u8; id as usize * 200],
                }
            }

            /// Changes every column that belongs to no key.
            fn change(row: &mut Shape) {
                (row.before, row.after) = ([row.before[0] + 1; $before], [row.after[0] + 2; $after]);
                (row.flag, row.count) = (!row.flag, row.count + 1);
                row.price = row.price.xor(Some(-7));
                row.remark = row.remark.take().xor(Some("é".repeat(row.count as usize)));
                row.notes.push(9);
            }

            fn changed(mut row: Shape, times: usize) -> Shape {
                (0..times).for_each(|_| change(&mut row));
                row
            }

            fn declare(mut builder: Builder) -> (Database, Table<Shape>) {
                let shapes = builder.table("shapes");
                (builder.open().expect("a database"), shapes)
            }

            #[test]
            fn every_verb_that_writes_changes_rows() {
                let directory = crate::common::Directory::new(concat!("pages-", stringify!($module)));
                let (database, shapes) = declare(directory.in_pages());
                let mut rows: Vec<Shape> = (0..12).map(shape).collect();
                database.transaction(|t| t.insert_all(shapes, &rows)).expect("they are inserted");
                let outcome = database.transaction(|t| {
                    let key = |id: u32| ((id % 3) as u16, id);
                    assert_eq!(t.update(shapes, &key(1), change)?, Some(()));
                    assert_eq!(t.update(shapes.by(Shape::BY_NAME), &text!("n2"), change)?, Some(()));
                    assert_eq!(t.update(shapes.by(Shape::BY_KIND), &(text!("k3"), 3, 0), change)?, Some(()));
                    assert_eq!(t.upsert(shapes, &changed(shape(4), 1))?, Some(shape(4)));
                    assert_eq!(t.upsert(shapes, &shape(5))?, Some(shape(5)), "as it is");
                    assert!(!t.insert_or_ignore(shapes, &changed(shape(6), 1))?);
                    assert!(t.set_field(shapes, &key(7), Shape::COUNT, &9)?);
                    assert!(t.set_field(shapes, &key(7), Shape::PRICE, &Some(3))?);
                    assert_eq!(t.update_field(shapes, &key(7), Shape::FLAG, |flag| *flag = true)?, Some(()));
                    assert_eq!(t.scan(shapes, ..(1, 0)).update(change)?, 4);
                    assert_eq!(t.scan(shapes.by(Shape::BY_KIND), prefix(text!("k1"))).update(change)?, 3);
                    assert_eq!(t.scan(shapes.by(Shape::BY_NAME), text!("n9")..).update(change)?, 1);
                    // Keys change, too: those of all indexes, and the keys of one index.
                    t.update(shapes, &key(11), |row| {
                        change(row);
                        (row.region, row.id, row.name, row.kind) = (9, 90, text!("new"), text!("new"));
                    })?;
                    t.update(shapes, &key(10), |row| row.kind = text!("other"))?;
                    assert_eq!(t.delete(shapes, &key(8))?, Some(shape(8)));
                    t.insert(shapes, &shape(20))
                });
                assert_eq!(outcome, Ok(()));
                for (id, times) in [(0, 1), (1, 2), (2, 1), (3, 2), (4, 1), (5, 1), (6, 1), (9, 3)] {
                    rows[id] = changed(shape(id as u32), times);
                }
                (rows[7].count, rows[7].price, rows[7].flag) = (9, Some(3), true);
                rows[10].kind = text!("other");
                let last = changed(shape(11), 1);
                let last = Shape { region: 9, id: 90, name: text!("new"), kind: text!("new"), ..last };
                (rows[8], rows[11]) = (shape(20), last);
                rows.sort_by_key(|row| (row.region, row.id));
                let same = |database: &Database, shapes: Table<Shape>| {
                    let found = database.transaction(|t| {
                        let mut by_name = t.scan(shapes.by(Shape::BY_NAME), ..).collect()?;
                        by_name.sort_by_key(|row| (row.region, row.id));
                        Ok((t.scan(shapes, ..).collect()?, by_name))
                    });
                    let (all, by_name) = found.expect("no transaction conflicts");
                    assert_eq!(all, rows);
                    assert_eq!(by_name, rows);
                };
                same(&database, shapes);
                let undone = database.transaction::<()>(|t| {
                    assert_eq!(t.scan(shapes, ..).update(change)?, 12);
                    assert_eq!(t.scan(shapes, (1, 0)..).delete()?, 8);
                    Err(isles::Error::RollBack)
                });
                assert_eq!(undone, Err(isles::Error::RollBack));
                same(&database, shapes);
                database.close().expect("it closes");
                let (database, shapes) = declare(directory.in_pages());
                same(&database, shapes);
            }
        }
    };
}
shape!(short_rows, 1, 2);
shape!(long_rows_with_keys_in_front, 9, 400);
shape!(long_rows_with_keys_behind, 400, 3);
