//! Scans under locks: each row visited is locked, and the gaps between.
//!
//! The gap below a row ends at the row before it. Both lie in one leaf, but for the rows at a
//! leaf's edge: so when a row has been locked, the leaves from that of the row locked before up to
//! its own must be as they were read. The leaves before those need no check any more: all their
//! gaps are locked, and were found unchanged then. So a row costs one check, and the first row of a
//! leaf one more.

use std::ops::ControlFlow;

use platform::{Intent, LINE_BYTES, Platform};
use storage::index::{Mark, Partition};
use storage::tree::Direction;
use terms::rows::KeyBounds;
use terms::{Abort, Category, Conflict, Fault};

use super::gaps::{lock_gap, lock_gap_above};
use super::parts::TwoPhase;
use super::policy::WaitPolicy;
use super::rows::lock_named_row;
use super::state::LockingState;
use crate::access::{prefetch_ahead, prefetches};
use crate::scheme::{Holder, RowNumber};

/// The order and range of a scan.
pub(super) struct LockingScan<'k> {
    pub(super) table: usize,
    pub(super) index: usize,
    pub(super) range: KeyBounds<'k>,
    pub(super) direction: Direction,
    pub(super) intent: Intent,
}

impl<P: Platform> LockingState<P> {
    /// The scan has locked a row of the leaf whose witness is at `leaf`: where the witnesses begin
    /// that it still needs.
    fn move_edge(&mut self, leaf: Mark) -> Mark {
        // Scans around this one need theirs.
        if self.scans == 1 { self.rows.witnesses.forget_before(leaf) } else { leaf }
    }
}

/// One partition of a scan, whose witnesses come behind `edge`; false if the visitor has seen
/// enough.
pub(super) fn scan_partition<'i, P: Platform, Q: WaitPolicy, T: Holder<'i, P, TwoPhase<Q>>>(
    holder: &mut T,
    partition: &Partition<P>,
    order: &LockingScan<'_>,
    mut edge: Mark,
    visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
) -> Result<bool, Abort> {
    let (transaction, mut cx) = holder.parts();
    let (c, table) = (cx.c, &cx.tables[order.table]);
    let gaps = !cx.shared.faults.has(Fault::UnlockedGaps) && !table.read_only;
    if gaps && order.direction == Direction::Reverse {
        lock_gap_above(&mut transaction.state, &mut cx, partition, order.range.high, table.row_words)?;
    }
    let mut result = Ok(true);
    let ahead = prefetches(&cx.worker.local);
    let before = cx.worker.meter.enter::<P>(c, Category::Index);
    partition.scan(c, order.range, order.direction, gaps, &mut |seen| {
        let (transaction, cx) = holder.parts();
        cx.worker.meter.leave::<P>(c, before);
        let leaf = transaction.state.rows.witnesses.append(seen.witness);
        for (place, bits) in seen.values.iter().enumerate() {
            if ahead {
                prefetch_ahead::<P>(c, seen.values, place, LINE_BYTES);
            }
            let locked = lock_visited_row(holder, order, *bits, gaps.then_some(edge));
            if place == 0 {
                edge = holder.parts().0.state.move_edge(leaf);
            }
            result = locked.and_then(|found| found.map_or(Ok(true), |number| visit(holder, number)));
            if !matches!(result, Ok(true)) {
                return ControlFlow::Break(());
            }
        }
        let (transaction, mut cx) = holder.parts();
        let state = &mut transaction.state;
        if let Some(gap) = seen.gap {
            result = lock_gap(state, &mut cx, &gap, table.row_words).map(|()| true);
        }
        if gaps && result.is_ok() && !state.is_unchanged_from(c, edge) {
            result = Err(state.conflict(Conflict::Phantom));
        }
        cx.worker.meter.enter::<P>(c, Category::Index);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    holder.parts().1.worker.meter.leave::<P>(c, before);
    result
}

/// Locks one row of a scan, and the gap below it; with an edge, the leaves from there on must be as
/// they were read.
#[inline]
fn lock_visited_row<'i, P: Platform, Q: WaitPolicy, T: Holder<'i, P, TwoPhase<Q>>>(
    holder: &mut T,
    order: &LockingScan<'_>,
    bits: u64,
    edge: Option<Mark>,
) -> Result<Option<RowNumber>, Abort> {
    let (transaction, mut cx) = holder.parts();
    let found = lock_named_row(transaction, &mut cx, order.table, order.index, bits, order.intent, true)?;
    // The lock may have come after a change of the leaf: the witness shows that.
    if edge.is_some_and(|edge| !transaction.state.is_unchanged_from(cx.c, edge)) {
        return Err(transaction.state.conflict(Conflict::Phantom));
    }
    Ok(found)
}
