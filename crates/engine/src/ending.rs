//! How transactions end: the bounds that end them, their outcomes, and the counts of both.

use cc::Stamp;
use platform::Nanos;
use storage::Epoch;

/// When a transaction gives up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Moment after which it does not commit any more.
    pub deadline: Option<Nanos>,
    /// Most attempts; `None`: until it succeeds.
    pub attempts_max: Option<u32>,
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that met another transaction.
    pub aborts: u64,
    /// Transactions that rolled back by their own decision.
    pub rollbacks: u64,
    /// Most attempts that one transaction needed.
    pub attempts_max: u32,
}

/// The commit of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its place in the order of commits.
    pub stamp: Stamp,
    /// The epoch that has to be durable before it may be acknowledged: its own, or an earlier one if it only read.
    pub durable_with: Epoch,
}

impl Commit {
    /// A commit that is acknowledged when its own epoch is durable.
    pub(crate) fn of(stamp: Stamp) -> Commit {
        Commit { stamp, durable_with: stamp.epoch() }
    }
}

impl From<Commit> for Epoch {
    fn from(commit: Commit) -> Epoch {
        commit.durable_with
    }
}

/// How a transaction that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<T> {
    /// It committed, with this result.
    Committed(T, Commit),
    /// It rolled back by its own decision, which may be told when this epoch is durable: the decision follows from what the
    /// transaction has read.
    RolledBack(Epoch),
}
