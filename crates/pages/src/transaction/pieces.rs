//! Long rows: what lies in pieces beside a row's record.
//!
//! A piece is never locked. A transaction that changes pieces has the row exclusively, and one that
//! reads them has at least a shared lock of the row, also if the row was found without a lock: the
//! pieces of a row are not read in one moment.

use std::ops::Range;

use platform::files::Files;
use terms::{Abort, Fault};

use super::Transaction;
use crate::locks::LockMode;
use crate::log::record::Takeback;
use crate::page::{RecordParts, WordSpan};
use crate::rows::tables::Table;
use crate::tree::{Inserted, NextKey, Tree};

/// A database whose pieces and rows contradict each other.
const LOST: &str = "a piece of a long row is not in its page";

impl<'d, P: Files> Transaction<'_, 'd, P> {
    /// The table of a row, and the tree of its pieces.
    pub(super) fn overflow(&self, number: usize) -> Result<(&'d Table, Tree), Abort> {
        let table = self.table(self.session.rows[number].table)?;
        let tree =
            table.overflow.ok_or_else(|| Abort::Storage("a long row in a table of short ones".into()))?;
        Ok((table, tree))
    }

    /// Keeps the pieces of a row that was found from changing; a caller that gets `true` has to
    /// find the row again.
    pub(super) fn hold_pieces(&mut self, number: usize) -> Result<(), Abort> {
        let row = &self.session.rows[number];
        let (table, key, is_locked) = (row.table, row.key.clone(), row.is_locked);
        let described = self.table(table)?;
        if is_locked || described.read_only && self.is_loaded() {
            return Ok(());
        }
        self.lock_key(table, described.trees[0], &key, LockMode::Share)
    }

    /// Copies words of a row that lie in its pieces: `first` counts from the first of these.
    ///
    /// Pre: the pieces do not change, and the row has them.
    pub(super) fn read_pieces(&mut self, number: usize, first: usize, out: &mut [u64]) -> Result<(), Abort> {
        let c = self.core();
        let (table, tree) = self.overflow(number)?;
        let (key, mut rest) = (self.session.rows[number].key.clone(), out);
        for span in table.division.spans(0, WordSpan { first, count: rest.len() }) {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(span.words);
            rest = others;
            let Some(piece) = span.piece else { continue };
            let mut is_whole = false;
            let read = tree.read(
                &mut self.session.worker,
                &table.division.piece_key(&key, piece),
                None,
                |page, slot| {
                    let words = page.record(slot, span.first, part.len());
                    is_whole = words.map(|words| P::read_words(c, words, part)).is_some();
                    true
                },
            )?;
            if read.is_none() || !is_whole {
                return Err(self.lost_piece(number));
            }
        }
        Ok(())
    }

    #[cold]
    pub(super) fn lost_piece(&self, number: usize) -> Abort {
        if self.session.shared.faults.has(Fault::UnlockedReads) {
            self.missing(number)
        } else {
            Abort::Storage(LOST.into())
        }
    }

    /// The number of a row's pieces.
    pub(super) fn pieces(&mut self, number: usize) -> Result<u64, Abort> {
        let table = self.table(self.session.rows[number].table)?;
        if table.overflow.is_none() {
            return Ok(0);
        }
        let mut tail_bytes = 0;
        self.with_record(number, |_, slot| {
            tail_bytes = slot.tail_bytes();
            true
        })?;
        Ok(table.division.pieces(table.division.row_words(tail_bytes)))
    }

    /// Puts the pieces of a row in the place of those that it has had, `before` of them.
    ///
    /// Pre: the transaction has the row to itself.
    pub(super) fn put_pieces(
        &mut self,
        table: &Table,
        key: &[u64],
        before: u64,
        row: &[u64],
    ) -> Result<(), Abort> {
        let Some(tree) = table.overflow else { return Ok(()) };
        let pieces = table.division.divide(row);
        let after = pieces.len() as u64;
        for (number, words) in (0..).zip(pieces) {
            self.put_piece(tree, &table.division.piece_key(key, number), words)?;
        }
        self.drop_pieces(table, key, after..before)
    }

    /// Deletes pieces of a row.
    ///
    /// Pre: the transaction has the row to itself.
    pub(super) fn drop_pieces(
        &mut self,
        table: &Table,
        key: &[u64],
        pieces: Range<u64>,
    ) -> Result<(), Abort> {
        let Some(tree) = table.overflow.filter(|_| !self.session.shared.faults.has(Fault::KeptPieces)) else {
            return Ok(());
        };
        pieces
            .into_iter()
            .try_for_each(|number| self.mark_piece(tree, &table.division.piece_key(key, number)))
    }

    fn put_piece(&mut self, tree: Tree, key: &[u64], words: &[u64]) -> Result<(), Abort> {
        let parts = RecordParts { words, tail_bytes: 0 };
        let session = &mut *self.session;
        let (before, ghost) =
            match tree.insert(&mut session.worker, key, &mut None, parts, None::<fn(NextKey) -> bool>)? {
                Inserted::Done(ghost) => (ghost, true),
                Inserted::Exists => (tree.replace(&mut session.worker, key, parts, false)?, false),
                Inserted::Refused => (None, false),
            };
        let back = match &before {
            Some(before) => Takeback::Put { parts: before.parts(), ghost },
            None if ghost => Takeback::Mark { ghost: true },
            None => return Err(Abort::Storage(LOST.into())),
        };
        session.owner.undo.push(tree, key, 0, back);
        Ok(())
    }

    /// Deletes a piece: it is a ghost until the transaction ends.
    fn mark_piece(&mut self, tree: Tree, key: &[u64]) -> Result<(), Abort> {
        let session = &mut *self.session;
        match tree.mark(&mut session.worker, key, true)? {
            Some(false) => {
                session.owner.undo.push(tree, key, 0, Takeback::Mark { ghost: false });
                Ok(())
            }
            _ => Err(Abort::Storage(LOST.into())),
        }
    }
}
