//! An attempt of a transaction: the state that verbs and scans share, the end of an attempt by its
//! first error, and operations on a row that was found. The public verbs are in `transaction.rs`.

use std::borrow::Borrow;
use std::time::Duration;

use boundary::{AnyVerbs, RowBatch, Span};
use platform::{Intent, Nanos};
use schema::key::SHORT_KEY_BITS;
use schema::row_keys::{too_long_key, with_keys};
use schema::{AnyKey, Key, Row, RowBytes, RowId};
use terms::Abort;
use terms::rows::TableIndex;

use crate::altered_tables::Altered;
use crate::error::{Error, Result, key_taken};
use crate::options::CancelToken;
use crate::plans::{DeferredReference, Plans};
use crate::select::{Assign, Select};
use crate::shared::{DatabaseShared, StepLimit};
use crate::table::{Index, Table};

/// Words of fields that are read without the session's buffer.
const FEW_WORDS: usize = 4;

/// Error that ended the current attempt.
pub(crate) struct Failure {
    pub(crate) abort: Abort,
    pub(crate) error: Error,
}

/// State and buffers that a session keeps for its transactions.
#[derive(Default)]
pub(crate) struct TransactionState {
    /// Attempts of the current transaction so far.
    pub(crate) attempts: u32,
    /// The first verb that failed in this attempt: no verb runs after it.
    pub(crate) failed: Option<Failure>,
    /// True if the body returned an error after a verb had failed: the caller gets that error.
    pub(crate) passed_on: bool,
    /// True if the attempt before failed because there was no memory.
    pub(crate) lacked_memory: bool,
    /// Fixed part of the row that was read last.
    pub(crate) words: Vec<u64>,
    /// Tail of that row.
    tail: Vec<u8>,
    /// Fixed part of a row to write.
    pub(crate) fresh: Vec<u64>,
    /// Rows to insert together.
    pub(crate) batch: RowBatch,
    /// No further attempt begins after this time, because the thread may be waiting for a
    /// transaction object of its own. `self_wait_expired` is set if that ended the transaction.
    pub(crate) self_wait_ends: Option<Nanos>,
    pub(crate) self_wait_expired: bool,
    /// Longest wait of the session for locks, as it was set last.
    pub(crate) lock_wait: Option<Duration>,
    /// True for a snapshot.
    pub(crate) only_reads: bool,
    /// References of rows that are checked at the commit.
    pub(crate) deferred: Vec<DeferredReference>,
    /// The changes of tables that the transaction has made, if there are any.
    pub(crate) altered: Option<Box<Altered>>,
    /// Restrictions of a step of a procedure.
    pub(crate) limit: Option<StepLimit>,
}

impl TransactionState {
    /// State of a step of a procedure.
    pub(crate) fn of_step(limit: StepLimit) -> Self {
        TransactionState { attempts: 1, limit: Some(limit), ..TransactionState::default() }
    }

    /// Resets the outcome of the previous attempt.
    pub(crate) fn begin_attempt(&mut self, number: u32) {
        self.attempts = number;
        self.failed = None;
        self.passed_on = false;
        self.lacked_memory = false;
        self.deferred.clear();
        self.altered = None;
    }
}

/// A running transaction: [`crate::Session::transaction`] passes it to its body, and
/// [`crate::OpenTransaction::verbs`] returns it for functions that take a `Transaction`.
///
/// Rows are found by a table's primary key or by one of its indexes: the parameter `index` of a
/// verb is a [`Table`], or an [`Index`] such as `accounts.by(Account::BY_EMAIL)`. A transaction
/// sees its own changes.
///
/// All verbs may fail with [`Error::Conflict`], [`Error::Deadline`], [`Error::Cancelled`],
/// [`Error::TooLarge`] (more than 268 million rows) and [`Error::Misuse`] (a table of another
/// database, for example); those that change rows of a table with constraints, or to which rows
/// refer, with [`Error::Constraint`]; the documentation of a verb lists its other errors. An error
/// ends the attempt: every further verb returns the same error. Behind a [`crate::Savepoint`] the
/// transaction goes on after an error of the program.
///
/// ```
/// use isles::{Database, Row};
///
/// #[derive(Row, Clone, Debug, PartialEq)]
/// #[row(key(id), unique_index(by_owner(owner)))]
/// struct Account { id: u64, owner: u32, balance: i64 }
///
/// let account = |id, balance| Account { id, owner: id as u32 + 70, balance };
/// let mut builder = Database::in_memory();
/// let accounts = builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// database.transaction(|t| {
///     assert_eq!(t.attempt(), 1);
///     t.insert(accounts, &account(1, 5))?;
///     t.insert_all(accounts, (2..5).map(|id| account(id, 0)))?;
///     assert_eq!(t.insert_or_ignore(accounts, &account(1, 9))?, false);
///     assert_eq!(t.upsert(accounts, &account(4, 7))?, Some(account(4, 0)), "the row before");
///
///     assert_eq!(t.get(accounts, &1)?, Some(account(1, 5)));
///     assert!(t.exists(accounts.by(Account::BY_OWNER), &72)? && !t.exists(accounts, &9)?);
///     assert_eq!(t.get_field(accounts, &4, Account::BALANCE)?, Some(7));
///     assert_eq!(t.get_for_update(accounts, &2)?, Some(account(2, 0)), "it will be changed");
///     assert_eq!(t.lock(accounts, &3)?, Some(account(3, 0)), "it stays like this");
///
///     assert_eq!(t.update(accounts, &2, |row| row.balance += 3)?, Some(()));
///     assert!(t.set_field(accounts, &3, Account::BALANCE, &1)?);
///     t.update_field(accounts, &3, Account::BALANCE, |balance| *balance += 1)?;
///     assert_eq!(t.update_if(accounts, &4, |row| row.balance >= 100, |row| row.balance -= 100)?, Some(false));
///     assert!(!t.upsert_with(accounts, &account(4, 1), |row| row.balance += 1)?, "it was there");
///     assert_eq!(t.delete(accounts, &4)?, Some(account(4, 8)));
///     let balances = t.scan(accounts, ..).fields(Account::BALANCE).collect::<isles::Result<Vec<_>>>()?;
///     assert_eq!(balances, [5, 3, 2]);
///     Ok(())
/// })?;
/// # Ok::<(), isles::Error>(())
/// ```
pub struct Transaction<'t> {
    pub(crate) verbs: &'t mut (dyn AnyVerbs + 't),
    pub(crate) state: &'t mut TransactionState,
    pub(crate) shared: &'t DatabaseShared,
    pub(crate) cancel: Option<&'t CancelToken>,
    /// Constraints of the tables; `None` if no table has any.
    pub(crate) plans: Option<&'t Plans>,
}

impl Transaction<'_> {
    /// Reborrows the transaction for a shorter time.
    pub(crate) fn again(&mut self) -> Transaction<'_> {
        Transaction {
            verbs: &mut *self.verbs,
            state: &mut *self.state,
            shared: self.shared,
            cancel: self.cancel,
            plans: self.plans,
        }
    }

    /// Checks before each verb that the attempt has not ended, and that the table belongs to the
    /// database and exists.
    #[inline]
    pub(crate) fn enter<R: Row>(&mut self, table: Table<R>) -> Result<()> {
        let number = table.inner.number();
        let stops = self.state.failed.is_some()
            || table.database != self.shared.id
            || self.shared.is_absent(number)
            || self.shared.check_process().is_err()
            || self.cancel.is_some();
        if stops { self.stop(table.database, number) } else { Ok(()) }
    }

    /// Returns the error that stops a verb on this table, if there is one.
    #[cold]
    fn stop(&mut self, database: u64, table: usize) -> Result<()> {
        self.shared.check_process()?;
        if let Some(failure) = &self.state.failed {
            return Err(failure.error.clone());
        }
        if database != self.shared.id {
            return self.check(Err(Abort::Misuse("a table of another database")));
        }
        if self.shared.is_absent(table) {
            self.check_presence(table)?;
        }
        self.check_cancelled()
    }

    /// True if the transaction began before the table changed, and still uses the table's old form.
    pub(crate) fn keeps_form(&self, table: usize) -> bool {
        self.shared.is_changed(table) && self.verbs.keeps_form(table)
    }

    #[cold]
    pub(crate) fn absent(&self, number: usize) -> Error {
        let name = self.shared.tables().get(number).map_or("", |table| table.name());
        Error::NoSuchTable(match self.shared.is_changed(number) {
            true => format!(
                "table {name} has other rows by now: use the handle that `Database::change_table` gave, or ask for one"
            ),
            false => format!("table {name} was dropped: create it again, or do without"),
        })
    }

    /// Checks before a verb without a row type that the attempt has not ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.shared.check_process()?;
        match &self.state.failed {
            Some(failure) => Err(failure.error.clone()),
            None => self.check_cancelled(),
        }
    }

    #[inline]
    pub(crate) fn check_cancelled(&mut self) -> Result<()> {
        match self.cancel {
            Some(token) if token.is_cancelled() => self.check(Err(Abort::Cancelled)),
            _ => Ok(()),
        }
    }

    /// Refuses changes within a snapshot, keys of parts that this instance or step does not have,
    /// and changes of tables that all instances share.
    #[inline]
    pub(crate) fn check_share(&mut self, table: usize, part: Option<u16>, intent: Intent) -> Result<()> {
        if self.state.only_reads && intent == Intent::Write {
            return self.check(Err(Abort::Misuse("a snapshot only reads: change rows in a transaction")));
        }
        let Some(share) = &self.shared.share else { return Ok(()) };
        match share.refusal(self.state.limit, table, part, intent) {
            Some(what) => self.check(Err(Abort::Misuse(what))),
            None => Ok(()),
        }
    }

    /// Refuses the insertion of a row whose part this instance or step does not have.
    pub(crate) fn check_share_of<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
        if self.shared.share.is_none() && !self.state.only_reads {
            return Ok(());
        }
        let part = with_keys(row, |keys| part_of(keys[0]));
        self.check_share(table.inner.number(), Some(part), Intent::Write)
    }

    /// Returns the part that a step works on.
    pub(crate) fn step_part(&self) -> Option<u16> {
        self.state.limit.map(|limit| limit.part)
    }

    /// Records a failure of the engine, which ends the attempt.
    #[inline]
    pub(crate) fn check<T>(&mut self, result: Result<T, Abort>) -> Result<T> {
        result.map_err(|abort| {
            let error = Error::from_abort(&abort, self.shared.tables(), self.state.attempts);
            self.state.failed.get_or_insert(Failure { abort, error }).error.clone()
        })
    }

    /// As [`Self::check`], after the insertion of a row; `key` is the result of [`key_taken`].
    #[inline]
    pub(crate) fn check_inserted(&mut self, result: Result<(), Abort>, key: Option<String>) -> Result<()> {
        if let Err(abort @ Abort::Duplicate { .. }) = result {
            return Err(self.duplicate(abort, key));
        }
        self.check(result)
    }

    /// As [`Self::check_inserted`], for a row of these bytes.
    pub(crate) fn check_written(&mut self, result: Result<(), Abort>, row: &RowBytes) -> Result<()> {
        let abort = result.as_ref().err();
        let taken = abort.and_then(|abort| key_taken(abort, self.shared.tables(), &row.fixed, &row.tail));
        self.check_inserted(result, taken)
    }

    #[cold]
    fn duplicate(&mut self, abort: Abort, taken: Option<String>) -> Error {
        let mut error = Error::from_abort(&abort, self.shared.tables(), self.state.attempts);
        if let Error::Duplicate { key, .. } = &mut error {
            *key = taken;
        }
        self.state.failed.get_or_insert(Failure { abort, error }).error.clone()
    }

    pub(crate) fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<RowId>> {
        let key = AnyKey::of(key);
        let key = key.words_of::<K>();
        self.enter_lookup(index, key, intent)?;
        if self.state.only_reads {
            // The verb before has read all that it wanted of its row.
            self.verbs.forget_rows();
        }
        let inner = index.inner;
        let found = self.verbs.find(inner.table().number(), inner.number(), key, intent);
        self.check(found)
    }

    /// Checks before a lookup that the attempt has not ended, and that the key may be used.
    #[inline]
    fn enter_lookup<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        words: &[u64],
        intent: Intent,
    ) -> Result<()> {
        self.enter(index.table())?;
        let inner = index.inner;
        match (inner.number(), intent) {
            (0, _) => self.check_share(inner.table().number(), Some(part_of(words)), intent),
            (_, Intent::Write) => self.check_share(inner.table().number(), self.step_part(), intent),
            (_, Intent::Read) => Ok(()),
        }
    }

    /// Reads some fields of the row with this key.
    pub(crate) fn find_fields<R: Row, K: Key, F: Select<R>>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        fields: F,
    ) -> Result<Option<F::Value>> {
        let span = fields.span();
        if span.words() > FEW_WORDS {
            let Some(found) = self.find(index, key, Intent::Read)? else { return Ok(None) };
            return self.read_fields(found, fields).map(Some);
        }
        let key = AnyKey::of(key);
        let key = key.words_of::<K>();
        self.enter_lookup(index, key, Intent::Read)?;
        let place = TableIndex { table: index.inner.table().number(), index: index.inner.number() };
        let mut words = [0; FEW_WORDS];
        let found = self.verbs.find_and_read(place, key, span.first_word(), &mut words[..span.words()]);
        let found = self.check(found)?;
        Ok(found.then(|| fields.fetch(&bytemuck::cast_slice(&words)[span.offset % 8..], span.offset)))
    }

    /// Finds the rows with these keys.
    pub(crate) fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: impl IntoIterator<Item: Borrow<K>>,
    ) -> Result<Vec<Option<RowId>>> {
        self.enter(index.table())?;
        let (table, number) = (index.inner.table().number(), index.inner.number());
        let (mut words, mut found) = (Vec::new(), Vec::new());
        for key in keys {
            let key = AnyKey::of(key.borrow());
            let key = key.words_of::<K>();
            if number == 0 {
                self.check_share(table, Some(part_of(key)), Intent::Read)?;
            }
            if const { K::BITS > SHORT_KEY_BITS } {
                let row = self.verbs.find(table, number, key, Intent::Read);
                found.push(self.check(row)?);
                continue;
            }
            self.verbs.prefetch_key(table, number, key);
            words.extend_from_slice(key);
        }
        if words.is_empty() {
            return Ok(found);
        }
        let all = self.verbs.find_prefetched(table, number, &words, Intent::Read, None, &mut found);
        self.check(all)?;
        Ok(found)
    }

    /// Refuses to change a field that belongs to a key.
    pub(crate) fn refuse_key_column<R: Row>(&mut self, field: impl Assign<R>) -> Result<()> {
        match field.is_key() {
            true => self.check(Err(Abort::Misuse(
                "a key column changes through `update` or `upsert`, not as a field",
            ))),
            false => Ok(()),
        }
    }

    pub(crate) fn find_row<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<R>> {
        if R::HAS_TAIL || intent == Intent::Write {
            let found = self.find(index, key, intent)?;
            return found.map(|found| self.read_row(found)).transpose();
        }
        // No later verb refers to the row, so the engine need not keep a reference to it.
        let key = AnyKey::of(key);
        let key = key.words_of::<K>();
        self.enter_lookup(index, key, intent)?;
        let place = TableIndex { table: index.inner.table().number(), index: index.inner.number() };
        let words = &mut self.state.words;
        words.resize(R::BYTES / 8, 0);
        let found = self.verbs.find_and_read(place, key, 0, words);
        let found = self.check(found)?;
        Ok(found.then(|| R::fetch(bytemuck::cast_slice(&self.state.words), &[])))
    }

    /// Reads a row; the bytes of the row stay in the state.
    pub(crate) fn read_row<R: Row>(&mut self, found: RowId) -> Result<R> {
        let TransactionState { words, tail, .. } = &mut *self.state;
        words.clear();
        words.resize(R::BYTES / 8, 0);
        tail.clear();
        let mut read = self.verbs.read(found, Span { offset: 0, bytes: R::BYTES }, words);
        if R::HAS_TAIL && read.is_ok() {
            read = self.verbs.read_tail(found, tail);
        }
        self.check(read)?;
        Ok(R::fetch(bytemuck::cast_slice(&self.state.words), &self.state.tail))
    }

    /// Reads some fields of a row.
    pub(crate) fn read_fields<R: Row, F: Select<R>>(&mut self, found: RowId, fields: F) -> Result<F::Value> {
        let span = fields.span();
        if span.words() <= FEW_WORDS {
            let mut words = [0; FEW_WORDS];
            let read = self.verbs.read(found, span, &mut words[..span.words()]);
            self.check(read)?;
            return Ok(fields.fetch(&bytemuck::cast_slice(&words)[span.offset % 8..], span.offset));
        }
        let words = &mut self.state.words;
        words.clear();
        words.resize(span.words(), 0);
        let read = self.verbs.read(found, span, words);
        self.check(read)?;
        let bytes: &[u8] = bytemuck::cast_slice(&self.state.words);
        Ok(fields.fetch(&bytes[span.offset % 8..], span.offset))
    }

    /// Writes a field of a row.
    pub(crate) fn write_field<R: Row, F: Assign<R>>(
        &mut self,
        table: Table<R>,
        found: RowId,
        field: F,
        value: &F::Value,
    ) -> Result<()> {
        let place = field.place();
        if let Some(plan) = self.plan(table.inner.number()) {
            let old = self.read_kept(plan, found)?;
            let mut new = RowBytes { keys: Vec::new(), ..old.clone() };
            let there = field.store(value, &mut new.fixed[place.offset..][..place.bytes]);
            if let Some((at, mask)) = field.null() {
                new.fixed[at] = if there { new.fixed[at] & !mask } else { new.fixed[at] | mask };
            }
            return self.rewrite_kept(plan, found, old, new);
        }
        let fresh = &mut self.state.fresh;
        fresh.clear();
        fresh.resize(place.bytes.div_ceil(8), 0);
        let bytes = &mut bytemuck::cast_slice_mut(fresh)[..place.bytes];
        let there = field.store(value, bytes);
        let mut written = self.verbs.write(found, place.offset, bytes);
        if let (Some((at, mask)), Ok(())) = (field.null(), &written) {
            written = self.write_bit(found, at, mask, !there);
        }
        self.check(written)
    }

    /// Sets or clears a bit of a row.
    fn write_bit(&mut self, found: RowId, at: usize, mask: u8, set: bool) -> Result<(), Abort> {
        let mut word = [0];
        self.verbs.read(found, Span { offset: at, bytes: 1 }, &mut word)?;
        let before = word[0].to_le_bytes()[at % 8];
        let after = if set { before | mask } else { before & !mask };
        if after == before { Ok(()) } else { self.verbs.write(found, at, &[after]) }
    }

    pub(crate) fn update_row<R: Row, T>(
        &mut self,
        table: Table<R>,
        found: RowId,
        change: impl FnOnce(&mut R) -> T,
    ) -> Result<T> {
        let mut row: R = self.read_row(found)?;
        let value = change(&mut row);
        self.rewrite(table, found, &row)?;
        Ok(value)
    }

    pub(crate) fn delete_row<R: Row>(&mut self, table: Table<R>, found: RowId) -> Result<R> {
        let row: R = self.read_row(found)?;
        if let Some(plan) = self.plan(table.inner.number()) {
            let old = self.last_read();
            return self.delete_kept(plan, found, old).map(|()| row);
        }
        let deleted = with_keys(&row, |keys| self.verbs.delete(found, keys));
        self.check(deleted)?;
        Ok(row)
    }

    /// Returns the row that was read last.
    fn last_read(&self) -> RowBytes {
        let TransactionState { words, tail, .. } = &*self.state;
        RowBytes { fixed: bytemuck::cast_slice(words).to_vec(), tail: tail.clone(), keys: Vec::new() }
    }

    /// Replaces the row that was read last.
    pub(crate) fn rewrite<R: Row>(&mut self, table: Table<R>, found: RowId, row: &R) -> Result<()> {
        if let Some(plan) = self.plan(table.inner.number()) {
            return self.rewrite_kept(plan, found, self.last_read(), image(row));
        }
        let old = R::fetch(bytemuck::cast_slice(&self.state.words), &self.state.tail);
        if with_keys(&old, |before| with_keys(row, |after| before != after)) {
            self.check_keys(table, row)?;
            let deleted = with_keys(&old, |keys| self.verbs.delete(found, keys));
            self.check(deleted)?;
            return self.insert_row(table, row);
        }
        let TransactionState { words, tail, fresh, .. } = &mut *self.state;
        encode(row, fresh);
        let mut written = Ok(());
        if fresh != words {
            written = self.verbs.write(found, 0, bytemuck::cast_slice(fresh));
        }
        if R::HAS_TAIL && written.is_ok() {
            let new = row.tail();
            if *tail != *new {
                written = self.verbs.write_tail(found, &new);
            }
        }
        self.check(written)
    }

    /// Refuses a row with a key that is too long.
    #[inline(always)]
    pub(crate) fn check_keys<R: Row>(&self, table: Table<R>, row: &R) -> Result<()> {
        match too_long_key(row) {
            None => Ok(()),
            Some((index, bytes)) => {
                let table = &self.shared.tables()[table.inner.number()];
                Err(Error::Row(table.key_too_long(index, bytes)))
            }
        }
    }

    pub(crate) fn insert_row<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
        if let Some(plan) = self.plan(table.inner.number()) {
            return self.insert_kept(plan, image(row)).map(drop);
        }
        self.check_share_of(table, row)?;
        self.check_keys(table, row)?;
        let number = table.inner.number();
        encode(row, &mut self.state.fresh);
        let fixed = bytemuck::cast_slice(&self.state.fresh);
        let tail = row.tail();
        let inserted = with_keys(row, |keys| self.verbs.insert(number, keys, fixed, &tail));
        let taken =
            inserted.as_ref().err().and_then(|abort| key_taken(abort, self.shared.tables(), fixed, &tail));
        self.check_inserted(inserted, taken)
    }
}

impl<R: Row, K: Key> Index<R, K> {
    /// Returns the table that the index belongs to.
    pub(crate) fn table(self) -> Table<R> {
        Table { inner: self.inner.table(), database: self.database }
    }
}

/// Returns the part of the data that a normalized primary key belongs to: its leading column.
pub(crate) fn part_of(key: &[u64]) -> u16 {
    (key[0] >> (u64::BITS - u16::BITS)) as u16
}

/// Returns the first and the last leading word of the keys of a part.
pub(crate) fn part_range(part: u16) -> [u64; 2] {
    let first = u64::from(part) << (u64::BITS - u16::BITS);
    [first, first | u64::MAX >> u16::BITS]
}

/// Returns a row in the form that descriptions know.
pub(crate) fn image<R: Row>(row: &R) -> RowBytes {
    let mut fixed = vec![0; R::BYTES];
    row.store(&mut fixed);
    RowBytes { fixed, tail: row.tail().into_owned(), keys: Vec::new() }
}

/// Writes the fixed part of a row to `words`.
fn encode<R: Row>(row: &R, words: &mut Vec<u64>) {
    words.clear();
    words.resize(R::BYTES / 8, 0);
    row.store(bytemuck::cast_slice_mut(words));
}
