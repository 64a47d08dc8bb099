//! Rows that indexes name, as rows of a transaction.

use platform::{Platform, Work};
use storage::RecordRef;
use storage::index::Visit;
use storage::tree::Direction;

use super::header::UNSEEN;
use super::method::{Method, MethodContext, Optimistic, OptimisticState, Running};
use super::reading::read_at_once;
use crate::access::{WHOLE, check_read, prefetch_ahead, prefetches};
use crate::row_words::RowWords;
use crate::scan::walk_leaves;
use crate::scheme::{Accessing, Holder, RowNumber};
use crate::ways::RowCopies;
use terms::Abort;
use terms::rows::{KeyBounds, TableIndex};

/// Rows that a scan reads before it shows the first one.
const PORTION_FIRST: usize = 4;

/// Adds the row that index number `index` names to the transaction's rows, unless it is there; its
/// number. `None`: the transaction has deleted the row.
#[inline(always)]
pub(super) fn add_named_row<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    at: TableIndex,
    bits: u64,
) -> Result<Option<RowNumber>, Abort> {
    let (c, table) = (cx.c, at.table);
    // SAFETY: the value was read from an index of this table in this epoch.
    let row = unsafe { RecordRef::<P, M::Header>::from_bits(bits, cx.tables[table].row_words) };
    let place = P::address(c, row.start());
    P::work(c, Work::Access, 1);
    if cx.tables[table].read_only {
        return state.rows.push_free(row, table).map(Some);
    }
    // What a snapshot sees of a row depends on the index that names it.
    let known = if M::is_snapshot(&state.own) { None } else { state.rows.find(place) };
    if let Some(number) = known {
        return Ok(state.rows.named_row(&cx.tables[table], number, at.index));
    }
    if M::VERSIONS {
        return M::add_versioned(state, cx, at, row);
    }
    let number = state.rows.push(row, place, table, UNSEEN, 0)?;
    M::found(state, c, &mut cx.worker.local, number, row)?;
    if M::COPIES {
        state.rows.lend_copy(c, &mut cx.worker.local, row)?;
    }
    if cx.shared.ways.row_copies == RowCopies::Rows {
        copy_row(state, c, number)?;
    }
    Ok(Some(number))
}

/// Copies the row to where the transaction reads it from.
#[cold]
fn copy_row<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    c: P::Core,
    number: RowNumber,
) -> Result<(), Abort> {
    M::copy(state, c, number)?;
    state.rows.get(number)?.flags |= WHOLE;
    Ok(())
}

/// Visits what an index names within a range, leaf by leaf, and remembers the witnesses of the
/// leaves.
#[inline(always)]
pub(super) fn scan_leaves<'i, P: Platform, M: Method<P>, T: Holder<'i, P, Optimistic<M>>>(
    holder: &mut T,
    at: TableIndex,
    range: KeyBounds<'_>,
    direction: Direction,
    mut rows: impl FnMut(&mut T, &[u64]) -> Result<bool, Abort>,
) -> Result<(), Abort> {
    let tables = holder.parts().1.tables;
    for partition in tables[at.table].indexes[at.index].partitions(range.low, range.high, direction) {
        let transaction = holder.parts().0;
        transaction.state.note_absence(transaction.mode, partition);
        let mut leaf = |holder: &mut T, seen: &Visit<'_, P>| {
            let state = &mut holder.parts().0.state;
            if !M::is_snapshot(&state.own) {
                state.rows.witnesses.push(seen.witness);
                state.rows.removed = state.rows.removed.max(seen.removed);
            }
            rows(holder, seen.values)
        };
        if !walk_leaves(holder, partition, range, direction, &mut leaf)? {
            break;
        }
    }
    Ok(())
}

/// How many rows a scan reads before it shows them: few in the beginning, in case its visitor has
/// enough of them.
pub(super) struct Portions {
    next: usize,
    ahead: usize,
    /// Rows that the visitor still wants.
    left: u64,
}

impl Portions {
    pub(super) fn of(wanted: RowWords) -> Self {
        Portions { next: PORTION_FIRST.min(wanted.ahead), ahead: wanted.ahead, left: wanted.most }
    }

    /// How many of this many rows come next.
    pub(super) fn next(&mut self, rows: usize) -> usize {
        let next = self.next.min(rows).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.next = (self.next * 4).min(self.ahead);
        next
    }

    /// This many rows were read.
    pub(super) fn read(&mut self, rows: usize) {
        self.left -= rows as u64;
    }
}

/// Reads words of the row that index number `index` names, and remembers what the end of the
/// transaction needs. False: the transaction has deleted the row.
#[inline(always)]
pub(super) fn read_named_row<P: Platform, M: Method<P>>(
    transaction: &mut Running<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    at: TableIndex,
    bits: u64,
    first: usize,
    out: &mut [u64],
) -> Result<bool, Abort> {
    let (c, described) = (cx.c, &cx.tables[at.table]);
    // SAFETY: the value was read from an index of this table in this epoch.
    let row = unsafe { RecordRef::<P, M::Header>::from_bits(bits, described.row_words) };
    let state = &mut *transaction.state;
    let is_plain = transaction.remembers_versions
        && !described.read_only
        && (state.rows.list.is_empty() || state.rows.find(P::address(c, row.start())).is_none());
    if !is_plain {
        return read_numbered_row(transaction, cx, at, bits, first, out);
    }
    P::work(c, Work::Access, 1);
    check_read(row.words().len(), first, out.len())?;
    let seen = read_at_once(c, row, first, out, state.rows.lock_wait_nanos)?;
    state.rows.unnamed.push(c, row, seen).map(|()| true)
}

/// Reads words of the first `count` rows that an index names with these values, one behind the
/// other; of how many. Rows are asked for ahead, also of those behind.
pub(super) fn read_named_rows<P: Platform, M: Method<P>>(
    transaction: &mut Running<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    at: TableIndex,
    values: &[u64],
    count: usize,
    wanted: RowWords,
    room: &mut [u64],
) -> Result<usize, Abort> {
    let bytes = RecordRef::<P, M::Header>::bytes((wanted.first + wanted.count) as u32);
    let ahead = prefetches(&cx.worker.local);
    let mut read = 0;
    for (number, bits) in values[..count].iter().enumerate() {
        if ahead {
            prefetch_ahead::<P>(cx.c, values, number, bytes);
        }
        let words = &mut room[read * wanted.count..(read + 1) * wanted.count];
        read += usize::from(read_named_row(transaction, cx, at, *bits, wanted.first, words)?);
    }
    Ok(read)
}

/// As [`read_named_row`], of a row that gets a number.
#[inline(never)]
fn read_numbered_row<P: Platform, M: Method<P>>(
    transaction: &mut Running<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    at: TableIndex,
    bits: u64,
    first: usize,
    out: &mut [u64],
) -> Result<bool, Abort> {
    let Some(number) = add_named_row(&mut transaction.state, cx, at, bits)? else { return Ok(false) };
    Optimistic::<M>::read(transaction, cx, number, first, out)?;
    transaction.state.forget_read(number);
    Ok(true)
}
