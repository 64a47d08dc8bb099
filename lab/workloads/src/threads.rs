//! Threads of an experiment, and its phases: warm-up, measurement and end. The main thread writes
//! the phase into one word, and every thread reads it before it continues, which costs a hit in the
//! nearest cache.

// The lock passes results to the caller: no engine runs here, and no simulated time passes under
// the lock.
#![allow(clippy::disallowed_types)]

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use platform::{Nanos, OutOfMemory, Place, Platform};

use crate::lines::Lines;

/// Longest time between two calls of `stop` on the main thread.
const STOP_CHECK_NANOS: u64 = 1_000_000;

/// Lengths of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time before measuring, from the moment at which all threads have started.
    pub warm_up_nanos: u64,
    /// Time that is measured.
    pub nanos: u64,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Operations do not count.
    WarmUp,
    /// Operations count.
    Measuring,
    /// Each thread ends after its current operation.
    Over,
}

/// Values of the phase word. 0: threads have not started yet.
const WARM_UP: u64 = 1;
const MEASURING: u64 = 2;
const OVER: u64 = 3;

/// The words through which the threads synchronize.
pub(crate) struct Phases<P: Platform> {
    lines: Lines<P>,
    threads: u64,
}

impl<P: Platform> Phases<P> {
    pub(crate) fn new(c: P::Core, threads: usize) -> Result<Self, OutOfMemory> {
        Ok(Phases { lines: Lines::new(c, None, 2, "phases")?, threads: threads as u64 })
    }

    fn phase_word(&self) -> &P::Word {
        self.lines.word(0, 0)
    }

    fn ready_word(&self) -> &P::Word {
        self.lines.word(1, 0)
    }

    /// Reports that this thread has started, and waits until all threads have.
    pub(crate) fn start(&self, c: P::Core) {
        // Release: pairs with the acquire of the main thread.
        P::fetch_add(c, self.ready_word(), 1, Ordering::Release);
        P::unpark(c, self.ready_word(), 1);
        while P::spin_while(c, self.phase_word(), 0, None) == 0 {}
    }

    /// The phase now.
    #[inline(always)]
    pub(crate) fn now(&self, c: P::Core) -> Phase {
        // Relaxed: the phase orders no other access.
        match P::load(c, self.phase_word(), Ordering::Relaxed) {
            WARM_UP => Phase::WarmUp,
            MEASURING => Phase::Measuring,
            _ => Phase::Over,
        }
    }

    /// Waits for the threads, leads them through the phases, and returns the length of the
    /// measurement; on the main thread. Calls `measuring` when the warm-up is over, and ends the
    /// run early if `stop` returns true.
    pub(crate) fn lead(
        &self,
        c: P::Core,
        Times { warm_up_nanos, nanos }: Times,
        measuring: &mut dyn FnMut(P::Core),
        stop: &dyn Fn() -> bool,
    ) -> u64 {
        loop {
            // Acquire: pairs with the release of the threads.
            let ready = P::load(c, self.ready_word(), Ordering::Acquire);
            if ready >= self.threads {
                break;
            }
            P::park(c, self.ready_word(), ready, Some(P::now(c).plus(STOP_CHECK_NANOS)));
        }
        self.enter(c, WARM_UP);
        self.wait(c, P::now(c).plus(warm_up_nanos), stop);
        measuring(c);
        let begin = P::now(c);
        self.enter(c, MEASURING);
        let end = self.wait(c, begin.plus(nanos), stop);
        self.enter(c, OVER);
        end.since(begin)
    }

    fn enter(&self, c: P::Core, phase: u64) {
        // Release: pairs with the loads of the threads, which see all that the main thread has
        // prepared.
        P::store(c, self.phase_word(), phase, Ordering::Release);
    }

    /// Sleeps until this moment, or until `stop` returns true, and returns the time.
    fn wait(&self, c: P::Core, until: Nanos, stop: &dyn Fn() -> bool) -> Nanos {
        loop {
            let now = P::now(c);
            if now >= until || stop() {
                return now;
            }
            let wake_up = now.plus(STOP_CHECK_NANOS).min(until);
            P::park(c, self.ready_word(), self.threads, Some(wake_up));
        }
    }
}

/// The work of one thread. It calls [`Phases::start`] once, and returns soon after the last phase
/// has begun.
type Job<'a, P, T> = dyn Fn(<P as Platform>::Core, usize, &Phases<P>) -> Result<T, OutOfMemory> + Sync + 'a;

/// Runs `job` on a thread at each place; returns the results in order, and the length of the
/// measurement. Calls `measuring` on the main thread when the warm-up is over, and `stop` every
/// millisecond.
pub(crate) fn on_threads<P: Platform, T: Send>(
    c: P::Core,
    places: &[Place],
    times: Times,
    measuring: &mut dyn FnMut(P::Core),
    stop: &dyn Fn() -> bool,
    job: &Job<'_, P, T>,
) -> Result<(Vec<T>, u64), OutOfMemory> {
    let phases = Phases::<P>::new(c, places.len())?;
    let results: Mutex<Vec<Option<Result<T, OutOfMemory>>>> =
        Mutex::new(places.iter().map(|_| None).collect());
    let worker = |c, number: usize| {
        let result = job(c, number, &phases);
        if let Ok(mut results) = results.lock() {
            results[number] = Some(result);
        }
    };
    let mut elapsed_nanos = 0;
    P::parallel(c, places, &worker, &mut |c| {
        elapsed_nanos = phases.lead(c, times, measuring, stop);
    });
    let results = results.into_inner().unwrap_or_default().into_iter().flatten();
    Ok((results.collect::<Result<Vec<T>, OutOfMemory>>()?, elapsed_nanos))
}
