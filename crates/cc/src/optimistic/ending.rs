//! How an optimistic transaction ends: locking and validation, applying and unlocking, or leaving no trace.

use std::sync::atomic::Ordering;

use platform::{Platform, Work};

use super::header::{ABSENT, FLAGS, LOCKED, UNSEEN, VersionHeader};
use super::method::{Method, MethodContext, State};
use super::reading::{look, wait_unlocked};
use crate::abort::Conflict;
use crate::access::{Accesses, FREE, HELD, INSERTED, WRITTEN};
use crate::meter::Category;
use crate::rules::{Rule, Rules};
use crate::scheme::Stamp;

/// Locks the rows to write in the order of their places, and those that were read if `all`. No transaction waits for ever: a
/// transaction that holds rows waits for larger places only, and every wait has a limit.
pub(crate) fn lock_in_order<P: Platform, M: Method<P>>(
    state: &mut State<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    all: bool,
) -> Result<(), Conflict> {
    let c = cx.c;
    let Accesses { list, order, lock_wait_nanos, .. } = &mut state.rows;
    for (number, access) in list.iter().enumerate() {
        let wanted = access.flags & WRITTEN != 0 || all;
        if wanted && access.flags & (INSERTED | FREE) == 0 {
            order.push(number as u32);
        }
    }
    order.sort_unstable_by_key(|number| list[*number as usize].place);
    for number in order.iter() {
        let access = &mut list[*number as usize];
        if access.seen == UNSEEN {
            look(access, c, *lock_wait_nanos).map_err(|_| Conflict::KeyInUse)?;
        }
        let word = access.row.header().word();
        // Acquire: pairs with the release of the holder before.
        while let Err(version) = P::cas(c, word, access.seen, access.seen | LOCKED, Ordering::Acquire) {
            if version & !LOCKED != access.seen {
                return Err(Conflict::ReadChanged);
            }
            let before = cx.worker.meter.enter::<P>(c, Category::Wait);
            let waited = wait_unlocked::<P>(c, word, version, *lock_wait_nanos);
            cx.worker.meter.leave::<P>(c, before);
            if waited.is_err() {
                return Err(Conflict::Locked);
            }
        }
        access.flags |= HELD;
    }
    Ok(())
}

/// The serialization point: reads the epoch, checks that everything read is as it was, and gives the commit's stamp, which
/// is larger than all that were seen. For version words that are stamps.
pub(crate) fn validate_versions<P: Platform, M: Method<P>>(
    state: &mut State<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
) -> Result<u64, Conflict> {
    let c = cx.c;
    let epoch = cx.worker.local.announce_commit(c);
    let largest = unchanged(state, c)?.max(state.rows.stamp_seen).max(cx.worker.state.last);
    P::work(c, Work::Access, state.rows.list.len() as u32);
    let Stamp(stamp) = Stamp::after(largest, epoch);
    cx.worker.state.last = stamp;
    Ok(stamp)
}

/// Whether all rows have the version seen, and all leaves and buckets, at a moment within this call; the largest stamp
/// seen.
#[inline]
pub(crate) fn unchanged<P: Platform, M: Method<P>>(
    state: &mut State<P, M>,
    c: P::Core,
) -> Result<u64, Conflict> {
    let State { rows, rules, .. } = state;
    let mut largest = 0;
    for access in &mut rows.list {
        if access.flags & (INSERTED | FREE) != 0 {
            continue;
        }
        if access.flags & HELD != 0 {
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
        } else if rules.keeps(Rule::Reads) && version != access.seen {
            return Err(Conflict::ReadChanged);
        }
        largest = largest.max(access.seen & !FLAGS);
    }
    // SAFETY: all witnesses come from indexes of this database, and from the epoch of the transaction, which has not ended.
    if rules.keeps(Rule::Witnesses) && !unsafe { rows.witnesses.are_current::<P>(c) } {
        return Err(Conflict::Phantom);
    }
    Ok(largest)
}

/// Unlocks what is locked, unlinks what was inserted.
pub(super) fn undo<P: Platform, M: Method<P>>(
    mut state: Box<State<P, M>>,
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
            // SAFETY: the row was never visible and is absent from now on; the worker is in its epoch.
            unsafe { rows.unlink(c, &mut cx.worker.local, table, number, 0) };
            // Release: ends the wait of transactions that have found the row.
            P::store(c, row.header().word(), ABSENT, Ordering::Release);
        }
    }
    recycle(state, cx);
}

/// Unlocks all rows as they were.
pub(crate) fn restore<P: Platform, H: VersionHeader<P>>(rows: &mut Accesses<P, H>, c: P::Core) {
    for access in rows.list.iter_mut().filter(|access| access.flags & HELD != 0) {
        access.flags &= !HELD;
        // Release: pairs with the acquire of the next locker.
        P::store(c, access.row.header().word(), access.seen, Ordering::Release);
    }
}

pub(super) fn recycle<P: Platform, M: Method<P>>(
    mut state: Box<State<P, M>>,
    cx: &mut MethodContext<'_, '_, P, M>,
) {
    state.absences.thaw::<P>(cx.c);
    state.absences.clear();
    state.rows.clear(cx.c, &mut cx.worker.local);
    cx.worker.state.free.push(state);
}
