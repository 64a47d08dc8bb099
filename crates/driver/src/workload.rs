//! The list of workloads.
//!
//! All workloads of transactions can change while they run, and run as [`Changing`] ones, whether they do or not.

use platform::link;
use workloads::dependent::Dependent;
use workloads::lock::LockSpec;
use workloads::micro::Micro;
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::Ycsb;
use workloads::{ChangeError, Changing};

use crate::error::RunError;
use crate::processes::OtherProcess;

/// What runs. A new workload of transactions is an entry here, and a name in `visited`; an experiment has an arm in
/// `run` that says what runs it.
pub enum Workload {
    /// Reads and updates of a few rows of one table.
    Micro(Micro),
    /// YCSB core workloads.
    Ycsb(Ycsb),
    /// TPC-B.
    Tpcb(Tpcb),
    /// TPC-C.
    Tpcc(Tpcc),
    /// TATP.
    Tatp(Tatp),
    /// Two tables, one of which depends on the other.
    Dependent(Dependent),
    /// One of the former that changes while it runs.
    Changing(Stages),
    /// Lock-protected counters.
    Counter(CounterGroups),
    /// Locks and atomics alone. Threads, times and the seed are those of deployment and plan, whatever it says of them.
    Lock(LockSpec),
    /// Messages between the first two workers.
    Ipc(link::Mechanism),
    /// The same, with the second worker in another process.
    IpcBetweenProcesses(OtherProcess),
    /// Reads of rows on each worker's memory node.
    Memory {
        /// Rows of each worker.
        rows: u64,
    },
}

/// What is done with a workload of transactions, whichever it is.
pub(crate) trait Visit {
    /// What comes of it.
    type Result;

    /// Does it.
    fn visit<W: workloads::Workload>(self, workload: &W) -> Self::Result;
}

/// A workload, and what it is from some moments of the measured time on.
pub struct Stages {
    first: Box<Workload>,
    /// Nanoseconds, ascending.
    later: Vec<(u64, Workload)>,
}

/// Hands the workload that changes to a visitor, whatever kind it is of, if it has transactions: `first` and `later` are of one.
macro_rules! visit {
    ($visit:expr, $first:expr, $later:expr, $($kind:ident)+) => {
        match $first {
            $(Workload::$kind(first) => {
                let of_kind = |(nanos, workload): &(u64, Workload)| match workload {
                    Workload::$kind(workload) => Ok((*nanos, workload.clone())),
                    _ => Err(ChangeError::OtherData),
                };
                let later = $later.iter().map(of_kind).collect::<Result<Vec<_>, _>>();
                Some(later.and_then(|later| Changing::new(first.clone(), later)).map(|all| $visit.visit(&all)))
            })+
            _ => None,
        }
    };
}

/// Only looks whether there are transactions.
struct Look;

impl Visit for Look {
    type Result = ();

    fn visit<W: workloads::Workload>(self, _: &W) {}
}

impl Workload {
    /// `first`, and from so many seconds of the measured time on what `later` says: workloads of the same kind over the same data.
    ///
    /// # Errors
    /// The moments do not ascend, the data are not the same, or these are no transactions.
    pub fn changing(first: Workload, later: Vec<(f64, Workload)>) -> Result<Self, RunError> {
        let later = later.into_iter().map(|(seconds, workload)| ((seconds * 1e9) as u64, workload));
        let stages = Stages { first: Box::new(first), later: later.collect() };
        match stages.visited(Look) {
            Some(Ok(())) => Ok(Workload::Changing(stages)),
            Some(Err(error)) => Err(RunError::of(error)),
            None => Err(RunError::Refused("this workload has nothing that could change".to_owned())),
        }
    }

    /// Hands itself to `visit`, if it has transactions: an experiment has workers and no database.
    pub(crate) fn transactions<V: Visit>(&self, visit: V) -> Option<V::Result> {
        let visited = match self {
            Workload::Changing(stages) => stages.visited(visit),
            alone => visited(alone, &[], visit),
        };
        visited.map(|visited| visited.expect("stages are compared when they are put together"))
    }
}

impl Stages {
    fn visited<V: Visit>(&self, visit: V) -> Option<Result<V::Result, ChangeError>> {
        visited(&self.first, &self.later, visit)
    }
}

fn visited<V: Visit>(
    first: &Workload,
    later: &[(u64, Workload)],
    visit: V,
) -> Option<Result<V::Result, ChangeError>> {
    visit!(visit, first, later, Micro Ycsb Tpcb Tpcc Tatp Dependent)
}

/// Which workers share a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterGroups {
    /// All workers.
    All,
    /// Those of a socket.
    Socket,
    /// None: each has its own.
    None,
}
