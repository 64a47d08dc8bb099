//! What a process that may be killed does with a database.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use boundary::{Database, DurableOptions, SchemaBuilder};
use concurrency::InstanceOptions;
use platform::files::Access;
use platform::{Hardware, Place, Platform};
use redo_log::LogOptions;
use terms::Abort;
use terms::random::Random;

use super::workload::{KEPT, MEMORY_BYTES_MAX, Tables, Worker, check};
use crate::subject::Subject;

/// Rows that a worker leaves in pages: the pool holds a third of them.
const KEPT_IN_PAGES: u64 = 200;
const EPOCH_NANOS: u64 = 200_000;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Little enough for checkpoints while transactions run.
const CHECKPOINT_BYTES: u64 = 100_000;

/// What a process is to do.
#[derive(Clone, Copy)]
pub(crate) struct Duty<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// The directory of the database.
    pub path: &'a Path,
    /// How the log is written.
    pub access: Access,
    /// The transactions.
    pub seed: u64,
    /// The last number that each worker has acknowledged in former lives: as many workers as there
    /// are numbers.
    pub acknowledged: &'a [u64],
}

/// What is in a directory, if nothing is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Records that were repeated when the database was opened.
    pub records: u64,
    /// The last number of each worker: from now on they count as acknowledged, for they have been
    /// seen.
    pub numbers: Vec<u64>,
}

impl std::fmt::Display for Found {
    /// `opened RECORDS NUMBER,NUMBER,...`
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        write!(to, "opened {} {}", self.records, numbers.join(","))
    }
}

fn open(duty: &Duty<'_>) -> Result<(Database<Hardware>, Tables, Found), String> {
    let mut schema = SchemaBuilder::new();
    let partitions = duty.subject.partitioned.then_some(duty.acknowledged.len() as u16);
    let kept = if duty.subject.has_pages() { KEPT_IN_PAGES } else { KEPT };
    let tables = Tables::declare(&mut schema, partitions, kept);
    let options = InstanceOptions {
        sessions_max: 2 * duty.acknowledged.len() + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let log = LogOptions { segment_bytes: SEGMENT_BYTES, buffer_bytes: 32 << 10, ..LogOptions::default() };
    let durable = DurableOptions {
        path: duty.path.to_path_buf(),
        checkpoint_bytes: CHECKPOINT_BYTES,
        places: vec![Place { thread: None }; 2],
        log: LogOptions { access: duty.access, ..log },
    };
    let c = Hardware::core();
    let opened = duty.subject.open_on::<Hardware>(c, &options, schema, &durable);
    let (database, recovered) = opened.map_err(|error| error.to_string())?;
    let checked = check(c, &database, tables, duty.acknowledged);
    if !checked.wrong.is_empty() {
        return Err(checked.wrong.join("; "));
    }
    Ok((database, tables, Found { records: recovered.records, numbers: checked.numbers }))
}

/// Opens the database and checks it.
pub(crate) fn look(duty: &Duty<'_>) -> Result<Found, String> {
    open(duty).map(|(_, _, found)| found)
}

/// Opens the database, checks it, and runs transactions until it is killed, or its output is
/// closed.
pub(crate) fn live(duty: &Duty<'_>) -> Result<(), String> {
    let orphan = AtomicBool::new(false);
    let say = |line: String| {
        // One write a line: the lines of workers do not mix.
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            orphan.store(true, Ordering::Relaxed);
        }
    };
    say("opening\n".into());
    let (database, tables, found) = open(duty)?;
    say(format!("{found}\n"));
    let acknowledge = |worker: usize, done: u64| say(format!("{worker} {done}\n"));
    let stopped = Mutex::new(None);
    let worker = |c, number: usize| {
        for round in 0.. {
            if orphan.load(Ordering::Relaxed) {
                break;
            }
            let mut worker = Worker {
                database: &database,
                tables,
                number,
                workers: duty.acknowledged.len() as u16,
                random: Random::new(duty.seed, number as u64 + round * 100),
                transactions: 100,
                committed: &|| (),
                acknowledge: &acknowledge,
            };
            match worker.run(c) {
                Ok(()) => {}
                Err(Abort::NotDurable(reason) | Abort::Storage(reason)) => {
                    *stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                    break;
                }
                Err(abort) => panic!("worker {number}: {abort}"),
            }
        }
    };
    let places = vec![Place { thread: None }; duty.acknowledged.len()];
    Hardware::parallel(Hardware::core(), &places, &worker, &mut |_| ());
    stopped.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
