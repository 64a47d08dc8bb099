//! `occ`: optimistic concurrency control with a private workspace and backward validation per row.
//!
//! Source: Kung, Robinson, "On optimistic methods for concurrency control", ACM TODS 1981, as in
//! Yu, Bezerra, Pavlo, Devadas, Stonebraker, "Staring into the abyss", PVLDB 2014, section 2.2,
//! where validation is divided by rows.
//!
//! A transaction takes a timestamp when it begins. The first read of a row copies all of it into
//! the transaction's workspace; a row that was written after the transaction began aborts it at
//! once, so that all it reads of rows was true when it began. That does not hold for keys: what a
//! lookup or a scan finds, or finds absent, is as it is at that moment, and `prepare` checks that
//! it fits. `prepare` locks all rows, read or written, in the order of their places, checks that
//! none was written since it was copied, and takes a second timestamp, with which `commit` marks
//! the rows written.
//!
//! Deviations:
//! - A copy is made without the row's latch: the version word ([`crate::optimistic`]) shows if
//!   a writer came between.
//! - Rows are unchanged if their version is, not if their timestamp is older than the transaction's
//!   own: clocks of two cores may disagree. The version is a stamp with an epoch, as in `silo`.
//! - Changed bytes are kept aside and applied, not whole rows; a row that is written without being
//!   read is not copied.
//! - Keys that were seen to be absent, and ranges: leaves and buckets are unchanged, as in `silo`.
//!   The source has none. Leaves do not have the time of their change, and a row that is found
//!   waits for its first read, so an attempt may see rows as they were at its beginning beside keys
//!   that appeared or went away since; such an attempt does not commit.
//! - `prepare` waits for a locked row that was only read, and only a bounded time: the holder may
//!   be a prepared part of a transaction over several databases. It does not wait for a row that it
//!   writes (`docs/decisions/0020-commits-do-not-wait.md`). Such a part marks the rows that it has
//!   only read, instead of locking them ([`crate::optimistic`]).
//!
//! With [`RowLock::Latch`] rows have latches ([`row_latches`]), as in the public program of Bang et
//! al., "The full story of 1000 cores".

mod row_latches;

use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform, SharedWord, Work};
use storage::tree::Lookup;
use storage::{Local, Optimisation, RecordHeader, RecordRef};
use terms::{Abort, Category, Conflict, Fault, Mode};

use crate::access::{Access, INSERTED, WRITTEN};
use crate::optimistic::{
    Method, MethodContext, Optimistic, OptimisticState, UNSEEN, Version, VersionHeader, lock_at_once,
    lock_in_order, lock_seen_row, read_in_place, unchanged, validate_versions,
};
use row_latches::{Latching, RowLatches, prefetch_manager, retire_manager, set_written};

use crate::scheme::RowNumber;
use crate::timestamps::{Timestamp, TimestampSource, TimestampWorker, Timestamps};
use crate::ways::{CommitLocks, RowLock};

/// The scheme.
pub type Occ = Optimistic<OccMethod>;

/// The method of `occ`.
pub struct OccMethod;

/// Version of a row, and the timestamp of its last writer.
#[repr(C)]
pub struct TimedVersion<P: Platform> {
    version: Version<P>,
    /// Written by the holder of the row's lock. Where rows have latches: the address of the row's
    /// manager.
    written: P::Word,
}

impl<P: Platform> RecordHeader<P> for TimedVersion<P> {
    fn inserting() -> Self {
        TimedVersion { version: Version::inserting(), written: P::Word::new(0) }
    }
}

impl<P: Platform> VersionHeader<P> for TimedVersion<P> {
    #[inline(always)]
    fn word(&self) -> &P::Word {
        self.version.word()
    }
}

/// A transaction's timestamps, and its copies of rows.
#[derive(Default)]
pub struct Workspace {
    began: Timestamp,
    ended: Timestamp,
    latches: RowLatches,
    words: Vec<u64>,
    /// By the row's number: where its copy begins in `words`, plus 1; 0 or missing if there is
    /// none.
    copies: Vec<usize>,
}

impl Workspace {
    #[inline(always)]
    fn copy(&self, number: RowNumber) -> Option<usize> {
        self.copies.get(number as usize).and_then(|at| at.checked_sub(1))
    }
}

/// Copies a row as it was when the transaction began.
fn copy_row<P: Platform>(
    state: &mut OptimisticState<P, OccMethod>,
    c: P::Core,
    number: RowNumber,
) -> Result<usize, Abort> {
    let &mut Access { row, seen, flags, .. } = state.rows.get(number)?;
    let mut words = std::mem::take(&mut state.own.words);
    let at = words.len();
    words.resize(at + row.words().len(), 0);
    let bits = <OccMethod as Method<P>>::VERSION_BITS;
    let OptimisticState { rows, own, .. } = &mut *state;
    let read = if own.latches.are_used() {
        let again = || {
            // A copy that has to be made again leaves nothing.
            let access = rows.get(number)?;
            (access.seen, access.flags) = (seen, flags);
            read_in_place(rows, c, number, 0, &mut words[at..], bits)
        };
        // Acquire: what follows is read after it, and what was read is at least as new.
        let version = || P::load(c, row.header().word(), Ordering::Acquire);
        own.latches.copy::<P, _>(c, number as usize, own.began, version, again)
    } else {
        let read = read_in_place(rows, c, number, 0, &mut words[at..], bits);
        // Relaxed: the version was read after it at the earliest; a later writer's timestamp aborts
        // for nothing at worst.
        let is_newer = read.is_ok() && P::load(c, &row.header().written, Ordering::Relaxed) > own.began.0;
        Some(read).filter(|_| !is_newer)
    };
    P::work(c, Work::CopyWord, row.words().len() as u32);
    own.words = words;
    read.unwrap_or(Err(Abort::Conflict(Conflict::ReadChanged)))?;
    let copies = &mut state.own.copies;
    if copies.len() <= number as usize {
        copies.resize(number as usize + 1, 0);
    }
    copies[number as usize] = at + 1;
    Ok(at)
}

/// Takes the latches of all rows, and locks the versions of those that are written.
#[cold]
fn lock_latches<P: Platform>(
    state: &mut OptimisticState<P, OccMethod>,
    cx: &mut MethodContext<'_, '_, P, OccMethod>,
) -> Result<(), Conflict> {
    let c = cx.c;
    let waits = !cx.worker.local.optimisations().has(Optimisation::BoundedSpin);
    let checks = !state.faults.has(Fault::UncheckedReads);
    let OptimisticState { rows, own, .. } = state;
    if waits {
        rows.sort_by_place();
    }
    for position in 0..rows.list.len() {
        let number = rows.order.get(position).map_or(position, |number| *number as usize);
        let access = &mut rows.list[number];
        let is_written = access.flags & WRITTEN != 0;
        if access.flags & INSERTED != 0 || !is_written && !checks {
            continue;
        }
        let began = (checks && access.seen != UNSEEN).then_some(own.began);
        own.latches.lock::<P>(c, &mut cx.worker.meter, number, began, waits)?;
        if is_written {
            lock_seen_row(access, c)?;
        }
    }
    Ok(())
}

impl<P: Platform> Method<P> for OccMethod {
    const NAME: &'static str = "occ";
    const LOCKS_ROWS: bool = true;
    const COPIES: bool = true;
    const READERS_LOCK: bool = true;
    type Header = TimedVersion<P>;
    type SharedState = Timestamps<P>;
    type WorkerState = TimestampWorker;
    type Own = Workspace;

    fn shared(c: P::Core, workers: usize, source: TimestampSource) -> Result<Timestamps<P>, OutOfMemory> {
        Timestamps::new(c, source, workers)
    }

    fn worker(number: usize) -> TimestampWorker {
        TimestampWorker::new(number)
    }

    #[inline]
    fn begin(cx: &mut MethodContext<'_, '_, P, Self>, own: &mut Workspace, _: Mode) {
        own.words.clear();
        own.copies.clear();
        let has_queues = cx.worker.local.optimisations().has(Optimisation::QueueLatch);
        own.latches.begin(match cx.shared.ways.row_lock {
            RowLock::Word => Latching::None,
            RowLock::Latch if has_queues => Latching::Queues,
            RowLock::Latch => Latching::Mutexes,
        });
        own.began = timestamp(cx);
    }

    #[inline(always)]
    fn found(
        state: &mut OptimisticState<P, Self>,
        c: P::Core,
        local: &mut Local<P>,
        number: RowNumber,
        row: RecordRef<P, TimedVersion<P>>,
    ) -> Result<(), Abort> {
        let latches = &mut state.own.latches;
        if latches.are_used() && !latches.note(c, local, number as usize, &row.header().written)? {
            return Err(Abort::Conflict(Conflict::KeyInUse));
        }
        Ok(())
    }

    #[inline(always)]
    fn prefetch_locks(cx: &mut MethodContext<'_, '_, P, Self>, table: usize, found: &[Lookup]) {
        let table = &cx.tables[table];
        if cx.shared.ways.row_lock != RowLock::Latch || table.read_only {
            return;
        }
        for bits in found.iter().filter_map(|lookup| lookup.value) {
            // SAFETY: the value was read from an index of this table, in this epoch.
            let row = unsafe { RecordRef::<P, TimedVersion<P>>::from_bits(bits, table.row_words) };
            prefetch_manager::<P>(cx.c, &row.header().written);
        }
    }

    #[inline]
    fn read(
        state: &mut OptimisticState<P, Self>,
        c: P::Core,
        number: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let at = match state.own.copy(number) {
            Some(at) => at,
            None => copy_row(state, c, number)?,
        };
        out.copy_from_slice(&state.own.words[at + first..at + first + out.len()]);
        Ok(())
    }

    fn copy(state: &mut OptimisticState<P, Self>, c: P::Core, number: RowNumber) -> Result<(), Abort> {
        copy_row(state, c, number).map(drop)
    }

    fn read_copy(state: &mut OptimisticState<P, Self>, number: RowNumber, first: usize, out: &mut [u64]) {
        let at = state.own.copy(number).expect("the row was copied") + first;
        out.copy_from_slice(&state.own.words[at..at + out.len()]);
    }

    #[inline]
    fn lock(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
        mode: Mode,
    ) -> Result<(), Conflict> {
        if state.own.latches.are_used() && mode == Mode::Single {
            return lock_latches(state, cx);
        }
        let all = mode != Mode::Participant && !state.faults.has(Fault::UncheckedReads);
        match cx.shared.ways.commit_locks {
            CommitLocks::Ordered => lock_in_order(state, cx, all),
            CommitLocks::NoWait => lock_at_once(state, cx, all),
        }
    }

    #[inline]
    fn validate(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        let stamp = validate_versions(state, cx)?;
        state.own.ended = timestamp(cx);
        Ok(stamp)
    }

    fn check(
        state: &mut OptimisticState<P, Self>,
        cx: &mut MethodContext<'_, '_, P, Self>,
    ) -> Result<u64, Conflict> {
        unchanged(state, cx)
    }

    #[inline(always)]
    fn version_at(stamp: u64) -> u64 {
        stamp
    }

    #[inline(always)]
    fn mark(own: &Workspace, c: P::Core, header: &TimedVersion<P>) {
        if own.latches.are_used() {
            set_written::<P>(c, &header.written, own.ended);
        } else {
            // Relaxed: published by the version.
            P::store(c, &header.written, own.ended.0, Ordering::Relaxed);
        }
    }

    fn gone(own: &Workspace, c: P::Core, local: &mut Local<P>, header: &TimedVersion<P>) {
        if own.latches.are_used() {
            retire_manager(c, local, &header.written);
        }
    }

    #[inline(always)]
    fn ended(own: &mut Workspace, c: P::Core) {
        own.latches.unlock::<P>(c);
    }
}

#[inline]
fn timestamp<P: Platform>(cx: &mut MethodContext<'_, '_, P, OccMethod>) -> Timestamp {
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Timestamp);
    let timestamp = cx.shared.own.next(cx.c, &mut cx.worker.state.own);
    cx.worker.meter.leave::<P>(cx.c, before);
    timestamp
}
