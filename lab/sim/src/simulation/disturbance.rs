//! Additions to the costs of a fiber: for workers that share its hardware thread, and random ones
//! of a perturbed run.

use super::Simulation;
use crate::error::WaitReason;
use crate::fiber::{Fiber, OVERSUBSCRIBED, PERTURBED};

/// Under `perturb`, one event in this many stalls.
const STALL_RARITY: u64 = 128;
/// Longest stall: about sixteen misses.
const STALL_PS: u64 = 2_000_000;

/// Under `perturb`, one parking in this many returns at once.
const EARLY_WAKE_RARITY: u64 = 16;

impl Simulation {
    /// Addition to a cost of a fiber that is not on the fast path.
    pub(crate) fn disturbance(&self, fiber: &Fiber, picoseconds: u64) -> u64 {
        let mode = fiber.mode.get();
        let turns = if mode & OVERSUBSCRIBED != 0 { self.workers_on_thread(fiber) } else { 1 };
        let others_ps = picoseconds.saturating_mul(turns - 1);
        others_ps + if mode & PERTURBED != 0 { self.jitter(picoseconds) } else { 0 }
    }

    /// Number of workers that take turns on a fiber's hardware thread.
    pub(super) fn workers_on_thread(&self, fiber: &Fiber) -> u64 {
        let runs = |id: u32| {
            let worker = self.fiber(id);
            !worker.is_supervisor()
                && !matches!(worker.wait.reason.get(), Some(WaitReason::Park | WaitReason::Join))
        };
        (self.seats.count(fiber.seat.get(), runs) as u64).max(1)
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
