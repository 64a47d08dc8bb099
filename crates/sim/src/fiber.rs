//! One simulated core: a fiber with a clock.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ptr::NonNull;

use corosensei::{Coroutine, Yielder};
use machine::HardwareThread;
use platform::Nanos;

use crate::cost::{Access, LineNumber, Ready};
use crate::error::WaitReason;
use crate::model::Seat;
use crate::parallel::Group;
use crate::ready::{NEVER, clock_of, key, order};
use crate::simulation::Simulation;
use crate::stack::ColouredStack;
use crate::trace::Ring;
use crate::waiting::Wait;
use crate::word::VirtualWord;

/// The fiber runs on no simulated core: its events are free. See [`Fiber::supervisor_turn`].
const SUPERVISOR: u8 = 1;
/// The fiber is being unwound: its operations have no effect and never wait.
const SUPPRESSED: u8 = 2;
/// Clocks get jitter and ties are broken anew at each event.
pub(crate) const PERTURBED: u8 = 4;
/// Other workers may sit on the same hardware thread.
pub(crate) const CROWDED: u8 = 8;
/// The last events are remembered.
pub(crate) const TRACED: u8 = 16;

/// Free events of a supervisor in a row before it is taken to be polling.
const FREE_EVENTS_MAX: u32 = 1024;
/// What passes then if all others wait, where there is a time limit.
const ALONE_PS: u64 = 1_000_000;
/// Operations of a fiber while it is unwound before it is taken to wait for something.
const SUPPRESSED_EVENTS_MAX: u32 = 1 << 24;

/// A stack that runs until it has to wait.
pub(crate) type Stackful = Coroutine<(), (), (), ColouredStack>;

/// State of a simulated core. It lives as long as the machine and serves one worker after another.
pub(crate) struct Fiber {
    simulation: NonNull<Simulation>,
    pub(crate) id: u32,
    pub(crate) clock_ps: Cell<u64>,
    /// Decides between equal clocks.
    pub(crate) order: Cell<u64>,
    /// A combination of the constants above; 0 is the fast path.
    pub(crate) mode: Cell<u8>,
    /// Events since the clock last moved while supervisor, or since unwinding began.
    free_events: Cell<u32>,
    /// Where the worker runs.
    pub(crate) seat: Cell<Seat>,
    /// The worker computes: it competes with the siblings of its core.
    pub(crate) computing: Cell<bool>,
    pub(crate) thread: Cell<Option<HardwareThread>>,
    /// When the operating system next looks where the worker should run; never if it has a place of its own.
    pub(crate) balance_ps: Cell<u64>,
    pub(crate) trace: RefCell<Option<Ring>>,
    pub(crate) yielder: Cell<*const Yielder<(), ()>>,
    /// Touched by whoever resumes or drops this fiber, never by the fiber itself.
    pub(crate) coroutine: UnsafeCell<Option<Stackful>>,
    /// The `parallel` that started the fiber, null for the first one.
    pub(crate) group: Cell<*const Group>,
    pub(crate) wait: Wait,
}

/// A simulated core, or a supervisor: the capability that every call of the platform takes.
///
/// The handle is valid inside the call of [`crate::VirtualMachine::run`] that handed it out, and only in the worker that
/// it was given to; it is neither `Send` nor `Sync`, so it can only leave through thread-local storage, which simulated
/// programs do not use.
#[derive(Clone, Copy, Debug)]
pub struct VirtualCore(NonNull<Fiber>);

impl VirtualCore {
    pub(crate) fn new(fiber: NonNull<Fiber>) -> VirtualCore {
        VirtualCore(fiber)
    }

    #[inline(always)]
    pub(crate) fn fiber<'a>(self) -> &'a Fiber {
        // SAFETY: fibers live as long as their machine, which outlives all code that has a handle (see the type), and are
        // only ever borrowed shared; the handle does not leave the machine's host thread.
        unsafe { self.0.as_ref() }
    }
}

impl Fiber {
    pub(crate) fn new(simulation: NonNull<Simulation>, id: u32) -> Fiber {
        Fiber {
            simulation,
            id,
            clock_ps: Cell::new(0),
            order: Cell::new(0),
            mode: Cell::new(0),
            free_events: Cell::new(0),
            seat: Cell::new(Seat::default()),
            computing: Cell::new(false),
            thread: Cell::new(None),
            balance_ps: Cell::new(u64::MAX),
            trace: RefCell::default(),
            yielder: Cell::new(std::ptr::null()),
            coroutine: UnsafeCell::new(None),
            group: Cell::new(std::ptr::null()),
            wait: Wait::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn simulation(&self) -> &Simulation {
        // SAFETY: the simulation owns its fibers and outlives them; it is only ever borrowed shared.
        unsafe { self.simulation.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> u128 {
        key(self.clock_ps.get(), self.order.get())
    }

    pub(crate) fn is_supervisor(&self) -> bool {
        self.mode.get() & SUPERVISOR != 0
    }

    pub(crate) fn is_perturbed(&self) -> bool {
        self.mode.get() & PERTURBED != 0
    }

    pub(crate) fn is_suppressed(&self) -> bool {
        self.mode.get() & SUPPRESSED != 0
    }

    pub(crate) fn set_supervisor(&self, supervisor: bool) {
        let (mode, priority) = match supervisor {
            true => (self.mode.get() | SUPERVISOR, u32::MAX),
            false => (self.mode.get() & !SUPERVISOR, self.simulation().priority(self.id)),
        };
        self.mode.set(mode);
        self.order.set(order(priority, self.id));
        // A worker that started others waits for them, and goes on computing afterwards.
        self.compute(!supervisor && self.thread.get().is_some());
    }

    /// From now on operations have no effect: the fiber is about to be unwound.
    pub(crate) fn suppress(&self) {
        self.mode.set(self.mode.get() | SUPPRESSED);
        self.free_events.set(0);
    }

    /// One event: waits for this core's turn, charges the access, waits for the line's arrival, and returns the line; the
    /// caller then performs the operation. `None`: the fiber is being unwound, perform nothing.
    #[inline(always)]
    pub(crate) fn step(&self, at: usize, access: Access) -> Option<LineNumber> {
        let simulation = self.simulation();
        let line = simulation.line(at);
        if self.mode.get() == 0 && self.key() <= simulation.first_other.get() {
            let now_ps = self.clock_ps.get();
            return match simulation.cost().access(self.seat.get(), line, access, now_ps) {
                Ready::Now(ready_ps) => {
                    self.clock_ps.set(ready_ps);
                    Some(line)
                }
                Ready::Arrives(arrival_ps) => {
                    self.clock_ps.set(arrival_ps);
                    self.turn().then_some(line)
                }
                Ready::Drained(drained_ps) => {
                    self.clock_ps.set(drained_ps);
                    self.step_slowly(at, line, access)
                }
            };
        }
        self.step_slowly(at, line, access)
    }

    #[inline(never)]
    fn step_slowly(&self, at: usize, line: LineNumber, access: Access) -> Option<LineNumber> {
        loop {
            self.announce(at, line);
            if !self.turn() {
                return None;
            }
            match self.charge(line, access, self.clock_ps.get()) {
                Ready::Now(ready_ps) => {
                    self.clock_ps.set(ready_ps);
                    return Some(line);
                }
                Ready::Arrives(arrival_ps) => {
                    self.clock_ps.set(arrival_ps);
                    return self.turn().then_some(line);
                }
                Ready::Drained(drained_ps) => self.clock_ps.set(drained_ps),
            }
        }
    }

    /// The next event will touch these data, of this line: the host brings them when the fiber's turn comes near.
    #[inline(always)]
    pub(crate) fn announce(&self, at: usize, line: LineNumber) {
        self.simulation().announce(self, at, line);
    }

    /// When an access that starts at `start_ps` takes effect and is complete. Call it in the core's turn.
    #[inline]
    pub(crate) fn charge(&self, line: LineNumber, access: Access, start_ps: u64) -> Ready {
        if self.is_supervisor() {
            return Ready::Now(start_ps);
        }
        let simulation = self.simulation();
        let ready = simulation.cost().access(self.seat.get(), line, access, start_ps);
        if self.mode.get() == 0 {
            return ready;
        }
        if let Some(trace) = self.trace.borrow_mut().as_mut().filter(|_| !matches!(ready, Ready::Drained(_)))
        {
            trace.record(start_ps, access, line);
        }
        let later = |ready_ps: u64| ready_ps + simulation.disturbance(self, ready_ps - start_ps);
        match ready {
            Ready::Now(ready_ps) => Ready::Now(later(ready_ps)),
            Ready::Arrives(arrival_ps) => Ready::Arrives(later(arrival_ps)),
            Ready::Drained(_) => ready,
        }
    }

    /// Lets all fibers with a smaller key go first. `false`: the fiber is being unwound, do nothing.
    pub(crate) fn turn(&self) -> bool {
        let mode = self.mode.get();
        if mode & SUPPRESSED != 0 {
            self.count_suppressed();
            return false;
        }
        if mode & SUPERVISOR != 0 {
            self.supervisor_turn();
        } else if self.is_perturbed() {
            let priority = (self.simulation().random.next() >> 33) as u32;
            self.order.set(order(priority, self.id));
        }
        if self.key() > self.simulation().first_other.get() {
            if self.clock_ps.get() >= self.balance_ps.get() {
                self.simulation().balance(self);
            }
            self.switch(self.key());
        }
        true
    }

    /// A supervisor's events are free, so one that polls would never let time pass: after some events at one moment its
    /// clock moves on to the next moment at which anything happens.
    #[cold]
    fn supervisor_turn(&self) {
        let simulation = self.simulation();
        simulation.cost().counts.supervisor_events += 1;
        self.free_events.set(self.free_events.get() + 1);
        if self.free_events.get() <= FREE_EVENTS_MAX {
            return;
        }
        let first_other = simulation.first_other.get();
        if first_other < simulation.limit() {
            self.free_events.set(0);
            self.clock_ps.set(self.clock_ps.get().max(clock_of(first_other)));
        } else if simulation.limit() != NEVER {
            // The others only wait. It may be at work, or poll for ever: then it gets to the time limit this way.
            self.free_events.set(0);
            self.clock_ps.set(self.clock_ps.get() + ALONE_PS);
        }
    }

    #[cold]
    fn count_suppressed(&self) {
        self.free_events.set(self.free_events.get() + 1);
        assert!(
            self.free_events.get() < SUPPRESSED_EVENTS_MAX,
            "a destructor waits for shared memory while its simulated core is being unwound"
        );
    }

    /// Goes to sleep under this key until the run loop finds it the smallest; `false` if that is not possible now. A
    /// thread that is panicking does not switch: its panic would seem to be the next fiber's.
    fn switch(&self, key: u128) -> bool {
        if std::thread::panicking() {
            return false;
        }
        let simulation = self.simulation();
        assert_eq!(simulation.current.get(), self.id, "a core's handle was used by another core");
        simulation.ready().set(self.id, key);
        self.free_events.set(0);
        simulation.suspended(self.id, std::ptr::from_ref(&key).addr());
        // SAFETY: set when the fiber started; it lives on the fiber's stack, on which this call runs.
        unsafe { (*self.yielder.get()).suspend(()) };
        true
    }

    /// Charges computation, or a fixed cost; nothing to a supervisor.
    #[inline(always)]
    pub(crate) fn spend(&self, picoseconds: u64) {
        if self.mode.get() == 0 {
            let core = self.seat.get().core as usize;
            let stretched_ps = self.simulation().cost().stretched(core, picoseconds);
            self.clock_ps.set(self.clock_ps.get() + stretched_ps);
        } else {
            self.spend_slowly(picoseconds);
        }
    }

    #[inline(never)]
    fn spend_slowly(&self, picoseconds: u64) {
        if !self.is_supervisor() && !self.is_suppressed() {
            let simulation = self.simulation();
            let stretched_ps = simulation.cost().stretched(self.seat.get().core as usize, picoseconds);
            let more_ps = simulation.disturbance(self, stretched_ps);
            self.clock_ps.set(self.clock_ps.get() + stretched_ps + more_ps);
        }
    }

    /// Begins or ends to compete for the issue slots of the core.
    pub(crate) fn compute(&self, begin: bool) {
        if self.computing.replace(begin) != begin {
            self.simulation().cost().compute(self.seat.get().core as usize, begin);
        }
    }

    /// Moves the clock, a supervisor's too.
    pub(crate) fn advance(&self, picoseconds: u64) {
        self.clock_ps.set(self.clock_ps.get().saturating_add(picoseconds));
        self.free_events.set(0);
    }

    /// Sleeps until another fiber wakes this one, or the deadline. `false` if the fiber cannot wait now.
    pub(crate) fn sleep(
        &self,
        reason: WaitReason,
        word: *const VirtualWord,
        seen: u64,
        deadline: Option<Nanos>,
    ) -> bool {
        if self.is_suppressed() || std::thread::panicking() {
            return false;
        }
        let simulation = self.simulation();
        let line = simulation.line(word.addr());
        self.wait.reason.set(Some(reason));
        self.wait.line.set(line);
        self.wait.word.set(word);
        self.wait.seen.set(seen);
        self.wait.since_ps.set(self.clock_ps.get());
        if reason != WaitReason::Join {
            simulation.enlist(self, line);
        }
        let until = deadline.map_or(NEVER, |end| key(picoseconds(end), self.order.get()));
        let computes = self.computing.get();
        self.compute(false);
        let slept = self.switch(until);
        self.compute(computes);
        if self.wait.reason.get().is_some() && reason != WaitReason::Join {
            simulation.delist(self);
        }
        self.wait.reason.set(None);
        slept
    }

    /// The fiber's moment.
    #[inline(always)]
    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.clock_ps.get() / 1000)
    }
}

/// Asks the host to bring a line into its cache.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetch has no architectural effect; any address is allowed.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A moment on the machine's clock.
pub(crate) fn picoseconds(moment: Nanos) -> u64 {
    moment.0.saturating_mul(1000)
}
