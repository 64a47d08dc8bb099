//! The machine's own randomness: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).

use std::cell::Cell;

/// A stream of random numbers that depends on its seed alone.
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Cell::new(seed))
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(self.0.get())
    }

    /// A number below `bound`, which is not 0. The bias is below `bound / 2^64`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// A bijection that makes neighbours unlike.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
