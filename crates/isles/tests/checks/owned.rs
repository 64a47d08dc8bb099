//! Sessions and transactions that are kept in structs, sent to other threads, and dropped.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::common::{Directory, Person, SCHEMES, all_people, people, person};
use isles::{
    CancelToken, Database, Error, OpenReason, OpenTransaction, OwnedTransaction, Scheme, Session, Table,
    Ticket, TransactionOptions,
};

#[test]
fn handles_are_owned() {
    fn is_owned<T: Send + 'static>() {}
    is_owned::<Session>();
    is_owned::<OwnedTransaction>();
    is_owned::<OpenTransaction<'static>>();
    is_owned::<Ticket>();
}

/// State of a server: nothing in it borrows.
struct Server {
    pool: std::sync::Mutex<Vec<Session>>,
    people: Table<Person>,
}

impl Server {
    fn serve(&self, id: u64) -> isles::Result<()> {
        let mut session = self.pool.lock().expect("no panic").pop().expect("a session for each thread");
        let outcome = session.transaction(|t| t.update(self.people, &id, |row| row.age += 1));
        self.pool.lock().expect("no panic").push(session);
        outcome.map(drop)
    }
}

#[test]
fn a_pool_of_sessions_outlives_its_database_handle() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 8).expect("a database");
        let pool = (0..4).map(|_| database.session().expect("a session")).collect();
        drop(database);
        let server = std::sync::Arc::new(Server { pool: std::sync::Mutex::new(pool), people });
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let server = std::sync::Arc::clone(&server);
                std::thread::spawn(move || (0..200).try_for_each(|round| server.serve((round + thread) % 8)))
            })
            .collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().expect("no panic"), Ok(())));
        let mut session = server.pool.lock().expect("no panic").pop().expect("all are back");
        let aged: u32 = session
            .transaction(|t| t.scan(people, ..).collect())
            .expect("read")
            .iter()
            .map(|row| row.age - person(row.id).age)
            .sum();
        assert_eq!(aged, 800);
    }
}

#[test]
fn objects_commit_and_roll_back() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        let mut open = session.begin().expect("begun");
        open.insert(people, &person(70)).expect("inserted");
        assert_eq!(open.get(people, &70), Ok(Some(person(70))), "it reads what it has written");
        assert_eq!(open.update_field(people, &3, Person::AGE, |age| std::mem::replace(age, 9)), Ok(Some(23)));
        assert_eq!(open.delete(people, &4).map(|row| row.is_some()), Ok(true));
        assert_eq!(open.commit(), Ok(()));

        let after = all_people(&database, people);
        assert_eq!((after.len(), after[3].age), (20, 9));
        for ending in 0..3 {
            let mut open = session.begin().expect("begun");
            assert_eq!(open.scan(people, ..).delete(), Ok(20));
            open.insert(people, &person(80)).expect("inserted");
            match ending {
                0 => drop(open),
                1 => assert_eq!(open.roll_back(), Ok(())),
                _ => {
                    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                        let _open = open;
                        std::panic::resume_unwind(Box::new("the program's own"));
                    }));
                    assert!(panicked.is_err());
                }
            }
            assert_eq!(all_people(&database, people), after, "ending {ending}");
        }
        let stats = session.stats();
        assert_eq!((stats.commits, stats.rollbacks, stats.aborts), (1, 1, 0));
    }
}

#[test]
fn a_transaction_goes_from_thread_to_thread() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut open = database.begin().expect("begun");
        open.update(people, &1, |row| row.age = 1).expect("changed");
        let mut open = std::thread::spawn(move || {
            open.update(people, &2, |row| row.age = 2).expect("changed");
            open
        })
        .join()
        .expect("no panic");
        // Functions that take a `Transaction` work with transaction objects too.
        let age = |t: &mut isles::Transaction<'_>, id| t.get_field(people, &id, Person::AGE);
        assert_eq!(age(&mut open.verbs(), 2), Ok(Some(2)));
        let (mut session, outcome) = open.commit_into_session();
        assert_eq!(outcome, Ok(()));
        assert_eq!(session.transaction(|t| age(t, 1)), Ok(Some(1)));

        let mut open = session.into_transaction().expect("begun");
        open.delete(people, &1).expect("deleted");
        let (mut session, outcome) = open.roll_back_into_session();
        assert_eq!(outcome, Ok(()));
        assert_eq!(session.transaction(|t| age(t, 1)), Ok(Some(1)));
    }
}

#[test]
fn conflicting_transaction_objects_return_conflict() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let (mut one, mut two) = (database.session().expect("one"), database.session().expect("two"));
        let raise = |session: &mut Session, with: &mut OpenTransaction<'_>| {
            with.update(people, &1, |row| row.age += 1)?;
            let mut second = session.begin()?;
            second.update(people, &1, |row| row.age += 1)?;
            second.commit()
        };
        let mut first = one.begin().expect("begun");
        let second = raise(&mut two, &mut first);
        let first = first.commit();
        // One of the two commits, and the other one conflicts; no thread hangs.
        let conflicts = [&first, &second].into_iter().filter(|outcome| match outcome {
            Ok(()) => false,
            Err(Error::Conflict { attempts: 1, .. }) => true,
            Err(other) => panic!("{scheme:?}: {other}"),
        });
        assert_eq!(conflicts.count(), 1, "{scheme:?}: {first:?}, {second:?}");
        assert_eq!(all_people(&database, people)[1].age, person(1).age + 1);
    }
}

#[test]
fn the_commit_returns_the_error_of_a_failed_verb() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let before = all_people(&database, people);
        let duplicate =
            Error::Duplicate { table: "people".into(), index: "primary key".into(), key: Some("5".into()) };
        let mut session = database.session().expect("a session");
        let mut open = session.begin().expect("begun");
        open.delete(people, &7).expect("deleted");
        assert_eq!(open.insert(people, &person(5)), Err(duplicate.clone()));
        assert_eq!(open.get(people, &1).map(drop), Err(duplicate.clone()), "no verb follows a failure");
        assert_eq!(open.commit(), Err(duplicate.clone()));
        let mut open = session.begin().expect("begun");
        assert_eq!(open.insert(people, &person(5)), Err(duplicate.clone()));
        assert_eq!(open.roll_back(), Err(duplicate));
        let (_other, others) = crate::common::people(scheme, 1).expect("another database");
        let mut open = session.begin().expect("begun");
        assert!(
            matches!(open.get(others, &0), Err(Error::Misuse(what)) if what.contains("another database"))
        );
        assert!(matches!(open.commit(), Err(Error::Misuse(_))));
        assert_eq!(all_people(&database, people), before);
    }
}

/// Results of a transaction object count only if they were current: under an optimistic scheme the
/// commit validates them.
#[test]
fn decisions_on_outdated_reads_are_conflicts() {
    let (database, people) = people(Scheme::Silo, 10).expect("a database");
    let (mut one, mut two) = (database.session().expect("one"), database.session().expect("two"));
    for ending in 0..3 {
        let mut open = one.begin().expect("begun");
        let free = open.scan(people, ..).last().expect("read").map_or(0, |row| row.id + 1);
        two.transaction(|t| t.insert(people, &person(free))).expect("inserted");
        let outcome = match ending {
            0 => open.commit(),
            1 => open.roll_back(),
            _ => {
                assert!(matches!(open.insert(people, &person(free)), Err(Error::Duplicate { .. })));
                open.commit()
            }
        };
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{ending}: {outcome:?}");
    }
    assert_eq!(one.stats().aborts, 3);
}

#[test]
fn objects_have_bounds() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        let token = CancelToken::new();
        let mut open = session.with(TransactionOptions::new().cancel(&token)).begin().expect("begun");
        open.delete(people, &1).expect("deleted");
        token.cancel();
        assert_eq!(open.get(people, &2).err(), Some(Error::Cancelled));
        assert_eq!(open.commit(), Err(Error::Cancelled));
        let soon = TransactionOptions::new().deadline(std::time::Duration::ZERO);
        let mut open = session.with(soon).begin().expect("begun");
        open.delete(people, &1).expect("the clock is read now and then");
        assert_eq!(open.commit(), Err(Error::Deadline));
        assert_eq!(all_people(&database, people).len(), 20);
    }
}

#[test]
fn a_transaction_within_a_closure_is_nested() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        let outcome = session.transaction(|t| {
            assert_eq!(database.begin().err(), Some(Error::Nested));
            assert_eq!(database.flush().err(), None, "there is nothing to flush in memory");
            t.exists(people, &1)
        });
        assert_eq!(outcome, Ok(true));
        // A thread with an open transaction object may run other transactions.
        let mut open = session.begin().expect("begun");
        open.update(people, &1, |row| row.age = 1).expect("changed");
        assert_eq!(database.transaction(|t| t.exists(people, &2)).is_ok(), scheme != Scheme::Hstore);
        assert_eq!(open.commit(), Ok(()));
    }
}

#[test]
fn forgotten_transactions_are_detected() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 20).expect("a database");
        let mut session = database.session().expect("a session");
        let mut open = session.begin().expect("begun");
        open.get(people, &1).expect("read");
        std::mem::forget(open);
        let noticed = |error: Error| matches!(error, Error::Misuse(what) if what.contains("forgotten"));
        assert!(session.begin().is_err_and(noticed));
        assert!(session.transaction(|_| Ok(())).is_err_and(noticed));
        drop(session);
        // The session's place is free again, and its locks remain: under this scheme the whole
        // table.
        let mut session = database.session().expect("a session");
        session.set_options(TransactionOptions::new().attempts(3));
        let changed = session.transaction(|t| t.set_field(people, &2, Person::AGE, &1));
        assert_eq!(changed.is_ok(), scheme != Scheme::Hstore, "{scheme:?}: {changed:?}");
    }
}

#[test]
fn a_database_in_use_is_not_closed() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("in-use-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let clone = database.clone();
        let mut session = database.session().expect("a session");
        let mut open = database.begin().expect("begun");
        open.insert(people, &person(1)).expect("inserted");
        let refusal = database.close().expect_err("three others");
        assert_eq!(refusal, Error::InUse { sessions: 2, transactions: 1, tickets: 0, clones: 1 });
        let text = "2 sessions (1 of them in a transaction that is an object), 0 tickets and 1 clones";
        assert!(refusal.to_string().contains(text), "{refusal}");
        // All handles continue to work.
        assert_eq!(open.commit(), Ok(()));
        session.transaction(|t| t.insert(people, &person(2))).expect("inserted");
        let second = directory.open(scheme).err();
        assert!(
            matches!(second, Some(Error::Open { reason: OpenReason::InUse, .. })),
            "a second opener: {second:?}"
        );
        drop(session);
        assert_eq!(clone.close(), Ok(()));
        let (database, people) = directory.open(scheme).expect("a database");
        assert_eq!(all_people(&database, people), [person(1), person(2)]);
    }
}

#[test]
fn dropped_sessions_free_their_places() {
    let database = Database::in_memory().sessions(2).open().expect("a database");
    for _ in 0..5 {
        let open = database.begin().expect("begun");
        let other = database.begin().expect("begun");
        assert_eq!(database.begin().err(), Some(Error::TooManySessions { limit: 2 }));
        drop(open);
        assert_eq!(other.commit(), Ok(()));
    }
}
