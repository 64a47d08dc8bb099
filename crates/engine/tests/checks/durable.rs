//! Databases that are opened again: what is there, what is refused, and that damage is noticed.

use std::ops::ControlFlow;
use std::path::Path;

use boundary::{
    Bounds, Direction, DurableOptions, Ending, OpenError, Progress, Recovered, SchemaBuilder, Stage, Verbs,
};
use concurrency::{InstanceOptions, SchemeName};
use platform::files::{FileErrorKind, Files};
use platform::{Intent, Place, Platform};
use redo_log::{LogError, LogOptions, survey};
use schema::{Inspector, Row, Schema, Table, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::Abort;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(group, name), index(by_size(size)))]
struct Thing {
    group: u8,
    name: [u8; 11],
    size: i32,
    #[row(tail)]
    text: Vec<u8>,
}

fn thing(number: i32) -> Thing {
    let mut name = [b'x'; 11];
    name[..4].copy_from_slice(&number.to_be_bytes());
    Thing { group: 3, name, size: -number, text: vec![number as u8; (number % 90) as usize] }
}

type P = VirtualMachine;
type Database = boundary::Database<P>;
type Opened = Result<(Database, Table<Thing>, Recovered), OpenError>;
/// By key and by size.
type Contents = [Vec<Thing>; 2];

fn options(checkpoint_bytes: u64) -> DurableOptions {
    let log = LogOptions { segment_bytes: 32 << 10, buffer_bytes: 4096, ..LogOptions::default() };
    let places = vec![Place { thread: None }; 2];
    DurableOptions { log, checkpoint_bytes, places, ..DurableOptions::new("d".into()) }
}

fn open(c: VirtualCore, checkpoint_bytes: u64) -> Opened {
    open_under(SchemeName::Silo, c, checkpoint_bytes)
}

fn open_under(scheme: SchemeName, c: VirtualCore, checkpoint_bytes: u64) -> Opened {
    let mut schema = SchemaBuilder::new();
    let things = schema.table::<Thing>("things", TableOptions::default());
    let instance = InstanceOptions {
        sessions_max: 6,
        memory_bytes_max: 64 << 20,
        epoch_nanos: 10_000,
        ..InstanceOptions::default()
    };
    let durable = options(checkpoint_bytes);
    let opened = engine_simulated::open(scheme, c, &instance, schema, &|_| None, &durable, None);
    opened.map(|(database, recovered)| (database, things, recovered))
}

fn config(disk: &Disk) -> Config {
    Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk)
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    VirtualMachine::run(&config(disk), program).expect("a run").value
}

/// Transactions of every kind over things `from..to`: two in three stay, some of them with another
/// text.
fn fill(database: &Database, c: VirtualCore, things: Table<Thing>, from: i32, to: i32) {
    let mut session = database.session(c, None, false).expect("a session");
    for number in from..to {
        let ending = session.transact(&Bounds::default(), |transaction| {
            transaction.insert(things, &thing(number))?;
            let key = (3, thing(number - 1).name);
            match transaction.find(things.primary(), &key, Intent::Write)? {
                Some(row) if number % 3 == 0 => transaction.delete(row),
                Some(row) if number % 3 == 1 => {
                    transaction.replace(row, &Thing { size: 7, text: b"new".to_vec(), ..thing(number - 1) })
                }
                _ => Ok(()),
            }
        });
        let Ok(Ending::Committed((), stamp)) = ending else { panic!("{ending:?}") };
        session.wait_durable(stamp).expect("durable");
    }
}

/// All things, by key and by size.
fn contents(database: &Database, c: VirtualCore, things: Table<Thing>) -> Contents {
    let (mut by_key, mut by_size) = (Vec::new(), Vec::new());
    let inspector = &mut database.inspector(c);
    inspector.scan(things.primary(), &(0, [0; 11]), &(255, [255; 11]), &mut |row: &Thing| {
        by_key.push(row.clone());
    });
    let all = ((i32::MIN, 0, [0; 11]), (i32::MAX, 255, [255; 11]));
    inspector
        .scan(things.index(Thing::BY_SIZE), &all.0, &all.1, &mut |row: &Thing| by_size.push(row.clone()));
    assert_eq!(by_key.len(), by_size.len());
    [by_key, by_size]
}

/// All things by key, as a transaction sees them that only reads.
fn snapshot(database: &Database, c: VirtualCore, things: Table<Thing>) -> Vec<Thing> {
    let mut session = database.session(c, None, false).expect("a session");
    let read = session.snapshot(&Bounds::default(), |transaction| {
        let mut all = Vec::new();
        let (low, high) = ((0, [0; 11]), (255, [255; 11]));
        transaction.scan(
            things.primary(),
            &low,
            &high,
            Direction::Forward,
            Intent::Read,
            &mut |t, row| {
                all.push(t.row(row)?);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(all)
    });
    let Ok(Ending::Committed(all, _)) = read else { panic!("{read:?}") };
    all
}

#[test]
fn a_database_is_opened_as_it_was_left() {
    SchemeName::ALL.into_iter().for_each(is_opened_as_it_was_left);
}

fn is_opened_as_it_was_left(scheme: SchemeName) {
    for (checkpoint_bytes, closes) in [(u64::MAX, true), (u64::MAX, false), (0, true), (0, false)] {
        let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
        let mut before = [(); 2].map(|()| Vec::new());
        for round in 0..4 {
            let (after, recovered) = run(&disk, |c| {
                let (database, things, recovered) =
                    open_under(scheme, c, checkpoint_bytes).expect("a database");
                assert_eq!(contents(&database, c, things), before, "round {round}");
                assert_eq!(snapshot(&database, c, things), before[0], "round {round}");
                fill(&database, c, things, 100 * round + 1, 100 * round + 90);
                let after = contents(&database, c, things);
                if closes {
                    database.close(c).expect("closed");
                }
                (after, recovered)
            });
            assert_eq!(recovered.existed, round > 0);
            // Closing makes one that is due.
            assert!(recovered.rows > 0 || round == 0 || !closes || checkpoint_bytes > 0, "round {round}");
            assert!(recovered.rows == 0 || checkpoint_bytes == 0, "round {round}");
            before = after;
            disk.lose_power();
        }
        assert!(before[0].len() > 100);
    }
}

/// A program that opens, works a little and stops, and never has enough of a log of its own for a
/// checkpoint, finds no more than the log of some of those before.
#[test]
fn logs_of_short_lives_do_not_add_up() {
    const LEAST: u64 = 600_000;
    for closes in [true, false] {
        let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
        let mut records = Vec::new();
        for round in 0..24 {
            let recovered = run(&disk, |c| {
                let (database, things, recovered) = open(c, LEAST).expect("a database");
                fill(&database, c, things, 60 * round + 1, 60 * round + 60);
                if closes {
                    database.close(c).expect("closed");
                    return recovered;
                }
                // Enough for what was due at the opening.
                let mut session = database.session(c, None, false).expect("a session");
                for _ in 0..400 {
                    session.tend(P::now(c));
                    P::pause(c, 100_000);
                }
                recovered
            });
            disk.lose_power();
            records.push(recovered.records);
        }
        let most = records.iter().max().copied().unwrap_or(0);
        assert!((60..600).contains(&most), "{records:?}, closed: {closes}");
    }
}

/// A prepared transaction that no session finishes keeps no database from being closed, nor the
/// checkpoint that is due from being made.
#[test]
fn a_prepared_transaction_is_no_obstacle_to_closing() {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    let before = run(&disk, |c| {
        let (database, things, _) = open_under(SchemeName::NoWait, c, 0).expect("a database");
        fill(&database, c, things, 1, 90);
        let before = contents(&database, c, things);
        let mut session = database.session(c, None, false).expect("a session");
        let prepared = session.prepare(&Bounds::default(), |transaction| {
            let row = transaction.find(things.primary(), &(3, thing(4).name), Intent::Write)?;
            transaction.delete(row.ok_or(Abort::Misuse("it is there"))?)
        });
        assert!(prepared.is_ok());
        drop(session);
        database.close(c).expect("closed");
        before
    });
    run(&disk, |c| {
        let (database, things, recovered) = open_under(SchemeName::NoWait, c, u64::MAX).expect("a database");
        let rows = before[0].len() as u64;
        assert_eq!((contents(&database, c, things), recovered.rows, recovered.in_doubt), (before, rows, 0));
    });
}

/// Two workers fill the database while a third one makes checkpoints; then the power is lost.
fn checkpoints_while_others_work(scheme: SchemeName, seed: u64) {
    let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..DiskFaults::default() });
    let config = config(&disk).with_seed(seed);
    let run = |program: &(dyn Fn(VirtualCore) -> Contents + Sync)| {
        VirtualMachine::run(&config, program).expect("a run").value
    };
    let after = run(&|c| {
        let (database, things, _) = open_under(scheme, c, u64::MAX).expect("a database");
        let places = [Place { thread: None }; 3];
        let worker = |c, number: usize| match number {
            0 | 1 => {
                // Between transactions of its own, the worker copies.
                let mut session = database.session(c, None, false).expect("a session");
                for part in 0..25 {
                    let from = 1000 * number as i32 + 10 * part + 1;
                    fill(&database, c, things, from, from + 10);
                    session.tend(P::now(c));
                }
            }
            _ => {
                let mut session = database.session(c, None, false).expect("a session");
                for _ in 0..3 {
                    assert_eq!(session.checkpoint(), Ok(true));
                    P::pause(c, 200_000);
                }
            }
        };
        VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
        contents(&database, c, things)
    });
    disk.lose_power();
    let found = run(&|c| {
        let survey = survey::<VirtualMachine>(c, Path::new("d")).expect("a whole database");
        assert!(survey.checkpoint.is_some_and(|(checkpoint, rows)| checkpoint.number == 3 && rows > 0));
        assert!(survey.generations[0].starts[0].sequence > 2, "the log was cut");
        let (database, things, recovered) = open_under(scheme, c, u64::MAX).expect("a database");
        assert!(recovered.rows > 0 && recovered.records < 500, "{recovered:?}");
        contents(&database, c, things)
    });
    assert!(found == after, "seed {seed}");
}

#[test]
fn checkpoints_are_made_while_transactions_run() {
    for (seeds, scheme) in (0..).step_by(4).zip(SchemeName::ALL) {
        (seeds..seeds + 4).for_each(|seed| checkpoints_while_others_work(scheme, seed));
    }
}

/// A new database with rows, all of which a checkpoint has.
fn copied(c: VirtualCore) -> (Database, Table<Thing>) {
    let (database, things, _) = open(c, u64::MAX).expect("a database");
    fill(&database, c, things, 1, 90);
    let mut session = database.session(c, None, false).expect("a session");
    assert_eq!(session.checkpoint(), Ok(true));
    drop(session);
    (database, things)
}

/// The listener of an opening receives each stage, in order, to its end.
#[test]
fn an_opening_reports_its_progress() {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    run(&disk, |c| {
        let (database, things) = copied(c);
        fill(&database, c, things, 90, 150);
        database.close(c).expect("closed");
        let mut schema = SchemaBuilder::new();
        schema.table::<Thing>("things", TableOptions::default());
        let mut received: Vec<Progress> = Vec::new();
        let mut listener = |progress| received.push(progress);
        let instance = InstanceOptions { memory_bytes_max: 64 << 20, ..InstanceOptions::default() };
        let durable = options(u64::MAX);
        let listener = Some(&mut listener as &mut dyn FnMut(Progress));
        let opened =
            engine_simulated::open(SchemeName::Silo, c, &instance, schema, &|_| None, &durable, listener);
        let (_, recovered) = opened.expect("a database");
        assert!(received.is_sorted_by_key(|progress| (progress.stage, progress.done)), "{received:?}");
        let ends: Vec<_> = received
            .iter()
            .filter(|progress| progress.done == progress.total)
            .map(|progress| progress.stage)
            .collect();
        for stage in [Stage::Reading, Stage::Dividing, Stage::Repeating, Stage::Loading] {
            assert!(ends.contains(&stage), "{stage:?}: {received:?}");
        }
        // Each of 60 transactions inserts a row; one of three deletes one, one of three puts
        // another in its place.
        assert_eq!((recovered.records, recovered.changes), (60, 120));
        assert!(recovered.rows > 0 && recovered.checkpoint_bytes > 0, "{recovered:?}");
        assert!(recovered.log_bytes > 0 && recovered.nanos > 0, "{recovered:?}");
    });
}

/// A checkpoint is verified when it is loaded.
#[test]
fn a_damaged_checkpoint_is_not_loaded() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    run(&disk, |c| {
        copied(c).0.close(c).expect("closed");
    });
    let part = disk.contents().into_iter().find(|(path, _)| path.to_string_lossy().contains("checkpoint-"));
    let (path, bytes) = part.expect("a part");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty") as u64;
    for byte in [0, 9, 4096, 4110, used / 2, used] {
        assert!(disk.flip_bit(&path, byte, 3));
        let error = run(&disk, |c| open(c, u64::MAX).err());
        let noticed =
            matches!(&error, Some(OpenError::Log(LogError::Damaged { file, .. })) if path.ends_with(file));
        assert!(noticed, "byte {byte}: {error:?}");
        assert!(disk.flip_bit(&path, byte, 3));
    }
    run(&disk, |c| open(c, u64::MAX).map(|_| ()).expect("all flipped back"));
}

#[test]
fn who_scans_waits_for_what_is_there_and_for_what_was_removed() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    run(&disk, |c| {
        let (database, things, _) = open(c, u64::MAX).expect("a database");
        // Two in three stay, and all of it is durable.
        fill(&database, c, things, 1, 30);
        let mut session = database.session(c, None, false).expect("a session");
        let mut scan = |deletes: bool| {
            let ending = session.transact(&Bounds::default(), |transaction| {
                let mut rows = Vec::new();
                let (low, high) = ((0, [0; 11]), (255, [255; 11]));
                let visit = &mut |t: &mut boundary::Transaction<'_>, row| {
                    t.row(row)?;
                    rows.push(row);
                    Ok(ControlFlow::Continue(()))
                };
                transaction.scan(things.primary(), &low, &high, Direction::Forward, Intent::Read, visit)?;
                if deletes { transaction.delete(rows[5]) } else { Ok(()) }
            });
            let Ok(Ending::Committed((), commit)) = ending else { panic!("{ending:?}") };
            (commit, session.is_durable(commit))
        };
        assert!(scan(false).1, "nothing is new");
        let (deletion, durable) = scan(true);
        assert!(!durable, "no session has waited");
        let (later, durable) = scan(false);
        assert!(!durable && later.durable_with >= deletion.durable_with, "a row is missing");
    });
}

#[test]
fn one_has_a_directory_to_oneself() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    run(&disk, |c| {
        let (database, ..) = open(c, u64::MAX).expect("a database");
        match open(c, u64::MAX).err() {
            Some(OpenError::Log(LogError::File(error))) => assert_eq!(error.kind, FileErrorKind::InUse),
            other => panic!("{other:?}"),
        }
        drop(database);
        assert!(open(c, u64::MAX).is_ok());
    });
}

#[test]
fn other_tables_and_other_directories_are_refused() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    run(&disk, |c| {
        open(c, u64::MAX).expect("a database");
        let instance = InstanceOptions {
            sessions_max: 2,
            memory_bytes_max: 64 << 20,
            epoch_nanos: 10_000,
            ..InstanceOptions::default()
        };
        let mut schema = SchemaBuilder::new();
        schema.table::<Thing>("other things", TableOptions::default());
        let durable = options(u64::MAX);
        let opened =
            engine_simulated::open(SchemeName::Silo, c, &instance, schema, &|_| None, &durable, None);
        assert!(matches!(opened.err(), Some(OpenError::Schema { .. })));
        let missing = survey::<VirtualMachine>(c, Path::new("nowhere"));
        assert!(matches!(missing.err(), Some(LogError::File(_))));
        VirtualMachine::open_directory(c, Path::new("empty"), true).expect("a directory");
        let empty = survey::<VirtualMachine>(c, Path::new("empty"));
        assert!(matches!(empty.err(), Some(LogError::NotADatabase(_))));
    });
}

/// Every flipped bit of what a closed database needs is noticed, or changes nothing: it lies in
/// space that is not used.
#[test]
fn flipped_bits_are_noticed() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let expected = run(&disk, |c| {
        let (database, things, _) = open(c, u64::MAX).expect("a database");
        fill(&database, c, things, 1, 40);
        database.close(c).expect("closed");
        let (database, things, _) = open(c, u64::MAX).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        drop(session);
        fill(&database, c, things, 40, 60);
        let expected = contents(&database, c, things);
        database.close(c).expect("closed");
        expected
    });
    let (mut noticed, mut unused) = (0, 0);
    for (path, bytes) in disk.contents() {
        // Of each kilobyte two bits; of the manifest all bytes.
        let step = if bytes.len() > 10_000 { 509 } else { 1 };
        for byte in (0..bytes.len() as u64).step_by(step) {
            let bit = (byte % 8) as u8;
            assert!(disk.flip_bit(&path, byte, bit));
            let surveyed = run(&disk, |c| survey::<VirtualMachine>(c, Path::new("d")).err());
            match surveyed {
                Some(_) => noticed += 1,
                None => unused += 1,
            }
            assert!(surveyed.is_some() || bytes[byte as usize] == 0, "{} byte {byte}", path.display());
            assert!(disk.flip_bit(&path, byte, bit));
        }
    }
    assert!(noticed > 300, "{noticed} noticed, {unused} in unused space");
    run(&disk, |c| {
        let (database, things, _) = open(c, u64::MAX).expect("all flipped back");
        assert_eq!(contents(&database, c, things), expected);
    });
}
