//! The machine's random numbers.

use std::cell::Cell;

use terms::random::{SplitMix, bounded};

/// A stream of random numbers that depends on its seed alone.
pub(crate) struct Random(Cell<SplitMix>);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Cell::new(SplitMix::new(seed)))
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        let mut words = self.0.get();
        let next = words.next();
        self.0.set(words);
        next
    }

    /// A number below `bound`, which is not 0. The bias is below `bound / 2^64`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        bounded(self.next(), bound)
    }
}
