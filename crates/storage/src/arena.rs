//! Thread-local, node-local memory by size class.
//!
//! An [`Arena`] belongs to one worker. The arena cuts blocks from chunks that lie on the worker's memory node, and keeps
//! freed blocks in one list per size class. Blocks of 64 bytes and more start on a line of their own; smaller ones never
//! straddle a line, and no two workers' new blocks share one: no false sharing between workers.
//!
//! [`Memory`] is the store of chunks that all arenas of one database draw from: the memory holds the limit, and owns the
//! chunks until the database ends, since rows outlive the worker that wrote them. Where workers are to have no arenas of
//! their own ([`Optimisation::ThreadAlloc`]), an arena keeps nothing: each block comes from one heap for all of them.

use std::ptr::NonNull;

use platform::{Address, LINE_BYTES, Node, OutOfMemory, Platform, SharedWord};

use crate::chunks::{Batch, CHUNK_BYTES_FIRST, CHUNK_BYTES_MAX, Chunks};
use crate::heap::Heap;
use crate::optimisations::{Optimisation, Optimisations};

/// Bytes of free blocks of one class that an arena keeps; half of them go back to the memory when there are more, for
/// arenas that allocate what this one frees.
const FREE_BYTES_MAX: usize = 256 << 10;
/// Smallest block.
const BLOCK_BYTES_MIN: usize = 16;
/// Blocks up to this size are rounded up to whole lines, larger ones to powers of two.
const LINEAR_BYTES_MAX: usize = 4096;
/// Classes below one line (16, 32), of whole lines, and of powers of two up to 2^47.
const CLASSES: usize = 2 + LINEAR_BYTES_MAX / LINE_BYTES + 36;

const _: () = assert!(LINEAR_BYTES_MAX.is_power_of_two() && LINEAR_BYTES_MAX.is_multiple_of(LINE_BYTES));

/// Size class of a block and its size in bytes, rounded up.
#[inline]
fn class_of(bytes: usize) -> (usize, usize) {
    let bytes = bytes.max(1);
    if bytes <= 32 {
        let rounded = bytes.next_multiple_of(BLOCK_BYTES_MIN);
        return (rounded / BLOCK_BYTES_MIN - 1, rounded);
    }
    if bytes <= LINEAR_BYTES_MAX {
        let rounded = bytes.next_multiple_of(LINE_BYTES);
        return (1 + rounded / LINE_BYTES, rounded);
    }
    let rounded = bytes.next_power_of_two();
    let above = rounded.trailing_zeros() - LINEAR_BYTES_MAX.trailing_zeros();
    (1 + LINEAR_BYTES_MAX / LINE_BYTES + above as usize, rounded)
}

/// The chunks of one database, which all its arenas draw from, or its one heap.
pub struct Memory<P: Platform> {
    chunks: Chunks<P>,
    /// Where all blocks come from, if workers have no arenas of their own.
    heap: Option<Heap<P>>,
    optimisations: Optimisations,
}

impl<P: Platform> Memory<P> {
    /// An empty store that hands out at most `bytes_max` bytes.
    pub fn new(c: P::Core, bytes_max: u64) -> Result<Self, OutOfMemory> {
        Ok(Memory { chunks: Chunks::new(c, bytes_max)?, heap: None, optimisations: Optimisations::ALL })
    }

    /// The same for up to `workers` workers that have these optimisations. Without [`Optimisation::ThreadAlloc`] all
    /// blocks come from one heap: workers wait for each other, blocks are aligned to 16 bytes only, and lie wherever there
    /// was room.
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
        Ok(Memory { heap, optimisations, ..Memory::new(c, bytes_max)? })
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
    chunk_bytes: usize,
    free: Vec<Vec<NonNull<u8>>>,
    bytes_live: u64,
    /// Number of the worker that the arena belongs to.
    worker: usize,
    /// All blocks come from the memory's heap; `free` stays empty.
    central: bool,
}

// SAFETY: the blocks belong to the holder of the arena; `Memory` is Sync and outlives it (see `Arena::new`).
unsafe impl<P: Platform> Send for Arena<P> {}

impl<P: Platform> Arena<P> {
    /// An empty arena of worker number `worker` whose blocks lie on `node`.
    ///
    /// # Safety
    /// `memory` stays at its place and outlives the arena, and no other arena on it has this number.
    pub unsafe fn new(memory: &Memory<P>, worker: usize, node: Option<Node>) -> Self {
        Arena {
            memory,
            node,
            next: std::ptr::null_mut(),
            left: 0,
            chunk_bytes: CHUNK_BYTES_FIRST,
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

    /// A block of at least `bytes` bytes with arbitrary contents, aligned to 16 bytes; from 64 bytes on to a line, unless it
    /// comes from a heap for all workers.
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

    /// A block of at least `bytes` bytes with arbitrary contents that begins with a line, whatever the memory.
    pub fn allocate_lines(&mut self, c: P::Core, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let bytes = bytes.max(LINE_BYTES);
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
        // Blocks below a line may not straddle one; all others are whole lines.
        let in_line = LINE_BYTES - self.next.addr() % LINE_BYTES;
        let skip = if bytes > in_line && in_line < LINE_BYTES { in_line } else { 0 };
        // Nothing is left as long as there is no chunk.
        if bytes + skip > self.left {
            self.refill(c, bytes)?;
            return self.cut_from_new(bytes);
        }
        Ok(self.cut_from_rest(bytes, skip))
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

    /// Takes `bytes` from the machine ahead, so that as many bytes of blocks cost no page fault later. A heap for all
    /// workers takes none.
    pub fn reserve(&mut self, c: P::Core, bytes: usize) -> Result<(), OutOfMemory> {
        if self.left < bytes && !self.central {
            let chunk = self.memory().chunk(c, self.node, bytes, "reserve for rows and index nodes")?;
            P::populate(c, chunk.as_ptr(), bytes);
            (self.next, self.left) = (chunk.as_ptr(), bytes);
        }
        Ok(())
    }

    #[cold]
    fn refill(&mut self, c: P::Core, bytes: usize) -> Result<(), OutOfMemory> {
        let (base, length) = self.memory().chunks.chunk_of_about(c, self.node, self.chunk_bytes, bytes)?;
        self.next = base.as_ptr();
        self.left = length;
        self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX);
        Ok(())
    }

    /// Takes a block back at once.
    ///
    /// # Safety
    /// `block` came from `allocate(bytes)` of an arena on the same [`Memory`], no core can reach it any more, and it is
    /// not used again.
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
            self.memory().chunks.give_batch(c, Batch { class, node: self.node, blocks });
        }
    }

    /// # Safety
    /// As [`Self::free`].
    #[cold]
    unsafe fn give_to_heap(&self, c: P::Core, block: NonNull<u8>, bytes: usize) {
        if let Some(heap) = &self.memory().heap {
            // SAFETY: the caller's promise; `new` demands that the worker's number is the arena's own.
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
mod tests {
    use platform::Hardware;

    use super::*;

    fn memory(bytes_max: u64) -> Memory<Hardware> {
        Memory::new(Hardware::core(), bytes_max).expect("memory")
    }

    #[test]
    fn blocks_do_not_overlap_nor_straddle() {
        let c = Hardware::core();
        let memory = memory(1 << 30);
        // SAFETY: `memory` is declared before, so it is dropped after.
        let mut arena = unsafe { Arena::new(&memory, 0, None) };
        let mut blocks = Vec::new();
        for round in 0..400usize {
            let bytes = [8, 16, 24, 32, 40, 64, 65, 200, 4096, 5000, 100_000][round % 11];
            let at = arena.allocate(c, bytes).expect("memory").addr().get();
            assert_eq!(at % 16, 0);
            if bytes >= 64 {
                assert_eq!(at % LINE_BYTES, 0);
            } else {
                assert_eq!(at / LINE_BYTES, (at + bytes - 1) / LINE_BYTES);
            }
            blocks.push((at, bytes));
        }
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    }

    #[test]
    fn freed_blocks_come_back() {
        let c = Hardware::core();
        let memory = memory(1 << 30);
        // SAFETY: `memory` is declared before, so it is dropped after.
        let mut arena = unsafe { Arena::new(&memory, 0, None) };
        let first = arena.allocate(c, 100).expect("memory");
        // SAFETY: allocated above with the same size and forgotten here.
        unsafe { arena.free(c, first, 100) };
        assert_eq!(arena.bytes_live(), 0);
        assert_eq!(arena.allocate(c, 120).expect("memory"), first);
    }

    #[test]
    fn the_limit_is_a_typed_error() {
        let c = Hardware::core();
        let memory = memory(1 << 20);
        // SAFETY: `memory` is declared before, so it is dropped after.
        let mut arena = unsafe { Arena::new(&memory, 0, None) };
        let error = (0..).find_map(|_| arena.allocate(c, 4096).err()).expect("the limit is reached");
        assert!(error.reason.contains("memory limit"), "{error}");
        assert!(memory.bytes_used(c) <= 1 << 20);
    }

    #[test]
    fn what_the_machine_refuses_is_not_in_use() {
        const ABSURD: usize = 1 << 60;
        let c = Hardware::core();
        let memory = memory(u64::MAX);
        for _ in 0..32 {
            let error = memory.chunk(c, None, ABSURD, "too much").expect_err("no machine has that much");
            assert!(!error.reason.contains("memory limit"), "{error}");
        }
        assert_eq!(memory.bytes_used(c), 0);
        assert!(memory.chunk(c, None, 4096, "a little").is_ok());
        assert_eq!(memory.bytes_used(c), 4096);
    }

    #[test]
    fn what_one_arena_frees_another_uses() {
        let c = Hardware::core();
        let memory = memory(4 << 20);
        // SAFETY: `memory` is declared before, so it is dropped after.
        let (mut first, mut second) = unsafe { (Arena::new(&memory, 0, None), Arena::new(&memory, 0, None)) };
        for _ in 0..if cfg!(miri) { 3_000 } else { 300_000 } {
            let block = first.allocate(c, 100).expect("blocks come back");
            // SAFETY: allocated just now with the same size, and forgotten.
            unsafe { second.free(c, block, 100) };
        }
    }

    #[test]
    fn the_limit_can_be_used_up() {
        let c = Hardware::core();
        let memory = memory(1 << 20);
        // SAFETY: `memory` is declared before, so it is dropped after.
        let mut arena = unsafe { Arena::new(&memory, 0, None) };
        let blocks = (0..).take_while(|_| arena.allocate(c, 4096).is_ok()).count();
        assert!(blocks * 4096 > (1 << 20) - 16 * 4096, "{blocks} blocks fit");
    }

    #[test]
    fn classes_fit_their_sizes() {
        let mut last = 0;
        for bytes in 1..20_000 {
            let (class, rounded) = class_of(bytes);
            assert!(rounded >= bytes && class >= last && class <= last + 1 && class < CLASSES);
            last = class;
        }
    }
}
