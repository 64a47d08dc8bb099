//! Processes that are killed at any moment, alone or with the machine under them.
//!
//! A process [lives](live): it opens the database in a directory, checks it, and runs the workload until it is killed. On its
//! standard output it says what it does, a line each:
//!
//! ```text
//! opening     nothing is acknowledged yet
//! opened ...  nothing is wrong, see [`Found`]; transactions follow
//! W N         all that worker W did up to number N is durable
//! ```
//!
//! [`kill_again`] reads that from a pipe, kills (`kill -9`) and looks at what is in the directory. The operating system's
//! cache survives that, so that a flush that is missing does not show. Where it does not survive, in a guest whose emulator is
//! killed, `.ci/guest-kills` has the same process and the same [check](look): the example `kills`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cc::{Abort, InstanceOptions, Scheme};
use engine::durable::DurableOptions;
use engine::{Database, SchemaBuilder};
use platform::files::Access;
use platform::{Hardware, Place, Platform};
use storage::log::LogOptions;
use workloads::Random;

use crate::subject::Subject;

use super::workload::{Tables, Worker, check};

const EPOCH_NANOS: u64 = 200_000;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Little enough for checkpoints while transactions run.
const CHECKPOINT_BYTES: u64 = 100_000;
/// The longest life of a process before it is killed.
const MILLISECONDS_MAX: u64 = 120;

/// What a process is to do. Whoever lives after another may do it under another scheme: files do not name theirs.
#[derive(Clone, Copy)]
pub struct Life<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// The directory of the database.
    pub path: &'a Path,
    /// How the log is written.
    pub access: Access,
    /// The transactions.
    pub seed: u64,
    /// The last number that each worker has acknowledged in former lives: as many workers as there are numbers.
    pub acknowledged: &'a [u64],
}

/// What is in a directory, if nothing is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Records that were repeated when the database was opened.
    pub records: u64,
    /// The last number of each worker: from now on they count as acknowledged, for they have been seen.
    pub numbers: Vec<u64>,
}

impl std::fmt::Display for Found {
    /// `opened RECORDS NUMBER,NUMBER,...`
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        write!(to, "opened {} {}", self.records, numbers.join(","))
    }
}

/// What a process can do under some scheme, for code that is not generic over schemes.
#[derive(Clone, Copy)]
pub(crate) struct Lives {
    look: fn(&Life<'_>) -> Result<Found, String>,
    live: fn(&Life<'_>) -> Result<(), String>,
}

impl Lives {
    pub(crate) fn under<S: Scheme<Hardware>>() -> Self {
        Lives { look: look_under::<S>, live: live_under::<S> }
    }
}

fn open<S: Scheme<Hardware>>(life: &Life<'_>) -> Result<(Database<Hardware, S>, Tables, Found), String> {
    let mut schema = SchemaBuilder::new();
    let partitions = life.subject.partitioned.then_some(life.acknowledged.len() as u16);
    let tables = Tables::declare(&mut schema, partitions);
    let options = InstanceOptions {
        sessions_max: 2 * life.acknowledged.len() + 1,
        memory_bytes_max: super::MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let log = LogOptions { segment_bytes: SEGMENT_BYTES, buffer_bytes: 32 << 10, ..LogOptions::default() };
    let durable = DurableOptions {
        path: life.path.to_path_buf(),
        checkpoint_bytes: CHECKPOINT_BYTES,
        places: vec![Place { thread: None }; 2],
        log: LogOptions { access: life.access, ..log },
    };
    let c = Hardware::core();
    let (database, recovered) =
        Database::open(c, &options, schema, &|_| None, &durable).map_err(|error| error.to_string())?;
    let checked = check(c, &database, tables, life.acknowledged);
    if !checked.wrong.is_empty() {
        return Err(checked.wrong.join("; "));
    }
    Ok((database, tables, Found { records: recovered.records, numbers: checked.numbers }))
}

/// Opens the database and checks it.
///
/// # Errors
/// What is wrong: it cannot be opened, an acknowledged number is not there, or one is there by half.
pub fn look(life: &Life<'_>) -> Result<Found, String> {
    (life.subject.lives()?.look)(life)
}

fn look_under<S: Scheme<Hardware>>(life: &Life<'_>) -> Result<Found, String> {
    open::<S>(life).map(|(_, _, found)| found)
}

/// Opens the database, checks it, and runs transactions until it is killed, or nobody listens any more.
///
/// # Errors
/// What is wrong with the database, or why its log has stopped.
pub fn live(life: &Life<'_>) -> Result<(), String> {
    (life.subject.lives()?.live)(life)
}

fn live_under<S: Scheme<Hardware>>(life: &Life<'_>) -> Result<(), String> {
    let orphan = AtomicBool::new(false);
    let say = |line: String| {
        // One write a line: the lines of workers do not mix.
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            orphan.store(true, Ordering::Relaxed);
        }
    };
    say("opening\n".into());
    let (database, tables, found) = open::<S>(life)?;
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
                workers: life.acknowledged.len() as u16,
                random: Random::new(life.seed, number as u64 + round * 100),
                transactions: 100,
                committed: &|| (),
                acknowledge: &acknowledge,
            };
            match worker.run(c) {
                Ok(()) => {}
                Err(Abort::NotDurable(reason)) => {
                    *stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                    break;
                }
                Err(abort) => panic!("worker {number}: {abort}"),
            }
        }
    };
    let places = vec![Place { thread: None }; life.acknowledged.len()];
    Hardware::parallel(Hardware::core(), &places, &worker, &mut |_| ());
    stopped.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// What killing one process after another showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Processes that were killed.
    pub kills: u64,
    /// Lines that acknowledged a number.
    pub acknowledged: u64,
    /// Records that were repeated when the database was opened after the last kill.
    pub records: u64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Kills `kills` processes that `command` makes, one after another, all on the database in `path`, and looks at it after each.
/// Schemes take turns. A process [lives](live) under the scheme that it is told, with the same directory and number of workers;
/// it need not know what was acknowledged.
pub fn kill_again(
    subjects: &[Subject],
    path: &Path,
    workers: usize,
    kills: u64,
    seed: u64,
    command: &mut dyn FnMut(&Subject, u64) -> Command,
) -> Result<Killed, String> {
    let mut random = Random::new(seed, 1);
    let mut all = Killed::default();
    let mut acknowledged = vec![0; workers];
    for (number, subject) in (0..kills).zip(subjects.iter().cycle()) {
        let milliseconds = 1 + random.below(MILLISECONDS_MAX);
        let last = kill_after(milliseconds, &mut command(subject, number))?;
        all.kills += 1;
        all.acknowledged += last.lines.len() as u64;
        for (worker, done) in last.lines {
            if let Some(before) = acknowledged.get_mut(worker) {
                *before = done.max(*before);
            }
        }
        if let Some(how) = last.by_itself {
            all.violations
                .push(format!("kill {number}, {}: the process ended by itself ({how})", subject.name));
        }
        let life = Life { subject, path, access: Access::Direct, seed, acknowledged: &acknowledged };
        match look(&life) {
            Ok(found) => {
                all.records = found.records;
                acknowledged = found.numbers;
            }
            Err(wrong) => all.violations.push(format!("kill {number}, {}: {wrong}", subject.name)),
        }
        if !all.violations.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// What one process left.
struct Last {
    /// What it acknowledged: worker and number.
    lines: Vec<(usize, u64)>,
    /// How it ended, if not by the kill.
    by_itself: Option<String>,
}

/// Starts a process and kills it after this time.
fn kill_after(milliseconds: u64, command: &mut Command) -> Result<Last, String> {
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("a process cannot be started: {error}"))?;
    let output = child.stdout.take().map(BufReader::new);
    let reader = std::thread::spawn(move || {
        let lines = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        lines.filter_map(|line| parse(&line)).collect()
    });
    std::thread::sleep(Duration::from_millis(milliseconds));
    child.kill().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    let lines = reader.join().map_err(|_| "the reader panicked")?;
    // Who was killed has no status of its own.
    Ok(Last { lines, by_itself: status.code().map(|_| status.to_string()) })
}

/// A line that acknowledges; one that the kill has cut names a smaller number, or none.
fn parse(line: &str) -> Option<(usize, u64)> {
    let (worker, done) = line.split_once(' ')?;
    Some((worker.parse().ok()?, done.parse().ok()?))
}
