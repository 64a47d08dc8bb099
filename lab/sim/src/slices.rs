//! Time slices: how the operating system divides a hardware thread among several workers.
//!
//! The rules are those of Linux's completely fair scheduler up to 6.5 (`kernel/sched/fair.c`) for
//! threads of equal weight, which are pinned to one hardware thread:
//!
//! - One of the workers that are ready runs; the others wait. Each has its *run time*
//!   (`vruntime`), and the worker with the least of those that wait is next.
//! - A slice lasts `latency / n` if `n` workers are ready, and at least the granularity
//!   (`sched_slice`, `__sched_period`). At its end the next one runs, unless the run time of the
//!   running one is less (`check_preempt_tick`).
//! - A worker that sleeps gives its hardware thread up. One that wakes up has at least the least
//!   run time so far, less half of the latency (`place_entity`). It preempts the running one if its
//!   run time is less by more than the wake-up granularity (`check_preempt_wakeup`).
//! - A worker that spins keeps its slice. When it offers the processor (`sched_yield`), the next
//!   one runs unless its run time is more by more than the wake-up granularity
//!   (`pick_next_entity`, which passes over the one that yields).
//!
//! The numbers are the defaults of that scheduler: a latency of 6 ms, a granularity of 0.75 ms and
//! a wake-up granularity of 1 ms, each times `1 + log2(n)` for `n` hardware threads, of which no
//! more than 8 count (`get_update_sysctl_factor`). A switch costs 1.27 us beside what the lines
//! cost that the next worker misses, measured (docs/calibration.md). The tick of the clock is not
//! modelled: a slice ends at the first event of its worker after its time.

use std::cell::RefCell;

use crate::model::{Model, WorkerSeat};

/// Defaults of the scheduler for one hardware thread.
const LATENCY_PS: u64 = 6_000_000_000;
const GRANULARITY_PS: u64 = 750_000_000;
const WAKE_UP_PS: u64 = 1_000_000_000;
/// Hardware threads that count for the factor, at most.
const THREADS_COUNTED: usize = 8;
/// Direct cost of a switch from one worker to another.
pub(crate) const SWITCH_PS: u64 = 1_270_000;

/// A worker that is ready and does not run.
#[derive(Clone, Copy)]
struct Ready {
    run_ps: u64,
    /// Decides between equal run times: the order of arrival.
    arrival: u64,
    worker: u32,
}

/// The workers of a hardware thread that are ready.
#[derive(Default)]
struct Turns {
    running: Option<u32>,
    /// Run time of the running worker until `counted_ps`.
    run_ps: u64,
    counted_ps: u64,
    /// Beginning of its slice.
    began_ps: u64,
    /// It is to give way to one that has woken up.
    gives_way: bool,
    ready: Vec<Ready>,
    arrivals: u64,
    /// The least run time so far.
    least_ps: u64,
}

/// The next worker of a hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The worker goes on.
    Own,
    /// The worker waits: this one runs.
    Other(u32),
    /// The worker waits for the one that runs, which gives way at its next event if the flag is
    /// set.
    Wait(u32, bool),
}

/// The time slices of all hardware threads.
pub(crate) struct Slices {
    threads: RefCell<Vec<Turns>>,
    factor: u64,
    divisor: u64,
}

impl Turns {
    fn count(&mut self, now_ps: u64) {
        self.run_ps += now_ps.saturating_sub(self.counted_ps);
        self.counted_ps = self.counted_ps.max(now_ps);
        let first_ps = self.first().map_or(u64::MAX, |place| self.ready[place].run_ps);
        self.least_ps = self.least_ps.max(self.run_ps.min(first_ps));
    }

    /// Place of the worker that is next.
    fn first(&self) -> Option<usize> {
        let key = |place: &usize| (self.ready[*place].run_ps, self.ready[*place].arrival);
        (0..self.ready.len()).min_by_key(key)
    }

    fn wait(&mut self, worker: u32, run_ps: u64) {
        self.arrivals += 1;
        self.ready.push(Ready { run_ps, arrival: self.arrivals, worker });
    }

    /// The next worker runs from this moment on.
    fn next(&mut self, now_ps: u64) -> Option<u32> {
        let next = self.ready.swap_remove(self.first()?);
        self.run(next.worker, next.run_ps, now_ps);
        Some(next.worker)
    }

    fn run(&mut self, worker: u32, run_ps: u64, now_ps: u64) {
        self.running = Some(worker);
        (self.run_ps, self.counted_ps, self.began_ps) = (run_ps, now_ps, now_ps);
        self.gives_way = false;
    }
}

impl Slices {
    /// Slices of a machine; `divisor` as in [`crate::Config::slice_divisor`].
    pub(crate) fn new(model: &Model, divisor: u64) -> Slices {
        let machines = model.machines().max(1);
        let counted = (model.threads.len() / machines).clamp(1, THREADS_COUNTED);
        Slices {
            threads: RefCell::new(model.threads.iter().map(|_| Turns::default()).collect()),
            factor: 1 + u64::from(counted.ilog2()),
            divisor: divisor.max(1),
        }
    }

    /// A number of the scheduler on this machine.
    fn scaled(&self, picoseconds: u64) -> u64 {
        self.factor * picoseconds / self.divisor
    }

    fn slice_ps(&self, ready: usize) -> u64 {
        (self.scaled(LATENCY_PS) / ready as u64).max(self.scaled(GRANULARITY_PS))
    }

    /// Decides at an event of a worker which one runs: `run_ps` is the worker's run time if it does
    /// not run. With `yields` the worker offers the processor.
    pub(crate) fn turn(
        &self,
        seat: WorkerSeat,
        worker: u32,
        run_ps: &mut u64,
        now_ps: u64,
        yields: bool,
    ) -> Turn {
        let turns = &mut self.threads.borrow_mut()[seat.slot as usize];
        match turns.running {
            Some(running) if running == worker => {}
            Some(running) => {
                turns.count(now_ps);
                *run_ps = (*run_ps).max(turns.least_ps.saturating_sub(self.scaled(LATENCY_PS) / 2));
                turns.wait(worker, *run_ps);
                turns.gives_way |= turns.run_ps > *run_ps + self.scaled(WAKE_UP_PS);
                return Turn::Wait(running, turns.gives_way);
            }
            None => {
                *run_ps = (*run_ps).max(turns.least_ps.saturating_sub(self.scaled(LATENCY_PS) / 2));
                turns.run(worker, *run_ps, now_ps);
                return Turn::Own;
            }
        }
        let Some(first) = turns.first() else {
            turns.count(now_ps);
            turns.began_ps = now_ps;
            return Turn::Own;
        };
        turns.count(now_ps);
        let first_ps = turns.ready[first].run_ps;
        let is_over = now_ps.saturating_sub(turns.began_ps) >= self.slice_ps(turns.ready.len() + 1);
        let ends = (is_over || turns.gives_way) && first_ps < turns.run_ps;
        let passes = yields && first_ps <= turns.run_ps + self.scaled(WAKE_UP_PS);
        if !ends && !passes {
            if is_over {
                (turns.began_ps, turns.gives_way) = (now_ps, false);
            }
            return Turn::Own;
        }
        *run_ps = turns.run_ps;
        // The next one is chosen before the worker waits with it.
        let next = turns.next(now_ps + SWITCH_PS);
        turns.wait(worker, *run_ps);
        next.map_or(Turn::Own, Turn::Other)
    }

    /// Records that a worker sleeps or leaves its hardware thread. Returns its run time, and the
    /// worker that runs instead.
    pub(crate) fn leave(&self, seat: WorkerSeat, worker: u32, now_ps: u64) -> (Option<u64>, Option<u32>) {
        let turns = &mut self.threads.borrow_mut()[seat.slot as usize];
        if turns.running != Some(worker) {
            turns.ready.retain(|ready| ready.worker != worker);
            return (None, None);
        }
        turns.count(now_ps);
        let run_ps = turns.run_ps;
        turns.running = None;
        (Some(run_ps), turns.next(now_ps + SWITCH_PS))
    }

    /// True if workers wait for the hardware thread.
    pub(crate) fn has_others(&self, seat: WorkerSeat) -> bool {
        !self.threads.borrow()[seat.slot as usize].ready.is_empty()
    }
}
