//! Transactions that change tables and rows together.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use crate::common::{Directory, Person, SCHEMES, all_people, people, person};
use isles::{
    ColumnDescription, Constraints, Database, Datum, Error, Expression, ForeignKey, Result, Scheme,
    TableBuilder, TableDescription, Transaction, TransactionOptions, ValueType,
};

/// A table with a key and a number.
fn plain(name: &str) -> TableBuilder {
    TableBuilder::new(name)
        .column(ColumnDescription::new("id", ValueType::Signed(8)))
        .column(ColumnDescription::new("n", ValueType::Signed(8)).nullable())
        .key(["id"])
}

fn built(table: TableBuilder) -> TableDescription {
    table.build().expect("a table")
}

fn row(id: i64, n: i64) -> [Datum; 2] {
    [id, n].map(Datum::Signed)
}

/// The names of the tables, each with its rows.
fn content(database: &Database) -> Vec<(String, Vec<Vec<Datum>>)> {
    let mut names: Vec<_> = database.tables().iter().map(|table| table.name().to_owned()).collect();
    names.sort_unstable();
    let rows = |name: String| {
        let rows = database.transaction(|t| t.scan_dynamic(&name)).expect("a read");
        (name, rows)
    };
    names.into_iter().map(rows).collect()
}

fn in_memory(scheme: Scheme) -> Database {
    let database = Database::in_memory().scheme(scheme).open().expect("a database");
    database.create_described_table(built(plain("a"))).expect("a table");
    database
        .transaction(|t| (0..600).try_for_each(|id| t.insert_dynamic("a", &row(id, 7 * id % 100))))
        .expect("rows");
    database
}

/// All kinds of changes, mixed with rows.
fn change_all(t: &mut Transaction<'_>) -> Result<()> {
    t.create_described_table(built(plain("b")))?;
    t.insert_dynamic("b", &row(1, 1))?;
    t.insert_dynamic("a", &row(1000, -1))?;
    t.change_described_table(built(plain("a").index("by_n", ["n"])))?;
    assert_eq!(t.scan_dynamic("a")?.len(), 601);
    t.rename_table("b", "c")?;
    assert!(matches!(t.get_dynamic("b", &row(1, 1)[..1]), Err(Error::NoSuchTable(_))));
    t.insert_dynamic("c", &row(2, 2))?;
    t.rename_column("c", "n", "m")?;
    let wider = built(plain("a").column(ColumnDescription::new("s", ValueType::String).nullable()));
    t.change_described_table(wider)?;
    t.insert_dynamic("a", &[Datum::Signed(1001), Datum::Null, Datum::Text("x".into())])?;
    t.create_described_table(built(plain("gone")))?;
    t.insert_dynamic("gone", &row(5, 5))?;
    t.drop_table("gone")
}

fn check_changed(database: &Database) {
    let found = content(database);
    let names: Vec<_> = found.iter().map(|(name, rows)| (&**name, rows.len())).collect();
    assert_eq!(names, [("a", 602), ("c", 2)]);
    assert_eq!(found[0].1[601], [Datum::Signed(1001), Datum::Null, Datum::Text("x".into())]);
    assert_eq!(found[0].1[3], [Datum::Signed(3), Datum::Signed(21), Datum::Null]);
    let tables = database.tables();
    let c = tables.iter().find(|table| table.name() == "c").expect("it is there");
    assert_eq!(c.columns()[1].name, "m");
}

#[test]
fn all_or_nothing_in_memory() {
    for scheme in SCHEMES {
        let database = in_memory(scheme);
        let before = content(&database);
        for number in 0..3 {
            let failed = database.transaction(|t| {
                change_all(t)?;
                match number {
                    0 => Err(Error::RollBack),
                    _ => t.insert_dynamic("c", &row(2, 2)),
                }
            });
            assert!(matches!(failed, Err(Error::RollBack | Error::Duplicate { .. })), "{failed:?}");
            assert_eq!(content(&database), before, "{scheme:?}");
        }
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            database.transaction(|t| {
                change_all(t)?;
                if t.attempt() > 0 { panic!("of the program") } else { Ok(()) }
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(content(&database), before, "{scheme:?}");
        let mut open = database.begin().expect("a transaction");
        change_all(&mut open.verbs()).expect("changed");
        drop(open);
        assert_eq!(content(&database), before, "{scheme:?}");
        let mut open = database.begin().expect("a transaction");
        change_all(&mut open.verbs()).expect("changed");
        open.commit().expect("committed");
        check_changed(&database);
        // Nothing is held any more.
        database.transaction(|t| t.truncate_table("a")).expect("truncated");
        database.drop_table("a").expect("dropped");
        assert_eq!(content(&database).len(), 1);
    }
}

#[test]
fn savepoints_take_changes_of_tables_back() {
    for scheme in SCHEMES {
        let database = in_memory(scheme);
        database
            .transaction(|t| {
                let first = t.savepoint()?;
                t.create_described_table(built(plain("b")))?;
                t.insert_dynamic("b", &row(1, 1))?;
                let second = t.savepoint()?;
                t.drop_table("b")?;
                t.truncate_table("a")?;
                t.create_described_table(built(plain("c")))?;
                assert_eq!((t.scan_dynamic("a")?.len(), t.scan_dynamic("b").is_err()), (0, true));
                t.roll_back_to(second)?;
                assert_eq!((t.scan_dynamic("a")?.len(), t.scan_dynamic("b")?.len()), (600, 1));
                assert!(t.scan_dynamic("c").is_err());
                t.roll_back_to(first)?;
                assert!(t.scan_dynamic("b").is_err());
                // A row that the new form refuses.
                let unique = built(plain("a").unique_index("by_n", ["n"]));
                let refused = t.nested(|t| t.change_described_table(unique.clone()));
                assert!(matches!(refused, Err(Error::Duplicate { .. })), "{refused:?}");
                assert_eq!(t.scan_dynamic("a")?.len(), 600);
                t.nested(|t| t.create_described_table(built(plain("d"))))?;
                t.insert_dynamic("d", &row(4, 4))
            })
            .expect("committed");
        let names: Vec<_> = content(&database).into_iter().map(|(name, rows)| (name, rows.len())).collect();
        assert_eq!(names, [("a".to_owned(), 600), ("d".to_owned(), 1)], "{scheme:?}");
    }
}

#[test]
fn typed_tables_are_made_and_changed() {
    let (database, before) = people(Scheme::Silo, 30).expect("a database");
    let others = database
        .transaction(|t| {
            let others = t.create_table::<Person>("others")?;
            let rows = t.scan(before, ..10).collect()?;
            t.insert_all(others, rows)?;
            assert_eq!(t.scan(others.by(Person::BY_CITY), ..).count()?, 10);
            t.truncate_table("people")?;
            assert!(matches!(t.get(before, &3), Err(Error::NoSuchTable(_))));
            Ok(others)
        })
        .expect("committed");
    assert_eq!(all_people(&database, others).len(), 10);
    let after = database.table::<Person>("people").expect("a table");
    database.transaction(|t| t.insert(after, &person(1))).expect("inserted");
    assert_eq!(all_people(&database, after), [person(1)]);
}

#[test]
fn others_are_kept_out_until_the_end() {
    let hurried = TransactionOptions::new().lock_wait(Duration::from_millis(30));
    for scheme in SCHEMES {
        let database = in_memory(scheme);
        database.create_described_table(built(plain("other"))).expect("a table");
        // A transaction that began before is waited for, unless tables are only created.
        let mut earlier = database.begin().expect("a transaction");
        if scheme != Scheme::Hstore {
            earlier.verbs().get_dynamic("other", &row(1, 1)[..1]).expect("read");
        }
        let mut session = database.session().expect("a session");
        session.set_options(hurried.clone());
        let refused = session.transaction(|t| t.truncate_table("a"));
        assert!(matches!(refused, Err(Error::NotChanged { .. })), "{scheme:?}: {refused:?}");
        if scheme != Scheme::Hstore {
            session
                .transaction(|t| t.create_described_table(built(plain("b"))))
                .expect("nothing to wait for");
        }
        earlier.commit().expect("committed");

        // Later ones wait for the end.
        let mut open = session.begin().expect("a transaction");
        open.verbs().truncate_table("a").expect("truncated");
        open.verbs().insert_dynamic("a", &row(5, 5)).expect("inserted");
        std::thread::scope(|scope| {
            let database = &database;
            let use_table = move |options: TransactionOptions| {
                let mut session = database.session()?;
                session.with(options).transaction(|t| t.scan_dynamic("a").map(|rows| rows.len()))
            };
            let few = TransactionOptions::new().attempts(2);
            let refused = scope.spawn(move || use_table(few)).join().expect("no panic");
            assert!(matches!(refused, Err(Error::Conflict { .. })), "{scheme:?}: {refused:?}");
            if scheme != Scheme::Hstore {
                let untouched = scope
                    .spawn(move || database.transaction(|t| t.scan_dynamic("other").map(|rows| rows.len())));
                assert_eq!(untouched.join().expect("no panic"), Ok(0), "{scheme:?}");
            }
            let dropped = scope.spawn(|| {
                let mut session = database.session()?;
                session.with(TransactionOptions::new().attempts(2)).transaction(|t| t.drop_table("other"))
            });
            let dropped = dropped.join().expect("no panic");
            assert!(matches!(dropped, Err(Error::Conflict { .. })), "one at a time: {dropped:?}");
            let patient = TransactionOptions::new().lock_wait(Duration::from_secs(20));
            let waiting = scope.spawn(move || use_table(patient.without_deadline()));
            std::thread::sleep(Duration::from_millis(40));
            open.commit().expect("committed");
            assert_eq!(waiting.join().expect("no panic"), Ok(1), "{scheme:?}");
        });
    }
}

#[test]
fn constraints_are_kept_in_and_after_the_transaction() {
    let child = |name: &str| {
        let key = ForeignKey::new("parent", ["n"], "a", ["id"]);
        let constraints =
            Constraints::new().foreign_key(key).check("small", Expression::column("id").less(50));
        plain(name).index("by_n", ["n"]).constraints(constraints)
    };
    for scheme in SCHEMES {
        let database = in_memory(scheme);
        let mut earlier = (scheme != Scheme::Hstore).then(|| {
            let mut session = database.session().expect("a session");
            session.set_options(TransactionOptions::new().deadline(Duration::from_secs(50)));
            session.into_transaction().expect("a transaction")
        });
        drop(earlier.take());
        database
            .transaction(|t| {
                t.create_described_table(built(child("b")))?;
                let refused = t.nested(|t| t.insert_dynamic("b", &row(1, 9999)));
                assert!(matches!(refused, Err(Error::Constraint { .. })), "{refused:?}");
                t.insert_dynamic("b", &row(1, 7))?;
                let refused = t.nested(|t| t.delete_dynamic("a", &row(7, 7)[..1]));
                assert!(matches!(refused, Err(Error::Constraint { .. })), "{refused:?}");
                assert!(matches!(t.drop_table("a"), Err(Error::NotChanged { .. })));
                // The reference follows the name.
                t.rename_table("a", "parents")?;
                t.insert_dynamic("b", &row(2, 8))
            })
            .expect("committed");
        for key in [7, 8] {
            let refused = database.transaction(|t| t.delete_dynamic("parents", &row(key, 0)[..1]));
            assert!(matches!(refused, Err(Error::Constraint { .. })), "{scheme:?}: {refused:?}");
        }
        assert_eq!(database.transaction(|t| t.delete_dynamic("parents", &row(9, 0)[..1])), Ok(true));
        // A constraint that rows break leaves everything as it was.
        let before = content(&database);
        let own = Constraints::new().check("none", Expression::column("id").more(1));
        let refused = database.transaction(|t| {
            t.insert_dynamic("parents", &row(5000, 1))?;
            t.change_described_table(built(plain("b").constraints(own.clone())))
        });
        assert!(matches!(refused, Err(Error::Constraint { .. })), "{refused:?}");
        assert_eq!(content(&database), before);
        database.transaction(|t| t.change_described_table(built(plain("b")))).expect("without constraints");
        assert_eq!(database.transaction(|t| t.delete_dynamic("parents", &row(7, 0)[..1])), Ok(true));
    }
}

#[test]
fn the_next_opening_finds_what_was_committed() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("altering-{scheme:?}"));
        let open = || {
            let mut builder = Database::at(&directory.0).scheme(scheme);
            builder.tables_of_directory().expect("tables");
            builder.open().expect("a database")
        };
        let database = open();
        database.create_described_table(built(plain("a"))).expect("a table");
        database
            .transaction(|t| (0..600).try_for_each(|id| t.insert_dynamic("a", &row(id, 7 * id % 100))))
            .expect("rows");
        let rolled_back = database.transaction(|t| {
            change_all(t)?;
            Err::<(), _>(Error::RollBack)
        });
        assert_eq!(rolled_back, Err(Error::RollBack));
        let before = content(&database);
        drop(database);
        let database = open();
        assert_eq!(content(&database), before, "{scheme:?}");
        database.transaction(change_all).expect("committed");
        database.transaction(|t| t.create_described_table(built(plain("z")))).expect("committed");
        database.transaction(|t| t.drop_table("z")).expect("committed");
        database.checkpoint().expect("a checkpoint");
        drop(database);
        let database = open();
        check_changed(&database);
        database.close().expect("closed");
        check_changed(&open());
    }
}

/// A mutant: what is rolled back leaves its tables.
#[test]
fn tables_that_are_kept_after_a_roll_back_are_noticed() {
    let faults = terms::Faults::of(&[terms::Fault::KeptTables]);
    let database = Database::in_memory().with_faults(faults).open().expect("a database");
    let failed = database.transaction(|t| {
        t.create_described_table(built(plain("b")))?;
        Err::<(), _>(Error::RollBack)
    });
    assert_eq!((failed, content(&database).len()), (Err(Error::RollBack), 1));
}

/// Tables that come and go in one life of a database. `ISLES_TABLES=N` makes N of them; CI makes a
/// few.
#[test]
fn many_tables_come_and_go() {
    let count = std::env::var("ISLES_TABLES").ok().and_then(|count| count.parse().ok()).unwrap_or(200_u64);
    let directory = Directory::new("many-tables");
    let places = 3 * count as usize;
    for builder in [Database::in_memory(), Database::at(&directory.0)] {
        let database = builder.spare_tables(places).open().expect("a database");
        let mut used = 0;
        for number in 0..count {
            let name = format!("t{number}");
            if number % 2 == 0 {
                database
                    .transaction(|t| {
                        t.create_described_table(built(plain(&name)))?;
                        t.insert_dynamic(&name, &row(1, 1))
                    })
                    .expect("made");
                database.transaction(|t| t.drop_table(&name)).expect("dropped");
            } else {
                database.create_described_table(built(plain(&name))).expect("made");
                database.transaction(|t| t.insert_dynamic(&name, &row(1, 1))).expect("inserted");
                database.drop_table(&name).expect("dropped");
            }
            if number % 40 == 0 {
                database.checkpoint().expect("a checkpoint");
            }
            if number == count / 2 {
                used = database.memory_in_use();
            }
        }
        assert!(database.tables().is_empty());
        let grown = database.memory_in_use().saturating_sub(used);
        assert!(grown < 8192 * (count / 2 + 8), "{grown} bytes for {} tables", count / 2);
    }
    // The manifest forgets tables whose rows a checkpoint has passed over.
    let bytes = std::fs::metadata(directory.0.join("isles.manifest")).expect("a manifest").len();
    assert!(bytes < 40_000, "the manifest has {bytes} bytes");
}
