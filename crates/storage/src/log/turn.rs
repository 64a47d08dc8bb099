//! What a core wants of its turn at the log, and what came of it.

use platform::Nanos;

/// What a holder of the latch is after.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// What can be done without waiting.
    GetOn,
    /// Empty slots: full ones are handed to the disk, when it has done what is under way.
    Empty,
    /// What a worker waits for; epochs move on as fast as commits let them, where that has to be.
    Durable(Target),
}

/// What a worker waits for: a durable epoch, until a deadline, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub epoch: u64,
    pub deadline: Option<Nanos>,
    /// The epoch is to be complete: what was committed before the call does not do.
    pub by_epoch: bool,
}

/// How an attempt to hold the latch went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// What could be done is done.
    Over,
    /// Everything that was committed before is durable.
    Whole,
    /// Nothing can be done until workers end their commits.
    Blocked,
    /// Another core holds the latch.
    Taken,
}
