//! Rows that indexes name, as rows of a transaction.

use platform::{Platform, Work};
use storage::RecordRef;
use storage::tree::Direction;

use super::header::UNSEEN;
use super::method::{Method, MethodContext, Optimistic, State};
use crate::abort::Abort;
use crate::access::WHOLE;
use crate::scan::walk;
use crate::scheme::{Holder, RowNumber};
use crate::ways::RowCopies;

/// Adds the row that index number `index` names to the transaction's rows, unless it is there; its number. `None`: the
/// transaction has deleted the row.
#[inline(always)]
pub(super) fn add_named_row<P: Platform, M: Method<P>>(
    state: &mut State<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    (table, index): (usize, usize),
    bits: u64,
) -> Result<Option<RowNumber>, Abort> {
    let c = cx.c;
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
        return Ok(state.rows.named_row(&cx.tables[table], number, index));
    }
    if M::VERSIONS {
        return M::meet(state, cx, (table, index), row);
    }
    let number = state.rows.push(row, place, table, UNSEEN, 0)?;
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
    state: &mut State<P, M>,
    c: P::Core,
    number: RowNumber,
) -> Result<(), Abort> {
    M::copy(state, c, number)?;
    state.rows.get(number)?.flags |= WHOLE;
    Ok(())
}

/// Visits the rows that an index names within a range, and asks for so many bytes of each ahead.
#[inline(always)]
pub(super) fn scan_named<'i, P: Platform, M: Method<P>, T: Holder<'i, P, Optimistic<M>>>(
    holder: &mut T,
    (table, index): (usize, usize),
    (low, high): (&[u64], &[u64]),
    order: (Direction, usize),
    mut row: impl FnMut(&mut T, u64) -> Result<bool, Abort>,
) -> Result<(), Abort> {
    let tables = holder.parts().1.tables;
    for partition in tables[table].indexes[index].partitions(low, high, order.0) {
        let transaction = holder.parts().0;
        transaction.state.note_absence(transaction.mode, partition);
        let mut leaf = |holder: &mut T, witness, removed| {
            let rows = &mut holder.parts().0.state.rows;
            rows.witnesses.push(witness);
            rows.removed = rows.removed.max(removed);
        };
        if !walk(holder, partition, (low, high), order, &mut leaf, &mut row)? {
            break;
        }
    }
    Ok(())
}
