//! Processes that are killed at any moment, alone or together with their machine.
//!
//! A process [runs](run): it opens the database in a directory, checks it, and runs the workload
//! until it is killed. It reports its progress on standard output, one line each:
//!
//! ```text
//! opening     nothing is acknowledged yet
//! opened ...  the check found no violation, see [`Found`]; transactions follow
//! W N         all transactions of worker W up to number N are durable
//! ```
//!
//! Over pages the pool is far smaller than the rows, so that pages are evicted all the time.
//! [`kill_repeatedly`] reads these lines from a pipe, kills the process (`kill -9`) and checks the
//! directory. The operating system's cache survives that, so a missing flush does not show.
//! `.ci/guest-kills` runs the same process and the same [check](check), the example `kills`, in a
//! guest whose emulator is killed, where the cache is lost.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use platform::files::Access;
use terms::random::Random;

use crate::subject::Subject;

pub use super::process::{Found, ProcessRun, check, run};

/// Longest time before a process is killed.
const MILLISECONDS_MAX: u64 = 120;

/// Result of killing one process after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Processes that were killed.
    pub kills: u64,
    /// Lines that acknowledged a number.
    pub acknowledged: u64,
    /// Records that the opening after the last kill repeated.
    pub records: u64,
    /// Violations.
    pub violations: Vec<String>,
}

/// Kills `kills` processes that `command` starts, one after another, all on the database in `path`,
/// and checks it after each. The schemes take turns. Each process [runs](run) under the scheme that
/// `command` receives, with the same directory and number of workers; it does not need the
/// acknowledged numbers.
pub fn kill_repeatedly(
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
        let run = ProcessRun { subject, path, access: Access::Direct, seed, acknowledged: &acknowledged };
        match check(&run) {
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

/// Output and end of one process.
struct Last {
    /// Numbers that it acknowledged, with their worker.
    lines: Vec<(usize, u64)>,
    /// How it ended, if it was not killed.
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

/// Parses a line that acknowledges a number; a line that the kill has cut has a smaller number, or
/// none.
pub(super) fn parse(line: &str) -> Option<(usize, u64)> {
    let (worker, done) = line.split_once(' ')?;
    Some((worker.parse().ok()?, done.parse().ok()?))
}
