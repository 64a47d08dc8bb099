//! A process that is killed between writing a group of the log and flushing it, and openings after
//! it that end early, and then with the power.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use boundary::{Bounds, Ending, Verbs};
use platform::{Intent, Platform};
use sim::{Crash, Disk, DiskFaults, DiskModel, SimError, VirtualMachine};

use crate::full_disk::{Entry, boot, machine, opened};
use crate::support::session;

/// Operations of the disk of a process that inserts: a few segments.
const OPERATIONS: std::ops::Range<u64> = 20..160;
/// Operations of an opening, at most.
const OPENING_MAX: u64 = 200;
const BLOCK: usize = 4096;

/// A process that inserts rows and is killed at this operation of the disk; what it has
/// acknowledged.
fn insert_until_killed(disk: &Disk, operation: u64) -> Vec<u64> {
    let acknowledged = Mutex::new(Vec::new());
    let config = machine(disk).crashing(Crash::DiskOperation(operation));
    let run = VirtualMachine::run(&config, |c| {
        let (database, table) = opened(c).expect("a new database");
        let mut session = session(&database, c);
        for id in 0.. {
            let row = Entry::of(id);
            let inserted = session.transact(&Bounds::default(), |t| t.insert(table, &row));
            let Ok(Ending::Committed((), commit)) = inserted else { panic!("{inserted:?}") };
            session.wait_durable(commit).expect("a disk without faults");
            acknowledged.lock().expect("no panic").push(id);
            session.tend(VirtualMachine::now(c));
        }
    });
    assert!(matches!(run, Err(SimError::Crashed { .. })), "{:?}", run.err());
    acknowledged.into_inner().expect("no panic")
}

/// True if the last segment of the log has nothing yet, and the one before is full: its last group
/// may be on its way still.
fn ends_between_segments(disk: &Disk) -> bool {
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let segments: BTreeMap<String, Vec<u8>> = disk
        .contents()
        .into_iter()
        .filter_map(|(path, bytes)| Some((name(&path).filter(|name| name.starts_with("wal-"))?, bytes)))
        .collect();
    let mut last = segments.values().rev();
    let is_written = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
    match (last.next(), last.next()) {
        (Some(next), Some(full)) => {
            next.len() > BLOCK && !is_written(&next[BLOCK..]) && is_written(&full[full.len() - BLOCK..])
        }
        _ => false,
    }
}

#[test]
fn an_opening_relies_on_nothing_of_the_log_that_is_not_durable() {
    let (mut places, mut openings) = (0, 0);
    for operation in OPERATIONS {
        let left = || {
            let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
            let acknowledged = insert_until_killed(&disk, operation);
            (disk, acknowledged)
        };
        if !ends_between_segments(&left().0) {
            continue;
        }
        places += 1;
        for crash in 1..OPENING_MAX {
            // The operating system has what the process has written, and the next process reads it;
            // then the machine stops.
            let (disk, acknowledged) = left();
            let config = machine(&disk).crashing(Crash::DiskOperation(crash));
            let ended = VirtualMachine::run(&config, |c| drop(opened(c).expect("it is whole")));
            disk.lose_power();
            boot(&disk, |c| {
                let (database, table) = opened(c)
                    .unwrap_or_else(|error| panic!("killed at {operation}, stopped at {crash}: {error}"));
                let read = session(&database, c).transact(&Bounds::default(), |t| {
                    for id in &acknowledged {
                        let found = t.find(table.primary(), id, Intent::Read)?;
                        assert_eq!(found.map(|found| t.row(found)).transpose()?, Some(Entry::of(*id)));
                    }
                    Ok(())
                });
                assert!(matches!(read, Ok(Ending::Committed(..))), "{read:?}");
            });
            openings += 1;
            if ended.is_ok() {
                break;
            }
        }
    }
    println!("{places} places, {openings} openings");
    assert!(places > 1 && openings > 40, "{places} places, {openings} openings");
}

/// True if a segment is there that an opening writes anew, and that has not taken its place yet.
fn has_new_segment(disk: &Disk) -> bool {
    disk.contents().keys().any(|path| path.ends_with("wal.new"))
}

/// Two openings end early, each with the power, the second one when a segment has just taken its
/// place: what the first one left under a name of its own must not become that segment.
#[test]
fn what_an_opening_left_does_not_take_the_place_of_a_segment() {
    const KILLED_AT: u64 = 60;
    let stop = |disk: &Disk, operation| {
        let config = machine(disk).crashing(Crash::DiskOperation(operation));
        VirtualMachine::run(&config, |c| drop(opened(c).expect("it is whole"))).is_ok()
    };
    let left = |seed: u64, first: u64| {
        let disk = Disk::new(DiskModel::RAM, DiskFaults { seed, ..DiskFaults::default() });
        let acknowledged = insert_until_killed(&disk, KILLED_AT);
        let began = !stop(&disk, first) && has_new_segment(&disk);
        disk.lose_power();
        (began && has_new_segment(&disk)).then_some((disk, acknowledged))
    };
    // The operation behind which the new segment has its place: the last one at which its own name
    // goes.
    let renamed = |seed: u64, first: u64| {
        let (mut was_there, mut last) = (false, None);
        for second in 1..OPENING_MAX {
            let (disk, _) = left(seed, first)?;
            if stop(&disk, second) {
                break;
            }
            let is_there = has_new_segment(&disk);
            if was_there && !is_there {
                last = Some(second);
            }
            was_there = is_there;
        }
        last
    };
    let (mut places, mut openings) = (0, 0);
    for (seed, first) in (0..6).flat_map(|seed| (1..60).map(move |first| (seed, first))) {
        let Some(second) = left(seed, first).and_then(|_| renamed(seed, first)) else { continue };
        places += 1;
        for loss in 0..40 {
            let Some((disk, acknowledged)) = left(seed, first) else { continue };
            stop(&disk, second);
            disk.set_faults(DiskFaults { seed: loss, ..DiskFaults::default() });
            disk.lose_power();
            boot(&disk, |c| {
                let (database, table) = opened(c)
                    .unwrap_or_else(|error| panic!("seed {seed}, {first}, {second}, {loss}: {error}"));
                let read = session(&database, c).transact(&Bounds::default(), |t| {
                    for id in &acknowledged {
                        assert!(t.find(table.primary(), id, Intent::Read)?.is_some(), "row {id}");
                    }
                    Ok(())
                });
                assert!(matches!(read, Ok(Ending::Committed(..))), "{read:?}");
            });
            openings += 1;
        }
    }
    println!("{places} places, {openings} openings");
    assert!(places > 1 && openings > 40, "{places} places, {openings} openings");
}
