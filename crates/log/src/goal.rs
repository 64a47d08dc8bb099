//! Goals and outcomes of a core that drives the log.

use platform::Nanos;

/// The goal of a core that holds the latch.
#[derive(Clone, Copy)]
pub(crate) enum DriveGoal {
    /// Do all that needs no waiting.
    Advance,
    /// Empty slots: full ones are handed to the disk, when it has done what is under way.
    EmptySlots,
    /// Make the worker's target durable; epochs advance as fast as commits allow, if that is
    /// necessary.
    Durable(Target),
}

/// The target that a worker waits for: a durable epoch, or a commit in it that the worker has made
/// or read.
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

/// Outcome of an attempt to drive the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriveOutcome {
    /// All that could be done is done.
    Done,
    /// Everything that was committed before is durable.
    WholeGroup,
    /// Nothing can be done until workers end their commits.
    Blocked,
    /// Another core holds the latch.
    Busy,
}
