//! How many transactions over several instances a worker has under way, and how long those wait
//! that met another one.
//!
//! Parts keep what they have locked until their decision comes, so each transaction more that is
//! under way makes it likelier that one meets another, and an attempt that is aborted has kept
//! others out for nothing. So the number shrinks while more than a share of the attempts are
//! aborted, and grows again to what the plan allows while few are: additive increase,
//! multiplicative decrease (Chiu, Jain, "Analysis of the increase and decrease algorithms for
//! congestion avoidance in computer networks", 1989), as Heiss and Wagner ("Adaptive load control
//! in transaction processing systems", VLDB 1991) do with whole databases.
//!
//! The cause of a conflict lasts for about as long as a transaction takes. Where that is long,
//! because votes wait until they are durable, pauses are as long, and not those after which a
//! conflict within one instance is over.

use boundary::Backoff;
use terms::random::{GOLDEN, Xorshift};

/// Attempts over which conflicts are counted, at least: as many as are under way, where that is
/// more.
const ATTEMPTS_MIN: u32 = 8;
/// More than one conflict in so many attempts: fewer transactions are to be under way. This many
/// conflicts cost a quarter of the work.
const SHRINKS_AT: u32 = 4;
/// Less than one conflict in so many attempts: more may be.
const GROWS_AT: u32 = 10;
/// Doublings of a pause.
const DOUBLINGS_MAX: u32 = 4;

/// The pace of one worker.
pub(crate) struct Pace {
    most: usize,
    now: usize,
    attempts: u32,
    conflicts: u32,
    /// How long a transaction takes that commits, on average of the last ones.
    commit_nanos: u64,
    /// True if pauses are of that length.
    long: bool,
    jitter: Xorshift,
}

impl Pace {
    /// At most so many under way. `long`: what a transaction meets is there until it is durable.
    pub(crate) fn new(most: usize, long: bool, seed: u64) -> Self {
        let most = most.max(1);
        let jitter = Xorshift::new(seed ^ GOLDEN);
        Pace { most, now: most, attempts: 0, conflicts: 0, commit_nanos: 0, long, jitter }
    }

    /// How many may be under way.
    pub(crate) fn under_way_max(&self) -> usize {
        self.now
    }

    /// True if transactions abort each other.
    pub(crate) fn is_held_back(&self) -> bool {
        self.now < self.most
    }

    /// An attempt has committed that took so long.
    pub(crate) fn committed(&mut self, nanos: u64) {
        self.commit_nanos = if self.commit_nanos == 0 { nanos } else { (7 * self.commit_nanos + nanos) / 8 };
        self.ended(0);
    }

    /// An attempt met another transaction.
    pub(crate) fn met_another(&mut self) {
        self.ended(1);
    }

    fn ended(&mut self, conflicts: u32) {
        self.attempts += 1;
        self.conflicts += conflicts;
        if self.attempts < ATTEMPTS_MIN.max(self.now as u32) {
            return;
        }
        if self.conflicts * SHRINKS_AT > self.attempts {
            // Nearly all are aborted: there is far too much.
            let left = if self.conflicts * 2 > self.attempts { self.now / 2 } else { self.now * 3 / 4 };
            self.now = left.max(1);
        } else if self.conflicts * GROWS_AT < self.attempts {
            self.now = (self.now + 1 + self.now / 8).min(self.most);
        }
        (self.attempts, self.conflicts) = (0, 0);
    }

    /// How long a transaction pauses whose attempts met others so many times, at least once.
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

    /// So many attempts, of which one in `one_in` meets another transaction.
    fn run(pace: &mut Pace, attempts: u32, one_in: u32) {
        for attempt in 0..attempts {
            match attempt % one_in {
                0 => pace.met_another(),
                _ => pace.committed(1_000_000),
            }
        }
    }

    #[test]
    fn fewer_are_under_way_while_they_abort_each_other() {
        let mut pace = Pace::new(64, true, 1);
        assert!(pace.under_way_max() == 64 && !pace.is_held_back());
        run(&mut pace, 64, 20);
        assert_eq!(pace.under_way_max(), 64);
        run(&mut pace, 64, 3);
        assert!(pace.under_way_max() == 48 && pace.is_held_back());
        run(&mut pace, 1_000, 1);
        assert_eq!(pace.under_way_max(), 1, "never none");
        run(&mut pace, 4_000, 1_000);
        assert_eq!(pace.under_way_max(), 64, "and again as many as before");
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
