//! The chunks of one database: their limit, those that were taken ahead of need, free blocks on
//! their way from one arena to another, and how much of all that is used.
//!
//! A chunk is address space, to which the machine assigns no memory before it is touched. The first
//! touch takes long: the operating system clears each page first. So an arena takes a *spare* chunk
//! while it still has memory, between two transactions, and has a part of it provided at once
//! ([`Chunks::take_ahead`]). Spares have no owner: the next arena that needs a chunk gets one, also
//! one of another node before the limit refuses a chunk. None are taken within the last eighth of
//! the limit.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Address, LINE_BYTES, Node, OutOfMemory, Platform, RegionBytes};

/// First chunk of an arena or a heap; each further one is twice as large, up to
/// [`CHUNK_BYTES_MAX`].
pub(crate) const CHUNK_BYTES_FIRST: usize = 64 << 10;
/// Largest chunk of an arena or a heap with little in it, but for blocks that are larger
/// themselves.
pub(crate) const CHUNK_BYTES_MAX: usize = 4 << 20;
/// Part of the limit in which nothing is taken ahead.
const NOT_AHEAD_PART: u64 = 8;
/// Memory is provided ahead in steps of one huge page, or, in chunks without huge pages, of memory
/// that takes about as long to provide.
const STEP_BYTES: usize = 2 << 20;
const STEP_BYTES_SMALL: usize = 256 << 10;

/// Bytes that are provided ahead at a time in a chunk of this length.
pub(crate) fn step_bytes(length: usize) -> usize {
    if length < STEP_BYTES { STEP_BYTES_SMALL } else { STEP_BYTES }
}

/// Memory of a chunk that no block was cut from yet.
pub(crate) struct FreshChunk {
    pub base: NonNull<u8>,
    pub bytes: usize,
    /// Bytes at the end that the machine has not been asked to provide yet.
    pub unready: usize,
}

/// Memory of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes in chunks, which count for the limit.
    pub reserved: u64,
    /// Bytes that blocks were ever cut from: the rest was not touched, except for bytes provided
    /// ahead.
    pub touched: u64,
    /// Bytes in blocks that are in use, those included that wait for their epoch to pass.
    pub used: u64,
}

impl MemoryUse {
    /// Both together.
    #[must_use]
    pub fn and(self, other: MemoryUse) -> Self {
        MemoryUse {
            reserved: self.reserved + other.reserved,
            touched: self.touched + other.touched,
            used: self.used + other.used,
        }
    }
}

/// Free blocks of one class and one node that an arena gave back.
pub(crate) struct BlockBatch {
    pub class: usize,
    pub node: Option<Node>,
    pub blocks: Vec<NonNull<u8>>,
}

/// Data that the latch protects.
struct ChunkPool<P: Platform> {
    chunks: Vec<P::Region>,
    batches: Vec<BlockBatch>,
    spares: Vec<(Option<Node>, FreshChunk)>,
}

/// Lines before those of the workers.
const SHARED_LINES: usize = 4;

/// The chunks that all arenas of one database draw from. They are never given back before the
/// database ends.
///
/// Concurrency: chunks and batches are taken rarely (they are large), so one test-and-set word
/// protects both.
pub(crate) struct Chunks<P: Platform> {
    /// Limit in bytes over all chunks.
    bytes_max: u64,
    /// Line 0: the latch. Line 1: bytes in chunks, and those of them that blocks are cut from. Line
    /// 2: number of batches, which every allocation of a new block reads. Line 3: number of spares.
    /// Then a line for each worker: bytes that its arena has cut, and bytes that it has handed out
    /// and not got back.
    shared: P::Region,
    workers: usize,
    pool: UnsafeCell<ChunkPool<P>>,
}

// SAFETY: `pool` is touched only while the latch is held; the rest is immutable.
unsafe impl<P: Platform> Sync for Chunks<P> {}
// SAFETY: owns regions, which are Send, and blocks in them; nothing belongs to a thread.
unsafe impl<P: Platform> Send for Chunks<P> {}

impl<P: Platform> Chunks<P> {
    /// No chunk yet, and at most `bytes_max` bytes of them, for arenas of `workers` workers.
    pub(crate) fn new(c: P::Core, bytes_max: u64, workers: usize) -> Result<Self, OutOfMemory> {
        let shared = P::region(c, None, (SHARED_LINES + workers) * LINE_BYTES, "memory limit")?;
        let pool = ChunkPool { chunks: Vec::new(), batches: Vec::new(), spares: Vec::new() };
        Ok(Chunks { bytes_max, shared, workers, pool: UnsafeCell::new(pool) })
    }

    /// A place that no other chunks of the platform have at the same time.
    pub(crate) fn address(&self, c: P::Core) -> Address {
        P::address(c, self.shared.base())
    }

    fn word(&self, line: usize) -> &P::Word {
        self.word_at(line, 0)
    }

    fn word_at(&self, line: usize, number: usize) -> &P::Word {
        P::word_of(&self.shared, line * LINE_BYTES + number * 8)
    }

    /// Publishes the bytes that the arena of a worker has cut, and the bytes in use.
    pub(crate) fn publish(&self, worker: usize, touched: u64, used: u64) {
        if worker < self.workers {
            P::poke(self.word_at(SHARED_LINES + worker, 0), touched);
            P::poke(self.word_at(SHARED_LINES + worker, 1), used);
        }
    }

    /// Memory in total and in use; of each worker, the figures that it published last.
    pub(crate) fn memory_use(&self, c: P::Core) -> MemoryUse {
        let reserved = self.bytes_used(c);
        // What blocks are not cut from is used as a whole.
        let whole = reserved.saturating_sub(P::peek(self.word_at(1, 1)));
        let sum = |number| {
            let figures =
                (0..self.workers).map(|worker| P::peek(self.word_at(SHARED_LINES + worker, number)));
            figures.fold(whole, u64::wrapping_add)
        };
        MemoryUse { reserved, touched: sum(0), used: sum(1) }
    }

    fn with_pool<T>(&self, c: P::Core, body: impl FnOnce(&mut ChunkPool<P>) -> T) -> T {
        // Acquire: pairs with the release store below.
        while P::cas(c, self.word(0), 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, self.word(0), 1, None);
        }
        // SAFETY: the latch is held, and `body` cannot get here again: it has no access to the
        // memory.
        let result = body(unsafe { &mut *self.pool.get() });
        // Release: pairs with the acquire of the next holder.
        P::store(c, self.word(0), 0, Ordering::Release);
        result
    }

    /// Chunks taken so far.
    #[cfg(test)]
    pub(crate) fn count(&self, c: P::Core) -> usize {
        self.with_pool(c, |pool| pool.chunks.len())
    }

    /// Takes free blocks that another arena may use.
    pub(crate) fn give_batch(&self, c: P::Core, batch: BlockBatch) {
        let batches = self.with_pool(c, |pool| {
            pool.batches.push(batch);
            pool.batches.len()
        });
        // Relaxed: a hint for `take_batch`.
        P::store(c, self.word(2), batches as u64, Ordering::Relaxed);
    }

    /// Returns true if there are free blocks that another arena may use.
    #[inline]
    pub(crate) fn has_batches(&self, c: P::Core) -> bool {
        // Relaxed: a hint; an arena that misses a batch takes a chunk.
        P::load(c, self.word(2), Ordering::Relaxed) != 0
    }

    /// Free blocks of a class, on this node if there are any, otherwise on another.
    pub(crate) fn take_batch(
        &self,
        c: P::Core,
        class: usize,
        node: Option<Node>,
    ) -> Option<Vec<NonNull<u8>>> {
        let (batch, left) = self.with_pool(c, |pool| {
            let of_class = |batch: &BlockBatch| batch.class == class;
            let near = pool.batches.iter().rposition(|batch| of_class(batch) && batch.node == node);
            let found = near.or_else(|| pool.batches.iter().rposition(of_class));
            (found.map(|place| pool.batches.swap_remove(place)), pool.batches.len())
        });
        P::store(c, self.word(2), left as u64, Ordering::Relaxed);
        batch.map(|batch| batch.blocks)
    }

    /// Bytes taken by chunks so far.
    pub(crate) fn bytes_used(&self, c: P::Core) -> u64 {
        // Relaxed: a figure for reports.
        P::load(c, self.word(1), Ordering::Relaxed)
    }

    /// A zeroed chunk that lives as long as these chunks do.
    pub(crate) fn chunk(
        &self,
        c: P::Core,
        node: Option<Node>,
        bytes: usize,
        name: &'static str,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        // Relaxed: the counter alone is the limit; it publishes nothing.
        let before = P::fetch_add(c, self.word(1), bytes as u64, Ordering::Relaxed);
        if before.saturating_add(bytes as u64) > self.bytes_max {
            P::fetch_add(c, self.word(1), (bytes as u64).wrapping_neg(), Ordering::Relaxed);
            let reason = format!("the memory limit is {} bytes, {before} are in use", self.bytes_max);
            return Err(OutOfMemory { requested: bytes, name, reason });
        }
        let region = match P::region(c, node, bytes, name) {
            Ok(region) => region,
            Err(error) => {
                // What the machine refuses is not in use. Relaxed: as above.
                P::fetch_add(c, self.word(1), (bytes as u64).wrapping_neg(), Ordering::Relaxed);
                return Err(error);
            }
        };
        let base = NonNull::new(region.base()).expect("regions do not start at address 0");
        self.with_pool(c, |pool| pool.chunks.push(region));
        Ok(base)
    }

    /// A chunk for rows and index nodes of at least `bytes` bytes, of `wanted` if there is room: a
    /// spare if there is one, preferably of this node.
    pub(crate) fn chunk_of_about(
        &self,
        c: P::Core,
        node: Option<Node>,
        wanted: usize,
        bytes: usize,
    ) -> Result<FreshChunk, OutOfMemory> {
        if let Some(spare) = self.take_spare(c, bytes, |of| of == node) {
            return Ok(spare);
        }
        let mut length = wanted.max(bytes);
        loop {
            match self.chunk_to_cut(c, node, length) {
                // Near the limit a smaller chunk may still fit.
                Err(_) if length / 2 >= bytes.max(LINE_BYTES) => length /= 2,
                Err(error) => return self.take_spare(c, bytes, |_| true).ok_or(error),
                Ok(base) => return Ok(FreshChunk { base, bytes: length, unready: length }),
            }
        }
    }

    fn chunk_to_cut(&self, c: P::Core, node: Option<Node>, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let base = self.chunk(c, node, bytes, "rows and index nodes")?;
        // Relaxed: a figure for reports.
        P::fetch_add(c, self.word_at(1, 1), bytes as u64, Ordering::Relaxed);
        Ok(base)
    }

    /// A chunk that no arena needs yet; `None` near the limit, or if the machine refuses.
    pub(crate) fn chunk_ahead(&self, c: P::Core, node: Option<Node>, bytes: usize) -> Option<FreshChunk> {
        let most = self.bytes_max - self.bytes_max / NOT_AHEAD_PART;
        if self.bytes_used(c).saturating_add(bytes as u64) > most {
            return None;
        }
        let base = self.chunk_to_cut(c, node, bytes).ok()?;
        Some(FreshChunk { base, bytes, unready: bytes })
    }

    /// Takes a spare chunk and has `ready` of its bytes provided, or a step. Nothing happens near
    /// the limit, or if the machine refuses: false.
    pub(crate) fn take_ahead(&self, c: P::Core, node: Option<Node>, bytes: usize, ready: usize) -> bool {
        let Some(FreshChunk { base, .. }) = self.chunk_ahead(c, node, bytes) else { return false };
        let ready = ready.next_multiple_of(step_bytes(bytes)).min(bytes);
        P::populate(c, base.as_ptr(), ready);
        let spares = self.with_pool(c, |pool| {
            pool.spares.push((node, FreshChunk { base, bytes, unready: bytes - ready }));
            pool.spares.len()
        });
        // Relaxed: a hint for `take_spare`.
        P::store(c, self.word(3), spares as u64, Ordering::Relaxed);
        true
    }

    /// A spare of at least this many bytes on an acceptable node.
    fn take_spare(&self, c: P::Core, bytes: usize, on: impl Fn(Option<Node>) -> bool) -> Option<FreshChunk> {
        // Relaxed: a hint; an arena that misses a spare takes a chunk.
        if P::load(c, self.word(3), Ordering::Relaxed) == 0 {
            return None;
        }
        let (spare, left) = self.with_pool(c, |pool| {
            let place = pool.spares.iter().position(|(node, spare)| spare.bytes >= bytes && on(*node));
            (place.map(|place| pool.spares.swap_remove(place).1), pool.spares.len())
        });
        P::store(c, self.word(3), left as u64, Ordering::Relaxed);
        spare
    }
}
