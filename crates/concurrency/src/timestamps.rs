//! Timestamps for schemes that order transactions by them: from one shared counter, or from the
//! synchronized clock.
//!
//! Source: Yu, Bezerra, Pavlo, Devadas, Stonebraker, "Staring into the abyss: an evaluation of
//! concurrency control with one thousand cores", PVLDB 2014, section 4.3. The counter is one word
//! that every transaction adds to; its line wanders from core to core. The clock costs no
//! communication: a timestamp is the number of ticks, with the worker's number below them, so that
//! no two workers get the same.
//!
//! Timestamps of the counter ascend in real time: a worker that asks after another has got an
//! answer gets a larger one. Those of the clock do so as far as the machine's clocks agree: a
//! scheme may abort needlessly where they do not, but must not rely on it.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};
use terms::Category;

use crate::meter::Meter;
use crate::ways::TimestampDraws;

/// The source of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampSource {
    /// One counter for all workers.
    Counter,
    /// The synchronized clock.
    #[default]
    Clock,
}

/// Nanoseconds of a step of rough timestamps from the clock, as a power of two.
const ROUGH_STEP_BITS: u32 = 10;
/// Bits of those that distinguish workers.
const ROUGH_WORKER_BITS: u32 = 10;

/// A moment in the order of some scheme. No two calls of [`Timestamps::next`] give the same; none
/// gives 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// State with which a worker takes timestamps.
#[derive(Clone, Copy, Debug)]
pub struct TimestampWorker {
    number: u64,
    /// Ticks of its last timestamp: the next has more, even if the clock has not moved.
    ticks: u64,
}

impl TimestampWorker {
    /// WorkerState number `number`, as in [`Parts::worker`](crate::Parts::worker).
    pub fn new(number: usize) -> Self {
        TimestampWorker { number: number as u64, ticks: 0 }
    }
}

/// The source of timestamps of one database.
pub struct Timestamps<P: Platform>(Source<P>);

enum Source<P: Platform> {
    /// One word: the last timestamp given.
    Counter(P::Region),
    Clock {
        /// The clock when the database was made: its ticks since the machine's start would leave
        /// less room.
        since: u64,
        /// Low bits for the worker's number.
        worker_bits: u32,
    },
}

impl<P: Platform> Timestamps<P> {
    /// A source for up to `workers` workers.
    pub fn new(c: P::Core, source: TimestampSource, workers: usize) -> Result<Self, OutOfMemory> {
        Ok(Timestamps(match source {
            TimestampSource::Counter => Source::Counter(P::region(c, None, LINE_BYTES, "timestamps")?),
            TimestampSource::Clock => Source::Clock {
                since: P::timestamp(c),
                worker_bits: workers.max(2).next_power_of_two().trailing_zeros(),
            },
        }))
    }

    /// A new timestamp, larger than all that this worker got before.
    #[inline]
    pub fn next(&self, c: P::Core, worker: &mut TimestampWorker) -> Timestamp {
        match &self.0 {
            // SeqCst: timestamps order transactions that share no other word.
            Source::Counter(region) => {
                Timestamp(P::fetch_add(c, P::word_of(region, 0), 1, Ordering::SeqCst) + 1)
            }
            Source::Clock { since, worker_bits } => {
                // A core whose clock is behind that of the database's creator starts at 0.
                let ticks = P::timestamp(c).saturating_sub(*since).max(worker.ticks + 1);
                worker.ticks = ticks;
                Timestamp(ticks << worker_bits | worker.number)
            }
        }
    }

    /// A new timestamp that takes less room: low bits distinguish timestamps which are close to
    /// each other. Those from the clock are in steps of about a microsecond, and a thousand workers
    /// further on two may get the same.
    #[inline]
    pub(crate) fn next_rough(&self, c: P::Core, worker: &mut TimestampWorker) -> Timestamp {
        match &self.0 {
            Source::Counter(_) => self.next(c, worker),
            Source::Clock { .. } => {
                worker.ticks = (P::now(c).0 >> ROUGH_STEP_BITS).max(worker.ticks + 1);
                let number = worker.number & ((1 << ROUGH_WORKER_BITS) - 1);
                Timestamp(worker.ticks << ROUGH_WORKER_BITS | number)
            }
        }
    }

    /// Returns true if a rough timestamp is further away from new ones than `distance`.
    pub(crate) fn has_passed(&self, c: P::Core, Timestamp(past): Timestamp, distance: u64) -> bool {
        let now = match &self.0 {
            // Relaxed: how far about.
            Source::Counter(region) => P::load(c, P::word_of(region, 0), Ordering::Relaxed),
            Source::Clock { .. } => P::now(c).0 >> ROUGH_STEP_BITS << ROUGH_WORKER_BITS,
        };
        // A worker's own steps may be ahead of the clock.
        let ahead = now.wrapping_sub(past);
        ahead > distance && (ahead as i64) > 0
    }
}

/// Timestamps that attempts draw and do not use, where the published program draws them
/// ([`TimestampDraws::Published`]): their effect is the traffic of the counter's line.
pub(crate) struct UnusedTimestamps<P: Platform>(Option<Timestamps<P>>);

impl<P: Platform> UnusedTimestamps<P> {
    /// Those of an instance with this source.
    pub(crate) fn new(
        c: P::Core,
        source: TimestampSource,
        draws: TimestampDraws,
    ) -> Result<Self, OutOfMemory> {
        let are_drawn = source == TimestampSource::Counter && draws == TimestampDraws::Published;
        let timestamps = are_drawn.then(|| Timestamps::new(c, source, 1));
        timestamps.transpose().map(UnusedTimestamps)
    }

    /// None.
    pub(crate) fn none() -> Self {
        UnusedTimestamps(None)
    }

    /// An attempt draws one, if attempts do.
    #[inline(always)]
    pub(crate) fn draw(&self, c: P::Core, meter: &mut Meter) {
        if let Some(timestamps) = &self.0 {
            let before = meter.enter::<P>(c, Category::Timestamp);
            // A counter needs no state of its worker.
            timestamps.next(c, &mut TimestampWorker::new(0));
            meter.leave::<P>(c, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn timestamps_are_unique_and_ascend() {
        let c = Hardware::core();
        for source in [TimestampSource::Counter, TimestampSource::Clock] {
            let timestamps = Timestamps::<Hardware>::new(c, source, 3).expect("memory");
            let mut workers = [0, 1, 2].map(TimestampWorker::new);
            let mut given = Vec::new();
            for _ in 0..100 {
                for worker in &mut workers {
                    given.push(timestamps.next(c, worker));
                }
            }
            assert!(given.iter().all(|timestamp| timestamp.0 > 0));
            for worker in 0..workers.len() {
                let own: Vec<_> = given.iter().skip(worker).step_by(workers.len()).collect();
                assert!(own.is_sorted_by(|before, after| before < after), "{source:?}: {own:?}");
            }
            given.sort_unstable();
            assert!(given.is_sorted_by(|before, after| before < after), "{source:?} gave one twice");
        }
    }
}
