//! Snapshots: reads that never abort.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Directory, Person, SCHEMES, all_people, people, person};
use isles::{Error, Scheme, TransactionOptions};

#[test]
fn schemes_without_snapshots_return_an_error() {
    for scheme in SCHEMES.into_iter().filter(|scheme| *scheme != Scheme::Mvcc) {
        let (database, people) = people(scheme, 3).expect("a database");
        let refusal = database.snapshot(|t| t.exists(people, &1)).expect_err("no snapshots");
        assert!(matches!(refusal, Error::NoSnapshots { .. }), "{refusal}");
        assert!(refusal.to_string().contains("Scheme::Mvcc"), "{refusal}");
        assert!(!refusal.is_transient());
    }
}

/// A snapshot shows all commits before it, at once, and no later ones.
#[test]
fn snapshots_show_what_was_committed() {
    let (database, people) = people(Scheme::Mvcc, 10).expect("a database");
    let (mut reads, mut writes) = (database.session().expect("one"), database.session().expect("two"));
    for round in 0..200 {
        writes.transaction(|t| t.set_field(people, &1, Person::AGE, &round)).expect("changed");
        let seen = reads.snapshot(|t| {
            let before = t.get_field(people, &1, Person::AGE)?;
            let mut open =
                std::thread::scope(|scope| scope.spawn(|| writes.begin()).join().expect("no panic"))?;
            open.set_field(people, &1, Person::AGE, &9999)?;
            open.delete(people, &2)?;
            open.insert(people, &person(50))?;
            open.commit()?;
            assert_eq!(t.get_field(people, &1, Person::AGE)?, before);
            assert_eq!(t.scan(people, ..).rows().count(), 10);
            assert_eq!(t.get(people, &2)?, Some(person(2)));
            Ok(before)
        });
        assert_eq!(seen, Ok(Some(round)));
        writes
            .transaction(|t| {
                t.insert(people, &person(2))?;
                t.delete(people, &50)
            })
            .expect("as before");
    }
    assert_eq!((reads.stats().commits, reads.stats().aborts), (200, 0));
}

#[test]
fn snapshots_only_read() {
    let (database, people) = people(Scheme::Mvcc, 10).expect("a database");
    let before = all_people(&database, people);
    let mut session = database.session().expect("a session");
    type Verb = fn(&mut isles::Transaction<'_>, isles::Table<Person>) -> isles::Result<()>;
    let verbs: [Verb; 8] = [
        |t, people| t.insert(people, &person(70)),
        |t, people| t.insert_all(people, [person(70)]),
        |t, people| t.insert_or_ignore(people, &person(70)).map(drop),
        |t, people| t.upsert(people, &person(3)).map(drop),
        |t, people| t.update(people.by(Person::BY_CITY), &(3, 3), |row| row.age = 1).map(drop),
        |t, people| t.set_field(people, &3, Person::AGE, &1).map(drop),
        |t, people| t.delete(people, &3).map(drop),
        |t, people| t.scan(people.by(Person::BY_CITY), ..).delete().map(drop),
    ];
    for (number, verb) in verbs.into_iter().enumerate() {
        let outcome = session.snapshot(|t| verb(t, people));
        assert!(
            matches!(outcome, Err(Error::Misuse(what)) if what.contains("snapshot")),
            "{number}: {outcome:?}"
        );
    }
    assert_eq!(
        session.transaction(|t| t.delete(people, &3)).map(|row| row.is_some()),
        Ok(true),
        "the next may"
    );
    assert_eq!(all_people(&database, people).len(), before.len() - 1);
    let outcome = session.transaction(|_| database.snapshot(|_| Ok(())));
    assert_eq!(outcome, Err(Error::Nested));
}

/// Every snapshot shows the same total at the first attempt, although other sessions move money all
/// the time.
#[test]
fn snapshots_never_abort() {
    let (database, people) = people(Scheme::Mvcc, 8).expect("a database");
    let total = all_people(&database, people).iter().map(|row| row.age).sum::<u32>();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|worker| {
                let (database, ended) = (&database, &ended);
                scope.spawn(move || {
                    let mut session = database.session().expect("a session");
                    let mut round = worker;
                    while !ended.load(Ordering::Relaxed) {
                        round += 1;
                        session
                            .transaction(|t| {
                                let taken = t.update_field(people, &(round % 8), Person::AGE, |age| {
                                    *age = age.saturating_sub(1);
                                    *age
                                })?;
                                let given = u32::from(taken > Some(0));
                                t.update_field(people, &(round * 3 % 8), Person::AGE, |age| *age += given)?;
                                // Money taken from the last account is also given to another one,
                                // or not taken at all.
                                if taken == Some(0) { Err(Error::RollBack) } else { Ok(()) }
                            })
                            .or_else(|error| if error == Error::RollBack { Ok(()) } else { Err(error) })
                            .expect("conflicts are tried again");
                    }
                })
            })
            .collect();
        let mut session = database.session().expect("a session");
        session.set_options(TransactionOptions::new().attempts(1));
        for _ in 0..500 {
            let seen =
                session.snapshot(|t| t.scan(people, ..).fields(Person::AGE).sum::<isles::Result<u32>>());
            assert_eq!(seen, Ok(total));
        }
        ended.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    });
}

#[test]
fn snapshots_of_what_is_on_disk() {
    let directory = Directory::new("snapshots");
    let (database, people) = directory.open(Scheme::Mvcc).expect("a database");
    let mut session = database.session().expect("a session");
    for id in 0..20 {
        session.transaction(|t| t.insert(people, &person(id))).expect("inserted");
        assert_eq!(session.snapshot(|t| t.scan(people, ..).count()), Ok(id + 1));
    }
    drop(session);
    assert_eq!(database.close(), Ok(()));
}
