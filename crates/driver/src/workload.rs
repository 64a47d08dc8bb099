//! The list of workloads.

use platform::link;
use workloads::lock::{HeldLine, LockKind};
use workloads::micro::Micro;
use workloads::tpcc::Tpcc;
use workloads::ycsb::Ycsb;

/// What runs. A new workload is an entry here, and an arm in `run` that says what runs it.
pub enum Workload {
    /// Reads and updates of a few rows of one table.
    Micro(Micro),
    /// YCSB core workloads.
    Ycsb(Ycsb),
    /// TPC-C.
    Tpcc(Tpcc),
    /// Lock-protected counters.
    Counter(CounterGroups),
    /// Locks and atomics alone.
    Lock(LockShape),
    /// Messages between the first two workers.
    Ipc(link::Mechanism),
    /// Reads of rows on each worker's memory node.
    Memory {
        /// Rows of each worker.
        rows: u64,
    },
}

/// What the lock experiment does, whoever does it: see `workloads::lock::LockSpec`.
#[derive(Clone, Debug, PartialEq)]
pub struct LockShape {
    /// What the threads do.
    pub kind: LockKind,
    /// Locks, or words for atomics.
    pub locks: usize,
    /// Units of computation of a holder.
    pub critical: u32,
    /// Units of computation between two operations.
    pub delay: u32,
    /// Words that a holder increments.
    pub held_words: usize,
    /// Where they lie.
    pub held_line: HeldLine,
    /// Unit of the pauses of a waiter that backs off; 0: none does.
    pub backoff_nanos: u64,
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
