//! One writer and pollers: how long many threads take to see that a word has changed.
//!
//! The writer writes the time into the word, so that a poller can compute how long the change took
//! to reach it. Operations are changes that pollers saw; a change that is overwritten before a
//! poller reads it does not count.

use std::sync::atomic::Ordering;

use platform::{Nanos, OutOfMemory, Platform};

use super::run::Watch;
use super::types::{LockCounts, LockError, LockResult, LockSpec};
use crate::Outcome;
use crate::lines::{Lines, compute};
use crate::threads::{Phase, Phases, on_threads};

/// The last value, which ends the run.
const END: u64 = u64::MAX;

/// Results of one thread.
struct ThreadResult {
    counts: LockCounts,
    /// Changes, including those of the warm-up, without the last one.
    changes: u64,
    /// True if the values that the thread read ascended.
    ascending: bool,
}

/// Runs the experiment: the first thread writes, the others poll.
pub(super) fn run<P: Platform>(
    c: P::Core,
    spec: &LockSpec,
    watch: Watch<'_, P>,
) -> Result<LockResult, LockError> {
    let line = Lines::<P>::new(c, spec.home(), 1, "polled word")?;
    let observe = watch.observe;
    let job = |c, number: usize, phases: &Phases<P>| -> Result<ThreadResult, OutOfMemory> {
        phases.start(c);
        Ok(if number == 0 {
            write(c, spec, line.word(0, 0), phases)
        } else {
            poll(c, number, line.word(0, 0), phases, observe)
        })
    };
    let (ended, elapsed_nanos) =
        on_threads(c, &spec.places(), spec.times(), watch.measuring, watch.stop, &job)?;
    let written = ended.first().map_or(0, |writer| writer.changes);
    let check = ("poll_order", check(written, &ended));
    Ok(LockResult { threads: ended.iter().map(|thread| thread.counts).collect(), elapsed_nanos, check })
}

fn check(written: u64, ended: &[ThreadResult]) -> Outcome {
    let wrong = ended.iter().position(|thread| !thread.ascending || thread.changes > written);
    match wrong {
        None => Outcome::Ok,
        Some(thread) => Outcome::Violated(format!(
            "thread {thread} saw {} changes of {written}, {}",
            ended[thread].changes,
            if ended[thread].ascending { "in order" } else { "and an older one after a newer one" }
        )),
    }
}

/// The operations of a thread while the run measures.
#[derive(Default)]
struct Window {
    counts: LockCounts,
    open: bool,
}

impl Window {
    /// Records the phase; returns true if operations count in it.
    fn enter(&mut self, phase: Phase) -> bool {
        if phase == Phase::Measuring && !self.open {
            self.open = true;
            self.counts = LockCounts::default();
        }
        phase == Phase::Measuring
    }
}

fn write<P: Platform>(c: P::Core, spec: &LockSpec, word: &P::Word, phases: &Phases<P>) -> ThreadResult {
    let (mut window, mut changes, mut last) = (Window::default(), 0, 0);
    loop {
        let phase = phases.now(c);
        if phase == Phase::Over {
            break;
        }
        last = P::now(c).0.max(last + 1);
        // Release: pairs with the acquire of the pollers.
        P::store(c, word, last, Ordering::Release);
        changes += 1;
        window.counts.operations += u64::from(window.enter(phase));
        compute::<P>(c, spec.delay);
    }
    // Release: as above.
    P::store(c, word, END, Ordering::Release);
    ThreadResult { counts: window.counts, changes, ascending: true }
}

fn poll<P: Platform>(
    c: P::Core,
    number: usize,
    word: &P::Word,
    phases: &Phases<P>,
    observe: &(dyn Fn(usize, u64) + Sync),
) -> ThreadResult {
    let (mut window, mut changes, mut last, mut ascending) = (Window::default(), 0, 0, true);
    loop {
        let value = P::spin_while(c, word, last, None);
        if value == END {
            break;
        }
        if value == last {
            continue;
        }
        ascending &= value > last;
        last = value;
        changes += 1;
        if window.enter(phases.now(c)) {
            let nanos = P::now(c).since(Nanos(value));
            window.counts.operations += 1;
            window.counts.timed += 1;
            window.counts.timed_nanos += nanos;
            observe(number, nanos);
        }
    }
    ThreadResult { counts: window.counts, changes, ascending }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_misses_neither_disorder_nor_inventions() {
        let ended = |changes, ascending| ThreadResult { counts: LockCounts::default(), changes, ascending };
        assert_eq!(check(5, &[ended(5, true), ended(3, true)]), Outcome::Ok);
        assert!(matches!(check(5, &[ended(5, true), ended(3, false)]), Outcome::Violated(_)));
        assert!(matches!(check(5, &[ended(5, true), ended(6, true)]), Outcome::Violated(_)));
    }
}
