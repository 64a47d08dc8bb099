//! Warm-up, measurement and end, as all threads of a run see them: one word that the main thread
//! writes and every thread reads before each operation, which costs a hit in the nearest cache.

use std::sync::atomic::Ordering;

use platform::{Nanos, OutOfMemory, Platform};

use super::memory::Lines;

/// Longest time between two looks of the main thread at whether to stop.
const LOOK_NANOS: u64 = 1_000_000;

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Operations are performed and not counted.
    WarmUp,
    /// They are counted.
    Measuring,
    /// Each thread ends when its operation has.
    Over,
}

/// The word 0 says that threads are missing, the others are phases.
const WARM_UP: u64 = 1;
const MEASURING: u64 = 2;
const OVER: u64 = 3;

/// The words.
pub(super) struct Phases<P: Platform> {
    lines: Lines<P>,
    threads: u64,
}

impl<P: Platform> Phases<P> {
    pub(super) fn new(c: P::Core, threads: usize) -> Result<Self, OutOfMemory> {
        Ok(Phases { lines: Lines::new(c, None, 2, "phases")?, threads: threads as u64 })
    }

    fn phase_word(&self) -> &P::Word {
        self.lines.word(0, 0)
    }

    fn ready_word(&self) -> &P::Word {
        self.lines.word(1, 0)
    }

    /// Waits until all threads are here.
    pub(super) fn meet(&self, c: P::Core) {
        // Release: pairs with the acquire of the main thread.
        P::fetch_add(c, self.ready_word(), 1, Ordering::Release);
        P::unpark(c, self.ready_word(), 1);
        while P::spin_while(c, self.phase_word(), 0, None) == 0 {}
    }

    /// The phase now.
    #[inline(always)]
    pub(super) fn now(&self, c: P::Core) -> Phase {
        // Relaxed: only says that it is time to go on.
        match P::load(c, self.phase_word(), Ordering::Relaxed) {
            WARM_UP => Phase::WarmUp,
            MEASURING => Phase::Measuring,
            _ => Phase::Over,
        }
    }

    /// On the main thread: waits for the threads, leads them through the phases, and says how long
    /// it has measured. Calls `measuring` when the warm-up is over; `stop` ends everything early.
    pub(super) fn lead(
        &self,
        c: P::Core,
        (warm_up_nanos, nanos): (u64, u64),
        measuring: &mut dyn FnMut(P::Core),
        stop: &dyn Fn() -> bool,
    ) -> u64 {
        loop {
            // Acquire: pairs with the release of the threads.
            let ready = P::load(c, self.ready_word(), Ordering::Acquire);
            if ready >= self.threads {
                break;
            }
            P::park(c, self.ready_word(), ready, Some(P::now(c).plus(LOOK_NANOS)));
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
        // Release: the threads begin with what the main thread has prepared.
        P::store(c, self.phase_word(), phase, Ordering::Release);
    }

    /// Sleeps until this moment, or until `stop` says so; the moment at which that was.
    fn wait(&self, c: P::Core, until: Nanos, stop: &dyn Fn() -> bool) -> Nanos {
        loop {
            let now = P::now(c);
            if now >= until || stop() {
                return now;
            }
            let look = now.plus(LOOK_NANOS).min(until);
            P::park(c, self.ready_word(), self.threads, Some(look));
        }
    }
}
