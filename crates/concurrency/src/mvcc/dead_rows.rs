//! Garbage collection of dead rows: rows that were deleted, and stay in their indexes until no
//! snapshot needs them.
//!
//! Each worker has a queue for the rows that its transactions delete; above [`QUEUES_MAX`] workers
//! several share one. A worker that begins a transaction after the horizon has moved sweeps its own
//! queue and one of the others, in turn: so workers with transactions sweep the dead rows of
//! sessions that are idle or closed.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform};
use storage::{Latched, Table};
use terms::Category;

use super::epochs::{epoch_of, oldest_snapshot};
use super::method::MvccMethod;
use super::versions::{Row, retire_chain, retire_inherited, tail_of};
use crate::access::retire_row;
use crate::optimistic::{ABSENT, LOCKED, MethodContext};

/// Most queues: further workers share them.
const QUEUES_MAX: usize = 64;

/// A dead row.
struct DeadRow {
    row: u64,
    table: u32,
    /// The epoch in which the row was deleted, or in which its key was inserted again.
    epoch: u64,
}

/// Dead rows, the oldest first as a rule.
#[derive(Default)]
struct Queue {
    rows: VecDeque<DeadRow>,
    /// Keys of the rows, as transactions keep them, in the same order.
    keys: VecDeque<u64>,
}

impl Queue {
    fn push(&mut self, dead: DeadRow, keys: &[u64]) {
        self.rows.push_back(dead);
        self.keys.extend(keys);
    }

    /// Removes the first row of the queue if it died in epoch `oldest` or before; its keys go to
    /// `keys`.
    fn pop<P: Platform>(&mut self, tables: &[Table<P>], oldest: u64, keys: &mut Vec<u64>) -> Option<DeadRow> {
        if self.rows.front()?.epoch > oldest {
            return None;
        }
        let dead = self.rows.pop_front()?;
        let words = tables[dead.table as usize].kept_words(|word| self.keys[word]);
        keys.clear();
        keys.extend(self.keys.drain(..words));
        Some(dead)
    }
}

/// The dead rows of a database.
pub struct DeadRows<P: Platform> {
    queues: Vec<Latched<P, Queue>>,
}

impl<P: Platform> DeadRows<P> {
    pub(super) fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        let queue = |_| Latched::new(c, "deleted rows", Queue::default());
        Ok(DeadRows { queues: (0..workers.clamp(1, QUEUES_MAX)).map(queue).collect::<Result<_, _>>()? })
    }

    fn queue(&self, number: usize) -> &Latched<P, Queue> {
        &self.queues[number % self.queues.len()]
    }

    /// Adds a row to the worker's queue, which the caller makes absent in `epoch`.
    pub(super) fn add(&self, c: P::Core, worker: &Sweeper, row: u64, table: u32, epoch: u64, keys: &[u64]) {
        self.queue(worker.number).with(c, |queue| queue.push(DeadRow { row, table, epoch }, keys));
    }
}

/// State of a worker's sweeps.
pub struct Sweeper {
    number: usize,
    /// The horizon at the worker's last sweep, and the number of its sweeps.
    swept: u64,
    rounds: usize,
    scratch: Vec<u64>,
}

impl Sweeper {
    pub(super) fn new(number: usize) -> Self {
        Sweeper { number, swept: 0, rounds: 0, scratch: Vec::new() }
    }

    /// Returns true if dead rows may be old enough now that were not at the last sweep.
    #[inline]
    pub(super) fn is_due(&self, horizon: u64) -> bool {
        self.swept != horizon
    }
}

/// Reclaims the rows that were deleted before the oldest snapshot: those in the worker's queue and
/// in one other.
#[cold]
pub(super) fn sweep<P: Platform>(cx: &mut MethodContext<'_, '_, P, MvccMethod>) {
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
    let horizon = cx.worker.local.horizon().0;
    let sweeper = &mut cx.worker.state.own;
    sweeper.swept = horizon;
    sweeper.rounds += 1;
    let (own, other) = (sweeper.number, sweeper.number + sweeper.rounds);
    sweep_queue(cx, own);
    sweep_queue(cx, other);
    cx.worker.meter.leave::<P>(cx.c, before);
}

fn sweep_queue<P: Platform>(cx: &mut MethodContext<'_, '_, P, MvccMethod>, number: usize) {
    let (c, oldest) = (cx.c, oldest_snapshot(&cx.worker.local));
    let queue = cx.shared.own.queue(number);
    for _ in 0..queue.with(c, |queue| queue.rows.len()) {
        let keys = &mut cx.worker.state.own.scratch;
        let Some(dead) = queue.with(c, |queue| queue.pop(cx.tables, oldest, keys)) else { break };
        if let Err(epoch) = reclaim(cx, &dead, oldest) {
            let keys = &cx.worker.state.own.scratch;
            queue.with(c, |queue| queue.push(DeadRow { epoch, ..dead }, keys));
        }
    }
}

/// Unlinks the row, whose keys are in `scratch`, from its indexes, and retires it. If a row that is
/// too new for the oldest snapshot has taken over its entries, or a transaction is about to insert
/// such a row, the dead row stays, and the result is the epoch in which that happened.
fn reclaim<P: Platform>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod>,
    dead: &DeadRow,
    oldest: u64,
) -> Result<(), u64> {
    let (c, table) = (cx.c, &cx.tables[dead.table as usize]);
    // SAFETY: a row that was deleted, and is retired below by the worker that took it from the
    // queue: until then it is there.
    let row = unsafe { Row::<P>::from_bits(dead.row, table.row_words) };
    let word = row.header().version();
    // Relaxed: the compare and swap decides.
    let version = P::load(c, word, Ordering::Relaxed);
    // SeqCst: acquires what the transaction released that took over its entries, and is ordered
    // before the check for a mark.
    if version & LOCKED != 0
        || epoch_of(version) > oldest
        || P::cas(c, word, version, version | LOCKED, Ordering::SeqCst).is_err()
    {
        return Err(epoch_of(version));
    }
    if cx.shared.marks.has(c, P::address(c, row.start())) {
        // A prepared participant has seen that the row is absent.
        P::store(c, word, version, Ordering::Release);
        return Err(epoch_of(version));
    }
    let keys = std::mem::take(&mut cx.worker.state.own.scratch);
    unlink_entries(cx, table, row, &keys, version & !ABSENT);
    cx.worker.state.own.scratch = keys;
    // Release: ends the wait of transactions that have found the row.
    P::store(c, word, ABSENT, Ordering::Release);
    let local = &mut cx.worker.local;
    // SAFETY: no index names the row. No snapshot reaches the row, or the versions behind it, from
    // rows that have taken over its entries, since all snapshots are newer than those rows.
    unsafe {
        retire_chain(c, local, table, tail_of(row), row.header().older(c));
        retire_inherited(c, local, row.header().inherited(c));
        retire_row(c, local, table, row);
    }
    Ok(())
}

/// Removes those entries that name the row. The caller has locked the row, so no other row takes
/// them over meanwhile.
pub(super) fn unlink_entries<P: Platform>(
    cx: &mut MethodContext<'_, '_, P, MvccMethod>,
    table: &Table<P>,
    row: Row<P>,
    keys: &[u64],
    stamp: u64,
) {
    for (index, key) in table.indexes.iter().zip(table.kept_keys(keys)) {
        let partition = index.partition(key);
        if partition.get(cx.c, key).value == Some(row.to_bits()) {
            partition.remove(cx.c, &mut cx.worker.local, key, row.to_bits(), stamp);
        }
    }
}
