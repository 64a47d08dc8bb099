//! Branches: what each of several workers does for one transaction.
//!
//! Where workers own partitions of the data, a transaction is done by the owners of what it
//! touches. What one owner does for it is a *branch*: changes that can be taken back, in the
//! session of that owner, which has several branches open at a time. A branch takes its actions one
//! after the other, with as much time between them as the others need, and ends with the others:
//! one commit names all of them.
//!
//! Branches lock nothing. The caller ensures that no two transactions that are open at the same
//! time conflict, and that no other transaction runs in the database meanwhile.

use concurrency::Meter;
use platform::Nanos;
use terms::{Abort, Epoch};

use crate::any_verbs::Body;
use crate::ending::{Commit, Stats};

/// The name of a branch in its database, once the branch has changed a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BranchName(pub u64);

/// A change of the border between two partitions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorderChange {
    /// A partition is divided there.
    Split,
    /// The two partitions are united.
    Merge,
}

/// The branches of a session.
pub trait Branches {
    /// Begins a branch; its number in this session until it ends.
    ///
    /// # Errors
    /// The database has stopped, or has no room for another branch.
    fn begin(&mut self) -> Result<usize, Abort>;

    /// Runs some of the branch's actions. After an error the branch can only be rolled back.
    ///
    /// # Errors
    /// Those of the verbs, and [`Abort::Deadline`].
    fn act(&mut self, branch: usize, deadline: Option<Nanos>, body: &mut Body<'_>) -> Result<(), Abort>;

    /// The name of a branch that has changed something.
    fn name(&self, branch: usize) -> Option<BranchName>;

    /// Commits the transaction that has these branches, in whichever sessions: all of those that
    /// have changed something. Each of them is ended after that, and shows its changes to others
    /// only then.
    ///
    /// # Errors
    /// The log has stopped: the transaction is not to be acknowledged.
    fn commit(&mut self, branches: &[BranchName]) -> Result<Commit, Abort>;

    /// Ends a branch whose transaction has committed.
    fn end(&mut self, branch: usize);

    /// Takes a branch's changes back, and ends it; the epoch that has to be durable before what the
    /// branch has read may be sent.
    ///
    /// # Errors
    /// The database has stopped.
    fn roll_back(&mut self, branch: usize) -> Result<Epoch, Abort>;

    /// Where the session's time goes.
    fn meter(&mut self) -> &mut Meter;

    /// Counters of the session.
    fn stats_mut(&mut self) -> &mut Stats;

    /// How long to pause after this many failed attempts.
    fn pause_nanos(&mut self, attempts: u32) -> u64;

    /// Charges the work of a change of the border that begins with this leading column, where each
    /// partition of a table has a tree of its own. Nothing is changed: here partitions share trees.
    /// Tables without pages cost nothing.
    ///
    /// # Errors
    /// A page cannot be read.
    fn charge_border(&mut self, _table: usize, _column: u16, _change: BorderChange) -> Result<(), Abort> {
        Ok(())
    }
}
