//! Lines of shared words, and computation: the parts of experiments without a database.

use std::hint::black_box;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform, Work};

/// Bytes from one line to the next: also where a line has 128 bytes, or comes with its neighbour,
/// each is alone.
const STRIDE: usize = 2 * LINE_BYTES;

/// Words of a line.
pub(crate) const LINE_WORDS: usize = LINE_BYTES / 8;

/// Lines of words in a row, all 0 at first.
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
        // Not the first line: in caches that choose a set by address, those of regions compete.
        Ok(Lines { region: P::region(c, node, count.saturating_add(1).saturating_mul(STRIDE), name)? })
    }

    #[inline(always)]
    pub(crate) fn word(&self, line: usize, word: usize) -> &P::Word {
        debug_assert!(word < LINE_WORDS);
        P::word_of(&self.region, (line + 1) * STRIDE + word * 8)
    }
}

/// Computes for so many units: three cycles each, in the virtual machine as declared, on hardware
/// as a chain of squares, each of which takes the three cycles of a multiplication and waits for
/// the one before. (A chain of products with a constant would become one product for several of
/// them.)
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
