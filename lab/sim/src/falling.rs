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

/// A fall that is still to come.
struct Coming {
    fall: Fall,
    /// Number of times that workers of its crews were resumed.
    resumed: u64,
}

/// Falls to come, and the crews that have fallen.
pub(crate) struct Falling {
    coming: RefCell<Vec<Coming>>,
    /// True if falls are still to come.
    waits: Cell<bool>,
    /// Crews, in the order in which they fell.
    fallen: RefCell<Vec<u16>>,
}

impl Falling {
    pub(crate) fn new(falls: &[Fall]) -> Falling {
        let coming: Vec<Coming> =
            falls.iter().map(|fall| Coming { fall: fall.clone(), resumed: 0 }).collect();
        Falling {
            waits: Cell::new(!coming.is_empty()),
            coming: RefCell::new(coming),
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

    /// Cancels the falls that are still to come.
    pub(crate) fn end(&self) {
        self.coming.borrow_mut().clear();
        self.waits.set(false);
    }

    /// Returns the crews that fall now, before a worker of some crew is resumed. `may` returns true
    /// for a crew to which falls are allowed.
    #[inline(always)]
    pub(crate) fn due(&self, fiber: &Fiber, may: impl Fn(u16) -> bool) -> Option<Vec<u16>> {
        if !self.waits.get() || !fiber.may_fall.get() { None } else { self.count_down(fiber.crew.get(), may) }
    }

    #[cold]
    fn count_down(&self, crew: u16, may: impl Fn(u16) -> bool) -> Option<Vec<u16>> {
        let mut coming = self.coming.borrow_mut();
        let mut due = None;
        for (number, one) in coming.iter_mut().enumerate().filter(|(_, one)| one.fall.crews.contains(&crew)) {
            one.resumed += 1;
            let is_due = one.resumed >= one.fall.event && one.fall.crews.iter().all(|crew| may(*crew));
            due = due.or(is_due.then_some(number));
        }
        let crews = coming.swap_remove(due?).fall.crews;
        self.waits.set(!coming.is_empty());
        Some(crews)
    }

    /// Records that a crew has fallen.
    pub(crate) fn note(&self, crew: u16) {
        self.fallen.borrow_mut().push(crew);
    }
}
