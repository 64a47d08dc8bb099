//! Slots: each worker has one, with the buffer that it appends records to.
//!
//! Protocol: a slot's latch is a word in a line of its own, taken by its worker for each record,
//! and once a flush by the core that flushes, which takes what is filled and leaves empty buffers.
//! So a worker that goes idle, or that is long inside a transaction, holds back nothing that it has
//! finished.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

use platform::files::Buffer;
use platform::{LINE_BYTES, Node, OutOfMemory, Platform, Work};

use crate::filling::FillingBlock;
use crate::format::{ALIGNMENT, BLOCK_HEADER_BYTES, Record};
use crate::spares::Spares;

/// Full buffers that a slot keeps until its worker has to wait.
const FULL_MAX: usize = 8;

/// Records on their way into a stream.
pub(crate) struct Filled<P: Platform> {
    pub stream: usize,
    pub block: FillingBlock<P>,
}

struct Slot<P: Platform> {
    /// The buffer being filled.
    current: Option<Filled<P>>,
    full: Vec<Filled<P>>,
    free: Vec<Buffer<P>>,
    /// Largest epoch of a record since the slot was last emptied.
    newest: u64,
}

/// The slots of all workers.
pub(crate) struct Slots<P: Platform> {
    /// One latch for each slot, on a line of its own.
    latches: P::Region,
    slots: Vec<UnsafeCell<Slot<P>>>,
    buffer_bytes: usize,
}

// SAFETY: a slot is reached with its latch held only.
unsafe impl<P: Platform> Sync for Slots<P> {}

/// The content taken from the slots.
pub(crate) struct Collected<P: Platform> {
    pub filled: Vec<Filled<P>>,
    pub newest: u64,
}

/// Memory for a new block of a worker.
pub(crate) struct BlockMemory<'s, P: Platform> {
    pub(crate) node: Option<Node>,
    /// Buffers that were set aside, one of which is taken if memory is refused.
    pub(crate) spares: &'s mut Spares<P>,
    /// True if the worker waits for a buffer that the disk gives back rather than take a spare one.
    pub(crate) waits: bool,
}

impl<P: Platform> Slots<P> {
    pub(crate) fn new(c: P::Core, workers: usize, buffer_bytes: usize) -> Result<Self, OutOfMemory> {
        let slot = || UnsafeCell::new(Slot { current: None, full: Vec::new(), free: Vec::new(), newest: 0 });
        Ok(Slots {
            latches: P::region(c, None, workers.max(1) * LINE_BYTES, "log slots")?,
            slots: (0..workers).map(|_| slot()).collect(),
            buffer_bytes: buffer_bytes.next_multiple_of(ALIGNMENT),
        })
    }

    fn lock(&self, c: P::Core, worker: usize) {
        let latch = P::word_of(&self.latches, worker * LINE_BYTES);
        // Acquire: pairs with the release in `unlock`.
        while P::cas(c, latch, 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, latch, 1, None);
        }
    }

    fn unlock(&self, c: P::Core, worker: usize) {
        // Release: pairs with the acquire of the next holder.
        P::store(c, P::word_of(&self.latches, worker * LINE_BYTES), 0, Ordering::Release);
    }

    fn with<T>(&self, c: P::Core, worker: usize, body: impl FnOnce(&mut Slot<P>) -> T) -> T {
        self.lock(c, worker);
        // SAFETY: the latch is held, and `body` cannot get here again: it knows the slot only.
        let result = body(unsafe { &mut *self.slots[worker].get() });
        self.unlock(c, worker);
        result
    }

    /// Leaves a record of `worker` for `stream`; false if the slot is full, and has to be emptied
    /// first.
    pub(crate) fn append(
        &self,
        c: P::Core,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
        memory: BlockMemory<'_, P>,
    ) -> Result<bool, OutOfMemory> {
        let BlockMemory { node, spares, waits } = memory;
        let bytes = record.bytes();
        self.with(c, worker, |slot| {
            let current = slot.current.as_ref();
            let fits = current.is_some_and(|current| current.stream == stream && current.block.fits(bytes));
            if !fits {
                if slot.full.len() >= FULL_MAX {
                    return Ok(false);
                }
                let buffer = self.empty_buffer(c, slot, node, bytes).or_else(|error| {
                    let mut spare = || spares.take(BLOCK_HEADER_BYTES + bytes);
                    if waits && slot.current.is_some() { Err(error) } else { spare().ok_or(error) }
                });
                let block = FillingBlock::new(buffer?);
                slot.full.extend(slot.current.replace(Filled { stream, block }));
            }
            if let Some(current) = &mut slot.current {
                current.block.push(c, record);
                P::work(c, Work::CopyWord, bytes.div_ceil(8) as u32);
                slot.newest = slot.newest.max(record.epoch);
            }
            Ok(true)
        })
    }

    /// A buffer with room for a block's header and `bytes` more.
    fn empty_buffer(
        &self,
        c: P::Core,
        slot: &mut Slot<P>,
        node: Option<Node>,
        bytes: usize,
    ) -> Result<Buffer<P>, OutOfMemory> {
        let least = BLOCK_HEADER_BYTES + bytes;
        match slot.free.pop() {
            Some(buffer) if buffer.capacity() >= least => Ok(buffer),
            other => {
                slot.free.extend(other);
                // Where there is no memory for many records, there may be for this one.
                Buffer::new(c, node, least.max(self.buffer_bytes), "log buffer")
                    .or_else(|_| Buffer::new(c, node, least, "log buffer"))
            }
        }
    }

    /// Takes the blocks that all workers have left. For each of them the slot gets an empty buffer
    /// of its stream from `free`, as far as there are any.
    pub(crate) fn collect(&self, c: P::Core, free: &mut [Vec<Buffer<P>>]) -> Collected<P> {
        let mut collected = Collected { filled: Vec::new(), newest: 0 };
        for worker in 0..self.slots.len() {
            self.with(c, worker, |slot| slot.empty(free, &mut collected));
        }
        collected
    }

    /// Takes them while no worker can leave another one, if `is_idle` returns, then, that no commit
    /// is under way: what is taken, with all that was taken before, has everything that it depends
    /// on. A commit is over when it has left its records, so that all that any of these
    /// transactions has read was left before; and what commits later leaves its records later.
    pub(crate) fn collect_whole(
        &self,
        c: P::Core,
        free: &mut [Vec<Buffer<P>>],
        is_idle: impl FnOnce() -> bool,
    ) -> Option<Collected<P>> {
        (0..self.slots.len()).for_each(|worker| self.lock(c, worker));
        let collected = is_idle().then(|| {
            let mut collected = Collected { filled: Vec::new(), newest: 0 };
            for slot in &self.slots {
                // SAFETY: the latches of all slots are held, and nothing below gets here again.
                unsafe { &mut *slot.get() }.empty(free, &mut collected);
            }
            collected
        });
        (0..self.slots.len()).for_each(|worker| self.unlock(c, worker));
        collected
    }
}

impl<P: Platform> Slot<P> {
    fn empty(&mut self, free: &mut [Vec<Buffer<P>>], collected: &mut Collected<P>) {
        let from = collected.filled.len();
        collected.filled.append(&mut self.full);
        collected.filled.extend(self.current.take());
        for filled in &collected.filled[from..] {
            self.free.extend(free[filled.stream].pop());
        }
        collected.newest = collected.newest.max(std::mem::take(&mut self.newest));
    }
}
