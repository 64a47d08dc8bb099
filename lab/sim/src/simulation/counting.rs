//! Use that hardware threads make of their time: workers that compute, and counters.

use platform::Nanos;

use super::Simulation;
use crate::error::WaitReason;
use crate::fiber::Fiber;
use crate::ready::picoseconds;
use crate::statistics::Counts;

impl Simulation {
    /// Records that a worker begins or ends to compete for the issue slots of its core.
    pub(crate) fn compute(&self, fiber: &Fiber, begin: bool) {
        if fiber.computing.replace(begin) != begin {
            self.cost().compute(fiber.seat.get().core as usize, begin);
        }
    }

    /// Records that the hardware thread of a worker begins or ceases to execute it, at the worker's
    /// moment.
    pub(crate) fn run(&self, fiber: &Fiber, begin: bool) {
        if fiber.running.replace(begin) == begin {
            return;
        }
        let (seat, now_ps) = (fiber.seat.get(), fiber.clock_ps.get());
        if begin {
            self.seats.begin_running(seat, now_ps);
        } else if let Some(since_ps) = self.seats.end_running(seat) {
            self.cost().counts().running_ps += self.counted_ps(since_ps, now_ps);
        }
    }

    /// The counted part of the time between two moments.
    fn counted_ps(&self, from_ps: u64, until_ps: u64) -> u64 {
        until_ps.saturating_sub(from_ps.max(picoseconds(self.counted_from.get())))
    }

    /// Counts the turns of a worker that has spun since `since_ps`.
    pub(crate) fn count_spin(&self, fiber: &Fiber, since_ps: u64) {
        let (turns, system_ps) = self.spun(since_ps, fiber.clock_ps.get());
        let counts = self.cost().counts();
        counts.spin_turns += turns;
        counts.system_ps += system_ps;
    }

    /// Turns of a worker that spins between two moments, and time of its yields.
    fn spun(&self, since_ps: u64, until_ps: u64) -> (u64, u64) {
        let spun_ps = self.counted_ps(since_ps, until_ps);
        let costs = &self.config.model.costs;
        let (turns, yields) = costs.spin_loop().turns(spun_ps);
        (turns, yields * costs.yield_ps)
    }

    /// All counts up to this moment, with those of workers that are running or spinning.
    pub(crate) fn counts(&self, now: Nanos) -> Counts {
        let now_ps = picoseconds(now);
        let mut counts = *self.cost().counts();
        for since_ps in self.seats.running_since() {
            counts.running_ps += self.counted_ps(since_ps, now_ps);
        }
        let spins = |fiber: &&Fiber| fiber.running.get() && fiber.wait.reason.get() == Some(WaitReason::Spin);
        for fiber in self.fibers.all().filter(spins) {
            let (turns, system_ps) = self.spun(fiber.wait.since_ps.get(), now_ps);
            counts.spin_turns += turns;
            counts.system_ps += system_ps;
        }
        counts
    }
}
