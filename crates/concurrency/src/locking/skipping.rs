//! Scans that lock what is free and skip the rest: for queues with several consumers.
//!
//! The rows that such a scan visits are as if each had been looked up by its key. Those that it
//! skips count as not read, and so do the gaps: rows may appear between, and change, as others
//! like. So no gap is locked, and nothing is checked but that each row is there once it is locked:
//! the row of a deleted entry stays locked for good.

use std::ops::ControlFlow;

use platform::Platform;
use terms::{Abort, Fault};

use super::acquire::copy_row;
use super::parts::{LockingTransaction, TwoPhase};
use super::policy::WaitPolicy;
use super::scan::LockingScan;
use super::state::{EXCLUSIVE, Row};
use crate::access::{HELD, INSERTED};
use crate::lock_word::Want;
use crate::scheme::{Context, Holder, RowNumber};
use storage::index::Partition;

/// Visits the rows of one partition that no other transaction has locked, and locks them; false if
/// the visitor has seen enough.
pub(super) fn scan_free_rows<'i, P: Platform, Q: WaitPolicy, T: Holder<'i, P, TwoPhase<Q>>>(
    holder: &mut T,
    partition: &Partition<P>,
    order: &LockingScan<'_>,
    visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let mut result = Ok(true);
    let c = holder.parts().1.c;
    partition.scan(c, order.range, order.direction, false, &mut |seen| {
        for bits in seen.values {
            let (transaction, mut cx) = holder.parts();
            let locked = lock_free_row(transaction, &mut cx, order, *bits);
            result = locked.and_then(|found| found.map_or(Ok(true), |number| visit(holder, number)));
            if !matches!(result, Ok(true)) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    result
}

/// Locks the row that an index names, if it is free; `None` if it is not, or gone.
fn lock_free_row<P: Platform, Q: WaitPolicy>(
    transaction: &mut LockingTransaction<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    order: &LockingScan<'_>,
    bits: u64,
) -> Result<Option<RowNumber>, Abort> {
    let (c, state, table) = (cx.c, &mut *transaction.state, &cx.tables[order.table]);
    // SAFETY: the value was read from an index of this table in this epoch.
    let row = unsafe { Row::<P>::from_bits(bits, table.row_words) };
    let place = P::address(c, row.start());
    if table.read_only {
        return state.rows.push_free(row, order.table).map(Some);
    }
    let (lock, lockers, tag) = (&row.header().lock, cx.shared.lockers, state.tag);
    let own = state.rows.find(place);
    let flags = own.map_or(0, |number| state.rows.list[number as usize].flags);
    if let Some(number) = own
        && flags & (EXCLUSIVE | INSERTED) != 0
    {
        return Ok(state.rows.named_row(table, number, order.index));
    }
    state.rows.check_room()?;
    let want = Want::Exclusive { shared: flags & HELD != 0, gap: false };
    let is_free = lock.acquire::<Q>(c, lockers, want, tag).is_ok();
    if !is_free && !cx.shared.faults.has(Fault::UnskippedRows) {
        return Ok(None);
    }
    let flags = if is_free { HELD | EXCLUSIVE } else { 0 };
    let number = match own {
        Some(number) => {
            state.rows.list[number as usize].flags |= flags;
            number
        }
        None => {
            // Relaxed: read under the lock.
            let stamp = P::load(c, &row.header().stamp, std::sync::atomic::Ordering::Relaxed);
            state.rows.stamp_seen = state.rows.stamp_seen.max(stamp);
            state.rows.push(row, place, order.table, stamp, flags)?
        }
    };
    if is_free && cx.shared.copies_rows() {
        copy_row(state, c, number);
    }
    Ok(Some(number))
}
