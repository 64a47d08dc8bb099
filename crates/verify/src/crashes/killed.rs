//! Processes that are killed: `kill -9` at any moment, on the machine's own disk.
//!
//! A child process runs the workload on a database in a directory and tells its parent, through a pipe, which numbers it
//! acknowledges. The parent kills it, and looks at what is in the directory. The operating system's cache survives.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cc::{Abort, InstanceOptions, Scheme};
use engine::durable::{DurableOptions, OpenError, Recovered};
use engine::{Database, SchemaBuilder};
use platform::{Hardware, Place, Platform};
use storage::log::LogOptions;
use workloads::Random;

use super::workload::{Tables, Worker, check};

const EPOCH_NANOS: u64 = 200_000;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Little enough for checkpoints while transactions run.
const CHECKPOINT_BYTES: u64 = 100_000;

type Opened<S> = (Database<Hardware, S>, Tables, Recovered);

fn open<S: Scheme<Hardware>>(path: &Path, workers: usize) -> Result<Opened<S>, OpenError> {
    let mut schema = SchemaBuilder::new();
    let tables = Tables::declare(&mut schema, None);
    let options = InstanceOptions {
        sessions_max: 2 * workers + 1,
        memory_bytes_max: super::MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let durable = DurableOptions {
        path: path.to_path_buf(),
        checkpoint_bytes: CHECKPOINT_BYTES,
        places: vec![Place { thread: None }; 2],
        log: LogOptions { segment_bytes: SEGMENT_BYTES, buffer_bytes: 32 << 10, ..LogOptions::default() },
    };
    let opened = Database::open(Hardware::core(), &options, schema, &|_| None, &durable);
    opened.map(|(database, recovered)| (database, tables, recovered))
}

/// The child: runs transactions until it is killed, or its parent is gone, and prints a line for each number that is
/// acknowledged: the worker and the number.
pub fn child<S: Scheme<Hardware>>(path: &Path, workers: usize, seed: u64) -> Result<(), String> {
    let (database, tables, _) = open::<S>(path, workers).map_err(|error| error.to_string())?;
    let orphan = AtomicBool::new(false);
    let acknowledge = |worker: usize, done: u64| {
        // One write a line: the lines of workers do not mix.
        let line = format!("{worker} {done}\n");
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            orphan.store(true, Ordering::Relaxed);
        }
    };
    let worker = |c, number: usize| {
        for round in 0.. {
            if orphan.load(Ordering::Relaxed) {
                break;
            }
            let mut worker = Worker {
                database: &database,
                tables,
                number,
                random: Random::new(seed, number as u64 + round * 100),
                transactions: 100,
                committed: &|| (),
                acknowledge: &acknowledge,
            };
            match worker.run(c) {
                Ok(()) => {}
                Err(Abort::NotDurable(reason)) => {
                    eprintln!("{reason}");
                    break;
                }
                Err(abort) => panic!("worker {number}: {abort}"),
            }
        }
    };
    Hardware::parallel(Hardware::core(), &vec![Place { thread: None }; workers], &worker, &mut |_| ());
    Ok(())
}

/// What killing one process after another showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Processes that were killed.
    pub kills: u64,
    /// Numbers that were acknowledged.
    pub acknowledged: u64,
    /// Records that were repeated when the database was opened after the last kill.
    pub records: u64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Kills `kills` processes that `command` makes, one after another, all on the database in `path`, and looks at it after each.
/// A process runs [`child`] with the same scheme, directory and number of workers.
pub fn kill_again<S: Scheme<Hardware>>(
    path: &Path,
    workers: usize,
    kills: u64,
    seed: u64,
    command: &mut dyn FnMut(u64) -> Command,
) -> Result<Killed, String> {
    let mut random = Random::new(seed, 1);
    let mut all = Killed::default();
    let mut acknowledged = vec![0; workers];
    for number in 0..kills {
        let milliseconds = 1 + random.below(120);
        let mut child = command(number)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("a process cannot be started: {error}"))?;
        let output = child.stdout.take().map(BufReader::new);
        let reader = std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
            lines.filter_map(|line| parse(&line)).collect::<Vec<_>>()
        });
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
        for (worker, done) in reader.join().map_err(|_| "the reader panicked")? {
            if let Some(last) = acknowledged.get_mut(worker) {
                *last = done.max(*last);
                all.acknowledged += 1;
            }
        }
        let opened = open::<S>(path, workers);
        all.kills += 1;
        match opened {
            Ok((database, tables, recovered)) => {
                all.records = recovered.records;
                let wrong = check(Hardware::core(), &database, tables, &acknowledged);
                all.violations.extend(wrong.into_iter().map(|what| format!("kill {number}: {what}")));
            }
            Err(error) => all.violations.push(format!("kill {number}: {error}")),
        }
        if !all.violations.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// A line of the child; one that the kill has cut names a smaller number, or none.
fn parse(line: &str) -> Option<(usize, u64)> {
    let (worker, done) = line.split_once(' ')?;
    Some((worker.parse().ok()?, done.parse().ok()?))
}
