//! The types of the schemes that lock: the scheme, and the state of its workers and
//! transactions.

use std::marker::PhantomData;

use platform::{LINE_BYTES, Platform, RegionBytes};
use terms::Faults;

use super::policy::WaitPolicy;
use super::state::LockingState;
use crate::options::Lockers;
use crate::ways::{RowCopies, RowLock, Ways};

/// A scheme that locks, and acts by the policy `Q` when a lock is not free.
pub struct TwoPhase<Q>(PhantomData<Q>);

/// State that all workers share: the rules, the ways, and the policy's own state.
pub struct LockingShared<P: Platform, T> {
    pub(super) faults: Faults,
    pub(super) own: T,
    pub(super) ways: Ways,
    /// How many sessions change the locks of rows at the same time.
    pub(super) lockers: Lockers,
    /// True if the latches of managers are mutexes.
    pub(super) has_mutexes: bool,
    /// A line for each worker, if rows are locked by managers: for a worker that finds no memory
    /// for its node.
    pub(super) spare_nodes: Option<P::Region>,
}

impl<P: Platform, T> LockingShared<P, T> {
    /// Returns true if the locks of rows are managers.
    #[inline(always)]
    pub(super) fn is_latched(&self) -> bool {
        self.ways.row_lock == RowLock::Latch
    }

    /// Returns true if a row that is locked for writing is copied.
    #[inline(always)]
    pub(super) fn copies_rows(&self) -> bool {
        self.ways.row_copies == RowCopies::Rows
    }

    /// The address of a worker's spare node.
    pub(super) fn spare_node(&self, worker: usize) -> u64 {
        let region = self.spare_nodes.as_ref().expect("made with the instance whose rows have managers");
        assert!(worker * LINE_BYTES < region.bytes(), "a line for each worker");
        // SAFETY: inside the region.
        unsafe { region.base().add(worker * LINE_BYTES) }.expose_provenance() as u64
    }
}

/// State of a worker: its last stamp, the memory of finished transactions, and what the policy
/// needs.
pub struct LockingWorker<P: Platform, Q: WaitPolicy> {
    pub(super) last: u64,
    pub(super) policy: Q::WorkerState<P>,
    // Boxed, so that beginning, preparing and committing move a pointer.
    #[allow(clippy::vec_box)]
    pub(super) free: Vec<Box<LockingState<P>>>,
    /// The address of the worker's node for the queues of managers; 0: not needed yet.
    pub(super) node: u64,
}

/// A running transaction.
pub struct LockingTransaction<P: Platform> {
    pub(super) state: Box<LockingState<P>>,
}
