//! A counter behind a [`QueueLatch`], in memory of its own, that safe code can use: what the counter benchmark of
//! "OLTP on Hardware Islands" (Porobic et al., PVLDB 2012, figure 2) increments.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform, RegionBytes};

use crate::latch::{QueueLatch, QueueNode};

/// Latch and value share one line, as a small object and its latch do.
#[repr(C, align(64))]
struct Line<P: Platform> {
    latch: QueueLatch<P>,
    value: P::Word,
}

/// A counter and its latch, on a line of their own.
pub struct LatchedWord<P: Platform> {
    region: P::Region,
}

/// A core's place in the queue of one latch at a time, on a line of its own.
pub struct LatchSeat<P: Platform> {
    region: P::Region,
    kind: PhantomData<P>,
}

impl<P: Platform> LatchedWord<P> {
    /// A counter at 0 on `node`; `None`: where the caller runs.
    pub fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        const { assert!(size_of::<Line<P>>() == LINE_BYTES) };
        Ok(LatchedWord { region: P::region(c, node, LINE_BYTES, "latched counter")? })
    }

    fn line(&self) -> &Line<P> {
        // SAFETY: the region holds a zeroed line, which is a free latch and a word, and lives as long as `self`.
        unsafe { &*self.region.base().cast::<Line<P>>() }
    }

    /// Adds under the latch; the value before.
    pub fn add(&self, c: P::Core, seat: &mut LatchSeat<P>, value: u64) -> u64 {
        let line = self.line();
        let node = seat.node();
        // SAFETY: the seat is borrowed until after the release, so it is used for nothing else, and its region stays.
        unsafe { line.latch.acquire(c, node) };
        // Relaxed, twice: ordered by the latch.
        let before = P::load(c, &line.value, Ordering::Relaxed);
        P::store(c, &line.value, before.wrapping_add(value), Ordering::Relaxed);
        // SAFETY: acquired above with this node.
        unsafe { line.latch.release(c, node) };
        before
    }

    /// The value, while no core adds.
    pub fn value(&self) -> u64 {
        P::peek(&self.line().value)
    }
}

impl<P: Platform> LatchSeat<P> {
    /// A seat on `node`; `None`: where the caller runs.
    pub fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        // The second line: in caches that choose a set by address, the first lines of regions compete.
        Ok(LatchSeat { region: P::region(c, node, 2 * LINE_BYTES, "latch seat")?, kind: PhantomData })
    }

    fn node(&mut self) -> &QueueNode<P> {
        const { assert!(size_of::<QueueNode<P>>() == LINE_BYTES) };
        // SAFETY: the region's second line, zeroed when it was made and used as a node only, which lives as long as
        // `self`.
        unsafe { &*self.region.base().add(LINE_BYTES).cast::<QueueNode<P>>() }
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Place};

    use super::*;

    const ROUNDS: u64 = if cfg!(miri) { 30 } else { 10_000 };

    #[test]
    fn no_addition_is_lost() {
        let c = Hardware::core();
        let word = LatchedWord::<Hardware>::new(c, None).expect("memory");
        let worker = |c, _| {
            let mut seat = LatchSeat::new(c, None).expect("memory");
            for _ in 0..ROUNDS {
                word.add(c, &mut seat, 3);
            }
        };
        Hardware::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
        assert_eq!(word.value(), 9 * ROUNDS);
    }
}
