//! Starting workers and waiting for them.
//!
//! A panic of any fiber ends the whole run: the other fibers are unwound with effects suppressed and the panic goes on
//! out of [`crate::VirtualMachine::run`]. (On hardware `parallel` waits for the other workers first; here they might wait
//! for the one that panicked.)

use std::cell::Cell;

use platform::Place;

use crate::error::WaitReason;
use crate::fiber::{Fiber, VirtualCore};
use crate::seats::BALANCE_PS;
use crate::simulation::Simulation;
use crate::trace::Ring;

/// The workers of one `parallel`. It lives on the caller's stack.
pub(crate) struct Group {
    /// The fiber that waits for them.
    caller: u32,
    remaining: Cell<usize>,
    /// When the last of them finished.
    latest_ps: Cell<u64>,
}

impl Group {
    /// One worker has returned.
    pub(crate) fn finished(&self, simulation: &Simulation, worker: &Fiber) {
        self.remaining.set(self.remaining.get() - 1);
        self.latest_ps.set(self.latest_ps.get().max(worker.clock_ps.get()));
        let caller = simulation.fiber(self.caller);
        if self.remaining.get() == 0 && caller.wait.reason.get() == Some(WaitReason::Join) {
            simulation.wake(caller, self.latest_ps.get());
        }
    }
}

/// Ends the call of `parallel`, also when the caller is unwound: workers that still run borrow from its stack.
struct Workers<'a> {
    caller: &'a Fiber,
    group: &'a Group,
    ids: Vec<u32>,
    was_supervisor: bool,
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        let simulation = self.caller.simulation();
        for id in &self.ids {
            let worker = simulation.fiber(*id);
            // A finished worker's number may belong to a fiber of another group by now.
            if std::ptr::eq(worker.group.get(), self.group) {
                simulation.discard(worker);
            }
        }
        self.caller.set_supervisor(self.was_supervisor);
    }
}

/// [`platform::Platform::parallel`].
pub(crate) fn parallel(
    c: VirtualCore,
    places: &[Place],
    worker: &(dyn Fn(VirtualCore, usize) + Sync),
    main: &mut dyn FnMut(VirtualCore),
) {
    let caller = c.fiber();
    if !caller.turn() || std::thread::panicking() {
        return;
    }
    let group = Group {
        caller: caller.id,
        remaining: Cell::new(places.len()),
        latest_ps: Cell::new(caller.clock_ps.get()),
    };
    let mut workers = Workers {
        caller,
        group: &group,
        ids: Vec::with_capacity(places.len()),
        was_supervisor: caller.is_supervisor(),
    };
    caller.set_supervisor(true);
    for (index, place) in places.iter().enumerate() {
        let id = start(caller, &group, *place, move |c| worker(c, index));
        workers.ids.push(id);
    }
    main(c);
    while group.remaining.get() > 0 {
        caller.sleep(WaitReason::Join, std::ptr::null(), 0, None);
    }
    caller.clock_ps.set(caller.clock_ps.get().max(group.latest_ps.get()));
}

/// Starts one worker at the caller's moment.
fn start<'a>(caller: &Fiber, group: &Group, place: Place, body: impl FnOnce(VirtualCore) + 'a) -> u32 {
    let simulation = caller.simulation();
    let model = &simulation.config.model;
    let seat = match place.thread {
        None => simulation.seats.idlest(model),
        Some(thread) => model.seat(thread).unwrap_or_else(|| {
            panic!("a worker is placed on hardware thread {}, which {} does not have", thread.0, model.name)
        }),
    };
    // SAFETY: `Workers` discards the fiber before the caller's frame, which `body` borrows from, ends.
    let spawned = unsafe { simulation.spawn(group, body) };
    let worker = spawned.unwrap_or_else(|error| panic!("a simulated core cannot start: {error}"));
    simulation.seat(worker, seat);
    worker.clock_ps.set(caller.clock_ps.get());
    let balanced = place.thread.is_none().then(|| caller.clock_ps.get() + BALANCE_PS);
    worker.balance_ps.set(balanced.unwrap_or(u64::MAX));
    let thread = model.threads[seat.slot as usize].0;
    worker.trace.replace(simulation.config.trace.then(|| Ring::new(thread)));
    simulation.wake(worker, 0);
    worker.id
}
