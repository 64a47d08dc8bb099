//! Flags of `isles bench`: names, help, and the values that each flag takes. A flag whose values
//! depend on the machine or on other flags takes any text; `config` reads it.

use std::ops::RangeInclusive;

use clap::{Args, Command, Id};
use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, SchemeName, TimestampSource};
use harness::{
    Choice, Clients, CommitProtocol, CounterGroups, Durability, Execution, MemoryPlacement, Partitioning,
    Peers, Retry, Transport,
};
use machine::Placement;
use platform::link::Mechanism;
use storage::Optimisation;
use workloads::ipc::{MESSAGE_BYTES_MAX, MESSAGE_BYTES_MIN};
use workloads::lock::{HELD_WORDS_MAX, HeldLine, LockKind};
use workloads::micro::Operation;
use workloads::tpcc::{FullOrSmall, HotRows, Stocks};
use workloads::ycsb::YcsbWorkload;

use super::given::{Given, named, number, parsed, text, whole};
use crate::choices::{
    Adaptive, ConcurrencyControl, DiskKind, Engine, Like, LogDisk, PageSize, PartitionPlacement,
    RemoteChoice, RemoteRows, Switch, WorkloadName, memory_placement, optimisations,
};
use crate::hot::Hot;
use crate::values;

const BENCH_BASICS: &str = "Examples:
  isles bench tpcc                                     the main job: all cores, one warehouse a worker
  isles bench tpcc --cc no-wait --warehouses 2 --cores 2
  isles bench tpcc --machine octo-socket --cores 8     the same engine on a simulated machine
  isles bench ycsb --workload a --zipf 0.9 --seconds 5
  isles bench micro --op update --rows 4 --json > result.json
  isles bench tpcc --path data                         a database that stays, and is opened again
  isles bench tpcc --report run.html                   a page with plots besides

isles bench --help-all has every flag, and more examples.
Exit status: 0 done, 1 the run failed or a consistency check is violated, 2 bad input.";

/// Flags of `isles bench` that its short help has.
pub const BENCH_BASIC_FLAGS: [&str; 21] = [
    "workload",
    "machine",
    "cores",
    "deploy",
    "engine",
    "cc",
    "durability",
    "path",
    "seconds",
    "warmup",
    "seed",
    "json",
    "report",
    "warehouses",
    "mix",
    "scale",
    "branches",
    "subscribers",
    "rows",
    "zipf",
    "op",
];

const BENCH_EXAMPLES: &str = "Examples:
  isles bench tpcc                                     the main job: all cores, one warehouse a worker
  isles bench tpcc --cc no-wait --warehouses 2 --cores 2
  isles bench tpcc --machine octo-socket --cores 8     the same engine on a simulated machine
  isles bench tpcb --branches 24 --remote 0 --machine quad-socket --deploy 4isl
                                                       a bank, one instance a socket
  isles bench tatp --subscribers 800000                a telephone network's register
  isles bench tatp --seconds 4 --at 1=hot=0.5:0.2 --at 2=mix=UpdateLocation
                                                       what changes while it runs
  isles bench tatp --machine octo-socket --execution atrapos --at 0.2=hot=0.5:0.2 --seconds 0.5 --report r.html
                                                       partitions that follow what changes
  isles bench ycsb --workload a --zipf 0.9 --seconds 5
  isles bench micro --op update --rows 4 --json > result.json
  isles bench counter --counters socket
  isles bench lock --lock mcs --threads 2 --critical 100
                                                       a lock alone: acquisitions a second
  isles bench lock --lock ttas --machine octo-socket --threads 20 --held-words 4 --held-line lock
  isles bench ipc --mechanism shm                      messages of 256 bytes to and fro
  isles bench counter --machine dual-socket --repeat 3
                                                       mean and deviation over three seeds
  isles bench ipc --mechanism shm --processes 2        the same between two processes, beside a bare line of memory
  isles bench memory --machine octo-socket --cores 1 --memory hops=2
  isles bench tpcc --report run.html                   a page with plots besides
  isles bench tpcc --path data                         a database that stays, and is opened again
  isles bench tpcc --durability none                   without a log

Ctrl-C ends a run early with a valid report of what ran; a second Ctrl-C exits at once.
Exit status: 0 done, 1 the run failed or a consistency check is violated, 2 bad input.";

/// Headings of flags that every workload has.
const COMMON_HEADINGS: [&str; 3] = ["Machine", "Engine", "Run"];

/// Most transactions over several instances that a worker keeps open.
const IN_FLIGHT_MAX: u64 = 1_024;
/// Most workers on a hardware thread.
const WORKERS_PER_THREAD_MAX: u64 = 64;
/// Largest divisor of time slices: the longest slice is then 24 us.
const SLICE_DIVISOR_MAX: u64 = 1_000;
/// Smallest and largest pool.
const POOL_BYTES: RangeInclusive<u64> = 1 << 16..=1 << 46;
/// The intervals between two measurements of what partitions cost.
const ADAPT_INTERVAL_SECONDS: RangeInclusive<f64> = 0.000_1..=3_600.0;
/// From ten microseconds, of interest on a simulated machine, to a day.
const SECONDS: RangeInclusive<f64> = 0.000_01..=86_400.0;
/// Most commits of a worker.
const TRANSACTIONS_MAX: u64 = 1_000_000_000_000;
/// Longest warm-up: an hour.
const WARM_UP_SECONDS_MAX: f64 = 3_600.0;
const PERCENT: RangeInclusive<f64> = 0.0..=100.0;
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
/// Most branches of TPC-B.
pub const BRANCHES_MAX: u64 = 65_535;
/// Most warehouses of TPC-C.
pub const WAREHOUSES_MAX: u64 = 65_535;
/// Most rows of one site, and most records: the key of a row is its number.
pub const TABLE_ROWS_MAX: u64 = 10_000_000_000;
/// From the smallest row, which holds a counter that updates increment, to the largest.
const ROW_BYTES: RangeInclusive<u64> = 8..=65_536;
/// Sizes of messages.
const IPC_BYTES: RangeInclusive<u64> = MESSAGE_BYTES_MIN as u64..=MESSAGE_BYTES_MAX as u64;
/// Most repetitions of a run.
const REPETITIONS_MAX: u64 = 1_000;
/// Most locks.
const LOCKS_MAX: u64 = 1_000_000;
/// Longest computation, in work units, and longest unit of backoff, in nanoseconds.
const WORK_UNITS_MAX: u64 = 1_000_000;

/// Names as a sentence lists them: `a, b or c`.
fn alternatives<C: Choice>(choices: &[(&'static str, C)]) -> String {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

fn cc_help() -> String {
    let (schemes, default) = (alternatives(ConcurrencyControl::ALL), SchemeName::default());
    let (paged, owned) = (pages::TWO_PHASE_LOCKING, SchemeName::Hstore);
    format!(
        "Concurrency control: {schemes}; {paged} goes with --engine paged, and nothing else does, and {owned} with rows in memory that \
         workers own [default: {default}]"
    )
}

/// Flags of `isles bench`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = BENCH_BASICS, after_long_help = BENCH_EXAMPLES)]
pub struct BenchArguments {
    /// The name of a workload.
    #[arg(value_name = "WORKLOAD", help = alternatives(WorkloadName::ALL))]
    pub workload: String,
    /// The flags that were given.
    #[arg(skip)]
    pub given: Vec<Id>,
    /// Flags of every workload.
    #[command(flatten)]
    pub common: CommonFlags,
    /// Flags of TPC-B.
    #[command(flatten)]
    pub tpcb: TpcbFlags,
    /// Flags of TPC-C.
    #[command(flatten)]
    pub tpcc: TpccFlags,
    /// Flags of the workloads over one table.
    #[command(flatten)]
    pub row: RowFlags,
    /// Flags of the counter workload.
    #[command(flatten)]
    pub counter: CounterFlags,
    /// Flags of the lock experiment.
    #[command(flatten)]
    pub lock: LockFlags,
    /// Flags of TATP.
    #[command(flatten)]
    pub tatp: TatpFlags,
    /// Flags of the message experiment.
    #[command(flatten)]
    pub ipc: IpcFlags,
}

/// Flags of every workload.
#[derive(Clone, Debug, Default, Args)]
pub struct CommonFlags {
    /// native, or a machine to simulate: one that ships with Isles, a description file (TOML),
    /// hwloc XML of lstopo, or a core-to-core matrix (CSV) [default: native]
    #[arg(long, value_name = "MACHINE", help_heading = "Machine")]
    pub machine: Option<String>,
    /// Workers, each on its own hardware thread, filled core by core, socket by socket, machine by
    /// machine [default: all; with one instance, all of one machine]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "Machine")]
    pub cores: Option<Given<String>>,
    /// Workers on each of these hardware threads, where the operating system runs them in turns
    /// [default: 1; with --partition-threads on one for each table]
    #[arg(long, value_name = "N", value_parser = whole(1..=WORKERS_PER_THREAD_MAX), help_heading = "Machine")]
    pub workers_per_thread: Option<Given<u64>>,
    /// Divide the time slices of workers on one hardware thread by this number, in a virtual run
    /// that stands for one that is as many times as long [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=SLICE_DIVISOR_MAX), help_heading = "Machine")]
    pub slice_divisor: Option<Given<u64>>,
    /// Machines of a cluster among which the workers are divided evenly [default: each machine is
    /// filled before the next]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "Machine")]
    pub machines: Option<Given<String>>,
    /// Hardware threads used per physical core [default: all the machine has]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "Machine")]
    pub smt: Option<Given<String>>,
    /// Instances: Nisl (1isl, 4isl, ...), core (one a worker), socket (one a socket in use) or
    /// machine (one a machine in use). On this machine each of several is a process [default: 1isl]
    #[arg(long, value_name = "NAME", value_parser = text(), help_heading = "Machine")]
    pub deploy: Option<Given<String>>,
    /// Where workers run: island (close together), spread (far apart), mix (two a socket, then the
    /// next socket) or os (nothing is pinned: the operating system of each machine places the
    /// workers of its instances) [default: island]
    #[arg(long, value_name = "NAME", value_parser = named::<Placement>(), help_heading = "Machine")]
    pub placement: Option<Given<Placement>>,
    /// How instances on one machine talk: shm (rings in shared memory), uds (Unix domain sockets)
    /// or tcp; between machines there is tcp only [default: shm]
    #[arg(long, value_name = "NAME", value_parser = named::<Transport>(), help_heading = "Machine")]
    pub transport: Option<Given<Transport>>,
    /// Transactions over several instances that a worker keeps open while it waits for answers
    /// [default: 1; 64 if they wait for a disk, too]
    #[arg(long, value_name = "N", value_parser = whole(1..=IN_FLIGHT_MAX), help_heading = "Machine")]
    pub in_flight: Option<Given<u64>>,
    /// Order in which the parts of a transaction over several instances lock: classic (the
    /// coordinator's own part last) or published (the own part first, as in the published study)
    /// [default: classic]
    #[arg(long, value_name = "NAME", value_parser = named::<CommitProtocol>(), help_heading = "Engine")]
    pub commit: Option<Given<CommitProtocol>>,
    /// Where rows live: local, central (one node), remote (another node) or hops=N (N hops away)
    /// [default: local]
    #[arg(long, value_name = "NAME", value_parser = parsed(memory_placement), help_heading = "Machine")]
    pub memory: Option<Given<MemoryPlacement>>,
    /// Shrink the simulated machine's L2 and L3 with --scale, so that they hold as large a share of
    /// the data: on or off [default: off]
    #[arg(long, value_name = "SWITCH", value_parser = named::<Switch>(), help_heading = "Machine")]
    pub scale_caches: Option<Given<Switch>>,
    /// Pages that the simulated operating system gives to large regions of memory, which request
    /// huge ones: huge, or small as without transparent huge pages [default: huge]
    #[arg(long, value_name = "SIZE", value_parser = named::<PageSize>(), help_heading = "Machine")]
    pub pages: Option<Given<PageSize>>,
    /// Storage engine: memory (rows in memory) or paged (rows in pages of a file, of which a pool
    /// is in memory) [default: memory]
    #[arg(long, value_name = "NAME", value_parser = named::<Engine>(), help_heading = "Engine")]
    pub engine: Option<Given<Engine>>,
    /// Concurrency control: the name of a scheme.
    #[arg(long, value_name = "NAME", value_parser = text(), help_heading = "Engine", help = cc_help())]
    pub cc: Option<Given<String>>,
    /// Bytes of the pool that pages are in while they are used, such as 256MiB; instances divide it
    /// by their workers (with --engine paged) [default: half of the memory; in a simulated machine
    /// twice what the loaded rows take in pages, and what is inserted]
    #[arg(long, value_name = "BYTES", value_parser = parsed(|flag, text| values::bytes(flag, text, &POOL_BYTES)), help_heading = "Engine")]
    pub pool: Option<Given<u64>>,
    /// Execution of transactions: inline (by the worker that draws them), plp (workers own
    /// partitions, and actions go to the owners of what they touch) or atrapos (the same, and
    /// nothing central is written) [default: inline]
    #[arg(long, value_name = "NAME", value_parser = named::<Execution>(), help_heading = "Engine")]
    pub execution: Option<Given<Execution>>,
    /// Give each partition of each table a worker of its own, which sleeps as soon as it has
    /// nothing to do: on or off (dependent, whose actions touch one table each) [default: off; on
    /// with --like shore-mt]
    #[arg(long, value_name = "SWITCH", value_parser = named::<Switch>(), help_heading = "Engine")]
    pub partition_threads: Option<Given<Switch>>,
    /// Drawing of requests: worker (each worker for its home), instance (each worker for all data
    /// of its instance) or global (clients for all data, which hand each request to the owner of
    /// its first rows) [default: worker]
    #[arg(long, value_name = "NAME", value_parser = named::<Clients>(), help_heading = "Engine")]
    pub clients: Option<Given<Clients>>,
    /// Let partitions follow the workload, and change their workers while it runs: on, off or
    /// monitor (costs are counted and collected, and partitions stay) (with --execution atrapos)
    /// [default: on]
    #[arg(long, value_name = "NAME", value_parser = named::<Adaptive>(), help_heading = "Engine")]
    pub adaptive: Option<Given<Adaptive>>,
    /// Seconds between two measurements of what partitions cost, at least; with --adaptive on up to
    /// eight times as long while nothing changes (not with --adaptive off) [default: 1 native, 0.01
    /// simulated]
    #[arg(long, value_name = "S", value_parser = number(ADAPT_INTERVAL_SECONDS), help_heading = "Engine")]
    pub adapt_interval: Option<Given<f64>>,
    /// When a commit is acknowledged: none (nothing is logged), async (at once, the log follows),
    /// group (when it is on disk, the worker goes on meanwhile) or sync (the worker waits)
    /// [default: group; none in a simulated machine, and with rows in memory that workers own]
    #[arg(long, value_name = "NAME", value_parser = named::<Durability>(), help_heading = "Engine")]
    pub durability: Option<Given<Durability>>,
    /// Simulated device below log and data: ram, nvme, hdd or hdd:2 (two hdd, by stripes of 64 KiB)
    /// [default: ram]
    #[arg(long, value_name = "NAME", value_parser = named::<DiskKind>(), help_heading = "Engine")]
    pub disk: Option<Given<DiskKind>>,
    /// Simulated device of the log alone: ram, ssd or hdd [default: that of --disk]
    #[arg(long, value_name = "NAME", value_parser = named::<LogDisk>(), help_heading = "Engine")]
    pub log_disk: Option<Given<LogDisk>>,
    /// Directory of the database, which is opened again if it holds one [default: a temporary one]
    #[arg(long, value_name = "DIR", value_parser = text(), help_heading = "Engine")]
    pub path: Option<Given<String>>,
    /// Where timestamps come from, for schemes that need them (wait-die, dl-detect, occ): clock or
    /// counter; with --like dbx1000 mvcc and hstore draw one an attempt from the counter too
    /// [default: clock]
    #[arg(long, value_name = "NAME", value_parser = named::<TimestampSource>(), help_heading = "Engine")]
    pub timestamp: Option<Given<TimestampSource>>,
    /// Optimisations to leave out, to see what they bring: a comma list of thread-alloc,
    /// hash-index, queue-latch, replicate, prefetch, compiled-rows, bounded-spin, read-only-skip,
    /// replicate-index, plain-locks, lookahead, sli, aether and announcements; see
    /// docs/optimisations.md [default: none]
    #[arg(long, value_name = "LIST", value_parser = parsed(optimisations), help_heading = "Engine")]
    pub without: Option<Given<Vec<Optimisation>>>,
    /// How no-wait, wait-die, dl-detect and occ lock rows, and hstore partitions: word (one word,
    /// by compare and swap) or latch (a manager with a queue of those who lock and unlock, and
    /// lists of owners and waiters); see docs/like-dbx1000.md [default: word]
    #[arg(long, value_name = "NAME", value_parser = named::<RowLock>(), help_heading = "Engine")]
    pub row_lock: Option<Given<RowLock>>,
    /// Treatment of a transaction that conflicted: exponential (it pauses, longer each time), fixed
    /// (it pauses up to 100 us) or buffer (it waits up to 100 us while its worker runs others, up
    /// to ten) [default: exponential]
    #[arg(long, value_name = "NAME", value_parser = named::<Retry>(), help_heading = "Engine")]
    pub retry: Option<Given<Retry>>,
    /// Copy of each row that is used: fields, or rows (the whole row) [default: fields]
    #[arg(long, value_name = "NAME", value_parser = named::<RowCopies>(), help_heading = "Engine")]
    pub row_copies: Option<Given<RowCopies>>,
    /// How silo and occ lock what they commit: ordered (one order for all, with a bounded wait for
    /// each) or no-wait (all at once, or none) [default: ordered]
    #[arg(long, value_name = "NAME", value_parser = named::<CommitLocks>(), help_heading = "Engine")]
    pub commit_locks: Option<Given<CommitLocks>>,
    /// How dl-detect finds deadlocks, with --row-lock latch: graph (of those who wait for long; the
    /// youngest of a circle gives up) or lists (of what each waits for, latched and searched all
    /// the time; the one with the fewest locks gives up) [default: graph]
    #[arg(long, value_name = "NAME", value_parser = named::<Deadlocks>(), help_heading = "Engine")]
    pub deadlocks: Option<Given<Deadlocks>>,
    /// Do what another program does, in all that has a flag; each of these flags can still be
    /// given: dbx1000 (docs/like-dbx1000.md), or shore-mt, whose path lengths a simulated machine
    /// charges with --engine paged, and whose lists a socket atrapos has (docs/like-shore-mt.md)
    /// [default: none]
    #[arg(long, value_name = "NAME", value_parser = named::<Like>(), help_heading = "Engine")]
    pub like: Option<Given<Like>>,
    /// Length in seconds of the machine's own time [default: 10 native, 0.02 simulated]
    #[arg(long, value_name = "S", value_parser = number(SECONDS), help_heading = "Run")]
    pub seconds: Option<Given<f64>>,
    /// Length in commits of the first worker to finish, instead of --seconds
    #[arg(long, value_name = "N", value_parser = whole(1..=TRANSACTIONS_MAX), help_heading = "Run")]
    pub transactions: Option<Given<u64>>,
    /// Seconds to run before measuring [default: 1 native, 0.005 simulated]
    #[arg(long, value_name = "S", value_parser = number(0.0..=WARM_UP_SECONDS_MAX), help_heading = "Run")]
    pub warmup: Option<Given<f64>>,
    /// Change at a moment of the measured time; can be given repeatedly: mix=NAME (tpcc, tatp),
    /// hot=F:F (micro, tatp), multisite=F (micro, tatp, dependent), fail-socket=N (all that have a
    /// database), or split:N, merge:N or rearrange:N (N partitions are divided, pairs of them
    /// united, or both; plp and atrapos whose partitions stay), as in 0.2=hot=0.5:0.2
    #[arg(long, value_name = "SECONDS=CHANGE", help_heading = "Run")]
    pub at: Vec<String>,
    /// Breakdown of time and counters: on or off [default: on]
    #[arg(long, value_name = "SWITCH", value_parser = named::<Switch>(), help_heading = "Run")]
    pub instrument: Option<Given<Switch>>,
    /// Seed of data and transactions; on a simulated machine it fixes the whole run [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX), help_heading = "Run")]
    pub seed: Option<Given<u64>>,
    /// Runs with this seed, the next one and so on: the result has mean and standard deviation of
    /// the throughput; all else is of the first run [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=REPETITIONS_MAX), help_heading = "Run")]
    pub repeat: Option<Given<u64>>,
    /// Equal parts of the run for which the timeline has the throughput [default: 40]
    #[arg(long, value_name = "N", value_parser = whole(1..=harness::BINS_MAX), help_heading = "Run")]
    pub bins: Option<Given<u64>>,
    /// Print one JSON object instead of text
    #[arg(long, help_heading = "Run")]
    pub json: bool,
    /// Write a page with plots as well
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub report: Option<String>,
}

/// Flags of TPC-B.
#[derive(Clone, Debug, Default, Args)]
pub struct TpcbFlags {
    /// Branches [default: one per worker]
    #[arg(long, value_name = "N", value_parser = whole(1..=BRANCHES_MAX), help_heading = "tpcb")]
    pub branches: Option<Given<u64>>,
    /// Transactions whose account is of another branch [default: 15]
    #[arg(long, value_name = "PERCENT", value_parser = number(PERCENT), help_heading = "tpcb")]
    pub remote: Option<Given<f64>>,
}

/// Flags of TPC-C.
#[derive(Clone, Debug, Default, Args)]
pub struct TpccFlags {
    /// Warehouses [default: one per worker]
    #[arg(long, value_name = "N", value_parser = whole(1..=WAREHOUSES_MAX), help_heading = "tpcc")]
    pub warehouses: Option<Given<u64>>,
    /// tpcc: full, narrow (NewOrder and Payment), payment, new-order, order-status, delivery or
    /// stock-level; tatp: full, or a transaction (GetSubscriberData, GetNewDestination,
    /// GetAccessData, UpdateSubscriberData, UpdateLocation, InsertCallForwarding,
    /// DeleteCallForwarding) [default: full]
    #[arg(long, value_name = "NAME", value_parser = text(), help_heading = "tpcc and tatp")]
    pub mix: Option<Given<String>>,
    /// Payments by customers of another warehouse [default: 15]
    #[arg(long, value_name = "PERCENT", value_parser = number(PERCENT), help_heading = "tpcc")]
    pub remote_payment: Option<Given<f64>>,
    /// Order lines supplied by another warehouse [default: 1]
    #[arg(long, value_name = "PERCENT", value_parser = number(PERCENT), help_heading = "tpcc")]
    pub remote_items: Option<Given<f64>>,
    /// Remote warehouses of NewOrder and Payment: any, local (on the memory node of the worker) or
    /// farthest (on nodes at the largest distance of the machine); the latter two with one
    /// instance, pinned workers and --clients worker [default: any]
    #[arg(long, value_name = "NAME", value_parser = named::<RemoteChoice>(), help_heading = "tpcc")]
    pub remote_choice: Option<Given<RemoteChoice>>,
    /// Columns: full, or small (those that transactions need) [default: full]
    #[arg(long, value_name = "NAME", value_parser = named::<FullOrSmall>(), help_heading = "tpcc")]
    pub schema: Option<Given<FullOrSmall>>,
    /// Cardinalities per warehouse, or accounts per branch, relative to the specification [default:
    /// 1]
    #[arg(long, value_name = "F", value_parser = text(), help_heading = "tpcb and tpcc")]
    pub scale: Option<Given<String>>,
    /// Insert rows: on or off [default: on]
    #[arg(long, value_name = "SWITCH", value_parser = named::<Switch>(), help_heading = "tpcc")]
    pub inserts: Option<Given<Switch>>,
    /// Where warehouses live: home (on the node of their worker) or block (contiguous blocks a
    /// worker) [default: home]
    #[arg(long, value_name = "NAME", value_parser = named::<Partitioning>(), help_heading = "tpcc")]
    pub load: Option<Given<Partitioning>>,
    /// When Payment takes its warehouse and NewOrder its district: late (after all other rows) or
    /// early (before them) [default: late]
    #[arg(long, value_name = "NAME", value_parser = named::<HotRows>(), help_heading = "tpcc")]
    pub hot_rows: Option<Given<HotRows>>,
    /// Order in which NewOrder takes stocks: sorted (by warehouse and item) or drawn (as the order
    /// names them) [default: sorted]
    #[arg(long, value_name = "NAME", value_parser = named::<Stocks>(), help_heading = "tpcc")]
    pub stocks: Option<Given<Stocks>>,
    /// Enter inserted rows into indexes: on or off, for mixes that read none (narrow, payment and
    /// new-order) [default: on]
    #[arg(long, value_name = "SWITCH", value_parser = named::<Switch>(), help_heading = "tpcc")]
    pub index_inserts: Option<Given<Switch>>,
    /// Let NewOrder read warehouse and customer without concurrency control, whatever other
    /// transactions write: on or off [default: off]
    #[arg(long, value_name = "SWITCH", value_parser = named::<Switch>(), help_heading = "tpcc")]
    pub unvalidated_reads: Option<Given<Switch>>,
}

/// Flags of TATP.
#[derive(Clone, Debug, Default, Args)]
pub struct TatpFlags {
    /// Subscribers [default: 100000]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "tatp")]
    pub subscribers: Option<Given<String>>,
}

/// Flags of the workloads over one table.
#[derive(Clone, Debug, Default, Args)]
pub struct RowFlags {
    /// Rows per transaction; memory: rows of each worker, of one line each [default: 10; memory:
    /// 1000000]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "micro, ycsb and memory")]
    pub rows: Option<Given<String>>,
    /// Skew of the choice of rows, 0 (uniform) to 1 [default: ycsb 0.99; micro: rows of the
    /// worker's own site]
    #[arg(long, value_name = "F", value_parser = number(SHARE), help_heading = "micro and ycsb")]
    pub zipf: Option<Given<f64>>,
    /// read, update or mixed (half of the rows each) [default: read]
    #[arg(long, value_name = "NAME", value_parser = named::<Operation>(), help_heading = "micro")]
    pub op: Option<Given<Operation>>,
    /// Size of a row in bytes [default: 250]
    #[arg(long, value_name = "N", value_parser = whole(ROW_BYTES), help_heading = "micro")]
    pub row_bytes: Option<Given<u64>>,
    /// Rows of each site, one site per worker; dependent: in each table [default: 10000]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "micro and dependent")]
    pub rows_per_site: Option<Given<String>>,
    /// Share of transactions over several sites, or whose subscriber may be any, 0 to 1 [default:
    /// 0]
    #[arg(long, value_name = "F", value_parser = number(SHARE), help_heading = "micro, tatp and dependent")]
    pub multisite: Option<Given<f64>>,
    /// Instances of the remote rows of a transaction: any (also its own) or other-instance (never
    /// its own; instances have equally many workers) [default: any]
    #[arg(long, value_name = "NAME", value_parser = named::<RemoteRows>(), help_heading = "micro, tpcb and tpcc")]
    pub remote_rows: Option<Given<RemoteRows>>,
    /// Share of requests that go to a share of the data, as in 0.8:0.2 [default: none]
    #[arg(long, value_name = "F:F", value_parser = parsed(Hot::of_flag), help_heading = "micro and tatp")]
    pub hot: Option<Given<Hot>>,
    /// Partitions of each table where workers own them: naive (one for every worker) or N (one a
    /// worker, of at most half of the workers) [default: naive]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "dependent")]
    pub partitions: Option<Given<String>>,
    /// Owners of N partitions of each table: oblivious (the first table fills the first workers,
    /// the second one those behind them) or model (partitions with the same keys are on one socket)
    /// [default: oblivious]
    #[arg(long, value_name = "NAME", value_parser = named::<PartitionPlacement>(), help_heading = "dependent")]
    pub partition_placement: Option<Given<PartitionPlacement>>,
    /// Core workload a, b, c, d, e or f [default: a]
    #[arg(long = "workload", value_name = "LETTER", value_parser = named::<YcsbWorkload>(), help_heading = "ycsb")]
    pub ycsb_workload: Option<Given<YcsbWorkload>>,
    /// Records in the table [default: 1000000]
    #[arg(long, value_name = "N", value_parser = whole(1..=TABLE_ROWS_MAX), help_heading = "ycsb")]
    pub records: Option<Given<u64>>,
}

/// Flags of the counter workload.
#[derive(Clone, Debug, Default, Args)]
pub struct CounterFlags {
    /// Workers: another name of --cores [default: all]
    #[arg(long, value_name = "N", value_parser = text(), help_heading = "counter and lock")]
    pub threads: Option<Given<String>>,
    /// Counters: single, socket (one per socket) or core (one per core) [default: single]
    #[arg(long, value_name = "NAME", value_parser = named::<CounterGroups>(), help_heading = "counter")]
    pub counters: Option<Given<CounterGroups>>,
}

fn lock_help() -> String {
    let kinds = alternatives(LockKind::ALL);
    format!(
        "What threads contend for: {kinds} (tas to hierarchical are locks; cas to swap atomics alone; poll is one writer \
         and pollers) [default: mcs]"
    )
}

/// Flags of the lock experiment.
#[derive(Clone, Debug, Default, Args)]
pub struct LockFlags {
    /// The lock or atomic operation.
    #[arg(long, value_name = "NAME", value_parser = named::<LockKind>(), help_heading = "lock", help = lock_help())]
    pub lock: Option<Given<LockKind>>,
    /// Locks, or words for atomics; each operation chooses one at random [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=LOCKS_MAX), help_heading = "lock")]
    pub locks: Option<Given<u64>>,
    /// Computation of a holder, in work units of three cycles [default: 0]
    #[arg(long, value_name = "N", value_parser = whole(0..=WORK_UNITS_MAX), help_heading = "lock")]
    pub critical: Option<Given<u64>>,
    /// Computation of a thread between two operations, in work units [default: 0]
    #[arg(long, value_name = "N", value_parser = whole(0..=WORK_UNITS_MAX), help_heading = "lock")]
    pub delay: Option<Given<u64>>,
    /// Words that a holder increments, 1 to 6 [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=HELD_WORDS_MAX as u64), help_heading = "lock")]
    pub held_words: Option<Given<u64>>,
    /// The line of these words: own, or lock (that of the lock) [default: own]
    #[arg(long, value_name = "NAME", value_parser = named::<HeldLine>(), help_heading = "lock")]
    pub held_line: Option<Given<HeldLine>>,
    /// Nanoseconds that waiters of ttas (at random, up to eight times as many) and ticket (for each
    /// thread before them) pause [default: 0: they spin]
    #[arg(long, value_name = "N", value_parser = whole(0..=WORK_UNITS_MAX), help_heading = "lock")]
    pub backoff: Option<Given<u64>>,
}

/// Flags of the message experiment.
#[derive(Clone, Debug, Default, Args)]
pub struct IpcFlags {
    /// How messages travel: pipe, fifo, mq, uds, tcp or shm [default: uds]
    #[arg(long, value_name = "NAME", value_parser = named::<Mechanism>(), help_heading = "ipc")]
    pub mechanism: Option<Given<Mechanism>>,
    /// Bytes of a message [default: 256]
    #[arg(long, value_name = "N", value_parser = whole(IPC_BYTES), help_heading = "ipc")]
    pub bytes: Option<Given<u64>>,
    /// Where the two peers run: same-socket, other-socket or, of a cluster, other-machine (tcp
    /// only) [default: same-socket]
    #[arg(long, value_name = "NAME", value_parser = named::<Peers>(), help_heading = "ipc")]
    pub peers: Option<Given<Peers>>,
    /// Processes that the two peers belong to, 1 or 2; with 2, shm, uds or tcp is measured beside a
    /// bare line of memory [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=2), help_heading = "ipc")]
    pub processes: Option<Given<u64>>,
}

/// A flag that only some workloads have.
pub struct WorkloadFlag {
    /// Its name.
    pub name: String,
    /// The names of the workloads that have it.
    pub owners: Vec<String>,
    /// True if it was given.
    pub is_given: bool,
}

impl BenchArguments {
    /// All flags that belong to workloads, given or not: the heading of a flag in the help names
    /// its workloads.
    pub fn workload_flags(&self) -> Vec<WorkloadFlag> {
        let command = BenchArguments::augment_args(Command::new("bench"));
        let flags = command.get_arguments().filter_map(|argument| {
            let heading = argument.get_help_heading().filter(|heading| !COMMON_HEADINGS.contains(heading))?;
            let owners = heading.split(", ").flat_map(|names| names.split(" and ")).map(str::to_owned);
            Some(WorkloadFlag {
                name: format!("--{}", argument.get_long()?),
                owners: owners.collect(),
                is_given: self.given.contains(argument.get_id()),
            })
        });
        flags.collect()
    }

    /// The first given flag that `workload` does not have.
    pub fn misplaced(&self, workload: WorkloadName) -> Option<WorkloadFlag> {
        let is_owned = |flag: &WorkloadFlag| flag.owners.iter().any(|owner| owner == workload.name());
        self.workload_flags().into_iter().find(|flag| flag.is_given && !is_owned(flag))
    }
}
