//! Insertions under locks: into gaps that no other transaction has locked.

use std::sync::atomic::Ordering;

use platform::Platform;
use storage::Table;
use storage::index::{Gap, GapGuard};
use storage::tree::Insert;
use terms::{Abort, Conflict, Fault, Faults};

use super::acquire::{acquire, contend};
use super::gap_set::{Gaps, name_of};
use super::gaps::gap_lock;
use super::latched::{self, own_inserted};
use super::parts::{LockingTransaction, TwoPhase};
use super::policy::WaitPolicy;
use super::state::{LockingState, Row};
use crate::access::HELD;
use crate::lock_word::{LockState, LockWord, Want};
use crate::scheme::{Context, RowNumber};

/// Times that an insertion may find its gap locked anew after it has waited for it.
const TRIES_MAX: u32 = 64;

/// Refuses insertions into gaps that others have locked.
struct OthersGaps<'a, P: Platform> {
    c: P::Core,
    gaps: &'a Gaps,
    row_words: u32,
    /// Times that the transaction itself has locked the gap: if it has, the new row's gap is its
    /// own too.
    own: u64,
    /// True if gaps that the transaction has locked may be split.
    splits_own: bool,
    /// The new row, if there is a gap below it: it inherits the lock of a gap that the transaction
    /// has locked, before others can find the row and insert below it.
    heir: Option<Row<P>>,
    /// The lock of the gap that others have, by its name, and its state.
    refused: Option<(u64, LockState)>,
    faults: Faults,
}

impl<P: Platform> GapGuard<P> for OthersGaps<'_, P> {
    const WANTS_GAP: bool = true;
    fn allow(&mut self, gap: Option<Gap<'_, P>>) -> bool {
        let Some(gap) = gap.filter(|_| !self.faults.has(Fault::UnlockedGaps)) else { return true };
        let (lock, name) = gap_lock(&gap, self.row_words);
        self.own = self.gaps.count(name);
        let state = lock.state(self.c);
        let open = Want::Open { own: self.own }.grant(state).is_some() && (self.own == 0 || self.splits_own);
        if !open {
            self.refused = Some((name, state));
        } else if self.own > 0
            && let Some(row) = self.heir
        {
            row.header().lock.inherit_gap(self.c);
        }
        open
    }
}

/// The reason why an insertion does not succeed.
enum Obstacle {
    /// Others have locked the gap: the lock by its name, its state, and how often the
    /// transaction has it itself.
    Gap { name: u64, seen: LockState, own: u64 },
    /// A row has the key: its bits.
    Row(u64),
}

/// Makes a row that the transaction is about to insert its own.
#[inline(always)]
pub(super) fn own<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    number: RowNumber,
) -> Result<(), Abort> {
    let lock = &state.rows.list[number as usize].row.header().lock;
    if cx.shared.is_latched() {
        own_inserted(state, cx, lock)?;
    } else if Q::WAITS {
        lock.tag_inserting(cx.c, state.tag);
    }
    Ok(())
}

/// Puts new rows of the table, from number `first` on, into its only index, as many as
/// [`Accesses::link_run`] can and as split gaps that no transaction has locked; how many.
///
/// [`Accesses::link_run`]: crate::access::Accesses::link_run
pub(super) fn link_run<P: Platform, Q: WaitPolicy>(
    state: &mut LockingState<P>,
    cx: &Context<'_, '_, P, TwoPhase<Q>>,
    table: &Table<P>,
    first: RowNumber,
) -> usize {
    let (c, row_words, faults) = (cx.c, table.row_words, cx.shared.faults);
    let LockingState { gaps, rows, .. } = state;
    let mut guard =
        OthersGaps { c, gaps, row_words, own: 0, splits_own: false, heir: None, refused: None, faults };
    rows.link_run(c, table, first, &mut guard).inserted
}

/// Puts the new row into one index.
#[inline(always)]
pub(super) fn link<P: Platform, Q: WaitPolicy>(
    transaction: &mut LockingTransaction<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    table: usize,
    number: RowNumber,
    position: usize,
    key: &[u64],
) -> Result<(), Abort> {
    match try_link(transaction, cx, table, number, position, key)? {
        None => Ok(()),
        Some(obstacle) => {
            let overcome = overcome(transaction, cx, table, number, position, key, obstacle);
            overcome.map_err(|abort| abort.in_table(table))
        }
    }
}

/// Puts row `number` of the transaction into index number `position`, unless something is in the
/// way.
#[inline(always)]
fn try_link<P: Platform, Q: WaitPolicy>(
    transaction: &mut LockingTransaction<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    table: usize,
    number: RowNumber,
    position: usize,
    key: &[u64],
) -> Result<Option<Obstacle>, Abort> {
    let (c, tables) = (cx.c, cx.tables);
    let index = &tables[table].indexes[position];
    let state = &mut *transaction.state;
    let row = state.rows.list[number as usize].row;
    let row_words = tables[table].row_words;
    let faults = cx.shared.faults;
    let partition = index.partition(key);
    let is_late = faults.has(Fault::LateGapLock);
    let (gaps, heir) = (&state.gaps, (!partition.is_hash() && !is_late).then_some(row));
    let mut guard = OthersGaps { c, gaps, row_words, own: 0, splits_own: true, heir, refused: None, faults };
    let witnesses = &mut state.rows.witnesses;
    // SAFETY: a row of this table, which the transaction inserts.
    let inserted =
        unsafe { partition.insert(c, &mut cx.worker.local, key, row.to_bits(), &mut guard, witnesses)? };
    match inserted {
        Insert::Inserted { stamp } => {
            let own = guard.own;
            state.rows.stamp_seen = state.rows.stamp_seen.max(stamp);
            state.rows.list[number as usize].linked |= 1 << position;
            if own > 0 && !partition.is_hash() {
                if is_late {
                    row.header().lock.inherit_gap(c);
                }
                state.gaps.push(name_of(&row.header().lock));
            }
            Ok(None)
        }
        Insert::Refused => {
            let OthersGaps { own, refused, .. } = guard;
            let (name, seen) = refused.expect("only the guard refuses");
            Ok(Some(Obstacle::Gap { name, seen, own }))
        }
        Insert::Exists { value, .. } => Ok(Some(Obstacle::Row(value))),
    }
}

/// Waits for what is in the way, and tries again.
#[cold]
#[inline(never)]
fn overcome<P: Platform, Q: WaitPolicy>(
    transaction: &mut LockingTransaction<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    table: usize,
    number: RowNumber,
    position: usize,
    key: &[u64],
    mut obstacle: Obstacle,
) -> Result<(), Abort> {
    for _ in 0..TRIES_MAX {
        match obstacle {
            Obstacle::Gap { name, seen, own } => {
                // SAFETY: the lock of a row that was in this index in this epoch, or of the index
                // itself.
                let lock = unsafe { &*std::ptr::with_exposed_provenance::<LockWord<P>>(name as usize) };
                contend(&mut transaction.state, cx, lock, Want::Open { own }, seen, Conflict::Phantom)?;
            }
            Obstacle::Row(bits) => {
                if !is_going_away(transaction, cx, table, number, position, bits)? {
                    return Ok(());
                }
            }
        }
        match try_link(transaction, cx, table, number, position, key)? {
            None => return Ok(()),
            Some(next) => obstacle = next,
        }
    }
    Err(transaction.state.conflict(Conflict::Phantom))
}

/// Checks that the row that has the key of the new row is gone by now. If the transaction itself
/// has deleted that row, the new row takes over its entry, and the result is false; if the row
/// stays, the result is an error.
fn is_going_away<P: Platform, Q: WaitPolicy>(
    transaction: &mut LockingTransaction<P>,
    cx: &mut Context<'_, '_, P, TwoPhase<Q>>,
    table: usize,
    number: RowNumber,
    position: usize,
    bits: u64,
) -> Result<bool, Abort> {
    let (c, state, schema) = (cx.c, &mut *transaction.state, &cx.tables[table]);
    let duplicate = Abort::duplicate(table, position);
    // SAFETY: read from an index of this table in this epoch.
    let other = unsafe { Row::<P>::from_bits(bits, schema.row_words) };
    if let Some(own) = state.rows.find(P::address(c, other.start())) {
        return if state.rows.pass_entry(own, number, position) { Ok(false) } else { Err(duplicate) };
    }
    // While a transaction holds the row exclusively, it is not decided whether the row stays.
    let lock = &other.header().lock;
    state.rows.check_room()?;
    match acquire(state, cx, lock, Want::Shared { gap: false }, Conflict::KeyInUse) {
        // Read like any other row: the transaction may go on from a savepoint, and the key stays
        // taken.
        Ok(()) => {
            // Relaxed: read under the lock.
            let stamp = P::load(c, &other.header().stamp, Ordering::Relaxed);
            state.rows.stamp_seen = state.rows.stamp_seen.max(stamp);
            state.rows.push(other, P::address(c, other.start()), table, stamp, HELD)?;
        }
        Err(_) if Q::WAITS && cx.shared.is_latched() && latched::is_gone(cx, lock) => return Ok(true),
        Err(_) if Q::WAITS && !cx.shared.is_latched() && lock.state(c).is_gone() => return Ok(true),
        Err(abort) => return Err(abort),
    }
    Err(duplicate)
}
