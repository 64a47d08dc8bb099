//! Names of transactions over several databases, their parts, votes and outcomes.

use std::fmt;

use terms::Epoch;

/// The number of a transaction over several databases, which no other transaction ever has. A
/// database has at most one part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalId(pub u128);

impl fmt::Display for GlobalId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:032x}", self.0)
    }
}

/// Which transaction a part belongs to, and which instance decides whether the transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The transaction.
    pub global: GlobalId,
    /// The number of the instance that decides.
    pub coordinator: u16,
}

/// A transaction that this database has decided to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The transaction.
    pub global: GlobalId,
    /// The instances that have to receive the decision.
    pub participants: Vec<u16>,
}

/// The vote of a prepared part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// True if the part changes anything. A part that does not has left no record, and how it is
    /// finished is of no consequence but for the rows that it holds.
    pub changes: bool,
    /// The epoch that has to be durable before the part's vote, and what it has read, may be sent.
    pub durable_with: Epoch,
}

impl From<Vote> for Epoch {
    fn from(vote: Vote) -> Epoch {
        vote.durable_with
    }
}

/// How a prepared part is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'o> {
    /// The part commits.
    Commit,
    /// The part is rolled back.
    Abort,
    /// The part commits, and its commit is the decision that the transaction commits. Until the
    /// decision is [forgotten](crate::AnySession::forget), [`crate::AnyDatabase::decisions`] has
    /// it, also after a crash.
    Decide {
        /// The transaction.
        global: GlobalId,
        /// The instances that have to receive the decision.
        participants: &'o [u16],
    },
}
