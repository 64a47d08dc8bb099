//! How an optimistic transaction ends: locking and validation, applying and unlocking, or leaving
//! no trace.

use std::sync::atomic::Ordering;

use platform::{Platform, Work};
use storage::Optimisation;
use terms::{Category, Conflict, Fault, Stamp};

use super::header::{ABSENT, FLAGS, LOCKED, UNSEEN, VersionHeader};
use super::keeping::remove_marks;
use super::method::{Method, MethodContext, OptimisticState};
use super::reading::{read_version, wait_unlocked};
use crate::access::{Access, Accesses, DELETED, HELD, INSERTED, UnnamedRow, WRITTEN};
use crate::options::{Lockers, WAIT_NANOS_MAX};
use crate::ways::CommitLocks;

/// Returns true if a commit locks a row with these flags: one that it writes, or has read, if `all`
/// are.
#[inline(always)]
fn is_locked_to_commit(flags: u8, all: bool) -> bool {
    (flags & WRITTEN != 0 || all) && flags & INSERTED == 0
}

/// Locks the rows to write in the order of their places (in any order, where no other session locks
/// rows), and those that were read if `all`. No transaction waits for ever: a transaction that
/// holds rows waits for larger places only, and every wait has a limit.
///
/// A transaction does not wait for a row that it writes. The row's holder has all but committed a
/// change to the row: the wait would nearly always end with [`Conflict::ReadChanged`], while the
/// rows that the transaction holds keep others waiting, and each of its reads takes the line from
/// the holder, which has still to write it. A row that the transaction has only read is waited for:
/// its holder may have only read it as well. (A scheme that has no other way than this one waits
/// under [`CommitLocks::NoWait`] for both: that way is there to compare with, and stays as the
/// comparison was made.)
pub(crate) fn lock_in_order<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    all: bool,
) -> Result<(), Conflict> {
    let in_any_order = cx.shared.lockers == Lockers::One;
    let wait_nanos = state.rows.lock_wait_nanos;
    let Accesses { list, order, stamp_seen, .. } = &mut state.rows;
    let mut only_read = false;
    for (number, access) in list.iter_mut().enumerate() {
        if !is_locked_to_commit(access.flags, all) {
            only_read |= access.flags & INSERTED == 0;
        } else if in_any_order {
            *stamp_seen = (*stamp_seen).max(lock_row(access, cx, wait_nanos)?);
        } else {
            order.push(number as u32);
        }
    }
    order.sort_unstable_by_key(|number| list[*number as usize].place);
    for number in order.iter() {
        *stamp_seen = (*stamp_seen).max(lock_row(&mut list[*number as usize], cx, wait_nanos)?);
    }
    state.rows.holds_all = !only_read;
    Ok(())
}

/// Locks a row of [`lock_in_order`]; the stamp of its last writer.
#[inline(always)]
fn lock_row<P: Platform, M: Method<P>>(
    access: &mut Access<P, M::Header>,
    cx: &mut MethodContext<'_, '_, P, M>,
    wait_nanos: u64,
) -> Result<u64, Conflict> {
    let c = cx.c;
    if access.seen == UNSEEN {
        read_version(access, c, wait_nanos).map_err(|_| Conflict::KeyInUse)?;
    }
    let word = access.row.header().word();
    while let Err(version) = lock_seen::<P>(c, cx.shared.lockers, word, access.seen) {
        if version & !LOCKED != access.seen {
            return Err(Conflict::ReadChanged);
        }
        if access.flags & WRITTEN != 0 && cx.shared.ways.commit_locks == CommitLocks::Ordered {
            return Err(Conflict::Locked);
        }
        let before = cx.worker.meter.enter::<P>(c, Category::Wait);
        let waited = wait_unlocked::<P>(c, word, version, wait_nanos);
        cx.worker.meter.leave::<P>(c, before);
        if waited.is_err() {
            return Err(Conflict::Locked);
        }
    }
    access.flags |= HELD;
    Ok(access.seen & !FLAGS)
}

/// Locks a row if its version is still this one; the version that it has otherwise.
#[inline(always)]
fn lock_seen<P: Platform>(c: P::Core, lockers: Lockers, word: &P::Word, seen: u64) -> Result<(), u64> {
    match lockers {
        // SeqCst: acquires what the holder before released, and is ordered before the check for
        // marks ([`super::marks`]).
        Lockers::Several => P::cas(c, word, seen, seen | LOCKED, Ordering::SeqCst).map(drop),
        Lockers::One => {
            // Relaxed, twice: no other session changes the word. Readers of other cores, who only
            // inspect, see in the version that it has changed: the fence before what is written
            // orders both, as it does after an exchange.
            let version = P::load(c, word, Ordering::Relaxed);
            if version != seen {
                return Err(version);
            }
            P::store(c, word, seen | LOCKED, Ordering::Relaxed);
            Ok(())
        }
    }
}

/// Pauses of [`lock_at_once`] before it gives up, in nanoseconds. Source:
/// `bounded_backoff_function` of DataManagementLab/DBx1000 at 0ada3f6, `system/helper.h`, with
/// `BOUNDED_SPINNING_CYCLES` of `variant_config/28skt/config-2optimised.h`: 1, 3, 7 and 15 pause
/// instructions, each of about 140 cycles since Skylake (Intel's optimization reference manual),
/// here at the 2.5 GHz of `CPU_FREQ`.
pub(crate) const PAUSES_NANOS: [u64; 4] = [56, 168, 392, 840];

/// The pauses of a commit under [`CommitLocks::NoWait`]. Without bounded spinning it pauses for one
/// instruction each time and does not give up (`BOUNDED_SPINNING` of 0-config-base-hw_clock.h);
/// here it gives up after the longest wait of a transaction.
pub(crate) fn pauses_nanos(bounded: bool) -> impl Iterator<Item = u64> {
    let (pauses, again) =
        if bounded { (PAUSES_NANOS.len(), 0) } else { (0, WAIT_NANOS_MAX / PAUSES_NANOS[0]) };
    PAUSES_NANOS.into_iter().take(pauses).chain(std::iter::repeat_n(PAUSES_NANOS[0], again as usize))
}

/// Locks the rows to write as the transaction has found them, and those that were read if `all`,
/// without waiting while it holds any: it lets all go, pauses and tries again a few times, unless
/// it sees that it would fail. Source: DataManagementLab/DBx1000 at 0ada3f6,
/// `txn_man::validate_silo` of `concurrency_control/silo/silo.cpp`, with `VALIDATION_LOCK`
/// "no-wait", `PRE_ABORT` and `BOUNDED_SPINNING` of `variant_config/28skt/config-2optimised.h`.
/// Without bounded spinning it sorts the rows first.
#[cold]
pub(crate) fn lock_at_once<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    all: bool,
) -> Result<(), Conflict> {
    let c = cx.c;
    let bounded = cx.worker.local.optimisations().has(Optimisation::BoundedSpin);
    if !bounded {
        state.rows.sort_by_place();
    }
    for pause in pauses_nanos(bounded).map(Some).chain([None]) {
        // Relaxed: the transaction checks again when it has its locks.
        let changed = state.rows.list.iter().any(|access| {
            access.flags & INSERTED == 0
                && access.seen != UNSEEN
                && P::load(c, access.row.header().word(), Ordering::Relaxed) & !LOCKED != access.seen
        });
        if changed && !state.faults.has(Fault::UncheckedReads) {
            return Err(Conflict::ReadChanged);
        }
        if try_lock(&mut state.rows, c, all)? {
            return Ok(());
        }
        restore(&mut state.rows, c);
        if let Some(nanos) = pause {
            let before = cx.worker.meter.enter::<P>(c, Category::Wait);
            P::pause(c, nanos);
            cx.worker.meter.leave::<P>(c, before);
        }
    }
    Err(Conflict::Locked)
}

/// Locks rows until one is not free; whether all are locked.
fn try_lock<P: Platform, H: VersionHeader<P>>(
    rows: &mut Accesses<P, H>,
    c: P::Core,
    all: bool,
) -> Result<bool, Conflict> {
    for place in 0..rows.list.len() {
        let access = rows.in_order(place);
        if is_locked_to_commit(access.flags, all) {
            match lock_seen_row(access, c) {
                Ok(()) => {}
                Err(Conflict::Locked) => return Ok(false),
                Err(conflict) => return Err(conflict),
            }
        }
    }
    Ok(true)
}

/// Locks a row if its version is as seen, without a wait, since the transaction may hold others.
pub(crate) fn lock_seen_row<P: Platform, H: VersionHeader<P>>(
    access: &mut Access<P, H>,
    c: P::Core,
) -> Result<(), Conflict> {
    if access.seen == UNSEEN {
        match read_version(access, c, 0) {
            Ok(()) => {}
            Err(terms::Abort::Conflict(Conflict::Locked)) => return Err(Conflict::Locked),
            Err(_) => return Err(Conflict::KeyInUse),
        }
    }
    let word = access.row.header().word();
    // SeqCst: as in `lock_seen`.
    match P::cas(c, word, access.seen, access.seen | LOCKED, Ordering::SeqCst) {
        Ok(_) => {
            access.flags |= HELD;
            Ok(())
        }
        Err(version) if version & !LOCKED != access.seen => Err(Conflict::ReadChanged),
        Err(_) => Err(Conflict::Locked),
    }
}

/// The serialization point: reads the epoch, checks that everything read is as it was, and gives
/// the commit's stamp, which is larger than all that were seen. For version words that are stamps.
pub(crate) fn validate_versions<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
) -> Result<u64, Conflict> {
    let c = cx.c;
    let epoch = cx.worker.local.announce_commit(c);
    let largest = unchanged(state, cx)?.max(state.rows.stamp_seen).max(cx.worker.state.last);
    P::work(c, Work::Access, (state.rows.list.len() + state.rows.unnamed.count()) as u32);
    let Stamp(stamp) = Stamp::after(largest, epoch);
    cx.worker.state.last = stamp;
    Ok(stamp)
}

/// Checks that all rows have the version seen, and all leaves and buckets, at a moment within this
/// call; the largest stamp seen. Where no other session writes, nothing can have changed, and only
/// rows of which no version was seen are checked.
#[inline]
pub(crate) fn unchanged<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &MethodContext<'_, '_, P, M>,
) -> Result<u64, Conflict> {
    let OptimisticState { rows, faults, .. } = state;
    let (c, is_alone) = (cx.c, cx.shared.lockers == Lockers::One);
    let mut largest = 0;
    // Nothing has changed of rows that the transaction holds, and their stamps were seen when they
    // were locked.
    let list = if rows.holds_all { &mut [] } else { &mut rows.list[..] };
    for access in list {
        if access.flags & INSERTED != 0 {
            continue;
        }
        if access.flags & HELD != 0 || is_alone && access.seen != UNSEEN {
            largest = largest.max(access.seen & !FLAGS);
            continue;
        }
        // Acquire: pairs with the release of the row's last writer.
        let version = P::load(c, access.row.header().word(), Ordering::Acquire);
        if access.seen == UNSEEN {
            // The transaction has read nothing but that the row is there.
            if version & FLAGS != 0 {
                return Err(Conflict::KeyInUse);
            }
            access.seen = version;
        } else if !faults.has(Fault::UncheckedReads) && version != access.seen {
            return Err(Conflict::ReadChanged);
        }
        largest = largest.max(access.seen & !FLAGS);
    }
    for unnamed in rows.unnamed.iter() {
        // Acquire: as above.
        let changed = !is_alone && P::load(c, unnamed.row.header().word(), Ordering::Acquire) != unnamed.seen;
        if changed && !faults.has(Fault::UncheckedReads) && !is_locked_as_seen(rows, c, unnamed) {
            return Err(Conflict::ReadChanged);
        }
        largest = largest.max(unnamed.seen);
    }
    // SAFETY: all witnesses come from indexes of this database, and from the epoch of the
    // transaction, which has not ended.
    if !is_alone && !faults.has(Fault::UncheckedLeaves) && !unsafe { rows.witnesses.are_current::<P>(c) } {
        return Err(Conflict::Phantom);
    }
    Ok(largest)
}

/// Returns true if a row that was read without a number has another version only because the
/// transaction itself holds the row.
#[cold]
fn is_locked_as_seen<P: Platform, H: VersionHeader<P>>(
    rows: &Accesses<P, H>,
    c: P::Core,
    unnamed: &UnnamedRow<P, H>,
) -> bool {
    // Relaxed: if the transaction holds the row, no other transaction writes the word.
    let version = P::load(c, unnamed.row.header().word(), Ordering::Relaxed);
    version == unnamed.seen | LOCKED && rows.holds(unnamed.place(c))
}

/// The largest stamp of the rows that were read and of those that were missing where was scanned,
/// if nothing else was done; see [`Redo::reads_until`]. Where deleted rows stay in indexes for a
/// while, missing rows do not show their stamps.
pub(super) fn depends_on<P: Platform, M: Method<P>>(state: &OptimisticState<P, M>) -> Option<Stamp> {
    let OptimisticState { rows, own, faults, .. } = state;
    if faults.has(Fault::EarlyReaders) {
        return Some(Stamp(0));
    }
    if M::is_snapshot(own) || rows.removed == u64::MAX || M::VERSIONS && !rows.witnesses.is_empty() {
        return None;
    }
    let mut largest = if rows.removed == 0 { Stamp(0) } else { M::stamp(rows.removed) };
    for access in &rows.list {
        if access.flags & (WRITTEN | INSERTED | DELETED) != 0 || access.seen == UNSEEN {
            return None;
        }
        largest = largest.max(M::stamp(M::written_at(access.seen)));
    }
    let unnamed = rows.unnamed.iter().map(|unnamed| M::stamp(M::written_at(unnamed.seen)));
    Some(unnamed.fold(largest, Stamp::max))
}

/// Unlocks what is locked, unlinks what was inserted.
pub(super) fn undo<P: Platform, M: Method<P>>(
    mut state: Box<OptimisticState<P, M>>,
    cx: &mut MethodContext<'_, '_, P, M>,
) {
    let c = cx.c;
    M::undo(&mut state, cx);
    let rows = &mut state.rows;
    rows.drop_tails(c, &mut cx.worker.local);
    rows.keep_entries();
    restore(rows, c);
    for number in 0..rows.list.len() as u32 {
        let access = &rows.list[number as usize];
        let (row, flags) = (access.row, access.flags);
        if flags & INSERTED != 0 {
            let table = &cx.tables[access.table as usize];
            M::gone(&state.own, c, &mut cx.worker.local, row.header());
            // SAFETY: the row was never visible and is absent from now on; the worker is in its
            // epoch.
            unsafe { rows.unlink(c, &mut cx.worker.local, table, number, 0) };
            // Release: ends the wait of transactions that have found the row.
            P::store(c, row.header().word(), ABSENT, Ordering::Release);
        }
    }
    recycle(state, cx);
}

/// Unlocks all rows as they were.
pub(crate) fn restore<P: Platform, H: VersionHeader<P>>(rows: &mut Accesses<P, H>, c: P::Core) {
    rows.holds_all = false;
    for access in rows.list.iter_mut().filter(|access| access.flags & HELD != 0) {
        access.flags &= !HELD;
        // Release: pairs with the acquire of the next locker.
        P::store(c, access.row.header().word(), access.seen, Ordering::Release);
    }
}

pub(super) fn recycle<P: Platform, M: Method<P>>(
    mut state: Box<OptimisticState<P, M>>,
    cx: &mut MethodContext<'_, '_, P, M>,
) {
    M::ended(&mut state.own, cx.c);
    remove_marks(&mut state, cx);
    state.absences.thaw::<P>(cx.c);
    state.absences.clear();
    state.rows.clear(cx.c, &mut cx.worker.local);
    cx.worker.state.free.push(state);
}
