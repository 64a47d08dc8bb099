//! Sessions and databases across threads, in any order.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods)]

use crate::common::{Person, SCHEMES, all_people, people, person};
use isles::{CancelToken, Database, Error, Index, Session, Table};

#[test]
fn handles_are_sent_between_threads() {
    fn is_static_and_shared<T: Clone + Send + Sync + 'static>() {}
    fn is_sent<T: Send>() {}
    is_static_and_shared::<Database>();
    is_static_and_shared::<CancelToken>();
    is_static_and_shared::<Table<Person>>();
    is_static_and_shared::<Index<Person, u64>>();
    is_static_and_shared::<Error>();
    is_sent::<Session>();
}

#[test]
fn transfers_keep_the_total() {
    const TRANSFERS: u64 = 2_000;
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 4).expect("a database");
        let total = |rows: &[Person]| rows.iter().map(|row| i64::from(row.age)).sum::<i64>();
        let before = total(&all_people(&database, people));
        let workers: Vec<_> = (0..2u64)
            .map(|worker| {
                let database = database.clone();
                std::thread::spawn(move || {
                    let mut session = database.session().expect("a session");
                    for round in 0..TRANSFERS {
                        let (from, to) = ((round + worker) % 4, (round * 3 + 1) % 4);
                        let outcome = session.transaction(|t| {
                            let Some(age) = t.get_field(people, &from, Person::AGE)? else {
                                return Ok(false);
                            };
                            if age == 0 {
                                return Ok(false);
                            }
                            t.set_field(people, &from, Person::AGE, &(age - 1))?;
                            Ok(t.update(people, &to, |row| row.age += 1)?.is_some())
                        });
                        outcome.expect("conflicts are tried again");
                    }
                    session.stats().commits
                })
            })
            .collect();
        let mut commits = 0;
        for worker in workers {
            commits += worker.join().expect("workers do not panic");
        }
        assert_eq!(commits, 2 * TRANSFERS);
        assert_eq!(total(&all_people(&database, people)), before);
    }
}

/// Two threads each take the lowest free number: without protection against phantoms both take the
/// same.
#[test]
fn concurrent_sessions_choose_unique_keys() {
    const EACH: u64 = 500;
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 0).expect("a database");
        std::thread::scope(|scope| {
            for worker in 0..3u16 {
                let database = &database;
                scope.spawn(move || {
                    let mut session = database.session().expect("a session");
                    for _ in 0..EACH {
                        let outcome = session.transaction(|t| {
                            let next = t.scan(people, ..).reverse().first()?.map_or(0, |row| row.id + 1);
                            t.insert(people, &Person { city: worker, ..person(next) })
                        });
                        assert_eq!(outcome, Ok(()));
                    }
                });
            }
        });
        let rows = all_people(&database, people);
        assert!(rows.iter().map(|row| row.id).eq(0..3 * EACH));
    }
}

#[test]
fn sessions_and_databases_end_in_any_order() {
    for scheme in SCHEMES {
        let (first, people) = people(scheme, 10).expect("a database");
        let second = first.clone();
        let mut session = second.session().expect("a session");
        // The database lives as long as one handle.
        drop(first);
        assert_eq!(session.transaction(|t| t.scan(people, ..).count()), Ok(10));
        let other = second.session().expect("a session");
        drop(session);
        drop(other);
        // A handle may be dropped by another thread than the one that made it, and a session may
        // move from thread to thread.
        let third = second.clone();
        std::thread::spawn(move || {
            let mut session = third.session().expect("a session");
            session.transaction(|t| t.delete(people, &1)).expect("a transaction");
            std::thread::scope(|scope| {
                scope.spawn(move || session.transaction(|t| t.delete(people, &2)).expect("a transaction"));
            });
        })
        .join()
        .expect("no panic");
        assert_eq!(all_people(&second, people).len(), 8);
    }
}

/// A session between transactions does not keep the memory of deleted rows from being reused.
#[test]
fn idle_sessions_delay_no_other_session() {
    for scheme in SCHEMES {
        let builder = Database::in_memory().scheme(scheme).memory_limit(1 << 20);
        let (database, people) = crate::common::declare(builder).expect("a database");
        let mut idle = database.session().expect("a session");
        assert_eq!(idle.transaction(|t| t.scan(people, ..).count()), Ok(0));
        let mut session = database.session().expect("a session");
        for id in 0..20_000 {
            session.transaction(|t| t.insert(people, &person(id))).expect("memory");
            session.transaction(|t| t.delete(people, &id)).expect("memory");
        }
        assert!(database.memory_bytes() <= 1 << 20);
        assert_eq!(idle.transaction(|t| t.scan(people, ..).count()), Ok(0));
    }
}
