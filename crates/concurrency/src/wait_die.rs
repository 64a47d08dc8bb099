//! `wait-die`: two-phase locking in which the older waits for the younger, and the younger dies.
//!
//! Source: Rosenkrantz, Stearns, Lewis, "System level concurrency control for distributed database
//! systems", ACM TODS 1978; Bernstein, Goodman, ACM Computing Surveys 1981; as in Yu et al.,
//! "Staring into the abyss", PVLDB 2014, and Bang et al., "The full story of 1000 cores", VLDB
//! Journal 2022, whose waiting, like ours, is bounded spinning.
//!
//! A transaction gets its age when it begins and keeps it over its retries. It waits for a lock
//! only if it is older than all holders, so no circle of waiting transactions closes. A lock word's
//! tag is the age of the oldest transaction that has held the lock since it was last free. That
//! transaction may have ended; then another dies without need.
//!
//! No transaction starves. A transaction that has waited in vain claims the lock: it sets the
//! word's `waited` bit and puts its age into the tag. From then on younger transactions are refused
//! while the lock is held, and hold back for a moment once it is free. A transaction that dies
//! again and again at a lock that others share, perhaps because of an age that has outlived its
//! owner, sets the bit without waiting, so that the lock becomes free in the end. So the oldest
//! transaction gets its locks, whatever other transactions come, but for insertions into a leaf
//! that it scans (see [`crate::locking`]).
//!
//! Deviations: there is no list of waiters. Waiting transactions spin on the lock word and check
//! again whenever it changes: a transaction that is then younger than the new holder dies, where
//! the source would have served the youngest of them first. Age is a timestamp of which 37 bits fit
//! into the word (of the clock: steps of about a microsecond, then the worker's number):
//! transactions further apart than a minute compare wrongly, and the bound on waiting serves them.

use platform::{Nanos, OutOfMemory, Platform};
use terms::{Category, Fault, Faults};

use crate::lock_word::{LockState, TAG_BITS, TAG_GONE, Tagging, Want};
use crate::locking::{Refusal, Seeker, TwoPhase, WaitPolicy, earlier};
use crate::meter::Meter;
use crate::options::InstanceOptions;
use crate::timestamps::{Timestamp, TimestampWorker, Timestamps};

/// Two-phase locking in which the older waits and the younger dies.
pub type WaitDie = TwoPhase<ByAge>;

/// Decides by age.
pub struct ByAge;

/// Distance after which an age that was kept is given up: half of what compares rightly.
const KEPT_MAX: u64 = 1 << (TAG_BITS - 2);
/// How long a transaction waits before it claims the lock.
const UNCLAIMED_NANOS: u64 = 4_000;
/// How long a younger transaction holds back from a free lock that an older one has claimed.
const COURTESY_NANOS: u64 = 500;
/// Attempts after which a transaction that dies at a shared lock keeps further ones from sharing
/// it.
const DRAIN_ATTEMPTS: u32 = 8;

/// Returns true if `left` began before `right`.
#[inline(always)]
fn is_older(left: u64, right: u64) -> bool {
    ((left.wrapping_sub(right) << (64 - TAG_BITS)) as i64) < 0
}

#[inline(always)]
fn older_of(left: u64, right: u64) -> u64 {
    if is_older(left, right) { left } else { right }
}

/// The ages of a worker's transactions.
pub struct Ages {
    timestamps: TimestampWorker,
    /// The age of the last transaction.
    age: Timestamp,
    /// Attempts of the last transaction if it conflicted; 0 otherwise.
    attempts: u32,
}

/// An age as the tag of a lock.
fn tag_of(Timestamp(age): Timestamp) -> u64 {
    let tag = age & TAG_GONE;
    if tag == TAG_GONE { tag - 1 } else { tag }
}

impl Tagging for ByAge {
    const WAITS: bool = true;

    #[inline(always)]
    fn join(before: LockState, granted: LockState, _: Want, tag: u64) -> LockState {
        let oldest = if before.is_held() { older_of(before.tag(), tag) } else { tag };
        granted.with_tag(oldest)
    }
}

impl WaitPolicy for ByAge {
    const NAME: &'static str = "wait-die";
    type SharedState<P: Platform> = Timestamps<P>;
    type WorkerState<P: Platform> = Ages;

    fn shared<P: Platform>(
        c: P::Core,
        workers: usize,
        options: &InstanceOptions,
    ) -> Result<Timestamps<P>, OutOfMemory> {
        Timestamps::new(c, options.timestamps, workers)
    }

    fn worker<P: Platform>(number: usize) -> Ages {
        Ages { timestamps: TimestampWorker::new(number), age: Timestamp::default(), attempts: 0 }
    }

    #[inline]
    fn begin<P: Platform>(c: P::Core, shared: &Timestamps<P>, worker: &mut Ages, meter: &mut Meter) -> u64 {
        let before = meter.enter::<P>(c, Category::Timestamp);
        if worker.attempts == 0 || shared.has_passed(c, worker.age, KEPT_MAX) {
            worker.age = shared.next_rough(c, &mut worker.timestamps);
        }
        meter.leave::<P>(c, before);
        tag_of(worker.age)
    }

    #[inline(always)]
    fn ended<P: Platform>(worker: &mut Ages, again: bool) {
        worker.attempts = if again { worker.attempts + 1 } else { 0 };
    }

    fn contend<P: Platform>(
        _: &Timestamps<P>,
        worker: &mut Ages,
        seeker: Seeker<'_, P>,
        faults: Faults,
    ) -> Result<(), Refusal> {
        let now = P::now(seeker.c);
        let (seen, deadline) = (seeker.seen, seeker.deadline(now, faults));
        let attempts = worker.attempts;
        Wait { seeker, seen, now, deadline, attempts, claims: attempts > 0, polite_until: None }.run(faults)
    }

    fn may_wait(tag: u64, owner: u64) -> bool {
        !is_older(owner, tag)
    }

    fn lets_pass(tag: u64, first: u64) -> bool {
        is_older(tag, first)
    }

    fn goes_behind(tag: u64, other: u64) -> bool {
        is_older(tag, other)
    }
}

/// One wait for a lock.
struct Wait<'a, P: Platform> {
    seeker: Seeker<'a, P>,
    /// The lock word as it was read last.
    seen: LockState,
    /// When the wait began.
    now: Nanos,
    deadline: Option<Nanos>,
    attempts: u32,
    /// True if the transaction does not let itself be overtaken any more.
    claims: bool,
    polite_until: Option<Nanos>,
}

impl<P: Platform> Wait<'_, P> {
    fn run(mut self, faults: Faults) -> Result<(), Refusal> {
        loop {
            let end = match self.seeker.want.grant(self.seen) {
                Some(granted) => self.enter(granted, faults),
                None => self.wait(faults),
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Returns true if an older transaction waits for the lock, which this transaction would
    /// overtake.
    fn overtakes(&self) -> bool {
        let newcomer = matches!(
            self.seeker.want,
            Want::Shared { .. } | Want::Exclusive { shared: false, .. } | Want::Gap
        );
        newcomer && self.seen.is_waited() && is_older(self.seen.tag(), self.seeker.tag())
    }

    /// Takes the lock, which its holders do not exclude; the end of the wait, or `None` if the word
    /// is to be read again.
    fn enter(&mut self, granted: LockState, faults: Faults) -> Option<Result<(), Refusal>> {
        let Seeker { c, lock, want, .. } = self.seeker;
        if let Want::Open { .. } = want {
            // The claim stays until the insertion has been tried.
            return Some(Ok(()));
        }
        let overtakes = !faults.has(Fault::UnresolvedDeadlocks) && self.overtakes();
        if overtakes && self.seen.is_held() {
            return Some(Err(Refusal::Held));
        }
        if overtakes && self.polite_until.is_none_or(|end| P::now(c) < end) {
            let end = *self.polite_until.get_or_insert_with(|| P::now(c).plus(COURTESY_NANOS));
            self.seen = lock.wait_while(c, self.seen, Some(end));
            return None;
        }
        let tag = self.seeker.tag();
        let waited = self.seen.is_waited() && self.seen.is_held() && is_older(self.seen.tag(), tag);
        let granted = ByAge::join(self.seen, granted, want, tag).waited(waited);
        match lock.exchange(c, self.seen, granted) {
            Ok(()) => Some(Ok(())),
            Err(seen) => {
                self.seen = seen;
                None
            }
        }
    }

    /// Waits for the holders of the lock, or dies.
    fn wait(&mut self, faults: Faults) -> Option<Result<(), Refusal>> {
        let Seeker { c, lock, .. } = self.seeker;
        let (seen, tag) = (self.seen, self.seeker.tag());
        if seen.is_gone() {
            return Some(Err(Refusal::Held));
        }
        if !faults.has(Fault::UnresolvedDeadlocks) && is_older(seen.tag(), tag) {
            if self.attempts >= DRAIN_ATTEMPTS && !seen.is_exclusive() && !seen.is_waited() {
                // Whether it succeeds or not: there is a next attempt.
                let _ = lock.exchange(c, seen, seen.waited(true));
            }
            return Some(Err(Refusal::Held));
        }
        let claimed = seen.with_tag(older_of(seen.tag(), tag)).waited(true);
        if self.claims && seen != claimed {
            self.seen = lock.exchange(c, seen, claimed).err().unwrap_or(claimed);
            return None;
        }
        let until = match self.claims {
            true => self.deadline,
            false => Some(earlier(self.now.plus(UNCLAIMED_NANOS), self.deadline)),
        };
        self.seen = lock.wait_while(c, seen, until);
        self.claims = true;
        let passed = self.deadline.is_some_and(|end| P::now(c) >= end);
        passed.then_some(Err(Refusal::Held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamps::TimestampSource;

    #[test]
    fn ages_compare_across_the_end_of_the_tag() {
        let last = TAG_GONE - 1;
        assert!(is_older(last, 5) && !is_older(5, last));
        assert!(is_older(5, 6) && !is_older(6, 6));
        assert_eq!(older_of(last, 3), last);
    }

    #[test]
    fn a_transaction_keeps_its_age_until_it_ends() {
        use platform::Hardware;
        let c = Hardware::core();
        let (mut worker, mut meter) = (ByAge::worker::<Hardware>(3), Meter::new(false));
        for source in [TimestampSource::Counter, TimestampSource::Clock] {
            let options = InstanceOptions { timestamps: source, ..InstanceOptions::default() };
            let shared = ByAge::shared::<Hardware>(c, 4, &options).expect("memory");
            let mut begin = |worker: &mut Ages| ByAge::begin::<Hardware>(c, &shared, worker, &mut meter);
            let first = begin(&mut worker);
            ByAge::ended::<Hardware>(&mut worker, true);
            assert_eq!(begin(&mut worker), first);
            ByAge::ended::<Hardware>(&mut worker, false);
            let second = begin(&mut worker);
            assert!(is_older(first, second), "{source:?}");
            worker.age = Timestamp(worker.age.0.wrapping_sub(KEPT_MAX + (1 << 20)));
            ByAge::ended::<Hardware>(&mut worker, true);
            assert!(is_older(second, begin(&mut worker)), "an age that is too old is given up");
            worker = ByAge::worker::<Hardware>(3);
        }
    }
}
