//! The list of workloads.

use platform::link;
use workloads::lock::LockSpec;
use workloads::micro::Micro;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::Ycsb;

use crate::processes::OtherProcess;

/// What runs. A new workload of transactions is an entry here, and an arm in [`Workload::transactions`]; an experiment has an arm in
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

impl Workload {
    /// Hands itself to `visit`, if it has transactions: an experiment has workers and no database.
    pub(crate) fn transactions<V: Visit>(&self, visit: V) -> Option<V::Result> {
        match self {
            Workload::Micro(micro) => Some(visit.visit(micro)),
            Workload::Ycsb(ycsb) => Some(visit.visit(ycsb)),
            Workload::Tpcb(tpcb) => Some(visit.visit(tpcb)),
            Workload::Tpcc(tpcc) => Some(visit.visit(tpcc)),
            _ => None,
        }
    }
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
