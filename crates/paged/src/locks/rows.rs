//! Locks of keys and gaps.
//!
//! Names fall into lists by a hash; a list is a latch and a chain of requests, granted ones and waiting ones, in the order in which they
//! came. Requests are lines of the session that made them. A request does not overtake a waiting one that it excludes; conversions do.

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

use super::{ANSWERED, Answer, Asked, LockMode, WAITING, answer, await_answer, get, latched, set};

/// Words of a request.
const NEXT: usize = 0;
const NAME: usize = 1;
/// Granted mode; 0: none.
const GRANTED: usize = 2;
/// Mode that is waited for; 0: none.
const WANTED: usize = 3;
const AGE: usize = 4;
/// The word that the waiting transaction looks at.
const ANSWER: usize = 5;
const WORDS: usize = LINE_BYTES / 8;

/// Words of a list. The first is its latch.
const FIRST: usize = 1;
const LIST_WORDS: usize = 2;

/// Who has locked which keys and gaps.
pub(super) struct RowLocks<P: Platform> {
    lists: P::Region,
    /// A power of two.
    list_count: usize,
    requests: P::Region,
    /// Requests of each session.
    pub(super) per_session: usize,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowWish {
    pub name: u64,
    pub mode: LockMode,
    /// Smaller is older; no two transactions have the same.
    pub age: u64,
}

impl<P: Platform> RowLocks<P> {
    /// No locks.
    pub(super) fn new(
        c: P::Core,
        (lists, sessions, per_session): (usize, usize, usize),
    ) -> Result<Self, OutOfMemory> {
        let list_count = lists.max(1).next_power_of_two();
        let lists = P::region(c, None, list_count * LINE_BYTES, "lists of locks")?;
        let requests = P::region(c, None, sessions * per_session * LINE_BYTES, "locks of transactions")?;
        Ok(RowLocks { lists, list_count, requests, per_session })
    }

    fn list(&self, name: u64) -> &[P::Word] {
        let number = name as usize & (self.list_count - 1);
        P::words_of(&self.lists, number * LINE_BYTES, LIST_WORDS)
    }

    /// Request number `number`, counted from 1 over all sessions.
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

    /// Asks for a lock: with `own` the request that the transaction has already, else with `fresh`, a request that is in no list.
    /// The request waits if it may, and if the transaction wants to.
    pub(super) fn ask(
        &self,
        c: P::Core,
        wish: RowWish,
        (own, fresh): (Option<u64>, u64),
        waits: bool,
    ) -> Asked {
        let list = self.list(wish.name);
        latched::<P, _>(c, list, || {
            let mut target = wish.mode;
            if let Some(own) = own {
                target = target.join(LockMode::of(get::<P>(c, &self.request(own)[GRANTED])));
            }
            let (mut is_free, mut may_wait) = (true, true);
            for (number, words) in self.requests(c, list, wish.name) {
                if own == Some(number) {
                    continue;
                }
                let (granted, wanted) = (get::<P>(c, &words[GRANTED]), get::<P>(c, &words[WANTED]));
                let excludes = |mode: u64| mode != 0 && !LockMode::of(mode).is_compatible(target);
                // A conversion overtakes whoever has nothing yet.
                if excludes(granted) || (own.is_none() && excludes(wanted)) {
                    is_free = false;
                    may_wait &= wish.age < get::<P>(c, &words[AGE]);
                }
            }
            let is_accepted = is_free || (waits && may_wait);
            if !is_accepted {
                return Asked::Refused;
            }
            let number = own.unwrap_or(fresh);
            let words = self.request(number);
            if own.is_none() {
                set::<P>(c, &words[NAME], wish.name);
                set::<P>(c, &words[AGE], wish.age);
                set::<P>(c, &words[GRANTED], 0);
                self.append(c, list, number);
            }
            let (slot, answer) = if is_free { (GRANTED, ANSWERED) } else { (WANTED, WAITING) };
            set::<P>(c, &words[WANTED], 0);
            set::<P>(c, &words[slot], target as u64);
            set::<P>(c, &words[ANSWER], answer);
            if is_free { Asked::Granted } else { Asked::Waits }
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

    /// Grants what waits for this name and need not wait any more.
    fn grant(&self, c: P::Core, list: &[P::Word], name: u64) {
        // Conversions first: they are of owners, for whom all others wait.
        for converts in [true, false] {
            for (number, words) in self.requests(c, list, name) {
                let (wanted, granted) = (get::<P>(c, &words[WANTED]), get::<P>(c, &words[GRANTED]));
                if wanted == 0 || (granted != 0) != converts {
                    continue;
                }
                let target = LockMode::of(wanted);
                let mut is_before = true;
                let is_free = self.requests(c, list, name).all(|(other, words)| {
                    if other == number {
                        is_before = false;
                        return true;
                    }
                    let (granted, wanted) = (get::<P>(c, &words[GRANTED]), get::<P>(c, &words[WANTED]));
                    let allows = |mode: u64| mode == 0 || LockMode::of(mode).is_compatible(target);
                    // Conversions that wait are before whoever has nothing yet.
                    let waits_before = is_before || granted != 0;
                    allows(granted) && (converts || !waits_before || allows(wanted))
                });
                if is_free {
                    set::<P>(c, &words[GRANTED], wanted);
                    set::<P>(c, &words[WANTED], 0);
                    answer::<P>(c, &words[ANSWER], ANSWERED);
                }
            }
        }
    }

    /// Waits for the answer to a request.
    pub(super) fn wait(&self, c: P::Core, number: u64, name: u64, deadline: Option<Nanos>) -> Answer {
        let answer = await_answer::<P>(c, &self.request(number)[ANSWER], deadline);
        answer.unwrap_or_else(|| self.leave(c, number, name))
    }

    /// Ends a wait, unless it has ended.
    #[cold]
    fn leave(&self, c: P::Core, number: u64, name: u64) -> Answer {
        let list = self.list(name);
        latched::<P, _>(c, list, || {
            let words = self.request(number);
            if get::<P>(c, &words[WANTED]) == 0 {
                return Answer::Granted;
            }
            set::<P>(c, &words[WANTED], 0);
            if get::<P>(c, &words[GRANTED]) == 0 {
                self.unlink(c, list, number);
            }
            self.grant(c, list, name);
            Answer::Late
        })
    }

    /// Gives a lock back.
    pub(super) fn release(&self, c: P::Core, number: u64, name: u64) {
        let list = self.list(name);
        latched::<P, _>(c, list, || {
            self.unlink(c, list, number);
            self.grant(c, list, name);
        });
    }

    /// Whether no other request than `own` has the place in a mode that excludes this one.
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
