//! `mvcc`: versions of rows, so that transactions that only read never abort and keep no other
//! transaction from writing.
//!
//! Sources: Larson, Blanas, Diaconu, Freedman, Patel, Zwilling, "High-performance concurrency
//! control mechanisms for main-memory databases", PVLDB 2011 (validation at the end of transactions
//! that write: MV/O); Lim, Kaminsky, Andersen, "Cicada: dependably fast multi-core in-memory
//! transactions", SIGMOD 2017 (the latest version lies in the row itself; the next writer of a row
//! frees its old versions); Tu et al., "Speedy transactions in multicore in-memory databases", SOSP
//! 2013, section 4.9 (snapshots of whole epochs).
//!
//! Transactions that write read the latest versions and validate as in [`crate::optimistic`]. A
//! commit that overwrites or deletes a row copies it to the row's chain of older versions first,
//! unless both versions belong to the same epoch: snapshots are taken between epochs, and no
//! snapshot could see the difference.
//!
//! A [`Mode::Snapshot`] sees the state after the epoch that lies [`LAG_EPOCHS`] before the one that
//! its worker has entered in. All commits of that epoch have finished writing: the global epoch was
//! two ahead when the worker entered, so that all of those commits were over
//! ([`Local::announce_commit`](storage::Local)). A participant that is prepared and waits takes the
//! epoch of its commit, not of its preparation. So a snapshot sees no unfinished change of an
//! epoch that it shows, waits for no transaction, and validates nothing.
//!
//! A deletion copies nothing where no snapshot is older than the version that it deletes: the row
//! stays as it was, and is marked.
//!
//! A deleted row stays in its indexes, absent, until no snapshot is older than its deletion; then a
//! worker unlinks it ([`dead_rows`]). Until then a transaction that looks the key up and depends on
//! its absence validates that the row stays absent and that the index entry still names the row. A
//! row inserted with the same key takes over the entry, and remembers from which row, for older
//! snapshots. So snapshots find rows under the keys that the rows had then.
//!
//! A snapshot has nothing to check at its end, so it needs to remember nothing that it has read: no
//! witnesses, and rows as long as the caller names them
//! ([`Accessing::forget_rows`](crate::Accessing::forget_rows)).
//!
//! Reclamation has no list of versions: no snapshot is, or will be, of an epoch before the horizon
//! less `SNAPSHOT_EPOCHS` ([`storage::epoch`]); the writer of a row cuts off what is older than the
//! version that the oldest snapshot needs. A snapshot that is read for long holds the horizon, so
//! that rows that are written meanwhile keep a version for each epoch.
//!
//! Deviations from multi-version timestamp ordering as in Yu et al., "Staring into the abyss",
//! PVLDB 2014: transactions get no timestamp when they begin, and reads leave none. Timestamps at
//! the beginning abort a transaction that comes late for a row although nothing is wrong yet; a
//! read timestamp makes each read of a shared row a write of its line.

mod dead_rows;
mod epochs;
mod method;
mod snapshot;
mod versions;

use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform, Work};
use storage::record::tail;

use dead_rows::{DeadRows, Sweeper};
use epochs::{epoch_of, oldest_snapshot};
use method::MvccOwn;
use terms::rows::TableIndex;
use terms::{Abort, Conflict, Epoch, Fault, Mode};
use versions::{Row, Versioned};

pub use method::MvccMethod;

use crate::access::{DELETED, HELD, INSERTED, NEW_TAIL, UNKNOWN_KEYS, WRITTEN, all_linked};
use crate::optimistic::{
    ABSENT, FLAGS, Method, MethodContext, Optimistic, OptimisticState, lock_in_order, read_in_place,
    stable_version, unchanged, validate_versions,
};
use crate::scheme::RowNumber;
use crate::timestamps::TimestampSource;

/// Epochs by which a snapshot is older than the one in which its worker has entered.
const LAG_EPOCHS: u64 = 2;

/// The scheme.
pub type Mvcc = Optimistic<MvccMethod>;

impl<P: Platform> Method<P> for MvccMethod {
    const NAME: &'static str = "mvcc";
    const VERSIONS: bool = true;
    const DRAWS_UNUSED: bool = true;
    type Header = Versioned<P>;
    type SharedState = DeadRows<P>;
    type WorkerState = Sweeper;
    type Own = MvccOwn;

    fn shared(c: P::Core, workers: usize, _: TimestampSource) -> Result<DeadRows<P>, OutOfMemory> {
        DeadRows::new(c, workers)
    }

    fn worker(number: usize) -> Sweeper {
        Sweeper::new(number)
    }

    #[inline]
    fn begin(cx: &mut MethodContext<'_, '_, P, Self>, own: &mut MvccOwn, mode: Mode) {
        let Epoch(epoch) = cx.worker.local.epoch();
        let lag = if !cx.shared.faults.has(Fault::SnapshotOfOpenEpoch) { LAG_EPOCHS } else { 0 };
        own.snapshot = (mode == Mode::Snapshot).then(|| epoch.saturating_sub(lag));
        own.is_participant = mode == Mode::Participant;
        own.copies.clear();
        own.inherited.clear();
        own.in_place.clear();
        if cx.worker.state.own.is_due(cx.worker.local.horizon().0) {
            dead_rows::sweep(cx);
        }
    }

    #[inline(always)]
    fn is_snapshot(own: &MvccOwn) -> bool {
        own.snapshot.is_some()
    }

    #[inline]
    fn add_versioned(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        TableIndex { table, index }: TableIndex,
        row: Row<P>,
    ) -> Result<Option<RowNumber>, Abort> {
        let c = cx.c;
        if let Some(epoch) = state.own.snapshot {
            let Some(visible) = snapshot::visible(c, row, index, epoch) else { return Ok(None) };
            return state.rows.push_unplaced(visible, P::address(c, visible.start()), table).map(Some);
        }
        let place = P::address(c, row.start());
        let version = stable_version::<P>(c, row.header().version(), state.rows.lock_wait_nanos)?;
        if version & ABSENT == 0 {
            return state.rows.push(row, place, table, version, 0).map(Some);
        }
        if version & !FLAGS == 0 {
            // The row's insertion was taken back, or the row has left the indexes.
            return Err(Abort::Conflict(Conflict::KeyInUse));
        }
        let number = state.rows.push(row, place, table, version, DELETED)?;
        let access = state.rows.get(number)?;
        access.linked = all_linked(&cx.tables[table]);
        access.keys = UNKNOWN_KEYS;
        Ok(None)
    }

    #[inline(always)]
    fn read(
        state: &mut OptimisticState<P, Self>,
        c: P::Core,
        number: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        match state.own.snapshot {
            Some(epoch) => snapshot::read(state.rows.get(number)?, c, epoch, first, out),
            None => {
                let bits = <Self as Method<P>>::VERSION_BITS;
                read_in_place(&mut state.rows, c, number, first, out, bits)
            }
        }
    }

    #[inline]
    fn lock(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        _: Mode,
    ) -> Result<(), Conflict> {
        if state.own.snapshot.is_some() { Ok(()) } else { lock_in_order(state, cx, false) }
    }

    #[inline]
    fn validate(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        match state.own.snapshot {
            // The snapshot comes behind all commits of the epoch that it shows, before all later
            // commits.
            Some(epoch) => Ok(Epoch(epoch).last_stamp()),
            None => validate_versions(state, cx),
        }
    }

    fn check(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        if let Some(epoch) = state.own.snapshot {
            return Ok(Epoch(epoch).last_stamp());
        }
        unchanged(state, cx)
    }

    #[inline(always)]
    fn version_at(stamp: u64) -> u64 {
        stamp
    }

    /// Copies the versions that the commit will overwrite.
    fn ready(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        stamp: u64,
    ) -> Result<(), Abort> {
        let (c, oldest) = (cx.c, oldest_snapshot(&cx.worker.local));
        let OptimisticState { rows, own, faults, .. } = state;
        for number in 0..rows.list.len() {
            let access = &rows.list[number];
            if access.flags & WRITTEN == 0 {
                continue;
            }
            let local = &mut cx.worker.local;
            if access.flags & INSERTED != 0 {
                let table = &cx.tables[access.table as usize];
                let number = number as RowNumber;
                if let Some(inherited) = versions::inherited_entries(c, local, rows, table, number)? {
                    own.inherited.push((number, inherited));
                }
            } else if !faults.has(Fault::LostVersions)
                && (own.is_participant || epoch_of(access.seen) != epoch_of(stamp))
            {
                if access.flags & DELETED != 0 && access.seen & ABSENT == 0 && epoch_of(access.seen) <= oldest
                {
                    own.in_place.push(number as RowNumber);
                    continue;
                }
                // SAFETY: the copy goes into the row's chain, and is retired when the chain is cut
                // off before it.
                let copy = unsafe { access.row.copy(c, local, Versioned::of_copy(access.seen))? };
                P::work(c, Work::CopyWord, access.row.words().len() as u32);
                own.copies.push((number as RowNumber, copy.to_bits()));
            }
        }
        Ok(())
    }

    /// Lets snapshots find the copies, and cuts off what none of them needs.
    fn publish(state: &mut OptimisticState<P, Self>, cx: &mut MethodContext<'_, '_, P, Self>) {
        let oldest = oldest_snapshot(&cx.worker.local);
        let OptimisticState { rows, own, .. } = state;
        for number in &own.in_place {
            rows.list[*number as usize].row.header().stay_in_place(cx.c);
        }
        for (number, copy) in &own.copies {
            let access = &rows.list[*number as usize];
            let table = &cx.tables[access.table as usize];
            // SAFETY: made in `ready` for this row, which is locked.
            unsafe {
                let copy = Row::<P>::from_bits(*copy, table.row_words);
                versions::prepend(cx.c, &mut cx.worker.local, table, access.row, copy, oldest);
            }
        }
    }

    fn finish(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        number: RowNumber,
        stamp: u64,
    ) {
        let c = cx.c;
        let access = &state.rows.list[number as usize];
        let (row, flags, seen) = (access.row, access.flags, access.seen);
        let version = if flags & WRITTEN == 0 {
            if flags & HELD == 0 {
                return;
            }
            seen
        } else if flags & DELETED != 0 {
            delete(state, cx, number, stamp)
        } else {
            write(state, cx, number);
            stamp
        };
        // Release: a reader that sees the version sees the words.
        P::store(c, row.header().version(), version, Ordering::Release);
    }

    fn undo(state: &mut OptimisticState<P, Self>, cx: &mut MethodContext<'_, '_, P, Self>) {
        let OptimisticState { rows, own, .. } = state;
        for (number, copy) in own.copies.drain(..) {
            let access = &rows.list[number as usize];
            // SAFETY: made in `ready`, and no index or row names the copy; the tail stays the
            // row's.
            unsafe {
                let copy = Row::<P>::from_bits(copy, cx.tables[access.table as usize].row_words);
                copy.free(cx.c, &mut cx.worker.local);
            }
        }
        for (_, inherited) in own.inherited.drain(..) {
            // SAFETY: made in `ready`, and no row names the block.
            unsafe { versions::retire_inherited(cx.c, &mut cx.worker.local, inherited) };
        }
    }
}

/// The value of a row in a list of (row number, value) that is ordered by row numbers.
fn with_number(list: &[(RowNumber, u64)], number: RowNumber) -> Option<u64> {
    list.binary_search_by_key(&number, |(other, _)| *other).ok().map(|place| list[place].1)
}

/// Applies what the transaction wrote into a row, which it may have inserted.
fn write<P: Platform>(
    state: &mut OptimisticState<P, MvccMethod>,
    cx: &mut MethodContext<'_, '_, P, MvccMethod>,
    number: RowNumber,
) {
    let (c, local) = (cx.c, &mut cx.worker.local);
    let OptimisticState { rows, own, .. } = state;
    let access = &mut rows.list[number as usize];
    if access.flags & INSERTED != 0 {
        rows.apply(c, local, number);
        if let Some(inherited) = with_number(&own.inherited, number) {
            rows.list[number as usize].row.header().set_inherited(c, inherited);
        }
        rows.take_over(c, cx.tables, number);
        return;
    }
    if access.flags & NEW_TAIL != 0 {
        // An old version may still have the old tail.
        access.flags &= !NEW_TAIL;
        let row = access.row;
        let old = versions::tail_of(row);
        if with_number(&own.copies, number).is_none() && versions::older_tail(c, row) != Some(old) {
            // SAFETY: the row gets another tail below, under its lock, and no version has the old
            // one; within the worker's epoch.
            unsafe { tail::retire(c, local, old) };
        }
    }
    rows.apply(c, local, number);
}

/// Makes a row absent; its version.
fn delete<P: Platform>(
    state: &mut OptimisticState<P, MvccMethod>,
    cx: &mut MethodContext<'_, '_, P, MvccMethod>,
    number: RowNumber,
    stamp: u64,
) -> u64 {
    let rows = &mut state.rows;
    let access = &rows.list[number as usize];
    let (row, flags, seen) = (access.row, access.flags, access.seen);
    let table = &cx.tables[access.table as usize];
    if flags & INSERTED != 0 {
        // SAFETY: the row was never visible and is absent from now on; the worker is in its epoch.
        unsafe { rows.unlink(cx.c, &mut cx.worker.local, table, number, stamp) };
        return ABSENT;
    }
    if flags & NEW_TAIL != 0 {
        // SAFETY: this transaction made the tail, and no row has it.
        unsafe { tail::retire(cx.c, &mut cx.worker.local, rows.list[number as usize].tail) };
    }
    if seen & ABSENT == 0 {
        let table_number = rows.list[number as usize].table;
        let keys = rows.keys_of(table, number);
        let sweeper = &cx.worker.state.own;
        cx.shared.own.add(cx.c, sweeper, row.to_bits(), table_number, epoch_of(stamp), keys);
        if cx.shared.faults.has(Fault::EarlyUnlinking) {
            // A mutant.
            dead_rows::unlink_entries(cx, table, row, rows.keys_of(table, number), stamp);
        }
    }
    stamp | ABSENT
}
