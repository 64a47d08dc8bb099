//! What a transaction of `hstore` tells a log: its steps, in their order, with rows as they are
//! now.
//!
//! Its writes are in the rows already, and the words that were there before in its steps. Of each
//! write the bytes from the first to the last that differ are told; so of a place that was written
//! twice what was there before the first write is compared with what is there after the last,
//! whatever the second adds. Writes of one row that follow each other are one change.

use platform::Platform;
use storage::Table;

use super::row::Row;
use super::scratch::Scratch;
use super::state::State;
use super::steps::{Keys, Step};
use crate::redo::RedoSink;
use crate::writes::Chain;

impl Step {
    /// Whether it goes on with writes of row `number`: a tail follows the write of its pointer.
    fn belongs_to(&self, number: u32) -> bool {
        match self {
            Step::Write { row, .. } => *row == number,
            Step::Tail { .. } => true,
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

impl<P: Platform> State<P> {
    /// Hands everything that the transaction has changed to the sink.
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
        let mut rest = &self.steps[..];
        while let [step, others @ ..] = rest {
            let mut told = 1;
            match *step {
                Step::Write { row, .. } => {
                    told += others.iter().take_while(|step| step.belongs_to(row)).count();
                    self.redo_writes(c, tables, row, &rest[..told], scratch, sink);
                }
                // It is told with the write that made the row's last word point to it.
                Step::Tail { .. } | Step::Pass { .. } | Step::InsertUnindexed { .. } => {}
                Step::Insert { row, keys, .. } => {
                    let (number, table, row) = named(row, keys);
                    if table.has_tail {
                        scratch.read_tail(c, row);
                    }
                    let tail = if table.has_tail { &scratch.tail[..] } else { &[] };
                    sink.insert(number, value(table, row), tail);
                }
                Step::Delete { row, keys, .. } => {
                    let (number, table, row) = named(row, keys);
                    sink.delete(number, value(table, row));
                }
            }
            rest = &rest[told..];
        }
    }

    /// Tells of writes of one row.
    fn redo_writes<K: RedoSink<P>>(
        &self,
        c: P::Core,
        tables: &[Table<P>],
        row: u32,
        run: &[Step],
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
                Step::Write { first, count, at, .. } => {
                    let (first, count, at) = (first as usize, count as usize, at as usize);
                    // Its last word is a pointer if the row has a tail, which is no part of its
                    // value.
                    let now = &words[first.min(words.len())..(first + count).min(words.len())];
                    scratch.push_changes::<P>(&mut chain, first, &self.words[at..at + count], now);
                }
                _ => has_new_tail = true,
            }
        }
        if has_new_tail {
            scratch.read_tail(c, taken.row);
        }
        let changes = scratch.writes.changes(chain, words.len() * 8);
        if has_new_tail || !changes.is_empty() {
            sink.update(number, words, changes, has_new_tail.then_some(&scratch.tail[..]));
        }
    }
}
