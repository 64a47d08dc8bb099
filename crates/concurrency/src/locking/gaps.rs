//! Locks of gaps: where a key was not found, and below and above the rows of a scan.

use std::ops::ControlFlow;

use platform::Platform;
use storage::index::{Gap, Partition};
use storage::tree::{Direction, Witness};
use terms::rows::KeyBounds;
use terms::{Abort, Conflict, Fault};

use super::acquire::acquire;
use super::gap_set::name_of;
use super::parts::TwoPhase;
use super::policy::WaitPolicy;
use super::state::{LockingState, Row};
use crate::access::{DELETED, INSERTED};
use crate::lock_word::{LockWord, Want};
use crate::scheme::{Context, RowNumber};

/// Locks the gap that `gap` names.
pub(super) fn lock_gap<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    gap: &Gap<'_, P>,
    row_words: u32,
) -> Result<(), Abort> {
    let (lock, name) = gap_lock(gap, row_words);
    let own = match gap {
        Gap::Row(bits) => {
            // SAFETY: the index named the row of this table in this epoch.
            let row = unsafe { Row::<P>::from_bits(*bits, row_words) };
            state.rows.find(P::address(cx.c, row.start()))
        }
        Gap::Word(_) => None,
    };
    lock_gap_of(state, cx, lock, name, own)
}

/// Locks the gap of a lock word; `row` if it is that of a row of the transaction.
pub(super) fn lock_gap_of<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    lock: &LockWord<P>,
    name: u64,
    row: Option<RowNumber>,
) -> Result<(), Abort> {
    if state.gaps.count(name) > 0 {
        return Ok(());
    }
    let flags = row.map_or(0, |number| state.rows.list[number as usize].flags);
    if flags & (INSERTED | DELETED) != 0 {
        // The row is pending because of this transaction itself.
        lock.inherit_gap(cx.c);
    } else {
        acquire(state, cx, lock, Want::Gap, Conflict::Phantom)?;
    }
    state.gaps.push(name);
    Ok(())
}

/// The lock word that a gap is attached to, and its name in `LockingState::gaps`.
pub(super) fn gap_lock<'a, P: Platform>(gap: &Gap<'a, P>, row_words: u32) -> (&'a LockWord<P>, u64) {
    let lock = match gap {
        // SAFETY: the index named the row of this table in this epoch.
        Gap::Row(bits) => &unsafe { Row::<P>::from_bits(*bits, row_words) }.header().lock,
        Gap::Word(word) => LockWord::<P>::from_word(word),
    };
    (lock, name_of(lock))
}

/// Locks the gap in which `key` would lie, which a lookup did not find.
pub(super) fn lock_absence<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    table: usize,
    partition: &Partition<P>,
    key: &[u64],
    witness: Witness,
) -> Result<(), Abort> {
    if cx.shared.faults.has(Fault::UnlockedGaps) || cx.tables[table].read_only {
        return Ok(());
    }
    let (c, row_words) = (cx.c, cx.tables[table].row_words);
    let mark = state.rows.witnesses.append(witness);
    let result = if partition.is_hash() {
        lock_gap(state, cx, &Gap::Word(partition.absent_word(key[0])), row_words)
    } else {
        lock_gap_above(state, cx, partition, key, row_words)
    };
    let unchanged = state.is_unchanged_from(c, mark);
    state.forget_witnesses(mark);
    if unchanged { result } else { Err(state.conflict(Conflict::Phantom)) }
}

/// Locks the gap above `key`; the caller then checks the witnesses.
pub(super) fn lock_gap_above<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    partition: &Partition<P>,
    key: &[u64],
    row_words: u32,
) -> Result<(), Abort> {
    let mut result = Ok(());
    partition.scan(cx.c, KeyBounds::of_key(key), Direction::Forward, true, &mut |seen| {
        state.rows.witnesses.append(seen.witness);
        if let Some(gap) = seen.gap {
            result = lock_gap(state, cx, &gap, row_words);
        }
        ControlFlow::Continue(())
    });
    result
}
