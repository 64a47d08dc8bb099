//! Processes that are killed at any moment, alone or with the machine under them.
//!
//! A process [lives](live): it opens the database in a directory, checks it, and runs the workload
//! until it is killed. On its standard output it says what it does, a line each:
//!
//! ```text
//! opening     nothing is acknowledged yet
//! opened ...  nothing is wrong, see [`Found`]; transactions follow
//! W N         all that worker W did up to number N is durable
//! ```
//!
//! Over pages the pool is far smaller than the rows, so that pages leave it all the time.
//! [`kill_again`] reads that from a pipe, kills (`kill -9`) and looks at what is in the directory.
//! The operating system's cache survives that, so that a flush that is missing does not show. Where
//! it does not survive, in a guest whose emulator is killed, `.ci/guest-kills` has the same process
//! and the same [check](look): the example `kills`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use platform::files::Access;
use terms::random::Random;

use crate::subject::Subject;

pub use super::process::Found;
use super::process::{self, Duty};

/// The longest life of a process before it is killed.
const MILLISECONDS_MAX: u64 = 120;

/// What a process is to do. A process may follow another under another scheme: files do not name
/// theirs.
#[derive(Clone, Copy)]
pub struct Life<'a> {
    /// The scheme.
    pub subject: &'a Subject,
    /// The directory of the database.
    pub path: &'a Path,
    /// How the log of rows in memory is written.
    pub access: Access,
    /// The transactions.
    pub seed: u64,
    /// The last number that each worker has acknowledged in former lives: as many workers as there
    /// are numbers.
    pub acknowledged: &'a [u64],
}

impl Life<'_> {
    fn duty(&self) -> Result<Duty<'_>, String> {
        let Life { subject, path, access, seed, acknowledged } = *self;
        match subject.is_everywhere() {
            true => Ok(Duty { subject, path, access, seed, acknowledged }),
            false => Err(format!("{} runs in the virtual machine only", subject.name)),
        }
    }
}

/// Opens the database and checks it.
///
/// # Errors
/// What is wrong: it cannot be opened, an acknowledged number is not there, or one is there by
/// half.
pub fn look(life: &Life<'_>) -> Result<Found, String> {
    process::look(&life.duty()?)
}

/// Opens the database, checks it, and runs transactions until it is killed, or its output is
/// closed.
///
/// # Errors
/// What is wrong with the database, or why its log has stopped.
pub fn live(life: &Life<'_>) -> Result<(), String> {
    process::live(&life.duty()?)
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

/// Kills `kills` processes that `command` makes, one after another, all on the database in `path`,
/// and looks at it after each. Schemes take turns. A process [lives](live) under the scheme that it
/// is told, with the same directory and number of workers; it need not know what was acknowledged.
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
    // A process that was killed has no status of its own.
    Ok(Last { lines, by_itself: status.code().map(|_| status.to_string()) })
}

/// A line that acknowledges; one that the kill has cut names a smaller number, or none.
pub(super) fn parse(line: &str) -> Option<(usize, u64)> {
    let (worker, done) = line.split_once(' ')?;
    Some((worker.parse().ok()?, done.parse().ok()?))
}
