//! Thread-local, node-local memory by size class.
//!
//! An [`Arena`] belongs to one worker. The arena cuts blocks from chunks that lie on the worker's
//! memory node, and keeps freed blocks in one list per size class. Blocks follow each other
//! closely, but none touches more lines than it must: those of whole lines begin with a line,
//! smaller ones never straddle one, and blocks of 80 and 96 bytes, such as order lines with the
//! header of a lock, share lines with their neighbours instead of wasting a third of them. No two
//! workers' new blocks share a line: no false sharing between workers.
//!
//! [`Memory`] is the store of chunks that all arenas of one database draw from: the memory holds
//! the limit, and owns the chunks until the database ends, since rows outlive the worker that wrote
//! them. Where workers are to have no arenas of their own ([`Optimisation::ThreadAlloc`]), an arena
//! keeps nothing: each block comes from one heap for all of them.
//!
//! An arena that its worker tends ([`Arena::tend`]) has the machine provide memory ahead, between
//! transactions: a step of the chunk in use when less than `AHEAD_BYTES_MIN` are ready, and a
//! spare chunk when that one comes to its end. A worker that comes upon memory that is not ready
//! has more and more of it ready from then on.

use std::ptr::NonNull;

use platform::{Address, LINE_BYTES, Node, OutOfMemory, Platform, SharedWord};

use crate::chunks::{
    BlockBatch, CHUNK_BYTES_FIRST, CHUNK_BYTES_MAX, Chunks, FreshChunk, MemoryUse, step_bytes,
};
use crate::heap::Heap;
use crate::optimisations::{Optimisation, Optimisations};

/// Bytes of free blocks of one class that an arena keeps; half of them go back to the memory when
/// there are more, for arenas that allocate what this one frees.
const FREE_BYTES_MAX: usize = 256 << 10;
/// Bytes that are ready at least after each [`Arena::tend`]; more where transactions insert more
/// than that.
const AHEAD_BYTES_MIN: usize = 64 << 10;
const AHEAD_BYTES_MAX: usize = 16 << 20;
/// Chunks after which less is tried.
const ENOUGH_CHUNKS: u32 = 4;
/// From this many [`CHUNK_BYTES_MAX`] of cut bytes on, a chunk is one such part of the bytes cut so
/// far: large databases consist of few mappings, whose number the operating system limits.
const CHUNK_PART: u64 = 16;
/// Largest of those.
const CHUNK_BYTES_LATE: u64 = 64 << 20;
/// Smallest block.
const BLOCK_BYTES_MIN: usize = 16;
/// Blocks up to this size are rounded up to multiples of the smallest: one line more would waste a
/// quarter or more.
const CLOSE_BYTES_MAX: usize = 96;
/// Blocks up to this size are rounded up to whole lines, larger ones to powers of two.
const LINEAR_BYTES_MAX: usize = 4096;
/// Classes of multiples of the smallest block.
const CLOSE_CLASSES: usize = CLOSE_BYTES_MAX / BLOCK_BYTES_MIN;
/// The number of size classes: those, classes of whole lines, and powers of two up to 2^47.
const CLASSES: usize = CLOSE_CLASSES + LINEAR_BYTES_MAX / LINE_BYTES + 36;

const _: () = assert!(LINEAR_BYTES_MAX.is_power_of_two() && LINEAR_BYTES_MAX.is_multiple_of(LINE_BYTES));
const _: () = assert!(CLOSE_BYTES_MAX > LINE_BYTES && CLOSE_BYTES_MAX < 2 * LINE_BYTES);

/// Size class of a block and its size in bytes, rounded up.
#[inline]
fn class_of(bytes: usize) -> (usize, usize) {
    let bytes = bytes.max(1);
    if bytes <= CLOSE_BYTES_MAX {
        let rounded = bytes.next_multiple_of(BLOCK_BYTES_MIN);
        return (rounded / BLOCK_BYTES_MIN - 1, rounded);
    }
    // The first class of whole lines has two.
    if bytes <= LINEAR_BYTES_MAX {
        let rounded = bytes.next_multiple_of(LINE_BYTES);
        return (CLOSE_CLASSES + rounded / LINE_BYTES - 2, rounded);
    }
    let rounded = bytes.next_power_of_two();
    let above = rounded.trailing_zeros() - LINEAR_BYTES_MAX.trailing_zeros();
    (CLOSE_CLASSES + LINEAR_BYTES_MAX / LINE_BYTES - 2 + above as usize, rounded)
}

/// The chunks of one database, which all its arenas draw from, or its one heap.
pub struct Memory<P: Platform> {
    chunks: Chunks<P>,
    /// The source of all blocks, if workers have no arenas of their own.
    heap: Option<Heap<P>>,
    optimisations: Optimisations,
}

impl<P: Platform> Memory<P> {
    /// An empty store that hands out at most `bytes_max` bytes.
    pub fn new(c: P::Core, bytes_max: u64) -> Result<Self, OutOfMemory> {
        Ok(Memory { chunks: Chunks::new(c, bytes_max, 0)?, heap: None, optimisations: Optimisations::ALL })
    }

    /// The same for up to `workers` workers that have these optimisations. Without
    /// [`Optimisation::ThreadAlloc`] all blocks come from one heap: workers wait for each other,
    /// blocks are aligned to 16 bytes only, and lie wherever there was room.
    pub fn with_optimisations(
        c: P::Core,
        bytes_max: u64,
        workers: usize,
        optimisations: Optimisations,
    ) -> Result<Self, OutOfMemory> {
        let queues = optimisations.has(Optimisation::QueueLatch);
        let heap = (!optimisations.has(Optimisation::ThreadAlloc))
            .then(|| Heap::new(c, workers, queues))
            .transpose()?;
        Ok(Memory { chunks: Chunks::new(c, bytes_max, workers)?, heap, optimisations })
    }

    /// Its place: no other memory of the platform has it at the same time.
    pub fn address(&self, c: P::Core) -> Address {
        self.chunks.address(c)
    }

    /// The optimisations that its workers have.
    pub fn optimisations(&self) -> Optimisations {
        self.optimisations
    }

    /// Bytes taken by chunks so far.
    pub fn bytes_used(&self, c: P::Core) -> u64 {
        self.chunks.bytes_used(c)
    }

    /// Memory in total and in use, as workers have published it: each does when it is idle, and
    /// about once an epoch. Memory that was made for no workers has no published figures.
    pub fn memory_use(&self, c: P::Core) -> MemoryUse {
        let of_arenas = self.chunks.memory_use(c);
        let of_heap = self.heap.as_ref().map_or(0, Heap::bytes_cut);
        MemoryUse { touched: of_arenas.touched + of_heap, ..of_arenas }
    }

    /// A zeroed chunk that lives as long as this memory.
    pub fn chunk(
        &self,
        c: P::Core,
        node: Option<Node>,
        bytes: usize,
        name: &'static str,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        self.chunks.chunk(c, node, bytes, name)
    }
}

/// Memory of one worker. Dropping it leaks its free blocks to the end of the [`Memory`].
pub struct Arena<P: Platform> {
    memory: *const Memory<P>,
    node: Option<Node>,
    next: *mut u8,
    left: usize,
    /// Bytes at the end that the machine has not been asked to provide; more than `left` if the
    /// arena got there.
    unready: usize,
    /// There is something to be done ahead when less than this is left.
    low: usize,
    /// Bytes that are to be ready.
    ahead: usize,
    /// Chunks since that was not enough.
    enough: u32,
    /// Spare chunks that were taken for the end of this one, as this arena has counted: other
    /// arenas use them too.
    spares: u32,
    chunk_bytes: usize,
    /// Bytes cut so far, but for those of the current chunk.
    cut_before: u64,
    /// Bytes of the current chunk when it was taken.
    current: usize,
    free: Vec<Vec<NonNull<u8>>>,
    bytes_live: u64,
    /// Number of the worker that the arena belongs to.
    worker: usize,
    /// All blocks come from the memory's heap; `free` stays empty.
    central: bool,
}

// SAFETY: the blocks belong to the holder of the arena; `Memory` is Sync and outlives it (see
// `Arena::new`).
unsafe impl<P: Platform> Send for Arena<P> {}

impl<P: Platform> Arena<P> {
    /// An empty arena of worker number `worker` whose blocks lie on `node`.
    ///
    /// # Safety
    /// `memory` stays at its place and outlives the arena, and no other arena on it has this
    /// number.
    pub unsafe fn new(memory: &Memory<P>, worker: usize, node: Option<Node>) -> Self {
        Arena {
            memory,
            node,
            next: std::ptr::null_mut(),
            left: 0,
            unready: 0,
            low: 0,
            ahead: AHEAD_BYTES_MIN,
            enough: 0,
            spares: 0,
            chunk_bytes: CHUNK_BYTES_FIRST,
            cut_before: 0,
            current: 0,
            free: vec![Vec::new(); CLASSES],
            bytes_live: 0,
            worker,
            central: memory.heap.is_some(),
        }
    }

    /// Bytes in blocks that are handed out.
    pub fn bytes_live(&self) -> u64 {
        self.bytes_live
    }

    /// A block of at least `bytes` bytes with arbitrary contents, aligned to 16 bytes; to a line,
    /// if it consists of whole lines and does not come from a heap for all workers.
    #[inline]
    pub fn allocate(&mut self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let (class, rounded) = class_of(bytes);
        let block = match self.free[class].pop() {
            Some(block) => block,
            None if self.central => self.take_from_heap(c, bytes)?,
            None if self.memory().chunks.has_batches(c) => self.find(c, class, rounded)?,
            None => self.cut(c, rounded)?,
        };
        self.bytes_live = self.bytes_live.wrapping_add(rounded as u64);
        Ok(block)
    }

    /// Allocates blocks of one length, which lie one behind the other where no freed blocks are
    /// reused; none if there is no memory for all. Otherwise like [`Self::allocate`].
    pub fn allocate_several(
        &mut self,
        c: P::Core,
        bytes: usize,
        blocks: &mut [NonNull<u8>],
    ) -> Result<(), OutOfMemory> {
        let (class, rounded) = class_of(bytes);
        let most = (rounded + LINE_BYTES) * blocks.len();
        if !self.free[class].is_empty()
            || self.central
            || most > self.left
            || self.memory().chunks.has_batches(c)
        {
            return self.allocate_each(c, bytes, blocks);
        }
        self.bytes_live = self.bytes_live.wrapping_add((rounded * blocks.len()) as u64);
        for block in blocks {
            let skip = self.skip(rounded);
            *block = self.cut_from_rest(rounded, skip);
        }
        Ok(())
    }

    fn allocate_each(
        &mut self,
        c: P::Core,
        bytes: usize,
        blocks: &mut [NonNull<u8>],
    ) -> Result<(), OutOfMemory> {
        for number in 0..blocks.len() {
            match self.allocate(c, bytes) {
                Ok(block) => blocks[number] = block,
                Err(error) => {
                    let allocated = blocks[..number].iter().map(|block| (*block, bytes));
                    // SAFETY: allocated above with this length, and no core has seen the blocks.
                    unsafe { self.free_all(c, allocated) };
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// A block of whole lines with arbitrary contents that begins with a line, with or without
    /// arenas.
    pub fn allocate_lines(&mut self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        assert!(bytes > 0 && bytes.is_multiple_of(LINE_BYTES), "whole lines");
        let memory = self.memory();
        let Some(heap) = &memory.heap else { return self.allocate(c, bytes) };
        // SAFETY: `new` demands that the worker's number is the arena's own.
        let block = unsafe { heap.allocate_lines(c, &memory.chunks, self.worker, bytes)? };
        self.bytes_live = self.bytes_live.wrapping_add(class_of(bytes).1 as u64);
        Ok(block)
    }

    #[cold]
    fn take_from_heap(&self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let memory = self.memory();
        let heap = memory.heap.as_ref().expect("it was there when the arena was made");
        // SAFETY: `new` demands that the worker's number is the arena's own.
        unsafe { heap.allocate(c, &memory.chunks, self.worker, bytes) }
    }

    fn memory(&self) -> &Memory<P> {
        // SAFETY: `new` demands that the memory outlives the arena.
        unsafe { &*self.memory }
    }

    /// A block from what other arenas gave back, or a new one.
    #[cold]
    fn find(&mut self, c: P::Core, class: usize, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        if let Some(blocks) = self.memory().chunks.take_batch(c, class, self.node) {
            self.free[class] = blocks;
            if let Some(block) = self.free[class].pop() {
                return Ok(block);
            }
        }
        self.cut(c, bytes)
    }

    /// A new block.
    #[inline]
    fn cut(&mut self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let skip = self.skip(bytes);
        // Nothing is left as long as there is no chunk.
        if bytes + skip > self.left {
            self.refill(c, bytes)?;
            return self.cut_from_new(bytes);
        }
        Ok(self.cut_from_rest(bytes, skip))
    }

    /// Bytes that are skipped before a block: no block touches a line more than necessary.
    #[inline(always)]
    fn skip(&self, bytes: usize) -> usize {
        let in_line = LINE_BYTES - self.next.addr() % LINE_BYTES;
        if in_line + (bytes - 1) / LINE_BYTES * LINE_BYTES < bytes { in_line } else { 0 }
    }

    /// A block from a chunk that was taken for it.
    #[cold]
    fn cut_from_new(&mut self, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        assert!(bytes <= self.left, "a chunk has room for what it was taken for");
        Ok(self.cut_from_rest(bytes, 0))
    }

    /// A block behind `skip` bytes of what is left.
    #[inline(always)]
    fn cut_from_rest(&mut self, bytes: usize, skip: usize) -> NonNull<u8> {
        let block = self.next.wrapping_add(skip);
        self.next = block.wrapping_add(bytes);
        self.left -= bytes + skip;
        NonNull::new(block).expect("chunks do not start at address 0")
    }

    #[cold]
    fn refill(&mut self, c: P::Core, bytes: usize) -> Result<(), OutOfMemory> {
        let fresh = self.memory().chunks.chunk_of_about(c, self.node, self.chunk_bytes, bytes)?;
        self.spares = self.spares.saturating_sub(1);
        self.begin(fresh);
        Ok(())
    }

    /// Has about `bytes` more bytes provided for later blocks, or a part of them; returns how many.
    /// A program that can wait before it begins calls this until it has as much as it will need, or
    /// until this returns 0, which is near the limit.
    pub fn provide(&mut self, c: P::Core, bytes: usize) -> usize {
        if self.central {
            return 0;
        }
        // What the arena has got to needs no asking any more.
        let unready = self.unready.min(self.left);
        let provided = if unready > 0 {
            let more = bytes.next_multiple_of(step_bytes(self.current)).min(unready);
            P::populate(c, self.next.wrapping_add(self.left - unready), more);
            self.unready = unready - more;
            more
        } else {
            let chunk =
                bytes.next_multiple_of(CHUNK_BYTES_MAX).clamp(CHUNK_BYTES_MAX, CHUNK_BYTES_LATE as usize);
            let taken = self.memory().chunks.take_ahead(c, self.node, chunk, chunk);
            self.spares += u32::from(taken);
            if taken { chunk } else { 0 }
        };
        self.watch();
        provided
    }

    /// Bytes that it has cut so far.
    pub fn bytes_cut(&self) -> u64 {
        self.cut_before + (self.current - self.left) as u64
    }

    /// Begins with a chunk unless a quarter of a usual one is left: after loading, each worker has
    /// memory ready before any of them works, instead of all of them allocating it at the same
    /// moment soon after. Nothing happens near the limit.
    pub fn get_ready(&mut self, c: P::Core) {
        if self.left < CHUNK_BYTES_MAX / 4
            && !self.central
            && let Some(fresh) = self.memory().chunks.chunk_ahead(c, self.node, CHUNK_BYTES_MAX)
        {
            let ready = step_bytes(fresh.bytes);
            P::populate(c, fresh.base.as_ptr(), ready);
            self.begin(FreshChunk { unready: fresh.unready - ready, ..fresh });
        }
    }

    /// Leaves the current chunk for another one.
    fn begin(&mut self, fresh: FreshChunk) {
        self.cut_before += (self.current - self.left) as u64;
        let FreshChunk { base, bytes, unready } = fresh;
        (self.next, self.left, self.current, self.unready) = (base.as_ptr(), bytes, bytes, unready);
        let late = (self.cut_before / CHUNK_PART).min(CHUNK_BYTES_LATE) as usize;
        let doubled = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX);
        self.chunk_bytes = doubled.max(late / CHUNK_BYTES_MAX * CHUNK_BYTES_MAX);
        self.enough += 1;
        if self.enough == ENOUGH_CHUNKS {
            (self.ahead, self.enough) = ((self.ahead / 2).max(AHEAD_BYTES_MIN), 0);
        }
        self.watch();
    }

    /// Has memory provided ahead if too little is ready. The worker calls this between
    /// transactions.
    #[inline]
    pub fn tend(&mut self, c: P::Core) {
        if self.left < self.low {
            self.take_ahead(c);
        }
    }

    /// A step in the current chunk, or, at its end, a spare chunk.
    #[cold]
    fn take_ahead(&mut self, c: P::Core) {
        if self.left < self.unready {
            // The arena got there first. Unless it began with nothing, one transaction takes more
            // than was ready.
            if self.unready < self.current {
                (self.ahead, self.enough) = ((self.ahead * 2).min(AHEAD_BYTES_MAX), 0);
            }
            self.unready = self.left;
        }
        if self.unready > 0 {
            let bytes = self.ahead.next_multiple_of(step_bytes(self.current)).min(self.unready);
            P::populate(c, self.next.wrapping_add(self.left - self.unready), bytes);
            self.unready -= bytes;
        }
        if self.unready == 0 && self.left < self.ahead && self.spares == 0 {
            let bytes = self.chunk_bytes.max(self.ahead);
            self.memory().chunks.take_ahead(c, self.node, bytes, self.ahead);
            // Also if there was none to take: the arena does not ask again before it is in another
            // chunk.
            self.spares = 1;
        }
        self.watch();
    }

    /// Sets when there will be something to do.
    fn watch(&mut self) {
        self.low = match (self.unready, self.spares) {
            (0, 1..) => 0,
            (0, 0) => self.ahead.min(self.current / 2),
            (unready, _) => unready + self.ahead,
        };
    }

    /// Publishes the bytes that the arena has cut and has handed out.
    pub(crate) fn publish(&self) {
        self.memory().chunks.publish(self.worker, self.bytes_cut(), self.bytes_live);
    }

    /// Takes a block back at once.
    ///
    /// # Safety
    /// `block` came from `allocate(bytes)` of an arena on the same [`Memory`], no core can reach it
    /// any more, and it is not used again.
    pub unsafe fn free(&mut self, c: P::Core, block: NonNull<u8>, bytes: usize) {
        let (class, rounded) = class_of(bytes);
        // Another worker may have allocated it: only the sum over all arenas means something.
        self.bytes_live = self.bytes_live.wrapping_sub(rounded as u64);
        if self.central {
            // SAFETY: the caller's promise.
            unsafe { self.give_to_heap(c, block, bytes) };
            return;
        }
        self.free[class].push(block);
        let kept = (FREE_BYTES_MAX / rounded).max(2);
        if self.free[class].len() > kept {
            let blocks = self.free[class].split_off(kept / 2);
            self.memory().chunks.give_batch(c, BlockBatch { class, node: self.node, blocks });
        }
    }

    /// # Safety
    /// As [`Self::free`].
    #[cold]
    unsafe fn give_to_heap(&self, c: P::Core, block: NonNull<u8>, bytes: usize) {
        if let Some(heap) = &self.memory().heap {
            // SAFETY: the caller's promise; `new` demands that the worker's number is the arena's
            // own.
            unsafe { heap.free(c, self.worker, std::iter::once((block, bytes))) };
        }
    }

    /// Takes blocks and their sizes back at once.
    ///
    /// # Safety
    /// As [`Self::free`], for all of them.
    pub unsafe fn free_all(&mut self, c: P::Core, blocks: impl Iterator<Item = (NonNull<u8>, usize)>) {
        match &self.memory().heap {
            None => {
                for (block, bytes) in blocks {
                    // SAFETY: the caller's promise.
                    unsafe { self.free(c, block, bytes) };
                }
            }
            Some(heap) => {
                let mut sum = 0u64;
                let counted = blocks.inspect(|(_, bytes)| sum += class_of(*bytes).1 as u64);
                // SAFETY: as in `give_to_heap`.
                unsafe { heap.free(c, self.worker, counted) };
                self.bytes_live = self.bytes_live.wrapping_sub(sum);
            }
        }
    }
}

/// Places `words` zeroed shared words at `block`.
///
/// # Safety
/// `block` is aligned to 8 and valid for `words` words, and no other core knows the block yet.
pub unsafe fn zero_words<P: Platform>(block: NonNull<u8>, words: usize) {
    for index in 0..words {
        // SAFETY: inside the block by the caller's promise; no other core can reach it.
        unsafe { block.cast::<P::Word>().add(index).write(P::Word::new(0)) };
    }
}

#[cfg(test)]
mod tests;
