//! Workers that end while others run on.
//!
//! As when a process is killed, its workers end between two of their events, and what they held in memory stays as it was. Their
//! destructors run without effects on the machine, as those of all workers do when the whole machine crashes. What becomes of the
//! files that they wrote is said by [`crate::VirtualMachine::lose_directory`].

use std::cell::Cell;

use crate::config::Fall;
use crate::fiber::Fiber;

/// Whether workers fall, and have fallen.
pub(crate) struct Falling {
    fall: Cell<Option<Fall>>,
    /// How often a worker of the crew was resumed.
    resumed: Cell<u64>,
    fallen: Cell<Option<u16>>,
    /// Whether a crew may fall by now.
    may: Cell<bool>,
}

impl Falling {
    pub(crate) fn new(fall: Option<Fall>) -> Falling {
        Falling {
            fall: Cell::new(fall),
            resumed: Cell::new(0),
            fallen: Cell::new(None),
            may: Cell::new(false),
        }
    }

    /// The crew that has fallen.
    pub(crate) fn fallen(&self) -> Option<u16> {
        self.fallen.get()
    }

    /// From now on a crew may fall, or none any more.
    pub(crate) fn allow(&self, may: bool) {
        self.may.set(may);
        if !may {
            self.fall.set(None);
        }
    }

    /// A worker of some crew is about to be resumed: whether its crew falls instead.
    pub(crate) fn is_due(&self, fiber: &Fiber) -> bool {
        let is_of = |fall: &Fall| fall.crew == fiber.crew.get() && self.may.get();
        let Some(fall) = self.fall.get().filter(is_of) else { return false };
        self.resumed.set(self.resumed.get() + 1);
        let is_due = self.resumed.get() >= fall.event;
        if is_due {
            self.fall.set(None);
            self.fallen.set(Some(fall.crew));
        }
        is_due
    }
}
