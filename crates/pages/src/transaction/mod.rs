//! The verbs of a transaction: what is locked, and what is done to trees.
//!
//! - `reading`: lookups and reads;
//! - `writing`: insertions, changes, deletions;
//! - `scanning`: ranges, with the locks of their gaps;
//! - `pieces`: what of long rows lies beside their records;
//! - `savepoints`: rolling back to them;
//! - `verbs`: the same as [`boundary::AnyVerbs`].

mod pieces;
mod reading;
mod savepoints;
mod scanning;
mod verbs;
mod writing;

use platform::Work;
use platform::files::Files;
use schema::RowId;
use terms::{Abort, Fault};

use crate::context::{Context, FoundRow};
use crate::key::KeyWords;
use crate::locks::{LockMode, LockPlace, name};
use crate::rows::tables::Table;
use crate::tree::{EntryHint, NextKey, Tree};

/// One attempt of a transaction.
pub(crate) struct Transaction<'s, 'd, P: Files> {
    pub session: &'s mut Context<'d, P>,
    /// The error of a failed verb: the transaction can only end then.
    pub failed: Option<Abort>,
}

impl<'d, P: Files> Transaction<'_, 'd, P> {
    #[inline]
    fn core(&self) -> P::Core {
        self.session.worker.c
    }

    /// A table, which the transaction uses.
    #[inline]
    fn used_table(&mut self, number: usize) -> Result<&'d Table, Abort> {
        self.session.use_table(number);
        self.table(number)
    }

    /// A table.
    #[inline]
    fn table(&self, number: usize) -> Result<&'d Table, Abort> {
        self.session.shared.tables.get(number).ok_or(Abort::Misuse("no such table"))
    }

    #[inline]
    fn is_loaded(&self) -> bool {
        self.session.shared.is_loaded
    }

    /// Locks a key, whether it is there or not.
    #[inline]
    fn lock_key(&mut self, table: usize, tree: Tree, key: &[u64], mode: LockMode) -> Result<(), Abort> {
        let paths = self.session.paths();
        let instructions = if mode == LockMode::Share { paths.lock_share } else { paths.lock_exclude };
        self.lock_declared(table, tree, key, mode, instructions)
    }

    /// Locks a key that a scan visits.
    #[inline]
    fn lock_scanned(&mut self, table: usize, tree: Tree, key: &[u64], mode: LockMode) -> Result<(), Abort> {
        self.lock_declared(table, tree, key, mode, self.session.paths().lock_scanned)
    }

    /// Locks a key, and declares these instructions if the transaction did not have the lock.
    #[inline]
    fn lock_declared(
        &mut self,
        table: usize,
        tree: Tree,
        key: &[u64],
        mode: LockMode,
        instructions: u32,
    ) -> Result<(), Abort> {
        if mode == LockMode::Share && self.session.shared.faults.has(Fault::UnlockedReads) {
            return Ok(());
        }
        let before = self.session.owner.locks.row_locks();
        let locked = self.lock(table, tree, LockPlace::Key, key, mode);
        if self.session.owner.locks.row_locks() > before {
            self.session.declare_path(instructions);
        }
        locked
    }

    /// Locks the gap below what is given, to rely on its being empty.
    fn lock_gap(&mut self, table: usize, tree: Tree, place: LockPlace, key: &[u64]) -> Result<(), Abort> {
        if self.session.shared.faults.has(Fault::UnlockedGaps) {
            return Ok(());
        }
        self.lock(table, tree, place, key, LockMode::Share)
    }

    /// Locks a place in a table's tree.
    #[inline]
    fn lock(
        &mut self,
        table: usize,
        tree: Tree,
        place: LockPlace,
        key: &[u64],
        mode: LockMode,
    ) -> Result<(), Abort> {
        if self.session.owner.locks.locks_nothing() {
            return Ok(());
        }
        P::work(self.core(), Work::Hash, key.len() as u32 + 1);
        self.session.lock(table, name(tree.number, place, key), mode)
    }

    /// Remembers a row that was found.
    #[inline]
    fn add_row(&mut self, table: usize, key: KeyWords, hint: EntryHint, is_locked: bool) -> RowId {
        P::work(self.core(), Work::Access, 1);
        let is_locked = is_locked && !self.session.shared.faults.has(Fault::UnlockedReads);
        let Context { rows, attempt, .. } = &mut *self.session;
        FoundRow::of(table, key, hint, is_locked).enter(rows, *attempt)
    }

    /// The number of a row that this attempt has found, and not deleted.
    #[inline]
    fn number(&self, row: RowId) -> Result<usize, Abort> {
        let number = row.number_in(self.session.attempt).map(|number| number as usize);
        match number.and_then(|number| self.session.rows.get(number).map(|row| (number, row.is_gone))) {
            Some((number, false)) => Ok(number),
            Some(_) => Err(Abort::Misuse("a row that the transaction has deleted")),
            None => Err(Abort::Misuse("a row of another transaction, or of an earlier attempt")),
        }
    }

    /// Checks that the transaction may continue.
    #[inline]
    fn check(&self) -> Result<(), Abort> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        match self.session.deadline {
            Some(deadline) if P::now(self.core()) >= deadline => Err(Abort::Deadline),
            _ => Ok(()),
        }
    }

    /// Runs a verb, unless one has failed; remembers that it fails.
    #[inline]
    fn verb<R>(&mut self, verb: impl FnOnce(&mut Self) -> Result<R, Abort>) -> Result<R, Abort> {
        let result = self.check().and_then(|()| verb(self));
        if let Err(abort) = &result {
            self.failed.get_or_insert_with(|| abort.clone());
        }
        result
    }
}

/// The place of the gap below what is given, and its key.
fn gap(next: &NextKey) -> (LockPlace, &[u64]) {
    match next {
        NextKey::Key(key) => (LockPlace::GapBelow, key),
        NextKey::End => (LockPlace::GapAtEnd, &[]),
    }
}
