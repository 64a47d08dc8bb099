//! How a transaction of `tictoc` locks its rows, and how it finds its time.

use std::sync::atomic::Ordering;

use platform::{Platform, Work};
use storage::Optimisation;
use terms::{Category, Conflict, Fault, Faults};

use super::shared::TicTocMethod;
use super::times::{epoch_of, first_of, rts, same_version, word_until, wts};
use crate::access::{Access, COPIED, HELD, INSERTED, WRITTEN};
use crate::optimistic::{
    ABSENT, FLAGS, LOCKED, MethodContext, OptimisticState, UNSEEN, Version, pauses_nanos, restore,
};
use crate::ways::CommitLocks;

/// Attempts to lock all rows, and the pause between two.
const LOCK_ATTEMPTS: usize = 4;
const LOCK_PAUSE_NANOS: u64 = 1_000;
/// How far ahead of their own time readers record that a key is absent, so that few of them write
/// the partition's word.
const AHEAD: u64 = 64;

/// Locks the rows to write. A transaction that finds a row locked gives its own locks back, waits a
/// little and tries again, unless it would abort anyway, or may not wait.
#[inline]
pub(super) fn lock_all<P: Platform>(
    state: &mut OptimisticState<P, TicTocMethod>,
    cx: &mut MethodContext<'_, '_, P, TicTocMethod>,
) -> Result<(), Conflict> {
    if state.rows.lock_wait_nanos == 0 {
        return try_lock_all(state, cx.c);
    }
    if cx.shared.ways.commit_locks == CommitLocks::NoWait {
        return lock_all_at_once(state, cx);
    }
    for _ in 0..LOCK_ATTEMPTS {
        match try_lock_all(state, cx.c) {
            Err(Conflict::Locked) => retreat(state, cx, LOCK_PAUSE_NANOS)?,
            other => return other,
        }
    }
    Err(Conflict::Locked)
}

/// The same with [`CommitLocks::NoWait`]. Source: `validate_tictoc` of
/// `concurrency_control/tictoc/tictoc.cpp` of DataManagementLab/DBx1000 at 0ada3f6.
#[cold]
fn lock_all_at_once<P: Platform>(
    state: &mut OptimisticState<P, TicTocMethod>,
    cx: &mut MethodContext<'_, '_, P, TicTocMethod>,
) -> Result<(), Conflict> {
    let bounded = cx.worker.local.optimisations().has(Optimisation::BoundedSpin);
    if !bounded {
        state.rows.sort_by_place();
    }
    let c = cx.c;
    let mut pauses = pauses_nanos(bounded);
    loop {
        let rows = &mut state.rows;
        let locked = (0..rows.list.len()).try_for_each(|position| {
            let access = rows.in_order(position);
            if access.flags & (WRITTEN | INSERTED) == WRITTEN { lock(access, c) } else { Ok(()) }
        });
        match (locked, pauses.next()) {
            (Err(Conflict::Locked), Some(nanos)) => retreat(state, cx, nanos)?,
            (other, _) => return other,
        }
    }
}

#[inline]
fn try_lock_all<P: Platform>(
    state: &mut OptimisticState<P, TicTocMethod>,
    c: P::Core,
) -> Result<(), Conflict> {
    for access in &mut state.rows.list {
        if access.flags & (WRITTEN | INSERTED) == WRITTEN {
            lock(access, c)?;
        }
    }
    Ok(())
}

/// Locks one row: in the version that was read, if any.
#[inline]
fn lock<P: Platform>(access: &mut Access<P, Version<P>>, c: P::Core) -> Result<(), Conflict> {
    let word = access.word();
    // Relaxed: only a first guess.
    let mut seen = if access.seen == UNSEEN { P::load(c, word, Ordering::Relaxed) } else { access.seen };
    loop {
        if access.flags & COPIED != 0 && !same_version(seen, access.seen) {
            return Err(Conflict::ReadChanged);
        }
        if seen & ABSENT != 0 {
            return Err(Conflict::KeyInUse);
        }
        if seen & LOCKED != 0 {
            return Err(Conflict::Locked);
        }
        // SeqCst: acquires what the holder before released, and is ordered before the checks for
        // participants and marks.
        match P::cas(c, word, seen, seen | LOCKED, Ordering::SeqCst) {
            Ok(_) => break,
            Err(other) => seen = other,
        }
    }
    access.seen = seen;
    access.flags |= HELD;
    Ok(())
}

/// Gives all locks back and waits, unless some row was overwritten that will have to be valid later
/// than it was.
#[cold]
fn retreat<P: Platform>(
    state: &mut OptimisticState<P, TicTocMethod>,
    cx: &mut MethodContext<'_, '_, P, TicTocMethod>,
    nanos: u64,
) -> Result<(), Conflict> {
    let c = cx.c;
    restore(&mut state.rows, c);
    let before = cx.worker.meter.enter::<P>(c, Category::Wait);
    P::pause(c, nanos);
    cx.worker.meter.leave::<P>(c, before);
    let (list, faults) = (&state.rows.list, state.faults);
    let copied = || list.iter().filter(|access| access.flags & COPIED != 0);
    let least = copied().map(|access| least_time(access, faults)).fold(0, u64::max);
    for access in copied() {
        let late = access.flags & WRITTEN != 0 || rts(access.seen) < least;
        // Relaxed: the transaction checks again before it goes on.
        if late && !same_version(P::load(c, access.word(), Ordering::Relaxed), access.seen) {
            return Err(Conflict::ReadChanged);
        }
    }
    Ok(())
}

/// The smallest time of a transaction that used the row by `access`.
#[inline(always)]
fn least_time<P: Platform>(access: &Access<P, Version<P>>, faults: Faults) -> u64 {
    1 + if access.flags & WRITTEN != 0 && !faults.has(Fault::UnusedReadTimes) {
        rts(access.seen)
    } else {
        wts(access.seen)
    }
}

/// Finds the time of the commit, at which everything that was read is valid, and makes sure that it
/// stays valid. `commits`: whether the transaction changes anything.
///
/// Concurrency: everything that readers and writers of a row have to agree on is in the row's one
/// word. What the partitions of indexes need is described at `Absences`.
#[inline]
pub(super) fn agree<P: Platform>(
    state: &mut OptimisticState<P, TicTocMethod>,
    cx: &mut MethodContext<'_, '_, P, TicTocMethod>,
    commits: bool,
) -> Result<u64, Conflict> {
    let c = cx.c;
    let in_real_time = cx.shared.own.seen(c);
    let epoch =
        if commits { cx.worker.local.announce_commit(c) } else { cx.worker.local.epochs_shared().current(c) };
    let OptimisticState { rows, absences, faults, .. } = state;
    let faults = *faults;
    let removed = if !faults.has(Fault::IgnoredRemovals) { absences.removed::<P>(c) } else { 0 };
    let mut time = first_of(epoch).max(rows.stamp_seen + 1).max(removed + 1);
    let mut reads = false;
    for access in &mut rows.list {
        if access.flags & INSERTED != 0 {
            continue;
        }
        if access.seen == UNSEEN {
            see(access, c)?;
        }
        time = time.max(least_time(access, faults));
        reads |= access.flags & HELD == 0;
    }
    P::work(c, Work::Access, rows.list.len() as u32);
    if epoch_of(time) > epoch {
        // Times must not run away from the epochs: a commit is durable when the epoch of its time
        // is.
        cx.worker.local.epochs_shared().try_advance(c);
    }
    if reads && !faults.has(Fault::UncheckedReads) {
        for access in &rows.list {
            if access.flags & (INSERTED | HELD) == 0 && (in_real_time || rts(access.seen) < time) {
                extend(access, c, time, in_real_time)?;
            }
        }
    }
    if !faults.has(Fault::MissingTraces) {
        absences.trace::<P>(c, time, AHEAD);
    }
    // SAFETY: all come from indexes of this database, and from the epoch of the transaction, which
    // has not ended.
    if !faults.has(Fault::UncheckedLeaves) && !unsafe { rows.witnesses.are_current::<P>(c) } {
        return Err(Conflict::Phantom);
    }
    Ok(time)
}

/// The time at which a participant commits that has agreed on `time` some epochs ago: no other
/// transaction has used its rows since, nor the keys that it saw to be absent.
pub(super) fn postpone<P: Platform>(
    state: &mut OptimisticState<P, TicTocMethod>,
    cx: &mut MethodContext<'_, '_, P, TicTocMethod>,
    time: u64,
) -> u64 {
    let later = time.max(first_of(cx.worker.local.announce_commit(cx.c)));
    if later > time && !state.faults.has(Fault::MissingTraces) {
        // Before the partitions thaw.
        state.absences.trace::<P>(cx.c, later, AHEAD);
    }
    later
}

/// Makes a row valid until `time` that a participant has read, and still marks.
///
/// Concurrency: no transaction writes the row. A transaction that has locked the row to write sees
/// the mark and unlocks it as it was, so that the time has to wait for that; one that locks it
/// later sees the time.
pub(super) fn prolong<P: Platform>(c: P::Core, word: &P::Word, time: u64) {
    // Relaxed: the compare and swap decides.
    let mut seen = P::load(c, word, Ordering::Relaxed);
    while rts(seen) < time {
        if seen & LOCKED != 0 {
            seen = P::spin_while(c, word, seen, None);
            continue;
        }
        // AcqRel: as in `extend`.
        match P::cas(c, word, seen, word_until(seen, time), Ordering::AcqRel) {
            Ok(_) => break,
            Err(other) => seen = other,
        }
    }
}

/// Sees the version of a row of which only its being there was read.
fn see<P: Platform>(access: &mut Access<P, Version<P>>, c: P::Core) -> Result<(), Conflict> {
    // Acquire: pairs with the release of the row's last writer.
    access.seen = P::load(c, access.word(), Ordering::Acquire);
    if access.seen & FLAGS == 0 { Ok(()) } else { Err(Conflict::KeyInUse) }
}

/// Makes sure that the version of a row that was read is valid until `time`; with `now`, that it is
/// the latest too.
#[inline]
fn extend<P: Platform>(
    access: &Access<P, Version<P>>,
    c: P::Core,
    time: u64,
    now: bool,
) -> Result<(), Conflict> {
    let word = access.word();
    // Acquire: what is checked next is as new as this.
    let mut seen = P::load(c, word, Ordering::Acquire);
    loop {
        if !same_version(seen, access.seen) {
            return Err(Conflict::ReadChanged);
        }
        if !now && rts(seen) >= time {
            return Ok(());
        }
        if seen & LOCKED != 0 {
            return Err(Conflict::Locked);
        }
        if rts(seen) >= time {
            return Ok(());
        }
        // AcqRel: in line with the release of the row's last writer, for the next reader of the
        // row.
        match P::cas(c, word, seen, word_until(seen, time), Ordering::AcqRel) {
            Ok(_) => return Ok(()),
            Err(other) => seen = other,
        }
    }
}
