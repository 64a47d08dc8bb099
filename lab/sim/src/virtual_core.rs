//! A simulated core's events: operations of a fiber on the machine.

use std::ptr::NonNull;

use platform::{Code, Nanos, Work};

use crate::SimError;
use crate::cost::Ready;
use crate::error::WaitReason;
use crate::fiber::{CHECKED, Fiber, Group, SUPERVISOR, SUPPRESSED};
use crate::line::{Access, LineNumber};
use crate::ready::{NEVER, clock_of, key, order, picoseconds};
use crate::simulation::Simulation;
use crate::word::VirtualWord;

/// Consecutive free events of a supervisor after which it counts as polling.
const FREE_EVENTS_MAX: u32 = 1024;
/// Time that passes then if all others wait and there is a time limit.
const ALONE_PS: u64 = 1_000_000;
/// Operations of a fiber during its unwinding after which it counts as waiting.
const SUPPRESSED_EVENTS_MAX: u32 = 1 << 24;

/// A simulated core, or a supervisor: the capability that every call of the platform takes.
///
/// The handle is valid inside the call of [`crate::VirtualMachine::run`] that created it, and only
/// in the worker that received it. It is neither `Send` nor `Sync`, so it can only leave through
/// thread-local storage, which simulated programs do not use.
#[derive(Clone, Copy, Debug)]
pub struct VirtualCore {
    simulation: NonNull<Simulation>,
    fiber: NonNull<Fiber>,
}

/// Makes a new fiber that will run `body`; [`Simulation::wake`] starts it.
///
/// # Safety
/// Everything that `body` borrows lives until the fiber has finished or [`Simulation::discard`] has
/// returned.
pub(crate) unsafe fn spawn(
    simulation: &Simulation,
    group: *const Group,
    body: impl FnOnce(VirtualCore),
) -> Result<VirtualCore, SimError> {
    let machine = NonNull::from(simulation);
    let run = move |fiber: &Fiber| body(VirtualCore { simulation: machine, fiber: NonNull::from(fiber) });
    // SAFETY: by the caller's promise.
    let fiber = unsafe { simulation.spawn(group, run) }?;
    Ok(VirtualCore { simulation: machine, fiber: NonNull::from(fiber) })
}

impl VirtualCore {
    #[inline(always)]
    pub(crate) fn fiber<'a>(self) -> &'a Fiber {
        // SAFETY: fibers live as long as their machine, which outlives all code that has a handle
        // (see the type), and are only ever borrowed shared; the handle does not leave the
        // machine's host thread.
        unsafe { self.fiber.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn simulation<'a>(self) -> &'a Simulation {
        // SAFETY: as in `fiber`.
        unsafe { self.simulation.as_ref() }
    }

    /// The machine of the core; for a core without one, the machine that it works for.
    pub(crate) fn machine(self) -> usize {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        match fiber.thread.get() {
            Some(_) => simulation.config.model.machine_of_core(fiber.seat.get().core as usize),
            None => simulation.works_for.get(),
        }
    }

    /// One event: waits for this core's turn, charges the access, waits for the line's arrival, and
    /// returns the line; the caller then performs the operation. `None`: the fiber is being
    /// unwound, and the caller performs nothing.
    #[inline(always)]
    pub(crate) fn step(self, at: usize, access: Access) -> Option<LineNumber> {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        let line = simulation.line(at);
        if fiber.mode.get() == 0 && fiber.key() <= simulation.first_other.get() {
            let now_ps = fiber.clock_ps.get();
            return match simulation.cost().access(fiber.seat.get(), line, access, now_ps) {
                Ready::Now(ready_ps) => {
                    fiber.clock_ps.set(ready_ps);
                    Some(line)
                }
                Ready::Arrives(arrival_ps) => {
                    self.announce(at, line.wrapping_add(1));
                    fiber.clock_ps.set(arrival_ps);
                    self.turn().then_some(line)
                }
                Ready::Later(later_ps) => {
                    fiber.clock_ps.set(later_ps);
                    self.step_slowly(at, line, access)
                }
            };
        }
        self.step_slowly(at, line, access)
    }

    #[inline(never)]
    fn step_slowly(self, at: usize, line: LineNumber, access: Access) -> Option<LineNumber> {
        let fiber = self.fiber();
        loop {
            self.announce(at, line);
            if !self.turn() {
                return None;
            }
            match self.charge(line, access, fiber.clock_ps.get()) {
                Ready::Now(ready_ps) => {
                    fiber.clock_ps.set(ready_ps);
                    return Some(line);
                }
                Ready::Arrives(arrival_ps) => {
                    fiber.clock_ps.set(arrival_ps);
                    return self.turn().then_some(line);
                }
                Ready::Later(later_ps) => fiber.clock_ps.set(later_ps),
            }
        }
    }

    /// Announces that the next event will touch these data, of this line: the host prefetches them
    /// when the fiber's turn comes near.
    #[inline(always)]
    pub(crate) fn announce(self, at: usize, line: LineNumber) {
        let fiber = self.fiber();
        self.simulation().plans.announce(fiber.id, fiber.seat.get().core, at, line);
    }

    /// Announces that this event will touch these lines: the host prefetches their state.
    #[inline]
    pub(crate) fn announce_lines(self, lines: std::ops::RangeInclusive<LineNumber>) {
        let core = self.fiber().seat.get().core as usize;
        lines.for_each(|line| self.simulation().cost().coherence.announce(core, line));
    }

    /// Moments at which an access that starts at `start_ps` takes effect and is complete. Called in
    /// the core's turn.
    #[inline]
    pub(crate) fn charge(self, line: LineNumber, access: Access, start_ps: u64) -> Ready {
        let fiber = self.fiber();
        if fiber.is_supervisor() {
            return Ready::Now(start_ps);
        }
        let simulation = self.simulation();
        let ready = simulation.cost().access(fiber.seat.get(), line, access, start_ps);
        if fiber.mode.get() == 0 {
            return ready;
        }
        if let Some(trace) = fiber.trace.borrow_mut().as_mut().filter(|_| !matches!(ready, Ready::Later(_))) {
            trace.record(start_ps, access, line);
        }
        if fiber.mode.get() & CHECKED != 0 && !matches!(ready, Ready::Later(_)) {
            fiber.declared.borrow_mut().declare(line, access != Access::Read);
        }
        let later = |ready_ps: u64| ready_ps + simulation.disturbance(fiber, ready_ps - start_ps);
        match ready {
            Ready::Now(ready_ps) => Ready::Now(later(ready_ps)),
            Ready::Arrives(arrival_ps) => Ready::Arrives(later(arrival_ps)),
            Ready::Later(_) => ready,
        }
    }

    /// Lets all fibers with a smaller key run first, and waits for the worker's hardware thread.
    /// `false`: the fiber is being unwound, and the caller does nothing.
    #[inline]
    pub(crate) fn turn(self) -> bool {
        let goes_on = self.turn_in_order();
        if goes_on {
            self.take_processor();
        }
        goes_on
    }

    /// Waits until a worker that shares its hardware thread has it.
    #[inline(always)]
    pub(crate) fn take_processor(self) {
        if self.simulation().is_shared(self.fiber()) {
            self.wait_for_processor();
        }
    }

    #[cold]
    fn wait_for_processor(self) {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        if fiber.is_suppressed() || std::thread::panicking() || simulation.goes_on(fiber) {
            return;
        }
        fiber.wait.reason.set(Some(WaitReason::Processor));
        fiber.wait.since_ps.set(fiber.clock_ps.get());
        self.idle(|| self.switch(NEVER));
        fiber.wait.reason.set(None);
        fiber.has_waited.set(true);
    }

    /// Lets all fibers with a smaller key run first.
    pub(crate) fn turn_in_order(self) -> bool {
        let fiber = self.fiber();
        let mode = fiber.mode.get();
        if mode & SUPPRESSED != 0 {
            self.count_suppressed();
            return false;
        }
        if mode & SUPERVISOR != 0 {
            self.supervisor_turn();
        } else if fiber.is_perturbed() {
            let priority = (self.simulation().random.next() >> 33) as u32;
            fiber.order.set(order(priority, fiber.id));
        }
        if fiber.key() > self.simulation().first_other.get() {
            if fiber.clock_ps.get() >= fiber.balance_ps.get() {
                self.simulation().balance(fiber);
            }
            self.switch(fiber.key());
        }
        true
    }

    /// Handles an event of a supervisor. Its events are free, so a supervisor that polls would
    /// never let time pass: after some events at one moment its clock moves to the next moment at
    /// which anything happens.
    #[cold]
    fn supervisor_turn(self) {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        simulation.cost().counts().supervisor_events += 1;
        fiber.free_events.set(fiber.free_events.get() + 1);
        if fiber.free_events.get() <= FREE_EVENTS_MAX {
            return;
        }
        let first_other = simulation.first_other.get();
        if first_other < simulation.limit() {
            fiber.free_events.set(0);
            fiber.clock_ps.set(fiber.clock_ps.get().max(clock_of(first_other)));
        } else if simulation.limit() != NEVER {
            // All others wait. The supervisor may be working, or poll for ever: then it reaches the
            // time limit this way.
            fiber.free_events.set(0);
            fiber.clock_ps.set(fiber.clock_ps.get() + ALONE_PS);
        }
    }

    #[cold]
    fn count_suppressed(self) {
        let fiber = self.fiber();
        fiber.free_events.set(fiber.free_events.get() + 1);
        assert!(
            fiber.free_events.get() < SUPPRESSED_EVENTS_MAX,
            "a destructor waits for shared memory while its simulated core is being unwound"
        );
    }

    /// Sleeps under this key until the run loop finds it the smallest; `false` if that is not
    /// possible now. A thread that is panicking does not switch, because its panic would be taken
    /// for the next fiber's.
    fn switch(self, key: u128) -> bool {
        let fiber = self.fiber();
        if std::thread::panicking() {
            return false;
        }
        let simulation = self.simulation();
        assert_eq!(simulation.current.get(), fiber.id, "a core's handle was used by another core");
        simulation.ready().set(fiber.id, key);
        fiber.free_events.set(0);
        simulation.plans.suspended(fiber.id, std::ptr::from_ref(&key).addr());
        // SAFETY: set when the fiber started; it lives on the fiber's stack, on which this call
        // runs.
        unsafe { (*fiber.yielder.get()).suspend(()) };
        true
    }

    /// Charges computation, or a fixed cost; a supervisor pays nothing.
    #[inline(always)]
    pub(crate) fn spend(self, picoseconds: u64) {
        let fiber = self.fiber();
        if fiber.mode.get() == 0 {
            let core = fiber.seat.get().core as usize;
            let stretched_ps = self.simulation().cost().stretched(core, picoseconds);
            fiber.clock_ps.set(fiber.clock_ps.get() + stretched_ps);
        } else {
            self.spend_slowly(picoseconds);
        }
    }

    #[inline(never)]
    fn spend_slowly(self, picoseconds: u64) {
        let fiber = self.fiber();
        if !fiber.is_supervisor() && !fiber.is_suppressed() {
            let simulation = self.simulation();
            let stretched_ps = simulation.cost().stretched(fiber.seat.get().core as usize, picoseconds);
            let more_ps = simulation.disturbance(fiber, stretched_ps);
            fiber.clock_ps.set(fiber.clock_ps.get() + stretched_ps + more_ps);
        }
    }

    /// Charges units of computation.
    #[inline(always)]
    pub(crate) fn compute_units(self, work: Work, units: u32) {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        if !fiber.is_unpaid() {
            simulation.cost().counts().work[work as usize] += u64::from(units);
        }
        self.spend(simulation.config.model.costs.work_ps[work as usize] * u64::from(units));
    }

    /// Charges instructions of a long code path of another program; none are no event at all.
    #[inline]
    pub(crate) fn compute_path(self, instructions: u32) {
        if instructions == 0 {
            return;
        }
        let (fiber, simulation) = (self.fiber(), self.simulation());
        if !fiber.is_unpaid() {
            simulation.cost().counts().path_instructions += u64::from(instructions);
        }
        self.spend(simulation.config.model.costs.instruction_ps * u64::from(instructions));
    }

    /// Executes code: waits for its lines that the core's instruction cache lacks.
    #[inline]
    pub(crate) fn enter_code(self, code: Code) {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        let cost = simulation.cost();
        if cost.code.is_some() && !fiber.is_unpaid() {
            let waits_ps = cost.fetch(fiber.seat.get().core as usize, code);
            if waits_ps == 0 {
                return;
            }
            let more_ps = if fiber.mode.get() == 0 { 0 } else { simulation.disturbance(fiber, waits_ps) };
            fiber.clock_ps.set(fiber.clock_ps.get() + waits_ps + more_ps);
        }
    }

    /// Charges a fixed cost of the operating system.
    pub(crate) fn spend_in_system(self, picoseconds: u64) {
        let fiber = self.fiber();
        let before_ps = fiber.clock_ps.get();
        self.spend(picoseconds);
        self.simulation().cost().counts().system_ps += fiber.clock_ps.get() - before_ps;
    }

    /// Keeps the core busy for this long, but at least for one turn of a loop that reads the clock,
    /// pauses, and reads the clock again. Returns the time; 0 for a supervisor.
    pub(crate) fn keep_busy(self, nanos: u64) -> u64 {
        let fiber = self.fiber();
        if fiber.is_suppressed() {
            return 0;
        }
        let costs = &self.simulation().config.model.costs;
        let least_ps = if fiber.is_supervisor() { 0 } else { 2 * costs.clock_ps + costs.pause_ps };
        let busy_ps = picoseconds(Nanos(nanos)).max(least_ps);
        fiber.advance(busy_ps);
        self.pausing(|| self.turn_in_order());
        self.take_processor();
        if fiber.is_supervisor() { 0 } else { busy_ps }
    }

    /// As [`Self::keep_busy`], in the operating system.
    pub(crate) fn keep_busy_in_system(self, nanos: u64) {
        let busy_ps = self.keep_busy(nanos);
        self.simulation().cost().counts().system_ps += busy_ps;
    }

    /// Reads the clock: charges and counts it.
    pub(crate) fn read_clock(self) {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        if fiber.is_supervisor() {
            self.turn();
        } else {
            simulation.cost().counts().clock_reads += 1;
        }
        self.spend(simulation.config.model.costs.clock_ps);
    }

    /// Forgets the declarations: a transaction begins or ends.
    #[inline(always)]
    pub(crate) fn forget_declarations(self) {
        let fiber = self.fiber();
        if fiber.mode.get() & CHECKED != 0 {
            fiber.declared.borrow_mut().clear();
        }
    }

    /// Begins or ends to compete for the issue slots of the core.
    pub(crate) fn compute(self, begin: bool) {
        self.simulation().compute(self.fiber(), begin);
    }

    /// Performs the action while the hardware thread executes something else. The caller takes the
    /// hardware thread again ([`Self::take_processor`]).
    pub(crate) fn asleep<T>(self, action: impl FnOnce() -> T) -> T {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        let runs = fiber.running.get();
        if runs {
            simulation.give_up(fiber);
            fiber.has_waited.set(false);
        }
        simulation.run(fiber, false);
        let result = self.idle(action);
        simulation.run(fiber, runs);
        result
    }

    /// Performs the action without competing for the issue slots of the core.
    fn idle<T>(self, action: impl FnOnce() -> T) -> T {
        let computes = self.fiber().computing.get();
        self.compute(false);
        let result = action();
        self.compute(computes);
        result
    }

    /// Spins or pauses during the action, which takes few issue slots from the siblings.
    pub(crate) fn pausing<T>(self, action: impl FnOnce() -> T) -> T {
        let (fiber, simulation) = (self.fiber(), self.simulation());
        let core = fiber.computing.get().then(|| fiber.seat.get().core as usize);
        self.idle(|| {
            core.into_iter().for_each(|core| simulation.cost().pause(core, true));
            let result = action();
            core.into_iter().for_each(|core| simulation.cost().pause(core, false));
            result
        })
    }

    /// Makes the core a supervisor, or a worker again.
    pub(crate) fn set_supervisor(self, supervisor: bool) {
        self.simulation().set_supervisor(self.fiber(), supervisor);
    }

    /// Sleeps until another fiber wakes this one, or until the deadline. `false` if the fiber
    /// cannot wait now.
    pub(crate) fn sleep(
        self,
        reason: WaitReason,
        word: *const VirtualWord,
        seen: u64,
        deadline: Option<Nanos>,
    ) -> bool {
        let fiber = self.fiber();
        if fiber.is_suppressed() || std::thread::panicking() {
            return false;
        }
        let simulation = self.simulation();
        let line = simulation.line(word.addr());
        fiber.wait.reason.set(Some(reason));
        fiber.wait.line.set(line);
        fiber.wait.word.set(word);
        fiber.wait.seen.set(seen);
        fiber.wait.since_ps.set(fiber.clock_ps.get());
        if reason != WaitReason::Join {
            simulation.enlist(fiber, line);
        }
        let until = deadline.map_or(NEVER, |end| key(picoseconds(end), fiber.order.get()));
        let until = if reason == WaitReason::Spin { simulation.spin_until(fiber, until) } else { until };
        fiber.wait.until.set(until);
        let slept = match reason {
            WaitReason::Spin => self.pausing(|| self.switch(until)),
            WaitReason::Park | WaitReason::Join | WaitReason::Processor => self.asleep(|| self.switch(until)),
        };
        if reason == WaitReason::Spin && fiber.running.get() {
            simulation.count_spin(fiber, fiber.wait.since_ps.get());
        }
        if fiber.wait.reason.get().is_some() && reason != WaitReason::Join {
            simulation.delist(fiber);
            fiber.yields.set(reason == WaitReason::Spin && simulation.has_yielded(fiber));
        }
        fiber.wait.reason.set(None);
        if reason != WaitReason::Spin {
            self.take_processor();
        }
        slept
    }
}
