//! Operations of a worker on pages that it will need soon.

use platform::files::Files;

use super::Pool;
use super::worker::PoolWorker;

impl<P: Files> PoolWorker<'_, P> {
    /// Most pages that the worker reads ahead; 0: it reads none ahead.
    pub(crate) fn read_ahead_max(&self) -> usize {
        self.reads.most()
    }

    /// Begins the read-ahead of another scan.
    pub(crate) fn begin_read_ahead(&mut self) {
        self.reads.begin_scan();
    }

    /// The scan is over: what was read ahead for it and not used is not needed.
    pub(crate) fn end_read_ahead(&mut self) {
        self.reads.end_scan(self.c, &self.pool.store);
    }

    /// Reads the pages of these that no frame has, if there is room; they will be needed soon.
    pub(crate) fn read_ahead(&mut self, numbers: &[u64]) {
        let (c, pool): (_, &Pool<P>) = (self.c, self.pool);
        let is_missing = |number: &&u64| {
            **number <= pool.store.pages_max && pool.find(c, **number).is_none() && !self.reads.has(**number)
        };
        let mut missing: Vec<u64> = numbers.iter().filter(is_missing).copied().collect();
        // In the order of their coming, but neighbours together.
        let is_down = missing.first() > missing.last();
        missing.sort_unstable();
        missing.dedup();
        let mut runs: Vec<(u64, usize)> = Vec::new();
        for number in missing {
            match runs.last_mut() {
                Some((first, count)) if *first + *count as u64 == number && *count < self.reads.run_max() => {
                    *count += 1;
                }
                _ => runs.push((number, 1)),
            }
        }
        if is_down {
            runs.reverse();
        }
        for (first, count) in runs {
            if !self.reads.submit(c, &pool.store, first, count) {
                break;
            }
        }
    }
}
