//! Sessions that say how long they wait for locks, and objects that idle.
// The test runs threads and files of the host.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{Directory, Person, SCHEMES, declare, person};
use isles::{Conflict, Database, Error, Scheme, Session, Table, TransactionOptions};

/// The engines under which transactions wait: in memory, and over pages.
fn waiting() -> Vec<(Option<Directory>, Database, Table<Person>)> {
    let directory = Directory::new("sleeping");
    let (in_pages, pages_people) = declare(directory.in_pages().sessions(20)).expect("a database");
    let (in_memory, people) = declare(Database::in_memory().scheme(Scheme::DlDetect)).expect("a database");
    let all = vec![(Some(directory), in_pages, pages_people), (None, in_memory, people)];
    for (_, database, people) in &all {
        let insert_all =
            |t: &mut isles::Transaction<'_>| (0..10).try_for_each(|id| t.insert(*people, &person(id)));
        database.transaction(insert_all).expect("no transaction conflicts");
    }
    all
}

fn session(database: &Database, longest: Duration) -> Session {
    let mut session = database.session().expect("a session");
    session.set_options(TransactionOptions::new().without_deadline().lock_wait(longest));
    session
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn a_hot_row_has_every_increment_and_no_conflict() {
    for (_directory, database, people) in waiting() {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut session = session(&database, LONG);
                    for _ in 0..50 {
                        let added =
                            session.transaction(|t| t.update_field(people, &1, Person::AGE, |age| *age += 1));
                        assert_eq!(added, Ok(Some(())));
                    }
                    assert_eq!(session.stats().aborts, 0);
                });
            }
        });
        let age = database.transaction(|t| t.get_field(people, &1, Person::AGE));
        assert_eq!(age, Ok(Some(person(1).age + 800)));
    }
}

#[test]
fn the_error_says_what_was_waited_for_and_how_long() {
    for (_directory, database, people) in waiting() {
        let mut other = database.begin().expect("it begins");
        other.set_field(people, &1, Person::AGE, &71).expect("the row is free");
        for longest in [Duration::ZERO, Duration::from_millis(30)] {
            let mut session = session(&database, longest);
            let mut runs = 0;
            let late = session.transaction(|t| {
                runs += 1;
                t.set_field(people, &1, Person::AGE, &72)
            });
            assert_eq!(runs, 1, "it is not tried again");
            match late {
                Err(error @ Error::LockTimeout { .. }) => {
                    assert!(error.is_transient() && error.to_string().contains("table people"), "{error}");
                    let Error::LockTimeout { waited, .. } = error else { unreachable!() };
                    assert!(waited >= longest, "{waited:?}");
                }
                other => panic!("{other:?}"),
            }
            let mut open = session.begin().expect("it begins");
            let late = open.get(people, &1);
            assert!(matches!(late, Err(Error::LockTimeout { .. })), "{late:?}");
            assert!(matches!(open.commit(), Err(Error::LockTimeout { .. })));
        }
        other.commit().expect("it holds the row");
        let mut session = session(&database, LONG);
        assert_eq!(session.transaction(|t| t.set_field(people, &1, Person::AGE, &73)), Ok(true));
    }
}

#[test]
fn the_deadline_ends_a_wait() {
    for (_directory, database, people) in waiting() {
        let mut other = database.begin().expect("it begins");
        other.set_field(people, &1, Person::AGE, &71).expect("the row is free");
        let mut session = database.session().expect("a session");
        let options = TransactionOptions::new().deadline(Duration::from_millis(30)).lock_wait(LONG);
        session.set_options(options);
        let late = session.transaction(|t| t.set_field(people, &1, Person::AGE, &72));
        assert_eq!(late, Err(Error::Deadline));
    }
}

#[test]
fn a_client_that_thinks_is_waited_for() {
    for (_directory, database, people) in waiting() {
        let mut open = session(&database, LONG).into_transaction().expect("it begins");
        assert_eq!(open.update_field(people, &1, Person::AGE, |age| *age += 1), Ok(Some(())));
        let (waits, is_waiting) = channel();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut session = session(&database, LONG);
                waits.send(()).expect("a thread listens");
                session.transaction(|t| t.update_field(people, &1, Person::AGE, |age| *age += 1))
            });
            is_waiting.recv().expect("it begins");
            // Longer than the waits of sessions that do not say how long.
            std::thread::sleep(Duration::from_millis(50));
            open.commit().expect("nothing is in its way");
            assert_eq!(other.join().expect("no panic"), Ok(Some(())));
        });
        let age = database.transaction(|t| t.get_field(people, &1, Person::AGE));
        assert_eq!(age, Ok(Some(person(1).age + 2)));
    }
}

#[test]
fn of_two_objects_that_wait_for_each_other_the_younger_conflicts() {
    for (_directory, database, people) in waiting() {
        let mut older = session(&database, LONG).into_transaction().expect("it begins");
        let mut younger = session(&database, LONG).into_transaction().expect("it begins");
        assert_eq!(older.set_field(people, &1, Person::AGE, &71), Ok(true));
        assert_eq!(younger.set_field(people, &2, Person::AGE, &72), Ok(true));
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                both.wait();
                let refused = younger.set_field(people, &1, Person::AGE, &73);
                drop(younger);
                refused
            });
            both.wait();
            assert_eq!(older.set_field(people, &2, Person::AGE, &74), Ok(true));
            let refused = refused.join().expect("no panic");
            let is_refused = |reason: &Conflict| matches!(reason, Conflict::Deadlock | Conflict::Locked);
            assert!(
                matches!(&refused, Err(Error::Conflict { reason, .. }) if is_refused(reason)),
                "{refused:?}"
            );
        });
        older.commit().expect("the younger one has given up");
    }
}

#[test]
fn an_idle_object_delays_no_commit_and_no_checkpoint() {
    for scheme in SCHEMES.into_iter().filter(|scheme| *scheme != Scheme::Hstore) {
        let directory = Directory::new(&format!("idle-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        database.transaction(|t| t.insert(people, &person(1))).expect("inserted");
        let mut idle = database.begin().expect("it begins");
        assert_eq!(idle.get(people, &1), Ok(Some(person(1))));
        let mut session = database.session().expect("a session");
        for id in 2..6 {
            session.transaction(|t| t.insert(people, &person(id))).expect("it is on disk");
        }
        database.checkpoint().expect("a checkpoint");
        drop(idle);
    }
}

#[test]
fn an_object_that_was_idle_for_too_long_is_rolled_back_at_its_next_call() {
    for (_directory, database, people) in waiting() {
        let mut begins = database.session().expect("a session");
        begins.set_options(TransactionOptions::new().idle(Duration::from_millis(10)));
        let mut idle = begins.begin().expect("it begins");
        assert_eq!(idle.set_field(people, &1, Person::AGE, &71), Ok(true));
        std::thread::sleep(Duration::from_millis(30));
        let ended = idle.get(people, &2);
        assert!(matches!(ended, Err(Error::Idle { .. })), "{ended:?}");
        assert_eq!(idle.exists(people, &3), Err(ended.expect_err("it has ended")));
        let mut session = session(&database, Duration::ZERO);
        assert_eq!(session.transaction(|t| t.get_field(people, &1, Person::AGE)), Ok(Some(person(1).age)));
        assert!(matches!(idle.commit(), Err(Error::Idle { .. })));
        // The session goes on, and so does an object whose calls follow each other.
        begins.set_options(TransactionOptions::new().idle(LONG));
        let mut busy = begins.begin().expect("it begins");
        assert!(busy.idle_for().is_some());
        assert_eq!(busy.set_field(people, &1, Person::AGE, &72), Ok(true));
        busy.commit().expect("it was not idle");
    }
}
