//! The last events of each simulated core.

use std::fmt;

use platform::{HardwareThread, Nanos};

use crate::line::{Access, LineNumber};

/// Number of events that are recorded for each core.
const EVENTS: usize = 16;

/// Kind of an access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A read.
    Load,
    /// A write.
    Store,
    /// An atomic read-modify-write.
    Atomic,
}

/// One event of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Moment of the request.
    pub at: Nanos,
    /// Kind of the access.
    pub kind: EventKind,
    /// Name of the line's region; `None` for private memory and freed regions.
    pub region: Option<&'static str>,
    /// Offset of the line in its region, in bytes.
    pub offset: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            EventKind::Load => "load",
            EventKind::Store => "store",
            EventKind::Atomic => "atomic",
        };
        match self.region {
            Some(region) => write!(formatter, "{verb} {region}+{} at {} ns", self.offset, self.at.0),
            None => write!(formatter, "{verb} private memory at {} ns", self.at.0),
        }
    }
}

/// Last events of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreEvents {
    /// The core's hardware thread.
    pub thread: HardwareThread,
    /// Its last events, oldest first.
    pub events: Vec<Event>,
}

/// Recorded events of one fiber.
#[derive(Clone)]
pub(crate) struct Ring {
    pub(crate) thread: HardwareThread,
    events: [(u64, Access, LineNumber); EVENTS],
    count: usize,
}

impl Ring {
    pub(crate) fn new(thread: HardwareThread) -> Ring {
        Ring { thread, events: [(0, Access::Read, 0); EVENTS], count: 0 }
    }

    pub(crate) fn record(&mut self, at_ps: u64, access: Access, line: LineNumber) {
        self.events[self.count % EVENTS] = (at_ps, access, line);
        self.count += 1;
    }

    /// The events, oldest first. `locate` returns the region of a line.
    pub(crate) fn events(&self, locate: impl Fn(LineNumber) -> Option<(&'static str, u64)>) -> Vec<Event> {
        let first = self.count.saturating_sub(EVENTS);
        let event = |index: usize| {
            let (at_ps, access, line) = self.events[index % EVENTS];
            let kind = match access {
                Access::Read => EventKind::Load,
                Access::Write => EventKind::Store,
                Access::Atomic => EventKind::Atomic,
            };
            let place = locate(line);
            let (region, offset) = (place.map(|(name, _)| name), place.map_or(0, |(_, offset)| offset));
            Event { at: Nanos(at_ps / 1000), kind, region, offset }
        };
        (first..self.count).map(event).collect()
    }
}
