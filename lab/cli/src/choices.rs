//! Flags whose values are names.

use concurrency::SchemeName;
use harness::{Choice, Execution, MemoryPlacement};
use serde::Serialize;
use storage::Optimisation;

use crate::bad_input::BadInput;

/// The value that `text` names for `flag`.
///
/// # Errors
/// There is no value of this name.
pub fn named_value<C: Choice>(flag: &str, text: &str) -> Result<C, BadInput> {
    let named = C::ALL.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    named.ok_or_else(|| BadInput::value(flag, text, "unknown value", C::accepted()))
}

/// A type of this crate with its names.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant),+
        }

        impl Choice for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),+];
        }
    };
}

/// The list of workloads: expands to `callback! { Micro = "micro", ... }`, each entry behind its
/// documentation.
macro_rules! for_each_workload {
    ($callback:ident) => {
        $callback! {
            /// Reads and updates of a few rows of one table.
            Micro = "micro",
            /// YCSB core workloads.
            Ycsb = "ycsb",
            /// TPC-B.
            Tpcb = "tpcb",
            /// TPC-C.
            Tpcc = "tpcc",
            /// TATP.
            Tatp = "tatp",
            /// Two tables, one of which depends on the other.
            Dependent = "dependent",
            /// Lock-protected counters.
            Counter = "counter",
            /// Locks and atomics alone.
            Lock = "lock",
            /// Messages between two peers.
            Ipc = "ipc",
            /// Reads of rows on a chosen memory node.
            Memory = "memory",
        }
    };
}

pub(crate) use for_each_workload;

macro_rules! workload_names {
    ($($workloads:tt)+) => {
        choices! {
            /// A workload of `isles bench`.
            WorkloadName { $($workloads)+ }
        }
    };
}

for_each_workload!(workload_names);

choices! {
    /// The storage engine.
    Engine {
        /// Rows in memory.
        Memory = "memory",
        /// Rows in pages.
        Paged = "paged",
    }
}

/// The concurrency control of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyControl {
    /// A scheme of the registry: rows in memory.
    Scheme(SchemeName),
    /// Two-phase locking: rows in pages.
    TwoPhase,
}

/// Every scheme of the registry, then that of pages.
impl Choice for ConcurrencyControl {
    const ALL: &'static [(&'static str, Self)] = &{
        let mut all = [(pages::TWO_PHASE_LOCKING, ConcurrencyControl::TwoPhase); SchemeName::ALL.len() + 1];
        let mut number = 0;
        while number < SchemeName::ALL.len() {
            let scheme = SchemeName::ALL[number];
            all[number] = (scheme.name(), ConcurrencyControl::Scheme(scheme));
            number += 1;
        }
        all
    };
}

impl ConcurrencyControl {
    /// The one that `text` names, of those that the engine has.
    ///
    /// # Errors
    /// It is another engine's, or none.
    pub fn choose(text: Option<&str>, engine: Engine, execution: Execution) -> Result<Self, BadInput> {
        let owns = execution != Execution::Inline;
        let default = match engine {
            Engine::Memory if owns => ConcurrencyControl::Scheme(SchemeName::Hstore),
            Engine::Memory => ConcurrencyControl::Scheme(SchemeName::Silo),
            Engine::Paged => ConcurrencyControl::TwoPhase,
        };
        let is_of_pages = |control| control == ConcurrencyControl::TwoPhase;
        // Workers that own partitions keep transactions apart themselves.
        let has = |control| match owns {
            true => control == default,
            false => is_of_pages(control) == is_of_pages(default),
        };
        let names: Vec<&str> = Self::ALL.iter().filter(|(_, one)| has(*one)).map(|(name, _)| *name).collect();
        let refused =
            |text: &str, problem: String| Err(BadInput::value("--cc", text, problem, names.join(", ")));
        match (text, text.and_then(|text| Self::ALL.iter().find(|(name, _)| *name == text))) {
            (None, _) => Ok(default),
            (Some(_), Some((_, named))) if has(*named) => Ok(*named),
            (Some(text), Some((_, named))) if is_of_pages(*named) == is_of_pages(default) => {
                refused(text, format!("not with --execution {}", execution.name()))
            }
            (Some(text), Some(_)) => refused(text, format!("not with --engine {}", engine.name())),
            (Some(text), None) => refused(text, "unknown value".to_owned()),
        }
    }

    /// The scheme of rows in memory.
    pub fn scheme(self) -> SchemeName {
        match self {
            ConcurrencyControl::Scheme(scheme) => scheme,
            ConcurrencyControl::TwoPhase => SchemeName::default(),
        }
    }
}

choices! {
    /// The simulated device below the log.
    DiskKind {
        /// Memory that is mapped as a disk.
        Ram = "ram",
        /// A solid-state disk.
        Nvme = "nvme",
        /// A turning disk.
        Hdd = "hdd",
        /// Two turning disks with alternate stripes.
        StripedHdd = "hdd:2",
    }
}

choices! {
    /// The instances of the remote rows of a transaction.
    RemoteRows {
        /// Any, also that of the transaction.
        Any = "any",
        /// Others than that of the transaction.
        OtherInstance = "other-instance",
    }
}

choices! {
    /// The remote warehouses of a worker, by the memory node of their rows.
    RemoteChoice {
        /// All.
        Any = "any",
        /// Those on the worker's own node.
        Local = "local",
        /// Those at the largest distance of the machine.
        Farthest = "farthest",
    }
}

choices! {
    /// The simulated device of the log.
    LogDisk {
        /// Memory that is mapped as a disk.
        Ram = "ram",
        /// A solid-state disk.
        Ssd = "ssd",
        /// A turning disk.
        Hdd = "hdd",
    }
}

choices! {
    /// On or off.
    Switch {
        /// On.
        On = "on",
        /// Off.
        Off = "off",
    }
}

choices! {
    /// Pages of large regions of memory.
    PageSize {
        /// The smallest.
        Small = "small",
        /// Huge ones where a region covers them.
        Huge = "huge",
    }
}

choices! {
    /// Adaptation of partitions to the workload.
    Adaptive {
        /// Partitions follow the workload.
        On = "on",
        /// Partitions stay, and nothing is counted.
        Off = "off",
        /// Partitions stay, and counts are kept and collected.
        Monitor = "monitor",
    }
}

choices! {
    /// The owners of the partitions of two dependent tables.
    PartitionPlacement {
        /// The first table fills the first workers, the second one those behind them.
        Oblivious = "oblivious",
        /// Partitions with the same keys are on one socket, which costs least in the model.
        Model = "model",
    }
}

choices! {
    /// A program whose ways a run takes over.
    Like {
        /// The program of the study of 1000 cores.
        Dbx1000 = "dbx1000",
        /// The storage manager of the studies of islands.
        ShoreMt = "shore-mt",
    }
}

choices! {
    /// How the machine is drawn.
    TopologyFormat {
        /// A tree for people.
        Text = "text",
        /// One JSON object.
        Json = "json",
        /// A picture.
        Svg = "svg",
        /// A description file.
        Toml = "toml",
    }
}

choices! {
    /// The content of a picture.
    TopologyView {
        /// Nested boxes.
        Machine = "machine",
        /// Times of lines between cores.
        Cores = "cores",
        /// Latency of memory between nodes.
        Memory = "memory",
    }
}

/// Where rows live, as `text` names it.
///
/// # Errors
/// The text names no placement of memory.
pub fn memory_placement(flag: &str, text: &str) -> Result<MemoryPlacement, BadInput> {
    const ACCEPTED: &str = "local, central, remote, hops=N";
    let hops = text.strip_prefix("hops=").filter(|hops| hops.bytes().all(|byte| byte.is_ascii_digit()));
    match (text, hops.and_then(|hops| hops.parse().ok())) {
        ("local", _) => Ok(MemoryPlacement::Local),
        ("central", _) => Ok(MemoryPlacement::Central),
        ("remote", _) => Ok(MemoryPlacement::Remote),
        (_, Some(hops)) => Ok(MemoryPlacement::Hops(hops)),
        _ => Err(BadInput::value(flag, text, "unknown value", ACCEPTED)),
    }
}

/// The optimisations that `text` lists, each named once.
///
/// # Errors
/// There is no optimisation of one of the names, or one is named twice.
pub fn optimisations(flag: &str, text: &str) -> Result<Vec<Optimisation>, BadInput> {
    let mut all = Vec::new();
    for name in text.split(',') {
        let one = named_value(flag, name)?;
        if all.contains(&one) {
            return Err(BadInput::value(flag, name, "named twice", "each name once"));
        }
        all.push(one);
    }
    Ok(all)
}

/// The number of instances that `text` asks for, of `cores` workers on this many `sockets` of this
/// many `machines`.
///
/// # Errors
/// The text names no number of instances, or more of them than workers.
pub fn choose_instances(
    text: Option<&str>,
    cores: usize,
    sockets: usize,
    machines: usize,
) -> Result<usize, BadInput> {
    let Some(text) = text else { return Ok(1) };
    let accepted = || format!("1isl to {cores}isl, core, socket, machine");
    let refused = |problem: &str| BadInput::value("--deploy", text, problem, accepted());
    let instances = match text {
        "machine" => machines,
        "socket" => sockets,
        "core" => cores,
        _ => {
            let number = text.strip_suffix("isl").filter(|number| !number.starts_with('+'));
            number.and_then(|number| number.parse().ok()).ok_or_else(|| refused("unknown value"))?
        }
    };
    match instances {
        0 => Err(refused("unknown value")),
        instances if instances > cores => Err(refused("more instances than workers")),
        instances => Ok(instances),
    }
}
