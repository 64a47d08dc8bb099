//! The list of workloads.
//!
//! All workloads of transactions can change while they run, and run as [`workloads::Changing`]
//! ones, whether they do or not.

use platform::link;
use workloads::dependent::Dependent;
use workloads::lock::LockSpec;
use workloads::micro::Micro;
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::Ycsb;

use crate::names::names;
use crate::workloads::processes::OtherProcess;

/// The workload of a run. A new workload of transactions is an entry here, and a line at the end of
/// `any`; an experiment has an arm in `run` that says what runs it.
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
    /// Locks and atomics alone. Threads, times and the seed are those of deployment and plan,
    /// whatever it says of them.
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

/// A workload, and what it is from some moments of the measured time on.
pub struct Stages {
    pub(crate) first: Box<Workload>,
    /// Nanoseconds, ascending.
    pub(crate) later: Vec<(u64, Workload)>,
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

names! {
    CounterGroups {
        All = "single",
        Socket = "socket",
        None = "core",
    }
}
