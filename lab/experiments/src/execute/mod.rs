//! Execution of the runs of a plan: child processes, several at a time.
//!
//! Runs on this machine's own hardware come last and one after the other, because any other process
//! disturbs them. Results of other runs come from the cache if it has them.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value as Json;

use crate::cache::Cache;
use crate::plan::{Plan, Resolution};

/// Interval at which the child's status and the stop request are polled.
const POLL: Duration = Duration::from_millis(10);
/// The program's message for flags that it does not have yet.
const LATER: &str = "not available in this version";
/// Its exit status for them.
const STATUS_OF_BAD_INPUT: i32 = 2;

/// Executes runs.
#[derive(Clone, Debug)]
pub struct Executor {
    /// The program, called as `PROGRAM bench ARGUMENTS --json`.
    pub program: PathBuf,
    /// Runs at the same time; 0 counts as 1.
    pub jobs: usize,
    /// Cache of the results of runs on simulated machines.
    pub cache: Option<Cache>,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It succeeded.
    Done {
        /// Result of the run.
        result: Json,
        /// True if the result came from the cache.
        cached: bool,
    },
    /// It needs a later version, for this reason.
    NotYet(String),
    /// It failed, for this reason.
    Failed(String),
    /// It was not executed, because the user stopped the study or because nothing needs it.
    NotMade,
}

/// Observer of the runs. Called from several threads.
pub trait Watcher: Sync {
    /// The run at this position of the plan has ended.
    fn ended(&self, run: usize, outcome: &Outcome);
    /// True to stop: children are ended, and no further ones are started.
    fn stopped(&self) -> bool;
    /// Reports a problem that does not affect the study, in words.
    fn warn(&self, warning: &str);
}

impl Executor {
    /// Executes all runs that the plan needs. The outcomes are in the order of its runs.
    pub fn execute(&self, plan: &Plan, watcher: &dyn Watcher) -> Vec<Outcome> {
        let outcomes: Vec<Mutex<Outcome>> =
            plan.runs.iter().map(|run| Mutex::new(initial_outcome(&run.resolution))).collect();
        let is_native =
            |number: &usize| matches!(plan.runs[*number].resolution, Resolution::Ready { native: true, .. });
        let needed = (0..plan.runs.len()).filter(|number| plan.runs[*number].needed);
        let (native, simulated): (Vec<usize>, Vec<usize>) = needed.partition(is_native);
        for (runs, jobs) in [(simulated, self.jobs.max(1)), (native, 1)] {
            let next = AtomicUsize::new(0);
            let work = || {
                while let Some(&number) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = self.run(plan, number, watcher);
                    watcher.ended(number, &outcome);
                    *outcomes[number].lock().expect("no thread panics with it") = outcome;
                }
            };
            std::thread::scope(|scope| {
                (0..jobs.min(runs.len())).for_each(|_| drop(scope.spawn(work)));
            });
        }
        outcomes.into_iter().map(|outcome| outcome.into_inner().expect("no thread panics with it")).collect()
    }

    fn run(&self, plan: &Plan, number: usize, watcher: &dyn Watcher) -> Outcome {
        let run = &plan.runs[number];
        let Resolution::Ready { identity, native } = &run.resolution else { return Outcome::NotMade };
        if watcher.stopped() {
            return Outcome::NotMade;
        }
        let cache = self.cache.as_ref().filter(|_| !native);
        if let Some(result) = cache.and_then(|cache| cache.get(identity)) {
            return Outcome::Done { result, cached: true };
        }
        let outcome = self.child(&run.arguments, watcher);
        if let (Some(cache), Outcome::Done { result, .. }) = (cache, &outcome)
            && let Err(error) = cache.put(identity, result)
        {
            watcher.warn(&format!("a result could not be cached: {error}"));
        }
        outcome
    }

    /// Runs the program once.
    fn child(&self, arguments: &[String], watcher: &dyn Watcher) -> Outcome {
        let mut command = Command::new(&self.program);
        command.arg("bench").args(arguments).arg("--json");
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => return Outcome::Failed(format!("{}: {error}", self.program.display())),
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            // Both are read while the child runs: a full pipe would block the child.
            let output = scope.spawn(|| read(stdout));
            let errors = scope.spawn(|| read(stderr));
            let status = wait(&mut child, watcher);
            let output = output.join().unwrap_or_default();
            let errors = errors.join().unwrap_or_default();
            match status {
                Some(status) if !watcher.stopped() => judge(status, &output, &errors),
                _ => Outcome::NotMade,
            }
        })
    }
}

/// Outcome of a run before anything is started.
fn initial_outcome(resolution: &Resolution) -> Outcome {
    match resolution {
        Resolution::Ready { .. } => Outcome::NotMade,
        Resolution::NotYet(reason) => Outcome::NotYet(reason.clone()),
        Resolution::Wrong(reason) => Outcome::Failed(reason.clone()),
    }
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // After an error the bytes so far are all there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end of a child, and ends it on request; `None` if its status is unknown.
fn wait(child: &mut Child, watcher: &dyn Watcher) -> Option<std::process::ExitStatus> {
    loop {
        if watcher.stopped() {
            // The child may have ended by itself.
            let _ = child.kill();
            return child.wait().ok();
        }
        match child.try_wait() {
            Ok(None) => std::thread::sleep(POLL),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

/// Outcome of a child by its exit status and output.
fn judge(status: std::process::ExitStatus, output: &str, errors: &str) -> Outcome {
    // Progress goes to standard error too; the reason is the last line.
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let reason = last.strip_prefix("isles: ").unwrap_or(last).to_owned();
    if status.success() {
        return match serde_json::from_str::<Json>(output) {
            Ok(result) if result["interrupted"] == true => {
                Outcome::Failed("the run was interrupted".to_owned())
            }
            Ok(result) if result.is_object() => Outcome::Done { result, cached: false },
            _ => Outcome::Failed("the run printed no JSON object".to_owned()),
        };
    }
    if status.code() == Some(STATUS_OF_BAD_INPUT) && reason.contains(LATER) {
        return Outcome::NotYet(reason);
    }
    Outcome::Failed(if reason.is_empty() { status.to_string() } else { reason })
}

#[cfg(test)]
mod tests;
