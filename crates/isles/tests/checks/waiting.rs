//! Waits between sessions: a session beside another one that stays inside a closure for long,
//! transactions within transactions, and deadlines of commits that are not on disk yet. The tests
//! judge the order of events, never their duration.
// A program of a user has threads and clocks of its own.
#![allow(clippy::disallowed_methods)]

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{Person, SCHEMES, people, person};
use isles::{CancelToken, Database, Error, Scheme, Table, TransactionOptions};

/// A directory that is removed when this value is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str, scheme: Scheme) -> Self {
        let name = format!("isles-waiting-{}-{name}-{scheme:?}", std::process::id());
        Directory(std::env::temp_dir().join(name))
    }

    fn open(&self, scheme: Scheme) -> (Database, Table<Person>, Table<Person>) {
        let mut builder = Database::at(&self.0).scheme(scheme);
        let (people, others) = (builder.table("people"), builder.table("others"));
        (builder.open().expect("a database"), people, others)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Longest sleep inside a closure; it ends when the other sessions are done.
const SLEEP: Duration = Duration::from_secs(30);

/// Runs `beside` while another thread is inside a closure that has read a row, and stays there
/// until `beside` has returned.
fn beside_a_sleeper(database: &Database, others: Table<Person>, beside: impl FnOnce()) {
    database.transaction(|t| t.insert(others, &person(1))).expect("inserted");
    let (inside, is_inside) = channel();
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            let mut session = database.session().expect("a session");
            session.set_options(TransactionOptions::new().without_deadline());
            let mut woken = false;
            session.transaction(|t| {
                t.get(others, &1)?;
                inside.send(()).expect("a thread waits");
                // This may be an attempt after another one.
                woken = woken || is_done.recv_timeout(SLEEP).is_ok();
                Ok(woken)
            })
        });
        is_inside.recv().expect("it gets inside");
        beside();
        // The receiver is gone after a sleep to the end.
        let _ = done.send(());
        let woken = sleeper.join().expect("no panic");
        let scheme = database.scheme();
        assert_eq!(woken, Ok(true), "{scheme:?}: the others waited for the one that slept");
    });
}

#[test]
fn commits_do_not_wait_for_a_sleeping_closure() {
    for scheme in SCHEMES {
        let directory = Directory::new("commits", scheme);
        let (database, people, others) = directory.open(scheme);
        beside_a_sleeper(&database, others, || {
            let mut session = database.session().expect("a session");
            session.set_options(TransactionOptions::new().without_deadline());
            for id in 0..3 {
                session.transaction(|t| t.insert(people, &person(id))).expect("inserted");
            }
        });
    }
}

#[test]
fn checkpoints_do_not_wait_for_a_sleeping_closure() {
    // Under `hstore` a transaction that has read a row owns the whole table, so that it cannot be
    // copied.
    for scheme in SCHEMES.into_iter().filter(|scheme| *scheme != Scheme::Hstore) {
        let directory = Directory::new("checkpoints", scheme);
        let (database, people, others) = directory.open(scheme);
        database.transaction(|t| t.insert(people, &person(1))).expect("inserted");
        beside_a_sleeper(&database, others, || database.checkpoint().expect("a checkpoint"));
    }
}

#[test]
fn a_transaction_within_another_is_an_error() {
    for scheme in SCHEMES {
        let directory = Directory::new("nested", scheme);
        let durable = directory.open(scheme);
        let (in_memory, table) = people(scheme, 0).expect("a database");
        for (database, people) in [(&durable.0, durable.1), (&in_memory, table)] {
            let mut other = database.session().expect("a session");
            let outcome = database.transaction(|t| {
                t.insert(people, &person(1))?;
                // In a session of its own, in another session, and calls that wait for rows in use.
                assert_eq!(database.transaction(|t| t.insert(people, &person(2))), Err(Error::Nested));
                assert_eq!(other.transaction(|t| t.count_all(people)), Err(Error::Nested));
                assert_eq!(database.checkpoint(), Err(Error::Nested));
                t.insert(people, &person(3))
            });
            assert_eq!(outcome, Ok(()), "the outer one goes on");
            let ids =
                other.transaction(|t| Ok(t.scan(people, ..).collect()?.iter().map(|row| row.id).collect()));
            assert_eq!(ids, Ok(vec![1, 3]), "the next one is not within it");
        }
        // Transactions of other databases are not nested.
        let (database, people, _) = &durable;
        let outcome = database.transaction(|t| {
            in_memory.transaction(|inner| inner.insert(table, &person(50)))?;
            t.get(*people, &1)
        });
        assert_eq!(outcome, Ok(Some(person(1))));
        // A panic leaves the closure.
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
            in_memory.transaction(|_| -> isles::Result<()> { panic!("of the program") })
        }));
        assert!(panicked.is_err());
        assert_eq!(in_memory.transaction(|t| t.get(table, &50)), Ok(Some(person(50))));
    }
}

/// The result of `scan(..).count()`, by a shorter name.
trait CountAll {
    fn count_all(&mut self, people: Table<Person>) -> isles::Result<u64>;
}

impl CountAll for isles::Transaction<'_> {
    fn count_all(&mut self, people: Table<Person>) -> isles::Result<u64> {
        Ok(self.scan(people, ..).collect()?.len() as u64)
    }
}

/// A commit whose deadline passes during the flush is reported as a commit of unknown durability,
/// and not as a failure.
#[test]
fn a_deadline_during_the_flush_returns_durability_unknown() {
    for scheme in SCHEMES {
        let directory = Directory::new("deadline", scheme);
        let (database, people, _) = directory.open(scheme);
        let mut session = database.session().expect("a session");
        // Another thread sets the token at any moment, also after the last check before the commit.
        // So there are three possible outcomes.
        let mut ends = [0; 3];
        for id in 0..200 {
            let token = CancelToken::new();
            let options = TransactionOptions::new().cancel(&token);
            let (begun, has_begun) = channel();
            let outcome = std::thread::scope(|scope| {
                let token = &token;
                scope.spawn(move || {
                    has_begun.recv().expect("it begins");
                    for _ in 0..id * 50 {
                        std::hint::spin_loop();
                    }
                    token.cancel();
                });
                session.with(options).transaction(|t| {
                    t.insert(people, &person(id))?;
                    begun.send(()).expect("a thread waits");
                    Ok(())
                })
            });
            let is_there = database.transaction(|t| t.get(people, &id)).expect("a read").is_some();
            let (end, expected) = match outcome {
                Ok(()) => (0, true),
                Err(Error::DurabilityUnknown) => (1, true),
                Err(Error::Cancelled) => (2, false),
                Err(other) => panic!("{scheme:?}: {other}"),
            };
            assert_eq!(is_there, expected, "{scheme:?}: {end}");
            ends[end] += 1;
        }
        println!("{scheme:?}: {ends:?} committed, not known to be durable, cancelled");
    }
}
