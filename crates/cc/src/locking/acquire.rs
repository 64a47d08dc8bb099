//! Taking locks, and what a worker needs for that.

use std::marker::PhantomData;

use platform::Platform;

use super::policy::{Refusal, Seeker, WaitPolicy};
use super::state::{EXCLUSIVE, State};
use crate::abort::{Abort, Conflict};
use crate::access::{FREE, HELD, INSERTED, READ_ONLY};
use crate::lock_word::{LockState, LockWord, Want};
use crate::meter::Category;
use crate::rules::{Rules, Sound};
use crate::scheme::{Context, RowNumber};

/// A scheme that locks, and does what `Q` says when a lock is not free.
pub struct TwoPhase<Q, R = Sound>(PhantomData<(Q, R)>);

/// What a worker keeps: its last stamp, the memory of finished transactions, and what the policy needs.
pub struct LockingWorker<P: Platform, Q: WaitPolicy> {
    pub(super) last: u64,
    pub(super) policy: Q::Worker<P>,
    // Boxed, so that beginning, preparing and committing move a pointer.
    #[allow(clippy::vec_box)]
    pub(super) free: Vec<Box<State<P>>>,
}

/// A running transaction.
pub struct LockingTransaction<P: Platform> {
    pub(super) state: Box<State<P>>,
}

/// Takes a lock, or does about it what the policy says; `conflict` is what the transaction collided on if it fails.
#[inline(always)]
pub(super) fn acquire<P: Platform, Q: WaitPolicy, R: Rules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
    lock: &LockWord<P>,
    want: Want,
    conflict: Conflict,
) -> Result<(), Abort> {
    match lock.acquire::<Q>(cx.c, want, state.tag) {
        Ok(()) => Ok(()),
        Err(seen) => contend(state, cx, lock, want, seen, conflict),
    }
}

#[cold]
#[inline(never)]
pub(super) fn contend<P: Platform, Q: WaitPolicy, R: Rules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
    lock: &LockWord<P>,
    want: Want,
    seen: LockState,
    conflict: Conflict,
) -> Result<(), Abort> {
    let (c, worker, shared) = (cx.c, &mut *cx.worker, cx.shared);
    let before = worker.meter.enter::<P>(c, Category::Wait);
    let seeker = Seeker { c, state, lock, want, seen };
    let result = Q::contend(&shared.own, &mut worker.state.policy, seeker, shared.rules);
    worker.meter.leave::<P>(c, before);
    result.map_err(|refusal| match refusal {
        Refusal::Held => state.conflict(conflict),
        Refusal::Deadlock => state.conflict(Conflict::Deadlock),
    })
}

/// Makes sure that the row is held exclusively.
#[inline]
pub(super) fn upgrade<P: Platform, Q: WaitPolicy, R: Rules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
    number: RowNumber,
) -> Result<(), Abort> {
    let access = state.rows.get(number)?;
    if access.flags & FREE != 0 {
        return Err(READ_ONLY);
    }
    if access.flags & (EXCLUSIVE | INSERTED) == 0 {
        let (row, shared) = (access.row, access.flags & HELD != 0);
        let want = Want::Exclusive { shared, gap: false };
        acquire(state, cx, &row.header().lock, want, Conflict::Locked)?;
        state.rows.list[number as usize].flags |= HELD | EXCLUSIVE;
    }
    Ok(())
}
