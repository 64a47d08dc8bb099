//! The command line as typed: names, help and nothing else. Values stay text; `config` gives them
//! meaning, so that every fault reads the same.

mod deploy;
mod study;
mod verify;

use clap::Args;
use concurrency::SchemeName;

pub use deploy::DeployArguments;
pub use study::StudyArguments;
pub use verify::VerifyArguments;
use workloads::lock::LockKind;

use crate::choices::{ConcurrencyControl, WorkloadName};
use harness::Choice;

/// The command that Isles starts its second process with.
pub const PEER_COMMAND: &str = "ipc-peer";
/// The command that Isles starts the processes of instances with. It has the flags of `bench`.
pub const INSTANCE_COMMAND: &str = "instance";

const TOPOLOGY_EXAMPLES: &str = "Examples:
  isles topology                         this machine
  isles topology --format json           the same for programs
  isles topology --machine octo-socket   a machine that ships with Isles, and what its caches and links cost
  isles topology --format svg > machine.svg
                                         a picture
  isles topology --machine octo-socket --format svg --view cores > cores.svg
                                         times of lines between cores as a heat map
  isles topology --machine server.xml    another machine: lstopo --of xml > server.xml, there
  isles topology --machine matrix.csv    one whose core-to-core latencies were measured
  isles topology --machine server.xml --format toml > server.toml
                                         a description to edit; --machine server.toml
  isles topology --sysroot snapshot/     a machine of which sys, proc and dev/cpuset were copied";

const PROBE_EXAMPLES: &str = "Examples:
  isles probe                          measure this machine, about a minute
  isles probe --quick --json           a few seconds, for programs
  isles probe --out m.toml             write a description of this machine, ...
  isles topology --machine m.toml      ... draw it, ...
  isles bench tpcc --machine m.toml    ... and simulate it

Other load on the machine spoils the figures.";

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
  isles bench ipc --mechanism shm --processes 2        the same between two processes, beside a bare line of memory
  isles bench memory --machine octo-socket --cores 1 --memory hops=2
  isles bench tpcc --report run.html                   a page with plots besides
  isles bench tpcc --path data                         a database that stays, and is opened again
  isles bench tpcc --durability none                   without a log

Ctrl-C ends a run early with a valid report of what ran; a second Ctrl-C exits at once.
Exit status: 0 done, 1 the run failed or a consistency check is violated, 2 bad input.";

/// Flags of `isles topology`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = TOPOLOGY_EXAMPLES)]
pub struct TopologyArguments {
    /// How to draw it: text, json, svg (a picture) or toml (a description file) [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Read sys, proc and dev/cpuset under DIR instead of /, and ignore this process's own affinity
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<String>,
    /// native, a machine that ships with Isles, or a file: a description (TOML), hwloc XML of
    /// lstopo, or a core-to-core matrix (CSV) [default: native]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// What a picture shows: machine (nested boxes), cores (times of lines between cores) or memory
    /// (latencies between nodes) [default: machine]
    #[arg(long, value_name = "VIEW")]
    pub view: Option<String>,
}

/// Flags of `isles probe`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = PROBE_EXAMPLES)]
pub struct ProbeArguments {
    /// Write a machine description for --machine to FILE
    #[arg(long, value_name = "FILE")]
    pub out: Option<String>,
    /// Shorter and less exact
    #[arg(long)]
    pub quick: bool,
    /// Flush and read files in DIR [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

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
    /// Flags of every workload.
    #[command(flatten)]
    pub common: CommonFlags,
    /// Flags of TPC-B.
    #[command(flatten)]
    pub tpcb: TpcbFlags,
    /// Flags of TPC-C.
    #[command(flatten)]
    pub tpcc: TpccFlags,
    /// Flags of TATP.
    #[command(flatten)]
    pub tatp: TatpFlags,
    /// Flags of the workloads over one table.
    #[command(flatten)]
    pub row: RowFlags,
    /// Flags of the counter workload.
    #[command(flatten)]
    pub counter: CounterFlags,
    /// Flags of the lock experiment.
    #[command(flatten)]
    pub lock: LockFlags,
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
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub cores: Option<String>,
    /// Hardware threads used per physical core [default: all the machine has]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub smt: Option<String>,
    /// Instances: Nisl (1isl, 4isl, ...), core (one a worker), socket (one a socket in use) or
    /// machine (one a machine in use). On this machine each of several is a process [default: 1isl]
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub deploy: Option<String>,
    /// Where workers run: island (close together), spread (far apart) or os [default: island]
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub placement: Option<String>,
    /// How instances on one machine talk: shm (rings in shared memory), uds (Unix domain sockets)
    /// or tcp; between machines there is tcp only [default: shm]
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub transport: Option<String>,
    /// Transactions over several instances that a worker keeps open while it waits for answers
    /// [default: 1; 64 if they wait for a disk, too]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub in_flight: Option<String>,
    /// What a transaction does that meets a row which another one over several instances has
    /// prepared: classic (it aborts, or waits 10 us before) [default: classic]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub commit: Option<String>,
    /// Where rows live: local, central (one node), remote (another node) or hops=N (N hops away)
    /// [default: local]
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub memory: Option<String>,
    /// Whether the simulated machine's L2 and L3 shrink with --scale, so that they hold as large a
    /// share of the data: on or off [default: off]
    #[arg(long, value_name = "SWITCH", help_heading = "Machine")]
    pub scale_caches: Option<String>,
    /// Storage engine: memory (rows in memory) or paged (rows in pages of a file, of which a pool
    /// is in memory) [default: memory]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub engine: Option<String>,
    /// Concurrency control: the name of a scheme.
    #[arg(long, value_name = "NAME", help_heading = "Engine", help = cc_help())]
    pub cc: Option<String>,
    /// Bytes of the pool that pages are in while they are used, such as 256MiB; instances divide it
    /// by their workers (with --engine paged) [default: half of the memory; in a simulated machine
    /// twice what the loaded rows take in pages, and what is inserted]
    #[arg(long, value_name = "BYTES", help_heading = "Engine")]
    pub pool: Option<String>,
    /// Execution of transactions: inline (by the worker that draws them), plp (workers own
    /// partitions, and actions go to the owners of what they touch) or atrapos (the same, and
    /// nothing central is written) [default: inline]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub execution: Option<String>,
    /// Whether partitions follow the workload, and change their workers while it runs: on or off
    /// (with --execution atrapos) [default: on]
    #[arg(long, value_name = "SWITCH", help_heading = "Engine")]
    pub adaptive: Option<String>,
    /// Seconds between two measurements of what partitions cost, at least; up to eight times as
    /// long while nothing changes (with --adaptive on) [default: 1 native, 0.01 simulated]
    #[arg(long, value_name = "S", help_heading = "Engine")]
    pub adapt_interval: Option<String>,
    /// When a commit is acknowledged: none (nothing is logged), async (at once, the log follows),
    /// group (when it is on disk, the worker goes on meanwhile) or sync (the worker waits)
    /// [default: group; none in a simulated machine, and with rows in memory that workers own, of
    /// which nothing is logged yet]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub durability: Option<String>,
    /// Simulated device below the log: ram, nvme or hdd [default: ram]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub disk: Option<String>,
    /// Directory of the database, which is opened again if it holds one [default: a temporary one]
    #[arg(long, value_name = "DIR", help_heading = "Engine")]
    pub path: Option<String>,
    /// Where timestamps come from, for schemes that need them: clock or counter [default: clock]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub timestamp: Option<String>,
    /// Optimisations to leave out, to see what they bring: a comma list of thread-alloc,
    /// hash-index, queue-latch, replicate, prefetch, compiled-rows, bounded-spin, read-only-skip,
    /// replicate-index, plain-locks, lookahead, sli and aether; see docs/optimisations.md [default:
    /// none]
    #[arg(long, value_name = "LIST", help_heading = "Engine")]
    pub without: Option<String>,
    /// How rows are locked by no-wait, wait-die and dl-detect: word (one word, by compare and swap)
    /// or latch (a manager with a queue of those who lock and unlock, and lists of owners and
    /// waiters); see docs/like-dbx1000.md [default: word]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub row_lock: Option<String>,
    /// What a transaction does that has met another one: exponential (it pauses, longer each time),
    /// fixed (it pauses up to 100 us) or buffer (it waits up to 100 us while its worker runs
    /// others, up to ten) [default: exponential]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub retry: Option<String>,
    /// What is copied of a row that is used: fields, or rows (all of it) [default: fields]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub row_copies: Option<String>,
    /// How silo and occ lock what they commit: ordered (one order for all, with a bounded wait for
    /// each) or no-wait (all at once, or none) [default: ordered]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub commit_locks: Option<String>,
    /// How dl-detect finds deadlocks, with --row-lock latch: graph (of those who wait for long; the
    /// youngest of a circle gives up) or lists (of what each waits for, latched and searched all
    /// the time; the one with the fewest locks gives up) [default: graph]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub deadlocks: Option<String>,
    /// Do what another program does, dbx1000, in all that has a flag; each of these flags can still
    /// be given; see docs/like-dbx1000.md [default: none]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub like: Option<String>,
    /// Length in seconds of the machine's own time [default: 10 native, 0.02 simulated]
    #[arg(long, value_name = "S", help_heading = "Run")]
    pub seconds: Option<String>,
    /// Length in commits of the first worker to finish, instead of --seconds
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub transactions: Option<String>,
    /// Seconds to run before measuring [default: 1 native, 0.005 simulated]
    #[arg(long, value_name = "S", help_heading = "Run")]
    pub warmup: Option<String>,
    /// What changes at a moment of the measured time; can be given again and again: mix=NAME (tpcc,
    /// tatp), hot=F:F (micro, tatp), multisite=F (micro, tatp, dependent), fail-socket=N (all that
    /// have a database) or rearrange=N (plp and atrapos whose partitions stay), as in
    /// 0.2=hot=0.5:0.2
    #[arg(long, value_name = "SECONDS=CHANGE", help_heading = "Run")]
    pub at: Vec<String>,
    /// Breakdown of time and counters: on or off [default: on]
    #[arg(long, value_name = "SWITCH", help_heading = "Run")]
    pub instrument: Option<String>,
    /// Seed of data and transactions; on a simulated machine it fixes the whole run [default: 1]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub seed: Option<String>,
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
    #[arg(long, value_name = "N", help_heading = "tpcb")]
    pub branches: Option<String>,
    /// Transactions whose account is of another branch [default: 15]
    #[arg(long, value_name = "PERCENT", help_heading = "tpcb")]
    pub remote: Option<String>,
}

/// Flags of TPC-C.
#[derive(Clone, Debug, Default, Args)]
pub struct TpccFlags {
    /// Warehouses [default: one per worker]
    #[arg(long, value_name = "N", help_heading = "tpcc")]
    pub warehouses: Option<String>,
    /// tpcc: full, narrow (NewOrder and Payment), payment, new-order, order-status, delivery or
    /// stock-level; tatp: full, or a transaction (GetSubscriberData, GetNewDestination,
    /// GetAccessData, UpdateSubscriberData, UpdateLocation, InsertCallForwarding,
    /// DeleteCallForwarding) [default: full]
    #[arg(long, value_name = "NAME", help_heading = "tpcc and tatp")]
    pub mix: Option<String>,
    /// Payments by customers of another warehouse [default: 15]
    #[arg(long, value_name = "PERCENT", help_heading = "tpcc")]
    pub remote_payment: Option<String>,
    /// Order lines supplied by another warehouse [default: 1]
    #[arg(long, value_name = "PERCENT", help_heading = "tpcc")]
    pub remote_items: Option<String>,
    /// Columns: full, or small (those that transactions need) [default: full]
    #[arg(long, value_name = "NAME", help_heading = "tpcc")]
    pub schema: Option<String>,
    /// Cardinalities per warehouse, or accounts per branch, relative to the specification [default:
    /// 1]
    #[arg(long, value_name = "F", help_heading = "tpcb and tpcc")]
    pub scale: Option<String>,
    /// Whether transactions insert rows: on or off [default: on]
    #[arg(long, value_name = "SWITCH", help_heading = "tpcc")]
    pub inserts: Option<String>,
    /// Where warehouses live: home (on the node of their worker) or block (contiguous blocks a
    /// worker) [default: home]
    #[arg(long, value_name = "NAME", help_heading = "tpcc")]
    pub load: Option<String>,
    /// When Payment takes its warehouse and NewOrder its district: late (after all other rows) or
    /// early (before them) [default: late]
    #[arg(long, value_name = "NAME", help_heading = "tpcc")]
    pub hot_rows: Option<String>,
    /// Order in which NewOrder takes stocks: sorted (by warehouse and item) or drawn (as the order
    /// names them) [default: sorted]
    #[arg(long, value_name = "NAME", help_heading = "tpcc")]
    pub stocks: Option<String>,
    /// Whether inserted rows enter indexes: on or off, for mixes that look for none (narrow,
    /// payment and new-order) [default: on]
    #[arg(long, value_name = "SWITCH", help_heading = "tpcc")]
    pub index_inserts: Option<String>,
    /// Whether NewOrder reads warehouse and customer without concurrency control, whatever columns
    /// others write: on or off [default: off]
    #[arg(long, value_name = "SWITCH", help_heading = "tpcc")]
    pub unvalidated_reads: Option<String>,
}

/// Flags of TATP.
#[derive(Clone, Debug, Default, Args)]
pub struct TatpFlags {
    /// Subscribers [default: 100000]
    #[arg(long, value_name = "N", help_heading = "tatp")]
    pub subscribers: Option<String>,
}

/// Flags of the workloads over one table.
#[derive(Clone, Debug, Default, Args)]
pub struct RowFlags {
    /// Rows per transaction; memory: rows of each worker, of one line each [default: 10; memory:
    /// 1000000]
    #[arg(long, value_name = "N", help_heading = "micro, ycsb and memory")]
    pub rows: Option<String>,
    /// Skew of the choice of rows, 0 (uniform) to 1 [default: ycsb 0.99; micro: rows of the
    /// worker's own site]
    #[arg(long, value_name = "F", help_heading = "micro and ycsb")]
    pub zipf: Option<String>,
    /// read, update or mixed (half of the rows each) [default: read]
    #[arg(long, value_name = "NAME", help_heading = "micro")]
    pub op: Option<String>,
    /// Size of a row in bytes [default: 250]
    #[arg(long, value_name = "N", help_heading = "micro")]
    pub row_bytes: Option<String>,
    /// Rows of each site, one site per worker; dependent: in each table [default: 10000]
    #[arg(long, value_name = "N", help_heading = "micro and dependent")]
    pub rows_per_site: Option<String>,
    /// Share of transactions over several sites, or whose subscriber may be any, 0 to 1 [default:
    /// 0]
    #[arg(long, value_name = "F", help_heading = "micro, tatp and dependent")]
    pub multisite: Option<String>,
    /// Share of requests that go to a share of the data, as in 0.8:0.2 [default: none]
    #[arg(long, value_name = "F:F", help_heading = "micro and tatp")]
    pub hot: Option<String>,
    /// Core workload a, b, c, d, e or f [default: a]
    #[arg(long = "workload", value_name = "LETTER", help_heading = "ycsb")]
    pub ycsb_workload: Option<String>,
    /// Records in the table [default: 1000000]
    #[arg(long, value_name = "N", help_heading = "ycsb")]
    pub records: Option<String>,
}

/// Flags of the counter workload.
#[derive(Clone, Debug, Default, Args)]
pub struct CounterFlags {
    /// Workers: another name of --cores [default: all]
    #[arg(long, value_name = "N", help_heading = "counter and lock")]
    pub threads: Option<String>,
    /// Counters: single, socket (one per socket) or core (one per core) [default: single]
    #[arg(long, value_name = "NAME", help_heading = "counter")]
    pub counters: Option<String>,
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
    /// What threads contend for.
    #[arg(long, value_name = "NAME", help_heading = "lock", help = lock_help())]
    pub lock: Option<String>,
    /// Locks, or words for atomics; each operation chooses one at random [default: 1]
    #[arg(long, value_name = "N", help_heading = "lock")]
    pub locks: Option<String>,
    /// Computation of a holder, in work units of three cycles [default: 0]
    #[arg(long, value_name = "N", help_heading = "lock")]
    pub critical: Option<String>,
    /// Computation of a thread between two operations, in work units [default: 0]
    #[arg(long, value_name = "N", help_heading = "lock")]
    pub delay: Option<String>,
    /// Words that a holder increments, 1 to 6 [default: 1]
    #[arg(long, value_name = "N", help_heading = "lock")]
    pub held_words: Option<String>,
    /// The line of these words: own, or lock (that of the lock) [default: own]
    #[arg(long, value_name = "NAME", help_heading = "lock")]
    pub held_line: Option<String>,
    /// Nanoseconds that waiters of ttas (at random, up to eight times as many) and ticket (for each
    /// thread before them) pause [default: 0: they spin]
    #[arg(long, value_name = "N", help_heading = "lock")]
    pub backoff: Option<String>,
}

/// Flags of the message experiment.
#[derive(Clone, Debug, Default, Args)]
pub struct IpcFlags {
    /// How messages travel: pipe, fifo, mq, uds, tcp or shm [default: uds]
    #[arg(long, value_name = "NAME", help_heading = "ipc")]
    pub mechanism: Option<String>,
    /// Where the two peers run: same-socket, other-socket or, of a cluster, other-machine (tcp
    /// only) [default: same-socket]
    #[arg(long, value_name = "NAME", help_heading = "ipc")]
    pub peers: Option<String>,
    /// Processes that the two peers belong to, 1 or 2; with 2, shm, uds or tcp is measured beside a
    /// bare line of memory [default: 1]
    #[arg(long, value_name = "N", help_heading = "ipc")]
    pub processes: Option<String>,
}

/// A flag that only some workloads have.
pub struct WorkloadFlag<'a> {
    /// Its name.
    pub name: &'static str,
    /// The names of the workloads that have it.
    pub owners: &'static [&'static str],
    /// Its value, if given.
    pub value: Option<&'a str>,
}

impl BenchArguments {
    /// All flags that belong to workloads, given or not.
    pub fn workload_flags(&self) -> Vec<WorkloadFlag<'_>> {
        const TPCC: &[&str] = &["tpcc"];
        const MICRO: &[&str] = &["micro"];
        const YCSB: &[&str] = &["ycsb"];
        const COUNTER: &[&str] = &["counter"];
        const LOCK: &[&str] = &["lock"];
        let table: [(&'static str, &'static [&'static str], &Option<String>); 36] = [
            ("--branches", &["tpcb"], &self.tpcb.branches),
            ("--remote", &["tpcb"], &self.tpcb.remote),
            ("--warehouses", TPCC, &self.tpcc.warehouses),
            ("--mix", &["tpcc", "tatp"], &self.tpcc.mix),
            ("--remote-payment", TPCC, &self.tpcc.remote_payment),
            ("--remote-items", TPCC, &self.tpcc.remote_items),
            ("--schema", TPCC, &self.tpcc.schema),
            ("--scale", &["tpcb", "tpcc"], &self.tpcc.scale),
            ("--inserts", TPCC, &self.tpcc.inserts),
            ("--load", TPCC, &self.tpcc.load),
            ("--hot-rows", TPCC, &self.tpcc.hot_rows),
            ("--stocks", TPCC, &self.tpcc.stocks),
            ("--index-inserts", TPCC, &self.tpcc.index_inserts),
            ("--unvalidated-reads", TPCC, &self.tpcc.unvalidated_reads),
            ("--rows", &["micro", "ycsb", "memory"], &self.row.rows),
            ("--zipf", &["micro", "ycsb"], &self.row.zipf),
            ("--op", MICRO, &self.row.op),
            ("--row-bytes", MICRO, &self.row.row_bytes),
            ("--rows-per-site", &["micro", "dependent"], &self.row.rows_per_site),
            ("--multisite", &["micro", "tatp", "dependent"], &self.row.multisite),
            ("--hot", &["micro", "tatp"], &self.row.hot),
            ("--workload", YCSB, &self.row.ycsb_workload),
            ("--records", YCSB, &self.row.records),
            ("--threads", &["counter", "lock"], &self.counter.threads),
            ("--counters", COUNTER, &self.counter.counters),
            ("--lock", LOCK, &self.lock.lock),
            ("--locks", LOCK, &self.lock.locks),
            ("--critical", LOCK, &self.lock.critical),
            ("--delay", LOCK, &self.lock.delay),
            ("--held-words", LOCK, &self.lock.held_words),
            ("--held-line", LOCK, &self.lock.held_line),
            ("--backoff", LOCK, &self.lock.backoff),
            ("--subscribers", &["tatp"], &self.tatp.subscribers),
            ("--mechanism", &["ipc"], &self.ipc.mechanism),
            ("--peers", &["ipc"], &self.ipc.peers),
            ("--processes", &["ipc"], &self.ipc.processes),
        ];
        table
            .into_iter()
            .map(|(name, owners, value)| WorkloadFlag { name, owners, value: value.as_deref() })
            .collect()
    }

    /// The first given flag that `workload` does not have.
    pub fn misplaced(&self, workload: WorkloadName) -> Option<WorkloadFlag<'_>> {
        let name = workload.name();
        self.workload_flags().into_iter().find(|flag| flag.value.is_some() && !flag.owners.contains(&name))
    }
}
