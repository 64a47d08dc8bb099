//! Limits of memory and of rows in one transaction.
#![allow(missing_docs)]

mod common;

use common::{SCHEMES, declare, everybody, person};
use isles::{Database, Error, Row};

#[test]
fn a_full_database_stays_usable() {
    for scheme in SCHEMES {
        let limit = 1 << 20;
        let builder = Database::in_memory().scheme(scheme).memory_limit(limit);
        let (database, people) = declare(builder).expect("a database");
        let mut session = database.session().expect("a session");
        let mut rows = 0;
        let error = loop {
            match session.transaction(|t| t.insert(people, &person(rows))) {
                Ok(()) => rows += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert!(rows > 1_000 && database.memory_bytes() <= limit);
        assert_eq!(everybody(&database, people).len() as u64, rows);
        // Replacing texts of the same length needs memory that comes back.
        for round in 0..10 {
            let changed = session.transaction(|t| {
                t.update(people, &39, |row| row.notes.fill(round)).map(|found| found.is_some())
            });
            assert_eq!(changed, Ok(true));
        }
        for _ in 0..3 {
            assert_eq!(session.transaction(|t| t.scan(people, ..rows / 2).delete()), Ok(rows / 2));
            // The memory of the deleted rows serves for new ones.
            for id in 0..rows / 2 {
                assert_eq!(
                    session.transaction(|t| t.insert(people, &person(id))),
                    Ok(()),
                    "row {id} of {rows}"
                );
            }
        }
        assert_eq!(everybody(&database, people).len() as u64, rows);
    }
}

#[test]
fn a_transaction_has_so_many_rows() {
    #[derive(Row)]
    #[row(key(id))]
    struct Tiny {
        id: u64,
    }
    for scheme in SCHEMES {
        let mut builder = Database::in_memory().scheme(scheme);
        let table = builder.table::<Tiny>("tiny");
        let database = builder.open().expect("a database");
        let mut session = database.session().expect("a session");
        let mut inserted = 0u64;
        let outcome = session.transaction(|t| {
            for id in 0.. {
                t.insert(table, &Tiny { id })?;
                inserted += 1;
            }
            Ok(())
        });
        assert_eq!(outcome, Err(Error::TooLarge { limit: inserted as usize }));
        assert_eq!(session.transaction(|t| t.scan(table, ..).count()), Ok(0), "nothing remains");
        assert_eq!(session.transaction(|t| t.insert(table, &Tiny { id: 1 })), Ok(()));
    }
}
