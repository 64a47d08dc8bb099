//! Every incorrect use has a typed error, after which nothing of the transaction remains and the
//! database is usable.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use crate::common::{Person, SCHEMES, all_people, declare, people, person};
use isles::{
    CancelToken, Database, Error, Row, SESSIONS_MAX, Scheme, Table, TableOptions, TransactionOptions,
};

/// Runs a transaction that fails after it has written, and checks that nothing remains.
fn fails(
    database: &Database,
    people: Table<Person>,
    body: impl Fn(&mut isles::Transaction<'_>) -> isles::Result<()>,
) -> Error {
    let before = all_people(database, people);
    let mut session = database.session().expect("a session");
    let outcome = session.transaction(|t| {
        t.insert(people, &person(900))?;
        t.update(people, &1, |row| row.age = 99)?;
        t.delete(people, &2)?;
        body(t)
    });
    let error = outcome.expect_err("the transaction fails");
    assert_eq!(all_people(database, people), before, "nothing remains after {error}");
    assert_eq!(session.transaction(|t| t.get(people, &1)), Ok(Some(person(1))), "the session is usable");
    error
}

#[test]
fn duplicates_name_table_index_and_key() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let error = fails(&database, people, |t| t.insert(people, &person(5)));
        assert_eq!(
            error,
            Error::Duplicate { table: "people".into(), index: "primary key".into(), key: Some("5".into()) }
        );
        let error = fails(&database, people, |t| t.insert(people, &Person { id: 77, ..person(5) }));
        assert_eq!(
            error,
            Error::Duplicate {
                table: "people".into(),
                index: "by_email".into(),
                key: Some("\"p5@isles\"".into())
            }
        );
        let error = fails(&database, people, |t| t.insert(people, &person(900)));
        assert_eq!(
            error,
            Error::Duplicate { table: "people".into(), index: "primary key".into(), key: Some("900".into()) }
        );
        let error = fails(&database, people, |t| t.update(people, &3, |row| row.id = 4).map(drop));
        assert_eq!(
            error,
            Error::Duplicate { table: "people".into(), index: "primary key".into(), key: Some("4".into()) }
        );
        let words = error.to_string();
        assert!(words.starts_with("people has a row with the key 4 in primary key already"), "{words}");
        // Earlier reads of the transaction do not change the error.
        let error = fails(&database, people, |t| {
            let last = t.scan(people, ..100).reverse().first()?.map_or(0, |row| row.id);
            t.insert(people, &person(last))
        });
        assert_eq!(
            error,
            Error::Duplicate { table: "people".into(), index: "primary key".into(), key: Some("19".into()) }
        );
    }
}

#[test]
fn swallowed_errors_do_not_commit() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let error = fails(&database, people, |t| {
            let first = t.insert(people, &person(5));
            assert_eq!(t.get(people, &1).map(drop), first, "no verb follows a failure");
            Ok(())
        });
        assert_eq!(
            error,
            Error::Duplicate { table: "people".into(), index: "primary key".into(), key: Some("5".into()) }
        );
    }
}

#[test]
fn own_decisions_roll_back() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        No(u32),
        Database(Error),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Self {
            Mine::Database(error)
        }
    }
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        assert_eq!(fails(&database, people, |_| Err(Error::RollBack)), Error::RollBack);
        let mut session = database.session().expect("a session");
        let outcome = session.try_transaction(|t| {
            let row = t.delete(people, &3)?.ok_or(Mine::No(0))?;
            if row.age > 0 { Err(Mine::No(row.age)) } else { Ok(()) }
        });
        assert_eq!(outcome, Err(Mine::No(23)));
        assert_eq!(session.stats().rollbacks, 1);
        let outcome = session.try_transaction(|t| t.insert(people, &person(3)).map_err(Mine::from));
        assert_eq!(
            outcome,
            Err(Mine::Database(Error::Duplicate {
                table: "people".into(),
                index: "primary key".into(),
                key: Some("3".into())
            }))
        );
        assert_eq!(all_people(&database, people).len(), 20);
    }
}

#[test]
fn panics_roll_back() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            session.transaction(|t| {
                t.scan(people, ..).delete()?;
                t.insert(people, &person(70))?;
                std::panic::resume_unwind(Box::new("the program's own"));
                #[allow(unreachable_code)]
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(session.transaction(|t| t.scan(people, ..).count()), Ok(20), "the session is usable");
        assert_eq!(all_people(&database, people).len(), 20);
    }
}

#[test]
fn key_columns_do_not_change_as_fields() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let error = fails(&database, people, |t| t.set_field(people, &3, Person::CITY, &9).map(drop));
        assert!(matches!(error, Error::Misuse(what) if what.contains("key column")), "{error}");
    }
}

#[test]
fn keys_are_inserted_deleted_and_inserted_in_one_transaction() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        session
            .transaction(|t| {
                t.insert(people, &person(900))?;
                t.delete(people, &900)?;
                t.insert(people, &person(900))?;
                t.update(people, &900, |row| row.city += 1).map(drop)
            })
            .expect("it commits");
        let row = session.transaction(|t| t.get(people, &900)).expect("read").expect("there");
        assert_eq!(row.city, person(900).city + 1);
    }
}

#[test]
fn tables_belong_to_one_database() {
    for scheme in SCHEMES {
        let (database, table) = people(scheme, 20).expect("a database");
        let (_other, others) = people(scheme, 20).expect("a database");
        for error in [
            fails(&database, table, |t| t.get(others, &3).map(drop)),
            fails(&database, table, |t| t.insert(others, &person(50))),
            fails(&database, table, |t| t.scan(others.by(Person::BY_CITY), ..).count().map(drop)),
            fails(&database, table, |t| t.scan(others, ..).delete().map(drop)),
        ] {
            assert!(matches!(error, Error::Misuse(what) if what.contains("another database")), "{error}");
        }
    }
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_both(id, place)))]
struct Hashed {
    id: u64,
    place: u16,
}

#[test]
fn hash_indexes_have_no_order() {
    for scheme in SCHEMES {
        let mut builder = Database::in_memory().scheme(scheme);
        let options = TableOptions::new().hash(Hashed::KEY).expected_rows(10);
        let table = builder.table_with("hashed", options);
        let database = builder.open().expect("a database");
        let mut session = database.session().expect("a session");
        let outcome = session.transaction(|t| {
            (0..1000).try_for_each(|id| t.insert(table, &Hashed { id, place: 3 }))?;
            assert_eq!(t.get(table, &999)?, Some(Hashed { id: 999, place: 3 }));
            assert!(!t.exists(table, &1000)?);
            t.scan(table.by(Hashed::BY_BOTH), ..).count()
        });
        assert_eq!(outcome, Ok(1000));
        let error = session.transaction(|t| t.scan(table, ..).count()).expect_err("a hash index");
        assert!(matches!(error, Error::Misuse(what) if what.contains("hash index")), "{error}");
    }
}

#[test]
fn wrong_declarations_do_not_open() {
    let reason = |error: Error| match error {
        Error::Declaration { table, reason } if table == "people" => reason,
        other => panic!("{other}"),
    };
    let mut builder = Database::in_memory();
    let _first = builder.table::<Hashed>("people");
    let _second = builder.table::<Person>("people");
    assert!(reason(builder.open().expect_err("two tables")).contains("name"));

    let mut builder = Database::in_memory();
    builder.table_with::<Person>("people", TableOptions::new().hash(Person::BY_EMAIL));
    let text = reason(builder.open().expect_err("a long key"));
    assert!(text.contains("by_email") && text.contains("24 bytes"), "{text}");

    #[derive(Row)]
    #[row(key(id))]
    struct Long {
        id: u64,
        filling: [u64; 5000],
    }
    let mut builder = Database::in_memory();
    builder.table::<Long>("people");
    let text = reason(builder.open().expect_err("a long row"));
    assert!(text.contains("40008 bytes") && text.contains("32760"), "{text}");

    let mut builder = Database::in_memory();
    builder.table_with::<Person>("people", TableOptions::new().expected_rows(u64::MAX));
    assert!(reason(builder.open().expect_err("too many rows")).contains("rows are expected"));

    for sessions in [0, SESSIONS_MAX + 1] {
        assert!(matches!(Database::in_memory().sessions(sessions).open(), Err(Error::Misuse(_))));
    }
    let mut builder = Database::in_memory().memory_limit(1);
    builder.table::<Person>("people");
    assert!(matches!(builder.open(), Err(Error::OutOfMemory { .. })));
}

#[test]
fn the_deadline_ends_long_transactions() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 100).expect("a database");
        let mut session = database.session().expect("a session");
        let soon = TransactionOptions::new().deadline(Duration::from_millis(2));
        let outcome = session.with(soon).transaction(|t| {
            t.delete(people, &1)?;
            loop {
                t.scan(people, ..).count()?;
            }
            #[allow(unreachable_code)]
            Ok(())
        });
        assert_eq!(outcome, Err(Error::Deadline));
        // The deadline is checked before the commit too.
        let soon = TransactionOptions::new().deadline(Duration::ZERO);
        assert_eq!(session.with(soon).transaction(|t| t.delete(people, &1)), Err(Error::Deadline));
        session.set_options(TransactionOptions::new().without_deadline());
        assert_eq!(session.transaction(|t| t.scan(people, ..).count()), Ok(100));
    }
}

#[test]
fn another_thread_cancels_a_transaction() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 100).expect("a database");
        let token = CancelToken::new();
        std::thread::scope(|scope| {
            let running = CancelToken::new();
            let (ours, started) = (token.clone(), running.clone());
            scope.spawn(move || {
                while !started.is_cancelled() {
                    std::thread::yield_now();
                }
                ours.cancel();
            });
            let mut session = database.session().expect("a session");
            session.set_options(TransactionOptions::new().without_deadline().cancel(&token));
            let outcome = session.transaction(|t| {
                t.delete(people, &1)?;
                running.cancel();
                loop {
                    t.scan(people, ..).for_each(|_| std::ops::ControlFlow::Continue(()))?;
                }
                #[allow(unreachable_code)]
                Ok(())
            });
            assert_eq!(outcome, Err(Error::Cancelled));
            assert_eq!(session.transaction(|_| Ok(())), Err(Error::Cancelled), "a token stays set");
            session.set_options(TransactionOptions::new());
            assert_eq!(session.transaction(|t| t.scan(people, ..).count()), Ok(100));
        });
        // Cancelled in the body itself: the commit does not happen.
        let own = CancelToken::new();
        let mut session = database.session().expect("a session");
        let outcome = session.with(TransactionOptions::new().cancel(&own)).transaction(|t| {
            t.delete(people, &1)?;
            own.cancel();
            Ok(())
        });
        assert_eq!(outcome, Err(Error::Cancelled));
        assert_eq!(all_people(&database, people).len(), 100);
    }
}

#[test]
fn more_threads_than_sessions_wait_for_one() {
    const THREADS: u64 = 12;
    for scheme in [Scheme::Silo, Scheme::NoWait] {
        let builder = Database::in_memory().scheme(scheme).sessions(2);
        let (database, people) = declare(builder).expect("a database");
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let database = &database;
                scope.spawn(move || {
                    for round in 0..100 {
                        let new = person(number * 100 + round);
                        assert_eq!(database.transaction(|t| t.insert(people, &new)), Ok(()));
                    }
                });
            }
        });
        assert_eq!(all_people(&database, people).len() as u64, THREADS * 100);
    }
}

#[test]
fn sessions_are_limited_and_come_back() {
    for scheme in SCHEMES {
        let database = Database::in_memory().scheme(scheme).sessions(2).open().expect("a database");
        let first = database.session().expect("the first");
        let second = database.session().expect("the second");
        let error = database.session().err();
        assert_eq!(error, Some(Error::TooManySessions { limit: 2 }));
        let short = Duration::from_millis(2);
        assert_eq!(database.session_within(short).err(), Some(Error::TooManySessions { limit: 2 }));
        drop(first);
        assert_eq!(database.transaction(|_| Ok(())), Ok(()));
        let third = database.session().expect("a place came back");
        drop((second, third));
    }
}

/// Transactions do not nest within a thread.
fn in_another_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(body).join().expect("no panic"))
}

#[test]
fn conflicts_end_after_the_attempts_allowed() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 10).expect("a database");
        let (mut one, mut two) =
            (database.session().expect("a session"), database.session().expect("a session"));
        let few = TransactionOptions::new().attempts(3);
        let mut attempts = 0;
        // The inner transaction commits between the outer one's read and its write: the outer one
        // can never commit under optimistic schemes, and the inner one never under those that lock.
        let outcome = one.with(few.clone()).transaction(|t| {
            attempts = t.attempt();
            let age = t.get_field(people, &1, Person::AGE)?.unwrap_or(0);
            in_another_thread(|| {
                two.with(few.clone()).transaction(|t| t.set_field(people, &1, Person::AGE, &(age + 1)))
            })?;
            t.set_field(people, &1, Person::AGE, &(age + 10))
        });
        let error = outcome.expect_err("a conflict");
        assert!(matches!(error, Error::Conflict { attempts: 3, .. }), "{error}");
        assert!(error.is_transient());
        let aged = all_people(&database, people)[1].age - person(1).age;
        match scheme {
            Scheme::Silo | Scheme::TicToc | Scheme::Occ | Scheme::Mvcc => {
                assert_eq!((attempts, aged), (3, 3))
            }
            // The inner error is the outer body's decision: it rolls back, once.
            _ => assert_eq!((attempts, aged), (1, 0)),
        }
    }
}

#[test]
fn decisions_on_outdated_reads_are_retried() {
    let (database, people) = people(Scheme::Silo, 10).expect("a database");
    let (mut one, mut two) = (database.session().expect("a session"), database.session().expect("a session"));
    // The first attempt reads that person 1 is young, which is outdated when it decides.
    let outcome = one.transaction(|t| {
        let age = t.get_field(people, &1, Person::AGE)?.unwrap_or(0);
        if t.attempt() == 1 {
            in_another_thread(|| two.transaction(|t| t.set_field(people, &1, Person::AGE, &70)))?;
        }
        if age < 70 { Err(Error::RollBack) } else { Ok(age) }
    });
    assert_eq!(outcome, Ok(70));
    // The same for a key that was computed from outdated reads.
    let outcome = one.transaction(|t| {
        let next = t.scan(people, ..).reverse().first()?.map_or(0, |row| row.id + 1);
        if t.attempt() == 1 {
            in_another_thread(|| two.transaction(|t| t.insert(people, &person(next))))?;
        }
        t.insert(people, &person(next)).map(|()| next)
    });
    assert_eq!(outcome, Ok(11));
}

#[test]
fn a_scheme_that_is_not_compiled_in_names_the_feature() {
    let words = Error::NotCompiled { scheme: Scheme::TicToc.name() }.to_string();
    assert!(
        words.starts_with("scheme tictoc is not compiled in") && words.contains("all-schemes"),
        "{words}"
    );
}

#[test]
fn closures_may_return_errors_of_any_type_that_is_made_from_the_librarys() {
    let mut builder = Database::in_memory();
    let people = builder.table::<Person>("people");
    let database = builder.open().expect("a database");
    type AnyError = Box<dyn std::error::Error>;
    let parsed = database.try_transaction(|t| -> Result<u64, AnyError> {
        t.insert(people, &person(1))?;
        Ok("x".parse::<u64>()?)
    });
    assert_eq!(parsed.expect_err("no number").to_string(), "invalid digit found in string");
    let absent = database.try_transaction(|t| -> Result<bool, AnyError> { Ok(t.exists(people, &1)?) });
    assert!(!absent.expect("a commit"), "the error rolled the insertion back");
}
