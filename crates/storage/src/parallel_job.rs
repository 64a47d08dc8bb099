//! A job that several workers do at the same time, and how far they are.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Place, Platform};

use crate::latched::Latched;

/// Interval between two reports to the listener.
const REPORT_NANOS: u64 = 100_000_000;

/// State that the workers of a job share.
pub struct ParallelJob<P: Platform> {
    /// Words: what is done, what was claimed, and how many workers are at work.
    words: P::Region,
}

/// A function that receives the amount done, or none.
pub type Listener<'l> = Option<&'l mut dyn FnMut(u64)>;

/// A worker that is at work until this is dropped.
struct AtWork<'t, P: Platform> {
    job: &'t ParallelJob<P>,
    c: P::Core,
}

impl<P: Platform> Drop for AtWork<'_, P> {
    fn drop(&mut self) {
        if !P::is_gone(self.c) {
            let word = self.job.at_work();
            P::fetch_add(self.c, word, u64::MAX, Ordering::Relaxed);
            P::unpark(self.c, word, u32::MAX);
        }
    }
}

impl<P: Platform> ParallelJob<P> {
    /// Runs `body` on all places at the same time, with the worker's number; results by worker, or
    /// the first worker's failure. The listener is called by the caller's thread, some times a
    /// second.
    ///
    /// # Errors
    /// What `body` gives, and refused memory.
    pub fn run<T: Send, E: Send + From<OutOfMemory>>(
        c: P::Core,
        places: &[Place],
        mut listener: Listener<'_>,
        body: impl Fn(P::Core, usize, &ParallelJob<P>) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let job = ParallelJob { words: P::region(c, None, 3 * LINE_BYTES, "parallel job")? };
        P::store(c, job.at_work(), places.len() as u64, Ordering::Relaxed);
        let results = Latched::<P, _>::new(c, "parallel job", Vec::new())?;
        let worker = |c, number| {
            let _at_work = AtWork { job: &job, c };
            let result = body(c, number, &job);
            results.with(c, |results: &mut Vec<_>| results.push((number, result)));
        };
        P::parallel(c, places, &worker, &mut |c| {
            if let Some(listener) = &mut listener {
                job.watch(c, listener);
            }
        });
        let mut results = results.with(c, std::mem::take);
        results.sort_unstable_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn done(&self) -> &P::Word {
        P::word_of(&self.words, 0)
    }

    fn claimed(&self) -> &P::Word {
        P::word_of(&self.words, LINE_BYTES)
    }

    fn at_work(&self) -> &P::Word {
        P::word_of(&self.words, 2 * LINE_BYTES)
    }

    /// The number of the next piece of work, from 0: each number is given once.
    pub fn claim(&self, c: P::Core) -> usize {
        // Relaxed: what is claimed was there before the workers began.
        P::fetch_add(c, self.claimed(), 1, Ordering::Relaxed) as usize
    }

    /// Reports that this much more is done.
    pub fn add(&self, c: P::Core, amount: u64) {
        // Relaxed: a figure.
        P::fetch_add(c, self.done(), amount, Ordering::Relaxed);
    }

    /// Reports progress to the listener until all workers have ended.
    fn watch(&self, c: P::Core, listener: &mut dyn FnMut(u64)) {
        loop {
            let left = P::load(c, self.at_work(), Ordering::Relaxed);
            listener(P::load(c, self.done(), Ordering::Relaxed));
            if left == 0 {
                return;
            }
            P::park(c, self.at_work(), left, Some(P::now(c).plus(REPORT_NANOS)));
        }
    }
}
