//! The work and the machine of a trial, for code that is generic over the scheme or independent of
//! it.

use std::fmt;

use boundary::Bounds;
use platform::Platform;
use sim::{Config, Shape};

use crate::history::History;
use crate::injected::Injected;

/// Address space of regions in a small trial, committed when touched.
const MEMORY_BYTES_SMALL: usize = 256 << 20;
/// Address space of regions in benchmarks.
const MEMORY_BYTES_LARGE: usize = 8 << 30;

/// Time after which a transaction must have succeeded, in virtual machines and on hardware, where
/// threads wait for each other's processors.
const LONGEST_NANOS: [u64; 2] = [10_000_000_000, 60_000_000_000];

/// The workload of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Random short transactions over few rows, recorded and checked for serializability.
    Histories,
    /// Transfers between accounts of two databases, prepared in both; audits see the total.
    Bank,
    /// TPC-C at a small scale, with its consistency conditions.
    Tpcc,
    /// The microbenchmark: every committed update counts once.
    Micro,
    /// One of the core workloads of YCSB, by the seed.
    Ycsb,
    /// TPC-B, TPC-C or the microbenchmark on several instances, by the seed: their invariants over
    /// the data of all instances; every fourth seed: crashes of several durable instances, on one
    /// machine or several, all at once or some alone, or faults of the connections, in the virtual
    /// machine.
    Islands,
    /// As [`Self::Histories`], over several instances, whose transactions are checked as one
    /// history.
    Distributed,
    /// Workers that own partitions of one database, by the seed: [`Self::Histories`] over several
    /// owners, the invariants of benchmarks, or crashes of a durable database, in the virtual
    /// machine.
    Owners,
    /// Crashes of a machine with a durable database, which restarts. In the virtual machine only.
    Crashes,
    /// Files of a durable database that are missing, truncated, damaged, duplicated or of another
    /// database. In the virtual machine only.
    Files,
    /// Calls for files, threads and memory that the operating system refuses while a durable
    /// database is open. In the virtual machine only.
    Refusals,
}

impl Work {
    /// All work that `isles verify` runs.
    pub const ALL: [Work; 11] = [
        Work::Histories,
        Work::Bank,
        Work::Tpcc,
        Work::Micro,
        Work::Ycsb,
        Work::Islands,
        Work::Distributed,
        Work::Owners,
        Work::Crashes,
        Work::Files,
        Work::Refusals,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Work::Histories => "histories",
            Work::Bank => "bank",
            Work::Tpcc => "tpcc",
            Work::Micro => "micro",
            Work::Ycsb => "ycsb",
            Work::Islands => "islands",
            Work::Distributed => "distributed",
            Work::Owners => "owners",
            Work::Crashes => "crashes",
            Work::Files => "files",
            Work::Refusals => "refusals",
        }
    }

    /// True if the work needs a simulated disk, whose machine crashes or refuses calls by the seed.
    fn is_of_simulated_disk(self) -> bool {
        matches!(self, Work::Crashes | Work::Files | Work::Refusals)
    }

    /// The default number of workers.
    pub(crate) fn workers(self, seed: u64) -> usize {
        match self {
            Work::Histories | Work::Distributed | Work::Owners => 3 + (seed % 3) as usize,
            Work::Bank => 3,
            Work::Crashes | Work::Files | Work::Refusals => 2 + (seed % 3) as usize,
            Work::Tpcc | Work::Micro | Work::Ycsb | Work::Islands => 4,
        }
    }

    fn is_small(self) -> bool {
        !matches!(self, Work::Tpcc | Work::Micro | Work::Ycsb | Work::Islands | Work::Owners)
    }
}

impl fmt::Display for Work {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// The machine of a trial.
#[derive(Clone, Debug)]
pub enum Machine {
    /// A virtual machine of two sockets with as many cores as there are workers; the seed perturbs
    /// costs and ties.
    Small,
    /// A virtual machine of this configuration; the seed perturbs costs and ties.
    Described(Box<Config>),
    /// The machine that this process runs on. A seed fixes the transactions and not the schedule.
    Hardware,
}

impl Machine {
    /// The configuration of the virtual machine.
    pub(crate) fn config(&self, task: &Task<'_>) -> Config {
        let config = match self {
            Machine::Described(config) => (**config).clone(),
            _ => {
                let small = Config::new(Shape::new(2, task.workers.div_ceil(2), 1));
                let bytes = if task.work.is_small() { MEMORY_BYTES_SMALL } else { MEMORY_BYTES_LARGE };
                Config { memory_bytes: bytes, ..small }
            }
        };
        config.with_seed(task.seed).perturbed()
    }

    /// True if the machine runs this work: hardware has no simulated disk.
    pub fn runs(&self, work: Work) -> bool {
        self.repeats() || !work.is_of_simulated_disk()
    }

    /// True if a run is reproducible from its seed.
    pub fn repeats(&self) -> bool {
        !matches!(self, Machine::Hardware)
    }
}

/// The parameters of one trial.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The workload.
    pub work: Work,
    /// The machine.
    pub machine: &'a Machine,
    /// Number of workers.
    pub workers: usize,
    /// Fixes transactions and, in the virtual machine, the schedule.
    pub seed: u64,
    /// True if the scheme needs partitioned tables.
    pub partitioned: bool,
}

/// Time after which a transaction must have succeeded.
pub(crate) fn transaction_nanos_max(is_virtual: bool) -> u64 {
    LONGEST_NANOS[usize::from(!is_virtual)]
}

/// Time after which a transaction of workers that own partitions must have succeeded: short, so
/// that a lock that was never released is noticed soon.
pub(crate) fn owners_nanos_max(is_virtual: bool) -> u64 {
    transaction_nanos_max(is_virtual) / if is_virtual { 100 } else { 1 }
}

/// Bounds of a transaction; the trial fails if it does not succeed within them.
pub(crate) fn bounds<P: Platform>(c: P::Core) -> Bounds {
    Bounds { deadline: Some(P::now(c).plus(transaction_nanos_max(P::VIRTUAL))), attempts_max: None }
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Observed {
    pub transactions: u64,
    pub aborts: u64,
    /// Counts of injected faults.
    pub injected: Injected,
    /// The recorded transactions, to be checked.
    pub history: Option<History>,
    /// Violated invariants.
    pub violations: Vec<String>,
}
