//! Contention: a transaction pauses after a conflict, and a transaction that has conflicted too
//! often goes before all others.
//!
//! Pauses are random and grow with the number of failed attempts (truncated binary exponential
//! backoff), so that colliding transactions part. How long they are depends on how long the
//! session's attempts take that fail: where lines come from far away, or are wanted by many, an
//! attempt takes longer, and so do the transactions that it conflicts with. Where there are more
//! workers than free processors, the worker of the other transaction may not be running: after
//! [`ATTEMPTS_BEFORE_REST`] failed attempts a worker gives its processor away while it pauses, and
//! so lets the other transaction end.
//!
//! Pauses are fair on average, and promise nothing: a transaction that pauses long is overtaken
//! often. So a transaction that has failed [`ATTEMPTS_OF_AN_ELDER`] times becomes the *elder* of
//! its database. There is one elder at a time, and while there is an elder no other transaction
//! begins an attempt: the elder conflicts only with transactions that were running already, and
//! these end. A transaction whose attempts are long, such as one that reads a whole table, becomes
//! the elder sooner: it conflicts with nearly every short transaction that commits meanwhile, so
//! that further attempts would be in vain (decision 0120).
//!
//! Other transactions wait for the elder for a bounded time only: as long as several of the elder's
//! attempts take, and [`ELDER_NANOS_MAX`] at most. Their thread may hold a transaction of another
//! session, or a prepared part of a transaction over several databases, that the elder in turn
//! waits for. Parts do not wait for elders at all, so for parts nothing is promised here.

use std::sync::atomic::Ordering;
use terms::random::{GOLDEN, Xorshift};

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};
use terms::{Fault, Faults};

/// Shortest bound of the pause after a first failed attempt; doubles with each further one.
const BACKOFF_NANOS_FIRST: u64 = 250;
/// That bound is the length of an attempt divided by this, if that is more.
const BACKOFF_ATTEMPT_SHARE: u64 = 4;
/// Doublings of the pause.
const BACKOFF_DOUBLINGS_MAX: u32 = 8;
/// Longest bound of a pause, however long attempts take.
const BACKOFF_NANOS_MAX: u64 = BACKOFF_NANOS_FIRST << BACKOFF_DOUBLINGS_MAX;
/// Doublings of the pause of an elder: the transactions that conflict with the elder will end soon.
const BACKOFF_DOUBLINGS_MAX_ELDER: u32 = 2;
/// Failed attempts after which a transaction becomes the elder.
const ATTEMPTS_OF_AN_ELDER: u32 = 128;
/// Failed attempts after which a worker pauses off its processor: by then a pause is several times
/// as long as a transaction that runs.
const ATTEMPTS_BEFORE_REST: u32 = 8;
/// Shortest time of an attempt that counts as long.
const LONG_ATTEMPT_NANOS: u64 = 200_000;
/// Failed attempts after which a transaction with long attempts becomes the elder,
const LONG_ATTEMPTS_OF_AN_ELDER: u32 = 3;
/// if these attempts took at least this long together.
const LONG_ATTEMPTS_NANOS: u64 = 1_000_000;
/// Other transactions wait for the elder for this long, or for as long as several of its attempts
/// take; for twice as long after each attempt of the elder that fails.
const ELDER_NANOS_FIRST: u64 = 1_000_000;
const ELDER_ATTEMPTS_WAITED: u64 = 4;
/// The longest time that one elder has all others wait. After it they wait for
/// [`ELDER_NANOS_FIRST`], each before an attempt.
const ELDER_NANOS_MAX: u64 = 2_000_000_000;
/// Waits for an elder sleep after this time, so that the elder has the processor.
const ELDER_SPIN_NANOS: u64 = 20_000;

/// Longest pause where pauses do not grow. Source: `ABORT_PENALTY` of DataManagementLab/DBx1000 at
/// 0ada3f6, `variant_config/28skt/config-2optimised.h`, with which `thread_t::run` of
/// `system/thread.cpp` pauses off the processor.
pub const FIXED_PAUSE_NANOS: u64 = 100_000;

/// How the pauses of a session after failed attempts are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pauses {
    /// Random, and longer from attempt to attempt.
    #[default]
    Growing,
    /// Random up to [`FIXED_PAUSE_NANOS`], off the processor.
    Fixed,
}

/// How a worker pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// On the processor.
    Spin(u64),
    /// Off the processor, if another thread wants to run there.
    Rest(u64),
}

/// Random pauses.
pub struct Backoff {
    /// State of the generator.
    jitter: Xorshift,
    pauses: Pauses,
    /// When the session went on after it last paused, or let another transaction go first.
    resumed: Nanos,
    /// How long an attempt took that failed lately. Only attempts that follow a pause are measured,
    /// so that a transaction without a conflict does not read the clock.
    attempt_nanos: u64,
    /// How long the attempt before that one took: one that lost its processor is long by accident.
    attempt_nanos_before: u64,
}

impl Backoff {
    /// Pauses drawn from this seed: workers have different seeds, so that two that collide do not
    /// pause in step.
    pub fn new(seed: u64) -> Self {
        Backoff {
            jitter: Xorshift::new(seed ^ GOLDEN),
            pauses: Pauses::default(),
            resumed: Nanos(0),
            attempt_nanos: 0,
            attempt_nanos_before: 0,
        }
    }

    /// The same, with pauses that are chosen so.
    pub fn set_pauses(&mut self, pauses: Pauses) {
        self.pauses = pauses;
    }

    /// How its pauses are chosen.
    pub fn pauses(&self) -> Pauses {
        self.pauses
    }

    /// The last of this many attempts of a transaction has failed just now.
    pub fn failed<P: Platform>(&mut self, c: P::Core, attempts: u32) {
        if attempts > 1 && self.pauses == Pauses::Growing {
            self.attempt_nanos_before = self.attempt_nanos;
            self.attempt_nanos = P::now(c).since(self.resumed);
        }
    }

    /// Returns true if a transaction that has failed this often is to go before all others.
    pub fn is_hopeless(&self, attempts: u32) -> bool {
        let nanos = self.attempt_nanos.min(self.attempt_nanos_before);
        let is_long = attempts >= LONG_ATTEMPTS_OF_AN_ELDER
            && nanos >= LONG_ATTEMPT_NANOS
            && nanos.saturating_mul(u64::from(attempts)) >= LONG_ATTEMPTS_NANOS;
        is_long || attempts >= ATTEMPTS_OF_AN_ELDER
    }

    /// How long an attempt took that failed lately, as far as that was measured.
    pub fn attempt_nanos(&self) -> u64 {
        self.attempt_nanos
    }

    /// Pauses after this many failed attempts; the moment when the next attempt begins.
    pub fn pause<P: Platform>(&mut self, c: P::Core, attempts: u32, elder: bool) -> Nanos {
        match self.choose(attempts, elder) {
            Pause::Spin(nanos) => P::pause(c, nanos),
            Pause::Rest(nanos) => P::rest(c, nanos),
        }
        let now = P::now(c);
        self.resume(now);
        now
    }

    /// Notes that an attempt begins now, though no pause has just ended.
    pub fn resume(&mut self, now: Nanos) {
        self.resumed = now;
    }

    fn choose(&mut self, attempts: u32, elder: bool) -> Pause {
        let nanos = self.nanos(attempts, elder);
        if self.pauses == Pauses::Fixed {
            return Pause::Rest(nanos);
        }
        if attempts > ATTEMPTS_BEFORE_REST { Pause::Rest(nanos) } else { Pause::Spin(nanos) }
    }

    /// How long the next pause is, after this many failed attempts, at least one.
    pub fn nanos(&mut self, attempts: u32, elder: bool) -> u64 {
        let random = self.jitter.next();
        if self.pauses == Pauses::Fixed {
            return random % FIXED_PAUSE_NANOS;
        }
        if elder {
            return random % (BACKOFF_NANOS_FIRST << (attempts - 1).min(BACKOFF_DOUBLINGS_MAX_ELDER));
        }
        let first =
            (self.attempt_nanos / BACKOFF_ATTEMPT_SHARE).clamp(BACKOFF_NANOS_FIRST, BACKOFF_NANOS_MAX);
        random % (first << (attempts - 1).min(BACKOFF_DOUBLINGS_MAX)).min(BACKOFF_NANOS_MAX)
    }
}

/// The place of a database's elder: a word that is 0 while there is no elder, and else the moment
/// until which others wait for it.
pub struct Elder<P: Platform> {
    region: P::Region,
    faults: Faults,
}

impl<P: Platform> Elder<P> {
    /// No elder yet.
    pub fn new(c: P::Core, faults: Faults) -> Result<Self, OutOfMemory> {
        Ok(Elder { region: P::region(c, None, LINE_BYTES, "elder transaction")?, faults })
    }

    fn word(&self) -> &P::Word {
        P::word_of(&self.region, 0)
    }

    // All orderings are relaxed: no data depends on the word, which only selects the transactions
    // that should be running.

    /// True if there is an elder.
    #[inline(always)]
    pub fn is_there(&self, c: P::Core) -> bool {
        P::load(c, self.word(), Ordering::Relaxed) != 0
    }

    /// Waits until there is no elder, as long as the elder may have others wait, and not beyond
    /// `deadline`. The caller is in no transaction.
    pub fn wait(&self, c: P::Core, deadline: Option<Nanos>) {
        if self.faults.has(Fault::IgnoredElders) {
            return;
        }
        let began = P::now(c);
        let mut now = began;
        loop {
            let seen = P::load(c, self.word(), Ordering::Relaxed);
            let until = Nanos(seen).max(began.plus(ELDER_NANOS_FIRST));
            let until = deadline.map_or(until, |deadline| until.min(deadline));
            if seen == 0 || now >= until {
                return;
            }
            let spins_until = began.plus(ELDER_SPIN_NANOS);
            if now < spins_until {
                P::spin_while(c, self.word(), seen, Some(until.min(spins_until)));
            } else {
                P::park(c, self.word(), seen, Some(until));
            }
            now = P::now(c);
        }
    }

    /// Makes the calling transaction the elder if there is no other elder. The caller keeps the
    /// result until the transaction ends. An attempt of the transaction takes about this long.
    pub fn succeed(&self, c: P::Core, attempt_nanos: u64) -> Option<Eldership<'_, P>> {
        let mut waits = ElderWaits { began: P::now(c), nanos: 0 };
        let until = waits.next(waits.began, attempt_nanos);
        P::cas(c, self.word(), 0, until, Ordering::Relaxed).ok()?;
        Some(Eldership { elder: self, c, waits })
    }
}

/// How long others wait for an elder.
struct ElderWaits {
    began: Nanos,
    /// For the next attempt.
    nanos: u64,
}

impl ElderWaits {
    /// The moment until which others wait for the attempt that follows one of this length.
    fn next(&mut self, now: Nanos, attempt_nanos: u64) -> u64 {
        let attempts = ELDER_NANOS_FIRST.max(attempt_nanos.saturating_mul(ELDER_ATTEMPTS_WAITED));
        self.nanos = attempts.max(2 * self.nanos).min(ELDER_NANOS_MAX);
        now.plus(self.nanos).min(self.began.plus(ELDER_NANOS_MAX)).0
    }
}

/// Held by the transaction that is the elder; dropping it makes room for another elder.
pub struct Eldership<'e, P: Platform> {
    elder: &'e Elder<P>,
    c: P::Core,
    waits: ElderWaits,
}

impl<P: Platform> Eldership<'_, P> {
    /// An attempt of the elder, which took so long, has failed: others wait for the next one.
    pub fn failed(&mut self, attempt_nanos: u64) {
        let until = self.waits.next(P::now(self.c), attempt_nanos);
        P::store(self.c, self.elder.word(), until, Ordering::Relaxed);
    }
}

impl<P: Platform> Drop for Eldership<'_, P> {
    fn drop(&mut self) {
        P::store(self.c, self.elder.word(), 0, Ordering::Relaxed);
        P::unpark(self.c, self.elder.word(), u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_pauses_do_not_grow() {
        let mut backoff = Backoff::new(1);
        backoff.set_pauses(Pauses::Fixed);
        for attempts in [1, 200] {
            let pauses = (0..1000).map(|_| backoff.nanos(attempts, false));
            let sum: u64 = pauses.inspect(|nanos| assert!(*nanos < FIXED_PAUSE_NANOS)).sum();
            let mean = sum / 1000;
            assert!(mean.abs_diff(FIXED_PAUSE_NANOS / 2) < FIXED_PAUSE_NANOS / 20, "{mean}");
            assert!(matches!(backoff.choose(attempts, false), Pause::Rest(_)));
        }
    }

    /// The largest of many pauses of a session whose attempts take so long.
    fn longest_pause(attempt_nanos: u64, attempts: u32, elder: bool) -> u64 {
        let mut backoff = Backoff { attempt_nanos, ..Backoff::new(1) };
        (0..10_000).map(|_| backoff.nanos(attempts, elder)).max().expect("some pauses")
    }

    #[test]
    fn pauses_follow_the_length_of_attempts() {
        let between = |nanos: u64, bound: u64| bound * 99 / 100 < nanos && nanos < bound;
        assert!(between(longest_pause(0, 1, false), BACKOFF_NANOS_FIRST));
        assert!(between(longest_pause(20_000, 1, false), 20_000 / BACKOFF_ATTEMPT_SHARE));
        assert!(between(longest_pause(20_000, 3, false), 4 * 20_000 / BACKOFF_ATTEMPT_SHARE));
        // However long they take, and however many have failed.
        for (attempt_nanos, attempts) in [(0, 200), (20_000, 200), (u64::MAX, 1), (u64::MAX, 200)] {
            assert!(between(longest_pause(attempt_nanos, attempts, false), BACKOFF_NANOS_MAX));
            assert!(longest_pause(attempt_nanos, attempts, true) < 1_000);
        }
    }

    #[test]
    fn long_attempts_make_an_elder_soon() {
        let elders = |lengths: [u64; 2], attempts| {
            let [attempt_nanos, attempt_nanos_before] = lengths;
            Backoff { attempt_nanos, attempt_nanos_before, ..Backoff::new(1) }.is_hopeless(attempts)
        };
        let short = LONG_ATTEMPT_NANOS - 1;
        assert!(!elders([short; 2], ATTEMPTS_OF_AN_ELDER - 1));
        assert!(elders([0; 2], ATTEMPTS_OF_AN_ELDER));
        assert!(elders([1_000_000; 2], LONG_ATTEMPTS_OF_AN_ELDER));
        assert!(!elders([1_000_000; 2], LONG_ATTEMPTS_OF_AN_ELDER - 1));
        assert!(!elders([short, 1_000_000], 100), "one long attempt is an accident");
        assert!(!elders([LONG_ATTEMPT_NANOS; 2], 4) && elders([LONG_ATTEMPT_NANOS; 2], 5));
    }

    #[test]
    fn others_wait_for_an_elder_as_long_as_its_attempts_take_and_no_longer() {
        let mut waits = ElderWaits { began: Nanos(7), nanos: 0 };
        assert_eq!(waits.next(Nanos(7), 0), 7 + ELDER_NANOS_FIRST);
        assert_eq!(waits.next(Nanos(100), 0), 100 + 2 * ELDER_NANOS_FIRST);
        assert_eq!(waits.next(Nanos(200), 5_000_000), 200 + 20_000_000);
        for _ in 0..20 {
            assert!(waits.next(Nanos(300), 5_000_000) <= 7 + ELDER_NANOS_MAX);
        }
        assert_eq!(waits.next(Nanos(400), u64::MAX), 7 + ELDER_NANOS_MAX);
    }

    #[test]
    fn a_worker_that_fails_often_gives_its_processor_away() {
        for seed in 0..20 {
            let mut backoff = Backoff::new(seed);
            for attempts in 1..1000 {
                let pause = backoff.choose(attempts, attempts > ATTEMPTS_OF_AN_ELDER);
                let spins = matches!(pause, Pause::Spin(_));
                assert_eq!(spins, attempts <= ATTEMPTS_BEFORE_REST, "attempt {attempts}: {pause:?}");
            }
        }
    }
}
