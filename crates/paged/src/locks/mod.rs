//! The lock manager: who has locked which [places](name::Place), and who waits.
//!
//! Names fall into lists by a hash; a list is a latch and a chain of requests, granted ones and waiting ones, in the order in
//! which they came. Requests are lines of the session that made them. Whatever is granted or refused is so with the list latched,
//! for a few steps: nobody waits for a lock or a page with a list latched.
//!
//! **Deadlocks** are prevented: a transaction waits only if it is older than all those that it would wait for (wait-die: Rosenkrantz,
//! Stearns, Lewis, "System level concurrency control for distributed database systems", TODS 1978); a younger one gives up, and
//! keeps its age for its next attempt. A request does not overtake a waiting one that it excludes, and a conversion waits for
//! other owners only. So whoever waits is older than everybody before it, and the oldest transaction always goes on.

mod held;
mod mode;
mod name;

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

pub(crate) use held::HeldLocks;
pub(crate) use mode::LockMode;
pub(crate) use name::{Place, name};

/// Words of a request.
const NEXT: usize = 0;
const NAME: usize = 1;
/// Granted mode; 0: none yet.
const GRANTED: usize = 2;
/// Mode that is waited for; 0: none.
const WANTED: usize = 3;
const AGE: usize = 4;
/// The word that the waiting transaction looks at: [`WAITING`] until it is answered.
const ANSWER: usize = 5;
const WORDS: usize = LINE_BYTES / 8;

/// Words of a list.
const LATCH: usize = 0;
const FIRST: usize = 1;

const WAITING: u64 = 1;
const ANSWERED: u64 = 0;

/// How long a transaction waits on its processor before it sleeps.
const SPIN_NANOS: u64 = 20_000;
/// How long a transaction sleeps before it looks whether the database has stopped.
const PATIENCE_NANOS: u64 = 10_000_000;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lock is the transaction's.
    Granted,
    /// A transaction is in the way that is older, or the caller does not want to wait.
    Refused,
    /// The deadline has passed, or the database has stopped.
    Late,
}

/// All locks of a database.
pub(crate) struct LockTable<P: Platform> {
    lists: P::Region,
    /// A power of two.
    list_count: usize,
    requests: P::Region,
    /// Requests of each session.
    per_session: usize,
    /// A word that is not 0 once nobody gives locks back any more.
    stopped: P::Region,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub name: u64,
    pub mode: LockMode,
    /// Smaller is older; no two transactions have the same.
    pub age: u64,
}

impl<P: Platform> LockTable<P> {
    /// No locks.
    pub(crate) fn new(
        c: P::Core,
        (lists, sessions, per_session): (usize, usize, usize),
    ) -> Result<Self, OutOfMemory> {
        let list_count = lists.max(1).next_power_of_two();
        let lists = P::region(c, None, list_count * LINE_BYTES, "lists of locks")?;
        let requests = P::region(c, None, sessions * per_session * LINE_BYTES, "locks of transactions")?;
        let stopped = P::region(c, None, LINE_BYTES, "stop of locks")?;
        Ok(LockTable { lists, list_count, requests, per_session, stopped })
    }

    /// The database has stopped: whoever waits for a lock need not wait any more.
    pub(crate) fn stop(&self, c: P::Core) {
        // Relaxed: who waits looks again and again.
        P::store(c, P::word_of(&self.stopped, 0), 1, Ordering::Relaxed);
    }

    fn has_stopped(&self, c: P::Core) -> bool {
        P::load(c, P::word_of(&self.stopped, 0), Ordering::Relaxed) != 0
    }

    fn list(&self, name: u64) -> &[P::Word] {
        let number = name as usize & (self.list_count - 1);
        P::words_of(&self.lists, number * LINE_BYTES, 2)
    }

    /// Request number `number`, counted from 1 over all sessions.
    fn request(&self, number: u64) -> &[P::Word] {
        P::words_of(&self.requests, (number as usize - 1) * LINE_BYTES, WORDS)
    }

    // Relaxed, both: the list's latch orders them.
    fn get(c: P::Core, word: &P::Word) -> u64 {
        P::load(c, word, Ordering::Relaxed)
    }

    fn set(c: P::Core, word: &P::Word, value: u64) {
        P::store(c, word, value, Ordering::Relaxed);
    }

    /// Runs `body` with a list latched.
    fn with<R>(&self, c: P::Core, list: &[P::Word], body: impl FnOnce() -> R) -> R {
        // Acquire: pairs with the release below.
        while P::cas(c, &list[LATCH], 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, &list[LATCH], 1, None);
        }
        let result = body();
        // Release: pairs with the acquire of the next holder.
        P::store(c, &list[LATCH], 0, Ordering::Release);
        result
    }

    /// The requests of a list for this name, in order.
    fn requests(&self, c: P::Core, list: &[P::Word], name: u64) -> impl Iterator<Item = (u64, &[P::Word])> {
        let request = move |number: u64| (number != 0).then(|| (number, self.request(number)));
        let first = request(Self::get(c, &list[FIRST]));
        let all = std::iter::successors(first, move |(_, words)| request(Self::get(c, &words[NEXT])));
        all.filter(move |(_, words)| Self::get(c, &words[NAME]) == name)
    }

    /// Asks for a lock: with `own` the request that the transaction has already, else with `fresh`, a request that is in no list.
    /// The request waits if it may, and if the transaction wants to.
    fn ask(&self, c: P::Core, wish: Wish, (own, fresh): (Option<u64>, u64), waits: bool) -> Asked {
        let list = self.list(wish.name);
        self.with(c, list, || {
            let mut target = wish.mode;
            if let Some(own) = own {
                target = target.join(LockMode::of(Self::get(c, &self.request(own)[GRANTED])));
            }
            let (mut is_free, mut may_wait) = (true, true);
            for (number, words) in self.requests(c, list, wish.name) {
                if own == Some(number) {
                    continue;
                }
                let (granted, wanted) = (Self::get(c, &words[GRANTED]), Self::get(c, &words[WANTED]));
                let excludes = |mode: u64| mode != 0 && !LockMode::of(mode).is_compatible(target);
                // A conversion overtakes whoever has nothing yet.
                if excludes(granted) || (own.is_none() && excludes(wanted)) {
                    is_free = false;
                    may_wait &= wish.age < Self::get(c, &words[AGE]);
                }
            }
            let is_accepted = is_free || (waits && may_wait);
            if !is_accepted {
                return Asked::Refused;
            }
            let number = own.unwrap_or(fresh);
            let words = self.request(number);
            if own.is_none() {
                Self::set(c, &words[NAME], wish.name);
                Self::set(c, &words[AGE], wish.age);
                Self::set(c, &words[GRANTED], 0);
                self.append(c, list, number);
            }
            let (slot, answer) = if is_free { (GRANTED, ANSWERED) } else { (WANTED, WAITING) };
            Self::set(c, &words[WANTED], 0);
            Self::set(c, &words[slot], target as u64);
            Self::set(c, &words[ANSWER], answer);
            if is_free { Asked::Granted } else { Asked::Waits }
        })
    }

    fn append(&self, c: P::Core, list: &[P::Word], number: u64) {
        Self::set(c, &self.request(number)[NEXT], 0);
        let mut place = &list[FIRST];
        loop {
            match Self::get(c, place) {
                0 => return Self::set(c, place, number),
                next => place = &self.request(next)[NEXT],
            }
        }
    }

    fn unlink(&self, c: P::Core, list: &[P::Word], number: u64) {
        let next = Self::get(c, &self.request(number)[NEXT]);
        let mut place = &list[FIRST];
        loop {
            match Self::get(c, place) {
                0 => unreachable!("a request is in its list"),
                found if found == number => return Self::set(c, place, next),
                other => place = &self.request(other)[NEXT],
            }
        }
    }

    /// Grants what waits for this name and need not wait any more.
    fn grant(&self, c: P::Core, list: &[P::Word], name: u64) {
        // Conversions first: they are of owners, for whom all others wait.
        for converts in [true, false] {
            for (number, words) in self.requests(c, list, name) {
                let (wanted, granted) = (Self::get(c, &words[WANTED]), Self::get(c, &words[GRANTED]));
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
                    let (granted, wanted) = (Self::get(c, &words[GRANTED]), Self::get(c, &words[WANTED]));
                    let allows = |mode: u64| mode == 0 || LockMode::of(mode).is_compatible(target);
                    // Conversions that wait are before whoever has nothing yet.
                    let waits_before = is_before || granted != 0;
                    allows(granted) && (converts || !waits_before || allows(wanted))
                });
                if is_free {
                    Self::set(c, &words[GRANTED], wanted);
                    Self::set(c, &words[WANTED], 0);
                    // Release: pairs with the acquire of the waiting transaction.
                    P::store(c, &words[ANSWER], ANSWERED, Ordering::Release);
                    P::unpark(c, &words[ANSWER], 1);
                }
            }
        }
    }

    /// Waits for the answer to a request.
    fn wait(&self, c: P::Core, number: u64, name: u64, deadline: Option<Nanos>) -> Answer {
        let word = &self.request(number)[ANSWER];
        let spins_until = P::now(c).plus(SPIN_NANOS);
        let first = deadline.map_or(spins_until, |deadline| deadline.min(spins_until));
        let mut seen = P::spin_while(c, word, WAITING, Some(first));
        while seen == WAITING {
            let is_late = deadline.is_some_and(|deadline| P::now(c) >= deadline);
            if P::is_gone(c) || is_late || self.has_stopped(c) {
                return self.leave(c, number, name);
            }
            let again = P::now(c).plus(PATIENCE_NANOS);
            P::park(c, word, WAITING, Some(deadline.map_or(again, |deadline| again.min(deadline))));
            // Acquire: pairs with the release of the grant.
            seen = P::load(c, word, Ordering::Acquire);
        }
        Answer::Granted
    }

    /// Ends a wait, unless it has ended.
    #[cold]
    fn leave(&self, c: P::Core, number: u64, name: u64) -> Answer {
        let list = self.list(name);
        self.with(c, list, || {
            let words = self.request(number);
            if Self::get(c, &words[WANTED]) == 0 {
                return Answer::Granted;
            }
            Self::set(c, &words[WANTED], 0);
            if Self::get(c, &words[GRANTED]) == 0 {
                self.unlink(c, list, number);
            }
            self.grant(c, list, name);
            Answer::Late
        })
    }

    /// Gives a lock back.
    fn release(&self, c: P::Core, number: u64, name: u64) {
        let list = self.list(name);
        self.with(c, list, || {
            self.unlink(c, list, number);
            self.grant(c, list, name);
        });
    }

    /// Whether no other request than `own` has the place in a mode that excludes this one.
    fn is_free(&self, c: P::Core, name: u64, mode: LockMode, own: Option<u64>) -> bool {
        let list = self.list(name);
        self.with(c, list, || {
            self.requests(c, list, name).all(|(number, words)| {
                let granted = Self::get(c, &words[GRANTED]);
                own == Some(number) || granted == 0 || LockMode::of(granted).is_compatible(mode)
            })
        })
    }
}

/// What a list says at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Granted,
    Refused,
    Waits,
}
