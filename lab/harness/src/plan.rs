//! The plan of a run.

use std::path::PathBuf;

use concurrency::{InstanceOptions, SchemeName, TimestampSource, Ways};
use dora::{Borders, Sharing};
use pages::{PagedLogOptions, PagedOptions, PathLengths};
use platform::Nanos;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use storage::{Optimisation, Optimisations};
use terms::Faults;

use crate::deployment::Deployment;
use crate::execution::executor::Execution;
use crate::faults::failing::Failure;
use crate::faults::troubles::Troubles;
use crate::names::{Choice, names, serialize_name};
use crate::owners::adaptation::Adaptation;
use crate::owners::shifting::Shift;
use crate::retry::Retry;

/// Bytes of a segment of the log, on hardware and in virtual machines, whose disks are in the
/// host's memory.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;
pub(crate) const SEGMENT_BYTES_VIRTUAL: u64 = 1 << 20;
/// Bytes of the log's buffer in virtual machines.
const BUFFER_BYTES_VIRTUAL: u64 = 1 << 20;
/// Most prepared branches in an instance over pages.
const PARTS_MAX: usize = 1 << 10;
/// Bytes that one worker may insert in a second.
const INSERT_BYTES_PER_SECOND: f64 = 300e6;
/// Most bytes that one worker is expected to insert.
const INSERT_BYTES_MAX: usize = 3 << 29;
/// Bytes that one transaction may insert, if the length is given in transactions.
const INSERT_BYTES_PER_TRANSACTION: f64 = 1_500.0;

/// The moment at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Immediately: nothing is logged.
    #[default]
    None,
    /// Immediately: the log is written later.
    Async,
    /// When its epoch is on disk; the worker continues meanwhile.
    Group,
    /// When its epoch is on disk; the worker waits for it.
    Sync,
}

names! {
    Durability {
        None = "none",
        Async = "async",
        Group = "group",
        Sync = "sync",
    }
}

/// The order in which parts of a transaction over several instances lock. In both a transaction
/// that conflicts with a prepared row aborts; where several workers share an instance, it waits
/// 10 us before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitProtocol {
    /// The coordinator's own part locks last, for no round trip.
    #[default]
    Classic,
    /// The own part of a transaction of one phase locks first, and keeps its locks until the
    /// decision; others commit as `Classic`.
    Published,
}

names! { CommitProtocol { Classic = "classic", Published = "published" } }

/// The treatment of a transaction that needs a missing instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is refused.
    #[default]
    Refuse,
    /// It is tried again until the instance is back.
    Wait,
}

/// The drawing of requests: by which clients, and for which rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// Each worker draws its own transactions, for its home.
    #[default]
    Worker,
    /// Each worker draws its own transactions, for all data of its instance.
    Instance,
    /// Clients draw requests for all data, and hand each to the owner of its first rows: an
    /// instance, or a worker if workers own partitions. Each has several requests open. With one
    /// instance whose workers own no partitions this is [`Clients::Instance`].
    Global,
}

names! { Clients { Worker = "worker", Instance = "instance", Global = "global" } }

/// The engine for rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Rows in memory, under the scheme of the plan.
    #[default]
    Memory,
    /// Rows in pages, under two-phase locking.
    Paged {
        /// Bytes of the buffer pools of all instances together.
        pool_bytes: u64,
    },
}

/// Serialises as `engine` and `pool`.
impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (name, pool_bytes) = match *self {
            Engine::Memory => ("memory", None),
            Engine::Paged { pool_bytes } => ("paged", Some(pool_bytes)),
        };
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("engine", name)?;
        map.serialize_entry("pool", &pool_bytes)?;
        map.end()
    }
}

/// The length of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Seconds of the platform's own time.
    Seconds(f64),
    /// Commits of the first worker to finish, after which all workers stop.
    Commits(u64),
    /// Transactions of each worker.
    Transactions(u64),
}

impl Length {
    /// An upper estimate of the bytes that a worker inserts in a run of this length after its
    /// warm-up.
    pub fn inserted_bytes(self, warm_up_seconds: f64) -> f64 {
        match self {
            Length::Seconds(seconds) => (seconds + warm_up_seconds) * INSERT_BYTES_PER_SECOND,
            Length::Commits(count) | Length::Transactions(count) => {
                count as f64 * INSERT_BYTES_PER_TRANSACTION
            }
        }
    }
}

/// Serialises as `seconds` and `transactions`, one of which is null.
impl Serialize for Length {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (seconds, transactions) = match *self {
            Length::Seconds(seconds) => (Some(seconds), None),
            Length::Commits(count) | Length::Transactions(count) => (None, Some(count)),
        };
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("seconds", &seconds)?;
        map.serialize_entry("transactions", &transactions)?;
        map.end()
    }
}

/// The names of the optimisations that are switched off.
fn serialize_without<S: Serializer>(optimisations: &Optimisations, to: S) -> Result<S::Ok, S::Error> {
    let without = Optimisation::ALL.iter().filter(|(_, one)| !optimisations.has(*one));
    to.collect_seq(without.map(|(name, _)| name))
}

fn serialize_ways<S: Serializer>(ways: &Ways, to: S) -> Result<S::Ok, S::Error> {
    let Ways { row_lock, row_copies, commit_locks, deadlocks, .. } = *ways;
    let mut map = to.serialize_map(Some(4))?;
    map.serialize_entry("row_lock", row_lock.name())?;
    map.serialize_entry("row_copies", row_copies.name())?;
    map.serialize_entry("commit_locks", commit_locks.name())?;
    map.serialize_entry("deadlocks", deadlocks.name())?;
    map.end()
}

fn serialize_interval<S: Serializer>(adaptation: &Option<Adaptation>, to: S) -> Result<S::Ok, S::Error> {
    adaptation.as_ref().map(|how| how.settings.interval_seconds).serialize(to)
}

fn serialize_switch<S: Serializer>(is_on: &bool, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(if *is_on { "on" } else { "off" })
}

/// The plan of a run. Serialises as the flags of `isles bench`, with their names (`-` as `_`);
/// concurrency control depends on the engine, and is serialised beside the plan.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The engine for rows.
    #[serde(flatten)]
    pub engine: Engine,
    /// Concurrency control of rows in memory.
    #[serde(skip)]
    pub scheme: SchemeName,
    /// The execution of procedures.
    pub execution: Execution,
    /// The moment at which a commit is acknowledged.
    pub durability: Durability,
    /// Directory of the database, which is opened if it exists; `None`: a temporary directory, or
    /// none.
    pub path: Option<PathBuf>,
    /// The length of the run.
    #[serde(flatten)]
    pub length: Length,
    /// Seconds of the platform's time before measuring.
    #[serde(rename = "warmup")]
    pub warm_up_seconds: f64,
    /// True if the breakdown of time is recorded.
    #[serde(serialize_with = "serialize_switch")]
    pub instrument: bool,
    /// Seed of data and transactions.
    pub seed: u64,
    /// Shortest epoch.
    #[serde(skip)]
    pub epoch_nanos: u64,
    /// The source of timestamps.
    #[serde(rename = "timestamp", serialize_with = "serialize_name")]
    pub timestamps: TimestampSource,
    /// The optimisations of the instance.
    #[serde(rename = "without", serialize_with = "serialize_without")]
    pub optimisations: Optimisations,
    /// Choices of the instance that differ from the default.
    #[serde(flatten, serialize_with = "serialize_ways")]
    pub ways: Ways,
    /// The treatment of a transaction that conflicted.
    pub retry: Retry,
    /// True if pages do what Shore-MT does: its path lengths, latches of readers and list of active
    /// transactions are charged.
    #[serde(skip)]
    pub like_shore_mt: bool,
    /// True if each partition has an owner of its own, which sleeps as soon as it has nothing to do
    /// and does not spin before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partition_threads: bool,
    /// The drawing of requests.
    #[serde(serialize_with = "serialize_name")]
    pub clients: Clients,
    /// Transactions over several instances that a worker keeps open while it waits for answers.
    pub in_flight: usize,
    /// The order in which parts of a transaction over several instances lock.
    #[serde(serialize_with = "serialize_name")]
    pub commit: CommitProtocol,
    /// The treatment of a transaction that needs a missing instance, which may come back.
    #[serde(skip)]
    pub missing: Missing,
    /// Faults between instances of one process, for tests.
    #[serde(skip)]
    pub troubles: Option<Troubles>,
    /// Duplicate one in this many messages between instances (0: never), for tests.
    #[serde(skip)]
    pub duplicate_one_in: u32,
    /// Bytes by which the log grows before a checkpoint begins, at least; `None`: the default. For
    /// tests.
    #[serde(skip)]
    pub checkpoint_bytes: Option<u64>,
    /// Faults that tests plant.
    #[serde(skip)]
    pub faults: Faults,
    /// The adaptation of the partitions of workers that own them, or their monitoring alone;
    /// `None`: neither.
    #[serde(rename = "adapt_interval", serialize_with = "serialize_interval")]
    pub adaptation: Option<Adaptation>,
    /// Planned shifts of partitions, to measure their cost; then partitions do not follow the
    /// workload.
    #[serde(skip)]
    pub shifts: Vec<Shift>,
    /// True if workers change the map of partitions at random, for tests.
    #[serde(skip)]
    pub restless: bool,
    /// Sockets that fail during the run, if there is one instance.
    #[serde(skip)]
    pub failures: Vec<Failure>,
    /// Time after which a transaction must have succeeded; `None`: any.
    #[serde(skip)]
    pub transaction_nanos_max: Option<u64>,
}

impl Plan {
    /// A run under `scheme` of this length, without warm-up, log or instruments.
    pub fn new(scheme: SchemeName, length: Length) -> Self {
        Plan {
            engine: Engine::Memory,
            scheme,
            execution: Execution::Inline,
            durability: Durability::None,
            path: None,
            length,
            warm_up_seconds: 0.0,
            instrument: false,
            seed: 1,
            epoch_nanos: 1_000_000,
            timestamps: TimestampSource::Clock,
            optimisations: Optimisations::ALL,
            ways: Ways::default(),
            retry: Retry::default(),
            like_shore_mt: false,
            partition_threads: false,
            clients: Clients::default(),
            in_flight: 1,
            commit: CommitProtocol::default(),
            missing: Missing::Refuse,
            troubles: None,
            duplicate_one_in: 0,
            checkpoint_bytes: None,
            faults: Faults::NONE,
            adaptation: None,
            shifts: Vec::new(),
            restless: false,
            failures: Vec::new(),
            transaction_nanos_max: None,
        }
    }

    /// True if partitions follow the workload.
    pub fn adapts(&self) -> bool {
        self.adaptation.as_ref().is_some_and(|adaptation| adaptation.decides)
    }

    /// The sharing of the state of transactions, if workers own partitions.
    pub fn sharing(&self) -> Option<Sharing> {
        match self.execution.sharing()? {
            Sharing::PerSocket if !self.optimisations.has(Optimisation::Announcements) => {
                Some(Sharing::SocketLists)
            }
            sharing => Some(sharing),
        }
    }

    /// The work of borders of partitions that the partitions' controller changes.
    pub(crate) fn borders(&self) -> Borders {
        if self.like_shore_mt { Borders::Physical } else { Borders::Logical }
    }

    /// An upper estimate of the bytes that each worker inserts during the run.
    pub fn inserted_bytes(&self, deployment: &Deployment) -> usize {
        let wanted = self.length.inserted_bytes(self.warm_up_seconds);
        let most = (deployment.memory_bytes_max / 4) as usize / deployment.workers();
        (wanted as usize).min(INSERT_BYTES_MAX).min(most)
    }

    /// Options of an instance of `deployment`: its workers' share of the memory.
    pub(crate) fn instance_options(&self, deployment: &Deployment, instance: usize) -> InstanceOptions {
        let workers = deployment.instances[instance].workers.len();
        let share = u128::from(deployment.memory_bytes_max) * workers as u128 / deployment.workers() as u128;
        InstanceOptions {
            // One more session reads the data before and after the workers run. A single worker's
            // session is the only one.
            sessions_max: if workers == 1 { 1 } else { workers + 1 },
            memory_bytes_max: share as u64,
            epoch_nanos: self.epoch_nanos,
            wait_nanos_max: match (deployment.instances.len(), workers) {
                (1, _) => InstanceOptions::default().wait_nanos_max,
                (_, _) => distributed::wait_nanos_max(workers),
            },
            timestamps: self.timestamps,
            nodes: deployment.instances[instance].nodes_in_use(),
            optimisations: self.optimisations,
            ways: self.ways,
            faults: self.faults,
            ..InstanceOptions::default()
        }
    }

    /// Options of an instance over pages with files in this directory; `None` if rows are in
    /// memory.
    pub(crate) fn paged_options(
        &self,
        deployment: &Deployment,
        instance: usize,
        directory: Option<PathBuf>,
        is_virtual: bool,
    ) -> Option<PagedOptions> {
        let Engine::Paged { pool_bytes } = self.engine else { return None };
        let workers = deployment.instances[instance].workers.len();
        let all = deployment.workers();
        let is_one = deployment.instances.len() == 1;
        let pool_bytes = u128::from(pool_bytes) * workers as u128 / all as u128;
        let defaults = PagedLogOptions::default();
        let log = match is_virtual {
            true => PagedLogOptions {
                segment_bytes: SEGMENT_BYTES_VIRTUAL,
                buffer_bytes: BUFFER_BYTES_VIRTUAL,
                ..defaults
            },
            false => PagedLogOptions { segment_bytes: SEGMENT_BYTES, ..defaults },
        };
        Some(PagedOptions {
            sessions_max: if workers == 1 { 1 } else { workers + 1 },
            // One branch of each worker's transaction.
            branches_max: if self.execution.sharing().is_some() { workers } else { 0 },
            parts_max: if is_one { 0 } else { self.parts_max(workers, all) },
            wait_nanos_max: (!is_one).then(|| distributed::wait_nanos_max(workers)),
            log: (self.durability != Durability::None).then_some(log),
            nodes: deployment.instances[instance].nodes_in_use(),
            directory,
            optimisations: self.optimisations,
            faults: self.faults,
            paths: if self.like_shore_mt { PathLengths::SHORE_MT } else { PathLengths::NONE },
            // Owners of partitions need no latches, and have a list of their own.
            latches_reads: self.like_shore_mt && self.execution.sharing().is_none(),
            ..PagedOptions::with_pool(pool_bytes as u64)
        })
    }

    /// Most branches that an instance has prepared at a time: each worker of another instance has
    /// up to `in_flight` transactions, and as many again whose ends have not been received yet;
    /// each own worker prepares its own branches, and one more. Further branches are refused, and
    /// tried again.
    fn parts_max(&self, workers: usize, all: usize) -> usize {
        let in_flight = self.in_flight.max(1);
        (2 * in_flight * (all - workers) + (1 + in_flight) * workers).min(PARTS_MAX)
    }

    /// The moment at which a transaction that begins at `now` must have succeeded.
    pub(crate) fn deadline(&self, now: Nanos) -> Option<Nanos> {
        self.transaction_nanos_max.map(|longest| now.plus(longest))
    }
}
