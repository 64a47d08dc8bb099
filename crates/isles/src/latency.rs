//! Durations of transactions: one histogram for each session, written by that session only.
// Threads of the program read the counters of a session; these words do not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each power of two: a reported figure is at most an eighth too large.
const STEPS: usize = 8;
/// Powers of two: a duration of more than 9 hours is counted as 9 hours.
const POWERS: usize = 45;
const BUCKETS: usize = (POWERS - 2) * STEPS;

/// Histogram of durations.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }

    /// Counts a transaction, in a histogram that only the caller writes.
    pub(crate) fn count(&self, nanos: u64) {
        let bucket = &self.buckets[bucket_of(nanos)];
        // Relaxed: a figure.
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, sum: &mut Latencies) {
        for (sum, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            // Relaxed: figures, which need not be of one moment.
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

/// Returns the bucket of a duration: one bucket for each nanosecond below 8 ns, then eight buckets
/// for each power of two.
fn bucket_of(nanos: u64) -> usize {
    let power = nanos.max(1).ilog2() as usize;
    match power {
        0..3 => nanos as usize,
        _ => (((power - 2) * STEPS) + (nanos >> (power - 3)) as usize % STEPS).min(BUCKETS - 1),
    }
}

/// Returns the longest duration of a bucket.
fn longest(bucket: usize) -> u64 {
    match bucket / STEPS {
        0 => bucket as u64,
        group => ((STEPS + bucket % STEPS + 1) as u64 * (1 << (group - 1))) - 1,
    }
}

/// Histogram of the durations of transactions, from the call to its return, including all attempts,
/// the pauses between them and the wait for the disk. It is a field of
/// [`Statistics`](crate::Statistics::latencies). [`Self::count`] has an example.
#[derive(Clone, PartialEq, Eq)]
pub struct Latencies {
    buckets: Box<[u64]>,
}

impl std::fmt::Debug for Latencies {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = to.debug_struct("Latencies");
        shown.field("count", &self.count());
        for (name, share) in [("half", 0.5), ("p99", 0.99), ("longest", 1.0)] {
            shown.field(name, &self.at(share));
        }
        shown.finish()
    }
}

impl Latencies {
    pub(crate) fn none() -> Self {
        Latencies { buckets: vec![0; BUCKETS].into() }
    }

    /// Returns the number of transactions.
    ///
    /// ```
    /// let database = isles::Database::in_memory().latencies(true).open()?;
    /// database.transaction(|_| Ok(()))?;
    /// let latencies = database.statistics().latencies.expect("they are counted");
    /// assert_eq!(latencies.count(), 1);
    /// assert!(latencies.at(0.99) > Some(std::time::Duration::ZERO));
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the duration that this share of the transactions (0.0 to 1.0) did not exceed: 0.99
    /// gives the 99th percentile. The result is at most an eighth larger than the exact figure.
    /// `None` if there was no transaction. [`Self::count`] has an example.
    pub fn at(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|bucket| {
            seen += bucket;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(longest(bucket)))
    }
}
