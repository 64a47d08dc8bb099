//! Locking rows that indexes name.

use std::sync::atomic::Ordering;

use platform::{Intent, Platform, Work};
use terms::{Abort, Category, Conflict, Fault};

use super::acquire::{acquire, copy_row, release_shared, upgrade};
use super::gap_set::name_of;
use super::gaps::lock_gap_of;
use super::parts::{LockingTransaction, TwoPhase};
use super::policy::WaitPolicy;
use super::state::{EXCLUSIVE, LockingState, Row};
use crate::access::{Access, DELETED, DELETED_BEFORE, HELD};
use crate::lock_word::Want;
use crate::scheme::{Context, RowNumber};

/// Locks the row that an index names for `intent`, with the gap below the row if `gap`, and adds
/// the row to the transaction's rows; its number. `None`: the transaction has deleted the row.
#[inline(always)]
pub(super) fn lock_named_row<P: Platform, Q: WaitPolicy>(
    transaction: &mut LockingTransaction<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    table: usize,
    index: usize,
    bits: u64,
    intent: Intent,
    gap: bool,
) -> Result<Option<RowNumber>, Abort> {
    let (c, state) = (cx.c, &mut *transaction.state);
    // SAFETY: the value was read from an index of this table in this epoch.
    let row = unsafe { Row::<P>::from_bits(bits, cx.tables[table].row_words) };
    let place = P::address(c, row.start());
    P::work(c, Work::Access, 1);
    if cx.tables[table].read_only {
        return state.rows.push_free(row, table).map(Some);
    }
    let gap = gap && !cx.shared.faults.has(Fault::UnlockedGaps);
    if let Some(number) = state.rows.find(place) {
        if gap {
            let lock = &row.header().lock;
            lock_gap_of(state, cx, lock, name_of(lock), Some(number))?;
        }
        let named = state.rows.named_row(&cx.tables[table], number, index);
        if let (Some(number), Intent::Write) = (named, intent) {
            upgrade(state, cx, number)?;
        }
        return Ok(named);
    }
    let before = cx.worker.meter.enter::<P>(c, Category::Cc);
    let header = row.header();
    state.rows.check_room()?;
    let mut flags = match intent {
        Intent::Read => {
            acquire(state, cx, &header.lock, Want::Shared { gap }, Conflict::Locked)?;
            HELD
        }
        Intent::Write => {
            let want = Want::Exclusive { shared: false, gap };
            acquire(state, cx, &header.lock, want, Conflict::Locked)?;
            HELD | EXCLUSIVE
        }
    };
    if gap {
        state.gaps.push(name_of(&header.lock));
    }
    // Relaxed: read under the lock.
    let stamp = P::load(c, &header.stamp, Ordering::Relaxed);
    state.rows.stamp_seen = state.rows.stamp_seen.max(stamp);
    if cx.shared.faults.has(Fault::EarlySharedUnlock) && flags == HELD {
        release_shared(state, cx, &header.lock);
        flags = 0;
    }
    let number = state.rows.push(row, place, table, stamp, flags)?;
    if flags & EXCLUSIVE != 0 && cx.shared.copies_rows() {
        copy_row(state, c, number);
    }
    cx.worker.meter.leave::<P>(c, before);
    Ok(Some(number))
}

/// Makes sure that the transaction may write the row; the number of its table.
#[inline]
pub(super) fn writable<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    number: RowNumber,
) -> Result<usize, Abort> {
    let Access { flags, table, .. } = *state.rows.get_to_change(number)?;
    if flags & DELETED != 0 {
        return Err(DELETED_BEFORE);
    }
    let table = table as usize;
    upgrade(state, cx, number).map(|()| table).map_err(|abort| abort.in_table(table))
}
