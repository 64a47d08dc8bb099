//! Taking the steps of a transaction back, and what is left to do when it commits.

use platform::Platform;
use storage::record::tail;
use storage::{Local, Table};
use terms::Fault;

use super::row::Row;
use super::state::{Cx, HstoreState};
use super::steps::{Keys, UndoStep};
use crate::access::{ROWS_KEPT_MAX, retire_row};
use crate::savepoints::SavepointMark;

impl<P: Platform> HstoreState<P> {
    /// The place of the row's key in an index in [`HstoreState::words`].
    fn key_of(&self, tables: &[Table<P>], keys: Keys, position: usize) -> (usize, usize) {
        let at = keys.at as usize;
        let (from, to) = tables[keys.table as usize].kept_place(|word| self.words[at + word], position);
        (at + from, at + to)
    }

    /// The key of an entry that was passed on.
    pub(super) fn passed_key(&self, keys: Keys) -> &[u64] {
        let (words, key) = (self.words[keys.at as usize], &self.words[keys.at as usize + 1..]);
        &key[..words as usize]
    }

    /// The entry of row `before`, deleted by the transaction, names another row from now on.
    pub(super) fn pass_on(&mut self, before: u64, table: usize, position: usize, key: &[u64]) {
        for step in &mut self.steps {
            match step {
                UndoStep::Delete { row, linked, .. } if *row == before => *linked &= !(1 << position),
                _ => {}
            }
        }
        let keys = Keys { table: table as u32, at: self.words.len() as u32 };
        self.words.push(key.len() as u64);
        self.words.extend_from_slice(key);
        self.steps.push(UndoStep::Pass { before, keys, position: position as u8 });
    }

    /// The row that has taken the place of row `bits` in an index after the transaction has deleted
    /// it.
    pub(super) fn successor_of(&self, cx: &Cx<'_, '_, P>, index: usize, bits: u64) -> Option<u64> {
        let keys = self.steps.iter().rev().find_map(|step| match step {
            UndoStep::Delete { row, keys, .. } if *row == bits => Some(*keys),
            _ => None,
        })?;
        let (from, to) = self.key_of(cx.tables, keys, index);
        let key = &self.words[from..to];
        let partition = cx.tables[keys.table as usize].indexes[index].partition(key);
        partition.get(cx.c, key).value.filter(|successor| *successor != bits)
    }

    /// The entry of a deleted row, which another row had, is its own again.
    fn link_again(&mut self, deleted: u64, position: u8) {
        for step in &mut self.steps {
            match step {
                UndoStep::Delete { row, linked, .. } if *row == deleted => *linked |= 1 << position,
                _ => {}
            }
        }
    }

    /// Takes a row out of the indexes of these bits, and gives it back. A row that an index does
    /// not name under the key that the caller gave stays where it is: another entry may
    /// go on naming it.
    fn remove_row(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        tables: &[Table<P>],
        bits: u64,
        keys: Keys,
        linked: u16,
    ) {
        let table = &tables[keys.table as usize];
        let mut is_out = true;
        for (position, index) in table.indexes.iter().enumerate() {
            if linked >> position & 1 != 0 {
                let (from, to) = self.key_of(tables, keys, position);
                let key = &self.words[from..to];
                is_out &= index.partition(key).remove(c, local, key, bits, 0);
            }
        }
        if !is_out {
            return;
        }
        // SAFETY: no index names the row any more, and the transaction has its partitions to
        // itself; once, since a row is deleted once, or never was there; the worker is in its
        // epoch.
        unsafe { retire_row(c, local, table, Row::<P>::from_bits(bits, table.row_words)) };
    }
}

/// Takes everything back, and lets the sites go.
pub(super) fn undo<P: Platform>(mut state: Box<HstoreState<P>>, cx: &mut Cx<'_, '_, P>) {
    let restores = !cx.shared.faults.has(Fault::MissingUndo);
    while let Some(step) = state.steps.pop() {
        undo_step(&mut state, cx, step, restores);
    }
    release(state, cx);
}

/// Takes everything back since a savepoint. Sites stay. What the transaction has found stays, too:
/// a row that was inserted since is marked as deleted, and its memory stays as long as the worker
/// is in its epoch.
#[cold]
pub(super) fn undo_to<P: Platform>(state: &mut HstoreState<P>, cx: &mut Cx<'_, '_, P>, mark: SavepointMark) {
    let restores = !cx.shared.faults.has(Fault::KeptSavepointWrites);
    while state.steps.len() > mark.steps
        && let Some(step) = state.steps.pop()
    {
        undo_step(state, cx, step, restores);
        match step {
            UndoStep::Insert { row, keys, .. } => {
                // SAFETY: the transaction has made the row, and is in its epoch.
                let row = unsafe { Row::<P>::from_bits(row, cx.tables[keys.table as usize].row_words) };
                row.header().set_deleted(cx.c, true);
                state.deletions += 1;
            }
            UndoStep::Pass { before, position, .. } => state.link_again(before, position),
            _ => {}
        }
    }
    state.words.truncate(mark.words);
}

/// Takes one step back; a write only if `restores`.
#[inline(always)]
fn undo_step<P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    step: UndoStep,
    restores: bool,
) {
    let (c, tables) = (cx.c, cx.tables);
    let local = &mut cx.worker.local;
    match step {
        UndoStep::Write { row, first, count, at } => {
            let (first, end) = (first as usize, (first + count) as usize);
            let old = &state.words[at as usize..(at + count) as usize];
            // A tail's pointer is restored even by the mutant: it must not dangle.
            let taken = &state.rows[row as usize];
            let whole = tables[taken.table as usize].has_tail && end == taken.row.words().len();
            if restores || whole {
                P::write_words(c, &taken.row.words()[first..end], old);
            }
        }
        // SAFETY: the row has its former tail again, or is about to; made by this transaction.
        UndoStep::Tail { new, .. } => unsafe { tail::retire(c, local, new) },
        UndoStep::Insert { row, keys, linked } => state.remove_row(c, local, tables, row, keys, linked),
        UndoStep::InsertUnindexed { row, keys } => state.remove_row(c, local, tables, row, keys, 0),
        UndoStep::Pass { before, keys, position, .. } => {
            let index = &tables[keys.table as usize].indexes[usize::from(position)];
            let key = state.passed_key(keys);
            // SAFETY: the row had the entry before, and its deletion is taken back.
            unsafe { index.partition(key).replace(c, key, before) };
        }
        UndoStep::Delete { row, keys, .. } => {
            // SAFETY: the row was found in this transaction, which has its partition to itself.
            let row = unsafe { Row::<P>::from_bits(row, tables[keys.table as usize].row_words) };
            row.header().set_deleted(c, false);
        }
    }
}

/// Removes what was deleted, and lets the sites go.
#[inline]
pub(super) fn finish<P: Platform>(state: Box<HstoreState<P>>, cx: &mut Cx<'_, '_, P>, stamp: u64) {
    if state.leaves_waste {
        remove_waste(&state, cx);
    }
    for site in &state.held {
        cx.shared.set_stamp(cx.c, *site, stamp);
    }
    release(state, cx);
}

fn remove_waste<P: Platform>(state: &HstoreState<P>, cx: &mut Cx<'_, '_, P>) {
    let (c, tables) = (cx.c, cx.tables);
    let local = &mut cx.worker.local;
    for step in &state.steps {
        match *step {
            UndoStep::Delete { row, keys, linked } => state.remove_row(c, local, tables, row, keys, linked),
            // SAFETY: the row has another tail; within the worker's epoch, once.
            UndoStep::Tail { old, .. } => unsafe { tail::retire(c, local, old) },
            _ => {}
        }
    }
}

#[inline]
fn release<P: Platform>(mut state: Box<HstoreState<P>>, cx: &mut Cx<'_, '_, P>) {
    for site in state.held.drain(..) {
        cx.shared.release(cx.c, site, cx.worker.state.number);
    }
    if state.rows.len() > ROWS_KEPT_MAX {
        return;
    }
    state.rows.clear();
    state.stamps.clear();
    state.wanted.clear();
    state.steps.clear();
    state.reported = 0;
    state.words.clear();
    state.deletions = 0;
    state.leaves_waste = false;
    state.witnesses.clear();
    cx.worker.state.free.push(state);
}
