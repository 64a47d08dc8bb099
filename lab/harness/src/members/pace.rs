//! Limits the transactions over several instances that a worker has in flight, and sets the pauses
//! of those that conflicted.
//!
//! Branches hold their locks until they receive the decision. So each additional transaction in
//! flight makes conflicts more likely, and an aborted attempt has blocked others in vain. The limit
//! therefore shrinks while more than a share of the attempts are aborted, and grows again up to
//! that of the plan while few are: additive increase, multiplicative decrease (Chiu, Jain,
//! "Analysis of the increase and decrease algorithms for congestion avoidance in computer
//! networks", 1989), as Heiss and Wagner ("Adaptive load control in transaction processing
//! systems", VLDB 1991) do with whole databases.
//!
//! The cause of a conflict lasts for about as long as a transaction. If transactions are long,
//! because votes wait until they are durable, pauses are as long, and not those for conflicts
//! within one instance.

use boundary::Backoff;
use terms::random::{GOLDEN, Xorshift};

/// Fewest attempts over which conflicts are counted; the limit of transactions in flight, if that
/// is more.
const ATTEMPTS_MIN: u32 = 8;
/// The limit shrinks at more than one conflict in this many attempts: then conflicts waste a
/// quarter of the work.
const SHRINKS_AT: u32 = 4;
/// The limit grows at less than one conflict in this many attempts.
const GROWS_AT: u32 = 10;
/// Most doublings of a pause.
const DOUBLINGS_MAX: u32 = 4;

/// The pace of one worker.
pub(crate) struct Pace {
    most: usize,
    now: usize,
    attempts: u32,
    conflicts: u32,
    /// Mean time of the last transactions that committed.
    commit_nanos: u64,
    /// True if pauses have about that length.
    long: bool,
    jitter: Xorshift,
}

impl Pace {
    /// A pace with at most `most` transactions in flight. `long`: locks are held until commits are
    /// durable.
    pub(crate) fn new(most: usize, long: bool, seed: u64) -> Self {
        let most = most.max(1);
        let jitter = Xorshift::new(seed ^ GOLDEN);
        Pace { most, now: most, attempts: 0, conflicts: 0, commit_nanos: 0, long, jitter }
    }

    /// The limit of transactions in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.now
    }

    /// True if conflicts have reduced the limit.
    pub(crate) fn is_held_back(&self) -> bool {
        self.now < self.most
    }

    /// Records an attempt that committed, and its time.
    pub(crate) fn committed(&mut self, nanos: u64) {
        self.commit_nanos = if self.commit_nanos == 0 { nanos } else { (7 * self.commit_nanos + nanos) / 8 };
        self.ended(0);
    }

    /// Records an attempt that conflicted.
    pub(crate) fn conflicted(&mut self) {
        self.ended(1);
    }

    fn ended(&mut self, conflicts: u32) {
        self.attempts += 1;
        self.conflicts += conflicts;
        if self.attempts < ATTEMPTS_MIN.max(self.now as u32) {
            return;
        }
        if self.conflicts * SHRINKS_AT > self.attempts {
            // Halves the limit if most attempts are aborted.
            let left = if self.conflicts * 2 > self.attempts { self.now / 2 } else { self.now * 3 / 4 };
            self.now = left.max(1);
        } else if self.conflicts * GROWS_AT < self.attempts {
            self.now = (self.now + 1 + self.now / 8).min(self.most);
        }
        (self.attempts, self.conflicts) = (0, 0);
    }

    /// The pause of a transaction after `attempts` attempts that conflicted, at least one.
    pub(crate) fn pause(&mut self, backoff: &mut Backoff, attempts: u32) -> u64 {
        let short = backoff.nanos(attempts, false);
        if !self.long || self.commit_nanos == 0 {
            return short;
        }
        short.max(self.jitter.next() % (self.commit_nanos << (attempts - 1).min(DOUBLINGS_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records `attempts` attempts, of which one in `one_in` conflicts.
    fn run(pace: &mut Pace, attempts: u32, one_in: u32) {
        for attempt in 0..attempts {
            match attempt % one_in {
                0 => pace.conflicted(),
                _ => pace.committed(1_000_000),
            }
        }
    }

    #[test]
    fn fewer_are_under_way_while_they_abort_each_other() {
        let mut pace = Pace::new(64, true, 1);
        assert!(pace.in_flight_max() == 64 && !pace.is_held_back());
        run(&mut pace, 64, 20);
        assert_eq!(pace.in_flight_max(), 64);
        run(&mut pace, 64, 3);
        assert!(pace.in_flight_max() == 48 && pace.is_held_back());
        run(&mut pace, 1_000, 1);
        assert_eq!(pace.in_flight_max(), 1, "never none");
        run(&mut pace, 4_000, 1_000);
        assert_eq!(pace.in_flight_max(), 64, "and again as many as before");
    }

    #[test]
    fn pauses_are_as_long_as_what_was_met() {
        let pauses = |long, commits| {
            let (mut pace, mut backoff) = (Pace::new(64, long, 7), Backoff::new(7));
            (0..commits).for_each(|_| pace.committed(2_000_000));
            (0..100).map(|_| pace.pause(&mut backoff, 1)).max().expect("some")
        };
        assert!(pauses(true, 3) > 1_000_000 && pauses(true, 3) < 2_000_000);
        assert!(pauses(false, 3) < 1_000 && pauses(true, 0) < 1_000);
    }
}
