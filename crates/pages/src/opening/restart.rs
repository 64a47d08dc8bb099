//! Restart: what the log says after the last checkpoint is repeated, then transactions that have
//! not ended are undone.
//!
//! After ARIES. *Analysis* reads the log from the oldest transaction that the checkpoint names: it
//! finds the end of the log, the changes of each transaction that are not undone, and the pages in
//! use. *Redo* makes all changes again that pages do not have. *Undo* undoes the changes of
//! transactions that have not ended, by key, and logs that as any transaction does. Changes that
//! were undone are counted, not named: a compensation undoes the last change of its transaction
//! that counts. A transaction that has rolled back to a savepoint has compensations before other
//! changes. A restart that is interrupted is repeated: its records are a generation of the log,
//! too.
//!
//! A transaction that was prepared as a part of one over several databases is *in doubt* if the log
//! has no end of it: its changes stay, and are locked again before there are sessions. If it has
//! undone some of its changes, the decision was to abort, and it is undone like others.

use std::collections::{BTreeMap, BTreeSet};

use boundary::{Decision, GlobalId, PartOf};
use platform::files::Files;
use terms::Fault;

use crate::checkpoints::undecided::{KnownPart, UndecidedContent};
use crate::error::PagedError;
use crate::key::KeyWords;
use crate::log::record::{Compensation, End, Logged, LoggedChange, Takeback, width_mark};
use crate::lsn::Lsn;
use crate::page::Change;
use crate::pool::{FREE, IN_USE, PoolWorker, Writing};
use crate::tree::Tree;
use crate::undo::{PartInDoubt, Undo};

/// Results of the analysis.
#[derive(Default)]
pub(crate) struct Analysis {
    /// Transactions that have not ended, by their numbers.
    transactions: BTreeMap<u64, Undo>,
    /// The transactions among them that were prepared as parts, and have undone nothing.
    prepared: BTreeMap<u64, PartOf>,
    /// The transactions among them that the checkpoint carries, with their changes.
    carried: BTreeSet<u64>,
    /// The decisions that are not forgotten.
    decisions: BTreeMap<GlobalId, Vec<u16>>,
    /// Records that may be ghosts of transactions that are over.
    ghosts: BTreeSet<(u32, Vec<u64>)>,
    /// Records, and changes in them that are repeated where pages do not have them.
    pub records: u64,
    pub changes: u64,
}

impl Analysis {
    /// The parts and decisions that a checkpoint carries.
    ///
    /// # Errors
    /// It names trees that are not there.
    pub(crate) fn from(carried: &UndecidedContent, trees: &[Tree]) -> Result<Self, PagedError> {
        let mut analysis = Analysis::default();
        for KnownPart { transaction, part, steps } in &carried.parts {
            let undo = Undo::decode(steps, trees).ok_or(PagedError::UnknownTree(u32::MAX))?;
            analysis.transactions.insert(*transaction, undo);
            analysis.prepared.insert(*transaction, *part);
            analysis.carried.insert(*transaction);
        }
        let decisions = carried.decisions.iter().cloned();
        analysis.decisions.extend(decisions.map(|Decision { global, participants }| (global, participants)));
        Ok(analysis)
    }

    /// Follows a record.
    ///
    /// # Errors
    /// It names a tree that is not there.
    pub(crate) fn follow(&mut self, trees: &[Tree], logged: &Logged<'_>) -> Result<(), PagedError> {
        self.records += 1;
        match logged {
            Logged::Padding | Logged::Group(_) => {}
            Logged::Change(change) => self.follow_change(trees, change)?,
            Logged::Committed(transaction) | Logged::RolledBack(transaction) => self.end(*transaction),
            Logged::CommittedTogether(branches) => branches.iter().for_each(|branch| self.end(*branch)),
            Logged::Prepared(transaction, part) => {
                self.prepared.insert(*transaction, *part);
            }
            Logged::Decided(transaction, Decision { global, participants }) => {
                self.end(*transaction);
                self.decisions.insert(*global, participants.clone());
            }
            Logged::Forgotten(global) => {
                self.decisions.remove(global);
            }
        }
        Ok(())
    }

    fn end(&mut self, transaction: u64) {
        self.prepared.remove(&transaction);
        if let Some(mut undo) = self.transactions.remove(&transaction) {
            self.ghosts.extend(undo.ghosts().map(|(tree, key)| (tree.number, key.to_vec())));
        }
    }

    fn follow_change(&mut self, trees: &[Tree], logged: &LoggedChange<'_>) -> Result<(), PagedError> {
        self.changes += 1;
        let unknown = || PagedError::UnknownTree(logged.tree);
        let tree = *trees.get(logged.tree as usize).ok_or_else(unknown)?;
        if width_mark(tree.width) != width_mark(logged.width) {
            return Err(unknown());
        }
        if let Change::Remove { key } = logged.change {
            self.ghosts.remove(&(tree.number, key.to_vec()));
        }
        if logged.transaction == 0 {
            return Ok(());
        }
        let undo = self.transactions.entry(logged.transaction).or_default();
        let is_carried = self.carried.contains(&logged.transaction);
        if logged.compensates == Some(Compensation::OfAll) {
            undo.pop();
            self.prepared.remove(&logged.transaction);
        } else if is_carried {
            // The checkpoint has what the part had changed when it was prepared, without what it
            // had taken back until then.
        } else if logged.compensates.is_some() {
            undo.pop();
        } else if logged.takeback != Takeback::None {
            let (key, first) = match logged.change {
                Change::Put { key, .. } | Change::Mark { key, .. } => (key, 0),
                Change::Write { key, first, .. } => (key, first),
                _ => return Err(unknown()),
            };
            undo.push(tree, key, first, logged.takeback);
        }
        Ok(())
    }

    /// Transactions that have not ended, and are not in doubt.
    pub(crate) fn unfinished(&self) -> u64 {
        self.transactions.keys().filter(|transaction| !self.prepared.contains_key(transaction)).count() as u64
    }

    /// Changes of all of them, and of parts in doubt.
    pub(crate) fn steps(&self) -> u64 {
        self.transactions.values().map(|undo| undo.keys().count() as u64).sum()
    }

    /// Parts in doubt.
    pub(crate) fn doubted(&self) -> Vec<PartOf> {
        self.prepared.values().copied().collect()
    }

    /// Takes the parts in doubt out, in the order of their numbers.
    pub(crate) fn take_doubted(&mut self) -> Vec<PartInDoubt> {
        let prepared = std::mem::take(&mut self.prepared).into_iter();
        let doubted = prepared.map(|(transaction, part)| {
            let undo = self.transactions.remove(&transaction).unwrap_or_default();
            // What earlier transactions have left as ghosts may be there again, and deleted by the
            // part, which may come to nothing.
            undo.keys().for_each(|(tree, key)| _ = self.ghosts.remove(&(tree.number, key.to_vec())));
            PartInDoubt { transaction, part, undo }
        });
        doubted.collect()
    }

    /// The decisions that are not forgotten.
    pub(crate) fn decisions(&self) -> Vec<Decision> {
        let decisions = self.decisions.iter();
        decisions
            .map(|(global, participants)| Decision { global: *global, participants: participants.clone() })
            .collect()
    }

    /// Undoes the changes of transactions that have not ended, if nothing is logged. Ghosts stay:
    /// they are not counted.
    ///
    /// # Errors
    /// A page cannot be read.
    pub(crate) fn take_back<P: Files>(&mut self, worker: &mut PoolWorker<'_, P>) -> Result<(), PagedError> {
        std::mem::take(&mut self.transactions).into_values().try_for_each(|mut undo| undo.roll_back(worker))
    }

    /// Takes back what transactions have changed that have not ended, and has ghosts leave.
    ///
    /// # Errors
    /// A page cannot be read, or the log not be written.
    pub(crate) fn undo<P: Files>(
        &mut self,
        worker: &mut PoolWorker<'_, P>,
        trees: &[Tree],
    ) -> Result<(), PagedError> {
        for (transaction, mut undo) in std::mem::take(&mut self.transactions) {
            worker.resume(Writing::of_earlier(transaction, None));
            if !worker.pool.faults().has(Fault::MissingRestartUndo) {
                undo.roll_back(worker)?;
            }
            worker.end_transaction(End::RolledBack)?;
            self.ghosts.extend(undo.ghosts().map(|(tree, key)| (tree.number, key.to_vec())));
        }
        for (number, key) in std::mem::take(&mut self.ghosts) {
            // No other thread is there: any gap may be joined with another.
            trees[number as usize].remove_ghost(worker, &KeyWords::of(&key), &mut |_| true)?;
        }
        Ok(())
    }
}

/// Updates the states of pages by a change.
pub(crate) fn follow_states(states: &mut Vec<u64>, logged: &LoggedChange<'_>) {
    for (place, page) in logged.pages.iter().enumerate() {
        let state = match () {
            () if logged.change.makes(place) => IN_USE,
            () if logged.change.frees(place) => FREE,
            () => continue,
        };
        let at = page.number as usize - 1;
        if states.len() <= at {
            states.resize(at + 1, FREE);
        }
        states[at] = state;
    }
}

/// Repeats a record.
///
/// # Errors
/// See [`PoolWorker::repeat`].
pub(crate) fn redo<P: Files>(
    worker: &mut PoolWorker<'_, P>,
    lsn: Lsn,
    logged: &Logged<'_>,
) -> Result<(), PagedError> {
    match logged {
        Logged::Change(change) => worker.repeat(change, lsn, &|_| true),
        _ => Ok(()),
    }
}
