//! How a prepared participant keeps what it has read as it was, and how others heed that.

use std::sync::atomic::Ordering;

use platform::Platform;
use terms::{Category, Conflict, Fault};

use super::header::{ABSENT, LOCKED, UNSEEN, VersionHeader};
use super::method::{Method, MethodContext, OptimisticState};
use super::reading::wait_unlocked;
use crate::access::{HELD, INSERTED, MARKED, WRITTEN};

/// Gives up if a row that the transaction has locked to write was read by a participant that has
/// not ended.
#[inline(always)]
pub(super) fn heed_marks<P: Platform, M: Method<P>>(
    state: &OptimisticState<P, M>,
    cx: &MethodContext<'_, '_, P, M>,
) -> Result<(), Conflict> {
    match cx.shared.marks.are_used(cx.c) {
        true => find_marks(state, cx),
        false => Ok(()),
    }
}

#[inline(never)]
fn find_marks<P: Platform, M: Method<P>>(
    state: &OptimisticState<P, M>,
    cx: &MethodContext<'_, '_, P, M>,
) -> Result<(), Conflict> {
    let written = |flags: u8| flags & (WRITTEN | HELD) == WRITTEN | HELD;
    let mut rows = state.rows.list.iter().filter(|access| written(access.flags));
    match rows.any(|access| cx.shared.marks.has(cx.c, access.place)) {
        true => Err(Conflict::Locked),
        false => Ok(()),
    }
}

/// Marks the rows that a participant has only read, and makes sure that they are as they were read.
///
/// Pre: the rows to write are locked.
pub(super) fn mark_rows_read<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
) -> Result<(), Conflict> {
    let (c, checks) = (cx.c, !state.faults.has(Fault::UncheckedReads));
    let wait_nanos = if M::READERS_LOCK { state.rows.lock_wait_nanos } else { 0 };
    cx.shared.marks.announce(c);
    state.has_marks = true;
    for access in &mut state.rows.list {
        if access.flags & (INSERTED | HELD) != 0 {
            continue;
        }
        if !cx.shared.marks.add(c, access.place) {
            return Err(Conflict::Locked);
        }
        access.flags |= MARKED;
        let word = access.row.header().word();
        // SeqCst: acquires what the row's last writer released, and is ordered after the mark
        // ([`super::marks`]).
        let mut version = P::load(c, word, Ordering::SeqCst);
        if version & LOCKED != 0 {
            let before = cx.worker.meter.enter::<P>(c, Category::Wait);
            let waited = wait_unlocked::<P>(c, word, version, wait_nanos);
            cx.worker.meter.leave::<P>(c, before);
            version = waited.map_err(|_| Conflict::Locked)?;
        }
        if access.seen == UNSEEN {
            if version & ABSENT != 0 {
                return Err(Conflict::KeyInUse);
            }
            access.seen = version;
        } else if checks && (version ^ access.seen) & M::VERSION_BITS != 0 {
            return Err(Conflict::ReadChanged);
        }
    }
    Ok(())
}

/// Takes all marks of the transaction back.
#[inline(always)]
pub(super) fn remove_marks<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &MethodContext<'_, '_, P, M>,
) {
    if state.has_marks {
        remove_all(state, cx);
    }
}

#[inline(never)]
fn remove_all<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &MethodContext<'_, '_, P, M>,
) {
    state.has_marks = false;
    for access in state.rows.list.iter_mut().filter(|access| access.flags & MARKED != 0) {
        access.flags &= !MARKED;
        cx.shared.marks.remove(cx.c, access.place);
    }
}
