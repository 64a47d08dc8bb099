//! Insertions, changes and deletions.

use platform::files::Files;
use platform::{Code, Work};
use schema::{RowId, tails_agree};
use terms::rows::KeyBytes;
use terms::{Abort, Category};

use super::{Transaction, gap};
use crate::key::Words;
use crate::locks::{LockAnswer, LockMode, LockPlace, name};
use crate::log::record::Takeback;
use crate::page::{RecordParts, WordSpan};
use crate::tree::{Inserted, InsertionPlace, NextKey, Tree, WriteRoom};

/// Error of a write that would change a key.
const KEY_CHANGES: &str = "bytes of a key change by deleting the row and inserting another";

/// The record of a row, or one of its pieces.
#[derive(Clone, Copy)]
struct RowPart {
    /// Number of the row.
    number: usize,
    /// The tree that the part lies in.
    tree: Tree,
    /// Number of the piece; none: the record.
    piece: Option<u64>,
}

impl<'d, P: Files> Transaction<'_, 'd, P> {
    /// Inserts a row with these keys, one an index. `behind` is where the row before went, if it is
    /// one of several: empty, or a place an index.
    pub(super) fn insert_row(
        &mut self,
        number: usize,
        keys: &[&[u64]],
        behind: &mut [Option<InsertionPlace<'d, P>>],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        P::code(self.core(), Code::Table(number));
        P::code(self.core(), Code::PagesInsert);
        let table = self.used_table(number)?;
        self.session.declare_path(self.session.paths().insert);
        table.check_row(fixed, tail)?;
        table.check_keys(keys, self.is_loaded())?;
        table.check_entries(self.session.worker.pool.page_words(), keys)?;
        P::work(self.core(), Work::Access, 1);
        P::work(self.core(), Work::CopyWord, 2 * fixed.len().div_ceil(8) as u32);
        let record = words_of(fixed, tail);
        let primary = table.trees[0].key(keys[0]);
        for (index, (tree, key)) in table.trees.iter().zip(keys).enumerate() {
            let key = tree.key(key);
            let parts = match index {
                0 => RecordParts {
                    words: &record[..table.division.near(record.len())],
                    tail_bytes: tail.len(),
                },
                _ => RecordParts { words: primary, tail_bytes: 0 },
            };
            self.lock_key(number, *tree, key, LockMode::Exclude)?;
            let mut unknown = None;
            let behind = behind.get_mut(index).unwrap_or(&mut unknown);
            if !self.insert_entry(number, *tree, key, behind, parts)? {
                return Err(Abort::duplicate(number, index));
            }
        }
        self.put_pieces(table, primary, 0, &record)
    }

    /// Inserts an entry, when no other transaction relies on the gap that it splits; false if the
    /// key is there.
    ///
    /// Pre: the key is locked.
    fn insert_entry(
        &mut self,
        table: usize,
        tree: Tree,
        key: &[u64],
        behind: &mut Option<InsertionPlace<'d, P>>,
        parts: RecordParts<'_>,
    ) -> Result<bool, Abort> {
        let c = self.core();
        self.session.search_tree(1, self.session.paths().insert_entry);
        loop {
            let session = &mut *self.session;
            let is_alone = session.owner.locks.locks_nothing();
            let mut wanted = None;
            let own = if is_alone { 0 } else { name(tree.number, LockPlace::GapBelow, key) };
            let request = session.request(table, own, LockMode::Share);
            let (manager, locks) = (&session.shared.locks, &mut session.owner.locks);
            let mut guard = |next: NextKey| {
                let (place, key) = gap(&next);
                let above = name(tree.number, place, key);
                if !locks.is_free(manager, c, above, LockMode::IntentExclude) {
                    wanted = Some((above, LockMode::IntentExclude));
                    return false;
                }
                // A gap that the transaction itself relies on is divided: it relies on both parts.
                if locks.relies_on(above)
                    && locks.acquire(manager, c, request, None, &mut || ()) != LockAnswer::Granted
                {
                    wanted = Some((own, LockMode::Share));
                    return false;
                }
                true
            };
            let before = session.worker.meter.enter::<P>(c, Category::Index);
            let guard = (!is_alone).then_some(&mut guard);
            let inserted = tree.insert(&mut session.worker, key, &mut *behind, parts, guard);
            session.worker.meter.leave::<P>(c, before);
            match inserted? {
                Inserted::Done(ghost) => {
                    let back = match &ghost {
                        Some(before) => Takeback::Put { parts: before.parts(), ghost: true },
                        None => Takeback::Mark { ghost: true },
                    };
                    session.owner.undo.push(tree, key, 0, back);
                    return Ok(true);
                }
                Inserted::Exists => return Ok(false),
                Inserted::Refused => {
                    let (name, mode) = wanted.expect("the guard says what it wants");
                    session.lock(table, name, mode)?;
                }
            }
        }
    }

    /// Locks a row that was found, to change it.
    fn lock_row(&mut self, number: usize) -> Result<Tree, Abort> {
        let row = &self.session.rows[number];
        let (table, key) = (row.table, row.key.clone());
        let tree = self.table(table)?.trees[0];
        self.lock_key(table, tree, &key, LockMode::Exclude)?;
        Ok(tree)
    }

    /// Writes bytes of a row's fixed part, none of which belong to a key.
    pub(super) fn write_bytes(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        let number = self.number(row)?;
        let table = self.table(self.session.rows[number].table)?;
        table.check_write(offset, bytes.len(), self.is_loaded())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len();
        let is_of_key = table.key_bytes.iter().any(|key| offset < key.to && key.from < end);
        let keys: &[_] = if is_of_key { &table.key_bytes } else { &[] };
        let tree = self.lock_row(number)?;
        P::code(self.core(), Code::PagesWrite);
        self.session.declare_path(self.session.paths().update);
        P::work(self.core(), Work::CopyWord, 2 * bytes.len().div_ceil(8) as u32);
        let (first, last) = (offset / 8, end.div_ceil(8));
        let near = table.division.near_fixed();
        if last <= near {
            return self.write_span(RowPart { number, tree, piece: None }, first, offset, bytes, keys);
        }
        let (mut offset, mut bytes) = (offset, bytes);
        for span in table.division.spans(near, WordSpan { first, count: last - first }) {
            let (here, rest) = bytes.split_at(bytes.len().min(span.words * 8 - offset % 8));
            let tree = if span.piece.is_some() { self.overflow(number)?.1 } else { tree };
            let part = RowPart { number, tree, piece: span.piece };
            self.write_span(part, span.first, offset, here, keys)?;
            (offset, bytes) = (offset + here.len(), rest);
        }
        Ok(())
    }

    /// Writes bytes of a part of a row, which begin within word `first` there. They are those from
    /// `offset` on of the row's fixed part, in which keys take the bytes `keys`: these may be
    /// written as they are only.
    ///
    /// Pre: the row is locked.
    fn write_span(
        &mut self,
        part: RowPart,
        first: usize,
        offset: usize,
        bytes: &[u8],
        keys: &[KeyBytes],
    ) -> Result<(), Abort> {
        let RowPart { number, tree, piece } = part;
        let session = &mut *self.session;
        let row = &mut session.rows[number];
        let (key, hint) = match piece {
            None => (row.key.clone(), row.hint),
            Some(piece) => (session.shared.tables[row.table].division.piece_key(&row.key, piece), None),
        };
        let skipped = offset % 8;
        let (count, mut changes_key) = ((skipped + bytes.len()).div_ceil(8), false);
        let (mut before, mut after) = (Words::zero(count), Words::zero(count));
        let room = WriteRoom { before: &mut before, after: &mut after };
        let changed = tree.write(&mut session.worker, &key, hint, first, room, |after, is_ghost| {
            let place = &mut bytemuck::cast_slice_mut::<u64, u8>(after)[skipped..][..bytes.len()];
            changes_key = keys.iter().any(|key| key.are_changed(offset, place, bytes));
            place.copy_from_slice(bytes);
            !is_ghost && !changes_key
        })?;
        match changed {
            Some(hint) => {
                if piece.is_none() {
                    row.hint = Some(hint);
                }
                session.owner.undo.push(tree, &key, first, Takeback::Write { words: &before });
                Ok(())
            }
            None if changes_key => Err(Abort::Misuse(KEY_CHANGES)),
            None => Err(self.missing(number)),
        }
    }

    /// Replaces a row's tail, in which no column of a key changes.
    pub(super) fn write_tail_bytes(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort> {
        let number = self.number(row)?;
        let table = self.table(self.session.rows[number].table)?;
        if !table.key_tail.is_empty() {
            let mut before = Vec::new();
            self.read_tail_bytes(row, &mut before)?;
            if !tails_agree(&table.key_tail, &before, bytes) {
                return Err(Abort::Misuse(KEY_CHANGES));
            }
        }
        self.replace_record(row, None, bytes)
    }

    /// Replaces a row's tail; with `fixed`, its fixed part, too.
    pub(super) fn replace_record(
        &mut self,
        row: RowId,
        fixed: Option<&[u8]>,
        tail: &[u8],
    ) -> Result<(), Abort> {
        let number = self.number(row)?;
        let table = self.table(self.session.rows[number].table)?;
        if !tail.is_empty() || fixed.is_none() {
            table.check_tail()?;
        }
        table.check_write(0, fixed.map_or(0, <[u8]>::len), self.is_loaded())?;
        let tree = self.lock_row(number)?;
        P::code(self.core(), Code::PagesWrite);
        self.session.declare_path(self.session.paths().update);
        let mut words = vec![0; table.fixed_words];
        self.read_at(number, 0, &mut words)?;
        let fixed = fixed.unwrap_or(bytemuck::cast_slice(&words));
        table.check_row(fixed, tail)?;
        let pieces = self.pieces(number)?;
        let record = words_of(fixed, tail);
        P::work(self.core(), Work::CopyWord, 2 * record.len() as u32);
        let parts =
            RecordParts { words: &record[..table.division.near(record.len())], tail_bytes: tail.len() };
        let session = &mut *self.session;
        let key = session.rows[number].key.clone();
        let Some(before) = tree.replace(&mut session.worker, &key, parts, false)? else {
            return Err(self.missing(number));
        };
        session.owner.undo.push(tree, &key, 0, Takeback::Put { parts: before.parts(), ghost: false });
        self.put_pieces(table, &key, pieces, &record)
    }

    /// Deletes a row, which has these keys.
    pub(super) fn delete_row(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort> {
        let (c, number) = (self.core(), self.number(row)?);
        let at = self.session.rows[number].table;
        let table = self.table(at)?;
        table.check_keys(keys, self.is_loaded())?;
        let primary = table.trees[0].key(keys[0]);
        if primary != &self.session.rows[number].key[..] {
            return Err(Abort::Misuse("another primary key than that of the row"));
        }
        let mut pieces = 0;
        P::code(c, Code::PagesDelete);
        self.session.declare_path(self.session.paths().delete);
        for (tree, key) in table.trees.iter().zip(keys) {
            let key = tree.key(key);
            self.lock_key(at, *tree, key, LockMode::Exclude)?;
            if tree.number == table.trees[0].number {
                pieces = self.pieces(number)?;
            }
            let session = &mut *self.session;
            let before = session.worker.meter.enter::<P>(c, Category::Index);
            session.search_tree(1, session.paths().delete_entry);
            let marked = tree.mark(&mut session.worker, key, true);
            session.worker.meter.leave::<P>(c, before);
            match marked? {
                Some(false) => session.owner.undo.push(*tree, key, 0, Takeback::Mark { ghost: false }),
                _ => return Err(Abort::Misuse("keys that the row does not have")),
            }
        }
        self.session.rows[number].is_gone = true;
        self.session.gone.push(number);
        self.drop_pieces(table, primary, 0..pieces)
    }
}

/// A record of this fixed part and this tail.
fn words_of(fixed: &[u8], tail: &[u8]) -> Words {
    let mut words = Words::zero(fixed.len().div_ceil(8) + tail.len().div_ceil(8));
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    bytes[..fixed.len()].copy_from_slice(fixed);
    let at = fixed.len().next_multiple_of(8);
    bytes[at..at + tail.len()].copy_from_slice(tail);
    words
}
