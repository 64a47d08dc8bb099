//! Flags whose values are names: what this version does, and what later versions will.

use std::fmt;

use serde::Serialize;

use crate::bad_input::BadInput;

/// A flag with a fixed set of values.
pub trait Choice: Copy + 'static {
    /// Names and values that work.
    const ALL: &'static [(&'static str, Self)];
    /// Names of the command-line contract that a later version brings.
    const LATER: &'static [&'static str];

    /// The names that work, for messages.
    fn accepted() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// The value that `text` names for `flag`, or `default` where the flag was not given.
pub fn choose<C: Choice>(flag: &str, text: Option<&str>, default: C) -> Result<C, BadInput> {
    let Some(text) = text else { return Ok(default) };
    if let Some((_, value)) = C::ALL.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    if C::LATER.contains(&text) {
        return Err(BadInput::later_value(flag, text, C::accepted()));
    }
    Err(BadInput::value(flag, text, "unknown value", C::accepted()))
}

macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }
     later [$($later:literal),* $(,)?]) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// The name on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl Choice for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),+];
            const LATER: &'static [&'static str] = &[$($later),*];
        }
    };
}

choices! {
    /// A workload of `isles bench`.
    WorkloadName {
        /// Reads and updates of a few rows of one table.
        Micro = "micro",
        /// YCSB core workloads.
        Ycsb = "ycsb",
        /// TPC-C.
        Tpcc = "tpcc",
        /// Lock-protected counters.
        Counter = "counter",
        /// Messages between two peers.
        Ipc = "ipc",
        /// Reads of rows on a chosen memory node.
        Memory = "memory",
    } later ["tpcb", "tatp"]
}

impl WorkloadName {
    /// Whether it runs transactions in a database.
    pub fn has_database(self) -> bool {
        matches!(self, WorkloadName::Micro | WorkloadName::Ycsb | WorkloadName::Tpcc)
    }
}

choices! {
    /// Where the workers of an instance run.
    Placement {
        /// Within as few islands as hold them.
        Island = "island",
        /// As far apart as possible.
        Spread = "spread",
        /// Wherever the operating system puts them.
        Os = "os",
    } later []
}

choices! {
    /// The storage engine.
    Engine {
        /// Rows in memory.
        Memory = "memory",
    } later ["paged"]
}

choices! {
    /// The concurrency-control scheme.
    ConcurrencyControl {
        /// Optimistic, with epochs.
        Silo = "silo",
        /// Optimistic, with commit times that the data decides.
        TicToc = "tictoc",
        /// Two-phase locking that aborts rather than waits.
        NoWait = "no-wait",
        /// Two-phase locking in which the older waits and the younger dies.
        WaitDie = "wait-die",
        /// Two-phase locking that detects deadlocks.
        DlDetect = "dl-detect",
        /// Optimistic, with a private workspace and timestamps.
        Occ = "occ",
        /// Optimistic, with versions for snapshots.
        Mvcc = "mvcc",
        /// One lock a partition.
        Hstore = "hstore",
    } later ["2pl"]
}

choices! {
    /// How the phases of a transaction are executed.
    Execution {
        /// By the worker that began the transaction.
        Inline = "inline",
    } later ["plp", "atrapos"]
}

choices! {
    /// When a commit is acknowledged.
    Durability {
        /// At once: nothing is logged.
        None = "none",
        /// At once: the log follows.
        Async = "async",
        /// When its epoch is on disk; the worker goes on meanwhile.
        Group = "group",
        /// When its epoch is on disk; the worker waits for it.
        Sync = "sync",
    } later []
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
    } later []
}

choices! {
    /// Where timestamps come from.
    Timestamp {
        /// The synchronized clock.
        Clock = "clock",
        /// One counter for all workers.
        Counter = "counter",
    } later []
}

choices! {
    /// An optimisation that can be left out.
    Optimisation {
        /// Memory of each worker's own; without, one heap for all.
        ThreadAlloc = "thread-alloc",
        /// Hash indexes; without, they are trees.
        HashIndex = "hash-index",
        /// Latches that queue or back off; without, whoever waits tries again at once.
        QueueLatch = "queue-latch",
        /// A copy of tables that are never written on every memory node.
        Replicate = "replicate",
        /// What is needed next is brought closer; without, rows are looked up one after the other.
        Prefetch = "prefetch",
        /// Compiled access to columns; without, by a walk over the catalog.
        CompiledRows = "compiled-rows",
        /// A short wait for locked rows; without, none in optimistic schemes and an unbounded one in those that wait.
        BoundedSpin = "bounded-spin",
        /// No concurrency control for tables that are never written.
        ReadOnlySkip = "read-only-skip",
        /// A copy of the descriptors of all indexes on every memory node.
        ReplicateIndex = "replicate-index",
    } later [
        "sli", "aether"
    ]
}

impl Optimisation {
    /// What the engine calls it.
    pub fn engine(self) -> storage::Optimisation {
        match self {
            Optimisation::ThreadAlloc => storage::Optimisation::ThreadAlloc,
            Optimisation::HashIndex => storage::Optimisation::HashIndex,
            Optimisation::QueueLatch => storage::Optimisation::QueueLatch,
            Optimisation::Replicate => storage::Optimisation::Replicate,
            Optimisation::ReplicateIndex => storage::Optimisation::ReplicateIndex,
            Optimisation::Prefetch => storage::Optimisation::Prefetch,
            Optimisation::CompiledRows => storage::Optimisation::CompiledRows,
            Optimisation::BoundedSpin => storage::Optimisation::BoundedSpin,
            Optimisation::ReadOnlySkip => storage::Optimisation::ReadOnlySkip,
        }
    }
}

impl Timestamp {
    /// What the engine calls it.
    pub fn source(self) -> cc::TimestampSource {
        match self {
            Timestamp::Clock => cc::TimestampSource::Clock,
            Timestamp::Counter => cc::TimestampSource::Counter,
        }
    }
}

choices! {
    /// On or off.
    Switch {
        /// On.
        On = "on",
        /// Off.
        Off = "off",
    } later []
}

choices! {
    /// What a micro transaction does with its rows.
    Operation {
        /// Reads them all.
        Read = "read",
        /// Updates them all.
        Update = "update",
        /// Reads half, updates half; remote rows are read.
        Mixed = "mixed",
    } later []
}

choices! {
    /// A core workload of YCSB.
    YcsbWorkload {
        /// Half reads, half updates.
        A = "a",
        /// 95 % reads, 5 % updates.
        B = "b",
        /// Reads only.
        C = "c",
        /// Reads of the latest records, 5 % inserts.
        D = "d",
        /// Short scans, 5 % inserts.
        E = "e",
        /// Half reads, half read-modify-writes.
        F = "f",
    } later []
}

choices! {
    /// The transactions of TPC-C.
    TpccMix {
        /// All five, in the proportions of the specification.
        Full = "full",
        /// NewOrder and Payment, half and half.
        Narrow = "narrow",
        /// Payment only.
        Payment = "payment",
        /// NewOrder only.
        NewOrder = "new-order",
        /// OrderStatus only.
        OrderStatus = "order-status",
        /// Delivery only.
        Delivery = "delivery",
        /// StockLevel only.
        StockLevel = "stock-level",
    } later []
}

choices! {
    /// The columns of TPC-C's tables.
    TpccSchema {
        /// All columns of the specification.
        Full = "full",
        /// Only the columns that the transactions need.
        Small = "small",
    } later []
}

choices! {
    /// Where TPC-C's warehouses live.
    TpccLoad {
        /// On the node of the worker whose home they are.
        Home = "home",
        /// Contiguous blocks of warehouses on the nodes of the workers in turn, whoever's home they are.
        Block = "block",
    } later []
}

choices! {
    /// How many counters there are.
    Counters {
        /// One for all workers.
        Single = "single",
        /// One per socket.
        Socket = "socket",
        /// One per core.
        Core = "core",
    } later []
}

choices! {
    /// How messages travel.
    Mechanism {
        /// Anonymous pipes.
        Pipe = "pipe",
        /// Named pipes.
        Fifo = "fifo",
        /// POSIX message queues.
        MessageQueue = "mq",
        /// Unix domain sockets.
        Unix = "uds",
        /// TCP.
        Tcp = "tcp",
        /// A ring in shared memory.
        SharedMemory = "shm",
    } later []
}

choices! {
    /// Where the two peers run.
    Peers {
        /// On two cores of one socket.
        SameSocket = "same-socket",
        /// On two sockets.
        OtherSocket = "other-socket",
    } later []
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
    } later []
}

choices! {
    /// What a picture shows.
    TopologyView {
        /// Nested boxes.
        Machine = "machine",
        /// Times of lines between cores.
        Cores = "cores",
        /// Latency of memory between nodes.
        Memory = "memory",
    } later []
}

/// Where rows live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// On the node of the worker whose home they are.
    Local,
    /// All on one node: that of the first worker.
    Central,
    /// On another node than that of the worker whose home they are.
    Remote,
    /// On a node this many hops from that of the worker whose home they are.
    Hops(u32),
}

impl Memory {
    const ACCEPTED: &str = "local, central, remote, hops=N";

    /// The placement that `text` names.
    pub fn choose(text: Option<&str>) -> Result<Self, BadInput> {
        let Some(text) = text else { return Ok(Memory::Local) };
        let hops = text.strip_prefix("hops=").filter(|hops| hops.bytes().all(|byte| byte.is_ascii_digit()));
        match (text, hops.and_then(|hops| hops.parse().ok())) {
            ("local", _) => Ok(Memory::Local),
            ("central", _) => Ok(Memory::Central),
            ("remote", _) => Ok(Memory::Remote),
            (_, Some(hops)) => Ok(Memory::Hops(hops)),
            _ => Err(BadInput::value("--memory", text, "unknown value", Self::ACCEPTED)),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Local => to.write_str("local"),
            Memory::Central => to.write_str("central"),
            Memory::Remote => to.write_str("remote"),
            Memory::Hops(hops) => write!(to, "hops={hops}"),
        }
    }
}

impl Serialize for Memory {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How the engine is split into instances: one so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Deploy {
    /// One instance, whether asked for as `1isl` or as `machine`.
    #[serde(rename = "1isl")]
    OneInstance,
}

impl Deploy {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        "1isl"
    }

    /// The deployment that `text` names.
    pub fn choose(text: Option<&str>) -> Result<Self, BadInput> {
        const ACCEPTED: &str = "1isl, machine";
        let Some(text) = text else { return Ok(Deploy::OneInstance) };
        let instances = text.strip_suffix("isl").and_then(|number| number.parse::<u32>().ok());
        match (text, instances) {
            ("machine", _) | (_, Some(1)) => Ok(Deploy::OneInstance),
            ("core" | "socket", _) | (_, Some(2..)) => Err(BadInput::later_value("--deploy", text, ACCEPTED)),
            _ => Err(BadInput::value("--deploy", text, "unknown value", ACCEPTED)),
        }
    }
}
