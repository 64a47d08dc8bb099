//! The mutex of the C library with lock elision, for comparisons with programs that use it.
//!
//! Source: `pthread_mutex_lock` of glibc for mutexes of the default type
//! (`nptl/pthread_mutex_lock.c`, `nptl/lowlevellock.c`;
//! `sysdeps/unix/sysv/linux/x86/elision-lock.c` with its defaults). A thread runs the critical
//! section as a hardware transaction that only reads the lock. If another thread writes a line of
//! the section meanwhile, the transaction aborts, the thread takes the lock, and so do the next
//! three owners. A thread that finds the lock taken sleeps at once in a futex: mutexes of the
//! default type do not spin.
//!
//! Platforms have no transactions, so this latch has the costs of one. Sections under it write the
//! line that the latch is on, therefore two of them that run at the same time always conflict, and
//! one transaction at a time can succeed. A thread begins by marking the latch as elided. The two
//! atomics that set and clear the mark cost about as much as the beginning and the end of an empty
//! transaction (an estimate: some 45 cycles), and the same as the lock and the unlock of a free
//! mutex. A thread that arrives meanwhile marks the conflict and sleeps. It pays for its own abort;
//! the thread within pays for an abort and for the section, which it runs again with the lock
//! taken, its lines being in its cache. Both costs are estimates.
//!
//! A section that only reads ([`ElidedMutex::read`]) writes no line, so its transactions run at the
//! same time. A thread that takes several mutexes one after the other without waiting
//! ([`ElidedMutex::try_acquire`]) elides none: `pthread_mutex_trylock` aborts the transaction that
//! it is called in (`elision-trylock.c`).
//!
//! Deviations: a transaction that aborts is not tried again, where glibc tries three times as long
//! as the processor reports that it may succeed. Aborts for other reasons than conflicts
//! (interrupts, full caches) do not exist. On hardware this is the mutex without the transactions.

use std::sync::atomic::Ordering;

use platform::{Platform, SharedWord, Work};

const TAKEN: u64 = 1;
/// A thread may sleep.
const SLEEPERS: u64 = 2;
/// The owner runs a transaction.
const ELIDED: u64 = 4;
/// Another thread has aborted the owner's transaction.
const CONFLICT: u64 = 8;
const STATE: u64 = TAKEN | SLEEPERS | ELIDED | CONFLICT;
/// The unit of the number of next owners that take the lock.
const SKIP: u64 = 16;
/// `skip_lock_busy` and `skip_lock_internal_abort` of glibc.
const SKIPS: u64 = 3;

/// An abort of a transaction in units of [`Work::Step`], three cycles each: 150 cycles.
const ABORT_STEPS: u32 = 50;
/// A critical section that runs again: some 90 cycles.
const AGAIN_STEPS: u32 = 30;
/// The beginning and the end of a transaction: some 45 cycles.
const EMPTY_STEPS: u32 = 15;

/// The mutex: zeroed memory is a free one.
#[repr(transparent)]
pub struct ElidedMutex<P: Platform> {
    word: P::Word,
}

impl<P: Platform> ElidedMutex<P> {
    /// A free mutex.
    pub fn new() -> Self {
        ElidedMutex { word: P::Word::new(0) }
    }

    /// The word as a mutex.
    pub fn from_word(word: &P::Word) -> &Self {
        // SAFETY: `repr(transparent)` over the word, with the same lifetime.
        unsafe { &*std::ptr::from_ref(word).cast::<Self>() }
    }

    /// Waits for the mutex.
    pub fn acquire(&self, c: P::Core) {
        self.acquire_after(c, false);
    }

    /// Waits for the mutex, after an own transaction has aborted or before the first one.
    ///
    /// Concurrency: the owner is the thread whose compare and swap has set `TAKEN`. A thread sleeps
    /// only on a value with `SLEEPERS`, which [`Self::release`] clears before it wakes one; the
    /// thread that wakes sets the bit again, because others may still sleep.
    fn acquire_after(&self, c: P::Core, abort: bool) {
        // Relaxed: the compare and swap decides.
        let mut seen = P::load(c, &self.word, Ordering::Relaxed);
        let (mut waits, mut aborted, mut slept) = (abort, abort, false);
        loop {
            let skips = seen / SKIP;
            let elides = skips == 0 && !waits;
            let next = match seen & TAKEN {
                0 if elides => TAKEN | ELIDED,
                0 => {
                    let skips = if abort { SKIPS } else { skips.saturating_sub(1) };
                    TAKEN | if slept { SLEEPERS } else { 0 } | (skips * SKIP)
                }
                _ => {
                    if elides {
                        // Its own transaction read the taken lock, or conflicted.
                        P::work(c, Work::Step, ABORT_STEPS);
                        aborted = true;
                    }
                    waits = true;
                    let conflict = if seen & ELIDED == 0 { 0 } else { CONFLICT };
                    let skips = if aborted { SKIPS } else { skips };
                    (seen & STATE) | SLEEPERS | conflict | (skips * SKIP)
                }
            };
            if next != seen {
                // Acquire: pairs with the release of the owner before.
                if let Err(now) = P::cas(c, &self.word, seen, next, Ordering::Acquire) {
                    seen = now;
                    continue;
                }
                if seen & TAKEN == 0 {
                    return;
                }
            }
            P::park(c, &self.word, next, None);
            slept = true;
            // Relaxed: as above.
            seen = P::load(c, &self.word, Ordering::Relaxed);
        }
    }

    /// Takes the mutex if it is free, as a thread that holds others of the kind; whether it was.
    pub fn try_acquire(&self, c: P::Core) -> bool {
        // Relaxed: the compare and swap decides.
        let mut seen = P::load(c, &self.word, Ordering::Relaxed);
        let mut aborted = false;
        loop {
            if seen / SKIP == 0 && !aborted {
                // The next attempt to take a mutex aborts the transaction, or the mutex is taken.
                P::work(c, Work::Step, ABORT_STEPS);
                aborted = true;
            }
            let skips = if aborted { SKIPS } else { seen / SKIP - 1 };
            let is_free = seen & TAKEN == 0;
            let state = if is_free { TAKEN } else { seen & STATE };
            // Acquire: pairs with the release of the owner before.
            match P::cas(c, &self.word, seen, state | (skips * SKIP), Ordering::Acquire) {
                Ok(_) => return is_free,
                Err(now) => seen = now,
            }
        }
    }

    /// Runs a section that only reads, and may run twice.
    pub fn read<R>(&self, c: P::Core, mut section: impl FnMut() -> R) -> R {
        // Acquire: pairs with the release of the owner before.
        let seen = P::load(c, &self.word, Ordering::Acquire);
        let elides = seen & TAKEN == 0 && seen / SKIP == 0;
        if elides {
            P::work(c, Work::Step, EMPTY_STEPS);
            let result = section();
            // Acquire: what was read is read before the word is read again.
            P::fence(c, Ordering::Acquire);
            // Relaxed: ordered by the fence before.
            if P::load(c, &self.word, Ordering::Relaxed) == seen {
                return result;
            }
            // Another thread has taken the mutex meanwhile.
            P::work(c, Work::Step, ABORT_STEPS);
        }
        self.acquire_after(c, elides);
        let result = section();
        self.release(c);
        result
    }

    /// Releases the mutex, which the caller has acquired.
    pub fn release(&self, c: P::Core) {
        // Relaxed: the compare and swap decides.
        let mut seen = P::load(c, &self.word, Ordering::Relaxed);
        debug_assert!(seen & TAKEN != 0);
        if seen & CONFLICT != 0 {
            P::work(c, Work::Step, ABORT_STEPS + AGAIN_STEPS);
        }
        let free = loop {
            let skips = if seen & CONFLICT == 0 { seen / SKIP } else { SKIPS };
            // Release: pairs with the acquire of the next owner.
            match P::cas(c, &self.word, seen, skips * SKIP, Ordering::Release) {
                Ok(_) => break seen,
                Err(now) => seen = now,
            }
        };
        if free & SLEEPERS != 0 {
            P::unpark(c, &self.word, 1);
        }
    }

    /// Returns true if the mutex is taken, for assertions and reports.
    pub fn is_held(&self, c: P::Core) -> bool {
        // Relaxed: orders nothing.
        P::load(c, &self.word, Ordering::Relaxed) & TAKEN != 0
    }
}

impl<P: Platform> Default for ElidedMutex<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, LINE_BYTES, Place, RegionBytes};

    use super::*;

    #[test]
    fn one_thread_is_in_the_section_and_none_sleeps_for_ever() {
        const ROUNDS: u64 = if cfg!(miri) { 30 } else { 20_000 };
        let c = Hardware::core();
        let region = Hardware::region(c, None, 4096, "test").expect("memory");
        let word = |line: usize| {
            assert!(line < 4096 / LINE_BYTES);
            // SAFETY: inside the zeroed region.
            unsafe { &*region.base().add(line * LINE_BYTES).cast::<<Hardware as Platform>::Word>() }
        };
        let (mutex, count) = (ElidedMutex::<Hardware>::from_word(word(0)), word(1));
        let worker = |c, _: usize| {
            for _ in 0..ROUNDS {
                mutex.acquire(c);
                let seen = Hardware::peek(count);
                Hardware::poke(count, seen + 1);
                mutex.release(c);
            }
        };
        Hardware::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
        assert_eq!(Hardware::peek(count), 3 * ROUNDS);
        assert!(!mutex.is_held(c));
    }

    #[test]
    fn owners_after_a_conflict_run_no_transaction() {
        let c = Hardware::core();
        let mutex = ElidedMutex::<Hardware>::new();
        let state = || Hardware::peek(&mutex.word);
        mutex.acquire(c);
        assert_eq!(state(), TAKEN | ELIDED);
        Hardware::poke(&mutex.word, TAKEN | ELIDED | CONFLICT | SLEEPERS);
        mutex.release(c);
        for skips in (0..SKIPS).rev() {
            mutex.acquire(c);
            assert_eq!(state(), TAKEN | (skips * SKIP));
            mutex.release(c);
        }
        mutex.acquire(c);
        assert_eq!(state(), TAKEN | ELIDED);
        mutex.release(c);
        assert_eq!(state(), 0);
    }

    #[test]
    fn readers_write_nothing_unless_an_owner_comes_between() {
        let c = Hardware::core();
        let mutex = ElidedMutex::<Hardware>::new();
        let state = || Hardware::peek(&mutex.word);
        assert_eq!(mutex.read(c, state), 0);
        let mut runs = 0;
        let seen = mutex.read(c, || {
            runs += 1;
            if runs == 1 {
                assert!(mutex.try_acquire(c));
                mutex.release(c);
            }
            state()
        });
        // The mutex is taken for the second run.
        assert_eq!((runs, seen), (2, TAKEN | (SKIPS * SKIP)));
        assert!(!mutex.is_held(c));
    }

    #[test]
    fn a_mutex_that_is_taken_without_waiting_is_not_elided() {
        let c = Hardware::core();
        let mutex = ElidedMutex::<Hardware>::new();
        let state = || Hardware::peek(&mutex.word);
        assert!(mutex.try_acquire(c));
        assert_eq!(state(), TAKEN | (SKIPS * SKIP));
        assert!(!mutex.try_acquire(c));
        assert_eq!(state(), TAKEN | ((SKIPS - 1) * SKIP));
        mutex.release(c);
        assert!(!mutex.is_held(c) && mutex.try_acquire(c));
    }
}
