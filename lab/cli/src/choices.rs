//! Flags whose values are names.

use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, SchemeName, TimestampSource};
use harness::{CounterGroups, Durability, MemoryPlacement, Peers, Retry, Transport};
use machine::Placement;
use serde::{Serialize, Serializer};
use storage::Optimisation;
use workloads::lock::{HeldLine, LockKind};
use workloads::micro::Operation;
use workloads::tatp::Mix as TatpMix;
use workloads::ycsb::YcsbWorkload;

use crate::bad_input::BadInput;

/// A flag with a fixed set of values.
pub trait Choice: Copy + PartialEq + 'static {
    /// Names and values that work.
    const ALL: &'static [(&'static str, Self)];

    /// The name on the command line and in results.
    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, value)| *value == self);
        named.map(|(name, _)| *name).expect("every value has a name")
    }

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
    Err(BadInput::value(flag, text, "unknown value", C::accepted()))
}

/// Serialises a value as its name.
pub fn serialize_name<C: Choice, S: Serializer>(value: &C, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

/// Serialises values as their names.
pub fn serialize_names<C: Choice, S: Serializer>(values: &[C], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(|value| value.name()))
}

/// Names of the values of a type that stands elsewhere.
macro_rules! names {
    ($choice:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl Choice for $choice {
            const ALL: &'static [(&'static str, Self)] = &[$(($text, $choice::$variant)),+];
        }

        // A value without a name does not compile.
        const _: fn($choice) = |value| match value {
            $($choice::$variant => ()),+
        };
    };
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

names! {
    Placement {
        Island = "island",
        Spread = "spread",
        Os = "os",
    }
}

choices! {
    /// The storage engine.
    Engine {
        /// Rows in memory.
        Memory = "memory",
        /// Rows in pages.
        Paged = "paged",
    }
}

// Ways that stand beside the default.
names! { Transport { Shm = "shm", Uds = "uds", Tcp = "tcp" } }
names! { RowLock { Word = "word", Latch = "latch" } }
names! { RowCopies { Fields = "fields", Rows = "rows" } }
names! { CommitLocks { Ordered = "ordered", NoWait = "no-wait" } }
names! { Deadlocks { Graph = "graph", Lists = "lists" } }
names! { Retry { Exponential = "exponential", Fixed = "fixed", Buffer = "buffer" } }

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
    /// How the phases of a transaction are executed.
    Execution {
        /// By the worker that began the transaction.
        Inline = "inline",
        /// By the workers that own what its actions touch; all share the state of transactions.
        Plp = "plp",
        /// The same, with the state of transactions divided by sockets.
        Atrapos = "atrapos",
    }
}

names! {
    Durability {
        None = "none",
        Async = "async",
        Group = "group",
        Sync = "sync",
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
    }
}

names! {
    TimestampSource {
        Clock = "clock",
        Counter = "counter",
    }
}

names! {
    Optimisation {
        ThreadAlloc = "thread-alloc",
        HashIndex = "hash-index",
        QueueLatch = "queue-latch",
        Replicate = "replicate",
        Prefetch = "prefetch",
        CompiledRows = "compiled-rows",
        BoundedSpin = "bounded-spin",
        ReadOnlySkip = "read-only-skip",
        ReplicateIndex = "replicate-index",
        PlainLocks = "plain-locks",
        LookAhead = "lookahead",
        InheritedLocks = "sli",
        Aether = "aether",
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

names! {
    Operation {
        Read = "read",
        Update = "update",
        Mixed = "mixed",
    }
}

names! {
    YcsbWorkload {
        A = "a",
        B = "b",
        C = "c",
        D = "d",
        E = "e",
        F = "f",
    }
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
    }
}

names! {
    TatpMix {
        Full = "full",
        GetSubscriberData = "GetSubscriberData",
        GetNewDestination = "GetNewDestination",
        GetAccessData = "GetAccessData",
        UpdateSubscriberData = "UpdateSubscriberData",
        UpdateLocation = "UpdateLocation",
        InsertCallForwarding = "InsertCallForwarding",
        DeleteCallForwarding = "DeleteCallForwarding",
    }
}

choices! {
    /// The columns of TPC-C's tables.
    TpccSchema {
        /// All columns of the specification.
        Full = "full",
        /// Only the columns that the transactions need.
        Small = "small",
    }
}

choices! {
    /// Where TPC-C's warehouses live.
    TpccLoad {
        /// On the node of the worker whose home they are.
        Home = "home",
        /// Contiguous blocks of warehouses on the nodes of the workers in turn, whichever worker's
        /// home they are.
        Block = "block",
    }
}

choices! {
    /// When TPC-C's transactions take the rows that most others want.
    TpccHotRows {
        /// After all others.
        Late = "late",
        /// Before all others.
        Early = "early",
    }
}

choices! {
    /// The order in which NewOrder takes stocks.
    TpccStocks {
        /// By warehouse and item.
        Sorted = "sorted",
        /// As the lines were drawn.
        Drawn = "drawn",
    }
}

choices! {
    /// A program whose ways a run takes over.
    Like {
        /// The program of the study of 1000 cores.
        Dbx1000 = "dbx1000",
    }
}

names! {
    CounterGroups {
        All = "single",
        Socket = "socket",
        None = "core",
    }
}

names! {
    LockKind {
        TestAndSet = "tas",
        TestAndTestAndSet = "ttas",
        Ticket = "ticket",
        Mcs = "mcs",
        Clh = "clh",
        Hierarchical = "hierarchical",
        CompareAndSwap = "cas",
        RefusedCompareAndSwap = "cas-refused",
        FetchAndAdd = "faa",
        Swap = "swap",
        Poll = "poll",
    }
}

names! {
    HeldLine {
        Own = "own",
        Lock = "lock",
    }
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
    }
}

names! {
    Peers {
        SameSocket = "same-socket",
        OtherSocket = "other-socket",
        OtherMachine = "other-machine",
    }
}

choices! {
    /// How a transaction over several instances commits.
    Commit {
        /// Whoever meets a prepared row aborts; where several workers share an instance, after
        /// waiting 10 us at most.
        Classic = "classic",
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
    /// What a picture shows.
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
pub fn choose_memory(text: Option<&str>) -> Result<MemoryPlacement, BadInput> {
    const ACCEPTED: &str = "local, central, remote, hops=N";
    let Some(text) = text else { return Ok(MemoryPlacement::Local) };
    let hops = text.strip_prefix("hops=").filter(|hops| hops.bytes().all(|byte| byte.is_ascii_digit()));
    match (text, hops.and_then(|hops| hops.parse().ok())) {
        ("local", _) => Ok(MemoryPlacement::Local),
        ("central", _) => Ok(MemoryPlacement::Central),
        ("remote", _) => Ok(MemoryPlacement::Remote),
        (_, Some(hops)) => Ok(MemoryPlacement::Hops(hops)),
        _ => Err(BadInput::value("--memory", text, "unknown value", ACCEPTED)),
    }
}

/// Serialises a placement of memory as the flag that names it.
pub fn serialize_memory<S: Serializer>(memory: &MemoryPlacement, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(memory)
}

/// How the engine is split: the number of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deploy(usize);

impl Deploy {
    /// One instance.
    pub const ONE: Deploy = Deploy(1);

    /// Number of instances.
    pub fn instances(self) -> usize {
        self.0
    }

    /// The deployment that `text` names, of `cores` workers on so many `sockets` of so many
    /// `machines`.
    pub fn choose(
        text: Option<&str>,
        (cores, sockets, machines): (usize, usize, usize),
    ) -> Result<Self, BadInput> {
        let Some(text) = text else { return Ok(Deploy::ONE) };
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
            instances => Ok(Deploy(instances)),
        }
    }
}

/// Serialises as the name with the number.
impl Serialize for Deploy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}isl", self.0))
    }
}
