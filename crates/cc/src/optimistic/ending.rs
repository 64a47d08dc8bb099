//! How a transaction of `silo` ends: locking and validation, applying and unlocking, or leaving no trace.

use std::sync::atomic::Ordering;

use platform::{Platform, Work};

use super::{
    ABSENT, FLAGS, LOCKED, Silo, SiloTransaction, UNSEEN, ValidationRules, Version, look, wait_unlocked,
};
use crate::abort::Conflict;
use crate::access::{Accesses, DELETED, FREE, HELD, INSERTED, WRITTEN};
use crate::meter::Category;
use crate::scheme::{Context, Found, Mode, Stamp};

/// Locks the rows to write in the order of their places.
pub(super) fn lock_all<P: Platform, R: ValidationRules>(
    transaction: &mut SiloTransaction<P>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
) -> Result<(), Conflict> {
    let c = cx.c;
    let Accesses { list, order, .. } = &mut *transaction.rows;
    let part = transaction.mode == Mode::Part;
    for (number, access) in list.iter().enumerate() {
        let wanted = access.flags & WRITTEN != 0 || part;
        if wanted && access.flags & (INSERTED | FREE) == 0 {
            order.push(number as u32);
        }
    }
    order.sort_unstable_by_key(|number| list[*number as usize].place);
    for number in order.iter() {
        let access = &mut list[*number as usize];
        if access.seen == UNSEEN {
            look(access, c).map_err(|_| Conflict::KeyInUse)?;
        }
        let word = &access.row.header().0;
        // Acquire: pairs with the release of the holder before.
        while let Err(version) = P::cas(c, word, access.seen, access.seen | LOCKED, Ordering::Acquire) {
            if version & !LOCKED != access.seen {
                return Err(Conflict::ReadChanged);
            }
            let before = cx.worker.meter.enter::<P>(c, Category::Wait);
            let waited = wait_unlocked(c, access.row, version);
            cx.worker.meter.leave::<P>(c, before);
            if waited.is_err() {
                return Err(Conflict::Locked);
            }
        }
        access.flags |= HELD;
    }
    Ok(())
}

/// The serialization point: reads the epoch, checks everything read, and gives the commit's stamp.
pub(super) fn validate<P: Platform, R: ValidationRules>(
    transaction: &mut SiloTransaction<P>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
) -> Result<u64, Conflict> {
    let c = cx.c;
    let epoch = cx.worker.local.epochs_shared().current_ordered(c);
    let rows = &mut *transaction.rows;
    unchanged::<P, R>(rows, c)?;
    let seen = rows.list.iter().filter(|access| access.flags & FREE == 0).map(|access| access.seen & !FLAGS);
    let largest = seen.fold(rows.stamp_seen.max(cx.worker.state.last), u64::max);
    P::work(c, Work::Access, rows.list.len() as u32);
    let Stamp(stamp) = Stamp::after(largest, epoch);
    cx.worker.state.last = stamp;
    Ok(stamp)
}

/// Whether all rows have the version seen, and all leaves and buckets, at a moment within this call.
#[inline]
pub(super) fn unchanged<P: Platform, R: ValidationRules>(
    rows: &mut Accesses<P, Version<P>>,
    c: P::Core,
) -> Result<(), Conflict> {
    for access in &mut rows.list {
        if access.flags & (INSERTED | FREE | HELD) != 0 {
            continue;
        }
        // Acquire: pairs with the release of the row's last writer.
        let version = P::load(c, &access.row.header().0, Ordering::Acquire);
        if access.seen == UNSEEN {
            // Only that the row is there was read.
            if version & FLAGS != 0 {
                return Err(Conflict::KeyInUse);
            }
            access.seen = version;
        } else if R::READS && version != access.seen {
            return Err(Conflict::ReadChanged);
        }
    }
    if R::WITNESSES && !rows.witnesses.are_current::<P>(c) {
        return Err(Conflict::Phantom);
    }
    Ok(())
}

/// Applies what the transaction did to one row, and unlocks it.
#[inline]
pub(super) fn finish<P: Platform, R: ValidationRules>(
    rows: &mut Accesses<P, Version<P>>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
    number: Found,
    stamp: u64,
) {
    let (c, local) = (cx.c, &mut cx.worker.local);
    let access = &rows.list[number as usize];
    let (row, flags) = (access.row, access.flags);
    let table = &cx.tables[access.table as usize];
    let version = if flags & DELETED != 0 {
        // SAFETY: the row is locked and becomes absent, so nobody else will ever change it; the worker is in its epoch.
        unsafe { rows.unlink(c, local, table, number, stamp) };
        stamp | ABSENT
    } else if flags & WRITTEN != 0 {
        rows.apply(c, local, number);
        if flags & INSERTED != 0 {
            rows.take_over(c, table, number);
        }
        stamp
    } else if flags & HELD != 0 {
        access.seen
    } else {
        return;
    };
    // Release: whoever sees the version sees the words.
    P::store(c, &row.header().0, version, Ordering::Release);
}

/// Unlocks what is locked, unlinks what was inserted.
pub(super) fn undo<P: Platform, R: ValidationRules>(
    mut rows: Box<Accesses<P, Version<P>>>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
) {
    let c = cx.c;
    rows.drop_tails(c, &mut cx.worker.local);
    rows.disinherit_all();
    for number in 0..rows.list.len() as u32 {
        let access = &rows.list[number as usize];
        let (row, flags) = (access.row, access.flags);
        if flags & INSERTED != 0 {
            let table = &cx.tables[access.table as usize];
            // SAFETY: the row was never visible and is absent from now on; the worker is in its epoch.
            unsafe { rows.unlink(c, &mut cx.worker.local, table, number, 0) };
            // Release: ends the wait of those who found the row.
            P::store(c, &row.header().0, ABSENT, Ordering::Release);
        } else if flags & HELD != 0 {
            // Release: pairs with the acquire of the next locker.
            P::store(c, &row.header().0, access.seen, Ordering::Release);
        }
    }
    recycle(rows, cx);
}

pub(super) fn recycle<P: Platform, R: ValidationRules>(
    mut rows: Box<Accesses<P, Version<P>>>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
) {
    rows.clear();
    cx.worker.state.free.push(rows);
}
