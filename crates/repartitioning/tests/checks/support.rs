//! Helpers of several tests: random numbers, and machines.

use repartitioning::{Core, Cores};
use terms::random::SplitMix;

/// A seeded generator of random numbers.
pub struct Numbers(pub SplitMix);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About 0, nearly normal, with this deviation.
    pub fn noise(&mut self, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.share()).sum();
        (sum - 6.0) * deviation
    }
}

/// Describes `sockets` sockets of `each` cores. Sockets whose numbers differ in one bit are one
/// step apart, others two.
pub fn machine(sockets: u16, each: u16) -> Cores {
    let steps = |one: u16, other: u16| f64::from((one ^ other).count_ones().min(2)) + 0.5;
    let row =
        |one: u16| (0..sockets).map(|other| if one == other { 0.0 } else { steps(one, other) }).collect();
    Cores::new((0..sockets * each).map(|core| core / each).collect(), (0..sockets).map(row).collect())
        .expect("a machine")
}

/// Returns all cores.
pub fn all(cores: &Cores) -> Vec<Core> {
    cores.present().collect()
}
