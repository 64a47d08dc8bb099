//! The word on which a worker waits for everything.
//!
//! Protocol: a ringer first publishes what it announces; then it checks if the worker waits, and
//! only then writes to the bell. The worker announces that it waits, and then checks once more for
//! what it waits for. Both put a SeqCst fence between their write and their check (Dekker's
//! pattern), so at least one of them sees the other, and a ring is never lost. A worker that is
//! awake costs its ringers one read of the word with its state.
//!
//! A worker that does not wait, but polls many links now and then, polls this word instead: every
//! ring leaves a word not 0, and [`Bell::take_news`] takes it back before the worker polls its
//! links. What a ring does to that word and the exchange are between two SeqCst fences: a ring that
//! the exchange takes back, or that finds the word set before the exchange, has published what the
//! worker then sees.
//!
//! The bell consists of words without pointers in a line of its own. Ringers write to it if the
//! worker waits, or if there was no news: otherwise it stays in their caches.

use std::sync::atomic::Ordering;

use crate::{LINE_BYTES, Nanos, Node, OutOfMemory, Platform};

/// The worker polls.
const AWAKE: u64 = 0;
/// The worker spins on the number of rings.
const SPINNING: u64 = 1;
/// The worker sleeps, or is about to.
const PARKED: u64 = 2;

/// Where one worker waits, and any number of others ring.
pub struct Bell<P: Platform> {
    region: P::Region,
}

impl<P: Platform> Bell<P> {
    /// A bell in memory of the worker's node.
    pub fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        Ok(Bell::within(P::region(c, node, LINE_BYTES, "bell")?))
    }

    /// The bell at the beginning of a region, which other processes may map too.
    pub fn within(region: P::Region) -> Self {
        Bell { region }
    }

    /// Rings that a waiting worker was given: the word that it sleeps on. A platform changes it
    /// when something comes that no core rings for.
    pub fn rings(&self) -> &P::Word {
        P::word_of(&self.region, 0)
    }

    /// The state of the worker. Written by the worker only.
    fn state(&self) -> &P::Word {
        P::word_of(&self.region, 8)
    }

    /// Not 0 if a ring has come since the worker took it back.
    fn news(&self) -> &P::Word {
        P::word_of(&self.region, 16)
    }

    /// True if a ring has come since the last call. A worker that polls what it waits for whenever
    /// this is true misses nothing: as long as nothing comes, it reads one line that stays in its
    /// cache.
    ///
    /// Concurrency: only the worker whose bell it is.
    #[inline]
    pub fn take_news(&self, c: P::Core) -> bool {
        // Relaxed: the next call sees what this one misses.
        if P::load(c, self.news(), Ordering::Relaxed) == 0 {
            return false;
        }
        P::swap(c, self.news(), 0, Ordering::Relaxed);
        // Pairs with the fence in `ring`: of all rings before the exchange, what was published is
        // seen from here on.
        P::fence(c, Ordering::SeqCst);
        true
    }

    /// Wakes the worker if it waits. Call it after publishing what it waits for.
    ///
    /// Concurrency: any core, at any time.
    pub fn ring(&self, c: P::Core) {
        // Pairs with the fences in `wait` and in `take_news`: the worker sees what was published
        // before, or this sees that it waits; and a thread that sees the news sees that too.
        P::fence(c, Ordering::SeqCst);
        let state = P::load(c, self.state(), Ordering::Relaxed);
        // Relaxed, twice: after the fence. Also for a worker that waits, because it may just have
        // ceased to.
        if P::load(c, self.news(), Ordering::Relaxed) == 0 {
            P::store(c, self.news(), 1, Ordering::Relaxed);
        }
        if state == AWAKE {
            return;
        }
        // SeqCst, twice: the worker sees the ring before it sleeps, or this sees that it is parked.
        P::fetch_add(c, self.rings(), 1, Ordering::SeqCst);
        if P::load(c, self.state(), Ordering::SeqCst) == PARKED {
            P::unpark(c, self.rings(), 1);
        }
    }

    /// Waits until the bell is rung or the deadline has passed, but not if `ready` returns true:
    /// spins for `spin_nanos`, then sleeps. May return early.
    ///
    /// Concurrency: only the worker whose bell it is.
    pub fn wait(
        &self,
        c: P::Core,
        spin_nanos: u64,
        ready: &mut dyn FnMut(P::Core) -> bool,
        deadline: Option<Nanos>,
    ) {
        // Relaxed: a ring between this and the fence was for something that `ready` sees.
        let seen = P::load(c, self.rings(), Ordering::Relaxed);
        let first = if spin_nanos > 0 { SPINNING } else { PARKED };
        // SeqCst: pairs with the read in `ring`.
        P::store(c, self.state(), first, Ordering::SeqCst);
        // Pairs with the fence in `ring`.
        P::fence(c, Ordering::SeqCst);
        if !ready(c) && !self.spun(c, seen, spin_nanos, deadline) {
            P::store(c, self.state(), PARKED, Ordering::SeqCst);
            let over = |c| deadline.is_some_and(|end| P::now(c) >= end);
            // SeqCst: pairs with the addition of `ring`.
            while P::load(c, self.rings(), Ordering::SeqCst) == seen && !over(c) {
                P::park(c, self.rings(), seen, deadline);
            }
        }
        // Relaxed: a ringer that misses it rings once too often.
        P::store(c, self.state(), AWAKE, Ordering::Relaxed);
    }

    /// True if the bell was rung while spinning, or the deadline passed.
    fn spun(&self, c: P::Core, seen: u64, spin_nanos: u64, deadline: Option<Nanos>) -> bool {
        if spin_nanos == 0 {
            return false;
        }
        let end = P::now(c).plus(spin_nanos);
        let last = deadline.filter(|deadline| *deadline <= end);
        P::spin_while(c, self.rings(), seen, Some(last.unwrap_or(end))) != seen || last.is_some()
    }
}
