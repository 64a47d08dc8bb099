//! A [`QueueLatch`] in memory of its own that safe code can use, with words on its line: what the
//! benchmark of locks holds, and what the counter benchmark of "OLTP on Hardware Islands" (Porobic
//! et al., PVLDB 2012, figure 2) increments.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform, RegionBytes};

use crate::latch::{QueueLatch, QueueNode};

/// Words on the line of a latch, beside it.
pub const WORDS_BESIDE_LATCH: usize = LINE_BYTES / 8 - 1;

/// Bytes from one latch to the next: also where a line has 128 bytes, or comes with its neighbour,
/// each is alone.
const STRIDE: usize = 2 * LINE_BYTES;

/// Latch and values share one line, as a small object and its latch do.
#[repr(C, align(64))]
struct Line<P: Platform> {
    latch: QueueLatch<P>,
    words: [P::Word; WORDS_BESIDE_LATCH],
}

/// Latches in a row, each on a line of its own, with words beside it.
pub struct LatchedLines<P: Platform> {
    region: P::Region,
    count: usize,
}

/// A counter and its latch, on a line of their own.
pub struct LatchedWord<P: Platform> {
    lines: LatchedLines<P>,
}

/// A core's place in the queue of one latch at a time, on a line of its own.
pub struct LatchSeat<P: Platform> {
    region: P::Region,
    kind: PhantomData<P>,
}

/// A latch that is held, and is released however its holder ends.
struct HeldWord<'a, P: Platform> {
    core: P::Core,
    latch: &'a QueueLatch<P>,
    node: &'a QueueNode<P>,
}

impl<P: Platform> Drop for HeldWord<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if !P::is_gone(self.core) {
            // SAFETY: `LatchedLines::hold` made this value when it had acquired the latch with this
            // node.
            unsafe { self.latch.release(self.core, self.node) };
        }
    }
}

impl<P: Platform> LatchedLines<P> {
    /// `count` free latches on `node`, all words 0; `None`: where the caller runs. `name` is theirs
    /// in reports.
    pub fn new(
        c: P::Core,
        node: Option<Node>,
        count: usize,
        name: &'static str,
    ) -> Result<Self, OutOfMemory> {
        const { assert!(size_of::<Line<P>>() == LINE_BYTES) };
        Ok(LatchedLines { region: P::region(c, node, count.saturating_mul(STRIDE), name)?, count })
    }

    fn line(&self, number: usize) -> &Line<P> {
        assert!(number < self.count, "no latch {number}");
        // SAFETY: the region has `count` strides, zeroed when it was made: a free latch and words
        // each. It lives as long as `self`.
        unsafe { &*self.region.base().add(number * STRIDE).cast::<Line<P>>() }
    }

    /// Runs `body` with the latch `number` held. `body` does not wait for the same latch.
    #[inline]
    pub fn hold<R>(&self, c: P::Core, number: usize, seat: &mut LatchSeat<P>, body: impl FnOnce() -> R) -> R {
        let latch = &self.line(number).latch;
        let node = seat.node();
        // SAFETY: the seat is borrowed until `held` has released the latch, also if `body` panics,
        // so it is used for nothing else, and its region stays.
        unsafe { latch.acquire(c, node) };
        let _held = HeldWord { core: c, latch, node };
        body()
    }

    /// A word beside the latch `number`.
    #[inline]
    pub fn word(&self, number: usize, word: usize) -> &P::Word {
        &self.line(number).words[word]
    }
}

impl<P: Platform> LatchedWord<P> {
    /// A counter at 0 on `node`; `None`: where the caller runs.
    pub fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        Ok(LatchedWord { lines: LatchedLines::new(c, node, 1, "latched counter")? })
    }

    /// Adds under the latch; the value before.
    pub fn add(&self, c: P::Core, seat: &mut LatchSeat<P>, value: u64) -> u64 {
        let word = self.lines.word(0, 0);
        self.lines.hold(c, 0, seat, || {
            // Relaxed, twice: ordered by the latch.
            let before = P::load(c, word, Ordering::Relaxed);
            P::store(c, word, before.wrapping_add(value), Ordering::Relaxed);
            before
        })
    }

    /// The value, while no core adds.
    pub fn value(&self) -> u64 {
        P::peek(self.lines.word(0, 0))
    }
}

impl<P: Platform> LatchSeat<P> {
    /// A seat on `node`; `None`: where the caller runs.
    pub fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        // The second line: in caches that choose a set by address, the first lines of regions
        // compete.
        Ok(LatchSeat { region: P::region(c, node, 2 * LINE_BYTES, "latch seat")?, kind: PhantomData })
    }

    fn node(&mut self) -> &QueueNode<P> {
        const { assert!(size_of::<QueueNode<P>>() == LINE_BYTES) };
        // SAFETY: the region's second line, zeroed when it was made and used as a node only, which
        // lives as long as `self`.
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

    #[test]
    fn a_panic_releases_the_latch() {
        let c = Hardware::core();
        let lines = LatchedLines::<Hardware>::new(c, None, 2, "test").expect("memory");
        let mut seat = LatchSeat::new(c, None).expect("memory");
        let body = || lines.hold(c, 1, &mut seat, || panic!("on purpose"));
        let result: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        assert!(result.is_err() && !lines.line(1).latch.is_held(c));
        assert_eq!(lines.hold(c, 1, &mut seat, || 7), 7);
    }

    #[test]
    fn latches_and_words_are_apart() {
        let c = Hardware::core();
        let lines = LatchedLines::<Hardware>::new(c, None, 2, "test").expect("memory");
        let mut seats = [LatchSeat::new(c, None).expect("memory"), LatchSeat::new(c, None).expect("memory")];
        let [first, second] = &mut seats;
        lines.hold(c, 0, first, || lines.hold(c, 1, second, || Hardware::poke(lines.word(1, 6), 5)));
        assert_eq!((Hardware::peek(lines.word(0, 6)), Hardware::peek(lines.word(1, 6))), (0, 5));
    }
}
