//! Insertions of `no-wait`: into gaps that nobody else has locked.

use std::marker::PhantomData;

use platform::Platform;
use storage::index::{Gap, GapGuard};
use storage::tree::Insert;

use super::{LockingRules, NoWait, NoWaitTransaction, PHANTOM, Row, gap_lock, name_of};
use crate::abort::{Abort, Conflict};
use crate::lock_word::Busy;
use crate::scheme::{Context, Found};

/// Refuses insertions into gaps that others have locked.
struct OthersGaps<'a, P: Platform, R> {
    c: P::Core,
    gaps: &'a [u64],
    row_words: u32,
    /// Whether the transaction itself has locked the gap: the new row's gap is then its own too.
    own: bool,
    rules: PhantomData<R>,
}

impl<P: Platform, R: LockingRules> GapGuard<P> for OthersGaps<'_, P, R> {
    const WANTS_GAP: bool = R::GAPS;
    fn allow(&mut self, gap: Option<Gap<'_, P>>) -> bool {
        let Some(gap) = gap else { return true };
        let (lock, name) = gap_lock(&gap, self.row_words);
        let own = self.gaps.iter().filter(|gap| **gap == name).count() as u64;
        self.own = own > 0;
        lock.is_open(self.c, own)
    }
}

/// Puts the new row into one index.
pub(super) fn link<P: Platform, R: LockingRules>(
    transaction: &mut NoWaitTransaction<P>,
    cx: &mut Context<'_, '_, P, NoWait<R>>,
    table: usize,
    number: Found,
    position: usize,
    key: &[u64],
) -> Result<(), Abort> {
    let (c, tables) = (cx.c, cx.tables);
    let index = &tables[table].indexes[position];
    let state = &mut *transaction.state;
    let row = state.rows.list[number as usize].row;
    let row_words = tables[table].row_words;
    let mut guard = OthersGaps::<P, R> { c, gaps: &state.gaps, row_words, own: false, rules: PhantomData };
    let partition = index.partition(key);
    let witnesses = &mut state.rows.witnesses;
    match partition.insert(c, &mut cx.worker.local, key, row.to_bits(), &mut guard, witnesses)? {
        Insert::Inserted { stamp } => {
            state.rows.stamp_seen = state.rows.stamp_seen.max(stamp);
            state.rows.list[number as usize].linked |= 1 << position;
            if guard.own && !partition.is_hash() {
                row.header().lock.inherit_gap(c);
                state.gaps.push(name_of(&row.header().lock));
            }
            Ok(())
        }
        Insert::Refused => Err(PHANTOM),
        Insert::Exists { value, .. } => {
            // SAFETY: read from an index of this table in this epoch.
            let other = unsafe { Row::<P>::from_bits(value, row_words) };
            if let Some(own) = state.rows.find(P::address(c, other.start())) {
                let inherited = state.rows.inherit(own, number, position);
                return if inherited { Ok(()) } else { Err(Abort::Duplicate { index: index.name }) };
            }
            // Whether it stays is not decided while somebody holds it exclusively.
            match other.header().lock.try_shared(c, false) {
                Ok(()) => other.header().lock.unlock_shared(c),
                Err(Busy) => return Err(Abort::Conflict(Conflict::KeyInUse)),
            }
            Err(Abort::Duplicate { index: index.name })
        }
    }
}
