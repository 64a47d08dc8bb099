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
use terms::{Abort, Epoch, Stamp};

use crate::any_verbs::Body;
use crate::ending::{Commit, Stats};

/// The name of a branch in its database, once the branch has changed a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BranchName(pub u64);

/// The part of a branch in the record of a commit, as the branch's session reports it after its
/// actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchReport {
    /// The branch has changed nothing so far, or nothing is logged.
    Nothing,
    /// The log has the changes under this name, which the record of the commit repeats.
    Named(BranchName),
    /// The record of the commit has the changes; the stamp of the commit is larger than this one.
    After(Stamp),
}

/// The branches of a transaction in other sessions than that which commits it, from their reports.
#[derive(Debug, Default)]
pub struct OtherBranches {
    /// Names of those that have changed something.
    pub names: Vec<BranchName>,
    /// Changes, in the order of their reports.
    pub changes: Vec<u8>,
    /// The stamp of the commit is larger than this one. `None` if no report had a stamp.
    pub after: Option<Stamp>,
}

impl OtherBranches {
    /// Forgets all branches.
    pub fn clear(&mut self) {
        self.names.clear();
        self.changes.clear();
        self.after = None;
    }
}

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

    /// Reports a branch of a transaction that another session commits, after each act that the
    /// branch has run. Appends the changes since the last report, if the record of the commit has
    /// to have them.
    ///
    /// # Errors
    /// The branch has changed a table that has ended.
    fn report(&mut self, branch: usize, changes: &mut Vec<u8>) -> Result<BranchReport, Abort>;

    /// Commits the transaction that has this branch in this session, if it has one here, and these
    /// in others. Each of them is ended after that, and shows its changes to others only then.
    ///
    /// # Errors
    /// The log has stopped: the transaction is not to be acknowledged. [`Abort::OutOfMemory`], and
    /// the end of a table: nothing is logged, and the branches are to be rolled back.
    fn commit(&mut self, own: Option<usize>, others: &OtherBranches) -> Result<Commit, Abort>;

    /// Ends a branch whose transaction has committed; with the stamp of the commit, if its report
    /// had a stamp.
    fn end(&mut self, branch: usize, commit: Option<Stamp>);

    /// Takes a branch's changes back, and ends it; the epoch that has to be durable before what the
    /// branch has read may be sent.
    ///
    /// # Errors
    /// The database has stopped.
    fn roll_back(&mut self, branch: usize) -> Result<Epoch, Abort>;

    /// Declares that the session has all its transactions as branches from here on, until all
    /// sessions have ended that ([`Self::end_owning`]). No other session changes rows meanwhile.
    /// The session copies rows for checkpoints only as [`Self::copy_rows`] says.
    fn begin_owning(&mut self) {}

    /// Declares that no session has a branch any more. Returns in a later epoch than that of the
    /// largest stamp that the session has made or received: transactions that are no branches draw
    /// stamps without knowing those of owners, and get larger ones from then on.
    fn end_owning(&mut self) {}

    /// The largest stamp of the commits that the session has made or received.
    fn last_stamp(&self) -> Stamp {
        Stamp(0)
    }

    /// Copies rows for a checkpoint, if one is under way and wants some now: those that the caller
    /// owns and that no open branch has locked, as `is_free` says of a table and a primary key.
    fn copy_rows(&mut self, _now: Nanos, _is_free: &dyn Fn(usize, &[u64]) -> bool) {}

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
