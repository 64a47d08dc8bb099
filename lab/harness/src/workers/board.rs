//! The words that the workers of a run and the main thread share.

use std::ops::Range;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

/// Commits between two announcements to the main thread.
pub(crate) const ANNOUNCE_COMMITS: u64 = 64;

/// Interval at which a worker that waits for others checks the stop word.
const STOP_CHECK_NANOS: u64 = 10_000_000;

/// Lines of the board before those of the workers.
const LINES: usize = 5;

/// Words that workers and the main thread share. If workers are on several machines the words
/// belong to none of them.
pub(crate) struct Board<P: Platform> {
    region: P::Region,
    /// The workers of this process, by their numbers in the deployment.
    workers: Range<usize>,
}

impl<P: Platform> Board<P> {
    pub(crate) fn new(c: P::Core, workers: Range<usize>) -> Result<Self, OutOfMemory> {
        let region = P::control_region(c, (LINES + workers.len()) * LINE_BYTES, "benchmark board")?;
        Ok(Board { region, workers })
    }

    fn word(&self, line: usize, word: usize) -> &P::Word {
        assert!(line < LINES + self.workers.len() && word < 8);
        P::word_of(&self.region, (line * 8 + word) * 8)
    }

    /// The workers of this process.
    pub(crate) fn workers(&self) -> Range<usize> {
        self.workers.clone()
    }

    /// Not 0 once all workers have to stop.
    pub(crate) fn stop(&self) -> &P::Word {
        self.word(0, 0)
    }

    /// Number of workers that are done.
    pub(crate) fn done(&self) -> &P::Word {
        self.word(1, 0)
    }

    /// Number of rows loaded.
    pub(crate) fn rows(&self) -> &P::Word {
        self.word(2, 0)
    }

    /// Waits until all workers have arrived; returns the time at which they begin.
    pub(crate) fn wait_to_begin(&self, c: P::Core) -> Nanos {
        self.arrive(c, 0);
        let mut began = 0;
        while began == 0 {
            began = P::spin_while(c, self.began(), 0, None);
        }
        Nanos(began)
    }

    /// Waits until all workers have arrived once more; returns the time at which they continue.
    /// `None`: they have to stop, and a worker may never arrive. `attend` is called repeatedly
    /// meanwhile, and returns true if it has waited.
    pub(crate) fn wait_to_resume<E>(
        &self,
        c: P::Core,
        attend: &mut dyn FnMut() -> Result<bool, E>,
    ) -> Result<Option<Nanos>, E> {
        self.arrive(c, 1);
        // Relaxed: the flag orders no other access.
        while P::load(c, self.stop(), Ordering::Relaxed) == 0 {
            let wait_nanos = if attend()? { 0 } else { STOP_CHECK_NANOS };
            let resumed = P::spin_while(c, self.resumed(), 0, Some(P::now(c).plus(wait_nanos)));
            if resumed != 0 {
                return Ok(Some(Nanos(resumed)));
            }
        }
        Ok(None)
    }

    /// Counts one more worker that has arrived. The last one publishes the time.
    fn arrive(&self, c: P::Core, number: usize) {
        // Relaxed, all of them: the time orders no other access.
        if P::fetch_add(c, self.word(3, number), 1, Ordering::Relaxed) + 1 == self.workers.len() as u64 {
            // 0 means that a worker is missing.
            P::store(c, self.word(4, number), P::now(c).0.max(1), Ordering::Relaxed);
        }
    }

    /// The time at which the workers began; 0 before.
    pub(crate) fn began(&self) -> &P::Word {
        self.word(4, 0)
    }

    /// The time at which the workers continued after they had arrived once more; 0 before.
    pub(crate) fn resumed(&self) -> &P::Word {
        self.word(4, 1)
    }

    /// Not 0 once a worker is gone for which others may wait.
    pub(crate) fn broken(&self) -> &P::Word {
        self.word(0, 1)
    }

    /// Commits and aborts of one worker, as announced.
    pub(crate) fn counts(&self, worker: usize) -> (&P::Word, &P::Word) {
        let line = LINES + worker - self.workers.start;
        (self.word(line, 0), self.word(line, 1))
    }

    /// Publishes the commits and aborts of a worker so far, for the main thread.
    pub(crate) fn announce(&self, c: P::Core, worker: usize, commits: u64, aborts: u64) {
        let (commit_word, abort_word) = self.counts(worker);
        // Relaxed, twice: figures for the progress line.
        P::store(c, commit_word, commits, Ordering::Relaxed);
        P::store(c, abort_word, aborts, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn who_waits_for_others_goes_when_the_run_ends() {
        let c = Hardware::core();
        let board = Board::<Hardware>::new(c, 0..2).expect("memory");
        Hardware::store(c, board.stop(), 1, Ordering::Relaxed);
        let alone = &mut || Ok::<bool, ()>(false);
        assert_eq!(board.wait_to_resume(c, alone), Ok(None), "the other one does not come");
        assert_eq!(Hardware::load(c, board.resumed(), Ordering::Relaxed), 0);
        let single = Board::<Hardware>::new(c, 3..4).expect("memory");
        let before = Hardware::now(c);
        assert!(
            single.wait_to_resume(c, alone).is_ok_and(|moment| moment.is_some_and(|moment| moment >= before))
        );
        let failing = Board::<Hardware>::new(c, 0..2).expect("memory");
        assert_eq!(failing.wait_to_resume(c, &mut || Err("gone")), Err("gone"));
    }
}
