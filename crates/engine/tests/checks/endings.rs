//! How transactions end that do not simply commit, and what misuse leads to.

use std::ops::ControlFlow;

use boundary::{Bounds, Direction, Ending, Verbs};
use concurrency::{Mvcc, Scheme};
use engine::{MemoryDatabase, MemorySession};
use platform::{Hardware, Intent, Nanos, Platform};
use schema::{HashPlan, IndexKind, Row, Table, TableOptions};
use terms::Abort;

use crate::support::{options, with_rows};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_name(name)))]
struct Person {
    id: u64,
    name: u64,
    age: u64,
}

fn person(id: u64) -> Person {
    Person { id, name: id + 100, age: 30 }
}

fn database<S: Scheme<Hardware>>(read_only: bool) -> (MemoryDatabase<Hardware, S>, Table<Person>) {
    let kinds = vec![IndexKind::Ordered, IndexKind::Hash(HashPlan::Mixed)];
    let of_table = TableOptions { rows: 8, kinds, read_only, ..TableOptions::default() };
    let c = Hardware::core();
    let (mut database, people) = with_rows(c, &options(3), of_table, (0..4).map(person));
    database.loaded(c).expect("memory");
    (database, people)
}

fn session<S: Scheme<Hardware>>(database: &MemoryDatabase<Hardware, S>) -> MemorySession<'_, Hardware, S> {
    database.session(Hardware::core(), None, false).expect("a session")
}

fn once() -> Bounds {
    Bounds { deadline: None, attempts_max: Some(1) }
}

fn failed_verbs_end_the_transaction<S: Scheme<Hardware>>() {
    let (database, people) = database::<S>(false);
    let mut session = session(&database);
    // The primary key is new, the name is not: the row is in one index when the other refuses it.
    let half = Person { name: 101, ..person(9) };
    let ended = session.transact(&once(), |t| {
        assert!(matches!(t.insert(people, &half), Err(Abort::Duplicate { index: 1, .. })));
        Ok(())
    });
    assert_eq!(ended.err(), Some(Abort::duplicate(0, 1)));
    let found = session.transact(&once(), |t| Ok(t.find(people.primary(), &9, Intent::Read)?.is_some()));
    assert!(matches!(found, Ok(Ending::Committed(false, _))));
    let again = session.transact(&once(), |t| t.insert(people, &person(9)));
    assert!(matches!(again, Ok(Ending::Committed((), _))));
}

fn misuse_is_refused<S: Scheme<Hardware>>() {
    let (database, people) = database::<S>(false);
    let mut session = session(&database);
    let misuse =
        |ended: Result<Ending<()>, Abort>| assert!(matches!(ended, Err(Abort::Misuse(_))), "{ended:?}");
    misuse(session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.delete(row)?;
        t.get(row, Person::AGE).map(drop)
    }));
    misuse(session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.delete(row)?;
        t.delete(row)
    }));
    misuse(session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Person::NAME, &7)
    }));
    misuse(session.transact(&once(), |t| {
        let index = people.index(Person::BY_NAME);
        let visit = &mut |_: &mut _, _| Ok(ControlFlow::Continue(()));
        t.scan(index, &0, &9, Direction::Forward, Intent::Read, visit)
    }));
    let row = session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Read)?.expect("nothing of it remains");
        t.row(row)
    });
    assert!(matches!(row, Ok(Ending::Committed(row, _)) if row == person(1)));
}

fn read_only_tables_stay<S: Scheme<Hardware>>() {
    let (database, people) = database::<S>(true);
    let mut session = session(&database);
    let misuse =
        |ended: Result<Ending<()>, Abort>| assert!(matches!(ended, Err(Abort::Misuse(_))), "{ended:?}");
    misuse(session.transact(&once(), |t| t.insert(people, &person(9))));
    misuse(session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Person::AGE, &31)
    }));
    misuse(session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Read)?.expect("loaded");
        t.delete(row)
    }));
    let absent = session.transact(&once(), |t| Ok(t.find(people.primary(), &9, Intent::Read)?.is_none()));
    assert!(matches!(absent, Ok(Ending::Committed(true, _))));
}

/// A conflict that lasts does not outlive the deadline; and rows of prepared transactions stay as
/// they are until then.
fn deadlines_end_retries<S: Scheme<Hardware>>() {
    let (database, people) = database::<S>(false);
    let (mut holder, mut other) = (session(&database), session(&database));
    let write = |t: &mut engine::Transaction<'_, '_, Hardware, S>, age: u64| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Person::AGE, &age)
    };
    let (_, prepared) =
        holder.prepare(&Bounds::default(), |t| write(t, 50)).expect("no other transaction runs");
    let deadline = Some(Hardware::now(Hardware::core()).plus(2_000_000));
    let bounds = Bounds { deadline, attempts_max: None };
    let ended = other.transact(&bounds, |t| write(t, 60));
    assert_eq!(ended.err(), Some(Abort::Deadline));
    let bounds = Bounds { deadline: None, attempts_max: Some(3) };
    let ended = other.transact(&bounds, |t| write(t, 60));
    assert!(ended.is_err_and(|abort| abort.is_conflict()));
    assert_eq!(other.stats().attempts_max.max(3), other.stats().attempts_max);
    assert!(holder.finish(prepared, true).is_some());
    let past = Bounds { deadline: Some(Nanos(0)), attempts_max: None };
    assert_eq!(other.transact(&past, |t| write(t, 60)).err(), Some(Abort::Deadline));
    let age = other.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Read)?.expect("loaded");
        t.get(row, Person::AGE)
    });
    assert!(matches!(age, Ok(Ending::Committed(50, _))));
}

/// A duplicate must follow from rows that are valid: here the counter that was read is out of date.
fn duplicates_follow_from_what_was_read<S: Scheme<Hardware>>() {
    let (database, people) = database::<S>(false);
    let (mut slow, mut fast) = (session(&database), session(&database));
    let mut attempts = 0;
    let ended = slow.transact(&Bounds::default(), |t| {
        attempts += 1;
        let counter = t.find(people.primary(), &0, Intent::Read)?.expect("loaded");
        let next = t.get(counter, Person::AGE)?;
        if attempts == 1 {
            // Another takes the number, where the scheme lets it.
            let taken = fast.transact(&once(), |t| {
                let counter = t.find(people.primary(), &0, Intent::Write)?.expect("loaded");
                t.put(counter, Person::AGE, &(next + 1))?;
                t.insert(people, &person(next))
            });
            assert!(taken.is_ok() || taken.is_err_and(|abort| abort.is_conflict()));
        }
        let counter = t.find(people.primary(), &0, Intent::Write)?.expect("loaded");
        t.put(counter, Person::AGE, &(next + 1))?;
        t.insert(people, &person(next))
    });
    assert!(matches!(ended, Ok(Ending::Committed((), _))), "{ended:?}");
}

#[test]
fn failed_verbs_end_transactions_of_every_scheme() {
    concurrency::for_each_scheme!(S => { failed_verbs_end_the_transaction::<S>(); });
}

#[test]
fn every_scheme_refuses_misuse() {
    concurrency::for_each_scheme!(S => { misuse_is_refused::<S>(); });
}

#[test]
fn every_scheme_keeps_read_only_tables() {
    concurrency::for_each_scheme!(S => { read_only_tables_stay::<S>(); });
}

#[test]
fn deadlines_end_retries_of_every_scheme() {
    concurrency::for_each_scheme!(S => { deadlines_end_retries::<S>(); });
}

#[test]
fn duplicates_follow_from_what_every_scheme_read() {
    concurrency::for_each_scheme!(S => { duplicates_follow_from_what_was_read::<S>(); });
}

/// Snapshots refuse to write, never abort, and see what was committed a few epochs before.
#[test]
fn snapshots_read_only() {
    let (database, people) = database::<Mvcc>(false);
    let mut session = session(&database);
    let misuse =
        |ended: Result<Ending<()>, Abort>| assert!(matches!(ended, Err(Abort::Misuse(_))), "{ended:?}");
    misuse(session.snapshot(&once(), |t| t.insert(people, &person(9))));
    misuse(session.snapshot(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Person::AGE, &31)
    }));
    misuse(session.snapshot(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.delete(row)
    }));
    let write = session.transact(&once(), |t| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Person::AGE, &31)?;
        let row = t.find(people.primary(), &2, Intent::Write)?.expect("loaded");
        t.replace(row, &Person { name: 900, ..person(2) })
    });
    assert!(write.is_ok());
    let mut inspect = || {
        let seen = session.snapshot(&once(), |t| {
            let row = t.find(people.primary(), &1, Intent::Read)?.expect("loaded");
            let age = t.get(row, Person::AGE)?;
            let old_name = t.find(people.index(Person::BY_NAME), &102, Intent::Read)?.is_some();
            let new_name = t.find(people.index(Person::BY_NAME), &900, Intent::Read)?.is_some();
            Ok((age, old_name, new_name))
        });
        match seen {
            Ok(Ending::Committed(seen, _)) => seen,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(inspect(), (30, true, false), "the epoch is not over");
    for _ in 0..4 {
        database.instance().settle(Hardware::core());
        inspect();
    }
    assert_eq!(inspect(), (31, false, true));
}

/// An attempt under `occ` may see a state that never existed: values are those of its beginning,
/// but the presence of keys is looked up on the way, and validated at the end.
#[test]
fn values_and_presence_of_occ_are_of_two_moments() {
    let (database, people) = database::<concurrency::Occ>(false);
    let (mut reader, mut writer) = (session(&database), session(&database));
    let change = |t: &mut engine::Transaction<'_, '_, Hardware, concurrency::Occ>| {
        let row = t.find(people.primary(), &1, Intent::Write)?.expect("loaded");
        t.put(row, Person::AGE, &31)?;
        t.insert(people, &person(9))?;
        let gone = t.find(people.primary(), &2, Intent::Write)?.expect("loaded");
        t.delete(gone)
    };
    let mut attempts = 0;
    let seen = reader.transact(&Bounds::default(), |t| {
        attempts += 1;
        let row = t.find(people.primary(), &1, Intent::Read)?.expect("loaded");
        let age = t.get(row, Person::AGE)?;
        if attempts == 1 {
            writer.transact(&Bounds::default(), change).expect("no transaction conflicts");
        }
        let inserted = t.find(people.primary(), &9, Intent::Read)?;
        let deleted = t.find(people.primary(), &2, Intent::Read)?;
        if attempts == 1 {
            assert_eq!((age, inserted.is_some(), deleted.is_some()), (30, true, false), "it never was so");
            let inserted = inserted.expect("just seen");
            // Its value is one that was not there at the beginning: the attempt learns that at
            // once.
            assert!(matches!(t.get(inserted, Person::AGE), Err(Abort::Conflict(_))));
        }
        Ok((age, inserted.is_some(), deleted.is_some()))
    });
    assert!(matches!(seen, Ok(Ending::Committed((31, true, false), _))), "{seen:?}");
    assert_eq!(attempts, 2);
}
