//! The measurements of a run: plain values, which serialise as parts of the result of
//! `isles bench`.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize, Serializer};
use sim::Statistics;
use workloads::Outcome;

use crate::deployment::Instance;
use crate::faults::troubles::TroubleCounts;
use crate::measurement::machine_use::MachineUse;
use crate::measurement::memory_figures::MemoryFigures;
use crate::measurement::partition_events::PartitionEvent;
use crate::measurement::partition_events::Shifted;

/// The result of a run. Times are the platform's own, except where a name says host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// Measured time: warmup excluded, up to the end or to the interruption.
    pub elapsed_seconds: f64,
    /// Counts by kind of transaction; their sums are the counts of the run.
    pub kinds: Vec<(&'static str, Kind)>,
    /// Most attempts that one transaction needed; `None` if nothing is tried again.
    pub attempts_max: Option<u32>,
    /// Latency over all kinds.
    pub latency: Latency,
    /// Width of each entry of `bins`.
    pub bin_seconds: f64,
    /// Commits in consecutive intervals of `bin_seconds` from the start of the measured time; the
    /// last may be partial.
    pub bins: Vec<u64>,
    /// The shares of worker time; `None` without instruments.
    pub breakdown: Option<Breakdown>,
    /// Hardware and engine counters.
    pub counters: Counters,
    /// The use of parts of the machine; `None` if the platform does not count it.
    pub machine_use: Option<MachineUse>,
    /// The cost of simulating the measured time on the host; `None` on hardware.
    pub simulation: Option<Simulation>,
    /// The steps of adaptation; `None` without adaptation.
    pub adaptation: Option<repartitioning::Story>,
    /// Changes of the partitions, and of the interval at which they are monitored, by time.
    pub events: Vec<PartitionEvent>,
    /// The planned changes of partitions, whose cost is measured.
    pub shifted: Vec<Shifted>,
    /// Instances of the engine.
    pub instances: usize,
    /// Commits of each instance; empty if they are not known.
    pub instance_commits: Vec<u64>,
    /// Share of commits that involved more than one instance.
    pub distributed_ratio: f64,
    /// Messages between instances for each of those commits, attempts that failed included; `None`
    /// if there are none.
    pub messages_per_distributed: Option<f64>,
    /// Difference between the messages that the protocol predicts and those that were sent, over
    /// the whole run: 0.
    pub messages_amiss: i64,
    /// Transactions that were refused because another instance was missing.
    pub refused: u64,
    /// Links between workers of different instances that were lost, counted at each end.
    pub losses: u64,
    /// The places of the instances and the messages between them; `None` if there is one instance.
    pub deployment: Option<Deployed>,
    /// Consistency checks in the order in which they were made.
    pub checks: Vec<(String, Check)>,
    /// True if the user ended the run early.
    pub interrupted: bool,
    /// Rows loaded.
    pub rows_loaded: u64,
    /// Time for loading them.
    pub load_seconds: f64,
    /// The recovery from the directory, if it contained a database.
    pub recovered: Option<Recovery>,
    /// The recoveries of instances that came back to others that had continued.
    pub returned: Vec<Recovery>,
    /// Faults injected between instances.
    pub troubles: TroubleCounts,
    /// Figures of single threads, if the experiment has them.
    pub threads: Option<ThreadFigures>,
    /// The round trip of a message and that of a bare line, if they were measured.
    pub round_trip: Option<RoundTrip>,
    /// Figures of the log, if there is one.
    pub log: Option<LogFigures>,
    /// Memory of tables and indexes, if there are any.
    pub memory: Option<MemoryFigures>,
    /// Figures of the requests of clients, if clients request all data.
    pub requests: Option<RequestFigures>,
}

/// Figures of requests that clients hand to the owners of their rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RequestFigures {
    /// Number of clients.
    pub clients: usize,
    /// Most requests that a client has open.
    pub open_max: u32,
    /// Time of a request in the queue of its owner.
    pub queued_us: Latency,
    /// Share of the workers' time in which there was no request for them.
    pub idle: f64,
}

/// The instances of a run, and their messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deployed {
    /// The instances with the places of their workers.
    pub instances: Vec<Instance>,
    /// By instance, the messages of its workers to those of each instance over the measured time.
    pub messages: Vec<Vec<u64>>,
}

/// The cost of a simulated machine on the host during the measurement. The host's time is not
/// compared, so that equal runs are equal on any host.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// Atomic operations and lines of data that simulated cores touched.
    pub events: u64,
    /// Virtual time.
    pub simulated_seconds: f64,
    /// Time of the host.
    pub host_seconds: f64,
}

impl PartialEq for Simulation {
    fn eq(&self, other: &Self) -> bool {
        (self.events, self.simulated_seconds) == (other.events, other.simulated_seconds)
    }
}

/// Figures of the single threads of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThreadFigures {
    /// Operations of the thread with the fewest.
    pub operations_min: u64,
    /// Operations of the thread with the most.
    pub operations_max: u64,
    /// Refused attempts of all threads.
    pub refused: u64,
    /// Mean time of an operation; null if none was timed.
    pub mean_ns: Option<f64>,
}

/// The round trip of a message to the other process, and that of one bare line of memory in the
/// same run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoundTrip {
    /// Median round-trip time of a message.
    pub message_ns: f64,
    /// Median round-trip time of a line that each side reads until it is its turn, and then writes.
    pub line_ns: f64,
    /// As `line_ns`, if both sides wait by compare and swap.
    pub line_swapped_ns: f64,
    /// The message's time over the line's.
    pub ratio: f64,
}

/// Figures of the log over the whole run, warm-up included.
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

/// The cost of opening an existing database.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Log records that were repeated, each of a transaction or a branch.
    pub records: u64,
    /// Changes of rows in them.
    pub changes: u64,
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Bytes of log and checkpoint.
    pub bytes: u64,
    /// Time from the beginning of the opening to its end, on the platform's clock.
    pub seconds: f64,
    /// Branches in doubt: prepared branches whose decision was not known.
    pub in_doubt: u64,
    /// The branches in doubt that were committed, because their coordinators had decided so.
    pub in_doubt_committed: u64,
}

impl Recovery {
    /// Adds the cost of opening another instance.
    pub(crate) fn and(self, other: Recovery) -> Recovery {
        Recovery {
            records: self.records + other.records,
            changes: self.changes + other.changes,
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            seconds: self.seconds + other.seconds,
            in_doubt: self.in_doubt + other.in_doubt,
            in_doubt_committed: self.in_doubt_committed + other.in_doubt_committed,
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
    /// Rollbacks that the transactions requested.
    pub rollbacks: u64,
    /// Time from a transaction's first attempt to its acknowledgement.
    pub latency_us: Latency,
}

/// Percentiles in microseconds; `None` if nothing was measured.
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

    /// The shares of times in the order of [`Breakdown::CATEGORIES`], in any unit; `None` if they
    /// are all zero.
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

/// Counters over the measured time; `None` if the platform does not count them.
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
    /// Instructions of all workers, without those of the operating system.
    pub instructions: Option<u64>,
    /// Cycles in which hardware threads execute workers, without those in the operating system.
    pub cycles: Option<u64>,
    /// Instructions over cycles.
    pub instructions_per_cycle: Option<f64>,
    /// Cycles in which accesses wait, beyond the cost of a hit in the L1.
    pub stalled_cycles: Option<u64>,
    /// Stalled cycles over cycles.
    pub stalled_cycles_share: Option<f64>,
    /// Cycles of accesses to lines that other cores have.
    pub shared_cycles: Option<u64>,
    /// Shared cycles over cycles.
    pub shared_cycles_share: Option<f64>,
    /// Share of all accesses that fetch a line which other cores have.
    pub shared_accesses_share: Option<f64>,
    /// Lines that cores request because their own caches lack them, or the right to write.
    pub llc_references: Option<u64>,
    /// Misses of the last-level caches over these requests.
    pub llc_misses_share: Option<f64>,
    /// Bytes over interconnect links for each byte over memory controllers.
    pub interconnect_per_memory_byte: Option<f64>,
    /// Lines of code that instruction caches lacked.
    pub code_misses: Option<u64>,
    /// Picoseconds in which workers wait for these lines.
    pub code_stalled_ps: Option<u64>,
    /// Accesses and prefetches whose page the first TLB of their core lacked.
    pub tlb_misses: Option<u64>,
    /// Those of them for which no TLB had the page: walks of page tables.
    pub page_walks: Option<u64>,
    /// Cycles for which accesses wait for the translation of their addresses.
    pub translation_cycles: Option<u64>,
    /// Translation cycles over cycles.
    pub translation_cycles_share: Option<f64>,
}

impl Counters {
    /// The counters of a virtual machine.
    pub fn of_simulation(statistics: &Statistics) -> Counters {
        let Statistics { counts, instructions, cycles, stalled_cycles, shared_cycles, .. } = *statistics;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let (misses, references) = (counts.llc_misses(), counts.llc_references());
        Counters {
            llc_misses: Some(misses),
            interconnect_bytes: Some(statistics.interconnect_bytes),
            memory_bytes: Some(statistics.memory_bytes),
            instructions: Some(instructions),
            cycles: Some(cycles),
            instructions_per_cycle: share(instructions, cycles),
            stalled_cycles: Some(stalled_cycles),
            stalled_cycles_share: share(stalled_cycles, cycles),
            shared_cycles: Some(shared_cycles),
            shared_cycles_share: share(shared_cycles, cycles),
            shared_accesses_share: share(counts.shared_lines, counts.events - counts.page_walks),
            llc_references: Some(references),
            llc_misses_share: share(misses, references),
            interconnect_per_memory_byte: share(statistics.interconnect_bytes, statistics.memory_bytes),
            code_misses: Some(counts.code_misses()),
            code_stalled_ps: Some(counts.code_stalled_ps),
            tlb_misses: Some(counts.tlb_misses),
            page_walks: Some(counts.page_walks),
            translation_cycles: Some(statistics.translation_cycles),
            translation_cycles_share: share(statistics.translation_cycles, cycles),
            ..Counters::default()
        }
    }
}

/// Outcome of a consistency check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The condition holds.
    Ok,
    /// The condition does not apply, for this reason.
    NotApplicable(String),
    /// The condition does not hold: a description of the violation.
    Violated(String),
}

impl From<Outcome> for Check {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Check::Ok,
            Outcome::NotApplicable(reason) => Check::NotApplicable(reason),
            Outcome::Violated(what) => Check::Violated(what),
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Check::Ok => serializer.serialize_str("ok"),
            Check::NotApplicable(reason) => serializer.collect_str(&format_args!("n/a: {reason}")),
            Check::Violated(violation) => serializer.serialize_str(violation),
        }
    }
}
