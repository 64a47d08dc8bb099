//! Taking and giving back rows whose locks are managers.
//!
//! The gap below a row is locked by the row's word, as ever, but never waited for: a transaction
//! that does not get a gap that belongs to a row aborts. (The gaps of hash indexes, which are words
//! without a row, are waited for.)

use std::sync::atomic::Ordering;

use platform::{Intent, LINE_BYTES, OutOfMemory, Platform};
use storage::tree::Lookup;
use terms::{Abort, Category, Conflict};

use super::gap_set::name_of;
use super::manager::{Answer, Asker, GRANTED, Kind, LockEntry, RowManager};
use super::parts::TwoPhase;
use super::policy::{Queued, Refusal, WaitPolicy, longest_wait};
use super::state::{LockingState, Row};
use crate::access::HELD;
use crate::lock_word::{LockWord, Want};
use crate::row_latch::{LatchNode, new_node};
use crate::scheme::Context;

type Cx<'w, 'i, P, Q> = Context<'w, 'i, P, TwoPhase<Q>>;

/// The worker's node for latches.
fn node<P: Platform, Q: WaitPolicy>(cx: &mut Cx<'_, '_, P, Q>) -> LatchNode {
    if cx.shared.has_mutexes {
        return LatchNode::Mutex;
    }
    if cx.worker.state.node == 0 {
        // Near the worker, if there is memory left.
        let made = new_node(cx.c, &mut cx.worker.local);
        cx.worker.state.node = made.unwrap_or_else(|_| cx.shared.spare_node(cx.worker.local.worker()));
    }
    LatchNode::Queue(cx.worker.state.node)
}

/// The manager of the row with this lock, which is made if there is none yet.
fn manager<'m, P: Platform, Q: WaitPolicy>(
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &'m LockWord<P>,
) -> Result<&'m RowManager<P>, OutOfMemory> {
    let (c, local) = (cx.c, &mut cx.worker.local);
    let mut address = lock.manager(c);
    if address == 0 {
        let made = RowManager::<P>::make(c, local)?;
        address = lock.name_manager(c, made);
        if address != made {
            // SAFETY: made above, and no row names it.
            unsafe { RowManager::<P>::discard(c, local, made) };
        }
    }
    // SAFETY: the row was found in this epoch, or is locked by this transaction, as long as the
    // lock is borrowed.
    Ok(unsafe { RowManager::at(address) })
}

/// Takes a lock as the word would give it, or acts by the policy.
pub(super) fn acquire<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &LockWord<P>,
    want: Want,
    conflict: Conflict,
) -> Result<(), Abort> {
    let (kind, gap) = match want {
        Want::Shared { gap } => (Kind::Share, gap),
        Want::Exclusive { shared: false, gap } => (Kind::Exclude, gap),
        Want::Exclusive { shared: true, gap } => (Kind::Upgrade, gap),
        Want::Gap | Want::Pend { .. } | Want::Open { .. } => {
            return if lock.take_gap(cx.c, want) { Ok(()) } else { Err(state.conflict(conflict)) };
        }
    };
    let result = acquire_row(state, cx, lock, kind)?;
    result.map_err(|refusal| match refusal {
        // Nothing sleeps in the queue of a manager.
        Refusal::Held | Refusal::TimedOut(_) | Refusal::Late => state.conflict(conflict),
        Refusal::Deadlock => state.conflict(Conflict::Deadlock),
    })?;
    if gap && !lock.take_gap(cx.c, Want::Gap) {
        // Only if there are too many holders: no transaction but an exclusive owner changes the
        // gap. What was upgraded stays.
        if kind != Kind::Upgrade {
            release(state, cx, lock);
        }
        return Err(state.conflict(conflict));
    }
    Ok(())
}

/// Takes a row.
fn acquire_row<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &LockWord<P>,
    kind: Kind,
) -> Result<Result<(), Refusal>, OutOfMemory> {
    let c = cx.c;
    let (node, manager) = (node(cx), manager(cx, lock)?);
    let (worker, shared) = (&mut *cx.worker, cx.shared);
    let asker = Asker { identity: state.identity(), tag: state.tag, kind };
    // SAFETY: the worker's own node.
    let answer = unsafe {
        manager.with(c, node, |latched| {
            let answer = latched.ask::<Q>(&mut worker.local, asker, shared.faults);
            if let (true, Ok(Answer::Waits(entry))) = (Q::notes_waits(&shared.own), &answer) {
                Q::joined_queue(c, &shared.own, &mut worker.state.policy, latched.waits_for(entry));
            }
            answer
        })
    }?;
    let entry: &LockEntry<P> = match answer {
        Answer::Granted => return Ok(Ok(())),
        Answer::Refused => return Ok(Err(Refusal::Held)),
        Answer::Waits(entry) => entry,
    };
    let before = worker.meter.enter::<P>(c, Category::Wait);
    let now = P::now(c);
    let deadline = longest_wait(state, shared.faults).map(|nanos| now.plus(nanos));
    let held = state.rows.list.iter().filter(|access| access.flags & HELD != 0).count();
    let queued = Queued { c, state, name: name_of(lock), answer: &entry.answer, held, node, now, deadline };
    let local = &mut worker.local;
    let waited = Q::wait_in_queue(&shared.own, &mut worker.state.policy, queued, local, shared.faults);
    let answer = match waited {
        // Relaxed: seen by the wait before.
        Ok(()) => P::load(c, &entry.answer, Ordering::Relaxed),
        // SAFETY: as above.
        Err(_) => unsafe { manager.with(c, node, |latched| latched.leave(entry)) },
    };
    worker.meter.leave::<P>(c, before);
    if answer != GRANTED || kind == Kind::Upgrade {
        // SAFETY: the transaction's own entry, which has left the queue and is not an owner's.
        unsafe { entry.free(c, &mut worker.local) };
    }
    Ok(match (answer, waited) {
        (GRANTED, _) => Ok(()),
        (_, Err(refusal)) => Err(refusal),
        (_, Ok(())) => Err(Refusal::Held),
    })
}

/// Gives a row back that the transaction holds.
pub(super) fn release<P: Platform, Q: WaitPolicy>(
    state: &LockingState<P>,
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &LockWord<P>,
) {
    end_ownership(state.identity(), cx, lock, false);
}

/// Says that a transaction has given all its rows back.
pub(super) fn gave_back<P: Platform, Q: WaitPolicy>(cx: &mut Cx<'_, '_, P, Q>) {
    if Q::notes_waits(&cx.shared.own) {
        let (c, node, worker) = (cx.c, node(cx), &mut *cx.worker);
        Q::gave_back(c, &cx.shared.own, &mut worker.state.policy, node, &mut worker.local);
    }
}

/// Gives a row back that is gone for good: the caller has retired it, or leaves it where it is for
/// ever. A thread that waits is sent away.
pub(super) fn release_gone<P: Platform, Q: WaitPolicy>(
    identity: u64,
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &LockWord<P>,
    retired: bool,
) {
    let address = lock.manager(cx.c);
    if address == 0 {
        // The attempt failed before the row had one.
        return;
    }
    end_ownership(identity, cx, lock, true);
    if retired {
        // SAFETY: the row that names it is retired, by this worker, which is in its epoch.
        unsafe { RowManager::<P>::retire(cx.c, &mut cx.worker.local, address) };
    }
}

/// Takes the transaction out of the list of owners.
pub(super) fn end_ownership<P: Platform, Q: WaitPolicy>(
    identity: u64,
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &LockWord<P>,
    gone: bool,
) {
    let c = cx.c;
    let node = node(cx);
    // SAFETY: the transaction holds the row, so there is a manager, and the row stays.
    let manager = unsafe { RowManager::<P>::at(lock.manager(c)) };
    // SAFETY: the worker's own node.
    unsafe {
        manager.with(c, node, |latched| {
            if gone {
                latched.mark_gone();
            }
            latched.release(&mut cx.worker.local, identity);
        });
    }
}

/// Makes the transaction the owner of a row that it inserts, and that no other can reach yet.
pub(super) fn own_inserted<P: Platform, Q: WaitPolicy>(
    state: &LockingState<P>,
    cx: &mut Cx<'_, '_, P, Q>,
    lock: &LockWord<P>,
) -> Result<(), OutOfMemory> {
    let (c, node) = (cx.c, node(cx));
    let local = &mut cx.worker.local;
    let address = RowManager::<P>::make(c, local)?;
    let asker = Asker { identity: state.identity(), tag: state.tag, kind: Kind::Exclude };
    // SAFETY: made above; the worker's own node.
    let owned = unsafe { RowManager::<P>::at(address).with(c, node, |latched| latched.own(local, asker)) };
    match owned {
        Ok(()) => lock.insert_managed(c, address),
        // SAFETY: made above, and no row names it.
        Err(_) => unsafe { RowManager::<P>::discard(c, local, address) },
    }
    owned
}

/// Returns true if the row is gone for good.
pub(super) fn is_gone<P: Platform, Q: WaitPolicy>(cx: &mut Cx<'_, '_, P, Q>, lock: &LockWord<P>) -> bool {
    let (node, address) = (node(cx), lock.manager(cx.c));
    // SAFETY: the row was found in this epoch; the worker's own node.
    address != 0 && unsafe { RowManager::<P>::at(address).with(cx.c, node, |latched| latched.is_gone()) }
}

/// Prefetches the managers of rows that lookups have found.
#[cold]
pub(super) fn bring_managers<P: Platform>(c: P::Core, row_words: u32, found: &[Lookup]) {
    for bits in found.iter().filter_map(|lookup| lookup.value) {
        // SAFETY: the value was read from an index of a table with such rows, in this epoch.
        let row = unsafe { Row::<P>::from_bits(bits, row_words) };
        let manager = row.header().lock.manager(c);
        if manager != 0 {
            let line = std::ptr::without_provenance::<u8>(manager as usize);
            P::prefetch(c, line, LINE_BYTES, Intent::Read);
        }
    }
}
