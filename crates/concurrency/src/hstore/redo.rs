//! The changes that a transaction of `hstore` hands to the log: its steps, in their order, with
//! rows as they are now.
//!
//! Its writes are in the rows already, and the words that were there before in its steps. Of each
//! write the bytes from the first to the last that differ are handed over; so of a place that was
//! written twice what was there before the first write is compared with what is there after the
//! last, whatever the second adds. Writes of one row that follow each other are one change.

use platform::Platform;
use storage::Table;

use super::row::Row;
use super::scratch::Scratch;
use super::state::HstoreState;
use super::steps::{Keys, UndoStep};
use crate::redo::RedoSink;
use crate::writes::Chain;

impl UndoStep {
    /// Returns true if it goes on with writes of row `number`: a tail follows the write of its
    /// pointer.
    fn belongs_to(&self, number: u32) -> bool {
        match self {
            UndoStep::Write { row, .. } => *row == number,
            UndoStep::Tail { .. } => true,
            _ => false,
        }
    }
}

/// The row's words without the pointer to its tail.
fn value<'r, P: Platform>(table: &Table<P>, row: Row<P>) -> &'r [P::Word] {
    match row.words() {
        [words @ .., _] if table.has_tail => words,
        words => words,
    }
}

impl<P: Platform> HstoreState<P> {
    /// Hands everything that the transaction has changed to the sink, without what its coordinator
    /// has received.
    pub(super) fn redo<K: RedoSink<P>>(
        &self,
        c: P::Core,
        tables: &[Table<P>],
        scratch: &mut Scratch,
        sink: &mut K,
    ) {
        let named = |row: u64, keys: Keys| {
            let table = &tables[keys.table as usize];
            // SAFETY: the transaction has found or made the row, and has its partition to itself.
            (keys.table as usize, table, unsafe { Row::<P>::from_bits(row, table.row_words) })
        };
        let mut rest = &self.steps[self.reported..];
        while let [step, others @ ..] = rest {
            let mut taken = 1;
            match *step {
                UndoStep::Write { row, .. } => {
                    taken += others.iter().take_while(|step| step.belongs_to(row)).count();
                    self.redo_writes(c, tables, row, &rest[..taken], scratch, sink);
                }
                // The tail is handed over with the write that made the row's last word point to it.
                UndoStep::Tail { .. } | UndoStep::Pass { .. } | UndoStep::InsertUnindexed { .. } => {}
                UndoStep::Insert { row, keys, .. } => {
                    let (number, table, row) = named(row, keys);
                    if table.has_tail {
                        scratch.read_tail(c, row);
                    }
                    let tail = if table.has_tail { &scratch.tail[..] } else { &[] };
                    sink.insert(number, value(table, row), tail);
                }
                UndoStep::Delete { row, keys, .. } => {
                    let (number, table, row) = named(row, keys);
                    if table.key_in_tail {
                        scratch.read_tail(c, row);
                    }
                    sink.delete(number, value(table, row), &scratch.tail);
                }
            }
            rest = &rest[taken..];
        }
    }

    /// Tells of writes of one row.
    fn redo_writes<K: RedoSink<P>>(
        &self,
        c: P::Core,
        tables: &[Table<P>],
        row: u32,
        run: &[UndoStep],
        scratch: &mut Scratch,
        sink: &mut K,
    ) {
        let taken = &self.rows[row as usize];
        let number = taken.table as usize;
        let words = value(&tables[number], taken.row);
        let (mut chain, mut has_new_tail) = (Chain::EMPTY, false);
        scratch.writes.clear();
        for step in run {
            match *step {
                UndoStep::Write { first, count, at, .. } => {
                    let (first, count, at) = (first as usize, count as usize, at as usize);
                    // Its last word is a pointer if the row has a tail, which is no part of its
                    // value.
                    let now = &words[first.min(words.len())..(first + count).min(words.len())];
                    scratch.push_changes::<P>(&mut chain, first, &self.words[at..at + count], now);
                }
                _ => has_new_tail = true,
            }
        }
        if has_new_tail || tables[number].key_in_tail {
            scratch.read_tail(c, taken.row);
        }
        let tail = &scratch.tail[..];
        let changes = scratch.writes.changes(chain, words.len() * 8);
        if has_new_tail || !changes.is_empty() {
            sink.update(number, words, changes, has_new_tail.then_some(tail), tail);
        }
    }
}
