//! Locks of gaps: where a key was not found, and below and above the rows of a scan.

use std::ops::ControlFlow;

use platform::Platform;
use storage::index::{Gap, Partition};
use storage::tree::{Direction, Witness};

use super::{LockingRules, Row, State, TwoPhase, WaitPolicy, acquire};
use crate::abort::{Abort, Conflict};
use crate::access::{DELETED, INSERTED};
use crate::lock_word::{LockWord, Want};
use crate::scheme::{Context, Found};

/// Locks of gaps up to which they are searched one by one.
const SMALL_GAPS: usize = 64;

/// The locks of gaps that a transaction has.
#[derive(Default)]
pub(super) struct Gaps {
    /// Addresses of the lock words, once for each time.
    names: Vec<u64>,
    /// The same of a transaction with many: open addressing, each name and how often it has the lock; 0 where free.
    counts: Vec<(u64, u64)>,
}

impl Gaps {
    /// How often the transaction has the lock of this name.
    pub(super) fn count(&self, name: u64) -> u64 {
        if self.counts.is_empty() {
            return self.names.iter().filter(|other| **other == name).count() as u64;
        }
        self.counts[self.slot(name)].1
    }

    pub(super) fn push(&mut self, name: u64) {
        self.names.push(name);
        if self.names.len() > SMALL_GAPS {
            self.enter();
        }
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = u64> {
        self.names.iter().copied()
    }

    /// Takes all out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u64> {
        self.counts.clear();
        self.names.drain(..)
    }

    /// Where the name is, or has its place.
    fn slot(&self, name: u64) -> usize {
        let mask = self.counts.len() - 1;
        let mut slot = ((name >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.counts[slot].0 != 0 && self.counts[slot].0 != name {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Counts the last one; the table is made, or made larger, when it is time.
    #[cold]
    fn enter(&mut self) {
        let mut first = self.names.len() - 1;
        if self.names.len() * 2 > self.counts.len() {
            let slots = (self.names.len() * 4).next_power_of_two();
            self.counts.clear();
            self.counts.resize(slots, (0, 0));
            first = 0;
        }
        for place in first..self.names.len() {
            let name = self.names[place];
            let slot = self.slot(name);
            self.counts[slot] = (name, self.counts[slot].1 + 1);
        }
    }
}

/// Locks the gap that `gap` names.
pub(super) fn lock_gap<P: Platform, Q: WaitPolicy, R: LockingRules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
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
pub(super) fn lock_gap_of<P: Platform, Q: WaitPolicy, R: LockingRules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
    lock: &LockWord<P>,
    name: u64,
    row: Option<Found>,
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

pub(super) fn name_of<P: Platform>(lock: &LockWord<P>) -> u64 {
    std::ptr::from_ref(lock).expose_provenance() as u64
}

/// The lock word that a gap is attached to, and its name in `State::gaps`.
pub(super) fn gap_lock<'a, P: Platform>(gap: &Gap<'a, P>, row_words: u32) -> (&'a LockWord<P>, u64) {
    let lock = match gap {
        // SAFETY: the index named the row of this table in this epoch.
        Gap::Row(bits) => &unsafe { Row::<P>::from_bits(*bits, row_words) }.header().lock,
        Gap::Word(word) => LockWord::<P>::from_word(word),
    };
    (lock, name_of(lock))
}

/// Locks the gap in which `key` would lie, which a lookup did not find.
pub(super) fn lock_absence<P: Platform, Q: WaitPolicy, R: LockingRules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
    table: usize,
    partition: &Partition<P>,
    key: &[u64],
    witness: Witness,
) -> Result<(), Abort> {
    if !R::GAPS || cx.tables[table].read_only {
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
pub(super) fn lock_gap_above<P: Platform, Q: WaitPolicy, R: LockingRules>(
    state: &mut State<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q, R>>,
    partition: &Partition<P>,
    key: &[u64],
    row_words: u32,
) -> Result<(), Abort> {
    let mut result = Ok(());
    partition.scan(cx.c, (key, key), Direction::Forward, true, &mut |seen| {
        state.rows.witnesses.append(seen.witness);
        if let Some(gap) = seen.gap {
            result = lock_gap(state, cx, &gap, row_words);
        }
        ControlFlow::Continue(())
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_few_or_many() {
        let mut gaps = Gaps::default();
        for _ in 0..2 {
            for step in 0..10 * SMALL_GAPS as u64 {
                // Words of rows that follow each other, some of them again and again.
                let name = 64 + step % 100 * 8;
                let before = gaps.count(name);
                gaps.push(name);
                assert_eq!((before, gaps.count(name)), (step / 100, step / 100 + 1));
                assert_eq!(gaps.count(8), 0);
            }
            assert_eq!(gaps.names().count(), 10 * SMALL_GAPS);
            assert_eq!(gaps.take().map(|name| name & 7).sum::<u64>(), 0);
            assert_eq!((gaps.names().count(), gaps.count(64)), (0, 0));
        }
    }
}
