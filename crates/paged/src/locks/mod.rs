//! The lock manager: who has locked what, and who waits.
//!
//! Locks are hierarchical (Gray and others, see `mode`): who locks a key or a gap has first locked the database and the table with the intention.
//! A transaction that takes many locks of a table takes the table instead ([`TransactionLocks`]).
//!
//! - `nodes`: the database and its tables, with the inheritance of their locks from transaction to transaction;
//! - `rows`: keys and gaps, by [names](name::Place);
//! - `held_nodes`, `held_rows`: what a session has of them;
//! - `transaction`: what a transaction asks for, level by level.
//!
//! Whatever is granted or refused is so with a latch, for a few steps: nobody waits for a lock or a page with a latch of the manager, and nobody
//! has two.
//!
//! **Deadlocks** are prevented: a transaction waits only for younger ones (wait-die: Rosenkrantz, Stearns, Lewis, "System level concurrency
//! control for distributed database systems", TODS 1978); a younger one gives up, and keeps its age for its next attempt. So every edge of the
//! graph of who waits for whom leads from an older to a younger transaction: there is no circle, and the oldest always goes on. What keeps it so:
//!
//! - A new request waits for those that are granted and those that wait in a mode that excludes its own: when it begins to wait, it is older than
//!   all of them. It is not overtaken by new ones that it excludes; those that exclude it and wait behind it are older than it.
//! - A conversion waits for granted ones only, and is older than all of them when it begins to wait. When it is granted, at once or later, it has
//!   overtaken what waits. What of that is older than the conversion may wait for it; what is younger, and excluded by the mode that has
//!   been granted, is refused in that moment.
//! - Keys and gaps are shared, had alone, or (gaps) intended to be changed. Two of these modes are compatible only if they are the same, so
//!   what a conversion would overtake and exclude has been excluded by its first mode already, and is older. Nothing need be refused there.
//! - An inherited lock belongs to no transaction: nobody waits for it. While somebody waits whom it would exclude there is none (see `nodes`), so
//!   a transaction that takes one over gets in nobody's way.

mod held_nodes;
mod held_rows;
mod mode;
mod name;
mod nodes;
mod rows;
#[cfg(test)]
mod tests;
mod transaction;

use std::sync::atomic::Ordering;

use platform::{Nanos, OutOfMemory, Platform};

pub(crate) use mode::LockMode;
pub(crate) use name::{Place, name};
pub(crate) use nodes::SESSIONS_MAX;
pub(crate) use transaction::{TransactionLocks, Wish};

use crate::options::PagedOptions;

/// States of the word that a waiting transaction looks at.
const ANSWERED: u64 = 0;
const WAITING: u64 = 1;
const REFUSED: u64 = 2;

/// How long a transaction waits on its processor before it sleeps.
const SPIN_NANOS: u64 = 20_000;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lock is the transaction's.
    Granted,
    /// A transaction is in the way that is older, or the caller does not want to wait.
    Refused,
    /// The deadline has passed.
    Late,
}

impl Answer {
    /// What an answered word says.
    fn of(word: u64) -> Self {
        if word == ANSWERED { Answer::Granted } else { Answer::Refused }
    }
}

/// What the manager says at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Granted,
    Refused,
    Waits,
}

/// All locks of a database.
pub(crate) struct LockManager<P: Platform> {
    rows: rows::RowLocks<P>,
    nodes: nodes::NodeLocks<P>,
    /// Locks of rows and gaps in one table from which on a transaction asks for the table.
    escalation: usize,
    /// Whether sessions inherit.
    inherits: bool,
    /// Whether there is one session: nobody else can be there, and nothing is locked.
    is_alone: bool,
    /// A mutant: rows are locked without intentions.
    skips_intents: bool,
}

impl<P: Platform> LockManager<P> {
    /// No locks, of so many tables.
    pub(crate) fn new(c: P::Core, options: &PagedOptions, tables: usize) -> Result<Self, OutOfMemory> {
        let sessions = options.sessions_max.max(1);
        let per_session = options.locks_max.max(1);
        let broken = options.broken;
        Ok(LockManager {
            rows: rows::RowLocks::new(c, (options.lock_lists, sessions, per_session))?,
            nodes: nodes::NodeLocks::new(c, (1 + tables, sessions), broken.keeps_inherited)?,
            escalation: options.escalation.clamp(1, per_session),
            inherits: options.inherits_locks(),
            is_alone: options.is_alone(),
            skips_intents: broken.intents,
        })
    }

    /// Whether nothing is locked, as nobody else can be there.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }
}

// Relaxed, both: a latch orders them.
fn get<P: Platform>(c: P::Core, word: &P::Word) -> u64 {
    P::load(c, word, Ordering::Relaxed)
}

fn set<P: Platform>(c: P::Core, word: &P::Word, value: u64) {
    P::store(c, word, value, Ordering::Relaxed);
}

/// Runs `body` with a latch, the first of these words.
fn latched<P: Platform, R>(c: P::Core, words: &[P::Word], body: impl FnOnce() -> R) -> R {
    // Acquire: pairs with the release below.
    while P::cas(c, &words[0], 0, 1, Ordering::Acquire).is_err() {
        P::spin_while(c, &words[0], 1, None);
    }
    let result = body();
    // Release: pairs with the acquire of the next holder.
    P::store(c, &words[0], 0, Ordering::Release);
    result
}

/// Answers a request that waits.
fn answer<P: Platform>(c: P::Core, word: &P::Word, answer: u64) {
    // Release: pairs with the acquire of the waiting transaction.
    P::store(c, word, answer, Ordering::Release);
    P::unpark(c, word, 1);
}

/// Waits for an answer; `None` once the deadline has passed.
fn await_answer<P: Platform>(c: P::Core, word: &P::Word, deadline: Option<Nanos>) -> Option<Answer> {
    let spins_until = P::now(c).plus(SPIN_NANOS);
    let first = deadline.map_or(spins_until, |deadline| deadline.min(spins_until));
    let mut seen = P::spin_while(c, word, WAITING, Some(first));
    while seen == WAITING {
        if P::is_gone(c) || deadline.is_some_and(|deadline| P::now(c) >= deadline) {
            return None;
        }
        P::park(c, word, WAITING, deadline);
        // Acquire: pairs with the release of the answer.
        seen = P::load(c, word, Ordering::Acquire);
    }
    Some(Answer::of(seen))
}
