//! Scans under locks: each row visited is locked, and the gaps between.

use std::ops::ControlFlow;

use platform::{Intent, Platform};
use storage::index::Partition;
use storage::tree::Direction;

use super::{LockingRules, TwoPhase, WaitPolicy, lock_gap, lock_gap_above, take};
use crate::abort::{Abort, Conflict};
use crate::access::{prefetch_ahead, prefetches};
use crate::meter::Category;
use crate::scheme::{Found, Holder};

/// What a scan is asked for.
pub(super) struct ScanOrder<'k> {
    pub(super) table: usize,
    pub(super) index: usize,
    pub(super) range: (&'k [u64], &'k [u64]),
    pub(super) direction: Direction,
    pub(super) intent: Intent,
}

/// One partition of a scan; false if the visitor has seen enough.
pub(super) fn scan_partition<
    'i,
    P: Platform,
    Q: WaitPolicy,
    R: LockingRules,
    T: Holder<'i, P, TwoPhase<Q, R>>,
>(
    holder: &mut T,
    partition: &Partition<P>,
    order: &ScanOrder<'_>,
    visit: &mut dyn FnMut(&mut T, Found) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let (transaction, mut cx) = holder.parts();
    let (c, table) = (cx.c, &cx.tables[order.table]);
    let gaps = R::GAPS && !table.read_only;
    if gaps && order.direction == Direction::Reverse {
        lock_gap_above(&mut transaction.state, &mut cx, partition, order.range.1, table.row_words)?;
    }
    let mut result = Ok(true);
    let ahead = prefetches(&cx.worker.local);
    let before = cx.worker.meter.enter::<P>(c, Category::Index);
    partition.scan(c, order.range, order.direction, gaps, &mut |seen| {
        let (transaction, cx) = holder.parts();
        cx.worker.meter.leave::<P>(c, before);
        transaction.state.rows.witnesses.push(seen.witness);
        for (place, bits) in seen.values.iter().enumerate() {
            if ahead {
                prefetch_ahead::<P>(c, seen.values, place);
            }
            result = scan_row(holder, order, *bits, gaps, visit);
            if !matches!(result, Ok(true)) {
                return ControlFlow::Break(());
            }
        }
        let (transaction, mut cx) = holder.parts();
        let state = &mut transaction.state;
        if let Some(gap) = seen.gap {
            result = lock_gap(state, &mut cx, &gap, table.row_words).map(|()| true);
        }
        if gaps && result.is_ok() && !state.rows.witnesses.are_current::<P>(c) {
            result = Err(state.conflict(Conflict::Phantom));
        }
        cx.worker.meter.enter::<P>(c, Category::Index);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    holder.parts().1.worker.meter.leave::<P>(c, before);
    result
}

/// Locks one row of a scan and shows it to the visitor.
pub(super) fn scan_row<'i, P: Platform, Q: WaitPolicy, R: LockingRules, T: Holder<'i, P, TwoPhase<Q, R>>>(
    holder: &mut T,
    order: &ScanOrder<'_>,
    bits: u64,
    gaps: bool,
    visit: &mut dyn FnMut(&mut T, Found) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let (transaction, mut cx) = holder.parts();
    let found = take(transaction, &mut cx, (order.table, order.index), bits, order.intent, true)?;
    // The lock may have come after a change of the leaf: the witness tells.
    if gaps && !transaction.state.rows.witnesses.are_current::<P>(cx.c) {
        return Err(transaction.state.conflict(Conflict::Phantom));
    }
    match found {
        Some(number) => visit(holder, number),
        None => Ok(true),
    }
}
