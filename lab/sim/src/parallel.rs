//! Starting workers and waiting for them.
//!
//! A panic of any fiber ends the whole run: the other fibers are unwound with effects suppressed,
//! and the panic continues out of [`crate::VirtualMachine::run`]. (On hardware `parallel` waits for
//! the other workers first; here they might wait for the worker that panicked.)

use std::cell::Cell;

use platform::Place;

use crate::error::WaitReason;
use crate::fiber::Group;
use crate::trace::Ring;
use crate::virtual_core::{self, VirtualCore};

/// Ends the call of `parallel`, also when the caller is unwound: workers that still run borrow from
/// its stack.
struct Workers<'a> {
    caller: VirtualCore,
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

/// Implements [`platform::Platform::parallel`].
pub(crate) fn parallel(
    c: VirtualCore,
    places: &[Place],
    worker: &(dyn Fn(VirtualCore, usize) + Sync),
    main: &mut dyn FnMut(VirtualCore),
) {
    let caller = c.fiber();
    if !c.turn() || std::thread::panicking() {
        return;
    }
    let group = Group {
        caller: caller.id,
        remaining: Cell::new(places.len()),
        latest_ps: Cell::new(caller.clock_ps.get()),
    };
    let mut workers = Workers {
        caller: c,
        group: &group,
        ids: Vec::with_capacity(places.len()),
        was_supervisor: caller.is_supervisor(),
    };
    c.set_supervisor(true);
    for (index, place) in places.iter().enumerate() {
        let id = start(c, &group, *place, move |c| worker(c, index));
        workers.ids.push(id);
    }
    main(c);
    while group.remaining.get() > 0 {
        c.sleep(WaitReason::Join, std::ptr::null(), 0, None);
    }
    caller.clock_ps.set(caller.clock_ps.get().max(group.latest_ps.get()));
}

/// Starts one worker at the caller's moment.
fn start<'a>(caller: VirtualCore, group: &Group, place: Place, body: impl FnOnce(VirtualCore) + 'a) -> u32 {
    let simulation = caller.simulation();
    let model = &simulation.config.model;
    let seat = match place.thread {
        None => simulation.seats.idlest(model, 0),
        Some(thread) => model.seat(thread).unwrap_or_else(|| {
            panic!("a worker is placed on hardware thread {}, which {} does not have", thread.0, model.name)
        }),
    };
    // SAFETY: `Workers` discards the fiber before the caller's frame, which `body` borrows from,
    // ends.
    let spawned = unsafe { virtual_core::spawn(simulation, group, body) };
    let worker = spawned.unwrap_or_else(|error| panic!("a simulated core cannot start: {error}")).fiber();
    simulation.seat(worker, seat);
    worker.clock_ps.set(caller.fiber().clock_ps.get());
    simulation.run(worker, true);
    let balanced = place.thread.is_none().then(|| caller.fiber().clock_ps.get() + model.costs.balance_ps);
    worker.balance_ps.set(balanced.unwrap_or(u64::MAX));
    let thread = model.threads[seat.slot as usize].0;
    worker.trace.replace(simulation.config.trace.then(|| Box::new(Ring::new(thread))));
    simulation.wake(worker, 0);
    worker.id
}
