//! Waits of sleeping fibers, and the lists of sleepers on a line.
//!
//! Sleepers of one line form a list through their fibers, newest first. A write of the line, to
//! whatever word, takes the line from all fibers that spin on it. Each of them reads its word at
//! the next turn of its loop, which fetches the line again, and continues to spin if the word has
//! not changed. Parked fibers do not read it.

use std::cell::Cell;

use crate::error::WaitReason;
use crate::line::LineNumber;
use crate::ready::NEVER;
use crate::word::VirtualWord;

/// A fiber's place in the list of a line.
pub(crate) struct Wait {
    /// `None` while the fiber is not asleep.
    pub(crate) reason: Cell<Option<WaitReason>>,
    pub(crate) line: Cell<LineNumber>,
    /// The word waited for. It outlives the wait, because the sleeping call holds a reference to
    /// it.
    pub(crate) word: Cell<*const VirtualWord>,
    pub(crate) seen: Cell<u64>,
    /// Order of arrival: `unpark` serves fibers in this order.
    pub(crate) ticket: Cell<u64>,
    pub(crate) since_ps: Cell<u64>,
    /// Key of the deadline.
    pub(crate) until: Cell<u128>,
    /// Next fiber of the list, plus 1.
    pub(crate) next: Cell<u32>,
}

impl Wait {
    pub(crate) fn new() -> Wait {
        Wait {
            reason: Cell::new(None),
            line: Cell::new(0),
            word: Cell::new(std::ptr::null()),
            seen: Cell::new(0),
            ticket: Cell::new(0),
            since_ps: Cell::new(0),
            until: Cell::new(NEVER),
            next: Cell::new(0),
        }
    }

    /// True if the word differs from the value that the sleeper saw.
    pub(crate) fn changed(&self) -> bool {
        // SAFETY: called only for sleepers in a list, whose call of `spin_while` or `park` borrows
        // the word.
        unsafe { (*self.word.get()).get() != self.seen.get() }
    }
}
