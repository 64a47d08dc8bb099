//! The rule for waiting: a word for each owner, which the owner polls while it waits.
//!
//! A transaction waits for another one if that has a lock that excludes the request, or requests
//! one and is served before it. Requests for one place are served by age, the oldest first;
//! conversions, which owners of a lock request, before all others. The rule is a lazy form of
//! wound-wait (Rosenkrantz, Stearns, Lewis, "System level concurrency control for distributed
//! database systems", TODS 1978):
//!
//! > **No transaction waits for an older one while an older one waits for it.** Where it would,
//! > it is refused: it gives up all that it has, and
//! > keeps its age for its next attempt.
//!
//! *There is no deadlock*: of the transactions in a circle the youngest would wait for an older
//! one, and an older one for it. *The oldest advances*: it never waits for an older one, so it is
//! never refused; and only conversions are served before it.
//!
//! In wound-wait the older transaction has the younger one aborted at once; here, the wound counts
//! only if the wounded one waits for an older one, then or later.
//!
//! A part of a transaction over several databases keeps its [owner](crate::owner), and so its word
//! and its age, when it is prepared. It never waits again, so it is in no circle of this database;
//! a transaction that waits for it waits for the decision, which may depend on other databases: so
//! if parts can be prepared, all waits have a bound ([`crate::PagedOptions::wait_nanos_max`]).
//!
//! Proof of the rule: two transactions come to wait for each other, one way, in the moment in which
//! the later of the two requests a place, or is granted a conversion, with the place's latch held.
//! In that moment the younger one of them is marked: as wounded if the older one waits for it, or
//! as waiting for an older one. Marks are set by compare and swap on one word, and the setter of
//! the second mark refuses the transaction. Marks stay until the end of the transaction, or of its
//! wait, which refuses more than necessary, and never less.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

use super::answer::{ImmediateAnswer, LockAnswer};

/// Parts of an owner's word.
///
/// An older transaction waits, or has waited, for the owner's.
const WOUNDED: u64 = 1;
/// It waits.
const WAITING: u64 = 2;
/// The transaction waits for an older one, among others.
const FOR_OLDER: u64 = 4;
/// It need not wait any longer: it is refused.
const REFUSED: u64 = 8;

/// A transaction waits on its processor for this long before it sleeps.
const SPIN_NANOS: u64 = 20_000;

/// A transaction sleeps for this long before it checks whether the database has stopped.
const PATIENCE_NANOS: u64 = 10_000_000;

/// The rank of a request in the order of service for one place: conversions come before new
/// requests, and older transactions before younger ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// True if the request is no conversion.
    pub is_new: bool,
    /// Smaller is older.
    pub age: u64,
}

/// Another transaction that conflicts with a request.
#[derive(Clone, Copy)]
pub(super) struct ConflictingRequest {
    pub owner: usize,
    pub age: u64,
    /// True if it has a lock that excludes the request, or requests one and is served before it.
    pub is_blocking: bool,
    /// True if it requests a lock that the request excludes, and is served behind it.
    pub is_behind: bool,
}

impl ConflictingRequest {
    /// A request of this rank, in a mode that the own request excludes or not (`granted`), for a
    /// mode that it excludes or not.
    pub(super) fn of(owner: usize, other: Rank, own: Rank, granted: bool, wanted: bool) -> Self {
        let is_before = other < own;
        let (is_blocking, is_behind) = (granted || (wanted && is_before), wanted && !is_before);
        ConflictingRequest { owner, age: other.age, is_blocking, is_behind }
    }

    /// Returns true if it conflicts with the request.
    pub(super) fn matters(&self) -> bool {
        self.is_blocking || self.is_behind
    }
}

/// The words of all owners.
pub(super) struct Waits<P: Platform> {
    words: P::Region,
    /// A word that is not 0 once locks are not released any more.
    stopped: P::Region,
}

/// A change of an owner's word.
struct WordChange {
    before: u64,
    after: u64,
}

impl<P: Platform> Waits<P> {
    /// No waits.
    pub(super) fn new(c: P::Core, owners: usize) -> Result<Self, OutOfMemory> {
        let words = P::region(c, None, owners * LINE_BYTES, "waiting owners")?;
        Ok(Waits { words, stopped: P::region(c, None, LINE_BYTES, "stop of locks")? })
    }

    /// Ends all waits.
    pub(super) fn stop_all(&self, c: P::Core) {
        // Relaxed: a thread that waits polls.
        P::store(c, P::word_of(&self.stopped, 0), 1, Ordering::Relaxed);
    }

    fn has_stopped(&self, c: P::Core) -> bool {
        P::load(c, P::word_of(&self.stopped, 0), Ordering::Relaxed) != 0
    }

    fn word(&self, owner: usize) -> &P::Word {
        P::word_of(&self.words, owner * LINE_BYTES)
    }

    /// Changes an owner's word to that which `change` returns; none: it stays.
    fn change(&self, c: P::Core, owner: usize, change: impl Fn(u64) -> Option<u64>) -> WordChange {
        let word = self.word(owner);
        // Acquire: pairs with the release of the thread that changed the word.
        let mut seen = P::load(c, word, Ordering::Acquire);
        loop {
            let Some(new) = change(seen).filter(|new| *new != seen) else {
                return WordChange { before: seen, after: seen };
            };
            match P::cas(c, word, seen, new, Ordering::AcqRel) {
                Ok(_) => return WordChange { before: seen, after: new },
                Err(other) => seen = other,
            }
        }
    }

    /// Sets a mark of a transaction, that of its wait if it waits. With both it is refused.
    fn mark(&self, c: P::Core, owner: usize, mark: u64) {
        let WordChange { before, after } = self.change(c, owner, |seen| {
            if mark == FOR_OLDER && seen & WAITING == 0 {
                return None;
            }
            let new = seen | mark;
            let is_caught = new & (WOUNDED | WAITING | FOR_OLDER) == WOUNDED | WAITING | FOR_OLDER;
            Some(if is_caught { new & !(WAITING | FOR_OLDER) | REFUSED } else { new })
        });
        if after & REFUSED > before & REFUSED {
            P::unpark(c, self.word(owner), 1);
        }
    }

    /// Decides about a request of this owner and age, with all others that conflict with it. When
    /// the transaction waits, its request is visible to others from here on.
    ///
    /// Pre: the place is latched.
    pub(super) fn decide(
        &self,
        c: P::Core,
        owner: usize,
        age: u64,
        conflicts: &[ConflictingRequest],
        waits: bool,
    ) -> ImmediateAnswer {
        let mut in_the_way = conflicts.iter().filter(|other| other.is_blocking).peekable();
        let is_free = in_the_way.peek().is_none();
        if !is_free && !waits {
            return ImmediateAnswer::Refused;
        }
        if conflicts.iter().any(|other| other.is_behind && other.age < age) {
            self.mark(c, owner, WOUNDED);
        }
        if !is_free {
            let for_older = if in_the_way.any(|other| other.age < age) { FOR_OLDER } else { 0 };
            let WordChange { after, .. } = self.change(c, owner, |seen| {
                let is_caught = seen & WOUNDED != 0 && for_older != 0;
                (!is_caught).then_some(seen | WAITING | for_older)
            });
            if after & WAITING == 0 {
                return ImmediateAnswer::Refused;
            }
        }
        for other in conflicts.iter().filter(|other| other.age > age) {
            if other.is_blocking && !is_free {
                self.mark(c, other.owner, WOUNDED);
            }
            if other.is_behind {
                // Unless it has been refused, and is about to leave.
                self.mark(c, other.owner, FOR_OLDER);
            }
        }
        if is_free { ImmediateAnswer::Granted } else { ImmediateAnswer::Waits }
    }

    /// Ends a wait as granted, unless the transaction has been refused: then it will come and take
    /// its request away. What it is granted is written between this and [`Self::wake`].
    ///
    /// Pre: the place is latched.
    pub(super) fn claim(&self, c: P::Core, owner: usize) -> bool {
        // Without the mark no thread refuses it any more.
        let WordChange { after, .. } = self.change(c, owner, |seen| Some(seen & !FOR_OLDER));
        after & WAITING != 0
    }

    /// Wakes a transaction that has been granted what it waited for.
    pub(super) fn wake(&self, c: P::Core, owner: usize) {
        self.change(c, owner, |seen| Some(seen & !WAITING));
        P::unpark(c, self.word(owner), 1);
    }

    /// Waits until the wait has ended, or the deadline has passed; true if the lock was granted. If
    /// not, [`Self::stop`] says how it ended.
    pub(super) fn wait(&self, c: P::Core, owner: usize, deadline: Option<Nanos>) -> bool {
        let word = self.word(owner);
        let spins_until = P::now(c).plus(SPIN_NANOS);
        let first = deadline.map_or(spins_until, |deadline| deadline.min(spins_until));
        // Acquire: pairs with the release of the thread that ends the wait.
        let mut seen = P::load(c, word, Ordering::Acquire);
        while seen & WAITING != 0 {
            let now = P::now(c);
            let is_late = deadline.is_some_and(|deadline| now >= deadline);
            if P::is_gone(c) || is_late || self.has_stopped(c) {
                return false;
            }
            if now < first {
                seen = P::spin_while(c, word, seen, Some(first));
            } else {
                let again = now.plus(PATIENCE_NANOS);
                P::park(c, word, seen, Some(deadline.map_or(again, |deadline| again.min(deadline))));
                seen = P::load(c, word, Ordering::Acquire);
            }
        }
        seen & REFUSED == 0
    }

    /// Ends a wait that has not been granted, unless it has been meanwhile.
    ///
    /// Pre: the place is latched.
    pub(super) fn stop(&self, c: P::Core, owner: usize) -> LockAnswer {
        let WordChange { before, .. } =
            self.change(c, owner, |seen| Some(seen & !(WAITING | FOR_OLDER | REFUSED)));
        match before {
            seen if seen & REFUSED != 0 => LockAnswer::Refused,
            seen if seen & WAITING != 0 => LockAnswer::Late,
            _ => LockAnswer::Granted,
        }
    }

    /// A transaction has ended, and has no locks any more.
    pub(super) fn forget(&self, c: P::Core, owner: usize) {
        let word = self.word(owner);
        // Relaxed, both: no other thread reads the word of an owner without locks.
        if P::load(c, word, Ordering::Relaxed) != 0 {
            P::store(c, word, 0, Ordering::Relaxed);
        }
    }
}
