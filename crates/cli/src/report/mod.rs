//! The result of a benchmark.
//!
//! The runner hands in what it counted, a [`Measurement`]; [`Report::new`] derives every rate and ratio from it, so that
//! the numbers of one report agree. A report serialises as the JSON object of the command-line contract and renders as
//! text for people.

mod json;
pub mod machine_use;
pub mod numbers;
mod page;
mod text;
mod timeline;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::config::Config;
use crate::errors::Failure;

pub use machine_use::MachineUse;
pub use page::page;
pub use text::{Style, render};
pub use timeline::{BINS, Bin};

/// What a runner counted. Times are the platform's own, except where a name says host.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Measured time: warmup excluded, up to the end or to the interruption.
    pub elapsed_seconds: f64,
    /// Everything from the start of the command to the end of the checks, on the host's clock.
    pub host_seconds: f64,
    /// Counts by kind of transaction; their sums are the counts of the run.
    pub kinds: Vec<(&'static str, Kind)>,
    /// Most attempts that one transaction needed; `None` where nothing is tried again.
    pub attempts_max: Option<u32>,
    /// Latency over all kinds.
    pub latency: Latency,
    /// Width of each entry of `bins`.
    pub bin_seconds: f64,
    /// Commits in consecutive intervals of `bin_seconds` from the start of the measured time; the last may be partial.
    pub bins: Vec<u64>,
    /// Where worker time went; `None` when not instrumented.
    pub breakdown: Option<Breakdown>,
    /// Hardware and engine counters.
    pub counters: Counters,
    /// What parts of the machine were busy with; `None` where the platform does not know.
    pub machine_use: Option<MachineUse>,
    /// Share of commits that involved more than one instance.
    pub distributed_ratio: f64,
    /// Consistency checks in the order they were made.
    pub checks: Vec<(String, Check)>,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// Rows loaded.
    pub rows_loaded: u64,
    /// Time it took to load them.
    pub load_seconds: f64,
    /// What was found in the database's directory, if it held one.
    pub recovered: Option<Recovery>,
    /// What the log did, if there is one.
    pub log: Option<LogFigures>,
    /// Memory that tables, indexes and records hold at the end, if known.
    pub memory_bytes: Option<u64>,
}

/// What the log did over the whole run, warmup included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogFigures {
    /// Bytes written a commit, headers and padding included.
    pub bytes_per_commit: f64,
    /// Groups of commits that went to the disk together.
    pub groups: u64,
    /// Mean bytes of a group.
    pub group_bytes: f64,
    /// Mean time from the beginning of a group's writes to the end of its flush, in microseconds.
    pub group_us: f64,
    /// Mean length of epochs, in microseconds.
    pub epoch_us: f64,
}

/// What opening a database that was there took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// Records of the log that were repeated, each a transaction or a part of one.
    pub records: u64,
    /// Changes of rows in them.
    pub changes: u64,
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Bytes of log and checkpoint.
    pub bytes: u64,
    /// Time from the beginning of the opening to its end, on the platform's clock.
    pub seconds: f64,
}

/// The result of a benchmark: fields have the names and meaning of the command-line contract.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Commits per second.
    pub throughput: f64,
    /// Committed transactions.
    pub commits: u64,
    /// Attempts that the engine aborted.
    pub aborts: u64,
    /// Aborts over aborts and commits; 0 if there were neither.
    pub abort_ratio: f64,
    /// Rollbacks that transactions asked for: completed work, neither commits nor aborts.
    pub rollbacks: u64,
    /// Most attempts that one transaction needed; null where nothing is tried again.
    pub attempts_max: Option<u32>,
    /// Latency over all kinds of transactions.
    pub latency_us: Latency,
    /// Shares of worker time, of sum 1; null when not instrumented.
    pub breakdown: Option<Breakdown>,
    /// Throughput over the run in equal bins.
    pub timeline: Vec<Bin>,
    /// Commits per second over the last quarter of the run.
    pub throughput_last_quarter: f64,
    /// Hardware and engine counters, null where unknown.
    pub counters: Counters,
    /// What parts of the machine were busy with; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_use: Option<MachineUse>,
    /// Share of commits that involved more than one instance.
    pub distributed_ratio: f64,
    /// Consistency checks: name to outcome.
    #[serde(serialize_with = "json::map")]
    pub checks: Vec<(String, Check)>,
    /// The same counts by kind of transaction: name to counts.
    #[serde(serialize_with = "json::map")]
    pub transactions: Vec<(&'static str, Kind)>,
    /// Every flag resolved.
    pub config: Config,
    /// `native`, or the name of a simulated machine.
    pub machine: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of Isles.
    pub version: &'static str,
    /// Measured seconds, of virtual time on a simulated machine.
    pub elapsed_seconds: f64,
    /// Seconds of the host for everything.
    pub host_seconds: f64,
    /// Whether the user ended the run early: all numbers are of what ran.
    pub interrupted: bool,
    /// Rows loaded.
    pub rows_loaded: u64,
    /// Seconds it took to load them.
    pub load_seconds: f64,
    /// What was recovered from the directory; null if there was nothing.
    pub recovered: Option<Recovery>,
    /// What the log did; null without one.
    pub log: Option<LogFigures>,
    /// Bytes that tables, indexes and records hold at the end; null where unknown.
    pub memory_bytes: Option<u64>,
}

impl Report {
    /// The report of a run of `config` that counted `measurement`.
    pub fn new(config: &Config, measurement: Measurement) -> Self {
        let sum =
            |count: fn(&Kind) -> u64| measurement.kinds.iter().map(|(_, kind)| count(kind)).sum::<u64>();
        let commits = sum(|kind| kind.commits);
        let aborts = sum(|kind| kind.aborts);
        let elapsed_seconds = measurement.elapsed_seconds;
        let timeline = timeline::bins(&measurement.bins, measurement.bin_seconds, elapsed_seconds);
        Report {
            throughput: if elapsed_seconds > 0.0 { commits as f64 / elapsed_seconds } else { 0.0 },
            commits,
            aborts,
            abort_ratio: abort_ratio(commits, aborts),
            rollbacks: sum(|kind| kind.rollbacks),
            attempts_max: measurement.attempts_max,
            latency_us: measurement.latency,
            breakdown: measurement.breakdown,
            throughput_last_quarter: timeline::last_quarter(&timeline),
            timeline,
            counters: measurement.counters,
            machine_use: measurement.machine_use,
            distributed_ratio: measurement.distributed_ratio,
            checks: measurement.checks,
            transactions: measurement.kinds,
            config: config.clone(),
            machine: config.machine.clone(),
            seed: config.seed,
            version: env!("CARGO_PKG_VERSION"),
            elapsed_seconds,
            host_seconds: measurement.host_seconds,
            interrupted: measurement.interrupted,
            rows_loaded: measurement.rows_loaded,
            load_seconds: measurement.load_seconds,
            recovered: measurement.recovered,
            log: measurement.log,
            memory_bytes: measurement.memory_bytes,
        }
    }

    /// Whether the run is a success.
    ///
    /// # Errors
    /// [`Failure::Violated`] if a consistency check is.
    pub fn verdict(&self) -> Result<(), Failure> {
        let violated = self.checks.iter().filter(|(_, check)| matches!(check, Check::Violated(_)));
        let names: Vec<&str> = violated.map(|(name, _)| name.as_str()).collect();
        match names.len() {
            0 => Ok(()),
            1 => Err(Failure::Violated(format!("consistency check violated: {}", names[0]))),
            count => {
                Err(Failure::Violated(format!("{count} consistency checks violated: {}", names.join(", "))))
            }
        }
    }
}

/// Aborts over aborts and commits; 0 if there were neither.
pub fn abort_ratio(commits: u64, aborts: u64) -> f64 {
    if commits + aborts == 0 { 0.0 } else { aborts as f64 / (commits + aborts) as f64 }
}

/// Counts of one kind of transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Kind {
    /// Committed transactions.
    pub commits: u64,
    /// Attempts that the engine aborted.
    pub aborts: u64,
    /// Rollbacks that the transactions asked for.
    pub rollbacks: u64,
    /// From a transaction's first attempt to its acknowledgement.
    pub latency_us: Latency,
}

/// Percentiles in microseconds; `None` where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
}

impl Latency {
    /// The percentiles of a histogram of nanoseconds.
    pub fn of_nanos(histogram: &Histogram<u64>) -> Self {
        Latency::of(histogram, 1e3)
    }

    /// The percentiles of a histogram of picoseconds.
    pub fn of_picos(histogram: &Histogram<u64>) -> Self {
        Latency::of(histogram, 1e6)
    }

    fn of(histogram: &Histogram<u64>, units_per_us: f64) -> Self {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile| Some(histogram.value_at_quantile(quantile) as f64 / units_per_us);
        Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

/// Shares of worker time, of sum 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Breakdown {
    /// The transaction's own logic and its rows.
    pub useful: f64,
    /// Indexes.
    pub index: f64,
    /// Allocation of timestamps.
    pub timestamp: f64,
    /// Management of concurrency control.
    pub cc: f64,
    /// Commit and cleanup.
    pub commit: f64,
    /// Waiting for other transactions.
    pub wait: f64,
    /// Aborting.
    pub abort: f64,
    /// Backoff between attempts.
    pub backoff: f64,
    /// Logging.
    pub log: f64,
    /// Messages between instances.
    pub communication: f64,
}

impl Breakdown {
    /// The categories in their order everywhere.
    pub const CATEGORIES: [&'static str; 10] =
        ["useful", "index", "timestamp", "cc", "commit", "wait", "abort", "backoff", "log", "communication"];

    /// The shares of times in the order of [`Breakdown::CATEGORIES`], in any unit; `None` if they are all zero.
    pub fn of_times(times: [u64; 10]) -> Option<Self> {
        let total: f64 = times.iter().map(|time| *time as f64).sum();
        if total == 0.0 {
            return None;
        }
        let [useful, index, timestamp, cc, commit, wait, abort, backoff, log, communication] =
            times.map(|time| time as f64 / total);
        Some(Breakdown { useful, index, timestamp, cc, commit, wait, abort, backoff, log, communication })
    }

    /// The shares in the order of [`Breakdown::CATEGORIES`].
    pub fn shares(&self) -> [f64; 10] {
        [
            self.useful,
            self.index,
            self.timestamp,
            self.cc,
            self.commit,
            self.wait,
            self.abort,
            self.backoff,
            self.log,
            self.communication,
        ]
    }
}

/// Counters over the measured time; `None` where the platform does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Misses of the last-level caches.
    pub llc_misses: Option<u64>,
    /// Bytes over interconnect links.
    pub interconnect_bytes: Option<u64>,
    /// Bytes over memory controllers.
    pub memory_bytes: Option<u64>,
    /// Messages between instances.
    pub messages: Option<u64>,
    /// Bytes written to logs.
    pub log_bytes: Option<u64>,
    /// Flushes of files.
    pub fsyncs: Option<u64>,
}

/// Outcome of a consistency check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It holds.
    Ok,
    /// It does not apply, and why.
    NotApplicable(String),
    /// It does not hold, and what was found.
    Violated(String),
}

impl From<Result<(), String>> for Check {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Check::Ok,
            Err(violation) => Check::Violated(violation),
        }
    }
}

#[cfg(test)]
mod tests;
