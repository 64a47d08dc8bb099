//! How a transaction under locks ends: its writes are applied or dropped, and all locks are given
//! back.

use std::sync::atomic::Ordering;

use platform::Platform;
use terms::Fault;

use super::latched::{end_ownership, gave_back, release_gone};
use super::parts::TwoPhase;
use super::policy::{GivenBack, WaitPolicy};
use super::state::{EXCLUSIVE, LockHeader, LockingState};
use crate::access::{Accesses, DELETED, HELD, INSERTED, WRITTEN};
use crate::lock_word::LockWord;
use crate::scheme::{Context, RowNumber};

/// Applies the writes if there is a stamp, and gives all locks back.
pub(super) fn end<P: Platform, Q: WaitPolicy>(
    mut state: Box<LockingState<P>>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    stamp: Option<u64>,
) {
    let c = cx.c;
    if stamp.is_none() {
        if cx.shared.copies_rows() {
            (0..state.rows.list.len() as u32).for_each(|number| state.rows.write_back(c, number));
        }
        state.rows.drop_tails(c, &mut cx.worker.local);
        state.rows.keep_entries();
    }
    if cx.shared.is_latched() {
        end_latched(&mut state, cx, stamp);
    } else {
        for number in state.rows.finishing_order() {
            end_row(&mut state.rows, cx, number, stamp);
        }
    }
    for name in state.gaps.drain() {
        // SAFETY: the name of a word in a row or index. A row is not reused before this worker's
        // epoch ends; rows that this transaction did not delete itself are not unlinked while it
        // has locked their gap.
        let word = unsafe { &*std::ptr::with_exposed_provenance::<LockWord<P>>(name as usize) };
        let before = word.unlock_gap(c, cx.shared.lockers);
        Q::gave_lock_back(c, &cx.shared.own, GivenBack { lock: word, before });
    }
    state.rows.clear(c, &mut cx.worker.local);
    cx.worker.state.free.push(state);
}

/// Returns true if a row with these flags leaves its table when the transaction ends, with a stamp
/// or without.
#[inline(always)]
fn goes(flags: u8, stamp: Option<u64>) -> bool {
    flags & if stamp.is_some() { DELETED } else { INSERTED } != 0
}

/// Makes what a transaction that commits has written to a row, if anything, the row. It is seen
/// when the lock is given back.
#[inline(always)]
fn apply<P: Platform, Q: WaitPolicy>(
    rows: &mut Accesses<P, LockHeader<P>>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    number: RowNumber,
    stamp: Option<u64>,
) {
    let c = cx.c;
    let access = &rows.list[number as usize];
    let (header, flags) = (access.row.header(), access.flags);
    if let (Some(stamp), true) = (stamp, access.is_plainly_written()) {
        rows.writes.apply::<P>(c, access.writes, access.row.words());
        // Relaxed: as below.
        P::store(c, &header.stamp, stamp, Ordering::Relaxed);
    } else if let (Some(stamp), true) = (stamp, flags & WRITTEN != 0) {
        rows.apply(c, &mut cx.worker.local, number);
        if flags & INSERTED != 0 {
            rows.take_over(c, cx.tables, number);
        }
        // Relaxed: published by the thread that gives the lock back.
        P::store(c, &header.stamp, stamp, Ordering::Relaxed);
    }
}

#[inline]
pub(super) fn end_row<P: Platform, Q: WaitPolicy>(
    rows: &mut Accesses<P, LockHeader<P>>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    number: RowNumber,
    stamp: Option<u64>,
) {
    let c = cx.c;
    let access = &rows.list[number as usize];
    let (header, flags) = (access.row.header(), access.flags);
    if goes(flags, stamp) {
        let table = &cx.tables[access.table as usize];
        // SAFETY: the row is locked exclusively and stays so: no other transaction will ever use
        // it; the worker is in its epoch.
        unsafe { rows.unlink(c, &mut cx.worker.local, table, number, stamp.unwrap_or(0)) };
        if Q::WAITS {
            // The memory is not reused before this worker's epoch ends.
            let before = header.lock.mark_gone(c);
            Q::gave_lock_back(c, &cx.shared.own, GivenBack { lock: &header.lock, before });
        }
        return;
    }
    apply(rows, cx, number, stamp);
    let inserted = flags & INSERTED != 0;
    if inserted || flags & EXCLUSIVE != 0 {
        let pending = inserted || !cx.shared.faults.has(Fault::UnlockedGaps) && flags & DELETED != 0;
        let before = header.lock.unlock_exclusive(c, cx.shared.lockers, pending);
        Q::gave_lock_back(c, &cx.shared.own, GivenBack { lock: &header.lock, before });
    } else if flags & HELD != 0 {
        let before = header.lock.unlock_shared(c, cx.shared.lockers);
        Q::gave_lock_back(c, &cx.shared.own, GivenBack { lock: &header.lock, before });
    }
}

/// As [`end_row`] for all rows, where their locks are managers: the locks are given back in the
/// reverse order, as in the program that the managers are taken from (`txn_man::cleanup` of its
/// `system/txn.cpp`).
#[cold]
fn end_latched<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    stamp: Option<u64>,
) {
    let mut order: Vec<_> = state.rows.finishing_order().collect();
    if !state.rows.passes_on {
        order.reverse();
    }
    let identity = state.identity();
    for number in order {
        end_latched_row(&mut state.rows, cx, identity, number, stamp);
    }
    gave_back(cx);
}

fn end_latched_row<P: Platform, Q: WaitPolicy>(
    rows: &mut Accesses<P, LockHeader<P>>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    identity: u64,
    number: RowNumber,
    stamp: Option<u64>,
) {
    let c = cx.c;
    let access = &rows.list[number as usize];
    let (lock, flags) = (&access.row.header().lock, access.flags);
    if goes(flags, stamp) {
        let table = &cx.tables[access.table as usize];
        // SAFETY: as in `end_row`.
        let retired = unsafe { rows.unlink(c, &mut cx.worker.local, table, number, stamp.unwrap_or(0)) };
        release_gone(identity, cx, lock, retired);
        return;
    }
    if flags & (INSERTED | HELD) == 0 || access.is_unindexed() {
        return;
    }
    apply(rows, cx, number, stamp);
    if flags & INSERTED != 0 || !cx.shared.faults.has(Fault::UnlockedGaps) && flags & DELETED != 0 {
        lock.unlock_pending(c);
    }
    end_ownership(identity, cx, lock, false);
}
