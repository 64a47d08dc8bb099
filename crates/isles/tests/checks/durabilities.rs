//! Acknowledgement of commits.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use crate::common::{Directory, Person, SCHEMES, all_people, people, person};
use isles::{Durability, Error, TransactionOptions};

#[test]
fn tickets_are_waited_for() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("tickets-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let mut session = database.session().expect("a session");
        let insert = |t: &mut isles::Transaction<'_>, id| t.insert(people, &person(id)).map(|()| id);
        let (id, first) = session.transaction_async(|t| insert(t, 1)).expect("committed");
        assert_eq!(id, 1);
        assert!(!first.is_on_disk(), "no flush was requested");
        assert_eq!(first.wait_for(Duration::ZERO), Ok(false));
        let mut open = session.begin().expect("begun");
        open.insert(people, &person(2)).expect("inserted");
        let second = open.commit_async().expect("committed");
        let mut open = database.begin().expect("begun");
        open.insert(people, &person(3)).expect("inserted");
        let third = open.commit_async().expect("committed");
        assert!(!third.is_on_disk());
        // Any thread may wait, and the last commit implies the earlier ones.
        std::thread::spawn(move || third.wait()).join().expect("no panic").expect("on disk");
        assert!(first.is_on_disk() && second.is_on_disk());
        assert_eq!(first.wait(), Ok(()));
        assert_eq!(
            session.transaction_async(|t| insert(t, 3)).map(drop),
            Err(Error::Duplicate {
                table: "people".into(),
                index: "primary key".into(),
                key: Some("3".into())
            })
        );
        assert!(format!("{second:?}").contains("on_disk: true"));
        let outcome = session.transaction(|_| first.wait());
        assert_eq!(outcome, Err(Error::Nested), "it would wait within a transaction");
        let in_use = Error::InUse { sessions: 1, transactions: 0, tickets: 2, clones: 1 };
        assert_eq!(database.clone().close(), Err(in_use), "tickets keep it open");
    }
}

#[test]
fn asynchronous_commits_are_on_disk_after_flush_and_close() {
    for scheme in SCHEMES {
        for flushes in [false, true] {
            let directory = Directory::new(&format!("async-{scheme:?}"));
            let (database, people) = directory.open(scheme).expect("a database");
            let mut session = database.session().expect("a session");
            session.set_options(TransactionOptions::new().durability(Durability::Async));
            for id in 0..50 {
                session.transaction(|t| t.insert(people, &person(id))).expect("inserted");
            }
            drop(session);
            if flushes {
                assert_eq!(database.flush(), Ok(()));
                drop(database);
            } else {
                assert_eq!(database.close(), Ok(()));
            }
            let (database, people) = directory.open(scheme).expect("a database");
            assert!(all_people(&database, people).into_iter().eq((0..50).map(person)));
        }
    }
}

/// A transaction that waits for the disk also waits for the commits that it has read from.
#[test]
fn a_commit_that_waits_also_waits_for_the_commits_it_read() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("read-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let (mut one, mut two) = (database.session().expect("one"), database.session().expect("two"));
        let ((), ticket) = one.transaction_async(|t| t.insert(people, &person(1))).expect("committed");
        assert_eq!(two.transaction(|t| t.exists(people, &1)), Ok(true));
        assert!(ticket.is_on_disk());
        let ((), ticket) = one.transaction_async(|t| t.insert(people, &person(2))).expect("committed");
        let outcome = two.transaction(|t| if t.exists(people, &2)? { Err(Error::RollBack) } else { Ok(()) });
        assert_eq!(outcome, Err(Error::RollBack));
        assert!(ticket.is_on_disk(), "a decision waits too");
    }
}

#[test]
fn group_commits_wait_for_other_commits() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("group-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let database = database.clone();
                std::thread::spawn(move || {
                    let mut session = database.session().expect("a session");
                    let group = Durability::Group(Duration::from_micros(300));
                    session.set_options(TransactionOptions::new().durability(group));
                    for round in 0..10 {
                        let id = 10 * thread + round;
                        session.transaction(|t| t.insert(people, &person(id))).expect("inserted");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        drop(database);
        let (database, people) = directory.open(scheme).expect("a database");
        assert_eq!(all_people(&database, people).len(), 30);
        // A deadline ends the wait with an error that describes what is known.
        let mut session = database.session().expect("a session");
        let long = Durability::Group(Duration::from_secs(3600));
        let options = TransactionOptions::new().durability(long).deadline(Duration::from_millis(5));
        let outcome = session.with(options).transaction(|t| t.delete(people, &1).map(drop));
        assert!(matches!(outcome, Ok(()) | Err(Error::DurabilityUnknown | Error::Deadline)), "{outcome:?}");
    }
}

#[test]
fn commits_in_memory_need_no_wait() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 3).expect("a database");
        let mut session = database.session().expect("a session");
        let (row, ticket) =
            session.transaction_async(|t| t.get_field(people, &1, Person::AGE)).expect("read");
        assert_eq!(row, Some(21));
        assert!(ticket.is_on_disk());
        assert_eq!(ticket.wait(), Ok(()));
        assert_eq!(database.flush(), Ok(()));
    }
}
