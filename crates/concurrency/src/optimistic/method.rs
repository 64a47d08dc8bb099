//! The differences between the optimistic schemes: the port that `silo`, `tictoc`, `occ` and `mvcc`
//! implement.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform};
use storage::index::Partition;
use storage::tree::Lookup;
use storage::{Local, Optimisation, RecordRef};
use terms::rows::TableIndex;
use terms::{Abort, Conflict, Epoch, Faults, Mode, Stamp};

use super::absences::{Absences, raise};
use super::header::{ABSENT, FLAGS, VersionHeader};
use super::marks::ReadMarks;
use super::reading::read_in_place;
use crate::access::{Access, Accesses, DELETED, HELD, INSERTED, MARKED, WHOLE, WRITTEN};
use crate::options::Lockers;
use crate::scheme::{Context, RowNumber};
use crate::timestamps::{TimestampSource, UnusedTimestamps};
use crate::ways::{CommitLocks, Ways};

/// The scheme that a method makes.
pub struct Optimistic<M>(PhantomData<M>);

/// The context of a method's verbs.
pub type MethodContext<'w, 'i, P, M> = Context<'w, 'i, P, Optimistic<M>>;

/// State that all workers share: the rules, the ways, and the method's own state.
pub struct OptimisticShared<P: Platform, T> {
    pub(crate) faults: Faults,
    pub(crate) own: T,
    pub(crate) ways: Ways,
    /// How many sessions lock rows at the same time.
    pub(crate) lockers: Lockers,
    /// Marks of rows that prepared participants have read.
    pub(crate) marks: ReadMarks<P>,
    /// Timestamps that attempts draw without need.
    pub(super) unused_timestamps: UnusedTimestamps<P>,
}

/// State of a transaction, reused from transaction to transaction.
pub struct OptimisticState<P: Platform, M: Method<P>> {
    pub(crate) rows: Accesses<P, M::Header>,
    /// Partitions in which the transaction saw that keys were absent: noted for participants, and
    /// for all if the method is `BY_DATA`.
    pub(crate) absences: Absences,
    pub(crate) own: M::Own,
    pub(crate) faults: Faults,
    /// True if rows are marked, those with the flag [`MARKED`].
    pub(super) has_marks: bool,
    /// True if the line of a row that will be written is taken to write when it is prefetched. The
    /// line is written when the transaction commits, if it ever does; until then it would have been
    /// taken from the transactions that read the row, and from the one that holds it. Only where
    /// whole rows are copied, to compare with, it is taken all the same.
    pub(super) prefetches_to_write: bool,
}

/// A running transaction.
pub struct Running<P: Platform, M: Method<P>> {
    pub(super) state: Box<OptimisticState<P, M>>,
    pub(super) mode: Mode,
    /// True if of rows without a number the version alone is remembered.
    pub(super) remembers_versions: bool,
}

/// A transaction whose rows are locked and whose reads were valid.
pub struct Validated<P: Platform, M: Method<P>> {
    pub(super) state: Box<OptimisticState<P, M>>,
    pub(super) mode: Mode,
    pub(super) stamp: u64,
}

/// State of a worker: its last stamp, and the memory of finished transactions.
pub struct OptimisticWorker<P: Platform, M: Method<P>> {
    pub(crate) last: u64,
    // Boxed, so that beginning, preparing and committing move a pointer.
    #[allow(clippy::vec_box)]
    pub(super) free: Vec<Box<OptimisticState<P, M>>>,
    pub(crate) own: M::WorkerState,
}

impl<P: Platform, M: Method<P>> OptimisticState<P, M> {
    /// Remembers that keys of the partition were seen to be absent.
    #[inline]
    pub(super) fn note_absence(&mut self, mode: Mode, partition: &Partition<P>) {
        if M::BY_DATA || mode == Mode::Participant {
            self.absences.note(partition);
        }
    }

    /// Forgets the row that was added last, if the transaction reads a snapshot: no verb names it.
    #[inline(always)]
    pub(super) fn forget_read(&mut self, number: RowNumber) {
        if M::is_snapshot(&self.own) && number as usize + 1 == self.rows.list.len() {
            self.rows.list.pop();
        }
    }
}

/// The methods in which the optimistic schemes differ.
///
/// Stamps are numbers that ascend along the order of commits; how they lie in version words is up
/// to the method.
pub trait Method<P: Platform>: Sized + Send + Sync + 'static {
    /// As [`Scheme::NAME`](crate::Scheme::NAME).
    const NAME: &'static str;
    /// As [`Scheme::STRICT`](crate::Scheme::STRICT).
    const STRICT: bool = true;
    /// As [`Scheme::LOCKS_ROWS`](crate::Scheme::LOCKS_ROWS).
    const LOCKS_ROWS: bool = false;
    /// Bits of version words that stay the same as long as the row is not written.
    const VERSION_BITS: u64 = u64::MAX;
    /// True if commits are ordered by their data alone: then absences of keys have stamps too.
    const BY_DATA: bool = false;
    /// True if each access takes memory for a copy of the row, where all workers have one heap.
    const COPIES: bool = false;
    /// True if of rows that are read as they are found, and not named, the version alone is
    /// remembered, which [`unchanged`](super::unchanged) validates.
    const REMEMBERS_VERSIONS: bool = false;
    /// True if attempts draw a timestamp in the published program, and none here.
    const DRAWS_UNUSED: bool = false;
    /// True if transactions lock rows that they only read when they commit.
    const READERS_LOCK: bool = false;
    /// The header that the method keeps in front of each row.
    type Header: VersionHeader<P>;
    /// State that all workers share.
    type SharedState: Send + Sync;
    /// State of a worker besides the memory of transactions.
    type WorkerState: Send;
    /// State of a transaction besides its rows; reused.
    type Own: Default + Send;

    /// As [`Parts::shared`](crate::Parts::shared).
    fn shared(c: P::Core, workers: usize, source: TimestampSource) -> Result<Self::SharedState, OutOfMemory>;

    /// As [`Parts::worker`](crate::Parts::worker).
    fn worker(number: usize) -> Self::WorkerState;

    /// A transaction begins; `own` is as another left it.
    fn begin(cx: &mut MethodContext<'_, '_, P, Self>, own: &mut Self::Own, mode: Mode);

    /// As [`Accessing::read`](crate::Accessing::read), of a row that is there already when the
    /// transaction begins, and not deleted by it: where the row lies, unless the method reads a
    /// copy.
    #[inline(always)]
    fn read(
        state: &mut OptimisticState<P, Self>,
        c: P::Core,
        number: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        read_in_place(&mut state.rows, c, number, first, out, Self::VERSION_BITS)
    }

    /// Copies all of a row, which the transaction has just found, to where [`Self::read_copy`]
    /// reads.
    fn copy(state: &mut OptimisticState<P, Self>, c: P::Core, number: RowNumber) -> Result<(), Abort> {
        state
            .rows
            .copy_whole(c, number, |rows, words| read_in_place(rows, c, number, 0, words, Self::VERSION_BITS))
    }

    /// A row was added to the transaction's rows.
    #[inline(always)]
    fn found(
        _state: &mut OptimisticState<P, Self>,
        _c: P::Core,
        _local: &mut Local<P>,
        _number: RowNumber,
        _row: RecordRef<P, Self::Header>,
    ) -> Result<(), Abort> {
        Ok(())
    }

    /// As [`Accessing::prefetch_locks`](crate::Accessing::prefetch_locks).
    #[inline(always)]
    fn prefetch_locks(_: &mut MethodContext<'_, '_, P, Self>, _table: usize, _found: &[Lookup]) {}

    /// Reads words of a row's copy.
    fn read_copy(state: &mut OptimisticState<P, Self>, number: RowNumber, first: usize, out: &mut [u64]) {
        state.rows.read_whole(number, first, out);
    }

    /// Locks what `prepare` has to lock, and marks it as held.
    fn lock(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        mode: Mode,
    ) -> Result<(), Conflict>;

    /// Checks everything that was read, with the rows locked; the stamp of the commit.
    fn validate(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict>;

    /// Checks everything that was read, with nothing locked and nothing to write; the largest stamp
    /// seen, or a later one.
    fn check(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict>;

    /// The version of a row that was written at this stamp.
    fn version_at(stamp: u64) -> u64;

    /// The version of a row that was written at the beginning of an epoch.
    fn first_version(epoch: Epoch) -> u64 {
        Self::version_at(Stamp::after(0, epoch).0)
    }

    /// The stamp at which the row with this version was written, or a later one before which no
    /// transaction wrote the row again.
    fn written_at(version: u64) -> u64 {
        version & !FLAGS
    }

    /// A participant that has read and marked a row commits at this stamp, and takes its mark back
    /// next.
    #[inline(always)]
    fn leave_read(_c: P::Core, _header: &Self::Header, _stamp: u64) {}

    /// Says that a row, whose version follows, was written by the transaction.
    #[inline(always)]
    fn mark(_own: &Self::Own, _c: P::Core, _header: &Self::Header) {}

    /// A row, which the transaction has deleted or not inserted after all, is about to be retired.
    #[inline(always)]
    fn gone(_own: &Self::Own, _c: P::Core, _local: &mut Local<P>, _header: &Self::Header) {}

    /// The transaction has unlocked its rows and ends.
    #[inline(always)]
    fn ended(_own: &mut Self::Own, _c: P::Core) {}

    /// The stamp in the form of all schemes.
    fn stamp(stamp: u64) -> Stamp {
        Stamp(stamp)
    }

    /// True if rows have versions: deleted ones stay in indexes for a while, unlocked and absent.
    const VERSIONS: bool = false;

    /// Returns true if the transaction reads a snapshot, in which nothing can change.
    #[inline(always)]
    fn is_snapshot(_own: &Self::Own) -> bool {
        false
    }

    /// Adds a row with versions, which the transaction has not found yet, to the transaction's
    /// rows. `None`: there is no such row for the transaction; the caller protects that with the
    /// witness of the entry that named the row.
    fn add_versioned(
        _: &mut OptimisticState<P, Self>,
        _: &mut MethodContext<'_, '_, P, Self>,
        _: TableIndex,
        _: RecordRef<P, Self::Header>,
    ) -> Result<Option<RowNumber>, Abort> {
        unreachable!("only methods with versions are asked")
    }

    /// Takes what a commit at `stamp` needs, which cannot fail.
    #[inline(always)]
    fn ready(
        _: &mut OptimisticState<P, Self>,
        _: &mut MethodContext<'_, '_, P, Self>,
        _stamp: u64,
    ) -> Result<(), Abort> {
        Ok(())
    }

    /// The stamp with which a participant of a transaction over several databases commits that was
    /// prepared at `stamp`: not smaller, and not of an earlier epoch than the current one.
    fn renew(_: &mut OptimisticState<P, Self>, cx: &mut MethodContext<'_, '_, P, Self>, stamp: u64) -> u64 {
        Stamp::after(stamp, cx.worker.local.announce_commit(cx.c)).0
    }

    /// Before the first row is changed by a commit.
    #[inline(always)]
    fn publish(_: &mut OptimisticState<P, Self>, _: &mut MethodContext<'_, '_, P, Self>) {}

    /// Applies what the transaction did to one row, and unlocks it.
    #[inline(always)]
    fn finish(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        number: RowNumber,
        stamp: u64,
    ) {
        let (c, local) = (cx.c, &mut cx.worker.local);
        let OptimisticState { rows, own, .. } = state;
        let access = &rows.list[number as usize];
        let (row, flags) = (access.row, access.flags);
        let version = if access.is_plainly_written() && flags & WHOLE == 0 {
            rows.writes.apply::<P>(c, access.writes, row.words());
            Self::mark(own, c, row.header());
            Self::version_at(stamp)
        } else if flags & DELETED != 0 {
            let table = &cx.tables[access.table as usize];
            if Self::BY_DATA {
                // Before any transaction can see that the key is gone.
                for partition in rows.linked_partitions(table, number) {
                    raise::<P>(c, &partition.gap_words().removed, stamp, stamp);
                }
            }
            Self::gone(own, c, local, row.header());
            // SAFETY: the row is locked and becomes absent, so no other transaction will ever
            // change it; the worker is in its epoch.
            unsafe { rows.unlink(c, local, table, number, stamp) };
            Self::version_at(stamp) | ABSENT
        } else if flags & WRITTEN != 0 {
            if flags & WHOLE == 0 {
                rows.apply(c, local, number);
            } else {
                rows.apply_whole(c, local, number);
            }
            if flags & INSERTED != 0 {
                rows.take_over(c, cx.tables, number);
            }
            Self::mark(own, c, row.header());
            Self::version_at(stamp)
        } else if flags & HELD != 0 {
            access.seen
        } else {
            if flags & MARKED != 0 {
                Self::leave_read(c, row.header(), stamp);
            }
            return;
        };
        // Release: a reader that sees the version sees the words.
        P::store(c, row.header().word(), version, Ordering::Release);
    }

    /// Gives back what [`Self::ready`] took.
    #[inline(always)]
    fn undo(_: &mut OptimisticState<P, Self>, _: &mut MethodContext<'_, '_, P, Self>) {}
}

/// Returns true if a transaction waits for a locked row that it reads. In the published program,
/// which [`CommitLocks::NoWait`] follows, bounded spinning is an optimisation of commits, and
/// readers wait in any case.
#[inline(always)]
pub(super) fn readers_wait<P: Platform, M: Method<P>>(cx: &MethodContext<'_, '_, P, M>) -> bool {
    cx.worker.local.optimisations().has(Optimisation::BoundedSpin)
        || cx.shared.ways.commit_locks == CommitLocks::NoWait
}

/// Returns true if a row of a prepared transaction was there before. Rows with versions may have
/// been absent: the transaction has found that they are, or uses their entries.
pub(super) fn was_there<P: Platform, M: Method<P>>(access: &Access<P, M::Header>) -> bool {
    !M::VERSIONS || access.flags & INSERTED != 0 || access.seen & ABSENT == 0
}
