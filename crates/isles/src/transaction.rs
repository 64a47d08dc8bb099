//! The verbs of a transaction over typed rows.

use std::borrow::Borrow;

use cc::Abort;
use engine::dynamic::{Span, is_key_column};
use engine::{Field, Row, Value};
use platform::Intent;

use crate::attempt::Transaction;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::range::KeyRange;
use crate::scan::Scan;
use crate::table::{Lookup, Table};

impl Transaction<'_> {
    /// The row with this key.
    pub fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.find_row(index.index(), key, Intent::Read)
    }

    /// The row with this key, which the transaction is going to change: under [`crate::Scheme::NoWait`] the row is locked for
    /// writing at once, so that the change cannot collide any more.
    pub fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.find_row(index.index(), key, Intent::Write)
    }

    /// One field, or group of fields, of the row with this key: cheaper than the whole row.
    pub fn get_field<L: Lookup, V: Value>(
        &mut self,
        index: L,
        key: &L::Key,
        field: Field<L::Row, V>,
    ) -> Result<Option<V>> {
        let index = index.index();
        let Some(found) = self.find(index, key, Intent::Read)? else { return Ok(None) };
        let span = Span { offset: field.offset(), bytes: V::BYTES };
        let words = &mut self.state.words;
        words.clear();
        words.resize(span.words(), 0);
        let read = self.verbs.read(found, span, words);
        self.check(read)?;
        let bytes: &[u8] = bytemuck::cast_slice(&self.state.words);
        Ok(Some(V::fetch(&bytes[field.offset() % 8..])))
    }

    /// Whether there is a row with this key. The absence of a row is protected too: the answer still holds when the transaction
    /// commits.
    pub fn exists<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<bool> {
        Ok(self.find(index.index(), key, Intent::Read)?.is_some())
    }

    /// The rows with keys in `range`, in the order of the index: see [`Scan`]. No row is read before a method of the scan is
    /// called that runs it.
    pub fn scan<L: Lookup>(&mut self, index: L, range: impl KeyRange<L::Key>) -> Scan<'_, L::Row, L::Key> {
        Scan::new(self.again(), index.index(), range.normalized())
    }

    /// Inserts a row.
    ///
    /// Errors: [`Error::Duplicate`] if its primary key or the key of a unique index is taken; [`Error::OutOfMemory`].
    pub fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
        self.enter(table)?;
        self.insert_row(table, row)
    }

    /// Inserts several rows, as [`Self::insert`] each, in order, up to the first error. That is faster if their keys follow each other, like
    /// those of the lines of an order: the index of a table that has one is changed once for several rows. (Rows with a variable-length part
    /// are inserted one by one.)
    ///
    /// Errors: as [`Self::insert`].
    pub fn insert_all<R: Row>(
        &mut self,
        table: Table<R>,
        rows: impl IntoIterator<Item: Borrow<R>>,
    ) -> Result<()> {
        self.enter(table)?;
        if R::HAS_TAIL {
            return rows.into_iter().try_for_each(|row| self.insert_row(table, row.borrow()));
        }
        self.state.batch.clear();
        for row in rows {
            self.check_share_of(table, row.borrow())?;
            self.state.batch.push(row.borrow());
        }
        let inserted = self.verbs.insert_all(table.inner.number(), self.state.batch.rows());
        self.check(inserted)
    }

    /// Inserts a row, or replaces the row with the same primary key; gives the row that was there.
    ///
    /// Errors: as [`Self::insert`] for other unique indexes.
    pub fn upsert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<Option<R>> {
        match self.find(table.index(), &row.key(), Intent::Write)? {
            None => self.insert_row(table, row).map(|()| None),
            Some(found) => {
                let old = self.read_row(table, found)?;
                self.rewrite(table, found, row)?;
                Ok(Some(old))
            }
        }
    }

    /// Lets `change` change the row with this key, keys included, and gives what `change` returned; `None` if there is no
    /// such row.
    ///
    /// Errors: as [`Self::insert`], if keys change.
    pub fn update<L: Lookup, T>(
        &mut self,
        index: L,
        key: &L::Key,
        change: impl FnOnce(&mut L::Row) -> T,
    ) -> Result<Option<T>> {
        let index = index.index();
        match self.find(index, key, Intent::Write)? {
            None => Ok(None),
            Some(found) => self.update_row(index.table(), found, change).map(Some),
        }
    }

    /// Writes one field, or group of fields, of the row with this key, without reading the row; false if there is no such row.
    ///
    /// Errors: [`Error::Misuse`] if the field belongs to a key: such a row changes through [`Self::update`].
    pub fn set_field<L: Lookup, V: Value>(
        &mut self,
        index: L,
        key: &L::Key,
        field: Field<L::Row, V>,
        value: &V,
    ) -> Result<bool> {
        let index = index.index();
        if is_key_column(field) {
            let abort = Abort::Misuse("a key column changes through `update` or `upsert`, not as a field");
            return self.check(Err(abort));
        }
        let Some(found) = self.find(index, key, Intent::Write)? else { return Ok(false) };
        let fresh = &mut self.state.fresh;
        fresh.clear();
        fresh.resize(V::BYTES.div_ceil(8), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(fresh);
        value.store(&mut bytes[..V::BYTES]);
        let written = self.verbs.write(found, field.offset(), &bytes[..V::BYTES]);
        self.check(written)?;
        Ok(true)
    }

    /// Deletes the row with this key, and gives it back; `None` if there is no such row.
    pub fn delete<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        let index = index.index();
        match self.find(index, key, Intent::Write)? {
            None => Ok(None),
            Some(found) => self.delete_row(index.table(), found).map(Some),
        }
    }

    /// Which attempt this is, from 1 on.
    pub fn attempt(&self) -> u32 {
        self.state.attempts
    }
}
