//! Operations of a program on a database beside transactions: figures, events, copies, checks.
// The test makes files, and damages some; several threads call its listeners.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::common::{Directory, Person, SCHEMES, all_people, declare, people, person};
use isles::{
    Builder, ConflictStatistics, Database, Error, Event, OpenReason, Scheme, TransactionOptions,
    copy_directory,
};

fn in_another_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(body).join().expect("no panic"))
}

#[test]
fn statistics_count_how_transactions_end() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 10).expect("a database");
        let before = database.statistics().transactions;
        assert_eq!((before.commits, before.rollbacks, before.failures), (1, 0, 0));
        let mut session = database.session().expect("a session");
        session.transaction(|t| t.delete(people, &1)).expect("deleted");
        let _ = session.transaction(|_| Err::<(), _>(Error::RollBack));
        let _ = session.transaction(|t| t.insert(people, &person(2)));
        let none = TransactionOptions::new().deadline(Duration::ZERO);
        let _ = session.with(none).transaction(|t| t.delete(people, &2));
        let mut open = session.begin().expect("begun");
        open.insert(people, &person(20)).expect("inserted");
        open.commit().expect("committed");
        drop(session.begin().expect("begun"));
        session.begin().expect("begun").roll_back().expect("rolled back");
        let mut open = session.begin().expect("begun");
        let _ = open.insert(people, &person(2));
        assert!(open.commit().is_err());
        let after = database.statistics();
        let now = after.transactions;
        assert_eq!((now.commits, now.rollbacks, now.failures), (3, 3, 3), "{scheme:?}");
        assert_eq!(now.conflicts, ConflictStatistics::default());
        assert_eq!((after.sessions, after.sessions_max), (1, isles::SESSIONS_DEFAULT));
        drop(session);
        let after = database.statistics();
        assert_eq!((after.sessions, after.transactions), (0, now), "what is gone was counted");
    }
}

#[test]
fn latencies_are_recorded_if_enabled() {
    for scheme in SCHEMES {
        let (database, people) =
            declare(Database::in_memory().scheme(scheme).latencies(true)).expect("a database");
        let none = database.statistics().latencies.expect("they are counted");
        assert_eq!((none.count(), none.at(0.5)), (0, None));
        let mut session = database.session().expect("a session");
        for id in 0..99 {
            session.transaction(|t| t.insert(people, &person(id))).expect("inserted");
        }
        drop(session);
        let mut open = database.begin().expect("begun");
        open.insert(people, &person(99)).expect("inserted");
        std::thread::sleep(Duration::from_millis(20));
        open.commit().expect("committed");
        let now = database.statistics().latencies.expect("they are counted");
        assert_eq!(now.count(), 100, "what is gone was counted");
        let (least, half, last) = (now.at(0.0), now.at(0.5), now.at(1.0));
        assert!(least > Some(Duration::ZERO) && least <= half && half <= last, "{now:?}");
        assert!(last >= Some(Duration::from_millis(20)), "{now:?}");
        assert_eq!(declare(Database::in_memory()).expect("a database").0.statistics().latencies, None);
    }
}

#[test]
fn statistics_count_conflicts_by_kind() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 10).expect("a database");
        let (mut one, mut two) =
            (database.session().expect("a session"), database.session().expect("a session"));
        let few = TransactionOptions::new().attempts(3);
        let outcome = one.with(few.clone()).transaction(|t| {
            let age = t.get_field(people, &1, Person::AGE)?.unwrap_or(0);
            in_another_thread(|| {
                two.with(few.clone()).transaction(|t| t.set_field(people, &1, Person::AGE, &(age + 1)))
            })?;
            t.set_field(people, &1, Person::AGE, &(age + 10))
        });
        assert!(outcome.is_err());
        let now = database.statistics().transactions;
        // Three attempts of one of the two. The scheme decides which one conflicts.
        assert_eq!(now.conflicts.total(), 3, "{scheme:?}: {now:?}");
        let by_engine = one.stats().aborts + two.stats().aborts;
        assert_eq!(now.conflicts.total(), by_engine, "{scheme:?}");
    }
}

#[test]
fn statistics_report_memory_log_and_epochs() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("statistics-{scheme:?}"));
        let (database, people) =
            declare(Database::at(&directory.0).scheme(scheme).memory_limit(64 << 20)).expect("a database");
        let before = database.statistics();
        assert_eq!(before.memory.limit, 64 << 20);
        assert_eq!(before.checkpoints, 0);
        let mut session = database.session().expect("a session");
        for first in (0..5_000).step_by(500) {
            session
                .transaction(|t| (first..first + 500).try_for_each(|id| t.insert(people, &person(id))))
                .expect("inserted");
        }
        database.checkpoint().expect("a checkpoint");
        let after = database.statistics();
        assert!(after.memory.used > before.memory.used + 5_000 * 64, "{after:?}");
        assert!(after.memory.used <= after.memory.touched && after.memory.touched <= after.memory.reserved);
        let (log, before_log) = (after.log.expect("durable"), before.log.expect("durable"));
        assert!(log.written_bytes > before_log.written_bytes + 5_000 * 50, "{log:?}");
        assert!(log.flushes > before_log.flushes && log.groups > before_log.groups);
        assert!(log.group_time > before_log.group_time);
        assert!(after.epoch > before.epoch, "each commit waited for its epoch to be complete");
        assert_eq!(after.checkpoints, 1);
    }
}

/// Adds a listener whose events the test receives.
fn with_receiver(builder: Builder, slow: Duration) -> (Builder, Receiver<Event>) {
    let (sender, receiver) = channel();
    let builder = builder.slow_after(slow).on_event(move |event| {
        // The receiver may have been dropped.
        let _ = sender.send(event.clone());
    });
    (builder, receiver)
}

#[test]
fn listeners_receive_openings_checkpoints_and_the_end() {
    let directory = Directory::new("events");
    let never = Duration::from_secs(3600);
    let (builder, receiver) = with_receiver(Database::at(&directory.0), never);
    let (database, people) = declare(builder).expect("a database");
    database.transaction(|t| (0..50).try_for_each(|id| t.insert(people, &person(id)))).expect("inserted");
    database.checkpoint().expect("a checkpoint");
    database.transaction(|t| t.delete(people, &7)).expect("deleted");
    database.close().expect("closed");
    let all: Vec<Event> = receiver.iter().collect();
    assert_eq!(
        all,
        [Event::Checkpoint { ended: 1, failed: None }, Event::Closed],
        "an empty directory is no recovery"
    );

    let (builder, receiver) = with_receiver(Database::at(&directory.0), never);
    let (database, people) = declare(builder).expect("a database");
    let first = receiver.try_recv();
    let Ok(Event::Recovered { rows: 50, changes: 1, bytes, took, .. }) = first else { panic!("{first:?}") };
    assert!(bytes > 0 && took > Duration::ZERO);
    assert_eq!(all_people(&database, people).len(), 49);
    drop(database);
    assert_eq!(receiver.iter().count(), 0, "it was not closed");
}

#[test]
fn listeners_receive_slow_transactions_and_may_use_the_database() {
    for scheme in SCHEMES {
        let (sender, receiver) = channel();
        let handle = std::sync::Arc::new(std::sync::OnceLock::<(Database, isles::Table<Person>)>::new());
        let theirs = std::sync::Arc::clone(&handle);
        let builder = Database::in_memory().scheme(scheme).slow_after(Duration::from_millis(3));
        let builder = builder.on_event(move |event| {
            // A transaction of the listener is not nested within the transaction that it is
            // notified of.
            let (database, people) = theirs.get().expect("set before the first transaction");
            let there = database.transaction(|t| t.exists(*people, &1));
            let _ = sender.send((event.clone(), there));
        });
        let (database, people) = declare(builder).expect("a database");
        assert!(handle.set((database.clone(), people)).is_ok());
        let mut session = database.session().expect("a session");
        session.transaction(|t| t.insert(people, &person(1))).expect("inserted");
        assert!(receiver.try_recv().is_err(), "it was not slow");
        let slowly = |error: Result<(), Error>| {
            std::thread::sleep(Duration::from_millis(4));
            error
        };
        let _ = session.transaction(|_| slowly(Err(Error::RollBack)));
        let open = session.begin().expect("begun");
        slowly(Ok(())).expect("slept");
        open.commit().expect("committed");
        for committed in [false, true] {
            let (event, there) = receiver.try_recv().expect("it was slow");
            let Event::SlowTransaction { took, attempts: 1, committed: reported, .. } = event else {
                panic!("{event:?}")
            };
            assert!(took >= Duration::from_millis(4));
            assert_eq!((reported, there), (committed, Ok(true)), "{scheme:?}");
        }
        assert!(receiver.try_recv().is_err());
    }
}

/// Names of the files in a directory.
fn files(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn backups_are_made_while_transactions_run() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("backup-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        database
            .transaction(|t| (0..500).try_for_each(|id| t.insert(people, &person(id))))
            .expect("inserted");
        let done = isles::CancelToken::new();
        let copies =
            [Directory::new(&format!("copy-1-{scheme:?}")), Directory::new(&format!("copy-2-{scheme:?}"))];
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // Ages move from one person to another: their sum stays.
                let mut session = database.session().expect("a session");
                for round in 0.. {
                    let (from, to) = (round * 7 % 500, (round * 11 + 1) % 500);
                    session
                        .transaction(|t| {
                            t.update_field(people, &from, Person::AGE, |age| *age -= 1)?;
                            t.update_field(people, &to, Person::AGE, |age| *age += 1).map(drop)
                        })
                        .expect("moved");
                    if done.is_cancelled() {
                        break;
                    }
                }
            });
            for (number, copy) in copies.iter().enumerate() {
                let made = database.backup(&copy.0).expect("a copy");
                assert!(made.files > 0 && made.rows + made.records > 0);
                if number == 0 {
                    database.checkpoint().expect("a checkpoint");
                }
            }
            done.cancel();
            writer.join().expect("no panic");
        });
        let sum = |all: &[Person]| all.iter().map(|person| u64::from(person.age)).sum::<u64>();
        let expected = sum(&(0..500).map(person).collect::<Vec<_>>());
        for copy in &copies {
            assert_eq!(Database::check(&copy.0).expect("whole").tables, [("people".to_owned(), 500)]);
            let (copied, people) = copy.open(scheme).expect("a database");
            let all = all_people(&copied, people);
            assert_eq!((all.len(), sum(&all)), (500, expected), "{scheme:?}");
        }
    }
}

#[test]
fn backups_include_asynchronous_commits() {
    let directory = Directory::new("backup-async");
    let copy = Directory::new("backup-async-copy");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    let mut session = database.session().expect("a session");
    for id in 0..50 {
        session.transaction_async(|t| t.insert(people, &person(id))).map(drop).expect("committed");
    }
    database.backup(&copy.0).expect("a copy");
    let (copied, people) = copy.open(Scheme::Silo).expect("a database");
    assert_eq!(all_people(&copied, people).len(), 50);
}

#[test]
fn failed_backups_leave_no_files() {
    let directory = Directory::new("backup-bad");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    database.transaction(|t| t.insert(people, &person(1))).expect("inserted");
    let why = |to: &Path| match database.backup(to) {
        Err(error @ Error::Backup { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let inside = directory.0.join("copy");
    assert!(why(&inside).contains("cannot lie in the directory that is copied"), "{}", why(&inside));
    assert!(why(&directory.0).contains("cannot lie in"), "{}", why(&directory.0));
    assert!(!inside.exists());
    let other = Directory::new("backup-full");
    std::fs::create_dir_all(&other.0).expect("made");
    std::fs::write(other.0.join("letter.txt"), "dear").expect("written");
    assert!(why(&other.0).contains("there are files in it"));
    assert_eq!(files(&other.0), ["letter.txt"]);
    let file = other.0.join("letter.txt");
    assert!(why(&file.join("copy")).contains("letter.txt"), "a file is no directory");
    assert_eq!(database.transaction(|_| Ok(database.backup(&other.0))), Ok(Err(Error::Nested)));

    let nowhere = other.0.join("nowhere");
    let missing = copy_directory(&nowhere, other.0.join("copy")).expect_err("nothing to copy");
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    std::fs::create_dir_all(&nowhere).expect("made");
    let empty = copy_directory(&nowhere, other.0.join("copy")).expect_err("no database");
    assert!(empty.to_string().contains("not a database"), "{empty}");
    assert!(!other.0.join("copy").exists(), "what was made is removed");

    let memory = Database::in_memory().open().expect("a database");
    assert!(
        matches!(memory.backup(other.0.join("copy")), Err(Error::Misuse(what)) if what.contains("memory"))
    );
}

#[test]
fn checks_find_damage_and_refuse_open_directories() {
    let directory = Directory::new("check");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    database.transaction(|t| (0..50).try_for_each(|id| t.insert(people, &person(id)))).expect("inserted");
    database.checkpoint().expect("a checkpoint");
    let reason = || match Database::check(&directory.0) {
        Err(Error::Open { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(), OpenReason::InUse);
    database.close().expect("closed");
    let check = Database::check(&directory.0).expect("whole");
    assert_eq!((check.tables, check.closed, check.in_doubt), (vec![("people".to_owned(), 50)], true, 0));
    let name =
        files(&directory.0).into_iter().find(|name| name.contains("checkpoint")).expect("a checkpoint");
    let path = directory.0.join(name);
    let mut bytes = std::fs::read(&path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    bytes[40] ^= 0xff;
    std::fs::write(&path, bytes).expect("written");
    assert_eq!(reason(), OpenReason::Damaged);
    let nowhere = Database::check(directory.0.join("nowhere")).expect_err("nothing there");
    assert!(matches!(nowhere, Error::Open { .. }), "{nowhere}");
    assert!(!directory.0.join("nowhere").exists(), "a check makes nothing");
}
