//! A process that runs the crash workload on a database until it is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use boundary::{Database, DurableOptions, SchemaBuilder};
use concurrency::InstanceOptions;
use platform::files::Access;
use platform::{Hardware, Place, Platform};
use redo_log::LogOptions;
use terms::Abort;
use terms::random::Random;

use super::workload::{self, KEPT, MEMORY_BYTES_MAX, Tables, Workers};
use crate::mutex::{into_inner, lock};
use crate::subject::Subject;

/// Rows that a worker keeps in pages: the pool holds a third of them.
const KEPT_IN_PAGES: u64 = 200;
const EPOCH_NANOS: u64 = 200_000;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Small enough for checkpoints while transactions run.
const CHECKPOINT_BYTES: u64 = 100_000;

/// One run of a process. A process may follow another under another scheme: files do not depend on
/// it.
#[derive(Clone, Copy)]
pub struct ProcessRun<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// The directory of the database.
    pub path: &'a Path,
    /// How the log of rows in memory is written.
    pub access: Access,
    /// Fixes the transactions.
    pub seed: u64,
    /// The last number that each worker has acknowledged in earlier runs: their count is the number
    /// of workers.
    pub acknowledged: &'a [u64],
}

/// The contents of a directory without violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Records that the opening repeated.
    pub records: u64,
    /// The last number of each worker: from now on these count as acknowledged, since an opening
    /// has shown them.
    pub numbers: Vec<u64>,
}

impl std::fmt::Display for Found {
    /// `opened RECORDS NUMBER,NUMBER,...`
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        write!(to, "opened {} {}", self.records, numbers.join(","))
    }
}

fn open(run: &ProcessRun<'_>) -> Result<(Database<Hardware>, Tables, Found), String> {
    let mut schema = SchemaBuilder::new();
    let partitions = run.subject.partitioned.then_some(run.acknowledged.len() as u16);
    let kept = if run.subject.has_pages() { KEPT_IN_PAGES } else { KEPT };
    let tables = Tables::declare(&mut schema, partitions, kept).for_seed(run.seed);
    let options = InstanceOptions {
        sessions_max: 2 * run.acknowledged.len() + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let log = LogOptions { segment_bytes: SEGMENT_BYTES, buffer_bytes: 32 << 10, ..LogOptions::default() };
    let durable = DurableOptions {
        path: run.path.to_path_buf(),
        checkpoint_bytes: CHECKPOINT_BYTES,
        places: vec![Place { thread: None }; 2],
        log: LogOptions { access: run.access, ..log },
    };
    let c = Hardware::core();
    let opened = run.subject.open::<Hardware>(c, &options, schema, &durable);
    let (database, recovered) = opened.map_err(|error| error.to_string())?;
    let checked = workload::check(c, &database, tables, run.acknowledged);
    if !checked.wrong.is_empty() {
        return Err(checked.wrong.join("; "));
    }
    Ok((database, tables, Found { records: recovered.records, numbers: checked.numbers }))
}

/// Opens the database and checks it.
///
/// # Errors
/// A violation: the database cannot be opened, an acknowledged number is missing, or one is half
/// applied.
pub fn check(run: &ProcessRun<'_>) -> Result<Found, String> {
    open(run).map(|(_, _, found)| found)
}

/// Opens the database, checks it, and runs transactions until the process is killed, or its output
/// is closed.
pub fn run(run: &ProcessRun<'_>) -> Result<(), String> {
    let orphan = AtomicBool::new(false);
    let report = |line: String| {
        // One write a line, so that the lines of workers do not mix.
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            orphan.store(true, Ordering::Relaxed);
        }
    };
    report("opening\n".into());
    let (database, tables, found) = open(run)?;
    report(format!("{found}\n"));
    let acknowledge = |worker: usize, done: u64| report(format!("{worker} {done}\n"));
    let stopped = Mutex::new(None);
    let workers = Workers {
        database: &database,
        tables,
        count: run.acknowledged.len(),
        transactions: 100,
        committed: &|| (),
        acknowledge: &acknowledge,
    };
    let worker = |c, number: usize| {
        for round in 0.. {
            if orphan.load(Ordering::Relaxed) {
                break;
            }
            match workers.run(c, number, Random::new(run.seed, number as u64 + round * 100)) {
                Ok(()) => {}
                Err(Abort::NotDurable(reason) | Abort::Storage(reason)) => {
                    *lock(&stopped) = Some(reason);
                    break;
                }
                Err(abort) => panic!("worker {number}: {abort}"),
            }
        }
    };
    let places = vec![Place { thread: None }; run.acknowledged.len()];
    Hardware::parallel(Hardware::core(), &places, &worker, &mut |_| ());
    into_inner(stopped).map_or(Ok(()), Err)
}
