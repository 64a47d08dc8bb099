//! Random additions of a perturbed run to the costs of a fiber.

use super::Simulation;
use crate::fiber::{Fiber, PERTURBED};

/// Under `perturb`, one event in this many stalls.
const STALL_RARITY: u64 = 128;
/// Longest stall: about sixteen misses.
const STALL_PS: u64 = 2_000_000;

/// Under `perturb`, one parking in this many returns at once.
const EARLY_WAKE_RARITY: u64 = 16;

impl Simulation {
    /// Addition to a cost of a fiber that is not on the fast path.
    pub(crate) fn disturbance(&self, fiber: &Fiber, picoseconds: u64) -> u64 {
        if fiber.mode.get() & PERTURBED != 0 { self.jitter(picoseconds) } else { 0 }
    }

    /// Random addition of a perturbed run to a cost.
    fn jitter(&self, picoseconds: u64) -> u64 {
        let jitter = self.random.below(picoseconds / 4 + 1);
        if self.random.below(STALL_RARITY) != 0 {
            return jitter;
        }
        jitter + self.random.below(STALL_PS)
    }

    /// True if a perturbed run lets a parked core wake early, which every caller of `park` must
    /// expect.
    pub(crate) fn wakes_early(&self) -> bool {
        self.config.perturb && self.random.below(EARLY_WAKE_RARITY) == 0
    }
}
