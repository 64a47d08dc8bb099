//! The verbs of a concurrency-control scheme.

use platform::{Intent, OutOfMemory, Platform};
use storage::tree::{Direction, Lookup};
use storage::{Epoch, Local, RecordHeader, Table};

use crate::abort::Abort;
use crate::meter::Meter;
use crate::redo::RedoSink;
use crate::timestamps::TimestampSource;

/// What a worker brings to every verb.
pub struct Worker<P: Platform, S: Scheme<P>> {
    /// Memory and epoch.
    pub local: Local<P>,
    /// Breakdown of time.
    pub meter: Meter,
    /// The scheme's own part.
    pub state: S::Worker,
}

/// Everything a verb needs besides the transaction: `'i` is the instance's life, `'w` the worker's loan.
pub struct Context<'w, 'i, P: Platform, S: Scheme<P>> {
    /// The running core.
    pub c: P::Core,
    /// All tables, by number.
    pub tables: &'i [Table<P>],
    /// The scheme's part that all workers share.
    pub shared: &'i S::Shared,
    /// The worker.
    pub worker: &'w mut Worker<P, S>,
}

/// Whoever runs a transaction: a scan works through it, so that its visitor can use the transaction too.
pub trait Holder<'i, P: Platform, S: Scheme<P>> {
    /// The transaction, and what its verbs need.
    fn parts(&mut self) -> (&mut S::Transaction, Context<'_, 'i, P, S>);
}

/// Order of commits: whoever reads or overwrites a row that another transaction wrote, or inserts a key that another
/// deleted, has the larger stamp. Who comes later in any other way (by overwriting what another only read, by seeing that
/// a key was deleted) has a stamp of the same epoch or a later one ([`Stamp::epoch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    /// From one stamp of an epoch to the next: the bits below are for a scheme's flags.
    const STEP: u64 = 4;

    /// The smallest stamp of this epoch, or of a later one if it has no number left, that is larger than `largest`.
    pub(crate) fn after(largest: u64, epoch: Epoch) -> Stamp {
        Stamp((largest + Self::STEP).max(epoch.first_stamp()))
    }

    /// The epoch in which the commit is durable.
    #[inline(always)]
    pub const fn epoch(self) -> Epoch {
        Epoch::of_stamp(self.0)
    }

    /// The smallest stamp of the epoch.
    pub(crate) fn first_of_epoch(self) -> Stamp {
        Stamp(self.epoch().first_stamp())
    }
}

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads and writes in this database alone.
    Single,
    /// A participant of a transaction over several databases: from `prepare` to `commit`, rows that were read stay protected
    /// like those that were written, since the other participants may be validated later.
    Participant,
    /// Reads only. Schemes that keep versions show it the database as it was a little before it began (up to three epochs, and
    /// none of the worker's own last commits); others treat it like [`Mode::Single`].
    Snapshot,
}

/// A row that a transaction has found: its number there, from 0 on.
pub type RowNumber = u32;

/// A concurrency-control scheme: serializable, phantoms included.
///
/// Verbs name rows by numbers that count from 0 within the transaction. A verb that fails leaves the transaction fit for
/// nothing but [`Scheme::abort`]. All verbs run inside the worker's epoch.
pub trait Scheme<P: Platform>: Sized + Send + Sync + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// Whether commits keep the order of real time: whoever begins after another has ended comes later. Where they do not,
    /// they do so from epoch to epoch only: a transaction may miss a commit and see one that began later, if the two have
    /// nothing to do with each other.
    const STRICT: bool = true;
    /// Whether it locks whole partitions, so that tables have to be divided for transactions to run side by side.
    const LOCKS_PARTITIONS: bool = false;
    /// What it keeps in front of each row.
    type Header: RecordHeader<P>;
    /// What all workers share.
    type Shared: Send + Sync;
    /// What each worker keeps from transaction to transaction.
    type Worker: Send;
    /// A running transaction.
    type Transaction: Send;
    /// A transaction that can no longer fail. Holds no epoch: any worker may finish it, at any time.
    type Prepared: Send;

    /// The shared part of a database for up to `workers` workers, with timestamps from `source` if it needs any.
    fn shared(c: P::Core, workers: usize, source: TimestampSource) -> Result<Self::Shared, OutOfMemory>;

    /// One worker's part.
    fn worker(shared: &Self::Shared, number: usize) -> Self::Worker;

    /// A new transaction. Several of one worker may be open.
    fn begin(cx: &mut Context<'_, '_, P, Self>, mode: Mode) -> Self::Transaction;

    /// Whether [`Mode::Snapshot`] is different from [`Mode::Single`].
    const SNAPSHOTS: bool = false;

    /// Whether [`Scheme::enlist`] is of use.
    const ENLISTS: bool = false;

    /// Says that the transaction will need the partition of a table's primary index that holds this key, or keys with these
    /// leading columns. Called before anything else if at all.
    #[inline(always)]
    fn enlist(_: &mut Self::Transaction, _: &mut Context<'_, '_, P, Self>, _table: usize, _key: &[u64]) {}

    /// Called before `key` is looked up in an index.
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

    /// Whether a row that an index names is there while no transaction runs: schemes may keep others.
    fn is_present(_: P::Core, _: &Self::Header) -> bool {
        true
    }

    /// Takes what a lookup of `key` in `table`'s index number `index` gave into the transaction: the row's number, or
    /// `None`, if there is no such row, and will be none before the transaction commits. The key means
    /// nothing where the lookup found a row.
    fn access(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
        lookup: Lookup,
        intent: Intent,
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

    /// Writes bytes of the row's fixed part, of no key.
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

    /// Deletes a row, which has these keys, one an index of the table.
    fn delete(
        transaction: &mut Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
        row: RowNumber,
        keys: &[&[u64]],
    ) -> Result<(), Abort>;

    /// Takes rows with keys from `low` to `high`, both included, into the transaction, in order, and calls `visit` with
    /// each, until it returns false. Nothing will appear in the visited part before the transaction commits.
    #[allow(clippy::too_many_arguments)]
    fn scan<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        table: usize,
        index: usize,
        range: (&[u64], &[u64]),
        direction: Direction,
        intent: Intent,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort>;

    /// Makes the header of a new row, which nobody knows yet, that of one which was committed at the beginning of the worker's
    /// epoch; `key` is its primary key. No transaction runs.
    fn fill(cx: &mut Context<'_, '_, P, Self>, header: &Self::Header, table: usize, key: &[u64]);

    /// Number of the table that a row belongs to.
    fn table_of(transaction: &Self::Transaction, row: RowNumber) -> usize;

    /// The stamp of the transaction that wrote this row last, as far as this transaction sees the row: what it reads of the row
    /// has all changes with this or a smaller stamp, and none with a larger one. Some schemes say a larger stamp than that
    /// of the last writer, but none as large as that of the next. Of a row that the transaction itself inserted, or of which
    /// it has read nothing yet, it means nothing.
    fn stamp(transaction: &Self::Transaction, row: RowNumber) -> Stamp;

    /// Starts to bring words of a row closer, from number `first` on.
    fn prefetch(
        transaction: &mut Self::Transaction,
        c: P::Core,
        row: RowNumber,
        first: usize,
        words: usize,
        intent: Intent,
    );

    /// Whether everything that the transaction read was true at one moment: asked before it ends for a reason that
    /// follows from what it read. All that it depends on is durable when the epoch of the stamp is. May be called after a verb
    /// has failed.
    fn check(transaction: &mut Self::Transaction, cx: &mut Context<'_, '_, P, Self>) -> Result<Stamp, Abort>;

    /// Makes sure that the transaction can commit. On failure the transaction is aborted already. Draws the epoch of the
    /// commit ([`Local::announce_commit`]): the caller retracts that when the commit has left everything that it has to
    /// leave, or has failed, or is put off.
    fn prepare(
        transaction: Self::Transaction,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<Self::Prepared, Abort>;

    /// Ends the transaction without a trace.
    fn abort(transaction: Self::Transaction, cx: &mut Context<'_, '_, P, Self>);

    /// Hands everything that a prepared transaction changes to the sink. What a log may rely on: [`crate::redo`].
    fn redo<K: RedoSink<P>>(prepared: &Self::Prepared, cx: &mut Context<'_, '_, P, Self>, sink: &mut K);

    /// The largest stamp of the rows that a prepared transaction has read, if it depends on nothing else: it changes nothing,
    /// and has not seen that anything is absent. `None` otherwise, or if the scheme does not know.
    fn reads_until(prepared: &Self::Prepared) -> Option<Stamp> {
        let _ = prepared;
        None
    }

    /// Makes a prepared transaction's writes visible. If there are any, the stamp is not of an earlier epoch than the one
    /// that the worker has announced for its commit: in `prepare`, or here, if the transaction is a participant ([`Mode::Participant`]).
    fn commit(prepared: Self::Prepared, cx: &mut Context<'_, '_, P, Self>) -> Stamp;

    /// Ends a prepared transaction without a trace.
    fn rollback(prepared: Self::Prepared, cx: &mut Context<'_, '_, P, Self>);
}
