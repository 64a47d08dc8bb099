//! The verbs of a concurrency-control scheme, grouped by who calls them.
//!
//! - [`Parts`]: the data that the scheme keeps. The instance makes and holds it.
//! - [`Accessing`]: what a transaction does, called by the engine's verbs from the beginning of an
//!   attempt to its last verb.
//! - [`Savepoints`]: how an attempt takes some of it back, called by the engine's verbs.
//! - [`Ending`]: how an attempt ends, called by the thread that decides that: the session, and the
//!   coordinator of a transaction over several databases.
//! - [`Redo`]: the changes of a prepared transaction, for the log.
//! - [`Filling`]: rows while no transaction runs, for those who fill and inspect an instance.
//! - [`Scheme`]: all of them, and the properties of the scheme.
//!
//! The groups are traits of their own, so that code that fills or inspects an instance states in
//! its bounds that it runs no transaction, and a family of schemes implements each group in a file
//! of its own. Code that runs transactions requires a [`Scheme`], through which all verbs can be
//! named.

use platform::{Intent, Nanos, OutOfMemory, Platform};
use storage::tree::{Direction, Lookup, ScanOrder};
use storage::{Index, Local, RecordHeader, Table};
use terms::rows::{KeyBounds, TableIndex, partition_column};
use terms::{Abort, Category, Mode, Stamp};

use crate::lookups::{Ahead, KeyBatch, Keys, look_up};
use crate::meter::Meter;
use crate::new_rows::NewRows;
use crate::options::InstanceOptions;
use crate::redo::{Before, RedoSink};
use crate::row_words::RowWords;
use crate::savepoints::SavepointMark;

/// The state of a worker, which every verb uses.
pub struct WorkerState<P: Platform, S: Parts<P>> {
    /// Memory and epoch.
    pub local: Local<P>,
    /// Breakdown of time.
    pub meter: Meter,
    /// The scheme's own state of the worker.
    pub state: S::WorkerState,
    /// Longest wait of its transactions.
    pub wait_nanos_max: u64,
    /// The deadline of the transaction, if the session says how long it waits for locks: a wait
    /// ends then.
    pub transaction_ends: Option<Nanos>,
    /// Results of the index lookups of a batch: empty between two batches.
    pub(crate) lookups: Vec<Lookup>,
}

/// Everything that a verb needs besides the transaction. `'i` is the lifetime of the instance, `'w`
/// that of the worker's loan.
pub struct Context<'w, 'i, P: Platform, S: Parts<P>> {
    /// The running core.
    pub c: P::Core,
    /// All tables, by number.
    pub tables: &'i [Table<P>],
    /// State that all workers of the scheme share.
    pub shared: &'i S::SharedState,
    /// The worker.
    pub worker: &'w mut WorkerState<P, S>,
}

/// The owner of a running transaction. A scan borrows the transaction from its owner for each step,
/// so that the visitor can use the transaction between two steps.
pub trait Holder<'i, P: Platform, S: Parts<P>> {
    /// The transaction, and the context of its verbs.
    fn parts(&mut self) -> (&mut S::Transaction, Context<'_, 'i, P, S>);
}

/// The number of a row within a transaction: rows are numbered from 0 on, in the order in which the
/// transaction found or inserted them. Schemes may number rows apart about which nothing can
/// conflict.
pub type RowNumber = u32;

/// The types of the data that a scheme keeps.
pub trait Parts<P: Platform>: Sized + Send + Sync + 'static {
    /// The header that the scheme keeps in front of each row.
    type Header: RecordHeader<P>;
    /// State that all workers share.
    type SharedState: Send + Sync;
    /// State that each worker keeps from transaction to transaction.
    type WorkerState: Send;
    /// A running transaction.
    type Transaction: Send;
    /// A transaction that can no longer fail. A prepared transaction holds no epoch: any worker may
    /// finish it, at any time.
    type Prepared: Send + 'static;

    /// The shared state of a database for up to `workers` workers, with the timestamps, ways
    /// and faults of the options, if the scheme needs any.
    fn shared(
        c: P::Core,
        workers: usize,
        options: &InstanceOptions,
    ) -> Result<Self::SharedState, OutOfMemory>;

    /// The state of one worker.
    fn worker(shared: &Self::SharedState, number: usize) -> Self::WorkerState;
}

/// The verbs of a transaction. Verbs name rows by their [`RowNumber`]. After a verb has failed the
/// transaction can only be checked ([`Ending::check`]), aborted ([`Ending::abort`]), or, if the
/// failure allows that, rolled back to a savepoint ([`Savepoints`]). All verbs run inside the
/// worker's epoch.
pub trait Accessing<P: Platform>: Parts<P> {
    /// Begins a transaction. One worker may have several open.
    fn begin(cx: &mut Context<'_, '_, P, Self>, mode: Mode) -> Self::Transaction;

    /// The worker's next transaction is not another attempt of its last one, whether or not that
    /// one failed: whatever was kept for another attempt is forgotten. `again`: it is another
    /// attempt of an earlier one, and has the worker's last timestamp if the scheme gives
    /// transactions timestamps that they keep.
    #[inline]
    fn turn_to_another(_: &mut WorkerState<P, Self>, _again: bool) {}

    /// From now on the worker's transactions wait for a lock as long as this, in nanoseconds;
    /// `None`: as long as the scheme has it. Only a scheme that lets all transactions wait heeds
    /// that; the others keep their rules.
    fn wait_for_locks(_: &mut WorkerState<P, Self>, _longest: Option<u64>) {}

    /// Announces that the transaction will need the partition of a table's primary index that holds
    /// this key, or keys with these leading columns. Callers that announce do so before any other
    /// verb.
    #[inline(always)]
    fn enlist(_: &mut Self::Transaction, _: &mut Context<'_, '_, P, Self>, _table: usize, _key: &[u64]) {}

    /// Looks `key` up in `table`'s index number `index`, and adds the row to the transaction's
    /// rows: the row's number, or `None` if there is no such row and there will be none before the
    /// transaction commits.
    #[inline(always)]
    fn find(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowNumber>, Abort> {
        Self::approach(transaction, cx, table, index, key)?;
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Index);
        let lookup = cx.tables[table].indexes[index].partition(key).get(cx.c, key);
        cx.worker.meter.leave::<P>(cx.c, before);
        Self::access(transaction, cx, table, index, key, lookup, intent)
    }

    /// Looks several keys up, as [`Self::find`] each, and gives each result to `found`, in order,
    /// up to the first failure. The index is read for all keys first, and what `ahead` names of
    /// each row is on its way before the first row is used: the misses overlap.
    #[inline(always)]
    fn find_many<K: Keys>(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        TableIndex { table, index }: TableIndex,
        KeyBatch { keys, mut approaches }: KeyBatch<'_, '_, P, K>,
        intent: Intent,
        ahead: Ahead,
        mut found: impl FnMut(Option<RowNumber>),
    ) -> Result<(), Abort> {
        let mut approached = None;
        for number in 0..keys.count() {
            let key = keys.key(number);
            // Keys with the same leading column are of the same partition.
            let leading = partition_column(key.as_ref()[0]);
            if approached.replace(leading) != Some(leading) {
                Self::approach(transaction, cx, table, index, key.as_ref())?;
            }
        }
        let (c, schema) = (cx.c, &cx.tables[table]);
        let storage = &schema.indexes[index];
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        if Self::accesses_blindly(cx, schema) {
            let accessed = (0..keys.count()).try_for_each(|number| {
                let key = keys.key(number);
                let lookup =
                    look_up::<P, Self::Header>(c, storage, &mut approaches, key.as_ref(), ahead, intent);
                found(Self::access(transaction, cx, table, index, key.as_ref(), lookup, intent)?);
                Ok(())
            });
            cx.worker.meter.leave::<P>(c, before);
            return accessed;
        }
        let mut lookups = std::mem::take(&mut cx.worker.lookups);
        lookups.extend((0..keys.count()).map(|number| {
            look_up::<P, Self::Header>(c, storage, &mut approaches, keys.key(number).as_ref(), ahead, intent)
        }));
        Self::prefetch_locks(cx, table, &lookups);
        cx.worker.meter.leave::<P>(cx.c, before);
        let mut result = Ok(());
        for (number, lookup) in lookups.iter().enumerate() {
            let key;
            let words = match lookup.value {
                Some(_) => &[],
                // The key serves to protect the absence of its row.
                None => {
                    key = keys.key(number);
                    key.as_ref()
                }
            };
            match Self::access(transaction, cx, table, index, words, *lookup, intent) {
                Ok(row) => found(row),
                Err(abort) => {
                    result = Err(abort);
                    break;
                }
            }
        }
        lookups.clear();
        cx.worker.lookups = lookups;
        result
    }

    /// Returns true if [`Self::access`] reads nothing of a row of this table: a batch of lookups
    /// waits for none of them then.
    #[inline(always)]
    fn accesses_blindly(_: &Context<'_, '_, P, Self>, table: &Table<P>) -> bool {
        table.read_only
    }

    /// Prefetches what the scheme needs of the rows that lookups have found, besides the headers in
    /// front of the rows, which are prefetched already. Only lookups of many keys call this.
    #[inline(always)]
    fn prefetch_locks(_: &mut Context<'_, '_, P, Self>, _table: usize, _found: &[Lookup]) {}

    /// Looks several keys up, as [`Self::find`] each, and gives each result to `found`, in order,
    /// up to the first failure. The keys are of one partition and ascend: one descent a leaf,
    /// instead of one a key.
    fn find_ascending(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        TableIndex { table, index }: TableIndex,
        keys: &[u64],
        intent: Intent,
        mut found: impl FnMut(Option<RowNumber>),
    ) -> Result<(), Abort> {
        let storage = &cx.tables[table].indexes[index];
        for key in keys.chunks_exact(storage.words) {
            Self::approach(transaction, cx, table, index, key)?;
        }
        let mut lookups = std::mem::take(&mut cx.worker.lookups);
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Index);
        if let Some(first) = keys.get(..storage.words) {
            storage.partition(first).get_ascending(cx.c, keys, &mut lookups);
        }
        cx.worker.meter.leave::<P>(cx.c, before);
        let accessed = keys.chunks_exact(storage.words).zip(&lookups).try_for_each(|(key, lookup)| {
            found(Self::access(transaction, cx, table, index, key, *lookup, intent)?);
            Ok(())
        });
        lookups.clear();
        cx.worker.lookups = lookups;
        accessed
    }

    /// Prepares for a lookup of `key` in an index. Lookups ([`Self::find`] and its batches) call
    /// this before they read the index; no other caller does.
    #[inline(always)]
    fn approach(
        _: &mut Self::Transaction,
        _: &mut Context<'_, '_, P, Self>,
        _table: usize,
        _index: usize,
        _key: &[u64],
    ) -> Result<(), Abort> {
        Ok(())
    }

    /// Adds the result of an index lookup to the transaction, as [`Self::find`] describes. The key
    /// is not used if the lookup found a row. Only lookups call this.
    fn access(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
        lookup: Lookup,
        intent: Intent,
    ) -> Result<Option<RowNumber>, Abort>;

    /// Looks `key` up as [`Self::find`] does, but without any concurrency control: the row is
    /// neither locked nor validated, and stays apart from the row that [`Self::find`] gives for the
    /// same key. What is read of it may be of several transactions, may never be committed, and may
    /// be of a row that is gone; its absence is not protected. Its words, but not its tail, can be
    /// read, and it cannot be written. A transaction that uses this is not serializable.
    fn find_unvalidated(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
    ) -> Result<Option<RowNumber>, Abort>;

    /// Copies words of a row, from number `first` on, as the transaction sees them.
    fn read(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        row: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort>;

    /// Appends the row's tail to `out`.
    fn read_tail(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        row: RowNumber,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort>;

    /// Writes bytes of the row's fixed part. The bytes belong to no key.
    fn write(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        row: RowNumber,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Abort>;

    /// Replaces the row's tail.
    fn write_tail(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        row: RowNumber,
        bytes: &[u8],
    ) -> Result<(), Abort>;

    /// Inserts a row with these keys, one an index of the table.
    fn insert(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort>;

    /// Inserts several rows, as [`Self::insert`] each, in order, up to the first failure. Where
    /// keys of a table with one index follow each other, the index is changed once for several of
    /// them.
    fn insert_all(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        rows: NewRows<'_>,
    ) -> Result<(), Abort>;

    /// Makes a row with these keys, as [`Self::insert`] does, which enters no index: no transaction
    /// will ever find it, no log has a record of it, and if the transaction commits its memory
    /// stays in use as long as the instance. For comparisons with programs that do so.
    fn insert_unindexed(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort>;

    /// Deletes a row, which has these keys, one an index of the table.
    fn delete(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        row: RowNumber,
        keys: &[&[u64]],
    ) -> Result<(), Abort>;

    /// Adds the rows with keys in `range`, both ends included, to the transaction, in order, and
    /// calls `visit` with each until `visit` returns false. No row will appear in the visited part
    /// of the range before the transaction commits.
    fn scan<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        direction: Direction,
        intent: Intent,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort>;

    /// As [`Self::scan`] with the intent to write, but rows that another transaction has locked may
    /// be skipped: these count as not read, and rows may appear in the range. So the transaction
    /// has read of the range what it has visited, as if it had looked up each row by its key; or
    /// more, under a scheme that has nothing to skip.
    fn scan_or_skip<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        TableIndex { table, index }: TableIndex,
        range: KeyBounds<'_>,
        direction: Direction,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        Self::scan(holder, table, index, range, direction, Intent::Write, visit)
    }

    /// Looks `key` up in this index as [`Self::find`] does, and reads words of the row from number
    /// `first` on; false if there is no such row. The row gets no number, so that a scheme may
    /// remember less of it.
    #[inline(always)]
    fn find_words(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        TableIndex { table, index }: TableIndex,
        _storage: &Index<P>,
        key: &[u64],
        first: usize,
        words: &mut [u64],
    ) -> Result<bool, Abort> {
        match Self::find(transaction, cx, table, index, key, Intent::Read)? {
            None => Ok(false),
            Some(number) => Self::read(transaction, cx, number, first, words).map(|()| true),
        }
    }

    /// Reads words of the rows with keys in `range`, as [`Self::scan`] and a [`Self::read`] of each
    /// row do, and calls `visit` with the words of one row or of several, one behind the other,
    /// until `visit` returns false. The rows get no numbers, so that a scheme may remember less of
    /// them. There is room for [`RowWords::ahead`] rows in `room`.
    #[allow(clippy::type_complexity, reason = "the visitor's type is named here alone")]
    fn scan_words<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        TableIndex { table, index }: TableIndex,
        range: KeyBounds<'_>,
        ScanOrder { direction, intent }: ScanOrder,
        wanted: RowWords,
        room: &mut [u64],
        visit: &mut dyn FnMut(&mut T, &[u64]) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let words = &mut room[..wanted.count];
        Self::scan(holder, table, index, range, direction, intent, &mut |holder, number| {
            let (transaction, mut cx) = holder.parts();
            Self::read(transaction, &mut cx, number, wanted.first, words)?;
            visit(holder, words)
        })
    }

    /// The caller names none of the rows again that were found so far. A snapshot, which has
    /// nothing to check at its end, forgets them; other transactions remember what they have read.
    fn forget_rows(_transaction: &mut Self::Transaction) {}

    /// Number of the table that a row belongs to.
    fn table_of(transaction: &Self::Transaction, row: RowNumber) -> usize;

    /// The stamp of the transaction that wrote this row last, as far as this transaction sees the
    /// row: what this transaction reads of the row has all changes with this or a smaller stamp,
    /// and none with a larger one. Some schemes give a larger stamp than that of the last writer,
    /// but none as large as that of the next. The stamp means nothing for a row that this
    /// transaction inserted, or of which it has read nothing yet.
    fn stamp(transaction: &Self::Transaction, row: RowNumber) -> Stamp;

    /// The caller leaves the epoch, or enters anew, and continues the branch ([`Mode::Branch`])
    /// afterwards: verbs name none of the rows that it has found so far. Rows that it has changed
    /// stay, because no other transaction can delete them meanwhile.
    fn lay_aside(_: &mut Self::Transaction) {}

    /// Prefetches words of a row, from number `first` on.
    fn prefetch(
        transaction: &mut Self::Transaction,
        c: P::Core,
        row: RowNumber,
        first: usize,
        words: usize,
        intent: Intent,
    );
}

/// The verbs of a transaction about its savepoints. Callers keep the marks: they roll back to those
/// only that the transaction has set and not rolled back beyond. Verbs run inside the worker's
/// epoch.
pub trait Savepoints<P: Platform>: Parts<P> {
    /// Sets a savepoint.
    fn set_savepoint(transaction: &mut Self::Transaction) -> SavepointMark;

    /// Takes back what the transaction has changed since the savepoint, which stays. The
    /// transaction may have failed for a reason that [`Abort::ends_at_savepoint`] names.
    fn roll_back_to(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        mark: SavepointMark,
    );

    /// The transaction will roll back to none of its savepoints.
    fn release_savepoints(transaction: &mut Self::Transaction, cx: &mut Context<'_, '_, P, Self>);
}

/// How a transaction ends. All verbs run inside the worker's epoch.
pub trait Ending<P: Platform>: Parts<P> {
    /// Checks that everything the transaction read was true at one moment: callers check before
    /// they end the transaction for a reason that follows from what it read. Everything that the
    /// transaction depends on is durable when the epoch of the stamp is. Callers may check after a
    /// verb has failed.
    fn check(transaction: &mut Self::Transaction, cx: &mut Context<'_, '_, P, Self>) -> Result<Stamp, Abort>;

    /// Makes sure that the transaction can commit. On failure the transaction is aborted already.
    /// `prepare` announces the epoch of the commit ([`Local::announce_commit`]): the caller
    /// retracts the announcement when the commit's record is in the log, or the commit has failed
    /// or is postponed. A branch ([`Mode::Branch`]) announces nothing, and does not fail.
    fn prepare(
        transaction: Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<Self::Prepared, Abort>;

    /// Ends the transaction without a trace.
    fn abort(transaction: Self::Transaction, cx: &mut Context<'_, '_, P, Self>);

    /// Makes a prepared transaction's writes visible. If there are any, the stamp is not of an
    /// earlier epoch than the one that the worker has announced for the commit: in `prepare`, or in
    /// `commit` for a participant ([`Mode::Participant`]).
    fn commit(prepared: Self::Prepared, cx: &mut Context<'_, '_, P, Self>) -> Stamp;

    /// Ends a prepared transaction without a trace.
    fn rollback(prepared: Self::Prepared, cx: &mut Context<'_, '_, P, Self>);
}

/// The changes of a transaction that is prepared and not committed yet, for the log.
pub trait Redo<P: Platform>: Parts<P> {
    /// Hands everything that a prepared transaction changes to the sink. The module `redo`
    /// describes what a log may rely on.
    fn redo<K: RedoSink<P>>(prepared: &Self::Prepared, cx: &mut Context<'_, '_, P, Self>, sink: &mut K);

    /// Hands what a branch has changed since the last call to the sink. Pre: the scheme has
    /// branches ([`Scheme::BRANCHES`]).
    fn redo_branch<K: RedoSink<P>>(
        branch: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        sink: &mut K,
    ) {
        let _ = (branch, cx, sink);
        unreachable!("a scheme without branches");
    }

    /// The largest stamp of the rows that a prepared transaction has read, and of those whose
    /// absence it has seen, if the transaction changes nothing. `None` otherwise, or if the scheme
    /// does not know.
    fn reads_until(prepared: &Self::Prepared) -> Option<Stamp> {
        let _ = prepared;
        None
    }

    /// The stamp that was drawn when a transaction was prepared: larger than those of all
    /// transactions that it depends on, and not larger than that of its commit. If the transaction
    /// changes anything, the worker has announced a commit since before the stamp was drawn, until
    /// the caller of [`Ending::prepare`] retracts the announcement.
    fn prepared_at(prepared: &Self::Prepared) -> Stamp;

    /// The row with this primary key as it was before a prepared transaction, which is not ended
    /// meanwhile, if that transaction keeps the row, or its absence, from transactions that read.
    fn before(
        prepared: &Self::Prepared,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        key: &[u64],
    ) -> Option<Before>;
}

/// Rows while no transaction runs.
pub trait Filling<P: Platform>: Parts<P> {
    /// Gives a new row, which no other worker knows yet, the header of a row that was committed at
    /// the beginning of the worker's epoch. `key` is the row's primary key. No transaction runs.
    fn fill(cx: &mut Context<'_, '_, P, Self>, header: &Self::Header, table: usize, key: &[u64]);

    /// Returns true if a row that an index names is present, while no transaction runs: schemes may
    /// keep deleted rows in indexes.
    fn is_present(_: P::Core, _: &Self::Header) -> bool {
        true
    }
}

/// A concurrency-control scheme: serializable, phantoms included.
pub trait Scheme<P: Platform>: Accessing<P> + Savepoints<P> + Ending<P> + Redo<P> + Filling<P> {
    /// The scheme's name on the command line.
    const NAME: &'static str;
    /// True if the order of commits agrees with real time: a transaction that begins after another
    /// has ended comes later. The commits of the other schemes agree with real time from epoch to
    /// epoch only: a transaction may miss one commit and see another that began later, if the two
    /// commits share no data.
    const STRICT: bool = true;
    /// True if the scheme locks whole partitions, so that transactions run side by side only if
    /// tables are partitioned.
    const LOCKS_PARTITIONS: bool = false;
    /// True if [`Mode::Snapshot`] is different from [`Mode::Single`].
    const SNAPSHOTS: bool = false;
    /// True if [`Accessing::enlist`] is of use.
    const ENLISTS: bool = false;
    /// True if it has branches ([`Mode::Branch`]).
    const BRANCHES: bool = false;
    /// True if it locks rows or partitions in one of the ways of [`RowLock`](crate::RowLock).
    const LOCKS_ROWS: bool = false;
}
