//! The resolved configuration as a value.

use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, TimestampSource, Ways};
use harness::{Durability, MemoryPlacement, Retry, Transport};
use machine::Placement;
use serde::Serialize;
use storage::Optimisation;

use super::changes::At;
use super::workloads::Workload;
use crate::choices::{
    Commit, ConcurrencyControl, Deploy, DiskKind, Engine, Execution, Like, Switch, serialize_memory,
    serialize_name, serialize_names,
};
use crate::machine_facts::NATIVE;

/// A benchmark's configuration. Serialises as the `config` of the result, with the names of the
/// flags (`-` as `_`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// The workload with its flags, which stand beside the others in the result. The flag
    /// `--workload` of YCSB is `ycsb_workload` there, because `workload` is the workload itself.
    #[serde(flatten)]
    pub workload: Workload,
    /// `native`, or the name of a simulated machine.
    pub machine: String,
    /// Workers.
    pub cores: usize,
    /// Most hardware threads used on a physical core.
    pub smt: usize,
    /// How the engine is split into instances.
    pub deploy: Deploy,
    /// Where workers run.
    #[serde(serialize_with = "serialize_name")]
    pub placement: Placement,
    /// How instances talk.
    #[serde(serialize_with = "serialize_name")]
    pub transport: Transport,
    /// Transactions over several instances that a worker keeps open.
    pub in_flight: u64,
    /// What a transaction does that meets a prepared row.
    pub commit: Commit,
    /// Where rows live.
    #[serde(serialize_with = "serialize_memory")]
    pub memory: MemoryPlacement,
    /// Whether the simulated machine's caches shrink with the data.
    pub scale_caches: Switch,
    /// Storage engine.
    pub engine: Engine,
    /// Bytes of the pool, where rows lie in pages.
    pub pool: Option<u64>,
    /// Concurrency control.
    #[serde(serialize_with = "serialize_name")]
    pub cc: ConcurrencyControl,
    /// Execution of transactions.
    pub execution: Execution,
    /// Whether partitions follow the workload; `None` where workers own none, or keep what they
    /// own.
    pub adaptive: Option<Switch>,
    /// Shortest interval between two measurements; `None` where partitions do not follow the
    /// workload.
    #[serde(rename = "adapt_interval")]
    pub adapt_interval_seconds: Option<f64>,
    /// When a commit is acknowledged.
    #[serde(serialize_with = "serialize_name")]
    pub durability: Durability,
    /// The simulated device below the log; `None` where nothing is logged, or on hardware.
    pub disk: Option<DiskKind>,
    /// Directory of the database; `None`: a temporary one, or none at all.
    pub path: Option<String>,
    /// Where timestamps come from.
    #[serde(serialize_with = "serialize_name")]
    pub timestamp: TimestampSource,
    /// Optimisations that are left out.
    #[serde(serialize_with = "serialize_names")]
    pub without: Vec<Optimisation>,
    /// How rows are locked.
    #[serde(serialize_with = "serialize_name")]
    pub row_lock: RowLock,
    /// What a transaction does that has met another one.
    #[serde(serialize_with = "serialize_name")]
    pub retry: Retry,
    /// What of a row is copied.
    #[serde(serialize_with = "serialize_name")]
    pub row_copies: RowCopies,
    /// How optimistic schemes lock what they commit.
    #[serde(serialize_with = "serialize_name")]
    pub commit_locks: CommitLocks,
    /// How deadlocks are found, under the scheme that detects them.
    #[serde(serialize_with = "serialize_name")]
    pub deadlocks: Deadlocks,
    /// The program whose ways are the defaults of the flags that differ from program to program.
    pub like: Option<Like>,
    /// How long the run is: `seconds` or `transactions`; the other is null in the result.
    #[serde(flatten)]
    pub length: Length,
    /// What the workload changes to, in the order of moments.
    pub at: Vec<At>,
    /// Seconds of the platform's time before measuring.
    #[serde(rename = "warmup")]
    pub warmup_seconds: f64,
    /// Whether the breakdown and the counters are recorded.
    pub instrument: Switch,
    /// Seed of data, transactions and, on a simulated machine, of the schedule.
    pub seed: u64,
    /// Whether the result is one JSON object; says nothing of the run and stays out of the result.
    #[serde(skip)]
    pub json: bool,
    /// Where to write a page with plots, if anywhere; says nothing of the run either.
    #[serde(skip)]
    pub report: Option<String>,
}

impl Config {
    /// The optimisations that are not left out, as the engine wants them.
    pub fn optimisations(&self) -> storage::Optimisations {
        self.without.iter().fold(storage::Optimisations::ALL, |all, one| all.without(*one))
    }

    /// What the engine does in another way than the default.
    pub fn ways(&self) -> Ways {
        let Config { row_lock, row_copies, commit_locks, deadlocks, .. } = *self;
        Ways { row_lock, row_copies, commit_locks, deadlocks }
    }

    /// Whether the run happens on this machine's own hardware.
    pub fn native(&self) -> bool {
        self.machine == NATIVE
    }
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Seconds of the platform's own time.
    Seconds(f64),
    /// Commits of the first worker to finish.
    Transactions(u64),
}

impl From<Length> for harness::Length {
    fn from(length: Length) -> Self {
        match length {
            Length::Seconds(seconds) => harness::Length::Seconds(seconds),
            Length::Transactions(count) => harness::Length::Commits(count),
        }
    }
}

impl Serialize for Length {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let (seconds, transactions) = match *self {
            Length::Seconds(seconds) => (Some(seconds), None),
            Length::Transactions(transactions) => (None, Some(transactions)),
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("seconds", &seconds)?;
        map.serialize_entry("transactions", &transactions)?;
        map.end()
    }
}
