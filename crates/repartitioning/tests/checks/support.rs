//! What several tests need: numbers that look random, and machines.

use repartitioning::{Core, Cores};

/// Numbers that look random, the same for the same seed (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
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

/// `sockets` sockets of `each` cores; sockets that differ in one bit of their numbers are one step
/// apart, others two.
pub fn machine(sockets: u16, each: u16) -> Cores {
    let steps = |one: u16, other: u16| f64::from((one ^ other).count_ones().min(2)) + 0.5;
    let row =
        |one: u16| (0..sockets).map(|other| if one == other { 0.0 } else { steps(one, other) }).collect();
    Cores::new((0..sockets * each).map(|core| core / each).collect(), (0..sockets).map(row).collect())
        .expect("a machine")
}

/// All cores.
pub fn all(cores: &Cores) -> Vec<Core> {
    cores.present().collect()
}
