//! The verbs over numbers, words and bytes, as a trait object: for callers that know row types at run time only, or that
//! want one compiled copy of the engine whatever rows and scheme their own callers choose (the embedded API).
//!
//! A verb that fails leaves the transaction fit for nothing but rolling back, as in [`crate::Verbs`].

use cc::{Abort, Category, Holder, Scheme};
use platform::{Intent, Platform, Work};
use storage::tree::Direction;

use super::Transaction;
use super::row_keys::touches_key;
use crate::row::{Field, Row, Value};

/// What a scan calls with each row; false ends it.
pub type Visitor<'v> = dyn FnMut(&mut dyn ErasedVerbs, u32) -> Result<bool, Abort> + 'v;

/// The verbs of a transaction. Tables and indexes are named by their numbers, rows by their number in the transaction;
/// keys are normalized words, as many as the index compares.
///
/// Numbers, lengths of keys and lengths of rows must be those of the catalog: the caller has checked them.
pub trait ErasedVerbs {
    /// Looks a key up; see [`crate::Verbs::find`].
    fn find(&mut self, table: usize, index: usize, key: &[u64], intent: Intent)
    -> Result<Option<u32>, Abort>;

    /// Copies words of a row's fixed part, from number `first` on.
    fn read(&mut self, row: u32, first: usize, out: &mut [u64]) -> Result<(), Abort>;

    /// Appends the row's tail to `out`. The table has tails.
    fn read_tail(&mut self, row: u32, out: &mut Vec<u8>) -> Result<(), Abort>;

    /// Writes bytes of the row's fixed part, which belong to no key.
    fn write(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort>;

    /// Replaces the row's tail. The table has tails.
    fn write_tail(&mut self, row: u32, bytes: &[u8]) -> Result<(), Abort>;

    /// Inserts a row with these keys, one an index.
    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort>;

    /// Deletes a row, which has these keys, one an index.
    fn delete(&mut self, row: u32, keys: &[&[u64]]) -> Result<(), Abort>;

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

impl<P: Platform, S: Scheme<P>> ErasedVerbs for Transaction<'_, '_, P, S> {
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<u32>, Abort> {
        self.count_verb()?;
        let (inner, mut cx) = self.parts();
        S::approach(inner, &mut cx, table, index, key)?;
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Index);
        let lookup = cx.tables[table].indexes[index].partition(key).get(cx.c, key);
        cx.worker.meter.leave::<P>(cx.c, before);
        let (inner, mut cx) = self.parts();
        S::access(inner, &mut cx, table, index, key, lookup, intent)
    }

    fn read(&mut self, row: u32, first: usize, out: &mut [u64]) -> Result<(), Abort> {
        P::work(self.session.core(), Work::CopyWord, out.len() as u32);
        let (inner, mut cx) = self.parts();
        S::read(inner, &mut cx, row, first, out)
    }

    fn read_tail(&mut self, row: u32, out: &mut Vec<u8>) -> Result<(), Abort> {
        let (inner, mut cx) = self.parts();
        S::read_tail(inner, &mut cx, row, out)
    }

    fn write(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        let (inner, mut cx) = self.parts();
        S::write(inner, &mut cx, row, offset, bytes)
    }

    fn write_tail(&mut self, row: u32, bytes: &[u8]) -> Result<(), Abort> {
        let (inner, mut cx) = self.parts();
        S::write_tail(inner, &mut cx, row, bytes)
    }

    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        self.count_verb()?;
        P::work(self.session.core(), Work::CopyWord, (fixed.len() / 8) as u32);
        let (inner, mut cx) = self.parts();
        S::insert(inner, &mut cx, table, keys, fixed, tail)
    }

    fn delete(&mut self, row: u32, keys: &[&[u64]]) -> Result<(), Abort> {
        self.count_verb()?;
        let (inner, mut cx) = self.parts();
        S::delete(inner, &mut cx, row, keys)
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
        if self.session.context().tables[table].indexes[index].partition(range.0).is_hash() {
            return Err(Abort::Misuse("a hash index has no order to scan"));
        }
        if range.0 > range.1 {
            return Ok(());
        }
        S::scan(self, table, index, range, direction, intent, &mut |transaction, row| {
            transaction.count_verb()?;
            visit(transaction, row)
        })
    }
}

/// Calls `body` with the normalized keys of a row, one an index.
pub fn with_keys<R: Row, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    super::with_keys(row, body)
}

/// Whether a field (or a group of fields) holds bytes of a key.
pub fn is_key_column<R: Row, V: Value>(field: Field<R, V>) -> bool {
    touches_key::<R>(field.offset(), field.offset() + V::BYTES)
}
