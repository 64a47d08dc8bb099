//! Tables that are created and dropped while the database is open.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Directory, Person, SCHEMES, all_people, people, person};
use isles::{Database, Datum, Error, OpenReason, Result, Row, Scheme, Table, TableOptions};

fn count<R: Row>(database: &Database, table: Table<R>) -> Result<u64> {
    database.transaction(|t| t.scan(table, ..).count())
}

#[test]
fn tables_are_created_and_dropped_in_memory() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        for round in 0..5 {
            let others = database.create_table::<Person>("others").expect("a table");
            assert_eq!(
                database.table::<Person>("others").map(|table| format!("{table:?}")),
                Ok(format!("{others:?}"))
            );
            session
                .transaction(|t| {
                    let rows = t.scan(people, ..).collect()?;
                    t.insert_all(others, rows)?;
                    t.delete(others, &(round as u64)).map(drop)
                })
                .expect("copied");
            assert_eq!(all_people(&database, others).len(), 19);
            let names: Vec<_> = database.tables().iter().map(|table| table.name()).collect();
            assert_eq!(names, ["people", "others"]);
            let again = database.create_table::<Person>("others").map(drop);
            assert!(matches!(again, Err(Error::Declaration { .. })), "{again:?}");

            assert_eq!(database.drop_table("others"), Ok(()));
            let gone = session.transaction(|t| t.get(others, &1));
            assert!(
                matches!(&gone, Err(Error::NoSuchTable(what)) if what.contains("others was dropped")),
                "{gone:?}"
            );
            for outcome in [
                session.transaction(|t| t.scan(others, ..).count().map(drop)),
                session.transaction(|t| t.insert(others, &person(90))),
                session.transaction(|t| t.get_dynamic("others", &[Datum::Unsigned(1)]).map(drop)),
                session.transaction(|t| t.get_many(others, [1]).map(drop)),
                database.table::<Person>("others").map(drop),
                database.drop_table("others"),
            ] {
                assert!(matches!(outcome, Err(Error::NoSuchTable(_))), "{outcome:?}");
            }
            // A transaction that does not use the table continues.
            let outcome = session.transaction(|t| match t.get(others, &1) {
                Err(Error::NoSuchTable(_)) => t.get(people, &1),
                other => other,
            });
            assert_eq!(outcome, Ok(Some(person(1))));
        }
        assert_eq!(all_people(&database, people).len(), 20);
        assert!(session.transaction(|_| Ok(database.drop_table("people"))).expect("run").is_err(), "nested");
    }
}

#[test]
fn the_next_opening_finds_created_and_dropped_tables() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("changing-{scheme:?}"));
        let (database, _) = directory.open(scheme).expect("a database");
        let visits = database.create_table::<Person>("visits").expect("a table");
        database.transaction(|t| t.insert(visits, &person(3))).expect("inserted");
        assert_eq!(database.drop_table("people"), Ok(()));
        database.checkpoint().expect("a checkpoint");
        let drafts = database.create_table::<Person>("drafts").expect("a table");
        database.transaction(|t| t.insert(drafts, &person(4))).expect("inserted");
        drop(database);

        let Err(Error::Open { reason: OpenReason::OtherTables, source }) = directory.open(scheme) else {
            panic!()
        };
        assert!(source.to_string().contains("visits"), "{source}");
        let mut builder = Database::at(&directory.0).scheme(scheme);
        let visits = builder.table::<Person>("visits");
        assert_eq!(builder.tables_of_directory(), Ok(vec!["drafts".to_owned()]));
        let database = builder.open().expect("with both");
        let drafts = database.table::<Person>("drafts").expect("it is there");
        assert_eq!(
            (all_people(&database, visits), all_people(&database, drafts)),
            (vec![person(3)], vec![person(4)])
        );
        // The name is free, for other rows too.
        let people = database.create_table::<Visit>("people").expect("a table");
        database.transaction(|t| t.insert(people, &Visit { id: 1, page: 2 })).expect("inserted");
        assert_eq!(database.drop_table("drafts"), Ok(()));
        assert_eq!(database.close(), Ok(()));
        let checked = Database::check(&directory.0).expect("whole");
        assert_eq!(checked.tables, [("visits".to_owned(), 1), ("people".to_owned(), 1)]);
    }
}

#[derive(Row, Debug, PartialEq)]
#[row(key(id))]
struct Visit {
    id: u64,
    page: u32,
}

#[test]
fn spare_tables_are_limited() {
    let database = Database::in_memory().spare_tables(2).open().expect("a database");
    let hashed = TableOptions::new().hash(Visit::KEY).expected_rows(1_000);
    let first = database.create_table_with::<Visit>("first", hashed).expect("a table");
    database.transaction(|t| t.insert(first, &Visit { id: 1, page: 2 })).expect("inserted");
    assert_eq!(database.drop_table("first"), Ok(()));
    database.create_table::<Visit>("second").expect("a table");
    let Err(Error::Declaration { table, reason }) = database.create_table::<Visit>("third") else { panic!() };
    assert!(table == "third" && reason.contains("spare_tables"), "{reason}");
    let none = Database::in_memory().spare_tables(0).open().expect("a database");
    assert!(matches!(none.create_table::<Visit>("first"), Err(Error::Declaration { .. })));
    assert!(matches!(Database::in_memory().spare_tables(50_000).open(), Err(Error::Misuse(_))));
}

/// An earlier transaction continues to read, and its commit fails if it has changed the dropped
/// table.
#[test]
fn earlier_transactions_of_a_dropped_table_end() {
    for scheme in [Scheme::Silo, Scheme::NoWait, Scheme::Mvcc] {
        let directory = Directory::new(&format!("changing-open-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        database.transaction(|t| (0..9).try_for_each(|id| t.insert(people, &person(id)))).expect("inserted");
        let kept = database.create_table::<Person>("kept").expect("a table");
        let mut reads = database.begin().expect("begun");
        let mut writes = database.begin().expect("begun");
        assert_eq!(reads.get(people, &1), Ok(Some(person(1))));
        writes.insert(people, &person(50)).expect("inserted");
        writes.insert(kept, &person(51)).expect("inserted");
        assert_eq!(database.drop_table("people"), Ok(()));
        assert!(matches!(reads.get(people, &2), Err(Error::NoSuchTable(_))));
        let refused = writes.commit().map(drop);
        assert!(matches!(&refused, Err(Error::Misuse(what)) if what.contains("dropped")), "{refused:?}");
        drop(reads);
        assert_eq!(count(&database, kept), Ok(0), "nothing of the transaction is left");
        // Sessions remove the remaining rows while they run transactions.
        let mut session = database.session().expect("a session");
        for _ in 0..400 {
            session.transaction(|t| t.upsert(kept, &person(1)).map(drop)).expect("changed");
        }
        drop(session);
        assert_eq!(database.close(), Ok(()));
        assert_eq!(Database::check(&directory.0).expect("whole").tables, [("kept".to_owned(), 1)]);
    }
}

#[test]
fn other_sessions_continue_while_tables_are_created_and_dropped() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 4).expect("a database");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..2)
                .map(|user| {
                    let (database, over) = (&database, &over);
                    scope.spawn(move || {
                        let (mut session, mut changes) = (database.session().expect("a session"), 0);
                        while !over.load(Ordering::SeqCst) {
                            let Ok(table) = database.table::<Person>("coming") else { continue };
                            let outcome = session.transaction(|t| {
                                t.upsert(table, &person(1_000 + user))?;
                                t.update(people, &user, |row| row.age += 1)
                            });
                            match outcome {
                                Ok(_) => changes += 1,
                                Err(Error::NoSuchTable(_)) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        changes
                    })
                })
                .collect();
            for _ in 0..30 {
                let table = database.create_table::<Person>("coming").expect("a table");
                database.transaction(|t| t.insert(table, &person(1))).expect("inserted");
                assert_eq!(database.drop_table("coming"), Ok(()));
            }
            over.store(true, Ordering::SeqCst);
            for (user, changes) in users.into_iter().enumerate() {
                let changes: u32 = changes.join().expect("no panic");
                let row =
                    database.transaction(|t| t.get(people, &(user as u64))).expect("read").expect("there");
                assert_eq!(row.age, person(user as u64).age + changes);
            }
        });
        assert_eq!(all_people(&database, people).len(), 4);
    }
}
