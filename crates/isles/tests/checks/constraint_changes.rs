//! Constraints that tables get and lose while they are in use.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use isles::{
    ColumnDescription, Constraints, Database, Datum, Error, Expression, ForeignKey, Result, Row, Scheme,
    Table, TableBuilder, TableChange, TableOptions, ValueType,
};

use crate::common::{Directory, SCHEMES};
use crate::constraints::{Child, Parent, child, of_parent, parent};

fn column(name: &str) -> Expression {
    Expression::column(name)
}

fn ordered() -> Constraints {
    Constraints::new().check("ordered", column("low").at_most(column("high")))
}

fn open(scheme: Scheme) -> (Database, Table<Parent>, Table<Child>) {
    let mut builder = Database::in_memory().scheme(scheme);
    let (parents, children) = (builder.table("parents"), builder.table("children"));
    (builder.open().expect("a database"), parents, children)
}

fn change(database: &Database, constraints: Constraints) -> Result<Table<Child>> {
    let options = TableOptions::new().constraints(constraints);
    database.change_table("children", TableChange::new().options(options))
}

#[track_caller]
fn stays<T: std::fmt::Debug>(result: Result<T>, reason: &str) {
    match result {
        Err(Error::NotChanged { source, .. }) => assert!(source.to_string().contains(reason), "{source}"),
        other => panic!("{reason}: {other:?}"),
    }
}

#[track_caller]
fn broken<T: std::fmt::Debug>(result: Result<T>, name: &str) {
    assert!(matches!(&result, Err(Error::Constraint { constraint, .. }) if constraint == name), "{result:?}");
}

#[test]
fn a_table_gets_and_loses_constraints() {
    for scheme in SCHEMES {
        let (database, parents, children) = open(scheme);
        let bad = Child { low: 9, ..child(2, Some(7)) };
        database
            .transaction(|t| {
                t.insert(parents, &parent(1))?;
                t.insert_all(children, (10..600).map(|id| child(id, 1)))?;
                t.insert(children, &bad)
            })
            .expect("there are no constraints");
        stays(change(&database, ordered()), "low <= high is false");
        stays(change(&database, Constraints::new().foreign_key(of_parent())), "no row with the key 7");
        let missing = change(&database, Constraints::new().not_null("labelled", "label"));
        stays(missing, "column \"label\" has no value");
        let wrong = change(&database, Constraints::new().check("c", column("lower").more(1)));
        assert!(matches!(wrong, Err(Error::Declaration { .. })), "{wrong:?}");
        // The table is as it was, and keeps nothing.
        database
            .transaction(|t| t.insert(children, &Child { low: 9, ..child(3, Some(8)) }))
            .expect("as before");
        let repaired = database.transaction(|t| {
            t.delete(children, &3)?;
            t.update(children, &2, |row| (row.low, row.parent) = (0, Some(1)))
        });
        repaired.expect("as before");
        let made = ordered().foreign_key(of_parent()).generated("width", column("high") - column("low"));
        let children = change(&database, made.clone()).expect("all rows are good");
        let widths =
            database.transaction(|t| t.scan(children, ..).fields(Child::WIDTH).collect::<Result<Vec<_>>>());
        assert!(widths.expect("a read").iter().all(|width| *width == 2 || *width == 3));
        broken(database.transaction(|t| t.insert(children, &bad)), "ordered");
        broken(database.transaction(|t| t.insert(children, &child(3, 8))), "parent_there");
        broken(database.transaction(|t| t.delete(parents, &1)), "parent_there");
        stays(database.drop_table("parents"), "children refer");
        let same = change(&database, made).expect("nothing is to be done");
        assert_eq!(database.transaction(|t| t.scan(same, ..).count()), Ok(591));
        let children = change(&database, Constraints::new()).expect("no constraints");
        database.transaction(|t| t.update(children, &2, |row| row.low = 99)).expect("nothing is kept");
        database.transaction(|t| t.delete(parents, &1)).expect("nothing is kept");
        database.drop_table("parents").expect("nothing refers to it");
    }
}

/// Writers go on while a table gets constraints, and none of them leaves a row that breaks one.
#[test]
fn no_writer_slips_through_a_change() {
    for scheme in SCHEMES {
        let (database, parents, children) = open(scheme);
        database
            .transaction(|t| {
                t.insert_all(children, (0..300).map(|id| child(id, None)))?;
                (0..50).try_for_each(|id| t.insert(parents, &parent(id)))
            })
            .expect("rows");
        let [stop, changed] = [AtomicBool::new(false), AtomicBool::new(false)];
        let violations = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let write = |from: u32| {
                let mut session = database.session().expect("a session");
                let mut id = from;
                while !stop.load(Ordering::Relaxed) {
                    id += 1;
                    let known = changed.load(Ordering::Relaxed);
                    let table: Result<Table<Child>> = database.table("children");
                    let Ok(table) = table else { continue };
                    // Rows that refer to parents which another thread deletes, and unordered ones
                    // that are put in order by their transaction.
                    let low = if known && id.is_multiple_of(3) { 9 } else { 0 };
                    let row = Child { low, ..child(id, id % 50) };
                    match session.transaction(|t| t.insert(table, &row)) {
                        Err(Error::Constraint { .. }) => drop(violations.fetch_add(1, Ordering::Relaxed)),
                        Ok(()) | Err(Error::NoSuchTable(_) | Error::Conflict { .. } | Error::Deadline) => {}
                        Err(error) => panic!("{scheme:?}: {error}"),
                    }
                }
            };
            scope.spawn(move || write(1_000));
            scope.spawn(|| {
                let mut session = database.session().expect("a session");
                for id in (0..50).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let gone = session.transaction(|t| {
                        // Before the table has the reference, no other transaction keeps it.
                        let table: Table<Child> = database.table("children")?;
                        let referring =
                            t.scan(table.by(Child::BY_PARENT), isles::prefix(Some(id))).count()?;
                        if referring == 0 { t.delete(parents, &id).map(drop) } else { Ok(()) }
                    });
                    let is_expected = matches!(
                        gone,
                        Ok(())
                            | Err(Error::Constraint { .. }
                                | Error::NoSuchTable(_)
                                | Error::Conflict { .. }
                                | Error::Deadline)
                    );
                    assert!(is_expected, "{scheme:?}: {gone:?}");
                    let _ = session.transaction(|t| t.insert_or_ignore(parents, &parent(id)));
                }
            });
            let with_key = ordered().foreign_key(of_parent());
            // A row may refer to a parent that is not there before the reference is kept.
            let mut attempts = 0;
            while change(&database, with_key.clone()).is_err() && attempts < 50 {
                attempts += 1;
                let repaired = database.transaction(|t| {
                    let table: Table<Child> = database.table("children")?;
                    (0..50).try_for_each(|id| t.insert_or_ignore(parents, &parent(id)).map(drop))?;
                    t.scan(table, ..).count()
                });
                drop(repaired);
            }
            changed.store(true, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
        });
        let children: Table<Child> = database.table("children").expect("it is there");
        let is_kept = !database
            .tables()
            .iter()
            .find(|table| table.name() == "children")
            .expect("it is there")
            .constraints()
            .is_empty();
        assert!(is_kept, "{scheme:?}: the table got no constraints");
        let whole = database.transaction(|t| {
            for row in t.scan(children, ..).collect()? {
                assert!(row.low <= row.high, "{scheme:?}: {row:?}");
                if let Some(parent) = row.parent {
                    assert!(t.exists(parents, &parent)?, "{scheme:?}: {row:?}");
                }
            }
            Ok(())
        });
        whole.expect("nobody else is there");
    }
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_parent(parent)))]
struct Note {
    id: u32,
    parent: u32,
}

#[test]
fn new_tables_have_their_constraints_at_once_and_after_a_crash() {
    let directory = Directory::new("constraint-changes");
    let key = ForeignKey::new("parent_there", ["parent"], "parents", ["id"]);
    {
        let mut builder = Database::at(&directory.0);
        let parents = builder.table::<Parent>("parents");
        let database = builder.open().expect("a database");
        let wrong = ForeignKey::new("parent_there", ["parent"], "others", ["id"]);
        let create = |key| {
            let options = TableOptions::new().constraints(Constraints::new().foreign_key(key));
            database.create_table_with::<Note>("notes", options)
        };
        let refused = create(wrong);
        assert!(matches!(refused, Err(Error::Declaration { .. })), "{refused:?}");
        let notes = create(key).expect("a table");
        broken(database.transaction(|t| t.insert(notes, &Note { id: 1, parent: 1 })), "parent_there");
        let insert = database.transaction(|t| {
            t.insert(parents, &parent(1))?;
            t.insert(notes, &Note { id: 1, parent: 1 })
        });
        insert.expect("it refers to a row");
        let identity = TableBuilder::new("numbered")
            .column(ColumnDescription::new("id", ValueType::Signed(8)))
            .key(["id"])
            .constraints(Constraints::new().identity("id", "ids"))
            .build();
        let refused = database.create_described_table(identity.expect("a table"));
        assert!(matches!(refused, Err(Error::NoSuchTable(_))), "there are no sequences: {refused:?}");
        // Another constraint, by description, which the directory remembers too.
        let table = database.tables().into_iter().find(|table| table.name() == "notes").expect("it is there");
        let more = table.constraints().clone().check("small", column("id").less(10));
        let table = table.clone().with_constraints(more).expect("a table");
        database.change_described_table(table).expect("all rows are good");
        // No close: what follows is recovery.
    }
    let mut builder = Database::at(&directory.0);
    builder.tables_of_directory().expect("they can be read");
    let database = builder.open().expect("a database");
    let note = |id: u64, parent: u64| [Datum::Unsigned(id), Datum::Unsigned(parent)];
    broken(database.transaction(|t| t.insert_dynamic("notes", &note(2, 5))), "parent_there");
    broken(database.transaction(|t| t.insert_dynamic("notes", &note(20, 1))), "small");
    broken(database.transaction(|t| t.delete_dynamic("parents", &[Datum::Unsigned(1)])), "parent_there");
    database.transaction(|t| t.insert_dynamic("notes", &note(2, 1))).expect("it is good");
}

#[test]
fn a_hash_index_does_not_find_referring_rows() {
    let mut builder = Database::in_memory();
    builder.table::<Parent>("parents");
    let key = ForeignKey::new("up", ["parent"], "parents", ["id"]);
    let options = TableOptions::new().constraints(Constraints::new().foreign_key(key)).hash(Note::BY_PARENT);
    builder.table_with::<Note>("notes", options);
    let refused = builder.open().map(drop);
    assert!(
        matches!(&refused, Err(Error::Declaration { reason, .. }) if reason.contains("hash index")),
        "{refused:?}"
    );
}
