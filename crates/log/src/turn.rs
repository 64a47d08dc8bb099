//! What a core wants of its turn at the log, and what came of it.

use platform::Nanos;

/// What a holder of the latch is after.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// What can be done without waiting.
    GetOn,
    /// Empty slots: full ones are handed to the disk, when it has done what is under way.
    Empty,
    /// What a worker waits for; epochs move on as fast as commits let them, where that has to be.
    Durable(Target),
}

/// What a worker waits for: a durable epoch, or a commit of it that the worker has made or read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The epoch.
    pub epoch: u64,
    /// Longest time to wait for it.
    pub deadline: Option<Nanos>,
    /// The epoch is to be complete; otherwise what was committed before the call does, which may be
    /// durable before, in a whole group.
    pub by_epoch: bool,
}

impl Target {
    /// A durable epoch, however long it takes.
    pub(crate) fn durable(epoch: u64) -> Target {
        Target { epoch, deadline: None, by_epoch: true }
    }
}

/// How an attempt to hold the latch went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// What could be done is done.
    Over,
    /// Everything that was committed before is durable.
    Whole,
    /// Nothing can be done until workers end their commits.
    Blocked,
    /// Another core holds the latch.
    Taken,
}
