//! Queues in which transactions sleep until a lock is theirs.
//!
//! A transaction that does not get a lock joins the queue of the lock's word, which is served in
//! the order of arrival. Transactions that have something of the word already, a row that they
//! share or the gap below it, go before all others, which wait for them anyway.
//!
//! A thread that sleeps needs some time to run, in which the lock would be idle if it went from
//! hand to hand. So a transaction that gives back a lock which the first of the queue could have
//! *calls* that one, and leaves the lock free: the next transaction that comes takes it, one at a
//! time. The thread that was called watches the lock, and is not overtaken any more by transactions
//! that see that. When [`OVERTAKEN_NANOS_MAX`] have passed since the lock was free for the first of
//! the queue for the first time, the lock is given to it, asleep or not (decision 0120). Source:
//! `Mutex` of Go, `sync/mutex.go`, whose waiters are woken to compete, and get the mutex handed
//! over after a millisecond.
//!
//! Words fall into lists by their address; a list is a latch and a chain of waiting workers. The
//! row and the gap of a word have one queue. So a transaction in the queue waits for those who
//! have the row or the gap, or for one that does, and the circles through the queue are those
//! through these holders.
//!
//! Concurrency: a bit of the word says that its queue is not empty. It is set and cleared with the
//! list latched, in the same exchange that sees that the lock is not free, or that takes it for the
//! last one that waits. To give something back is to change the word first: either that sees the
//! bit, or the transaction that would set the bit sees the change. A word belongs to a row that may
//! be reused when no transaction waits for it any more; so nothing is done to a word whose queue is
//! empty.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};
use terms::{Fault, Faults};

use super::waits_for::{ROW_OR_GAP, Search, ShownWait, WaitsFor};
use crate::lock_word::{LockState, LockWord, Want};
use crate::locking::{Refusal, Seeker};

/// Lists: a power of two.
const LISTS: usize = 256;
/// Words of a list: its latch, and its first worker, plus 1.
const FIRST: usize = 1;
const LIST_WORDS: usize = 2;

/// Words of a worker: the next one in its list, plus 1; the lock; the request; its tag; the answer.
const NEXT: usize = 0;
const LOCK: usize = 1;
const REQUEST: usize = 2;
const HOLDER_TAG: usize = 3;
const ANSWER: usize = 4;
/// 1 while the worker watches the lock.
const WATCHES: usize = 5;
/// When the lock was free for the worker for the first time; 0: it was not yet.
const FREE_SINCE: usize = 6;
const WORDS: usize = LINE_BYTES / 8;

/// Answers. 0: the transaction waits.
const GRANTED: u64 = 1;
const GONE: u64 = 2;
/// The lock was free: the transaction, which still waits, is to watch it.
const CALLED: u64 = 3;

/// A transaction watches a lock on its processor for this long before it sleeps again.
const SPIN_NANOS: u64 = 20_000;
/// The longest time that the first of a queue is overtaken.
const OVERTAKEN_NANOS_MAX: u64 = 2_000_000;
/// A transaction that comes to a free lock leaves it for this long to one that watches the lock,
/// and is perhaps not running.
const COURTESY_NANOS: u64 = 2_000;
/// A sleeping transaction searches for a deadlock after this time, then after twice as long, and so
/// on.
const SEARCH_NANOS_FIRST: u64 = 100_000;
const SEARCH_NANOS_MAX: u64 = 10_000_000;

/// A moment that does not come.
const FOREVER: Nanos = Nanos(u64::MAX);

/// The state of a word that is granted to a transaction with this tag: the tag of a lock that is
/// held exclusively is its holder's number, plus 1.
#[inline(always)]
pub(super) fn with_holder(granted: LockState, want: Want, tag: u64) -> LockState {
    if let Want::Exclusive { .. } = want { granted.with_holder_tag(tag) } else { granted }
}

/// The same of a lock that transactions may sleep for: those who come after are not to overtake.
#[inline(always)]
pub(super) fn join(granted: LockState, want: Want, tag: u64) -> LockState {
    let granted = with_holder(granted, want, tag);
    granted.waited(granted.is_waited() || granted.has_sleepers())
}

/// A request as a word, and back.
fn to_word(want: Want, has_part: bool) -> u64 {
    let (kind, gap, shared, own) = match want {
        Want::Shared { gap } => (0, gap, false, 0),
        Want::Exclusive { shared, gap } => (1, gap, shared, 0),
        Want::Gap => (2, false, false, 0),
        Want::Pend { own } => (3, false, false, own),
        Want::Open { own } => (4, false, false, own),
    };
    kind | u64::from(gap) << 3 | u64::from(shared) << 4 | u64::from(has_part) << 5 | own << 8
}

fn of_word(word: u64) -> (Want, bool) {
    let (gap, shared, own) = (word >> 3 & 1 == 1, word >> 4 & 1 == 1, word >> 8);
    let want = match word & 7 {
        0 => Want::Shared { gap },
        1 => Want::Exclusive { shared, gap },
        2 => Want::Gap,
        3 => Want::Pend { own },
        _ => Want::Open { own },
    };
    (want, word >> 5 & 1 == 1)
}

// Relaxed, both: the latch of the list orders them.
fn get<P: Platform>(c: P::Core, word: &P::Word) -> u64 {
    P::load(c, word, Ordering::Relaxed)
}

fn set<P: Platform>(c: P::Core, word: &P::Word, value: u64) {
    P::store(c, word, value, Ordering::Relaxed);
}

fn name_of<P: Platform>(lock: &LockWord<P>) -> u64 {
    std::ptr::from_ref(lock).expose_provenance() as u64
}

/// The queues of an instance.
pub(super) struct Queues<P: Platform> {
    lists: P::Region,
    workers: P::Region,
    faults: Faults,
}

/// A worker whose transaction waits.
pub(super) struct Sleeper<'w> {
    pub number: usize,
    pub age: u64,
    pub search: &'w mut Search,
    /// Longest wait, in nanoseconds.
    pub longest: u64,
}

/// The outcome of a transaction's coming to a lock.
enum Arrival {
    Taken,
    Gone,
    /// In the queue; `is_first`: at its head.
    Waits {
        is_first: bool,
    },
}

impl<P: Platform> Queues<P> {
    pub(super) fn new(c: P::Core, workers: usize, faults: Faults) -> Result<Self, OutOfMemory> {
        let lists = P::region(c, None, LISTS * LINE_BYTES, "queues of locks")?;
        let workers = P::region(c, None, workers * LINE_BYTES, "sleeping workers")?;
        Ok(Queues { lists, workers, faults })
    }

    fn list(&self, lock: u64) -> &[P::Word] {
        let number = (lock >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LISTS.ilog2());
        P::words_of(&self.lists, number as usize * LINE_BYTES, LIST_WORDS)
    }

    fn worker(&self, number: usize) -> &[P::Word] {
        P::words_of(&self.workers, number * LINE_BYTES, WORDS)
    }

    /// The answer that a worker has by now; 0: none.
    fn answer(&self, c: P::Core, number: usize) -> u64 {
        // Acquire: pairs with the release in `serve`.
        match P::load(c, &self.worker(number)[ANSWER], Ordering::Acquire) {
            CALLED => 0,
            answer => answer,
        }
    }

    fn is_waiting(&self, c: P::Core, number: usize) -> bool {
        self.answer(c, number) == 0
    }

    /// Runs `body` with the list of a lock latched.
    fn with_list<T>(&self, c: P::Core, lock: u64, body: impl FnOnce(&[P::Word]) -> T) -> T {
        let list = self.list(lock);
        // Acquire: pairs with the release below.
        while P::cas(c, &list[0], 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, &list[0], 1, None);
        }
        let result = body(list);
        // Release: pairs with the acquire of the next holder.
        P::store(c, &list[0], 0, Ordering::Release);
        result
    }

    /// The workers that wait for a lock, in order.
    fn queue(&self, c: P::Core, list: &[P::Word], lock: u64) -> Vec<usize> {
        let mut queue = Vec::new();
        let mut next = get::<P>(c, &list[FIRST]);
        while next != 0 {
            let number = next as usize - 1;
            if get::<P>(c, &self.worker(number)[LOCK]) == lock {
                queue.push(number);
            }
            next = get::<P>(c, &self.worker(number)[NEXT]);
        }
        queue
    }

    /// The request of a worker that waits, and whether it has part of the lock.
    fn request(&self, c: P::Core, number: usize) -> (Want, bool) {
        of_word(get::<P>(c, &self.worker(number)[REQUEST]))
    }

    /// The first of the workers that wait for a lock.
    fn first(&self, c: P::Core, list: &[P::Word], lock: u64) -> Option<usize> {
        let mut next = get::<P>(c, &list[FIRST]);
        loop {
            let number = (next as usize).checked_sub(1)?;
            let words = self.worker(number);
            if get::<P>(c, &words[LOCK]) == lock {
                return Some(number);
            }
            next = get::<P>(c, &words[NEXT]);
        }
    }

    /// Puts a worker into a list: at its end, or before those who have no part of the same lock.
    fn append(&self, c: P::Core, list: &[P::Word], number: usize, lock: u64, has_part: bool) {
        let mut place = &list[FIRST];
        loop {
            let next = get::<P>(c, place);
            let Some(other) = (next as usize).checked_sub(1) else { break };
            let words = self.worker(other);
            let (_, other_has_part) = self.request(c, other);
            if has_part && get::<P>(c, &words[LOCK]) == lock && !other_has_part {
                break;
            }
            place = &words[NEXT];
        }
        set::<P>(c, &self.worker(number)[NEXT], get::<P>(c, place));
        set::<P>(c, place, number as u64 + 1);
    }

    fn unlink(&self, c: P::Core, list: &[P::Word], number: usize) {
        let after = get::<P>(c, &self.worker(number)[NEXT]);
        let mut place = &list[FIRST];
        loop {
            match get::<P>(c, place) as usize {
                0 => unreachable!("a worker that waits is in its list"),
                found if found == number + 1 => return set::<P>(c, place, after),
                other => place = &self.worker(other - 1)[NEXT],
            }
        }
    }

    /// Takes a lock that is free, if no transaction is to be served before, or `overtakes`; else
    /// joins the queue.
    fn arrive(&self, seeker: &Seeker<'_, P>, number: usize, overtakes: bool) -> Arrival {
        let Seeker { c, lock, want, .. } = *seeker;
        let (name, tag) = (name_of(lock), seeker.tag());
        let has_part = seeker.state.names().any(|held| held & !1 == name);
        self.with_list(c, name, |list| {
            let first = self.first(c, list, name);
            loop {
                let seen = lock.state(c);
                if seen.is_gone() {
                    return Arrival::Gone;
                }
                // The first is overtaken where it could have the lock itself, and nowhere else: it
                // may wait for several who share the lock.
                let is_next = has_part
                    || first.is_none_or(|first| {
                        (overtakes || seen.is_open()) && self.request(c, first).0.grant(seen).is_some()
                    });
                match want.grant(seen).filter(|_| is_next) {
                    Some(_) if matches!(want, Want::Open { .. }) => return Arrival::Taken,
                    Some(granted) if lock.exchange(c, seen, join(granted, want, tag)).is_ok() => {
                        return Arrival::Taken;
                    }
                    Some(_) => {}
                    None if lock.exchange(c, seen, seen.slept_for(true)).is_ok() => break,
                    None => {}
                }
            }
            let words = self.worker(number);
            set::<P>(c, &words[LOCK], name);
            set::<P>(c, &words[REQUEST], to_word(want, has_part));
            set::<P>(c, &words[HOLDER_TAG], tag);
            set::<P>(c, &words[ANSWER], 0);
            set::<P>(c, &words[FREE_SINCE], 0);
            self.append(c, list, number, name, has_part);
            let is_first = self.first(c, list, name) == Some(number);
            set::<P>(c, &words[WATCHES], u64::from(is_first));
            Arrival::Waits { is_first }
        })
    }

    /// Serves those who wait for a lock, as far as it is free for them; who is to be woken.
    ///
    /// Pre: the list is latched.
    fn serve(&self, c: P::Core, list: &[P::Word], lock: &LockWord<P>) -> Vec<usize> {
        let queue = self.queue(c, list, name_of(lock));
        let (mut left, mut served, mut is_blocked) = (queue.len(), Vec::new(), false);
        for number in queue {
            let words = self.worker(number);
            let (want, has_part) = self.request(c, number);
            let is_skipped = self.faults.has(Fault::SkippedWaiter) && number % 4 == 3;
            if is_skipped || (is_blocked && !has_part) {
                continue;
            }
            match self.take(c, lock, want, get::<P>(c, &words[HOLDER_TAG]), left == 1) {
                None => is_blocked = true,
                Some(answer) => {
                    self.unlink(c, list, number);
                    left -= 1;
                    // Release: pairs with the acquire of the worker that waits. From here on its
                    // transaction runs, and the row may go if no other one waits.
                    P::store(c, &words[ANSWER], answer, Ordering::Release);
                    served.push(number);
                }
            }
        }
        served
    }

    /// Takes a lock for a transaction that waits, perhaps the last one; the answer, or `None` if
    /// others have it.
    fn take(&self, c: P::Core, lock: &LockWord<P>, want: Want, tag: u64, is_last: bool) -> Option<u64> {
        loop {
            let seen = lock.state(c);
            if seen.is_gone() {
                return Some(GONE);
            }
            let granted = join(want.grant(seen)?, want, tag).slept_for(!is_last);
            if lock.exchange(c, seen, granted).is_ok() {
                return Some(GRANTED);
            }
        }
    }

    fn wake(&self, c: P::Core, served: &[usize]) {
        for number in served {
            P::unpark(c, &self.worker(*number)[ANSWER], 1);
        }
    }

    /// Some transaction has given something of the lock back, and saw that others sleep.
    #[cold]
    #[inline(never)]
    pub(super) fn gave_back(&self, c: P::Core, lock: &LockWord<P>) {
        let served = self.with_list(c, name_of(lock), |list| {
            let Some(first) = self.first(c, list, name_of(lock)) else { return Vec::new() };
            self.call(c, first, lock).unwrap_or_else(|| self.serve(c, list, lock))
        });
        self.wake(c, &served);
    }

    /// Leaves the lock free for the first of those who wait, which is called; who is to be woken.
    /// `None` if the lock is not to be left free.
    ///
    /// Pre: the list is latched.
    fn call(&self, c: P::Core, first: usize, lock: &LockWord<P>) -> Option<Vec<usize>> {
        let words = self.worker(first);
        let (want, _) = self.request(c, first);
        let seen = lock.state(c);
        if seen.is_gone() || want.grant(seen).is_none() {
            return None;
        }
        let Nanos(now) = P::now(c);
        let since = match get::<P>(c, &words[FREE_SINCE]) {
            0 => now,
            since => since,
        };
        set::<P>(c, &words[FREE_SINCE], since.max(1));
        if now.saturating_sub(since) > OVERTAKEN_NANOS_MAX && !self.faults.has(Fault::EndlessOvertaking) {
            return None;
        }
        if get::<P>(c, &words[WATCHES]) == 1 {
            return Some(Vec::new());
        }
        // An exchange that fails leaves the lock closed: another transaction has taken it.
        let _ = lock.exchange(c, seen, seen.waited(false));
        if get::<P>(c, &words[ANSWER]) == CALLED {
            return Some(Vec::new());
        }
        // Release: as in `serve`.
        P::store(c, &words[ANSWER], CALLED, Ordering::Release);
        Some(vec![first])
    }

    /// A worker that was called, or has watched the lock in vain, watches it from now on, or does
    /// not; before that it takes the lock, if that is free for it.
    fn watch(&self, c: P::Core, number: usize, lock: &LockWord<P>, watches: bool) {
        let served = self.with_list(c, name_of(lock), |list| {
            let words = self.worker(number);
            if self.answer(c, number) != 0 {
                return Vec::new();
            }
            set::<P>(c, &words[ANSWER], 0);
            set::<P>(c, &words[WATCHES], u64::from(watches));
            let mut seen = lock.state(c);
            while !seen.is_gone() && lock.exchange(c, seen, seen.waited(true)).is_err() {
                seen = lock.state(c);
            }
            self.serve(c, list, lock)
        });
        let others: Vec<usize> = served.into_iter().filter(|served| *served != number).collect();
        self.wake(c, &others);
    }

    /// Leaves the queue, unless the transaction has an answer by now: then returns the answer.
    fn leave(&self, c: P::Core, number: usize, lock: &LockWord<P>) -> u64 {
        let name = name_of(lock);
        let (answer, served) = self.with_list(c, name, |list| {
            let answer = self.answer(c, number);
            if answer != 0 {
                return (answer, Vec::new());
            }
            self.unlink(c, list, number);
            set::<P>(c, &self.worker(number)[ANSWER], GONE);
            if self.queue(c, list, name).is_empty() {
                let mut seen = lock.state(c);
                while !seen.is_gone() && lock.exchange(c, seen, seen.slept_for(false)).is_err() {
                    seen = lock.state(c);
                }
                return (0, Vec::new());
            }
            (0, self.serve(c, list, lock))
        });
        self.wake(c, &served);
        answer
    }

    /// Waits until the lock is the transaction's, which sleeps meanwhile.
    pub(super) fn wait(
        &self,
        graph: &WaitsFor<P>,
        mut sleeper: Sleeper<'_>,
        seeker: &Seeker<'_, P>,
    ) -> Result<(), Refusal> {
        let (c, number) = (seeker.c, sleeper.number);
        let answer_of = |answer: u64| if answer == GRANTED { Ok(()) } else { Err(Refusal::Held) };
        let is_first = match self.arrive(seeker, number, self.leaves_to_another(seeker)) {
            Arrival::Taken => return Ok(()),
            Arrival::Gone => return Err(Refusal::Held),
            Arrival::Waits { is_first } => is_first,
        };
        let mut is_shown = false;
        let end = self.sleep(graph, &mut sleeper, seeker, is_first, &mut is_shown);
        if is_shown {
            graph.hide(c, number);
        }
        match end {
            Ok(answer) => answer_of(answer),
            Err(refusal) => match self.leave(c, number, seeker.lock) {
                0 => Err(refusal),
                answer => answer_of(answer),
            },
        }
    }

    /// Leaves a lock that is free for a moment to one that watches it; true if that one has not
    /// taken it, and so is perhaps not running.
    fn leaves_to_another(&self, seeker: &Seeker<'_, P>) -> bool {
        let (c, lock) = (seeker.c, seeker.lock);
        let seen = lock.state(c);
        if seen.is_gone() || !seen.has_sleepers() || !seen.is_waited() || seeker.want.grant(seen).is_none() {
            return false;
        }
        lock.wait_while(c, seen, Some(P::now(c).plus(COURTESY_NANOS))) == seen
    }

    /// Watches the lock until there is an answer, or until it is time to sleep.
    fn watch_until(&self, seeker: &Seeker<'_, P>, number: usize, until: Nanos) {
        let (c, lock) = (seeker.c, seeker.lock);
        while self.answer(c, number) == 0 && P::now(c) < until {
            let seen = lock.state(c);
            match seeker.want.grant(seen) {
                Some(_) => self.watch(c, number, lock, true),
                None if seen.is_gone() => return self.watch(c, number, lock, true),
                None => {
                    lock.wait_while(c, seen, Some(until));
                }
            }
        }
    }

    /// Sleeps until there is an answer, or a reason to leave the queue.
    fn sleep(
        &self,
        graph: &WaitsFor<P>,
        sleeper: &mut Sleeper<'_>,
        seeker: &Seeker<'_, P>,
        mut watches: bool,
        is_shown: &mut bool,
    ) -> Result<u64, Refusal> {
        let (c, number, lock, faults) = (seeker.c, sleeper.number, seeker.lock, self.faults);
        let answer = &self.worker(number)[ANSWER];
        let began = P::now(c);
        let ends = began.plus(sleeper.longest);
        let ends = if faults.has(Fault::UnboundedWaits) { FOREVER } else { ends };
        let (mut search_at, mut pause) = (began.plus(SEARCH_NANOS_FIRST), SEARCH_NANOS_FIRST);
        let last = seeker.transaction_ends.map_or(ends, |deadline| deadline.min(ends));
        loop {
            // Acquire: pairs with the releases in `serve` and `call`.
            let seen = P::load(c, answer, Ordering::Acquire);
            if seen == CALLED {
                self.watch(c, number, lock, true);
                watches = true;
                continue;
            }
            if seen != 0 {
                return Ok(seen);
            }
            let now = P::now(c);
            if now >= ends {
                return Err(Refusal::TimedOut(now.since(began)));
            }
            if now >= last {
                return Err(Refusal::Late);
            }
            if std::mem::take(&mut watches) {
                self.watch_until(seeker, number, now.plus(SPIN_NANOS).min(last));
                if self.answer(c, number) == 0 {
                    self.watch(c, number, lock, false);
                }
                continue;
            }
            if now >= search_at && !faults.has(Fault::UnresolvedDeadlocks) {
                if !*is_shown {
                    let wait = ShownWait { lock: name_of(lock) | ROW_OR_GAP, owner: 0, age: sleeper.age };
                    graph.show(c, number, wait, seeker.state.names(), sleeper.search);
                    *is_shown = true;
                }
                if graph.is_victim(c, number, sleeper.search, |other| self.is_waiting(c, other)) {
                    return Err(Refusal::Deadlock);
                }
                pause = (2 * pause).min(SEARCH_NANOS_MAX);
                search_at = now.plus(pause);
            }
            let until = if faults.has(Fault::UnresolvedDeadlocks) { last } else { search_at.min(last) };
            P::park(c, answer, 0, (until != FOREVER).then_some(until));
        }
    }
}

#[cfg(test)]
mod tests;
