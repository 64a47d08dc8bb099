//! Taking locks.

use platform::Platform;
use terms::{Abort, Category, Conflict, LockedPlace};

use super::latched;
use super::parts::TwoPhase;
use super::policy::{GivenBack, Refusal, Seeker, WaitPolicy};
use super::state::{EXCLUSIVE, LockingState};
use crate::access::{HELD, INSERTED};
use crate::lock_word::{LockState, LockWord, Want};
use crate::options::Lockers;
use crate::scheme::{Context, RowNumber};

/// Takes a lock, or acts by the policy; `conflict` is the reason if the transaction conflicts
/// on if it fails.
#[inline(always)]
pub(super) fn acquire<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    lock: &LockWord<P>,
    want: Want,
    conflict: Conflict,
) -> Result<(), Abort> {
    match lock.acquire::<Q>(cx.c, cx.shared.lockers, want, state.tag) {
        Ok(()) => Ok(()),
        Err(seen) => contend(state, cx, lock, want, seen, conflict),
    }
}

#[cold]
#[inline(never)]
pub(super) fn contend<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    lock: &LockWord<P>,
    want: Want,
    seen: LockState,
    conflict: Conflict,
) -> Result<(), Abort> {
    if seen.is_managed() {
        return latched::acquire(state, cx, lock, want, conflict);
    }
    let (c, worker, shared) = (cx.c, &mut *cx.worker, cx.shared);
    let before = worker.meter.enter::<P>(c, Category::Wait);
    let (transaction_ends, has_others) = (worker.transaction_ends, shared.lockers == Lockers::Several);
    let seeker = Seeker { c, state, lock, want, seen, transaction_ends, has_others };
    let result = Q::contend(&shared.own, &mut worker.state.policy, seeker, shared.faults);
    worker.meter.leave::<P>(c, before);
    result.map_err(|refusal| match refusal {
        Refusal::Held => state.conflict(conflict),
        Refusal::Deadlock => state.conflict(Conflict::Deadlock),
        Refusal::TimedOut(nanos) => {
            let place = match want {
                Want::Shared { .. } | Want::Exclusive { .. } => LockedPlace::Row,
                Want::Gap | Want::Pend { .. } | Want::Open { .. } => LockedPlace::Gap,
            };
            Abort::lock_timeout(place, nanos)
        }
        Refusal::Late => Abort::Deadline,
    })
}

/// Ends sharing a row before the transaction ends.
pub(super) fn release_shared<P: Platform, Q: WaitPolicy>(
    state: &LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    lock: &LockWord<P>,
) {
    match cx.shared.is_latched() {
        true => latched::release(state, cx, lock),
        false => {
            let before = lock.unlock_shared(cx.c, cx.shared.lockers);
            Q::gave_lock_back(cx.c, &cx.shared.own, GivenBack { lock, before });
        }
    }
}

/// Keeps a copy of a row that the transaction holds exclusively, as it was.
#[cold]
pub(super) fn copy_row<P: Platform>(state: &mut LockingState<P>, c: P::Core, number: RowNumber) {
    let copied: Result<(), std::convert::Infallible> = state.rows.copy_whole(c, number, |rows, words| {
        P::read_words(c, rows.list[number as usize].row.words(), words);
        Ok(())
    });
    let Ok(()) = copied;
}

/// Makes sure that the row is held exclusively.
#[inline]
pub(super) fn upgrade<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    number: RowNumber,
) -> Result<(), Abort> {
    let access = state.rows.get_to_change(number)?;
    if access.flags & (EXCLUSIVE | INSERTED) == 0 {
        let (row, shared) = (access.row, access.flags & HELD != 0);
        let want = Want::Exclusive { shared, gap: false };
        acquire(state, cx, &row.header().lock, want, Conflict::Locked)?;
        state.rows.list[number as usize].flags |= HELD | EXCLUSIVE;
        if cx.shared.copies_rows() {
            copy_row(state, cx.c, number);
        }
    }
    Ok(())
}
