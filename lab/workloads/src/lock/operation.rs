//! The operation that the threads of a run repeat.

use platform::{OutOfMemory, Platform};

use crate::Outcome;

/// An operation on one of several items.
pub(super) trait Operation<P: Platform>: Sync {
    /// State of a thread that lasts from one operation to the next.
    type ThreadState;
    /// Creates the state of thread `number`, on that thread.
    fn thread_state(&self, c: P::Core, number: usize) -> Result<Self::ThreadState, OutOfMemory>;
    /// Performs one operation, and returns the number of refused attempts. `then` runs at the end
    /// of the timed part: when the lock is held, or the atomic has returned.
    fn perform(&self, c: P::Core, item: usize, state: &mut Self::ThreadState, then: impl FnOnce()) -> u64;
    /// The final value of a thread's state, for the check.
    fn leave(&self, _: Self::ThreadState) -> u64 {
        0
    }
    /// Name and outcome of the check. `operations` counts those of all threads, warm-up included;
    /// `left` has the final value of each thread.
    fn check(&self, operations: u64, left: &[u64]) -> (&'static str, Outcome);
}

/// Checks that the words have counted as many operations as the threads.
pub(super) fn count_check(counted: u64, operations: u64) -> Outcome {
    if counted == operations {
        Outcome::Ok
    } else {
        Outcome::Violated(format!("words under locks or atomics count {counted} of {operations} operations"))
    }
}
