//! Entering new rows into indexes.

use std::sync::atomic::Ordering;

use platform::Platform;
use storage::tree::Insert;
use storage::{Index, RecordRef, Table};

use super::absences::Frozen;
use super::header::{ABSENT, FLAGS, VersionHeader};
use super::method::{Method, MethodContext, OptimisticState};
use super::reading::stable_version;
use crate::access::Access;
use crate::scheme::RowNumber;
use terms::rows::TableIndex;
use terms::{Abort, Conflict};

/// Attempts to insert a key whose row disappears each time.
const INSERT_ATTEMPTS: u32 = 8;

/// Puts new rows, from number `first` on and with these keys, into the only index of their table,
/// as many as [`Accesses::link_run`] can; how many.
///
/// [`Accesses::link_run`]: crate::access::Accesses::link_run
pub(super) fn link_run<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    c: P::Core,
    table: &Table<P>,
    index: &Index<P>,
    first: RowNumber,
    keys: &[u64],
) -> usize {
    let words = index.partition(keys).gap_words();
    let mut guard = Frozen { c, words, traces: M::BY_DATA, absent: 0 };
    let run = state.rows.link_run(c, table, first, &mut guard);
    state.rows.stamp_seen = state.rows.stamp_seen.max(guard.absent);
    run.inserted
}

/// Puts the new row into one index.
pub(super) fn link<P: Platform, M: Method<P>>(
    state: &mut OptimisticState<P, M>,
    cx: &mut MethodContext<'_, '_, P, M>,
    table: usize,
    number: RowNumber,
    position: usize,
    key: &[u64],
) -> Result<(), Abort> {
    let (c, tables) = (cx.c, cx.tables);
    let index = &tables[table].indexes[position];
    let bits = state.rows.list[number as usize].row.to_bits();
    for _ in 0..INSERT_ATTEMPTS {
        let rows = &mut state.rows;
        let local = &mut cx.worker.local;
        let partition = index.partition(key);
        let traces = M::BY_DATA;
        let mut guard = Frozen { c, words: partition.gap_words(), traces, absent: 0 };
        // SAFETY: a row of this table, which the transaction inserts.
        let inserted = unsafe { partition.insert(c, local, key, bits, &mut guard, &mut rows.witnesses)? };
        match inserted {
            Insert::Inserted { stamp } => {
                rows.stamp_seen = rows.stamp_seen.max(stamp).max(guard.absent);
                rows.list[number as usize].linked |= 1 << position;
                return Ok(());
            }
            Insert::Refused => return Err(Abort::Conflict(Conflict::Phantom)),
            Insert::Exists { value, witness } => {
                // SAFETY: read from an index of this table in this epoch.
                let row = unsafe { RecordRef::<P, M::Header>::from_bits(value, tables[table].row_words) };
                let place = P::address(c, row.start());
                if let Some(own) = rows.find(place) {
                    let inherited = rows.pass_entry(own, number, position);
                    if M::VERSIONS && inherited {
                        rows.remember_key(&tables[table], own, position, key);
                        rows.witnesses.push(witness);
                    }
                    return if inherited { Ok(()) } else { Err(Abort::duplicate(table, position)) };
                }
                let version = stable_version::<P>(c, row.header().word(), rows.lock_wait_nanos)?;
                if version & ABSENT == 0 {
                    // Read like any other row: whether the key exists is for `check` to confirm.
                    rows.push(row, place, table, version, 0)?;
                    return Err(Abort::duplicate(table, position));
                }
                let dead = M::VERSIONS && version & !FLAGS != 0;
                if dead && M::add_versioned(state, cx, TableIndex { table, index: position }, row)?.is_some()
                {
                    // Another transaction has inserted the key meanwhile: this transaction has read
                    // the row now.
                    return Err(Abort::duplicate(table, position));
                }
            }
        }
    }
    Err(Abort::Conflict(Conflict::KeyInUse))
}

/// Checks that all indexes of the table name the row under these keys, where deleted rows stay in
/// their indexes for a while. Once the row is deleted, an entry that another row has taken over
/// would seem a wrong key.
pub(super) fn is_named<P: Platform, H: VersionHeader<P>>(
    c: P::Core,
    access: &Access<P, H>,
    table: &Table<P>,
    keys: &[&[u64]],
) -> Result<(), Abort> {
    let bits = access.row.to_bits();
    let names = |(index, key): (&Index<P>, &&[u64])| index.partition(key).get(c, key).value == Some(bits);
    if table.indexes.iter().zip(keys).all(names) {
        return Ok(());
    }
    // Acquire: pairs with the release of the row's last writer, which may have handed on the row's
    // entries.
    let version = P::load(c, access.word(), Ordering::Acquire);
    let is_changed = version != access.seen;
    Err(if is_changed {
        Abort::Conflict(Conflict::ReadChanged)
    } else {
        Abort::Misuse("keys of another row")
    })
}
