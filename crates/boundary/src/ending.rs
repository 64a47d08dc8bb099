//! How transactions end: the bounds that end them, their outcomes, and the counts of both.

use platform::Nanos;
use terms::{Epoch, Stamp};

/// Bounds after which a transaction gives up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Moment after which the transaction does not commit any more.
    pub deadline: Option<Nanos>,
    /// Most attempts; `None`: until the transaction succeeds.
    pub attempts_max: Option<u32>,
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that failed because they conflicted with another transaction.
    pub aborts: u64,
    /// Transactions that rolled back by their own decision.
    pub rollbacks: u64,
    /// Most attempts that one transaction needed.
    pub attempts_max: u32,
}

/// The commit of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction's place in the order of commits.
    pub stamp: Stamp,
    /// The epoch that has to be durable before the commit may be acknowledged: the commit's own, or
    /// an earlier epoch if the transaction only read.
    pub durable_with: Epoch,
}

impl Commit {
    /// A commit that is acknowledged when its own epoch is durable.
    pub fn of(stamp: Stamp) -> Commit {
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
    /// The transaction committed, with this result.
    Committed(T, Commit),
    /// The transaction rolled back by its own decision. The caller may report the decision when
    /// this epoch is durable: the decision follows from what the transaction has read.
    RolledBack(Epoch),
}
