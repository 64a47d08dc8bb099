//! Rows by their indexes: a row that an index names, and a new row's entries.

use platform::{Platform, Work};
use storage::index::Open;
use storage::tree::Insert;
use terms::{Abort, Conflict, Fault};

use super::entering::enter;
use super::row::Row;
use super::state::{Cx, HstoreState};
use crate::scheme::RowNumber;

/// Adds the row that index number `index` names to the transaction's rows; its number. `None`: the
/// transaction has deleted the row.
#[inline]
pub(super) fn add_named_row<P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    table: usize,
    index: usize,
    bits: u64,
) -> Result<Option<RowNumber>, Abort> {
    let (c, schema) = (cx.c, &cx.tables[table]);
    P::work(c, Work::Access, 1);
    // SAFETY: the value was read from an index of this table in this epoch.
    let row = unsafe { Row::<P>::from_bits(bits, schema.row_words) };
    if !schema.read_only {
        if index != 0 && !state.is_branch() && !cx.shared.faults.has(Fault::UnlockedHomes) {
            let site = row.header().site(c);
            enter(state, cx, site)?;
        }
        if state.deletions != 0 && row.header().is_deleted(c) {
            return Ok(None);
        }
    }
    state.push(row, table, schema.read_only).map(Some)
}

/// Puts the new row, which step number `step` inserts, into one index.
pub(super) fn link<P: Platform>(
    state: &mut HstoreState<P>,
    cx: &mut Cx<'_, '_, P>,
    table: usize,
    position: usize,
    row: Row<P>,
    step: usize,
    key: &[u64],
) -> Result<(), Abort> {
    let (c, schema) = (cx.c, &cx.tables[table]);
    let index = &schema.indexes[position];
    let (partition, local) = (index.partition(key), &mut cx.worker.local);
    // SAFETY: a row of this table, which the transaction inserts.
    let inserted =
        unsafe { partition.insert(c, local, key, row.to_bits(), &mut Open, &mut state.witnesses)? };
    match inserted {
        Insert::Inserted { .. } => {
            state.steps[step].mark_linked(position);
            Ok(())
        }
        Insert::Exists { value, .. } => {
            // SAFETY: read from an index of this table in this epoch.
            let other = unsafe { Row::<P>::from_bits(value, schema.row_words) };
            let may_be_deleted = state.deletions != 0 || state.is_branch();
            if !may_be_deleted || !other.header().is_deleted(c) {
                return Err(Abort::duplicate(table, position));
            }
            if state.is_branch() && !state.has_deleted(value) {
                // Another branch has deleted it, and may take that back.
                return Err(Abort::Conflict(Conflict::Locked));
            }
            // SAFETY: as above.
            unsafe { partition.replace(c, key, row.to_bits()) };
            state.pass_on(value, table, position, key);
            Ok(())
        }
        Insert::Refused => unreachable!("nothing keeps insertions out of a locked partition"),
    }
}
