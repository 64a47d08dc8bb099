//! The verbs over numbers, words and bytes, as a trait object: for callers that know row types at run time only, or that
//! want one compiled copy of the engine whatever rows and scheme their own callers choose (the embedded API).
//!
//! After a verb has failed the transaction can only roll back, as with [`crate::Verbs`].

use cc::{Abort, Category, Holder, Scheme};
use platform::{Intent, Platform, Work};
use storage::Index;
use storage::tree::Direction;

use super::Transaction;
use crate::row::{Field, Row, Value};
use crate::row_keys::{self, touches_key};
use crate::table::RowId;

/// What a scan calls with each row; false ends it.
pub type Visitor<'v> = dyn FnMut(&mut dyn ErasedVerbs, RowId) -> Result<bool, Abort> + 'v;

/// The verbs of a transaction. Tables and indexes are named by their numbers, rows by the [`RowId`]s that the verbs gave;
/// keys are normalized words, as many as the index compares.
///
/// Numbers that the catalog does not have, keys, rows and tails of other lengths than it says, rows of other transactions and
/// writes that would change a key are [`Abort::Misuse`]. The engine cannot tell whether the keys that a row is inserted or
/// deleted with are those that the row's content gives: a row with other keys is not found under its own keys, and its memory
/// stays in use.
pub trait ErasedVerbs {
    /// Looks a key up; see [`crate::Verbs::find`].
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowId>, Abort>;

    /// Copies words of a row's fixed part, from number `first` on.
    fn read(&mut self, row: RowId, first: usize, out: &mut [u64]) -> Result<(), Abort>;

    /// Appends the row's tail to `out`. The table has tails.
    fn read_tail(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort>;

    /// Writes bytes of the row's fixed part. Bytes that belong to keys must stay as they are.
    fn write(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort>;

    /// Replaces the row's tail. The table has tails.
    fn write_tail(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort>;

    /// Inserts a row with these keys, one an index.
    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort>;

    /// Deletes a row, which has these keys, one an index.
    fn delete(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort>;

    /// Visits the rows with keys in `range`, both ends included, until the visitor returns false.
    fn scan(
        &mut self,
        table: usize,
        index: usize,
        range: (&[u64], &[u64]),
        direction: Direction,
        intent: Intent,
        visit: &mut Visitor<'_>,
    ) -> Result<(), Abort>;
}

impl<'i, P: Platform, S: Scheme<P>> Transaction<'_, 'i, P, S> {
    /// An index of a table; an error if there is none, or if its keys are not as long as `key`.
    #[inline(always)]
    fn index_for(&mut self, table: usize, index: usize, key: &[u64]) -> Result<&'i Index<P>, Abort> {
        let tables = self.session.context().tables;
        match tables.get(table).and_then(|table| table.indexes.get(index)) {
            Some(index) if index.words == key.len() => Ok(index),
            Some(_) => self.misuse("a key of another length than those of the index"),
            None => self.misuse("no such table or index"),
        }
    }

    /// Refuses bytes from `offset` on that would change a key of the row.
    #[inline]
    fn keep_keys(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        let (inner, cx) = self.parts();
        let table = &cx.tables[S::table_of(inner, row)];
        let end = offset.saturating_add(bytes.len());
        for (from, to) in &table.key_bytes {
            let (from, to) = ((*from).max(offset), (*to).min(end));
            if from < to && *self.read_bytes(row, from, to)? != bytes[from - offset..to - offset] {
                return self.misuse("bytes of a key change by deleting the row and inserting another");
            }
        }
        Ok(())
    }

    /// Bytes of a row, as the transaction sees them.
    fn read_bytes(&mut self, row: u32, from: usize, to: usize) -> Result<&[u8], Abort> {
        let first = from / 8;
        let mut words = std::mem::take(&mut self.scratch.words);
        words.clear();
        words.resize(to.div_ceil(8) - first, 0);
        let read = call!(self, |inner, cx| S::read(inner, cx, row, first, &mut words));
        self.scratch.words = words;
        read?;
        Ok(&bytemuck::cast_slice(&self.scratch.words)[from - first * 8..to - first * 8])
    }
}

impl<P: Platform, S: Scheme<P>> ErasedVerbs for Transaction<'_, '_, P, S> {
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowId>, Abort> {
        self.count_verb()?;
        let storage = self.index_for(table, index, key)?;
        call!(self, |inner, cx| S::approach(inner, cx, table, index, key))?;
        let cx = self.session.context();
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Index);
        let lookup = storage.partition(key).get(cx.c, key);
        cx.worker.meter.leave::<P>(cx.c, before);
        let found = call!(self, |inner, cx| S::access(inner, cx, table, index, key, lookup, intent))?;
        Ok(found.map(|number| self.row_id(number)))
    }

    fn read(&mut self, row: RowId, first: usize, out: &mut [u64]) -> Result<(), Abort> {
        P::work(self.session.core(), Work::CopyWord, out.len() as u32);
        let row = self.number(row)?;
        call!(self, |inner, cx| S::read(inner, cx, row, first, out))
    }

    fn read_tail(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort> {
        let row = self.number(row)?;
        call!(self, |inner, cx| S::read_tail(inner, cx, row, out))
    }

    fn write(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        let row = self.number(row)?;
        self.keep_keys(row, offset, bytes)?;
        call!(self, |inner, cx| S::write(inner, cx, row, offset, bytes))
    }

    fn write_tail(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort> {
        let row = self.number(row)?;
        call!(self, |inner, cx| S::write_tail(inner, cx, row, bytes))
    }

    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        self.count_verb()?;
        if table >= self.session.context().tables.len() {
            return self.misuse("no such table");
        }
        P::work(self.session.core(), Work::CopyWord, (fixed.len() / 8) as u32);
        call!(self, |inner, cx| S::insert(inner, cx, table, keys, fixed, tail))
    }

    fn delete(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort> {
        self.count_verb()?;
        let row = self.number(row)?;
        call!(self, |inner, cx| S::delete(inner, cx, row, keys))
    }

    fn scan(
        &mut self,
        table: usize,
        index: usize,
        range: (&[u64], &[u64]),
        direction: Direction,
        intent: Intent,
        visit: &mut Visitor<'_>,
    ) -> Result<(), Abort> {
        self.count_verb()?;
        self.index_for(table, index, range.1)?;
        if self.index_for(table, index, range.0)?.partition(range.0).is_hash() {
            return self.misuse("a hash index has no order to scan");
        }
        if range.0 > range.1 {
            return Ok(());
        }
        let scanned = S::scan(self, table, index, range, direction, intent, &mut |transaction, row| {
            transaction.count_verb()?;
            let row = transaction.row_id(row);
            visit(transaction, row)
        });
        self.note(scanned)
    }
}

/// Calls `body` with the normalized keys of a row, one an index.
pub fn with_keys<R: Row, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    row_keys::with_keys(row, body)
}

/// Whether a field (or a group of fields) holds bytes of a key.
pub fn is_key_column<R: Row, V: Value>(field: Field<R, V>) -> bool {
    touches_key::<R>(field.offset(), field.offset() + V::BYTES)
}
