//! What the threads of a run do over and over.

use platform::{OutOfMemory, Platform};

use crate::Outcome;

/// An operation on one of several items.
pub(super) trait Operation<P: Platform>: Sync {
    /// What a thread keeps from one operation to the next.
    type Seat;
    /// The seat of thread `number`, made on that thread.
    fn seat(&self, c: P::Core, number: usize) -> Result<Self::Seat, OutOfMemory>;
    /// Performs one. `then` runs when what is timed is over: the lock is held, or the atomic has
    /// returned. Returns how many attempts were refused.
    fn perform(&self, c: P::Core, item: usize, seat: &mut Self::Seat, then: impl FnOnce()) -> u64;
    /// What a thread leaves for the check.
    fn leave(&self, _: Self::Seat) -> u64 {
        0
    }
    /// Name and outcome of the check, after so many operations of all threads, the warm-up's among
    /// them, and with what each thread has left.
    fn check(&self, operations: u64, left: &[u64]) -> (&'static str, Outcome);
}

/// Whether words count as many operations as the threads.
pub(super) fn count_check(counted: u64, operations: u64) -> Outcome {
    if counted == operations {
        Outcome::Ok
    } else {
        Outcome::Violated(format!("words under locks or atomics count {counted} of {operations} operations"))
    }
}
