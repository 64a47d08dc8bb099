//! What a sleeping fiber waits for, and the lists of sleepers on a line.
//!
//! Sleepers of one line form a list through their fibers, newest first. A write of the line, of
//! whatever word, takes the line from all that spin on it: each looks again when its loop comes
//! round, which brings the line to it, and goes on spinning if its word has not changed. Those that
//! are parked do not look.

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
    /// The word waited for; it outlives the wait, because the sleeping call holds a reference to
    /// it.
    pub(crate) word: Cell<*const VirtualWord>,
    pub(crate) seen: Cell<u64>,
    /// Order of arrival: `unpark` is first come, first served.
    pub(crate) ticket: Cell<u64>,
    pub(crate) since_ps: Cell<u64>,
    /// Key at which it wakes by itself.
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

    /// True if the word has another value than the sleeper saw.
    pub(crate) fn changed(&self) -> bool {
        // SAFETY: only asked of sleepers in a list, whose call of `spin_while` or `park` borrows
        // the word.
        unsafe { (*self.word.get()).get() != self.seen.get() }
    }
}
