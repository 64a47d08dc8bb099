//! Memory that a sleeping fiber will touch next: prefetched on the host while another fiber runs.

use std::cell::UnsafeCell;

use platform::LINE_BYTES;

use crate::SimError;
use crate::arena::{Arena, Pages, Zeroed, prefetch};
use crate::fiber::FIBERS_MAX;
use crate::line::{LineNumber, PRIVATE_LINE};

/// Bytes of a sleeping fiber's stack that are prefetched, below and above its last frame.
const STACK_BELOW: usize = 128;
const STACK_ABOVE: usize = 384;

/// Memory that one fiber will touch.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// End of the fiber's stack.
    stack: usize,
    /// Begin of the stack, where the coroutine keeps its return address.
    base: usize,
    /// Data of the fiber's next event, and their line; no line if that was prefetched already.
    at: usize,
    pub(crate) line: LineNumber,
    /// Core of the fiber.
    pub(crate) core: u32,
}

const _: () = assert!(size_of::<Plan>() == 32);

// SAFETY: integers only.
unsafe impl Zeroed for Plan {}

/// Plans of all fibers, by fiber.
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

    /// Records that a fiber on this core will touch these data, of this line, when it resumes.
    #[inline(always)]
    pub(crate) fn announce(&self, fiber: u32, core: u32, at: usize, line: LineNumber) {
        let plan = self.plan(fiber);
        (plan.at, plan.line, plan.core) = (at, line, core);
    }

    /// Records the begin of a fiber's stack.
    pub(crate) fn set_stack(&self, fiber: u32, base: usize) {
        *self.plan(fiber) = Plan { stack: base, base, at: base, line: PRIVATE_LINE, core: 0 };
    }

    /// Records the end of a fiber's stack when the fiber goes to sleep.
    #[inline(always)]
    pub(crate) fn suspended(&self, fiber: u32, stack: usize) {
        self.plan(fiber).stack = stack;
    }

    /// Prefetches the stack and the data of a fiber that runs soon. Returns its plan.
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

    /// Takes the plan of a fiber that is about to run. Its later accesses are unknown.
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
