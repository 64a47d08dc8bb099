//! Workers of each hardware thread, and the operating system's placement of workers that are not
//! pinned.
//!
//! A worker without a place runs on one machine: the first one, until it moves to another one
//! ([`platform::Platform::work_for`]). It starts there as under Linux's wake-up
//! balancing: on the node with the fewest workers, there on the core with the fewest, there on the
//! thread with the fewest. From then on, every [`crate::Costs::balance_ps`] it is moved to an idle
//! hardware thread of the machine, if there is one, with a probability of one in
//! [`crate::Costs::move_rarity`]: a stand-in for load balancing, daemons and interrupts. Its caches
//! are cold there, and the move costs a wake-up. Interval and probability are estimates.
//!
//! Workers of one hardware thread run in turns ([`crate::slices`]).

use std::cell::RefCell;

use platform::HardwareThread;

use crate::model::{Model, WorkerSeat};
use crate::random::Random;

/// Workers of each hardware thread.
pub(crate) struct Seats {
    residents: RefCell<Vec<Vec<u32>>>,
    running: RefCell<Vec<Running>>,
}

/// Workers that a hardware thread executes.
#[derive(Clone, Copy, Default)]
struct Running {
    workers: u32,
    /// Moment from which there is at least one.
    since_ps: u64,
}

impl Seats {
    pub(crate) fn new(model: &Model) -> Seats {
        let threads = model.threads.len();
        Seats {
            residents: RefCell::new(vec![Vec::new(); threads]),
            running: RefCell::new(vec![Running::default(); threads]),
        }
    }

    /// Adds a worker that its hardware thread executes from this moment on.
    pub(crate) fn begin_running(&self, seat: WorkerSeat, at_ps: u64) {
        let running = &mut self.running.borrow_mut()[seat.slot as usize];
        running.workers += 1;
        if running.workers == 1 {
            running.since_ps = at_ps;
        }
    }

    /// Removes a worker that its hardware thread no longer executes. Returns the moment from which
    /// the thread has executed workers, if this one was the last.
    pub(crate) fn end_running(&self, seat: WorkerSeat) -> Option<u64> {
        let running = &mut self.running.borrow_mut()[seat.slot as usize];
        running.workers -= 1;
        (running.workers == 0).then_some(running.since_ps)
    }

    /// For each hardware thread that executes workers, the moment from which it does.
    pub(crate) fn running_since(&self) -> Vec<u64> {
        let running = self.running.borrow();
        running.iter().filter(|thread| thread.workers > 0).map(|thread| thread.since_ps).collect()
    }

    /// Adds a worker to a hardware thread. Returns all workers that are there now.
    pub(crate) fn take(&self, seat: WorkerSeat, worker: u32) -> Vec<u32> {
        let residents = &mut self.residents.borrow_mut()[seat.slot as usize];
        residents.push(worker);
        residents.clone()
    }

    /// Removes a worker from its hardware thread.
    pub(crate) fn leave(&self, seat: WorkerSeat, worker: u32) {
        self.residents.borrow_mut()[seat.slot as usize].retain(|resident| *resident != worker);
    }

    /// Start of a worker without a place on a machine.
    pub(crate) fn idlest(&self, model: &Model, machine: usize) -> WorkerSeat {
        let residents = self.residents.borrow();
        let mut by_node = vec![0; model.nodes.len()];
        let mut by_core = vec![0; model.cores.len()];
        for ((_, core), residents) in model.threads.iter().zip(residents.iter()) {
            by_core[usize::from(*core)] += residents.len();
            by_node[usize::from(model.cores[usize::from(*core)].node)] += residents.len();
        }
        let load = |slot: &usize| {
            let core = usize::from(model.threads[*slot].1);
            (by_node[usize::from(model.cores[core].node)], by_core[core], residents[*slot].len(), *slot)
        };
        let slot = inside(model, machine).min_by_key(load).unwrap_or(0);
        WorkerSeat { core: model.threads[slot].1.into(), slot: slot as u32 }
    }

    /// The one of these hardware threads with the fewest workers; the first such one in fill order.
    pub(crate) fn emptiest(&self, model: &Model, threads: &[HardwareThread]) -> Option<WorkerSeat> {
        let residents = self.residents.borrow();
        let slots = (0..model.threads.len()).filter(|slot| threads.contains(&model.threads[*slot].0));
        let slot = slots.min_by_key(|slot| residents[*slot].len())?;
        Some(WorkerSeat { core: model.threads[slot].1.into(), slot: slot as u32 })
    }

    /// Draws the hardware thread to which the operating system of a machine moves a worker, if it
    /// does.
    pub(crate) fn balance(&self, model: &Model, machine: usize, random: &Random) -> Option<WorkerSeat> {
        if random.below(model.costs.move_rarity.max(1)) != 0 {
            return None;
        }
        let residents = self.residents.borrow();
        let idle: Vec<usize> = inside(model, machine).filter(|slot| residents[*slot].is_empty()).collect();
        let slot = *idle.get(random.below(idle.len().max(1) as u64) as usize)?;
        Some(WorkerSeat { core: model.threads[slot].1.into(), slot: slot as u32 })
    }
}

/// Hardware threads of a machine.
fn inside(model: &Model, machine: usize) -> impl Iterator<Item = usize> + '_ {
    (0..model.threads.len())
        .filter(move |slot| model.machine_of_core(model.threads[*slot].1.into()) == machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn workers_start_on_the_idlest_node_and_core() {
        let model = Shape::new(2, 2, 2).model().expect("a machine");
        let seats = Seats::new(&model);
        let taken: Vec<u32> = (0..9)
            .map(|worker| {
                let seat = seats.idlest(&model, 0);
                seats.take(seat, worker);
                seat.core
            })
            .collect();
        assert_eq!(taken, [0, 2, 1, 3, 0, 2, 1, 3, 0]);
        assert!(seats.balance(&model, 0, &Random::new(1)).is_none(), "no thread is idle");
        seats.leave(WorkerSeat { core: 3, slot: 7 }, 7);
        let random = Random::new(1);
        assert!((0..100).any(|_| seats.balance(&model, 0, &random).is_some_and(|seat| seat.slot == 7)));
    }
}
