//! Deleted rows that wait until no snapshot needs them: a queue of each worker's own.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use platform::Platform;
use storage::Table;

use super::versions::{Row, retire_chain, retire_heritage, tail_of};
use super::{MvccMethod, epoch_of, oldest_snapshot};
use crate::access::retire_row;
use crate::meter::Category;
use crate::optimistic::{ABSENT, LOCKED, MethodContext, ValidationRules};

/// A deleted row.
struct Grave {
    row: u64,
    table: u32,
    /// When it was deleted, or when its key was used again.
    epoch: u64,
}

/// The deleted rows of a worker, the oldest first as a rule.
#[derive(Default)]
pub struct Graves {
    queue: VecDeque<Grave>,
    /// Their keys, one an index, in the same order.
    keys: VecDeque<u64>,
    /// Epoch of the worker when it looked through them last.
    swept: u64,
    scratch: Vec<u64>,
}

impl Graves {
    /// Remembers a row that the caller makes absent in `epoch`.
    pub(super) fn dig(&mut self, row: u64, table: u32, epoch: u64, keys: &[u64]) {
        self.queue.push_back(Grave { row, table, epoch });
        self.keys.extend(keys);
    }

    /// Whether some may be old enough that were not when they were looked through before.
    #[inline]
    pub(super) fn is_due(&self, epoch: u64) -> bool {
        self.swept != epoch && !self.queue.is_empty()
    }

    /// Takes the oldest out, with its keys in `scratch`.
    fn take<P: Platform>(&mut self, tables: &[Table<P>]) -> Option<Grave> {
        let grave = self.queue.pop_front()?;
        let words: usize = tables[grave.table as usize].indexes.iter().map(|index| index.words).sum();
        self.scratch.clear();
        self.scratch.extend(self.keys.drain(..words));
        Some(grave)
    }
}

/// Takes the rows out of the indexes that were deleted before the oldest snapshot.
#[cold]
pub(super) fn sweep<P: Platform, R: ValidationRules>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod<R>>,
    epoch: u64,
) {
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
    let oldest = oldest_snapshot(cx);
    cx.worker.state.own.swept = epoch;
    for _ in 0..cx.worker.state.own.queue.len() {
        if cx.worker.state.own.queue.front().is_none_or(|grave| grave.epoch > oldest) {
            break;
        }
        let Some(grave) = cx.worker.state.own.take(cx.tables) else { break };
        if let Err(epoch) = bury(cx, &grave, oldest) {
            let graves = &mut cx.worker.state.own;
            graves.queue.push_back(Grave { epoch, ..grave });
            graves.keys.extend(&graves.scratch);
        }
    }
    cx.worker.meter.leave::<P>(cx.c, before);
}

/// Takes the row, whose keys are in `scratch`, out of the indexes. Not if its entries were taken over by a row that is too
/// new for the oldest snapshot, or somebody is about to do that: then the epoch in which it was.
fn bury<P: Platform, R: ValidationRules>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod<R>>,
    grave: &Grave,
    oldest: u64,
) -> Result<(), u64> {
    let (c, table) = (cx.c, &cx.tables[grave.table as usize]);
    // SAFETY: a row that this worker deleted, and retires below: until then it is there.
    let row = unsafe { Row::<P>::from_bits(grave.row, table.row_words) };
    let word = row.header().version();
    // Relaxed: the compare and swap decides.
    let version = P::load(c, word, Ordering::Relaxed);
    // Acquire: pairs with the release of the one who took over its entries.
    if version & LOCKED != 0
        || epoch_of(version) > oldest
        || P::cas(c, word, version, version | LOCKED, Ordering::Acquire).is_err()
    {
        return Err(epoch_of(version));
    }
    let keys = std::mem::take(&mut cx.worker.state.own.scratch);
    unlink_entries(cx, table, row, &keys, version & !ABSENT);
    cx.worker.state.own.scratch = keys;
    // Release: ends the wait of those who found the row.
    P::store(c, word, ABSENT, Ordering::Release);
    let local = &mut cx.worker.local;
    // SAFETY: no index names the row. Snapshots do not come to it from rows that have taken over its entries, since they
    // all are newer than those rows; nor does anybody to what is behind it.
    unsafe {
        retire_chain(c, local, table, tail_of(row), row.header().older(c));
        retire_heritage(c, local, row.header().heritage(c));
        retire_row(c, local, table, row);
    }
    Ok(())
}

/// Removes those entries that name the row, which the caller has locked: nobody takes them over meanwhile.
pub(super) fn unlink_entries<P: Platform, R: ValidationRules>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod<R>>,
    table: &Table<P>,
    row: Row<P>,
    mut keys: &[u64],
    stamp: u64,
) {
    for index in &table.indexes {
        let (key, rest) = keys.split_at(index.words);
        keys = rest;
        let partition = index.partition(key);
        if partition.get(cx.c, key).value == Some(row.to_bits()) {
            partition.remove(cx.c, &mut cx.worker.local, key, row.to_bits(), stamp);
        }
    }
}
