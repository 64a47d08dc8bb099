//! Lines of shared words, and computation: building blocks of experiments without a database.

use std::hint::black_box;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform, Work};

/// Bytes from one line to the next. Also where a line has 128 bytes, or is prefetched with its
/// neighbour, no two share it.
const STRIDE: usize = 2 * LINE_BYTES;

/// Words of a line.
pub(crate) const LINE_WORDS: usize = LINE_BYTES / 8;

/// An array of lines of words, all 0 at first.
pub(crate) struct Lines<P: Platform> {
    region: P::Region,
}

impl<P: Platform> Lines<P> {
    pub(crate) fn new(
        c: P::Core,
        node: Option<Node>,
        count: usize,
        name: &'static str,
    ) -> Result<Self, OutOfMemory> {
        // Skips the first line: in caches that choose a set by address, the first lines of regions
        // compete.
        Ok(Lines { region: P::region(c, node, count.saturating_add(1).saturating_mul(STRIDE), name)? })
    }

    #[inline(always)]
    pub(crate) fn word(&self, line: usize, word: usize) -> &P::Word {
        debug_assert!(word < LINE_WORDS);
        P::word_of(&self.region, (line + 1) * STRIDE + word * 8)
    }
}

/// Computes for `units` units of three cycles each: in the virtual machine as declared work, on
/// hardware as a chain of squares, each of which takes the three cycles of a multiplication and
/// waits for the one before. (The compiler would merge several products with a constant into one.)
#[inline]
pub(crate) fn compute<P: Platform>(c: P::Core, units: u32) {
    if units > 0 {
        P::work(c, Work::Step, units);
        let mut product = black_box(3u64);
        for _ in 0..units {
            product = product.wrapping_mul(product);
        }
        black_box(product);
    }
}
