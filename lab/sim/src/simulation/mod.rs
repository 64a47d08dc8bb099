//! The state of one machine, and the loop that always resumes the fiber with the smallest key.
//!
//! One host thread touches all of it. Exclusive borrows of the parts (`cost`, `ready`) are taken
//! for single calls that never switch fibers and call no foreign code.

mod counting;
mod diagnosis;
mod disturbance;
mod sharing;
mod waiting;

use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Arc;

use corosensei::CoroutineResult;
use corosensei::stack::Stack as _;
use platform::{HardwareThread, LINE_BYTES, Nanos};

use crate::arena::prefetch;
use crate::cost::CostModel;
use crate::error::WaitReason;
use crate::falls::Falls;
use crate::fiber::{CHECKED, Fiber, Group, OVERSUBSCRIBED, PERTURBED, SUPERVISOR, Stackful, TRACED};
use crate::fibers::Fibers;
use crate::line::{LineNumber, PRIVATE_LINE};
use crate::memory::Memory;
use crate::model::WorkerSeat;
use crate::network::Network;
use crate::plans::Plans;
use crate::random::Random;
use crate::ready::{NEVER, ReadyQueue, clock_of, fiber_of, key, order, picoseconds};
use crate::seats::Seats;
use crate::slices::Slices;
use crate::touches::Guard;
use crate::{Config, Crash, SimError};
use terms::random::mix;

/// Address space for regions that belong to no machine.
const CONTROL_BYTES: usize = 64 << 20;

/// A fiber's data are prefetched when this many fibers come between it and the running one.
const PLACES_AHEAD: usize = 4;

/// The first key that is not reached: that of the time limit, or of the crash.
fn limit(config: &Config) -> u128 {
    let crash = match config.crash {
        Some(Crash::At(moment)) => Some(moment),
        _ => None,
    };
    let first = config.time_limit.into_iter().chain(crash).min();
    first.map_or(NEVER, |limit| key(picoseconds(limit).saturating_add(1), 0))
}

/// One machine during its run.
pub(crate) struct Simulation {
    /// The smallest key of all fibers but the running one, or the time limit if that is earlier.
    pub(crate) first_other: Cell<u128>,
    /// The running fiber.
    pub(crate) current: Cell<u32>,
    memory_base: usize,
    memory_bytes: usize,
    line_shift: u32,
    cost: UnsafeCell<CostModel>,
    ready: UnsafeCell<ReadyQueue>,
    fibers: Fibers,
    pub(crate) memory: Arc<Memory>,
    /// Memory that belongs to no machine, if there are several.
    pub(crate) control: Option<Arc<Memory>>,
    network: UnsafeCell<Network>,
    /// The machine for which cores without a machine work.
    pub(crate) works_for: Cell<usize>,
    pub(crate) config: Config,
    pub(crate) random: Random,
    /// Source of [`platform::Platform::secret`], so that schedules and faults do not depend on the
    /// number of its calls.
    pub(crate) secrets: Random,
    pub(crate) seats: Seats,
    pub(crate) slices: Slices,
    /// Moment at which counting began.
    pub(crate) counted_from: Cell<Nanos>,
    /// Processor time of the host thread at that moment, in seconds.
    pub(crate) host_counted_from: Cell<f64>,
    /// The latest moment at which a fiber was resumed, crashed the machine or finished.
    latest_ps: Cell<u64>,
    limit: u128,
    pub(crate) plans: Plans,
    /// Operations submitted to the disk.
    disk_operations: Cell<u64>,
    crashed: Cell<bool>,
    /// Number of times that a fiber was resumed.
    resumed: Cell<u64>,
    pub(crate) falls: Falls,
    /// Compares accesses to regions with declarations, if the configuration asks for that.
    pub(crate) guard: Option<Box<Guard>>,
}

impl Simulation {
    pub(crate) fn new(config: &Config) -> Result<Box<Simulation>, SimError> {
        config.check()?;
        crate::host::check(config)?;
        let memory = Memory::new(config.memory_bytes)?;
        let several = config.model.machines() > 1;
        let control = several.then(|| Memory::new(CONTROL_BYTES)).transpose()?;
        let guard = config.checks_touches.then(|| Guard::new(config, &memory)).transpose()?;
        let mut cost = CostModel::new(config)?;
        cost.coherence.named = Some(Arc::clone(&memory));
        let cost = UnsafeCell::new(cost);
        config.disks().for_each(|disk| disk.boot(config.perturb));
        Ok(Box::new(Simulation {
            first_other: Cell::new(NEVER),
            current: Cell::new(0),
            memory_base: memory.base().addr(),
            memory_bytes: memory.bytes(),
            line_shift: config.model.line_shift,
            cost,
            ready: UnsafeCell::new(ReadyQueue::new()),
            fibers: Fibers::default(),
            memory,
            control,
            network: UnsafeCell::new(Network::new(config)),
            works_for: Cell::new(0),
            config: config.clone(),
            random: Random::new(mix(config.seed)),
            secrets: Random::new(mix(config.seed ^ 0x5ec2e7)),
            seats: Seats::new(&config.model),
            slices: Slices::new(&config.model, config.slice_divisor),
            counted_from: Cell::new(Nanos(0)),
            host_counted_from: Cell::new(crate::host::processor_seconds()),
            latest_ps: Cell::new(0),
            plans: Plans::new()?,
            limit: limit(config),
            disk_operations: Cell::new(0),
            crashed: Cell::new(false),
            resumed: Cell::new(0),
            falls: Falls::new(&config.falls),
            guard,
        }))
    }

    /// The cost model, for one call.
    #[expect(
        clippy::mut_from_ref,
        reason = "see the module: one host thread, never across a call of foreign code"
    )]
    #[inline(always)]
    pub(crate) fn cost(&self) -> &mut CostModel {
        // SAFETY: one host thread; callers use the reference for one call, which neither switches
        // nor calls this method again.
        unsafe { &mut *self.cost.get() }
    }

    /// The network, for one call.
    #[expect(
        clippy::mut_from_ref,
        reason = "see the module: one host thread, never across a call of foreign code"
    )]
    pub(crate) fn network(&self) -> &mut Network {
        // SAFETY: as for `cost`.
        unsafe { &mut *self.network.get() }
    }

    /// The queue of fibers, for one call.
    #[expect(
        clippy::mut_from_ref,
        reason = "see the module: one host thread, never across a call of foreign code"
    )]
    #[inline(always)]
    pub(crate) fn ready(&self) -> &mut ReadyQueue {
        // SAFETY: as for `cost`.
        unsafe { &mut *self.ready.get() }
    }

    /// The key at which the run ends.
    pub(crate) fn limit(&self) -> u128 {
        self.limit
    }

    /// The line of a host address.
    #[inline(always)]
    pub(crate) fn line(&self, at: usize) -> LineNumber {
        match self.offset(at) {
            Some(offset) => (offset >> self.line_shift) as LineNumber,
            None => PRIVATE_LINE,
        }
    }

    /// The offset of a host address in the machine's memory; `None` for private memory.
    #[inline(always)]
    pub(crate) fn offset(&self, at: usize) -> Option<usize> {
        let offset = at.wrapping_sub(self.memory_base);
        (offset < self.memory_bytes).then_some(offset)
    }

    #[inline(always)]
    pub(crate) fn fiber(&self, id: u32) -> &Fiber {
        self.fibers.get(id)
    }

    /// A fiber's rank among fibers with equal clocks, by the seed; never a supervisor's.
    pub(crate) fn priority(&self, fiber: u32) -> u32 {
        (mix(self.config.seed ^ mix(u64::from(fiber) + 1)) >> 33) as u32
    }

    /// Makes a fiber a supervisor, or a worker again.
    pub(crate) fn set_supervisor(&self, fiber: &Fiber, supervisor: bool) {
        let (mode, priority) = match supervisor {
            true => (fiber.mode.get() | SUPERVISOR, u32::MAX),
            false => (fiber.mode.get() & !SUPERVISOR, self.priority(fiber.id)),
        };
        fiber.mode.set(mode);
        fiber.order.set(order(priority, fiber.id));
        // A worker that started others waits for them, and continues to compute afterwards.
        let works = !supervisor && fiber.thread.get().is_some();
        if !works {
            self.give_up(fiber);
        }
        self.compute(fiber, works);
        self.run(fiber, works);
        if fiber.id == self.current.get() {
            self.compare(Some(fiber));
        }
    }

    /// Compares accesses with the declarations of this fiber, which runs; without a fiber, with
    /// nothing.
    fn compare(&self, fiber: Option<&Fiber>) {
        if let Some(guard) = &self.guard {
            guard.compare(fiber.and_then(Fiber::compared));
        }
    }

    /// Gives a worker its seat. The worker begins to compute.
    pub(crate) fn seat(&self, fiber: &Fiber, seat: WorkerSeat) {
        fiber.seat.set(seat);
        fiber.thread.set(Some(self.config.model.threads[seat.slot as usize].0));
        let residents = self.seats.take(seat, fiber.id);
        if residents.len() > 1 {
            for id in residents {
                let worker = self.fiber(id);
                worker.mode.set(worker.mode.get() | OVERSUBSCRIBED);
            }
        }
        self.compute(fiber, true);
    }

    /// Removes a worker from its seat.
    fn unseat(&self, fiber: &Fiber) {
        if fiber.thread.replace(None).is_some() {
            self.give_up(fiber);
            fiber.run_ps.set(0);
            self.compute(fiber, false);
            self.run(fiber, false);
            self.seats.leave(fiber.seat.get(), fiber.id);
        }
    }

    /// Lets the operating system balance a worker.
    #[cold]
    pub(crate) fn balance(&self, fiber: &Fiber) {
        fiber.balance_ps.set(fiber.clock_ps.get() + self.config.model.costs.balance_ps);
        if fiber.is_supervisor() {
            return;
        }
        let (model, core) = (&self.config.model, fiber.seat.get().core as usize);
        if let Some(seat) = self.seats.balance(model, model.machine_of_core(core), &self.random) {
            self.migrate(fiber, seat);
        }
    }

    /// Moves a worker that is not pinned to a machine, if it is on another one.
    pub(crate) fn move_to_machine(&self, fiber: &Fiber, machine: usize) {
        let model = &self.config.model;
        let is_pinned = fiber.balance_ps.get() == u64::MAX;
        if !is_pinned && model.machine_of_core(fiber.seat.get().core as usize) != machine {
            self.migrate(fiber, self.seats.idlest(model, machine));
        }
    }

    /// Moves a worker to another hardware thread, whose caches do not have its lines.
    fn migrate(&self, fiber: &Fiber, seat: WorkerSeat) {
        let (computes, runs) = (fiber.computing.get(), fiber.running.get());
        self.unseat(fiber);
        self.seat(fiber, seat);
        self.compute(fiber, computes);
        self.run(fiber, runs);
        fiber.clock_ps.set(fiber.clock_ps.get() + self.config.model.costs.wake_ps);
        self.cost().counts().migrations += 1;
    }

    /// Binds a worker to these hardware threads: it moves to the one with the fewest workers,
    /// unless it is on one of them. False if the machine has none of them.
    pub(crate) fn bind(&self, fiber: &Fiber, threads: &[HardwareThread]) -> bool {
        let is_there = fiber.thread.get().is_none_or(|thread| threads.contains(&thread));
        if threads.is_empty() || fiber.is_supervisor() || is_there {
            return true;
        }
        match self.seats.emptiest(&self.config.model, threads) {
            Some(seat) => {
                self.migrate(fiber, seat);
                true
            }
            None => false,
        }
    }

    /// Makes a new fiber that will run `body`; [`Self::wake`] starts it.
    ///
    /// # Safety
    /// Everything that `body` borrows lives until the fiber has finished or [`Self::discard`] has
    /// returned.
    pub(crate) unsafe fn spawn(
        &self,
        group: *const Group,
        body: impl FnOnce(&Fiber),
    ) -> Result<&Fiber, SimError> {
        let (fiber, stack) = self.fibers.take(self.config.stack_bytes)?;
        let perturbed = if self.config.perturb { PERTURBED } else { 0 };
        let checked = if self.config.checks_touches { CHECKED } else { 0 };
        fiber.mode.set(perturbed | checked | if self.config.trace { TRACED } else { 0 });
        fiber.declared.borrow_mut().clear();
        fiber.order.set(order(self.priority(fiber.id), fiber.id));
        self.plans.set_stack(fiber.id, stack.base().get());
        fiber.group.set(group);
        fiber.thread.set(None);
        let itself = NonNull::from(fiber);
        let start = move |yielder: &corosensei::Yielder<(), ()>, ()| {
            // SAFETY: a fiber lives as long as the machine that runs it, and is only ever borrowed
            // shared.
            let fiber = unsafe { itself.as_ref() };
            fiber.yielder.set(yielder);
            body(fiber);
        };
        // SAFETY: by the caller's promise; `discard` and `finish` are the only ways to end a fiber,
        // nothing forgets one.
        let coroutine = unsafe { Stackful::with_stack_unchecked(stack, start) };
        // SAFETY: the fiber does not run, and no other code touches the coroutine of a free fiber.
        unsafe { *fiber.coroutine.get() = Some(coroutine) };
        Ok(fiber)
    }

    /// Makes a sleeping or new fiber ready at its clock, or at `at_ps` if that is later.
    pub(crate) fn wake(&self, fiber: &Fiber, at_ps: u64) {
        fiber.clock_ps.set(fiber.clock_ps.get().max(at_ps));
        let key = fiber.key();
        self.ready().set(fiber.id, key);
        self.first_other.set(self.first_other.get().min(key));
    }

    /// Runs fibers until the first one, number 0, has finished.
    pub(crate) fn drive(&self) -> Result<(), SimError> {
        loop {
            let first = self.ready().first();
            if self.crashed.get() {
                return Err(self.crash());
            }
            if first == NEVER {
                return Err(self.deadlock());
            }
            if first >= self.limit {
                return Err(self.limit_reached());
            }
            let fiber = self.fiber(fiber_of(first));
            self.ready().pop();
            self.first_other.set(self.ready().first().min(self.limit));
            self.current.set(fiber.id);
            self.prefetch_next();
            self.latest_ps.set(clock_of(first));
            self.cost().counts().switches += 1;
            if self.config.crash == Some(Crash::Event(self.resumed.replace(self.resumed.get() + 1) + 1)) {
                return Err(self.crash());
            }
            if fiber.crew.get() != 0
                && let Some(crews) = self.falls.due(fiber, |crew| self.may_fall(crew))
            {
                crews.into_iter().for_each(|crew| self.fall(crew));
                continue;
            }
            // A fiber that slept to its deadline resumes there.
            fiber.clock_ps.set(fiber.clock_ps.get().max(clock_of(first)));
            // SAFETY: only this loop touches the coroutine of a fiber that runs; `discard` is for
            // others.
            let coroutine = unsafe { &mut *fiber.coroutine.get() };
            let Some(coroutine) = coroutine else { unreachable!("a ready fiber has a coroutine") };
            self.compare(Some(fiber));
            let result = coroutine.resume(());
            self.compare(None);
            if let CoroutineResult::Return(()) = result {
                self.finish(fiber);
                if fiber.id == 0 {
                    return Ok(());
                }
            } else if self.ready().is_ahead(fiber.key(), PLACES_AHEAD) {
                self.prefetch_fiber(fiber.id);
            }
        }
    }

    /// Prefetches on the host the data of fibers that run soon.
    #[inline(always)]
    fn prefetch_next(&self) {
        if let Some(soon) = self.ready().ahead(PLACES_AHEAD) {
            self.prefetch_fiber(soon);
        }
        if let Some(next) = self.ready().ahead(0) {
            let plan = self.plans.take(next);
            if plan.line != PRIVATE_LINE {
                self.cost().coherence.announce_holders(plan.core as usize, plan.line);
            }
        }
    }

    /// Prefetches on the host the data of a fiber.
    #[inline(always)]
    fn prefetch_fiber(&self, id: u32) {
        let fiber = std::ptr::from_ref(self.fiber(id));
        prefetch(fiber);
        prefetch(fiber.wrapping_byte_add(LINE_BYTES));
        let plan = self.plans.prefetch(id);
        if plan.line != PRIVATE_LINE {
            self.cost().coherence.announce(plan.core as usize, plan.line);
        }
    }

    /// Counts an operation of the disk. True if the machine crashes instead: its core goes to sleep
    /// then.
    pub(crate) fn crashes_at_this_operation(&self, fiber: &Fiber) -> bool {
        self.disk_operations.set(self.disk_operations.get() + 1);
        if self.config.crash == Some(Crash::DiskOperation(self.disk_operations.get())) {
            self.crashed.set(true);
            self.record_clock(fiber);
        }
        self.crashed.get()
    }

    /// Records that the fiber's clock has moved since it was resumed.
    fn record_clock(&self, fiber: &Fiber) {
        self.latest_ps.set(self.latest_ps.get().max(fiber.clock_ps.get()));
    }

    fn crash(&self) -> SimError {
        SimError::Crashed { at: Nanos(self.latest_ps.get() / 1000) }
    }

    fn limit_reached(&self) -> SimError {
        match (self.config.crash, self.config.time_limit) {
            (Some(Crash::At(moment)), limit) if limit.is_none_or(|limit| moment <= limit) => {
                self.latest_ps.set(picoseconds(moment));
                self.crash()
            }
            (_, limit) => SimError::TimeLimit { limit: limit.unwrap_or_default() },
        }
    }

    /// Ends a fiber that has returned: updates its group and frees its resources.
    fn finish(&self, fiber: &Fiber) {
        self.ready().set(fiber.id, NEVER);
        self.record_clock(fiber);
        // SAFETY: a group lives until all its fibers have finished or were discarded.
        if let Some(group) = unsafe { fiber.group.get().as_ref() } {
            self.leave(group, fiber);
        }
        self.recycle(fiber);
    }

    /// The workers of a crew.
    fn crew(&self, crew: u16) -> impl Iterator<Item = &Fiber> {
        self.fibers.all().filter(move |fiber| fiber.crew.get() == crew)
    }

    fn may_fall(&self, crew: u16) -> bool {
        self.crew(crew).all(|fiber| fiber.may_fall.get())
    }

    /// Ends all workers of a crew, if it has any, where they are, without effects.
    fn fall(&self, crew: u16) {
        if self.crew(crew).next().is_some() {
            self.falls.record(crew);
        }
        for fiber in self.crew(crew) {
            let group = fiber.group.get();
            self.discard(fiber);
            // SAFETY: as in `finish`.
            if let Some(group) = unsafe { group.as_ref() } {
                self.leave(group, fiber);
            }
        }
    }

    /// Records that a worker of this group has returned.
    fn leave(&self, group: &Group, worker: &Fiber) {
        group.remaining.set(group.remaining.get() - 1);
        group.latest_ps.set(group.latest_ps.get().max(worker.clock_ps.get()));
        let caller = self.fiber(group.caller);
        if group.remaining.get() == 0 && caller.wait.reason.get() == Some(WaitReason::Join) {
            self.wake(caller, group.latest_ps.get());
        }
    }

    /// Recycles a fiber that no longer runs.
    fn recycle(&self, fiber: &Fiber) {
        fiber.group.set(std::ptr::null());
        fiber.crew.set(0);
        fiber.may_fall.set(false);
        self.unseat(fiber);
        fiber.yields.set(false);
        self.fibers.recycle(fiber);
    }

    /// Unwinds a fiber that has not finished, without effects. The fibers that it started are
    /// unwound with it.
    pub(crate) fn discard(&self, fiber: &Fiber) {
        if matches!(fiber.wait.reason.get(), Some(WaitReason::Spin | WaitReason::Park)) {
            self.delist(fiber);
        }
        fiber.wait.reason.set(None);
        fiber.suppress();
        self.ready().set(fiber.id, NEVER);
        // SAFETY: the fiber sleeps, or has panicked; it is not the one that runs, so no running
        // code is inside its coroutine.
        if let Some(coroutine) = unsafe { &mut *fiber.coroutine.get() } {
            coroutine.force_unwind();
        }
        self.recycle(fiber);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.config.disks().for_each(|disk| disk.stop(self.latest_ps.get()));
    }
}
