//! Deleted rows that wait until no snapshot needs them.
//!
//! Each worker has a queue that it leaves its graves in, but for large numbers of workers, which share some. Whoever begins a
//! transaction after the horizon has moved looks through its own queue and one of the others, in turn: so the graves of
//! sessions that are idle, or gone, are swept by those that work.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform};
use storage::{Latched, Table};

use super::epochs::{epoch_of, oldest_snapshot};
use super::method::MvccMethod;
use super::versions::{Row, retire_chain, retire_heritage, tail_of};
use crate::access::retire_row;
use crate::meter::Category;
use crate::optimistic::{ABSENT, LOCKED, MethodContext, ValidationRules};

/// Most queues: further workers share them.
const QUEUES_MAX: usize = 64;

/// A deleted row.
struct Grave {
    row: u64,
    table: u32,
    /// When it was deleted, or when its key was used again.
    epoch: u64,
}

/// Deleted rows, the oldest first as a rule.
#[derive(Default)]
struct Queue {
    graves: VecDeque<Grave>,
    /// Their keys, one an index, in the same order.
    keys: VecDeque<u64>,
}

impl Queue {
    fn push(&mut self, grave: Grave, keys: &[u64]) {
        self.graves.push_back(grave);
        self.keys.extend(keys);
    }

    /// Takes the oldest out if it is of this epoch or an earlier one; its keys go to `keys`.
    fn take<P: Platform>(&mut self, tables: &[Table<P>], oldest: u64, keys: &mut Vec<u64>) -> Option<Grave> {
        let grave = self.graves.pop_front_if(|grave| grave.epoch <= oldest)?;
        let words: usize = tables[grave.table as usize].indexes.iter().map(|index| index.words).sum();
        keys.clear();
        keys.extend(self.keys.drain(..words));
        Some(grave)
    }
}

/// The deleted rows of a database.
pub struct Graveyard<P: Platform> {
    queues: Vec<Latched<P, Queue>>,
}

impl<P: Platform> Graveyard<P> {
    pub(super) fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        let queue = |_| Latched::new(c, "deleted rows", Queue::default());
        Ok(Graveyard { queues: (0..workers.clamp(1, QUEUES_MAX)).map(queue).collect::<Result<_, _>>()? })
    }

    fn queue(&self, number: usize) -> &Latched<P, Queue> {
        &self.queues[number % self.queues.len()]
    }

    /// Remembers a row of a worker that the caller makes absent in `epoch`.
    pub(super) fn dig(
        &self,
        c: P::Core,
        worker: &Gravedigger,
        (row, table): (u64, u32),
        epoch: u64,
        keys: &[u64],
    ) {
        self.queue(worker.number).with(c, |queue| queue.push(Grave { row, table, epoch }, keys));
    }
}

/// What a worker knows of deleted rows.
pub struct Gravedigger {
    number: usize,
    /// The horizon when it swept last, and how often it has.
    swept: u64,
    rounds: usize,
    scratch: Vec<u64>,
}

impl Gravedigger {
    pub(super) fn new(number: usize) -> Self {
        Gravedigger { number, swept: 0, rounds: 0, scratch: Vec::new() }
    }

    /// Whether some may be old enough that were not when it looked before.
    #[inline]
    pub(super) fn is_due(&self, horizon: u64) -> bool {
        self.swept != horizon
    }
}

/// Takes the rows out of the indexes that were deleted before the oldest snapshot: those of the worker, and of another one.
#[cold]
pub(super) fn sweep<P: Platform, R: ValidationRules>(cx: &mut MethodContext<'_, '_, P, MvccMethod<R>>) {
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
    let horizon = cx.worker.local.horizon().0;
    let digger = &mut cx.worker.state.own;
    digger.swept = horizon;
    digger.rounds += 1;
    let (own, other) = (digger.number, digger.number + digger.rounds);
    sweep_queue(cx, own);
    sweep_queue(cx, other);
    cx.worker.meter.leave::<P>(cx.c, before);
}

fn sweep_queue<P: Platform, R: ValidationRules>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod<R>>,
    number: usize,
) {
    let (c, oldest) = (cx.c, oldest_snapshot(&cx.worker.local));
    let queue = cx.shared.queue(number);
    for _ in 0..queue.with(c, |queue| queue.graves.len()) {
        let keys = &mut cx.worker.state.own.scratch;
        let Some(grave) = queue.with(c, |queue| queue.take(cx.tables, oldest, keys)) else { break };
        if let Err(epoch) = bury(cx, &grave, oldest) {
            let keys = &cx.worker.state.own.scratch;
            queue.with(c, |queue| queue.push(Grave { epoch, ..grave }, keys));
        }
    }
}

/// Takes the row, whose keys are in `scratch`, out of the indexes. Not if its entries were taken over by a row that is too
/// new for the oldest snapshot, or somebody is about to do that: then the epoch in which it was.
fn bury<P: Platform, R: ValidationRules>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod<R>>,
    grave: &Grave,
    oldest: u64,
) -> Result<(), u64> {
    let (c, table) = (cx.c, &cx.tables[grave.table as usize]);
    // SAFETY: a row that was deleted, and is retired below by whoever has its grave: until then it is there.
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
