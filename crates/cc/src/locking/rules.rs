//! What is locked, and until when; and what tests leave out to see that the checks notice.

/// What is locked. A scheme is serializable with [`Locking`] and [`Unbounded`] only.
pub trait LockingRules: Send + Sync + 'static {
    /// Whether gaps are locked.
    const GAPS: bool = true;
    /// Whether rows that were only read stay locked until the end.
    const SHARED: bool = true;
    /// Whether waiting ends after a while.
    const BOUNDED: bool = true;
    /// Whether something is done about circles of transactions that wait for each other.
    const DEADLOCKS_END: bool = true;
}

/// Rows and gaps.
pub struct Locking;

impl LockingRules for Locking {}

/// Waits last as long as it takes: the virtual machine then reports whatever deadlock a policy overlooks.
pub struct Unbounded;

impl LockingRules for Unbounded {
    const BOUNDED: bool = false;
}

/// A mutant: phantoms may appear.
pub struct WithoutGapLocks;

impl LockingRules for WithoutGapLocks {
    const GAPS: bool = false;
}

/// A mutant: rows that were read may change before the end.
pub struct WithoutSharedLocks;

impl LockingRules for WithoutSharedLocks {
    const SHARED: bool = false;
}

/// A mutant: a transaction that meets a lock waits for it, also where that closes a circle.
pub struct WithoutDeadlockRules;

impl LockingRules for WithoutDeadlockRules {
    const BOUNDED: bool = false;
    const DEADLOCKS_END: bool = false;
}
