//! The state of one simulated core: a fiber with a clock.
//!
//! `virtual_core.rs` has the operations of a fiber on the machine (events, turns, sleep),
//! `simulation/` the operations of the machine on its fibers.

use std::cell::{Cell, RefCell, UnsafeCell};

use corosensei::{Coroutine, Yielder};
use machine::HardwareThread;
use platform::Nanos;

use crate::declared::DeclaredLines;
use crate::model::WorkerSeat;
use crate::ready::key;
use crate::stack::ColouredStack;
use crate::trace::Ring;
use crate::waiting::Wait;

/// The fiber runs on no simulated core: its events are free.
pub(crate) const SUPERVISOR: u8 = 1;
/// The fiber is being unwound: its operations have no effect and never wait.
pub(crate) const SUPPRESSED: u8 = 2;
/// Clocks get jitter, and ties are broken anew at each event.
pub(crate) const PERTURBED: u8 = 4;
/// Other workers may be on the same hardware thread.
pub(crate) const OVERSUBSCRIBED: u8 = 8;
/// The last events are recorded.
pub(crate) const TRACED: u8 = 16;
/// Accesses to regions are compared with declarations.
pub(crate) const CHECKED: u8 = 32;

/// Largest number of fibers: the lists of waiters have 16 bits for each.
pub(crate) const FIBERS_MAX: usize = u16::MAX as usize - 1;

/// A coroutine with a stack of its own, which runs until the fiber has to wait.
pub(crate) type Stackful = Coroutine<(), (), (), ColouredStack>;

/// The workers of one call of `parallel`. It lives on the caller's stack.
pub(crate) struct Group {
    /// The fiber that waits for the workers.
    pub(crate) caller: u32,
    pub(crate) remaining: Cell<usize>,
    /// Moment at which the last of them finished.
    pub(crate) latest_ps: Cell<u64>,
}

/// State of a simulated core. It lives as long as the machine and serves one worker after another.
///
/// The fields of each turn come first: two lines of the host, which the run loop prefetches.
#[repr(C, align(64))]
pub(crate) struct Fiber {
    pub(crate) clock_ps: Cell<u64>,
    /// Decides between equal clocks.
    pub(crate) order: Cell<u64>,
    /// Hardware thread and core of the worker.
    pub(crate) seat: Cell<WorkerSeat>,
    /// Moment at which the operating system next balances this worker; never if its place is fixed.
    pub(crate) balance_ps: Cell<u64>,
    pub(crate) yielder: Cell<*const Yielder<(), ()>>,
    pub(crate) id: u32,
    /// Events since the clock last moved while supervisor, or since unwinding began.
    pub(crate) free_events: Cell<u32>,
    /// A combination of the constants above; 0 is the fast path.
    pub(crate) mode: Cell<u8>,
    /// The worker computes: it competes with the siblings of its core.
    pub(crate) computing: Cell<bool>,
    /// The worker's hardware thread executes it: it neither sleeps nor is a supervisor.
    pub(crate) running: Cell<bool>,
    /// Time for which the worker has had its hardware thread, as far as it shares the thread.
    pub(crate) run_ps: Cell<u64>,
    /// The worker offers its hardware thread at its next event.
    pub(crate) yields: Cell<bool>,
    /// The worker has waited for its hardware thread since it was last asleep.
    pub(crate) has_waited: Cell<bool>,
    /// The crew that the worker has joined; 0: none.
    pub(crate) crew: Cell<u16>,
    /// True if this worker allows its crew to fall.
    pub(crate) may_fall: Cell<bool>,
    pub(crate) thread: Cell<Option<HardwareThread>>,
    /// Touched by the code that resumes or drops this fiber, never by the fiber itself.
    pub(crate) coroutine: UnsafeCell<Option<Stackful>>,
    pub(crate) trace: RefCell<Option<Box<Ring>>>,
    /// Filled if the fiber is [`CHECKED`].
    pub(crate) declared: RefCell<DeclaredLines>,
    /// The `parallel` call that started the fiber, null for the first one.
    pub(crate) group: Cell<*const Group>,
    pub(crate) wait: Wait,
}

impl Fiber {
    pub(crate) fn new(id: u32) -> Fiber {
        Fiber {
            id,
            clock_ps: Cell::new(0),
            order: Cell::new(0),
            mode: Cell::new(0),
            free_events: Cell::new(0),
            seat: Cell::new(WorkerSeat::default()),
            computing: Cell::new(false),
            running: Cell::new(false),
            thread: Cell::new(None),
            balance_ps: Cell::new(u64::MAX),
            trace: RefCell::default(),
            declared: RefCell::default(),
            yielder: Cell::new(std::ptr::null()),
            coroutine: UnsafeCell::new(None),
            run_ps: Cell::new(0),
            yields: Cell::new(false),
            has_waited: Cell::new(false),
            crew: Cell::new(0),
            may_fall: Cell::new(false),
            group: Cell::new(std::ptr::null()),
            wait: Wait::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> u128 {
        key(self.clock_ps.get(), self.order.get())
    }

    pub(crate) fn is_supervisor(&self) -> bool {
        self.mode.get() & SUPERVISOR != 0
    }

    /// True if nothing that the fiber does takes time.
    #[inline(always)]
    pub(crate) fn is_unpaid(&self) -> bool {
        self.mode.get() & (SUPERVISOR | SUPPRESSED) != 0
    }

    /// The declarations with which accesses are compared.
    pub(crate) fn compared(&self) -> Option<&RefCell<DeclaredLines>> {
        (!self.is_unpaid()).then_some(&self.declared)
    }

    pub(crate) fn is_perturbed(&self) -> bool {
        self.mode.get() & PERTURBED != 0
    }

    pub(crate) fn is_suppressed(&self) -> bool {
        self.mode.get() & SUPPRESSED != 0
    }

    /// Suppresses the effects of operations from now on: the fiber is about to be unwound.
    pub(crate) fn suppress(&self) {
        self.mode.set(self.mode.get() | SUPPRESSED);
        self.free_events.set(0);
    }

    /// Advances the clock, also of a supervisor.
    pub(crate) fn advance(&self, picoseconds: u64) {
        self.clock_ps.set(self.clock_ps.get().saturating_add(picoseconds));
        self.free_events.set(0);
    }

    /// The fiber's clock.
    #[inline(always)]
    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.clock_ps.get() / 1000)
    }
}
