//! Locks of keys and gaps.
//!
//! Names fall into lists by a hash; a list is a latch and a chain of requests, granted ones and
//! waiting ones. Requests are lines of the owner that made them.

use platform::{Intent, LINE_BYTES, Nanos, OutOfMemory, Platform};

use super::answer::{ImmediateAnswer, LockAnswer};
use super::latched::{get, latched, set};
use super::mode::LockMode;
use super::waits::{ConflictingRequest, Rank, Waits};

/// Words of a request.
const NEXT: usize = 0;
const NAME: usize = 1;
/// Granted mode; 0: none.
const GRANTED: usize = 2;
/// Mode that is waited for; 0: none.
const WANTED: usize = 3;
const AGE: usize = 4;
const WORDS: usize = LINE_BYTES / 8;

/// Words of a list. The first is its latch.
const FIRST: usize = 1;
/// Requests that wait.
const WAITERS: usize = 2;
const LIST_WORDS: usize = 3;

/// The locks of keys and gaps.
pub(super) struct RowLocks<P: Platform> {
    lists: P::Region,
    /// A power of two.
    list_count: usize,
    requests: P::Region,
    /// Requests of each owner.
    pub(super) per_owner: usize,
}

/// A request for a key or gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRequest {
    pub name: u64,
    pub mode: LockMode,
    /// Smaller is older; no two transactions have the same.
    pub age: u64,
}

impl<P: Platform> RowLocks<P> {
    /// No locks.
    pub(super) fn new(
        c: P::Core,
        lists: usize,
        owners: usize,
        per_owner: usize,
    ) -> Result<Self, OutOfMemory> {
        let list_count = lists.max(1).next_power_of_two();
        let lists = P::region(c, None, list_count * LINE_BYTES, "lists of locks")?;
        let requests = P::region(c, None, owners * per_owner * LINE_BYTES, "locks of transactions")?;
        Ok(RowLocks { lists, list_count, requests, per_owner })
    }

    fn list(&self, name: u64) -> &[P::Word] {
        let number = name as usize & (self.list_count - 1);
        P::words_of(&self.lists, number * LINE_BYTES, LIST_WORDS)
    }

    /// Prefetches the list of a name.
    #[inline]
    pub(super) fn prefetch(&self, c: P::Core, name: u64) {
        P::prefetch(c, self.list(name).as_ptr(), LIST_WORDS * 8, Intent::Write);
    }

    /// Request number `number`, counted from 1 over all owners.
    fn request(&self, number: u64) -> &[P::Word] {
        P::words_of(&self.requests, (number as usize - 1) * LINE_BYTES, WORDS)
    }

    /// The requests of a list for this name, in order.
    fn requests(&self, c: P::Core, list: &[P::Word], name: u64) -> impl Iterator<Item = (u64, &[P::Word])> {
        let request = move |number: u64| (number != 0).then(|| (number, self.request(number)));
        let first = request(get::<P>(c, &list[FIRST]));
        let all = std::iter::successors(first, move |(_, words)| request(get::<P>(c, &words[NEXT])));
        all.filter(move |(_, words)| get::<P>(c, &words[NAME]) == name)
    }

    /// The owner that made a request.
    fn owner(&self, number: u64) -> usize {
        (number as usize - 1) / self.per_owner
    }

    fn rank(c: P::Core, words: &[P::Word]) -> Rank {
        Rank { is_new: get::<P>(c, &words[GRANTED]) == 0, age: get::<P>(c, &words[AGE]) }
    }

    /// Requests a lock: with `own` the request that the transaction has already, else with `fresh`,
    /// a request that is in no list. The request waits if it may, and if the transaction allows
    /// that.
    pub(super) fn request_lock(
        &self,
        c: P::Core,
        waits: &Waits<P>,
        request: RowRequest,
        own: Option<u64>,
        fresh: u64,
        may_wait: bool,
    ) -> ImmediateAnswer {
        let list = self.list(request.name);
        let number = own.unwrap_or(fresh);
        latched::<P, _>(c, list, || {
            let has = own.map(|own| LockMode::of(get::<P>(c, &self.request(own)[GRANTED])));
            let target = has.map_or(request.mode, |has| has.join(request.mode));
            let mut conflicts = Vec::new();
            for (other, words) in self.requests(c, list, request.name) {
                if own == Some(other) {
                    continue;
                }
                let excludes = |mode: u64| mode != 0 && !LockMode::of(mode).is_compatible(target);
                let granted = excludes(get::<P>(c, &words[GRANTED]));
                let wanted = excludes(get::<P>(c, &words[WANTED]));
                if granted || wanted {
                    let own_rank = Rank { is_new: own.is_none(), age: request.age };
                    conflicts.push(ConflictingRequest::of(
                        self.owner(other),
                        Self::rank(c, words),
                        own_rank,
                        granted,
                        wanted,
                    ));
                }
            }
            let asked = match conflicts.is_empty() {
                true => ImmediateAnswer::Granted,
                false => waits.decide(c, self.owner(number), request.age, &conflicts, may_wait),
            };
            if asked == ImmediateAnswer::Refused {
                return asked;
            }
            let words = self.request(number);
            if own.is_none() {
                set::<P>(c, &words[NAME], request.name);
                set::<P>(c, &words[AGE], request.age);
                set::<P>(c, &words[GRANTED], 0);
                self.append(c, list, number);
            }
            let slot = if asked == ImmediateAnswer::Granted { GRANTED } else { WANTED };
            if asked == ImmediateAnswer::Waits {
                set::<P>(c, &list[WAITERS], get::<P>(c, &list[WAITERS]) + 1);
            }
            set::<P>(c, &words[WANTED], 0);
            set::<P>(c, &words[slot], target as u64);
            asked
        })
    }

    fn append(&self, c: P::Core, list: &[P::Word], number: u64) {
        set::<P>(c, &self.request(number)[NEXT], 0);
        let mut place = &list[FIRST];
        loop {
            match get::<P>(c, place) {
                0 => return set::<P>(c, place, number),
                next => place = &self.request(next)[NEXT],
            }
        }
    }

    fn unlink(&self, c: P::Core, list: &[P::Word], number: u64) {
        let next = get::<P>(c, &self.request(number)[NEXT]);
        let mut place = &list[FIRST];
        loop {
            match get::<P>(c, place) {
                0 => unreachable!("a request is in its list"),
                found if found == number => return set::<P>(c, place, next),
                other => place = &self.request(other)[NEXT],
            }
        }
    }

    /// A request waits no longer.
    fn retire(&self, c: P::Core, list: &[P::Word], words: &[P::Word]) {
        set::<P>(c, &words[WANTED], 0);
        set::<P>(c, &list[WAITERS], get::<P>(c, &list[WAITERS]) - 1);
    }

    /// Grants what waits for this name and need not wait any more.
    ///
    /// Pre: the list is latched.
    #[cold]
    fn grant(&self, c: P::Core, waits: &Waits<P>, list: &[P::Word], name: u64) {
        let waiting = self.requests(c, list, name).filter_map(|(number, words)| {
            let wanted = get::<P>(c, &words[WANTED]);
            (wanted != 0).then(|| (Self::rank(c, words), number, LockMode::of(wanted)))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable_by_key(|(rank, ..)| *rank);
        for (place, (_, number, mode)) in waiting.iter().enumerate() {
            let allows = |other: u64| other == 0 || LockMode::of(other).is_compatible(*mode);
            let is_free = waiting[..place].iter().all(|(.., before)| before.is_compatible(*mode))
                && self
                    .requests(c, list, name)
                    .all(|(other, words)| other == *number || allows(get::<P>(c, &words[GRANTED])));
            let owner = self.owner(*number);
            if is_free && waits.claim(c, owner) {
                let words = self.request(*number);
                set::<P>(c, &words[GRANTED], *mode as u64);
                self.retire(c, list, words);
                waits.wake(c, owner);
            }
        }
    }

    /// Waits until a request is granted.
    pub(super) fn wait(
        &self,
        c: P::Core,
        waits: &Waits<P>,
        number: u64,
        name: u64,
        deadline: Option<Nanos>,
    ) -> LockAnswer {
        if waits.wait(c, self.owner(number), deadline) {
            return LockAnswer::Granted;
        }
        let list = self.list(name);
        latched::<P, _>(c, list, || {
            let answer = waits.stop(c, self.owner(number));
            if answer != LockAnswer::Granted {
                let words = self.request(number);
                self.retire(c, list, words);
                if get::<P>(c, &words[GRANTED]) == 0 {
                    self.unlink(c, list, number);
                }
                self.grant(c, waits, list, name);
            }
            answer
        })
    }

    /// Gives a lock back.
    pub(super) fn release(&self, c: P::Core, waits: &Waits<P>, number: u64, name: u64) {
        let list = self.list(name);
        latched::<P, _>(c, list, || {
            self.unlink(c, list, number);
            if get::<P>(c, &list[WAITERS]) != 0 {
                self.grant(c, waits, list, name);
            }
        });
    }

    /// Returns true if no other request than `own` has the place in a mode that excludes this one.
    pub(super) fn is_free(&self, c: P::Core, name: u64, mode: LockMode, own: Option<u64>) -> bool {
        let list = self.list(name);
        latched::<P, _>(c, list, || {
            self.requests(c, list, name).all(|(number, words)| {
                let granted = get::<P>(c, &words[GRANTED]);
                own == Some(number) || granted == 0 || LockMode::of(granted).is_compatible(mode)
            })
        })
    }
}
