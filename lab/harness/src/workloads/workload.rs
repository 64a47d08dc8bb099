//! The list of workloads.
//!
//! All workloads of transactions can change while they run, so all of them run as
//! [`workloads::Changing`].

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
/// `any`; an experiment needs an arm in `run`.
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
    /// Locks and atomics alone. Threads, times and the seed are those of deployment and plan, and
    /// not those of the parameters.
    Lock(LockSpec),
    /// Messages between the first two workers.
    Ipc {
        /// The mechanism by which messages are sent.
        mechanism: link::Mechanism,
        /// Bytes of a message.
        message_bytes: usize,
    },
    /// As `Ipc`, with the second worker in another process.
    IpcBetweenProcesses(OtherProcess),
    /// Reads of rows on each worker's memory node.
    Memory {
        /// Rows of each worker.
        rows: u64,
    },
}

/// A workload and its later stages.
pub struct Stages {
    pub(crate) first: Box<Workload>,
    /// The later stages, each with its nanosecond of the measured time, ascending.
    pub(crate) later: Vec<(u64, Workload)>,
}

/// The workers that share a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterGroups {
    /// All workers.
    All,
    /// All workers of a socket.
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
