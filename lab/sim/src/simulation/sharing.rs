//! Workers that share a hardware thread: one of them runs, the others wait for their slices
//! ([`crate::slices`]).

use super::Simulation;
use crate::error::WaitReason;
use crate::fiber::{Fiber, OVERSUBSCRIBED};
use crate::ready::key;
use crate::slices::{SWITCH_PS, Turn};

impl Simulation {
    /// Returns true if a worker shares its hardware thread and is awake.
    #[inline(always)]
    pub(crate) fn is_shared(&self, fiber: &Fiber) -> bool {
        fiber.mode.get() & OVERSUBSCRIBED != 0 && fiber.running.get()
    }

    /// Decides, at an event of a worker that shares its hardware thread, if the worker goes on;
    /// false: it waits until it is woken.
    pub(crate) fn goes_on(&self, fiber: &Fiber) -> bool {
        let (seat, now_ps) = (fiber.seat.get(), fiber.clock_ps.get());
        let mut run_ps = fiber.run_ps.get();
        let turn = self.slices.turn(seat, fiber.id, &mut run_ps, now_ps, fiber.yields.take());
        fiber.run_ps.set(run_ps);
        match turn {
            Turn::Own => true,
            Turn::Other(next) => {
                self.wake(self.fiber(next), now_ps + SWITCH_PS);
                self.cost().counts().context_switches += 1;
                false
            }
            Turn::Wait(running, gives_way) => {
                self.shorten_spin(self.fiber(running), now_ps, gives_way);
                false
            }
        }
    }

    /// Gives the hardware thread of a worker that sleeps or leaves to the next one.
    pub(crate) fn give_up(&self, fiber: &Fiber) {
        if fiber.mode.get() & OVERSUBSCRIBED == 0 {
            return;
        }
        // The clock of a worker that leaves against its will may be behind.
        let now_ps = fiber.clock_ps.get().max(self.latest_ps.get());
        let (run_ps, next) = self.slices.leave(fiber.seat.get(), fiber.id, now_ps);
        fiber.run_ps.set(run_ps.unwrap_or(fiber.run_ps.get()));
        if let Some(next) = next {
            self.wake(self.fiber(next), now_ps + SWITCH_PS);
            self.cost().counts().context_switches += 1;
        }
    }

    /// The key at which a worker that begins to spin continues if nothing happens: at its first
    /// yield, if others wait for its hardware thread.
    pub(crate) fn spin_until(&self, fiber: &Fiber, until: u128) -> u128 {
        match self.is_shared(fiber) && self.slices.has_others(fiber.seat.get()) {
            true => until.min(self.yield_key(fiber, fiber.clock_ps.get())),
            false => until,
        }
    }

    /// Lets a worker that spins offer its hardware thread, for which another one waits since this
    /// moment; at once if it is preempted.
    fn shorten_spin(&self, running: &Fiber, now_ps: u64, is_preempted: bool) {
        if running.wait.reason.get() == Some(WaitReason::Spin) {
            let key = match is_preempted {
                true => key(now_ps, running.order.get()),
                false => self.yield_key(running, now_ps),
            };
            if key < running.wait.until.get() {
                running.wait.until.set(key);
                self.ready().set(running.id, key);
                self.first_other.set(self.first_other.get().min(key));
            }
        }
    }

    /// True if a worker that has ended to spin has spun until a yield.
    pub(crate) fn has_yielded(&self, fiber: &Fiber) -> bool {
        let spin = self.config.model.costs.spin_loop();
        let since_ps = fiber.wait.since_ps.get();
        fiber.clock_ps.get() >= spin.next_yield_ps(since_ps, since_ps)
    }

    /// Key of the first yield of a spinning worker after this moment.
    fn yield_key(&self, fiber: &Fiber, now_ps: u64) -> u128 {
        let spin = self.config.model.costs.spin_loop();
        key(spin.next_yield_ps(fiber.wait.since_ps.get(), now_ps), fiber.order.get())
    }
}
