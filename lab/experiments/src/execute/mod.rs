//! Makes the runs of a plan: child processes, several at a time.
//!
//! Runs on this machine's own hardware come last and one after the other, because whatever runs
//! beside them disturbs them. Results of others come from the cache where it has them.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value as Json;

use crate::cache::Cache;
use crate::plan::{Plan, Resolution};

/// How often a child and the wish to stop are looked at.
const POLL: Duration = Duration::from_millis(10);
/// What the program says of flags that it does not have yet.
const LATER: &str = "not available in this version";
/// Its exit status then.
const STATUS_OF_BAD_INPUT: i32 = 2;

/// How runs are made.
#[derive(Clone, Debug)]
pub struct Executor {
    /// The program, which is called as `PROGRAM bench ARGUMENTS --json`.
    pub program: PathBuf,
    /// Runs at the same time; 0 counts as 1.
    pub jobs: usize,
    /// Where results of runs on simulated machines are kept.
    pub cache: Option<Cache>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ended well.
    Done {
        /// Its result.
        result: Json,
        /// True if the cache had it.
        cached: bool,
    },
    /// It needs a later version, and why.
    NotYet(String),
    /// It failed, and why.
    Failed(String),
    /// It was not made, because the user stopped the study or because no finding needs it.
    NotMade,
}

/// What follows the runs. Called from several threads.
pub trait Watcher: Sync {
    /// The run at this position of the plan has ended.
    fn ended(&self, run: usize, outcome: &Outcome);
    /// True if to stop: children are ended, and no more are started.
    fn stopped(&self) -> bool;
    /// Something that does no harm to the study, in words.
    fn warn(&self, warning: &str);
}

impl Executor {
    /// Makes every run that the plan needs; the outcomes are in the order of its runs.
    pub fn execute(&self, plan: &Plan, watcher: &dyn Watcher) -> Vec<Outcome> {
        let outcomes: Vec<Mutex<Outcome>> =
            plan.runs.iter().map(|run| Mutex::new(foreseen(&run.resolution))).collect();
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
            // Both are read while the child runs: a full pipe would stop it.
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

/// What is known of a run before anything is started.
fn foreseen(resolution: &Resolution) -> Outcome {
    match resolution {
        Resolution::Ready { .. } => Outcome::NotMade,
        Resolution::NotYet(reason) => Outcome::NotYet(reason.clone()),
        Resolution::Wrong(reason) => Outcome::Failed(reason.clone()),
    }
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What came before an error is all there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end of a child, ending it if asked to; `None` if its status is not known.
fn wait(child: &mut Child, watcher: &dyn Watcher) -> Option<std::process::ExitStatus> {
    loop {
        if watcher.stopped() {
            // It may have ended by itself.
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

/// What a child's end means.
fn judge(status: std::process::ExitStatus, output: &str, errors: &str) -> Outcome {
    // Progress goes to standard error too; the reason comes last.
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
