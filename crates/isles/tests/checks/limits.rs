//! Limits of memory and of rows in one transaction.

use crate::common::{SCHEMES, all_people, declare, person};
use isles::{Database, Error, Row, Scheme};

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
        assert_eq!(all_people(&database, people).len() as u64, rows);
        // Each round deletes from one end of the keys and inserts at the other, more in all than
        // the database can hold. The rounds insert less than was there before, because nodes of
        // indexes that grow again are not as full as they were.
        let (mut first, mut last) = (0, rows);
        for _ in 0..6 {
            let deleted = session.transaction(|t| t.scan(people, first..).limit(rows / 2).delete());
            first += deleted.expect("deleting needs no memory");
            for _ in 0..rows / 4 {
                let inserted = session.transaction(|t| t.insert(people, &person(last)));
                assert_eq!(inserted, Ok(()), "row {last} after {first}..{rows}");
                last += 1;
            }
        }
        assert_eq!(all_people(&database, people).len() as u64, last - first);
    }
}

#[test]
fn a_transaction_has_a_limit_of_rows() {
    #[derive(Row)]
    #[row(key(id))]
    struct Tiny {
        id: u64,
    }
    // One scheme of each kind: schemes of a kind share the list of their rows.
    for scheme in [Scheme::Silo, Scheme::NoWait, Scheme::Hstore] {
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
