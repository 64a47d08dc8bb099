//! The result as a value, which serialises as the JSON object of the command-line contract.

use harness::{
    BorderAction, Breakdown, Check, Counters, Deployed, Kind, Latency, LogFigures, MachineUse, Measurement,
    MemoryFigures, PartitionEvent, Recovery, RequestFigures, RoundTrip, Shifted, Simulation, ThreadFigures,
    abort_ratio,
};
use serde::Serialize;
use sim::CacheSizes;

use super::json;
use super::timeline::{self, Bin};
use crate::config::Config;
use crate::errors::Failure;

/// The result of a benchmark: fields have the names and meaning of the command-line contract.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Commits per second.
    pub throughput: f64,
    /// Throughput of all runs of `--repeat`; absent with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<Repetitions>,
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
    /// Use of the machine's parts; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_use: Option<MachineUse>,
    /// The host's cost of a simulated second; absent on hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulation: Option<SimulationCost>,
    /// Caches of the simulated machine, as they were in this run; absent on hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caches: Option<Caches>,
    /// Decisions of adaptation with their reasons; absent without adaptation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptation: Option<repartitioning::Story>,
    /// Planned rearrangements of partitions; absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rearrangements: Vec<Rearrangement>,
    /// Changes of partitions, planned ones and those of adaptation, and changes of the monitor's
    /// interval, by time; absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<PartitionEvent>,
    /// The instances of the engine, by number.
    pub instances: Vec<InstanceThroughput>,
    /// Share of commits that involved more than one instance.
    pub distributed_ratio: f64,
    /// Messages between instances for each of those commits, attempts that failed included; null
    /// without such commits.
    pub messages_per_distributed: Option<f64>,
    /// Transactions that were refused because they needed an instance that was missing; absent if
    /// no instance was.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Which instance ran where and who talked to whom; absent if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployed>,
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
    /// True if the user ended the run early: all numbers are of what ran.
    pub interrupted: bool,
    /// Rows loaded.
    pub rows_loaded: u64,
    /// Seconds it took to load them.
    pub load_seconds: f64,
    /// Rows and changes recovered from the directory; null if it was empty.
    pub recovered: Option<Recovery>,
    /// Figures of single threads; absent if the workload has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadFigures>,
    /// Round trip of a message beside that of a bare cache line; absent if not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTrip>,
    /// Figures of requests that clients handed to owners; absent unless clients did that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestFigures>,
    /// Figures of the log; null without a log.
    pub log: Option<LogFigures>,
    /// Bytes that tables, indexes and records hold at the end; null where unknown.
    pub memory_bytes: Option<u64>,
    /// The same, and what else is known of memory.
    pub memory: Option<MemoryFigures>,
}

/// The part of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InstanceThroughput {
    /// Commits per second of transactions that its workers have drawn; null where unknown.
    pub throughput: Option<f64>,
}

/// A planned rearrangement of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rearrangement {
    /// Its beginning, in seconds of the measured time.
    pub at_seconds: f64,
    /// Borders that have shifted.
    pub rearrangements: usize,
    /// Number of splits, moves and merges.
    pub changes: usize,
    /// Time until all workers continued.
    pub took_seconds: f64,
}

impl Rearrangement {
    fn of(shifted: &Shifted) -> Option<Self> {
        let Shifted { action, at_seconds, actions, changes, took_seconds } = *shifted;
        let rearrangement = Rearrangement { at_seconds, rearrangements: actions, changes, took_seconds };
        (action == BorderAction::Rearrange).then_some(rearrangement)
    }
}

/// Throughput of several runs that differ in their seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repetitions {
    /// Mean of the runs, in commits a second.
    pub mean: f64,
    /// Standard deviation of a sample; 0 of one run.
    pub deviation: f64,
    /// The throughput of each run, in the order of the seeds.
    pub throughput: Vec<f64>,
}

impl Repetitions {
    /// Mean and deviation of these runs.
    pub fn of(throughput: Vec<f64>) -> Self {
        let count = throughput.len() as f64;
        let mean = throughput.iter().sum::<f64>() / count;
        let squares: f64 = throughput.iter().map(|one| (one - mean).powi(2)).sum();
        Repetitions { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt(), throughput }
    }
}

/// The host's cost of simulating the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimulationCost {
    /// Atomic operations and lines of data that simulated cores touched.
    pub events: u64,
    /// Seconds of the host for the measured time.
    pub host_seconds: f64,
    /// The same for one second of the simulated machine.
    pub host_seconds_per_second: f64,
    /// Events in a second of the host.
    pub events_per_host_second: f64,
    /// The most memory that the process has had; null if unknown.
    pub peak_memory_bytes: Option<u64>,
}

impl SimulationCost {
    fn of(simulation: Simulation) -> Self {
        let Simulation { events, simulated_seconds, host_seconds } = simulation;
        SimulationCost {
            events,
            host_seconds,
            host_seconds_per_second: host_seconds / simulated_seconds.max(1e-9),
            events_per_host_second: events as f64 / host_seconds.max(1e-9),
            peak_memory_bytes: None,
        }
    }
}

/// Capacities of a simulated machine's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Caches {
    /// L1 of a core.
    pub l1_bytes: usize,
    /// L2 of a core.
    pub l2_bytes: usize,
    /// L3 of the cores that share one.
    pub l3_bytes: usize,
}

impl Caches {
    /// In the terms of the result.
    pub fn of(caches: CacheSizes) -> Self {
        let CacheSizes { l1_bytes, l2_bytes, l3_bytes } = caches;
        Caches { l1_bytes, l2_bytes, l3_bytes }
    }
}

impl Report {
    /// The report of a run of `config` that counted `measurement`, without the seconds of the host.
    pub fn new(config: &Config, measurement: Measurement) -> Self {
        let sum =
            |count: fn(&Kind) -> u64| measurement.kinds.iter().map(|(_, kind)| count(kind)).sum::<u64>();
        let commits = sum(|kind| kind.commits);
        let aborts = sum(|kind| kind.aborts);
        let elapsed_seconds = measurement.elapsed_seconds;
        let bins = |count| timeline::bins(&measurement.bins, measurement.bin_seconds, elapsed_seconds, count);
        let per_second = |commits: u64| match elapsed_seconds > 0.0 {
            true => commits as f64 / elapsed_seconds,
            false => 0.0,
        };
        let instance_commits = match config.deployment.instances {
            1 => vec![Some(commits)],
            several => (0..several).map(|one| measurement.instance_commits.get(one).copied()).collect(),
        };
        let throughput = |commits: Option<u64>| InstanceThroughput { throughput: commits.map(per_second) };
        Report {
            throughput: per_second(commits),
            repetitions: None,
            commits,
            aborts,
            abort_ratio: abort_ratio(commits, aborts),
            rollbacks: sum(|kind| kind.rollbacks),
            attempts_max: measurement.attempts_max,
            latency_us: measurement.latency,
            breakdown: measurement.breakdown,
            throughput_last_quarter: timeline::last_quarter(&bins(timeline::BINS)),
            timeline: bins(config.bins),
            counters: measurement.counters,
            machine_use: measurement.machine_use,
            simulation: measurement.simulation.map(SimulationCost::of),
            caches: None,
            adaptation: measurement.adaptation,
            rearrangements: measurement.shifted.iter().filter_map(Rearrangement::of).collect(),
            events: measurement.events,
            instances: instance_commits.into_iter().map(throughput).collect(),
            distributed_ratio: measurement.distributed_ratio,
            messages_per_distributed: measurement.messages_per_distributed,
            refused: measurement.refused,
            deployment: measurement.deployment,
            checks: measurement.checks,
            transactions: measurement.kinds,
            config: config.clone(),
            machine: config.machine.clone(),
            seed: config.plan.seed,
            version: env!("CARGO_PKG_VERSION"),
            elapsed_seconds,
            host_seconds: 0.0,
            interrupted: measurement.interrupted,
            rows_loaded: measurement.rows_loaded,
            load_seconds: measurement.load_seconds,
            recovered: measurement.recovered,
            threads: measurement.threads,
            round_trip: measurement.round_trip,
            requests: measurement.requests,
            log: measurement.log,
            memory_bytes: measurement.memory.map(|memory| memory.used_bytes),
            memory: measurement.memory,
        }
    }

    /// True if the run was ended before its measured time began.
    pub fn measured_nothing(&self) -> bool {
        self.interrupted && self.elapsed_seconds == 0.0
    }

    /// Ok if the run is a success.
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

fn is_zero(count: &u64) -> bool {
    *count == 0
}
