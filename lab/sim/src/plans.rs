//! What a sleeping fiber will touch when it goes on: the host is told just before, while another
//! fiber runs.

use std::cell::UnsafeCell;

use platform::LINE_BYTES;

use crate::SimError;
use crate::arena::{Arena, Pages, Zeroed, prefetch};
use crate::fiber::FIBERS_MAX;
use crate::line::{LineNumber, PRIVATE_LINE};

/// Bytes of a sleeping fiber's stack that are told of, below and above its last frame.
const STACK_BELOW: usize = 128;
const STACK_ABOVE: usize = 384;

/// What one fiber will touch.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Where the fiber's stack ends.
    stack: usize,
    /// Where it begins: the coroutine keeps there where to go back to.
    base: usize,
    /// Data of the fiber's next event, and their line; no line if that has been asked for already.
    at: usize,
    pub(crate) line: LineNumber,
    /// The core on which the fiber runs.
    pub(crate) core: u32,
}

const _: () = assert!(size_of::<Plan>() == 32);

// SAFETY: integers only.
unsafe impl Zeroed for Plan {}

/// What all fibers will touch, by fiber.
pub(crate) struct Plans(UnsafeCell<Arena<Plan>>);

impl Plans {
    pub(crate) fn new() -> Result<Plans, SimError> {
        Ok(Plans(UnsafeCell::new(Arena::new(FIBERS_MAX, Pages::Huge, "what fibers will touch")?)))
    }

    /// The plan of a fiber, for one call.
    #[expect(clippy::mut_from_ref, reason = "private; no reference outlives the method that takes it")]
    #[inline(always)]
    fn plan(&self, fiber: u32) -> &mut Plan {
        // SAFETY: plans belong to one host thread (`UnsafeCell` is not `Sync`), and each method
        // below ends before the next one begins: none calls foreign code.
        unsafe { &mut (&mut *self.0.get())[fiber as usize] }
    }

    /// A fiber on this core will touch these data, of this line, when it goes on.
    #[inline(always)]
    pub(crate) fn announce(&self, fiber: u32, core: u32, at: usize, line: LineNumber) {
        let plan = self.plan(fiber);
        (plan.at, plan.line, plan.core) = (at, line, core);
    }

    /// A fiber has a stack that begins here.
    pub(crate) fn based(&self, fiber: u32, base: usize) {
        *self.plan(fiber) = Plan { stack: base, base, at: base, line: PRIVATE_LINE, core: 0 };
    }

    /// A fiber goes to sleep with its stack ending here.
    #[inline(always)]
    pub(crate) fn suspended(&self, fiber: u32, stack: usize) {
        self.plan(fiber).stack = stack;
    }

    /// Has the host bring the stack and the data of a fiber that runs soon; its plan.
    #[inline(always)]
    pub(crate) fn prefetch(&self, fiber: u32) -> Plan {
        let plan = *self.plan(fiber);
        let near = |at: usize| prefetch(std::ptr::without_provenance::<u8>(at));
        near(plan.base - 1);
        for at in (plan.stack - STACK_BELOW..plan.stack + STACK_ABOVE).step_by(LINE_BYTES) {
            near(at);
        }
        near(plan.at);
        plan
    }

    /// What a fiber will touch. It is about to run: what it touches afterwards is not known.
    #[inline(always)]
    pub(crate) fn take(&self, fiber: u32) -> Plan {
        let plan = self.plan(fiber);
        let taken = *plan;
        if plan.line != PRIVATE_LINE {
            plan.line = plan.line.wrapping_add(1);
        }
        taken
    }
}
