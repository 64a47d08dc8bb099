//! The resolved configuration as a value.

use cc::{SchemeName, TimestampSource};
use driver::{CounterGroups, Durability, MemoryPlacement, Peers};
use machine::Placement;
use serde::Serialize;
use storage::Optimisation;
use workloads::micro::Operation;
use workloads::ycsb::YcsbWorkload;

use crate::choices::{
    Deploy, DiskKind, Engine, Execution, Mechanism, Switch, TpccLoad, TpccMix, TpccSchema, WorkloadName,
    serialize_memory, serialize_name, serialize_names,
};
use crate::machine_facts::NATIVE;

/// A benchmark's configuration. Serialises as the `config` of the result, with the names of the flags (`-` as `_`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// The workload with its flags, which stand beside the others in the result. The flag `--workload` of YCSB is
    /// `ycsb_workload` there, because `workload` is the workload itself.
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
    /// Where rows live.
    #[serde(serialize_with = "serialize_memory")]
    pub memory: MemoryPlacement,
    /// Storage engine.
    pub engine: Engine,
    /// Concurrency control.
    #[serde(serialize_with = "serialize_name")]
    pub cc: SchemeName,
    /// Execution of transactions.
    pub execution: Execution,
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
    /// How long the run is: `seconds` or `transactions`; the other is null in the result.
    #[serde(flatten)]
    pub length: Length,
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
    /// Optimisations that are left out, as the engine wants them.
    pub fn left_out(&self) -> storage::Without {
        self.without.iter().fold(storage::Without::NOTHING, |all, one| all.and(*one))
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

/// A workload with its flags.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "workload", rename_all = "lowercase")]
pub enum Workload {
    /// Reads and updates of a few rows of one table.
    Micro(Micro),
    /// YCSB core workloads.
    Ycsb(Ycsb),
    /// TPC-C.
    Tpcc(Tpcc),
    /// Lock-protected counters.
    Counter(CounterWorkload),
    /// Messages between two peers.
    Ipc(IpcWorkload),
    /// Reads of rows on a chosen memory node.
    Memory(MemoryWorkload),
}

impl Workload {
    /// Which workload it is.
    pub fn name(&self) -> WorkloadName {
        match self {
            Workload::Micro(_) => WorkloadName::Micro,
            Workload::Ycsb(_) => WorkloadName::Ycsb,
            Workload::Tpcc(_) => WorkloadName::Tpcc,
            Workload::Counter(_) => WorkloadName::Counter,
            Workload::Ipc(_) => WorkloadName::Ipc,
            Workload::Memory(_) => WorkloadName::Memory,
        }
    }
}

/// Flags of `micro`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Micro {
    /// What a transaction does with its rows.
    #[serde(serialize_with = "serialize_name")]
    pub op: Operation,
    /// Rows per transaction, all different.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Rows of each site; there is one site per worker.
    pub rows_per_site: u64,
    /// Share of transactions over several sites.
    pub multisite: f64,
    /// Skew over all rows; `None` chooses uniformly, local transactions from the worker's own site.
    pub zipf: Option<f64>,
    /// Hot spot, if any.
    pub hot: Option<Hot>,
}

/// A hot spot: a share of the requests goes to a share of the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hot {
    /// Share of requests, 0 to 1.
    pub requests: f64,
    /// Share of the data, more than 0, at most 1.
    pub data: f64,
}

/// Flags of `ycsb`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ycsb {
    /// Core workload.
    #[serde(rename = "ycsb_workload", serialize_with = "serialize_name")]
    pub workload: YcsbWorkload,
    /// Records loaded.
    pub records: u64,
    /// Requests per transaction.
    pub rows: u64,
    /// Skew of the choice of records; 0 is uniform.
    pub zipf: f64,
}

/// Flags of `tpcc`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tpcc {
    /// Warehouses, at most 65,535.
    pub warehouses: u32,
    /// Which transactions.
    pub mix: TpccMix,
    /// Percent of payments by customers of another warehouse.
    #[serde(rename = "remote_payment")]
    pub remote_payment_percent: f64,
    /// Percent of order lines supplied by another warehouse.
    #[serde(rename = "remote_items")]
    pub remote_items_percent: f64,
    /// Columns.
    pub schema: TpccSchema,
    /// Cardinalities per warehouse relative to the specification.
    pub scale: f64,
    /// Whether transactions insert rows.
    pub inserts: Switch,
    /// Where warehouses live.
    pub load: TpccLoad,
}

/// Flags of `counter`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterWorkload {
    /// Workers: always equal to [`Config::cores`].
    pub threads: usize,
    /// How many counters.
    #[serde(serialize_with = "serialize_name")]
    pub counters: CounterGroups,
}

/// Flags of `ipc`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IpcWorkload {
    /// How messages travel.
    pub mechanism: Mechanism,
    /// Where the peers run.
    #[serde(serialize_with = "serialize_name")]
    pub peers: Peers,
}

/// Flags of `memory`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryWorkload {
    /// Rows of each worker.
    pub rows: u64,
}
