//! The words that the workers of a run and the main thread share.

use std::ops::Range;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

/// Commits between two announcements to the main thread.
pub(crate) const ANNOUNCE_COMMITS: u64 = 64;

/// Lines of the board before those of the workers.
const LINES: usize = 5;

/// Words that workers and the main thread share. They belong to no machine, where workers are on several.
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

    /// Not 0 once all workers shall stop.
    pub(crate) fn stop(&self) -> &P::Word {
        self.word(0, 0)
    }

    /// Workers that are done.
    pub(crate) fn done(&self) -> &P::Word {
        self.word(1, 0)
    }

    /// Rows loaded.
    pub(crate) fn rows(&self) -> &P::Word {
        self.word(2, 0)
    }

    /// Waits until all workers are here: the moment at which they begin.
    pub(crate) fn meet(&self, c: P::Core) -> Nanos {
        // Relaxed, all of them: nothing but the moment is handed on.
        if P::fetch_add(c, self.word(3, 0), 1, Ordering::Relaxed) + 1 == self.workers.len() as u64 {
            // 0 says that a worker is missing.
            P::store(c, self.began(), P::now(c).0.max(1), Ordering::Relaxed);
        }
        let mut began = 0;
        while began == 0 {
            began = P::spin_while(c, self.began(), 0, None);
        }
        Nanos(began)
    }

    /// When the workers began; 0 before.
    pub(crate) fn began(&self) -> &P::Word {
        self.word(4, 0)
    }

    /// Not 0 once a worker is gone that others may wait for.
    pub(crate) fn broken(&self) -> &P::Word {
        self.word(0, 1)
    }

    /// Commits and aborts of one worker, as announced.
    pub(crate) fn counts(&self, worker: usize) -> (&P::Word, &P::Word) {
        let line = LINES + worker - self.workers.start;
        (self.word(line, 0), self.word(line, 1))
    }

    /// A worker tells the main thread its commits and aborts so far.
    pub(crate) fn announce(&self, c: P::Core, worker: usize, commits: u64, aborts: u64) {
        let (commit_word, abort_word) = self.counts(worker);
        // Relaxed, twice: figures for the progress line.
        P::store(c, commit_word, commits, Ordering::Relaxed);
        P::store(c, abort_word, aborts, Ordering::Relaxed);
    }
}
