//! Restart: what the log says after the last checkpoint is repeated, then transactions that have not ended are undone.
//!
//! After ARIES. *Analysis* reads the log from the oldest transaction that the checkpoint knows of: it finds where the log ends, what each
//! transaction has changed and not taken back, and which pages are in use. *Redo* makes all changes again that pages do not have. *Undo*
//! takes back what transactions have changed that have not ended, by key, and logs that as any transaction does. Changes that were taken
//! back are counted, not named: a compensation takes back the last change of its transaction that counts. A restart
//! that is interrupted is repeated: what it has logged is a generation of the log, too.

use std::collections::{BTreeMap, BTreeSet};

use platform::files::Files;

use crate::key::KeyWords;
use crate::log::record::{Change, Logged, LoggedChange, Takeback};
use crate::lsn::Lsn;
use crate::options::PagedError;
use crate::pool::Worker;
use crate::tree::Tree;
use crate::undo::Undo;

/// What analysis finds.
#[derive(Default)]
pub(crate) struct Analysis {
    /// Transactions that have not ended, by their numbers.
    transactions: BTreeMap<u64, Undo>,
    /// Records that may be ghosts of transactions that are over.
    ghosts: BTreeSet<(u32, Vec<u64>)>,
    /// Records, and changes in them that are repeated where pages do not have them.
    pub records: u64,
    pub changes: u64,
}

impl Analysis {
    /// Follows a record.
    ///
    /// # Errors
    /// It names a tree that is not there.
    pub(crate) fn follow(&mut self, trees: &[Tree], logged: &Logged<'_>) -> Result<(), PagedError> {
        self.records += 1;
        match logged {
            Logged::Padding => {}
            Logged::Change(change) => self.follow_change(trees, change)?,
            Logged::Committed(transaction) | Logged::RolledBack(transaction) => {
                if let Some(mut undo) = self.transactions.remove(transaction) {
                    self.ghosts.extend(undo.ghosts().map(|(tree, key)| (tree.number, key.to_vec())));
                }
            }
        }
        Ok(())
    }

    fn follow_change(&mut self, trees: &[Tree], logged: &LoggedChange<'_>) -> Result<(), PagedError> {
        self.changes += 1;
        let unknown = || PagedError::UnknownTree(logged.tree);
        let tree = *trees.get(logged.tree as usize).ok_or_else(unknown)?;
        if tree.width != logged.width {
            return Err(unknown());
        }
        if let Change::Remove { key } = logged.change {
            self.ghosts.remove(&(tree.number, key.to_vec()));
        }
        if logged.transaction == 0 {
            return Ok(());
        }
        let undo = self.transactions.entry(logged.transaction).or_default();
        if logged.compensates {
            undo.pop();
        } else if logged.takeback != Takeback::None {
            let (key, first) = match logged.change {
                Change::Put { key, .. } | Change::Mark { key, .. } => (key, 0),
                Change::Write { key, first, .. } => (key, first),
                _ => return Err(unknown()),
            };
            undo.push((tree, key), first, logged.takeback);
        }
        Ok(())
    }

    /// Transactions that have not ended.
    pub(crate) fn unfinished(&self) -> u64 {
        self.transactions.len() as u64
    }

    /// Takes back what transactions have changed that have not ended, and has ghosts leave.
    ///
    /// # Errors
    /// A page cannot be read, or the log not be written.
    pub(crate) fn undo<P: Files>(
        &mut self,
        worker: &mut Worker<'_, P>,
        trees: &[Tree],
    ) -> Result<(), PagedError> {
        for (transaction, mut undo) in std::mem::take(&mut self.transactions) {
            worker.begin_transaction(transaction);
            worker.goes_on();
            if !worker.pool.broken().undo {
                undo.roll_back(worker)?;
            }
            worker.end_transaction(false)?;
            self.ghosts.extend(undo.ghosts().map(|(tree, key)| (tree.number, key.to_vec())));
        }
        for (number, key) in std::mem::take(&mut self.ghosts) {
            // Nobody else is there: any gap may be joined with another.
            trees[number as usize].remove_ghost(worker, &KeyWords::of(&key), &mut |_| true)?;
        }
        Ok(())
    }
}

/// What becomes of the states of pages.
pub(crate) fn follow_states(states: &mut Vec<u64>, logged: &LoggedChange<'_>) {
    let mut set = |place: usize, state: u64| {
        let at = logged.pages[place].number as usize - 1;
        if states.len() <= at {
            states.resize(at + 1, 0);
        }
        states[at] = state;
    };
    match logged.change {
        Change::Split { .. } => set(1, 1),
        Change::SplitRoot { .. } => {
            set(1, 1);
            set(2, 1);
        }
        Change::Unlink { .. } => set(1, 0),
        _ => {}
    }
}

/// Repeats a record.
///
/// # Errors
/// See [`Worker::repeat`].
pub(crate) fn redo<P: Files>(
    worker: &mut Worker<'_, P>,
    lsn: Lsn,
    logged: &Logged<'_>,
) -> Result<(), PagedError> {
    match logged {
        Logged::Change(change) => worker.repeat(change, lsn),
        _ => Ok(()),
    }
}
