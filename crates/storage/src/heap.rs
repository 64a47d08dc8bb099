//! One heap for all workers of an instance, if workers have no arenas of their own
//! ([`crate::Optimisation::ThreadAlloc`]).
//!
//! The heap does what the general-purpose heap behind a research prototype does: one latch protects
//! it, and blocks of all workers follow each other at multiples of 16 bytes, so that rows and nodes
//! of different workers share lines, and lie on the memory node of the worker that needed a new
//! chunk. A free block holds the address of the next free block of its size, so that the line of a
//! block moves to the worker that takes it or gives it back. The latch is a queue latch, so waiting
//! is as cheap as it can be; without [`crate::Optimisation::QueueLatch`] all waiting workers poll
//! one word.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform, RegionBytes};

use crate::chunks::{CHUNK_BYTES_FIRST, CHUNK_BYTES_MAX, Chunks};
use crate::latch::{QueueLatch, QueueNode};

/// Blocks are multiples of this.
const UNIT_BYTES: usize = 16;
/// Blocks up to this size are rounded up to units, larger ones to powers of two.
const LINEAR_BYTES_MAX: usize = 4096;
/// Sizes of whole units, and powers of two up to 2^47.
const CLASSES: usize = LINEAR_BYTES_MAX / UNIT_BYTES + 36;

/// Words of the first line behind the latch's: where the next new block begins, where its chunk
/// ends, bytes of the next chunk, bytes cut so far.
const NEXT: usize = LINE_BYTES / 8;
const END: usize = NEXT + 1;
const CHUNK_BYTES: usize = NEXT + 2;
const CUT: usize = NEXT + 3;
/// Words with the first free block of each class.
const HEADS: usize = 2 * LINE_BYTES / 8;
/// Line of the first worker's place in the queue.
const SEATS: usize = (HEADS + CLASSES).div_ceil(LINE_BYTES / 8);

/// Class of a block and its size in bytes, rounded up.
fn class_of(bytes: usize) -> (usize, usize) {
    let rounded = bytes.max(1).next_multiple_of(UNIT_BYTES);
    if rounded <= LINEAR_BYTES_MAX {
        return (rounded / UNIT_BYTES - 1, rounded);
    }
    let rounded = bytes.next_power_of_two();
    let above = rounded.trailing_zeros() - LINEAR_BYTES_MAX.trailing_zeros();
    (LINEAR_BYTES_MAX / UNIT_BYTES - 1 + above as usize, rounded)
}

/// The heap. Everything of it that changes lies in its region.
pub(crate) struct Heap<P: Platform> {
    /// Line 0: the latch. Then the words named above, and one line for each worker.
    region: P::Region,
    /// True if workers that wait for the latch queue.
    queues: bool,
    kind: PhantomData<P>,
}

impl<P: Platform> Heap<P> {
    /// An empty heap for this many workers.
    pub(crate) fn new(c: P::Core, workers: usize, queues: bool) -> Result<Self, OutOfMemory> {
        let region = P::region(c, None, (SEATS + workers) * LINE_BYTES, "heap")?;
        Ok(Heap { region, queues, kind: PhantomData })
    }

    fn word(&self, number: usize) -> &P::Word {
        P::word_of(&self.region, number * 8)
    }

    /// Bytes cut from chunks so far: a figure for reports.
    pub(crate) fn bytes_cut(&self) -> u64 {
        P::peek(self.word(CUT))
    }

    /// Runs `body` with the latch held.
    ///
    /// # Safety
    /// Only one core at a time uses this worker's number, and `body` does not come back here.
    unsafe fn with_latch<T>(&self, c: P::Core, worker: usize, body: impl FnOnce() -> T) -> T {
        const { assert!(size_of::<QueueNode<P>>() == LINE_BYTES) };
        if !self.queues {
            // Acquire: pairs with the release below.
            while P::cas(c, self.word(0), 0, 1, Ordering::Acquire).is_err() {
                P::spin_while(c, self.word(0), 1, None);
            }
            let result = body();
            // Release: pairs with the acquire of the next holder.
            P::store(c, self.word(0), 0, Ordering::Release);
            return result;
        }
        let offset = (SEATS + worker) * LINE_BYTES;
        assert!(offset + LINE_BYTES <= self.region.bytes(), "the heap has no place for worker {worker}");
        // SAFETY: zeroed lines of the region, used as latch and as queue nodes only.
        let (latch, seat) = unsafe {
            let base = self.region.base();
            (&*base.cast::<QueueLatch<P>>(), &*base.add(offset).cast::<QueueNode<P>>())
        };
        // SAFETY: the worker's own node, by the caller's promise, in use until the release below.
        unsafe { latch.acquire(c, seat) };
        let result = body();
        // SAFETY: acquired above with this node.
        unsafe { latch.release(c, seat) };
        result
    }

    /// A block of at least `bytes` bytes with arbitrary contents, aligned to 16 bytes.
    ///
    /// # Safety
    /// As [`Self::with_latch`].
    pub(crate) unsafe fn allocate(
        &self,
        c: P::Core,
        chunks: &Chunks<P>,
        worker: usize,
        bytes: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let (class, rounded) = class_of(bytes);
        let head = self.word(HEADS + class);
        let pop = || {
            // Relaxed, all of them: ordered by the latch.
            let first = P::load(c, head, Ordering::Relaxed);
            let Some(block) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(first as usize))
            else {
                return self.cut(c, chunks, rounded, UNIT_BYTES);
            };
            // SAFETY: a free block, which begins with a word that only the holder of the latch
            // uses.
            let next = P::load(c, unsafe { block.cast::<P::Word>().as_ref() }, Ordering::Relaxed);
            P::store(c, head, next, Ordering::Relaxed);
            Ok(block)
        };
        // SAFETY: passed on to the caller.
        unsafe { self.with_latch(c, worker, pop) }
    }

    /// A new block that begins with a line, for what must.
    ///
    /// # Safety
    /// As [`Self::with_latch`].
    pub(crate) unsafe fn allocate_lines(
        &self,
        c: P::Core,
        chunks: &Chunks<P>,
        worker: usize,
        bytes: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let (_, rounded) = class_of(bytes);
        // SAFETY: passed on to the caller.
        unsafe { self.with_latch(c, worker, || self.cut(c, chunks, rounded, LINE_BYTES)) }
    }

    /// A new block. The latch is held.
    fn cut(
        &self,
        c: P::Core,
        chunks: &Chunks<P>,
        bytes: usize,
        align: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        // Relaxed, all of them: ordered by the latch.
        let mut next = (P::load(c, self.word(NEXT), Ordering::Relaxed) as usize).next_multiple_of(align);
        if next + bytes > P::load(c, self.word(END), Ordering::Relaxed) as usize {
            let wanted =
                (P::load(c, self.word(CHUNK_BYTES), Ordering::Relaxed) as usize).max(CHUNK_BYTES_FIRST);
            let fresh = chunks.chunk_of_about(c, None, wanted, bytes)?;
            next = fresh.base.as_ptr().expose_provenance();
            P::store(c, self.word(END), (next + fresh.bytes) as u64, Ordering::Relaxed);
            P::store(c, self.word(CHUNK_BYTES), (wanted * 2).min(CHUNK_BYTES_MAX) as u64, Ordering::Relaxed);
        }
        P::store(c, self.word(NEXT), (next + bytes) as u64, Ordering::Relaxed);
        P::poke(self.word(CUT), self.bytes_cut() + bytes as u64);
        let block = NonNull::new(std::ptr::with_exposed_provenance_mut(next));
        Ok(block.expect("chunks do not start at address 0"))
    }

    /// Takes blocks and their sizes back, all at once.
    ///
    /// # Safety
    /// As [`Self::with_latch`]; the blocks came from this heap with these sizes, no core can reach
    /// them any more, and they are not used again.
    pub(crate) unsafe fn free(
        &self,
        c: P::Core,
        worker: usize,
        blocks: impl Iterator<Item = (NonNull<u8>, usize)>,
    ) {
        let push_all = || {
            for (block, bytes) in blocks {
                let head = self.word(HEADS + class_of(bytes).0);
                // Relaxed, all of them: ordered by the latch.
                let first = P::load(c, head, Ordering::Relaxed);
                // SAFETY: the block is 16 bytes long at least, and the heap's own from now on.
                P::store(c, unsafe { block.cast::<P::Word>().as_ref() }, first, Ordering::Relaxed);
                P::store(c, head, block.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
            }
        };
        // SAFETY: passed on to the caller.
        unsafe { self.with_latch(c, worker, push_all) }
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Place};

    use super::*;
    use crate::{Epochs, Local, Memory, Optimisation, Optimisations};

    const CENTRAL: Optimisations = Optimisations::ALL.without(Optimisation::ThreadAlloc);

    #[test]
    fn blocks_of_two_workers_share_lines_and_come_back() {
        let c = Hardware::core();
        let memory = Memory::<Hardware>::with_optimisations(c, 1 << 30, 2, CENTRAL).expect("memory");
        let epochs = Epochs::new(c, 2, 0).expect("memory");
        // SAFETY: memory and epochs are declared before, so dropped after; the numbers differ.
        let (mut first, mut second) =
            unsafe { (Local::new(&memory, &epochs, 0, None), Local::new(&memory, &epochs, 1, None)) };
        let blocks = [40, 40, 40, 200].map(|bytes| {
            let (left, right) = (first.allocate(c, bytes).expect("memory"), second.allocate(c, bytes));
            let right = right.expect("memory");
            assert_eq!(right.addr().get() - left.addr().get(), bytes.next_multiple_of(UNIT_BYTES));
            [(left, bytes), (right, bytes)]
        });
        let mut lines: Vec<_> = blocks.iter().flatten().map(|(at, _)| at.addr().get() / LINE_BYTES).collect();
        lines.dedup();
        assert!(lines.len() < 8, "neighbours share lines");
        let line = first.allocate_lines(c, LINE_BYTES).expect("memory");
        assert_eq!(line.addr().get() % LINE_BYTES, 0);
        let (given, bytes) = blocks[0][0];
        // SAFETY: allocated above and never used.
        unsafe { first.free(c, given, bytes) };
        assert_eq!(second.allocate(c, bytes).expect("memory"), given, "one heap for both");
    }

    #[test]
    fn loans_end() {
        let c = Hardware::core();
        let memory = Memory::<Hardware>::with_optimisations(c, 1 << 30, 1, CENTRAL).expect("memory");
        let epochs = Epochs::new(c, 1, 0).expect("memory");
        // SAFETY: memory and epochs are declared before, so dropped after.
        let mut local = unsafe { Local::new(&memory, &epochs, 0, None) };
        let loans = [100, 100, 9000].map(|bytes| local.lend(c, bytes).expect("memory"));
        let used = memory.bytes_used(c);
        assert!(local.bytes_live() > 9000);
        // SAFETY: lent above.
        unsafe { local.take_back(c, loans.into_iter()) };
        assert_eq!(local.bytes_live(), 0);
        assert!([100, 100, 9000].iter().all(|bytes| local.allocate(c, *bytes).is_ok()));
        assert_eq!(memory.bytes_used(c), used);
    }

    #[test]
    fn no_block_has_two_owners() {
        allocate_at_once(CENTRAL);
        allocate_at_once(CENTRAL.without(Optimisation::QueueLatch));
    }

    fn allocate_at_once(optimisations: Optimisations) {
        const WORKERS: usize = 3;
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 5_000 };
        let c = Hardware::core();
        let memory =
            Memory::<Hardware>::with_optimisations(c, 1 << 30, WORKERS, optimisations).expect("memory");
        let epochs = Epochs::new(c, WORKERS, 0).expect("memory");
        let worker = |c, number: usize| {
            // SAFETY: memory and epochs outlive the workers; the numbers differ.
            let mut local = unsafe { Local::new(&memory, &epochs, number, None) };
            let mut held = Vec::new();
            for round in 0..ROUNDS {
                let bytes = [16, 48, 48, 5000][round as usize % 4];
                let block = local.allocate(c, bytes).expect("memory");
                let value = round << 8 | number as u64;
                // SAFETY: the block is this worker's until it frees it.
                unsafe { block.cast::<u64>().add(1).write(value) };
                held.push((block, bytes, value));
                if held.len() > 5 {
                    let (block, bytes, value) = held.swap_remove(round as usize % 5);
                    // SAFETY: allocated above with this size; written above, and not used
                    // afterwards.
                    unsafe {
                        assert_eq!(block.cast::<u64>().add(1).read(), value);
                        local.free(c, block, bytes);
                    }
                }
            }
        };
        Hardware::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |_| ());
        assert!(memory.bytes_used(c) < 1 << 20, "what is given back is used again");
    }

    #[test]
    fn the_limit_holds() {
        let c = Hardware::core();
        let memory = Memory::<Hardware>::with_optimisations(c, 100_000, 1, CENTRAL).expect("memory");
        let epochs = Epochs::new(c, 1, 0).expect("memory");
        // SAFETY: memory and epochs are declared before, so dropped after.
        let mut local = unsafe { Local::new(&memory, &epochs, 0, None) };
        let blocks = (0..1000).take_while(|_| local.allocate(c, 1000).is_ok()).count();
        assert!((60..100).contains(&blocks), "{blocks}");
        assert!(local.allocate(c, 1000).is_err_and(|error| error.reason.contains("100000 bytes")));
    }
}
