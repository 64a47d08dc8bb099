//! Diagnosis of a run that cannot continue: the wait of each fiber, and its last events.

use platform::Nanos;

use super::Simulation;
use crate::fiber::Fiber;
use crate::line::LineNumber;
use crate::{CoreEvents, Event, SimError, Waiting};

impl Simulation {
    /// The last events of a fiber, if they are recorded.
    fn events(&self, fiber: &Fiber) -> Option<CoreEvents> {
        let trace = fiber.trace.borrow();
        let ring = trace.as_ref()?;
        let locate = |line: LineNumber| self.memory.locate((line as usize) << self.line_shift);
        let events: Vec<Event> = ring.events(locate);
        Some(CoreEvents { thread: ring.thread, events })
    }

    /// The last events of all fibers that ran.
    pub(crate) fn all_events(&self) -> Vec<CoreEvents> {
        self.fibers.all().filter_map(|fiber| self.events(fiber)).collect()
    }

    pub(super) fn deadlock(&self) -> SimError {
        let waiting = self.fibers.all().filter_map(|fiber| {
            let reason = fiber.wait.reason.get()?;
            let offset = self.offset(fiber.wait.word.get().addr());
            let place = offset.and_then(|offset| self.memory.locate(offset));
            Some(Waiting {
                thread: fiber.thread.get().filter(|_| !fiber.is_supervisor()),
                reason,
                region: place.map(|(name, _)| name),
                offset: place.map_or(0, |(_, offset)| offset),
                seen: fiber.wait.seen.get(),
                since: Nanos(fiber.wait.since_ps.get() / 1000),
                events: self.events(fiber).map_or_else(Vec::new, |core| core.events),
            })
        });
        SimError::Deadlock { at: Nanos(self.latest_ps.get() / 1000), waiting: waiting.collect() }
    }
}
