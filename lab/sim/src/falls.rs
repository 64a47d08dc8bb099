//! Workers that end while others continue.
//!
//! As when a process is killed, its workers end between two of their events, and shared memory
//! stays as it is at that moment. Their destructors run without effects on the machine, as those of
//! all workers do when the whole machine crashes. [`crate::VirtualMachine::lose_directory`] decides
//! about files that they wrote. When one of several machines crashes, the crews of all processes on
//! it end at one moment.

use std::cell::{Cell, RefCell};

use crate::config::Fall;
use crate::fiber::Fiber;

/// A fall that has not happened yet.
struct PlannedFall {
    fall: Fall,
    /// Number of times that workers of its crews were resumed.
    resumed: u64,
}

/// Planned falls, and the crews that have fallen.
pub(crate) struct Falls {
    planned: RefCell<Vec<PlannedFall>>,
    /// True if falls are planned.
    has_planned: Cell<bool>,
    /// Crews, in the order in which they fell.
    fallen: RefCell<Vec<u16>>,
}

impl Falls {
    pub(crate) fn new(falls: &[Fall]) -> Falls {
        let planned: Vec<PlannedFall> =
            falls.iter().map(|fall| PlannedFall { fall: fall.clone(), resumed: 0 }).collect();
        Falls {
            has_planned: Cell::new(!planned.is_empty()),
            planned: RefCell::new(planned),
            fallen: RefCell::default(),
        }
    }

    /// The crew that fell as number `number`, from 0.
    pub(crate) fn fallen(&self, number: usize) -> Option<u16> {
        self.fallen.borrow().get(number).copied()
    }

    /// Number of crews that have fallen.
    pub(crate) fn count(&self) -> u64 {
        self.fallen.borrow().len() as u64
    }

    /// Cancels the planned falls.
    pub(crate) fn end(&self) {
        self.planned.borrow_mut().clear();
        self.has_planned.set(false);
    }

    /// Returns the crews that fall now, before a worker of some crew is resumed. `may` returns true
    /// for a crew to which falls are allowed.
    #[inline(always)]
    pub(crate) fn due(&self, fiber: &Fiber, may: impl Fn(u16) -> bool) -> Option<Vec<u16>> {
        if !self.has_planned.get() || !fiber.may_fall.get() {
            None
        } else {
            self.count_down(fiber.crew.get(), may)
        }
    }

    #[cold]
    fn count_down(&self, crew: u16, may: impl Fn(u16) -> bool) -> Option<Vec<u16>> {
        let mut planned = self.planned.borrow_mut();
        let mut due = None;
        for (number, one) in planned.iter_mut().enumerate().filter(|(_, one)| one.fall.crews.contains(&crew))
        {
            one.resumed += 1;
            let is_due = one.resumed >= one.fall.event && one.fall.crews.iter().all(|crew| may(*crew));
            due = due.or(is_due.then_some(number));
        }
        let crews = planned.swap_remove(due?).fall.crews;
        self.has_planned.set(!planned.is_empty());
        Some(crews)
    }

    /// Records that a crew has fallen.
    pub(crate) fn record(&self, crew: u16) {
        self.fallen.borrow_mut().push(crew);
    }
}
