//! Waits for locks over pages: no transaction waits for ever for another transaction of its own
//! thread, or for a forgotten one.

// The test runs threads and files of the host.
#![allow(clippy::disallowed_methods)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::common::{Directory, Person, declare, person};
use isles::{Conflict, Database, Error, Table, TransactionOptions};

fn people(directory: &Directory) -> (Database, Table<Person>) {
    let (database, people) = declare(directory.in_pages()).expect("a database");
    let all = database.transaction(|t| (0..10).try_for_each(|id| t.insert(people, &person(id))));
    all.expect("no transaction conflicts");
    (database, people)
}

/// A transaction that would wait for ever returns `Error::Deadline`.
fn patient() -> TransactionOptions {
    TransactionOptions::new().deadline(Duration::from_secs(20))
}

fn age(database: &Database, people: Table<Person>, id: u64) -> Option<u32> {
    let mut session = database.session().expect("a session");
    let read = session.with(patient()).transaction(|t| t.get_field(people, &id, Person::AGE));
    read.expect("no transaction conflicts")
}

fn is_conflict<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Conflict { reason: Conflict::Locked, .. })), "{outcome:?}");
}

#[test]
fn transaction_objects_of_one_thread_do_not_wait_for_each_other_forever() {
    let directory = Directory::new("pages-one-thread");
    let (database, people) = people(&directory);
    let (mut one, mut other) = (database.session().expect("one"), database.session().expect("another"));
    let mut first = one.begin().expect("it begins");
    assert_eq!(first.set_field(people, &1, Person::AGE, &71), Ok(true));
    // A row that it has written, a row that it has read, and a key that it has found absent.
    assert_eq!(first.get_field(people, &2, Person::AGE), Ok(Some(person(2).age)));
    assert_eq!(first.get(people, &77), Ok(None));
    let mut second = other.with(patient()).begin().expect("it begins");
    is_conflict(second.get(people, &1));
    drop(second);
    let mut second = other.with(patient()).begin().expect("it begins");
    assert_eq!(second.get_field(people, &2, Person::AGE), Ok(Some(person(2).age)));
    is_conflict(second.set_field(people, &2, Person::AGE, &72));
    is_conflict(second.commit());
    let mut second = other.with(patient()).begin().expect("it begins");
    is_conflict(second.insert(people, &person(77)));
    drop(second);
    // A closure is retried for a bounded time.
    let mut runs = 0;
    is_conflict(other.with(patient()).transaction(|t| {
        runs += 1;
        t.set_field(people, &1, Person::AGE, &73)
    }));
    assert!(runs > 0);
    first.commit().expect("no transaction conflicts");
    assert_eq!(other.transaction(|t| t.set_field(people, &2, Person::AGE, &72)), Ok(true));
    assert_eq!((age(&database, people, 1), age(&database, people, 2)), (Some(71), Some(72)));
}

#[test]
fn a_closure_waits_for_locks_of_another_thread() {
    let directory = Directory::new("pages-two-threads");
    let (database, people) = people(&directory);
    let mut open = database.begin().expect("it begins");
    assert_eq!(open.set_field(people, &1, Person::AGE, &71), Ok(true));
    let (begins, has_begun) = std::sync::mpsc::channel();
    let database_there = &database;
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            let mut session = database_there.session().expect("a session");
            session.with(patient()).transaction(|t| {
                begins.send(()).expect("a thread listens");
                t.update_field(people, &1, Person::AGE, |age| *age += 1)
            })
        });
        has_begun.recv().expect("it begins");
        open.commit().expect("no transaction conflicts");
        assert_eq!(waits.join().expect("no panic"), Ok(Some(())));
    });
    assert_eq!(age(&database, people, 1), Some(72));
}

#[test]
fn a_forgotten_transaction_releases_its_locks() {
    let directory = Directory::new("pages-forgotten");
    let (database, people) = people(&directory);
    for is_dropped in [false, true] {
        let mut session = database.session().expect("a session");
        let mut open = session.begin().expect("it begins");
        assert_eq!(open.set_field(people, &1, Person::AGE, &71), Ok(true));
        assert_eq!(open.delete(people, &2), Ok(Some(person(2))));
        assert_eq!(open.get_field(people, &3, Person::AGE), Ok(Some(person(3).age)));
        std::mem::forget(open);
        if is_dropped {
            drop(session);
            let mut session = database.session().expect("a session");
            let changed = session.with(patient()).transaction(|t| t.set_field(people, &3, Person::AGE, &7));
            assert_eq!(changed, Ok(true));
        } else {
            let read = session.with(patient()).transaction(|t| t.get_field(people, &1, Person::AGE));
            assert_eq!(read, Ok(Some(person(1).age)), "used again");
            let mut open = session.begin().expect("it begins");
            std::mem::forget(open.get(people, &2).expect("no transaction conflicts"));
            std::mem::forget(open);
            let open = session.begin().expect("it begins again");
            drop(open);
        }
        assert_eq!(age(&database, people, 1), Some(person(1).age));
        assert_eq!(age(&database, people, 2), Some(person(2).age));
    }
    database.close().expect("nothing keeps it open");
}

#[test]
fn a_panicking_body_changes_nothing_and_keeps_no_locks() {
    let directory = Directory::new("pages-panic");
    let (database, people) = people(&directory);
    let mut session = database.session().expect("a session");
    for is_dropped in [false, true] {
        let run = catch_unwind(AssertUnwindSafe(|| {
            session.transaction::<()>(|t| {
                t.set_field(people, &1, Person::AGE, &71)?;
                t.insert(people, &person(77))?;
                panic!("the program's own")
            })
        }));
        assert!(run.is_err());
        if is_dropped {
            session = database.session().expect("a session");
        }
        let read = session.with(patient()).transaction(|t| {
            assert_eq!(t.get(people, &77)?, None);
            t.get_field(people, &1, Person::AGE)
        });
        assert_eq!(read, Ok(Some(person(1).age)));
        assert_eq!(age(&database, people, 1), Some(person(1).age));
    }
}
