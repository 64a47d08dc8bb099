//! The locks that spin on one word, the queue locks, and the work of a holder.
//!
//! Sources: Anderson, "The performance of spin lock alternatives for shared-memory
//! multiprocessors", IEEE TPDS 1990 (test-and-set, test-and-test-and-set); Mellor-Crummey and
//! Scott, ACM TOCS 1991 (ticket lock with proportional backoff, MCS); Craig, "Building FIFO and
//! priority-queueing spin locks from atomic swap", 1993, and Magnusson, Landin, Hagersten, IPPS
//! 1994 (CLH). MCS is the engine's own latch. Deviation: numbers instead of addresses identify the
//! nodes of CLH.

use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform};
use storage::{LatchSeat, LatchedLines, WORDS_BESIDE_LATCH};

use super::operation::{Operation, count_check};
use super::types::{HeldLine, LockSpec, LockThread};
use crate::Outcome;
use crate::lines::{LINE_WORDS, Lines, compute};
use terms::random::Random;

/// Words of a lock at the beginning of its line.
const LOCK_WORDS: usize = 2;
/// Most words that a holder can write: the rest of the lock's line.
pub const HELD_WORDS_MAX: usize = LINE_WORDS - LOCK_WORDS;
const _: () = assert!(HELD_WORDS_MAX <= WORDS_BESIDE_LATCH);

/// Refused attempts after which a thread yields its processor, because the holder may not be
/// running.
const ATTEMPTS_PER_REST: u64 = 1_000;
/// Length of the pause then.
const REST_NANOS: u64 = 100;
/// Doublings of the longest pause of a thread whose attempts are refused.
const BACKOFF_DOUBLINGS: u32 = 3;

/// An array of locks.
pub(super) trait Lock<P: Platform>: Sync {
    /// State of one thread for its acquisitions.
    type ThreadState;
    /// Creates the state of thread `number`, on that thread.
    fn thread_state(&self, c: P::Core, number: usize) -> Result<Self::ThreadState, OutOfMemory>;
    /// Runs `body` with the lock held, and returns the number of refused attempts.
    fn hold(&self, c: P::Core, lock: usize, state: &mut Self::ThreadState, body: impl FnOnce()) -> u64;
    /// One of the [`HELD_WORDS_MAX`] words on the line of the lock that the lock does not use.
    fn beside(&self, lock: usize, word: usize) -> &P::Word;
}

/// A lock and the work of its holder: the operation is an acquisition.
pub(super) struct Held<P: Platform, L> {
    lock: L,
    data: Lines<P>,
    locks: usize,
    words: usize,
    line: HeldLine,
    critical: u32,
}

impl<P: Platform, L: Lock<P>> Held<P, L> {
    pub(super) fn new(c: P::Core, spec: &LockSpec, lock: L) -> Result<Self, OutOfMemory> {
        Ok(Held {
            lock,
            data: Lines::new(c, spec.home(), spec.locks, "data under locks")?,
            locks: spec.locks,
            words: spec.held_words,
            line: spec.held_line,
            critical: spec.critical,
        })
    }

    fn word(&self, lock: usize, word: usize) -> &P::Word {
        match self.line {
            HeldLine::Own => self.data.word(lock, word),
            HeldLine::Lock => self.lock.beside(lock, word),
        }
    }
}

impl<P: Platform, L: Lock<P>> Operation<P> for Held<P, L> {
    type ThreadState = L::ThreadState;

    fn thread_state(&self, c: P::Core, number: usize) -> Result<L::ThreadState, OutOfMemory> {
        self.lock.thread_state(c, number)
    }

    fn perform(&self, c: P::Core, item: usize, state: &mut L::ThreadState, then: impl FnOnce()) -> u64 {
        self.lock.hold(c, item, state, || {
            then();
            let first = self.word(item, 0);
            // Relaxed, all of them: ordered by the lock. A load and a store, not one atomic, so
            // that a lock with two holders loses increments: of the first word whenever another
            // thread acquires the lock while this one computes.
            let count = P::load(c, first, Ordering::Relaxed);
            for word in 1..self.words {
                let word = self.word(item, word);
                let count = P::load(c, word, Ordering::Relaxed);
                P::store(c, word, count.wrapping_add(1), Ordering::Relaxed);
            }
            compute::<P>(c, self.critical);
            P::store(c, first, count.wrapping_add(1), Ordering::Relaxed);
        })
    }

    fn check(&self, operations: u64, _: &[u64]) -> (&'static str, Outcome) {
        let sum = |word: usize| (0..self.locks).map(|lock| P::peek(self.word(lock, word))).sum::<u64>();
        let wrong = (0..self.words).map(sum).find(|sum| *sum != operations);
        ("lock_exclusion", count_check(wrong.unwrap_or(operations), operations))
    }
}

/// Test-and-set.
pub(super) struct TestAndSet<P: Platform>(Lines<P>);

impl<P: Platform> TestAndSet<P> {
    pub(super) fn new(c: P::Core, spec: &LockSpec) -> Result<Self, OutOfMemory> {
        Ok(TestAndSet(Lines::new(c, spec.home(), spec.locks, "test-and-set locks")?))
    }
}

/// Pauses once in [`ATTEMPTS_PER_REST`] refused attempts.
fn rest_sometimes<P: Platform>(c: P::Core, refused: u64) {
    if refused.is_multiple_of(ATTEMPTS_PER_REST) {
        P::rest(c, REST_NANOS);
    }
}

impl<P: Platform> Lock<P> for TestAndSet<P> {
    type ThreadState = ();

    fn thread_state(&self, _: P::Core, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }

    #[inline]
    fn hold(&self, c: P::Core, lock: usize, (): &mut (), body: impl FnOnce()) -> u64 {
        let word = self.0.word(lock, 0);
        let mut refused = 0;
        // Acquire: pairs with the release below.
        while P::swap(c, word, 1, Ordering::Acquire) != 0 {
            refused += 1;
            rest_sometimes::<P>(c, refused);
        }
        body();
        // Release: pairs with the acquire of the next holder.
        P::store(c, word, 0, Ordering::Release);
        refused
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        self.0.word(lock, LOCK_WORDS + word)
    }
}

/// Test-and-test-and-set: a waiter spins on reads. With backoff, a thread whose attempt was refused
/// pauses for a random time, below a bound that doubles.
pub(super) struct TestAndTestAndSet<P: Platform> {
    lines: Lines<P>,
    backoff_nanos: u64,
    seed: u64,
}

impl<P: Platform> TestAndTestAndSet<P> {
    pub(super) fn new(c: P::Core, spec: &LockSpec) -> Result<Self, OutOfMemory> {
        let lines = Lines::new(c, spec.home(), spec.locks, "test-and-test-and-set locks")?;
        Ok(TestAndTestAndSet { lines, backoff_nanos: spec.backoff_nanos, seed: !spec.seed })
    }
}

impl<P: Platform> Lock<P> for TestAndTestAndSet<P> {
    type ThreadState = Random;

    fn thread_state(&self, _: P::Core, number: usize) -> Result<Random, OutOfMemory> {
        Ok(Random::new(self.seed, number as u64))
    }

    #[inline]
    fn hold(&self, c: P::Core, lock: usize, random: &mut Random, body: impl FnOnce()) -> u64 {
        let word = self.lines.word(lock, 0);
        let mut refused = 0;
        loop {
            while P::spin_while(c, word, 1, None) == 1 {}
            // Acquire: pairs with the release below.
            if P::swap(c, word, 1, Ordering::Acquire) == 0 {
                break;
            }
            if self.backoff_nanos > 0 {
                let doublings = refused.min(u64::from(BACKOFF_DOUBLINGS)) as u32;
                P::pause(c, 1 + random.below(self.backoff_nanos << doublings));
            }
            refused += 1;
        }
        body();
        // Release: pairs with the acquire of the next holder.
        P::store(c, word, 0, Ordering::Release);
        refused
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        self.lines.word(lock, LOCK_WORDS + word)
    }
}

/// Ticket lock: the next ticket and the one being served are on one line. With backoff, a waiter
/// pauses in proportion to the number of threads before it, and does not spin.
pub(super) struct Ticket<P: Platform> {
    lines: Lines<P>,
    backoff_nanos: u64,
}

impl<P: Platform> Ticket<P> {
    pub(super) fn new(c: P::Core, spec: &LockSpec) -> Result<Self, OutOfMemory> {
        let lines = Lines::new(c, spec.home(), spec.locks, "ticket locks")?;
        Ok(Ticket { lines, backoff_nanos: spec.backoff_nanos })
    }
}

/// Takes a ticket from `next`, waits until `served` is that ticket, and returns it.
#[inline]
pub(super) fn await_turn<P: Platform>(
    c: P::Core,
    next: &P::Word,
    served: &P::Word,
    backoff_nanos: u64,
) -> u64 {
    // Relaxed: the ticket only orders waiters; the load of `served` acquires.
    let ticket = P::fetch_add(c, next, 1, Ordering::Relaxed);
    // Acquire: pairs with the release of the holder before.
    let mut now_served = P::load(c, served, Ordering::Acquire);
    while now_served != ticket {
        if backoff_nanos > 0 {
            P::rest(c, backoff_nanos * ticket.wrapping_sub(now_served));
            // Acquire: as above.
            now_served = P::load(c, served, Ordering::Acquire);
        } else {
            now_served = P::spin_while(c, served, now_served, None);
        }
    }
    ticket
}

impl<P: Platform> Lock<P> for Ticket<P> {
    type ThreadState = ();

    fn thread_state(&self, _: P::Core, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }

    #[inline]
    fn hold(&self, c: P::Core, lock: usize, (): &mut (), body: impl FnOnce()) -> u64 {
        let (next, served) = (self.lines.word(lock, 0), self.lines.word(lock, 1));
        let ticket = await_turn::<P>(c, next, served, self.backoff_nanos);
        body();
        // Release: pairs with the acquire of the next holder.
        P::store(c, served, ticket.wrapping_add(1), Ordering::Release);
        0
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        self.lines.word(lock, LOCK_WORDS + word)
    }
}

/// MCS: [`storage::latch::QueueLatch`].
pub(super) struct Mcs<'a, P: Platform> {
    latches: LatchedLines<P>,
    threads: &'a [LockThread],
}

impl<'a, P: Platform> Mcs<'a, P> {
    pub(super) fn new(c: P::Core, spec: &'a LockSpec) -> Result<Self, OutOfMemory> {
        let latches = LatchedLines::new(c, spec.home(), spec.locks, "queue latches")?;
        Ok(Mcs { latches, threads: &spec.threads })
    }
}

impl<P: Platform> Lock<P> for Mcs<'_, P> {
    type ThreadState = LatchSeat<P>;

    fn thread_state(&self, c: P::Core, number: usize) -> Result<LatchSeat<P>, OutOfMemory> {
        LatchSeat::new(c, self.threads[number].node)
    }

    #[inline]
    fn hold(&self, c: P::Core, lock: usize, state: &mut LatchSeat<P>, body: impl FnOnce()) -> u64 {
        self.latches.hold(c, lock, state, body);
        0
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        self.latches.word(lock, word)
    }
}

/// CLH: a waiter spins on the node of the thread before it, and reuses that node for its next wait.
/// Initially each lock has a node, on the lock's memory node, and each thread has one, on the
/// thread's.
pub(super) struct Clh<P: Platform> {
    /// The last node in the queue.
    tails: Lines<P>,
    /// Initial nodes of the locks; their numbers follow those of threads.
    first: Lines<P>,
    /// Initial nodes of the threads.
    of_threads: Vec<Lines<P>>,
}

impl<P: Platform> Clh<P> {
    pub(super) fn new(c: P::Core, spec: &LockSpec) -> Result<Self, OutOfMemory> {
        let node = |thread: &LockThread| Lines::new(c, thread.node, 1, "CLH nodes of threads");
        let clh = Clh {
            tails: Lines::new(c, spec.home(), spec.locks, "CLH locks")?,
            first: Lines::new(c, spec.home(), spec.locks, "CLH nodes of locks")?,
            of_threads: spec.threads.iter().map(node).collect::<Result<_, _>>()?,
        };
        for lock in 0..spec.locks {
            // Relaxed: published by the start of the threads.
            P::store(c, clh.tails.word(lock, 0), (clh.of_threads.len() + lock) as u64, Ordering::Relaxed);
        }
        Ok(clh)
    }

    /// The word that is 1 while the thread with the node waits or holds the lock.
    #[inline(always)]
    fn taken(&self, node: u64) -> &P::Word {
        let node = node as usize;
        match self.of_threads.get(node) {
            Some(lines) => lines.word(0, 0),
            None => self.first.word(node - self.of_threads.len(), 0),
        }
    }
}

impl<P: Platform> Lock<P> for Clh<P> {
    /// The number of the thread's node.
    type ThreadState = u64;

    fn thread_state(&self, _: P::Core, number: usize) -> Result<u64, OutOfMemory> {
        Ok(number as u64)
    }

    #[inline]
    fn hold(&self, c: P::Core, lock: usize, node: &mut u64, body: impl FnOnce()) -> u64 {
        let own = self.taken(*node);
        // Relaxed: published by the exchange.
        P::store(c, own, 1, Ordering::Relaxed);
        // AcqRel: publishes this node to the next thread, and acquires the previous node as its
        // thread has published it.
        let before = P::swap(c, self.tails.word(lock, 0), *node, Ordering::AcqRel);
        while P::spin_while(c, self.taken(before), 1, None) == 1 {}
        body();
        // Release: pairs with the acquire of the next thread, which spins.
        P::store(c, own, 0, Ordering::Release);
        *node = before;
        0
    }

    fn beside(&self, lock: usize, word: usize) -> &P::Word {
        self.tails.word(lock, LOCK_WORDS + word)
    }
}
