//! Savepoints: changes since one are undone as at the end of a transaction, and logged as
//! compensations; the transaction goes on, with all its locks.

use boundary::Savepoint;
use platform::files::Files;
use terms::Abort;

use super::Transaction;
use crate::context::{Context, SavepointMark};

impl<P: Files> Transaction<'_, '_, P> {
    pub(super) fn set_savepoint(&mut self) -> Result<Savepoint, Abort> {
        self.verb(|own| {
            let Context { savepoints, owner, gone, attempt, .. } = &mut *own.session;
            if savepoints.is_full(*attempt) {
                return Err(Abort::Misuse(
                    "more than 1,048,576 savepoints at a time: release those that are not needed",
                ));
            }
            Ok(savepoints.set(*attempt, SavepointMark { undo: owner.undo.mark(), gone: gone.len() }))
        })
    }

    pub(super) fn return_to(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        if let Some(failed) = self.failed.as_ref().filter(|failed| !failed.ends_at_savepoint()) {
            return Err(failed.clone());
        }
        let attempt = self.session.attempt;
        let Some(mark) = self.session.savepoints.return_to(attempt, savepoint) else {
            self.failed.get_or_insert(Abort::StaleSavepoint);
            return Err(Abort::StaleSavepoint);
        };
        self.failed = None;
        self.verb(|own| own.take_back(mark))
    }

    pub(super) fn release_savepoint(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        self.verb(|own| {
            let Context { savepoints, attempt, .. } = &mut *own.session;
            savepoints.release(*attempt, savepoint).map(drop).ok_or(Abort::StaleSavepoint)
        })
    }

    /// Undoes what was changed since a savepoint.
    fn take_back(&mut self, mark: SavepointMark) -> Result<(), Abort> {
        let Context { owner, worker, rows, gone, shared, .. } = &mut *self.session;
        let mut inserted: Vec<_> = owner.undo.inserted_since(mark.undo).collect();
        inserted.sort_unstable();
        owner.undo.roll_back_to(worker, mark.undo)?;
        if !inserted.is_empty() {
            for row in rows.iter_mut() {
                let Some(table) = shared.tables.get(row.table) else { continue };
                let place = (table.trees[0].number, &row.key[..]);
                row.is_gone |= inserted.binary_search_by(|(tree, key)| (*tree, &key[..]).cmp(&place)).is_ok();
            }
        }
        // A key may have been inserted again that the transaction has deleted since.
        for number in gone.drain(mark.gone..) {
            rows[number].is_gone = false;
        }
        Ok(())
    }
}
