//! The chunks of one database: their limit, and free blocks on their way from one arena to another.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Address, LINE_BYTES, Node, OutOfMemory, Platform, RegionBytes};

/// First chunk of an arena or a heap; each further one is twice as large, up to [`CHUNK_BYTES_MAX`].
pub(crate) const CHUNK_BYTES_FIRST: usize = 64 << 10;
/// Largest chunk, but for blocks that are larger themselves.
pub(crate) const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Free blocks of one class and one node that an arena gave back.
pub(crate) struct Batch {
    pub class: usize,
    pub node: Option<Node>,
    pub blocks: Vec<NonNull<u8>>,
}

/// What the latch protects.
struct Pool<P: Platform> {
    chunks: Vec<P::Region>,
    batches: Vec<Batch>,
}

/// The chunks that all arenas of one database draw from. They are never given back before the database ends.
///
/// Concurrency: chunks and batches are taken rarely (they are large), so one test-and-set word protects both.
pub(crate) struct Chunks<P: Platform> {
    /// Limit in bytes over all chunks.
    bytes_max: u64,
    /// Line 0: the latch. Line 1: bytes in chunks. Line 2: number of batches.
    shared: P::Region,
    pool: UnsafeCell<Pool<P>>,
}

// SAFETY: `pool` is touched only while the latch is held; the rest is immutable.
unsafe impl<P: Platform> Sync for Chunks<P> {}
// SAFETY: owns regions, which are Send, and blocks in them; nothing belongs to a thread.
unsafe impl<P: Platform> Send for Chunks<P> {}

impl<P: Platform> Chunks<P> {
    /// No chunk yet, and at most `bytes_max` bytes of them.
    pub(crate) fn new(c: P::Core, bytes_max: u64) -> Result<Self, OutOfMemory> {
        let shared = P::region(c, None, 3 * LINE_BYTES, "memory limit")?;
        let pool = Pool { chunks: Vec::new(), batches: Vec::new() };
        Ok(Chunks { bytes_max, shared, pool: UnsafeCell::new(pool) })
    }

    /// A place that no other chunks of the platform have at the same time.
    pub(crate) fn address(&self, c: P::Core) -> Address {
        P::address(c, self.shared.base())
    }

    fn word(&self, line: usize) -> &P::Word {
        P::word_of(&self.shared, line * LINE_BYTES)
    }

    fn with_pool<T>(&self, c: P::Core, body: impl FnOnce(&mut Pool<P>) -> T) -> T {
        // Acquire: pairs with the release store below.
        while P::cas(c, self.word(0), 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, self.word(0), 1, None);
        }
        // SAFETY: the latch is held, and `body` cannot get here again: it has no access to the memory.
        let result = body(unsafe { &mut *self.pool.get() });
        // Release: pairs with the acquire of the next holder.
        P::store(c, self.word(0), 0, Ordering::Release);
        result
    }

    /// Takes free blocks that another arena may use.
    pub(crate) fn give_batch(&self, c: P::Core, batch: Batch) {
        let batches = self.with_pool(c, |pool| {
            pool.batches.push(batch);
            pool.batches.len()
        });
        // Relaxed: a hint for `take_batch`.
        P::store(c, self.word(2), batches as u64, Ordering::Relaxed);
    }

    /// Whether there are free blocks that another arena may use.
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
            let of_class = |batch: &Batch| batch.class == class;
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

    /// A chunk for rows and index nodes of at least `bytes` bytes, of `wanted` if there is room; and its length.
    pub(crate) fn chunk_of_about(
        &self,
        c: P::Core,
        node: Option<Node>,
        wanted: usize,
        bytes: usize,
    ) -> Result<(NonNull<u8>, usize), OutOfMemory> {
        let mut length = wanted.max(bytes);
        loop {
            match self.chunk(c, node, length, "rows and index nodes") {
                // Near the limit a smaller chunk may still fit.
                Err(_) if length / 2 >= bytes.max(LINE_BYTES) => length /= 2,
                result => return Ok((result?, length)),
            }
        }
    }
}
