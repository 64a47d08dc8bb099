//! Mistakes of programs around transactions: each has a clear error, and no data are lost.
#![allow(clippy::disallowed_methods)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::common::{Directory, Person, SCHEMES, all_people, person};
use isles::{Builder, Database, Datum, Error, OpenReason, RowError, Scheme, Table, TransactionOptions};

/// Another program's rows, under the same name.
#[derive(isles::Row)]
#[row(key(id))]
struct Stranger {
    id: u32,
    age: i64,
}

#[test]
fn tables_of_another_program_are_refused_and_stay() {
    let directory = Directory::new("another-program");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    database.transaction(|t| (0..20).try_for_each(|id| t.insert(people, &person(id)))).expect("inserted");
    let expected = all_people(&database, people);
    assert!(matches!(database.table::<Stranger>("people"), Err(Error::NoSuchTable(_))));
    assert_eq!(database.close(), Ok(()));
    let refused = |declare: &dyn Fn(&mut Builder)| {
        let mut builder = Database::at(&directory.0);
        declare(&mut builder);
        match builder.open() {
            Err(Error::Open { reason: OpenReason::OtherTables, source }) => source.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let other_rows = refused(&|builder| {
        builder.table::<Stranger>("people");
    });
    assert!(other_rows.contains("people"), "{other_rows}");
    let other_names = refused(&|builder| {
        builder.table::<Stranger>("strangers");
    });
    assert!(other_names.contains("people") && other_names.contains("drop_table"), "{other_names}");
    let none = refused(&|_| ());
    assert!(none.contains("people"), "{none}");
    let (database, people) = directory.open(Scheme::Silo).expect("nothing was lost");
    assert_eq!(all_people(&database, people), expected);
}

#[test]
fn invalid_values_do_not_end_the_transaction() {
    for scheme in SCHEMES {
        let (database, people) = crate::common::people(scheme, 3).expect("a database");
        let number = |value: u64| Datum::Unsigned(value);
        let text = |bytes: usize| Datum::Text("x".repeat(bytes));
        let row = |email: Datum, city: Datum| {
            let scores = Datum::List(vec![Datum::Signed(1); 3]);
            vec![number(77), email, city, number(4), scores, Datum::Bytes(vec![1])]
        };
        let inserted = database.transaction(|t| {
            let mut refused = |values: &[Datum]| match t.insert_dynamic("people", values) {
                Err(Error::Row(error)) => error,
                other => panic!("{other:?}"),
            };
            // A key that is longer than its column, one out of range, one of another type, and a
            // row that is too short.
            assert!(matches!(refused(&row(text(25), number(1))), RowError::Range { column, .. } if column == "email"));
            assert!(matches!(refused(&row(text(4), number(70_000))), RowError::Range { column, .. } if column == "city"));
            assert!(matches!(refused(&row(text(4), text(1))), RowError::Type { column, .. } if column == "city"));
            assert!(matches!(refused(&row(text(4), number(1))[1..]), RowError::Count { .. }));
            assert!(matches!(t.get_dynamic("people", &[text(1)]), Err(Error::Row(_))));
            assert!(matches!(t.get_dynamic("people", &[]), Err(Error::Row(_))));
            assert!(matches!(t.get_dynamic("peoples", &[number(1)]), Err(Error::NoSuchTable(_))));
            t.insert_dynamic("people", &row(text(24), number(1)))
        });
        assert_eq!(inserted, Ok(()), "{scheme:?}");
        assert_eq!(all_people(&database, people).len(), 4);
    }
}

#[test]
fn a_directory_that_cannot_be_created_is_denied() {
    // No user, not even root, can create directories here.
    for path in ["/sys/isles-no-directory", "/sys/kernel/isles/none"] {
        let refusal = Database::at(path).open();
        let Err(Error::Open { reason, source }) = &refusal else { panic!("{refusal:?}") };
        assert!(matches!(reason, OpenReason::Denied | OpenReason::Files), "{reason:?}: {source}");
        assert!(source.to_string().contains("/sys/"), "{source}");
    }
}

#[test]
fn panics_lose_no_acknowledged_commit() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("panics-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let mut session = database.session().expect("a session");
        session.transaction(|t| t.insert(people, &person(1))).expect("inserted");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            session.transaction(|t| {
                t.insert(people, &person(2))?;
                t.delete(people, &1)?;
                resume_unwind(Box::new("the program's own"));
                #[allow(unreachable_code)]
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        // A transaction object on a thread that panics.
        let mut open = database.begin().expect("begun");
        let panicked = std::thread::spawn(move || {
            open.insert(people, &person(3)).expect("inserted");
            resume_unwind(Box::new("the program's own"));
        });
        assert!(panicked.join().is_err());
        session.transaction(|t| t.insert(people, &person(4))).expect("the session goes on");
        let now = database.statistics();
        assert_eq!((now.sessions, now.transactions.commits), (1, 2), "{scheme:?}");
        drop(session);
        assert_eq!(database.close(), Ok(()), "no thread has it any more");
        let (database, people) = directory.open(scheme).expect("a database");
        let ids: Vec<u64> = all_people(&database, people).iter().map(|person| person.id).collect();
        assert_eq!(ids, [1, 4], "{scheme:?}");
    }
}

/// Changes all rows in one attempt.
fn change_all(database: &Database, people: Table<Person>) -> isles::Result<u64> {
    let mut session = database.session()?;
    let once = TransactionOptions::new().attempts(1);
    session.with(once).transaction(|t| t.scan(people, ..).update(|person| person.age += 1))
}

#[test]
fn sessions_dropped_in_a_transaction_keep_no_locks() {
    for scheme in SCHEMES {
        let (database, people) = crate::common::people(scheme, 10).expect("a database");
        let expected = all_people(&database, people);
        for _ in 0..3 {
            let mut open = database.begin().expect("begun");
            open.scan(people, ..).delete().expect("deleted");
            open.insert(people, &person(50)).expect("inserted");
            drop(open);
            assert_eq!(all_people(&database, people), expected, "{scheme:?}");
            let mut session = database.session().expect("a session");
            let mut open = session.begin().expect("begun");
            open.set_field(people, &1, Person::AGE, &99).expect("set");
            drop(open);
            drop(session);
        }
        assert_eq!(change_all(&database, people), Ok(10), "{scheme:?}: nothing is locked");
        assert_eq!(database.statistics().sessions, 0);
    }
}

#[test]
fn a_clone_keeps_the_database_open() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("kept-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let kept = [database.clone(), database.clone()];
        let refusal = database.close();
        assert_eq!(refusal, Err(Error::InUse { sessions: 0, transactions: 0, tickets: 0, clones: 2 }));
        let [one, two] = kept;
        one.transaction(|t| t.insert(people, &person(1))).expect("it is open");
        drop(one);
        assert_eq!(two.close(), Ok(()));
        let (database, people) = directory.open(scheme).expect("a database");
        assert_eq!(all_people(&database, people), [person(1)]);
    }
}
