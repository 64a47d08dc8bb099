//! The contents of a disk after a crash of its machine: all flushed data, and any part of the rest.
//!
//! A writer appends numbered records and publishes how many it has acknowledged; the next machine
//! counts the whole records. Faulty writers are detected.

// The acknowledgements outlive the simulated machine: they are kept outside it.
#![allow(clippy::disallowed_types)]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::small;
use platform::files::{Access, Buffer, Existence, FileErrorKind, Files, Operation};
use platform::{Nanos, Place, Platform};
use sim::{Config, Crash, Disk, DiskFaults, DiskModel, Fall, SimError, VirtualCore, VirtualMachine};

type Vm = VirtualMachine;

/// Bytes of a record: more than a sector, so that it can be torn, and never a whole number of them.
const RECORD_BYTES: usize = 1500;
const RECORDS: u64 = 12;

/// A correct writer, and writers with a mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Correct,
    SkipsFlush,
    SkipsFlushOfDirectory,
    /// Flushes again after a failure, and trusts the second result.
    RetriesFlush,
}

fn record(number: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [number as u8 + 1; RECORD_BYTES];
    bytes[RECORD_BYTES - 1] = 0xaa;
    bytes
}

fn perform(
    c: VirtualCore,
    queue: &mut <Vm as Files>::Queue,
    operation: Operation<Vm>,
) -> Result<(), FileErrorKind> {
    Vm::perform(c, queue, operation).result.map(|_| ()).map_err(|error| error.kind)
}

fn open(
    c: VirtualCore,
    queue: &mut <Vm as Files>::Queue,
    existence: Existence,
) -> Option<<Vm as Files>::File> {
    let operation = Operation::Open { name: "journal".into(), existence, access: Access::Cached };
    Vm::perform(c, queue, operation).into_file().ok()
}

fn write(c: VirtualCore, writer: Writer, acknowledged: &AtomicU64) {
    let directory = Vm::open_directory(c, Path::new("d"), true).expect("a directory");
    let mut queue = Vm::queue(c, &directory).expect("a queue");
    let Some(file) = open(c, &mut queue, Existence::New) else { return };
    if writer != Writer::SkipsFlushOfDirectory && perform(c, &mut queue, Operation::FlushDirectory).is_err() {
        return;
    }
    for number in 0..RECORDS {
        let mut buffer = Buffer::new(c, None, RECORD_BYTES, "record").expect("memory");
        buffer.append(c, &record(number));
        let offset = number * RECORD_BYTES as u64;
        let write = Operation::Write { file: file.clone(), offset, buffers: vec![buffer] };
        if perform(c, &mut queue, write).is_err() {
            return;
        }
        if writer != Writer::SkipsFlush {
            let mut flushed = perform(c, &mut queue, Operation::Flush { file: file.clone() });
            if flushed.is_err() && writer == Writer::RetriesFlush {
                flushed = perform(c, &mut queue, Operation::Flush { file: file.clone() });
            }
            if flushed.is_err() {
                return;
            }
        }
        acknowledged.store(number + 1, Ordering::Relaxed);
    }
}

/// Number of whole records from the first on, and true if a part of a record follows them.
fn recovered(disk: &Disk) -> (u64, bool) {
    let contents = disk.contents();
    let Some(bytes) = contents.get(Path::new("d/journal")) else { return (0, false) };
    let mut whole = 0;
    while bytes.get((whole as usize) * RECORD_BYTES..(whole as usize + 1) * RECORD_BYTES)
        == Some(&record(whole)[..])
    {
        whole += 1;
    }
    let rest = &bytes[whole as usize * RECORD_BYTES..];
    (whole, rest.iter().any(|byte| *byte != 0))
}

/// Counts of a campaign.
#[derive(Debug, Default, PartialEq, Eq)]
struct CrashCounts {
    runs: u64,
    crashes: u64,
    /// Acknowledged records that are gone.
    lost: u64,
    /// Records that were there without an acknowledgement.
    unacknowledged: u64,
    torn: u64,
    flush_failures: u64,
}

fn campaign(writer: Writer, seeds: u64, faults: DiskFaults, power: bool) -> CrashCounts {
    let mut counts = CrashCounts::default();
    for seed in 0..seeds {
        let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..faults });
        let crash = match seed % 3 {
            0 => Crash::DiskOperation(1 + seed / 3 % 30),
            1 => Crash::At(Nanos(seed * 7919 % 700_000)),
            _ => Crash::Event(1 + seed / 3 % 90),
        };
        let config = small().with_disk(&disk).with_seed(seed).crashing(crash);
        let config = if seed % 2 == 0 { config } else { config.perturbed() };
        let acknowledged = AtomicU64::new(0);
        let run = Vm::run(&config, |c| write(c, writer, &acknowledged));
        match run {
            Ok(_) => {}
            Err(SimError::Crashed { .. }) => counts.crashes += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
        if power {
            disk.lose_power();
        }
        let (whole, torn) = recovered(&disk);
        let acknowledged = acknowledged.into_inner();
        counts.runs += 1;
        counts.lost += acknowledged.saturating_sub(whole);
        counts.unacknowledged += whole.saturating_sub(acknowledged);
        counts.torn += u64::from(torn);
        counts.flush_failures += disk.used().failed_flushes;
    }
    counts
}

#[test]
fn what_was_flushed_survives_a_loss_of_power() {
    let counts = campaign(Writer::Correct, 600, DiskFaults::default(), true);
    assert_eq!(counts.lost, 0, "{counts:?}");
    // The campaign has reached the dangerous states.
    assert!(counts.crashes > 300 && counts.unacknowledged > 10 && counts.torn > 50, "{counts:?}");
    let counts =
        campaign(Writer::Correct, 300, DiskFaults { sector_bytes: 4096, ..DiskFaults::default() }, true);
    assert_eq!(counts.lost, 0, "{counts:?}");
}

#[test]
fn writers_that_forget_a_flush_are_caught() {
    assert!(campaign(Writer::SkipsFlush, 200, DiskFaults::default(), true).lost > 0);
    assert!(campaign(Writer::SkipsFlushOfDirectory, 200, DiskFaults::default(), true).lost > 0);
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_had_written() {
    for writer in [Writer::Correct, Writer::SkipsFlush] {
        let counts = campaign(writer, 200, DiskFaults::default(), false);
        assert!(counts.lost == 0 && counts.crashes > 50, "{counts:?}");
    }
}

#[test]
fn a_flush_that_failed_is_not_to_be_repeated() {
    let faults = DiskFaults { flush_failure_one_in: 6, ..DiskFaults::default() };
    let correct = campaign(Writer::Correct, 300, faults, true);
    assert!(correct.lost == 0 && correct.flush_failures > 50, "{correct:?}");
    assert!(campaign(Writer::RetriesFlush, 300, faults, true).lost > 0);
}

#[test]
fn the_same_seed_loses_the_same() {
    let faults = DiskFaults { garbage_one_in: 4, flush_failure_one_in: 9, ..DiskFaults::default() };
    assert_eq!(campaign(Writer::Correct, 60, faults, true), campaign(Writer::Correct, 60, faults, true));
    let contents = |seed| {
        let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..faults });
        let config = small().with_disk(&disk).crashing(Crash::At(Nanos(300_000)));
        let _ = Vm::run(&config, |c| write(c, Writer::SkipsFlush, &AtomicU64::new(0)));
        disk.lose_power();
        disk.contents()
    };
    assert_eq!(contents(5), contents(5));
    assert!((0..20).any(|seed| contents(seed) != contents(seed + 20)));
}

#[test]
fn a_machine_is_booted_again_over_what_is_left() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let config = small().with_disk(&disk);
    let acknowledged = AtomicU64::new(0);
    // Late enough for some records, and in the middle of others.
    let crash = config.clone().crashing(Crash::At(Nanos(20_000)));
    let outcome = Vm::run(&crash, |c| write(c, Writer::Correct, &acknowledged));
    assert_eq!(outcome.err(), Some(SimError::Crashed { at: Nanos(20_000) }));
    disk.lose_power();
    let acknowledged = acknowledged.into_inner();
    assert!((1..RECORDS).contains(&acknowledged), "{acknowledged}");
    let again = Vm::run(&config, |c| {
        // The lock was lost with the machine.
        let directory = Vm::open_directory(c, Path::new("d"), false).expect("a directory");
        let mut queue = Vm::queue(c, &directory).expect("a queue");
        let file = open(c, &mut queue, Existence::Old).expect("a file");
        let buffer = Buffer::new(c, None, RECORD_BYTES, "record").expect("memory");
        let read = Operation::Read { file, offset: (acknowledged - 1) * RECORD_BYTES as u64, buffer };
        let completion = Vm::perform(c, &mut queue, read);
        completion.buffers[0].bytes()[..RECORD_BYTES] == record(acknowledged - 1)
    });
    assert!(again.expect("a run").value);
}

/// Workers end at any of their events while another worker continues, and their flushed data is
/// there.
#[test]
fn a_crew_falls_and_others_run_on() {
    let places = [Place { thread: None }; 2];
    let mut acknowledged_least = u64::MAX;
    for event in 1..40 {
        let disk = Disk::new(DiskModel::RAM, DiskFaults { seed: event, ..DiskFaults::default() });
        let falls = vec![Fall { crews: vec![1], event }];
        let config = Config { falls, ..small().with_disk(&disk) };
        let (acknowledged, counted) = (AtomicU64::new(0), AtomicU64::new(0));
        let worker = |c, number: usize| match number {
            0 => {
                Vm::join_crew(c, 1);
                Vm::allow_falls(c);
                write(c, Writer::Correct, &acknowledged);
            }
            _ => (0..100).for_each(|_| {
                Vm::pause(c, 10_000);
                counted.fetch_add(1, Ordering::Relaxed);
            }),
        };
        let ran = Vm::run(&config, |c| {
            Vm::parallel(c, &places, &worker, &mut |_| ());
            Vm::lose_directory(c, Path::new("d"), true);
            (Vm::fallen_crew(c, 0), Vm::fallen_crew(c, 1))
        });
        assert_eq!(ran.expect("a run").value, (Some(1), None), "event {event}");
        assert_eq!(counted.into_inner(), 100);
        let acknowledged = acknowledged.into_inner();
        assert!(recovered(&disk).0 >= acknowledged && acknowledged < RECORDS, "event {event}");
        acknowledged_least = acknowledged_least.min(acknowledged);
    }
    assert_eq!(acknowledged_least, 0);
}

/// Two crews end together, one that began in place of the first falls later, and those that have
/// not agreed do not fall: as if one of several machines crashed.
#[test]
fn crews_fall_together_and_again() {
    let falls = vec![Fall { crews: vec![1, 2], event: 20 }, Fall { crews: vec![1], event: 40 }];
    let falls = [falls, vec![Fall { crews: vec![3], event: 1 }]].concat();
    let config = Config { falls, ..small() };
    let (steps, ended) = ([const { AtomicU64::new(0) }; 3], AtomicU64::new(0));
    let ran = Vm::run(&config, |c| {
        let worker = |c, number: usize| {
            Vm::join_crew(c, number as u16 + 1);
            if number < 2 {
                Vm::allow_falls(c);
            }
            for _ in 0..50 {
                Vm::pause(c, 1_000);
                steps[number].fetch_add(1, Ordering::Relaxed);
            }
            ended.fetch_add(1, Ordering::Relaxed);
        };
        Vm::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
        assert_eq!((ended.load(Ordering::Relaxed), steps[2].load(Ordering::Relaxed)), (1, 50));
        let before = [0, 1].map(|number| steps[number].load(Ordering::Relaxed));
        assert!(before[0].abs_diff(before[1]) < 2 && before[0] < 20, "{before:?}");
        Vm::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
        [0, 1, 2, 3].map(|number| Vm::fallen_crew(c, number))
    });
    let ran = ran.expect("a run");
    assert_eq!(ran.value, [Some(1), Some(2), Some(1), None]);
    assert_eq!((ran.statistics.faults.falls, ended.into_inner()), (3, 3));
}

#[test]
fn bits_flip_where_a_test_says_so() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    Vm::run(&small().with_disk(&disk), |c| write(c, Writer::Correct, &AtomicU64::new(0))).expect("a run");
    assert_eq!(recovered(&disk), (RECORDS, false));
    assert!(disk.flip_bit(Path::new("d/journal"), 2 * RECORD_BYTES as u64 + 9, 3));
    assert!(!disk.flip_bit(Path::new("d/journal"), 1 << 40, 3) && !disk.flip_bit(Path::new("d/x"), 0, 0));
    disk.lose_power();
    assert_eq!(recovered(&disk), (2, true));
}
