//! The verbs of a transaction over typed rows.

use cc::Abort;
use engine::key::key_words;
use engine::transaction::erased::{ErasedVerbs, is_key_column, with_keys};
use engine::{Field, Key, KeyBuffer, Row, RowId, Value};
use platform::Intent;

use crate::database::Shared;
use crate::error::{Error, Result};
use crate::options::CancelToken;
use crate::range::KeyRange;
use crate::scan::Scan;
use crate::table::{Index, Lookup, Table};

/// Why the current attempt is over.
pub(crate) struct Failure {
    pub(crate) abort: Abort,
    pub(crate) table: &'static str,
    error: Error,
}

/// What a session keeps for its transactions.
#[derive(Default)]
pub(crate) struct State {
    /// Attempts of the transaction at hand.
    pub(crate) attempts: u32,
    /// The first verb that failed in this attempt: no other follows.
    pub(crate) failed: Option<Failure>,
    /// The body returned an error after a verb had failed for good: that error is what the caller gets.
    pub(crate) passed_on: bool,
    /// Fixed part of the row that was read last.
    words: Vec<u64>,
    /// Its tail.
    tail: Vec<u8>,
    /// Fixed part of a row to write.
    fresh: Vec<u64>,
}

/// A running transaction: what [`crate::Session::transaction`] gives to its body.
///
/// Rows are found by a table's primary key or by one of its indexes: wherever a verb takes `index`, it takes a [`Table`],
/// or an [`Index`] such as `accounts.by(Account::BY_EMAIL)`. A transaction reads what it has written.
///
/// All verbs may fail with [`Error::Conflict`], [`Error::Deadline`], [`Error::Cancelled`], [`Error::TooLarge`] (more than
/// about a million rows) and [`Error::Misuse`] (a table of another database, for example); others are named with the
/// verb. After an error the attempt is over: every further verb returns the same error.
pub struct Transaction<'t> {
    pub(crate) verbs: &'t mut (dyn ErasedVerbs + 't),
    pub(crate) state: &'t mut State,
    pub(crate) shared: &'t Shared,
    pub(crate) cancel: Option<&'t CancelToken>,
}

impl Transaction<'_> {
    /// The row with this key.
    pub fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.take_row(index.index(), key, Intent::Read)
    }

    /// The row with this key, which the transaction is going to change: under [`crate::Scheme::NoWait`] it is locked for
    /// that at once, so that the change cannot collide any more.
    pub fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
        self.take_row(index.index(), key, Intent::Write)
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
        let (first, end) = (field.offset() / 8, (field.offset() + V::BYTES).div_ceil(8));
        let words = &mut self.state.words;
        words.clear();
        words.resize(end - first, 0);
        let read = self.verbs.read(found, first, words);
        self.check(read, index.table())?;
        let bytes: &[u8] = bytemuck::cast_slice(&self.state.words);
        Ok(Some(V::fetch(&bytes[field.offset() % 8..])))
    }

    /// Whether there is a row with this key. Its absence is protected too: it holds when the transaction commits.
    pub fn exists<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<bool> {
        Ok(self.find(index.index(), key, Intent::Read)?.is_some())
    }

    /// The rows with keys in `range`, in the order of the index: see [`Scan`]. Nothing happens before one of its methods
    /// is called that give rows.
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

    /// Inserts a row, or replaces the one with the same primary key; gives the row that was there.
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

    /// Writes one field, or group of fields, of the row with this key, without reading the row; false if there is none.
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
        let table = index.table();
        if is_key_column(field) {
            let abort = Abort::Misuse("a key column changes through `update` or `upsert`, not as a field");
            return self.check(Err(abort), table);
        }
        let Some(found) = self.find(index, key, Intent::Write)? else { return Ok(false) };
        let fresh = &mut self.state.fresh;
        fresh.clear();
        fresh.resize(V::BYTES.div_ceil(8), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(fresh);
        value.store(&mut bytes[..V::BYTES]);
        let written = self.verbs.write(found, field.offset(), &bytes[..V::BYTES]);
        self.check(written, table)?;
        Ok(true)
    }

    /// Deletes the row with this key, and gives it back; `None` if there is none.
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

    /// The same transaction for a shorter while.
    pub(crate) fn again(&mut self) -> Transaction<'_> {
        Transaction {
            verbs: &mut *self.verbs,
            state: &mut *self.state,
            shared: self.shared,
            cancel: self.cancel,
        }
    }

    /// Before each verb: whether this attempt is to go on, and with this table.
    pub(crate) fn enter<R: Row>(&mut self, table: Table<R>) -> Result<()> {
        if let Some(failure) = &self.state.failed {
            return Err(failure.error.clone());
        }
        if table.database != self.shared.id {
            return self.check(Err(Abort::Misuse("a table of another database")), table);
        }
        self.check_cancelled(table)
    }

    #[inline]
    pub(crate) fn check_cancelled<R: Row>(&mut self, table: Table<R>) -> Result<()> {
        match self.cancel {
            Some(token) if token.is_cancelled() => self.check(Err(Abort::Cancelled), table),
            _ => Ok(()),
        }
    }

    /// Remembers a failure of the engine.
    #[inline]
    pub(crate) fn check<R: Row, T>(&mut self, result: Result<T, Abort>, table: Table<R>) -> Result<T> {
        result.map_err(|abort| {
            let table = match table.database == self.shared.id {
                true => self.shared.tables[table.inner.number()].name,
                false => "",
            };
            let error = Error::from_abort(&abort, table, self.state.attempts);
            self.state.failed.get_or_insert(Failure { abort, table, error }).error.clone()
        })
    }

    fn find<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, intent: Intent) -> Result<Option<RowId>> {
        self.enter(index.table())?;
        let key = KeyBuffer::of(key);
        let words = key.words(const { key_words(K::BITS) });
        let inner = index.inner;
        let found = self.verbs.find(inner.table().number(), inner.number(), words, intent);
        self.check(found, index.table())
    }

    fn take_row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, intent: Intent) -> Result<Option<R>> {
        match self.find(index, key, intent)? {
            None => Ok(None),
            Some(found) => self.read_row(index.table(), found).map(Some),
        }
    }

    /// Reads a row; its bytes stay in the state.
    pub(crate) fn read_row<R: Row>(&mut self, table: Table<R>, found: RowId) -> Result<R> {
        let State { words, tail, .. } = &mut *self.state;
        words.clear();
        words.resize(R::BYTES / 8, 0);
        tail.clear();
        let mut read = self.verbs.read(found, 0, words);
        if R::HAS_TAIL && read.is_ok() {
            read = self.verbs.read_tail(found, tail);
        }
        self.check(read, table)?;
        Ok(R::fetch(bytemuck::cast_slice(&self.state.words), &self.state.tail))
    }

    pub(crate) fn update_row<R: Row, T>(
        &mut self,
        table: Table<R>,
        found: RowId,
        change: impl FnOnce(&mut R) -> T,
    ) -> Result<T> {
        let mut row: R = self.read_row(table, found)?;
        let value = change(&mut row);
        self.rewrite(table, found, &row)?;
        Ok(value)
    }

    pub(crate) fn delete_row<R: Row>(&mut self, table: Table<R>, found: RowId) -> Result<R> {
        let row = self.read_row(table, found)?;
        let deleted = with_keys(&row, |keys| self.verbs.delete(found, keys));
        self.check(deleted, table)?;
        Ok(row)
    }

    /// Replaces a row that was read last.
    fn rewrite<R: Row>(&mut self, table: Table<R>, found: RowId, row: &R) -> Result<()> {
        let old = R::fetch(bytemuck::cast_slice(&self.state.words), &self.state.tail);
        if with_keys(&old, |before| with_keys(row, |after| before != after)) {
            let deleted = with_keys(&old, |keys| self.verbs.delete(found, keys));
            self.check(deleted, table)?;
            return self.insert_row(table, row);
        }
        let State { words, tail, fresh, .. } = &mut *self.state;
        encode(row, fresh);
        let mut written = Ok(());
        if fresh != words {
            written = self.verbs.write(found, 0, bytemuck::cast_slice(fresh));
        }
        if R::HAS_TAIL && written.is_ok() && tail != row.tail() {
            written = self.verbs.write_tail(found, row.tail());
        }
        self.check(written, table)
    }

    fn insert_row<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
        encode(row, &mut self.state.fresh);
        let fixed = bytemuck::cast_slice(&self.state.fresh);
        let number = table.inner.number();
        let inserted = with_keys(row, |keys| self.verbs.insert(number, keys, fixed, row.tail()));
        self.check(inserted, table)
    }
}

impl<R: Row, K: Key> Index<R, K> {
    /// The table it belongs to.
    pub(crate) fn table(self) -> Table<R> {
        Table { inner: self.inner.table(), database: self.database }
    }
}

/// Writes the fixed part of a row to `words`.
fn encode<R: Row>(row: &R, words: &mut Vec<u64>) {
    words.clear();
    words.resize(R::BYTES / 8, 0);
    row.store(bytemuck::cast_slice_mut(words));
}
