//! The verbs of a transaction over typed rows.

use std::borrow::Borrow;

use platform::Intent;
use schema::Row;
use schema::row_keys::{has_long_keys, with_keys};

use crate::attempt::{Transaction, image};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::range::KeyRange;
use crate::scan::Scan;
use crate::select::{Assign, Select};
use crate::table::{Lookup, Table};

impl<'t> Transaction<'t> {
    pub(crate) fn into_scan<L: Lookup>(
        self,
        index: L,
        range: impl KeyRange<L::Key>,
    ) -> Scan<'t, L::Row, L::Key> {
        Scan::new(self, index.index(), range.normalized())
    }
}

impl Transaction<'_> {
    /// Returns the row with this key, or `None`.
    ///
    /// [`Transaction`] has an example.
    pub fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.find_row(index.index(), key, Intent::Read)
    }

    /// Returns the row with this key, which the transaction is going to change. Under
    /// [`crate::Scheme::NoWait`] the row is locked for writing at once, so that the later change
    /// cannot conflict.
    ///
    /// [`Transaction`] has an example.
    pub fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.find_row(index.index(), key, Intent::Write)
    }

    /// Returns the row with this key, which no other transaction changes until this one ends
    /// (`SELECT .. FOR UPDATE`): with its commit the row is as it was read, whether or not the
    /// transaction has changed it.
    ///
    /// Under the schemes that lock and over pages others wait for the row, or conflict. Under the
    /// optimistic schemes another transaction may change it: then this one conflicts at its commit.
    /// (Under [`crate::Scheme::TicToc`] a transaction that has not changed the row may commit as if
    /// before the other one.) [`crate::Scan::lock_or_skip`] locks the rows of a range that are
    /// free.
    ///
    /// [`Transaction`] has an example.
    pub fn lock<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.find_row(index.index(), key, Intent::Write)
    }

    /// Returns one field, a group of fields, or a tuple of fields of the row with this key. This is
    /// cheaper than reading the whole row.
    ///
    /// [`Transaction`] has an example.
    pub fn get_field<L: Lookup, F: Select<L::Row>>(
        &mut self,
        index: L,
        key: &L::Key,
        field: F,
    ) -> Result<Option<F::Value>> {
        self.find_fields(index.index(), key, field)
    }

    /// Returns the rows with these keys, in the order of the keys. This is faster than one
    /// [`Self::get`] for each key, because the memory accesses of the lookups overlap.
    ///
    /// ```
    /// # use isles::{Database, Row};
    /// # #[derive(Row, Debug, PartialEq)]
    /// # #[row(key(id))]
    /// # struct Account { id: u64, balance: i64 }
    /// # let mut builder = Database::in_memory();
    /// # let accounts = builder.table::<Account>("accounts");
    /// # let database = builder.open()?;
    /// # database.transaction(|t| t.insert(accounts, &Account { id: 3, balance: 5 }))?;
    /// let found = database.transaction(|t| t.get_many(accounts, [3, 4]))?;
    /// assert_eq!(found, [Some(Account { id: 3, balance: 5 }), None]);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn get_many<L: Lookup>(
        &mut self,
        index: L,
        keys: impl IntoIterator<Item: Borrow<L::Key>>,
    ) -> Result<Vec<Option<L::Row>>> {
        let found = self.find_many(index.index(), keys)?;
        found.into_iter().map(|found| found.map(|found| self.read_row(found)).transpose()).collect()
    }

    /// Returns true if there is a row with this key. The absence of a row is protected too: the
    /// answer still holds when the transaction commits.
    ///
    /// [`Transaction`] has an example.
    pub fn exists<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<bool> {
        Ok(self.find(index.index(), key, Intent::Read)?.is_some())
    }

    /// Returns a scan of the rows with keys in `range`, in the order of the index: see [`Scan`].
    /// The scan reads no row before one of its methods runs it.
    ///
    /// [`Transaction`] has an example.
    pub fn scan<L: Lookup>(&mut self, index: L, range: impl KeyRange<L::Key>) -> Scan<'_, L::Row, L::Key> {
        self.again().into_scan(index, range)
    }

    /// Inserts a row.
    ///
    /// Errors: [`Error::Duplicate`] if its primary key or the key of a unique index is taken;
    /// [`Error::OutOfMemory`].
    ///
    /// [`Transaction`] has an example.
    pub fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
        self.enter(table)?;
        self.insert_row(table, row)
    }

    /// Inserts several rows in order, up to the first error. This is faster than [`Self::insert`]
    /// for each row if the keys are consecutive, like the lines of an order, and the table has only
    /// one index: several rows then share one change of the index. Rows with a variable-length part
    /// are inserted one by one.
    ///
    /// Errors: as [`Self::insert`].
    ///
    /// [`Transaction`] has an example.
    pub fn insert_all<R: Row>(
        &mut self,
        table: Table<R>,
        rows: impl IntoIterator<Item: Borrow<R>>,
    ) -> Result<()> {
        self.enter(table)?;
        if R::HAS_TAIL || has_long_keys::<R>() || self.plan(table.inner.number()).is_some() {
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

    /// Inserts a row, unless its primary key or the key of a unique index is taken. Returns true if
    /// the row was inserted. The transaction continues in both cases, and the answer still holds
    /// when it commits.
    ///
    /// Errors: [`Error::OutOfMemory`].
    ///
    /// [`Transaction`] has an example.
    pub fn insert_or_ignore<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<bool> {
        self.enter(table)?;
        if let Some(plan) = self.plan(table.inner.number()) {
            return self.insert_kept_or_ignore(plan, image(row));
        }
        self.check_share_of(table, row)?;
        self.check_keys(table, row)?;
        let number = table.inner.number();
        let taken = with_keys(row, |keys| {
            for (index, key) in keys.iter().enumerate().filter(|(index, _)| R::INDEXES[*index].unique) {
                if self.verbs.find(number, index, key, Intent::Read)?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        if self.check(taken)? {
            return Ok(false);
        }
        self.insert_row(table, row).map(|()| true)
    }

    /// Inserts a row, or replaces the row with the same primary key. Returns the replaced row.
    ///
    /// Errors: as [`Self::insert`] for other unique indexes.
    ///
    /// [`Transaction`] has an example.
    pub fn upsert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<Option<R>> {
        match self.find(table.index(), &row.key(), Intent::Write)? {
            None => self.insert_row(table, row).map(|()| None),
            Some(found) => {
                let old = self.read_row(found)?;
                self.rewrite(table, found, row)?;
                Ok(Some(old))
            }
        }
    }

    /// Inserts a row, or calls `merge` with the row that has the same primary key and writes the
    /// merged row. Returns true if the row was inserted.
    ///
    /// Errors: as [`Self::insert`] for other unique indexes.
    ///
    /// [`Transaction`] has an example.
    pub fn upsert_with<R: Row>(
        &mut self,
        table: Table<R>,
        row: &R,
        merge: impl FnOnce(&mut R),
    ) -> Result<bool> {
        match self.find(table.index(), &row.key(), Intent::Write)? {
            None => self.insert_row(table, row).map(|()| true),
            Some(found) => self.update_row(table, found, merge).map(|()| false),
        }
    }

    /// Changes the row of this key as [`Self::update`] does, if it meets `condition`. Returns
    /// whether it did, or `None` if there is no such row. The transaction continues in each case,
    /// and the answer still holds when it commits.
    ///
    /// Errors: as [`Self::update`].
    ///
    /// [`Transaction`] has an example.
    pub fn update_if<L: Lookup>(
        &mut self,
        index: L,
        key: &L::Key,
        condition: impl FnOnce(&L::Row) -> bool,
        change: impl FnOnce(&mut L::Row),
    ) -> Result<Option<bool>> {
        let index = index.index();
        let Some(found) = self.find(index, key, Intent::Write)? else { return Ok(None) };
        let mut row = self.read_row(found)?;
        if !condition(&row) {
            return Ok(Some(false));
        }
        change(&mut row);
        self.rewrite(index.table(), found, &row)?;
        Ok(Some(true))
    }

    /// Calls `change` with the row of this key and writes the changed row; keys may change too.
    /// Returns the result of `change`, or `None` if there is no such row.
    ///
    /// Errors: as [`Self::insert`], if keys change.
    ///
    /// [`Transaction`] has an example.
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

    /// Writes one field, or group of fields, of the row with this key, without reading the row.
    /// Returns false if there is no such row.
    ///
    /// Errors: [`Error::Misuse`] if the field belongs to a key: use [`Self::update`] to change
    /// keys.
    ///
    /// [`Transaction`] has an example.
    pub fn set_field<L: Lookup, F: Assign<L::Row>>(
        &mut self,
        index: L,
        key: &L::Key,
        field: F,
        value: &F::Value,
    ) -> Result<bool> {
        self.refuse_key_column(field)?;
        let Some(found) = self.find(index.index(), key, Intent::Write)? else { return Ok(false) };
        self.write_field(index.index().table(), found, field, value)?;
        Ok(true)
    }

    /// Calls `change` with one field, or group of fields, of the row with this key, and writes the
    /// changed field. Returns the result of `change`, or `None` if there is no such row. The row is
    /// looked up once, and no other field is read or written.
    ///
    /// Errors: as [`Self::set_field`].
    ///
    /// [`Transaction`] has an example.
    pub fn update_field<L: Lookup, F: Assign<L::Row>, T>(
        &mut self,
        index: L,
        key: &L::Key,
        field: F,
        change: impl FnOnce(&mut F::Value) -> T,
    ) -> Result<Option<T>> {
        self.refuse_key_column(field)?;
        let Some(found) = self.find(index.index(), key, Intent::Write)? else { return Ok(None) };
        let mut value = self.read_fields(found, field)?;
        let result = change(&mut value);
        self.write_field(index.index().table(), found, field, &value)?;
        Ok(Some(result))
    }

    /// Deletes the row with this key. Returns the deleted row, or `None` if there is no such row.
    ///
    /// [`Transaction`] has an example.
    pub fn delete<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        match self.find(index.index(), key, Intent::Write)? {
            None => Ok(None),
            Some(found) => self.delete_row(index.index().table(), found).map(Some),
        }
    }

    /// Returns the number of the current attempt, from 1 on.
    ///
    /// [`Transaction`] has an example.
    pub fn attempt(&self) -> u32 {
        self.state.attempts
    }
}
