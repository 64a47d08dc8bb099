//! The lock manager: who has locked what, and who waits.
//!
//! Locks are hierarchical (Gray and others, see `mode`): who locks a key or a gap has first locked the database and the table with the intention.
//! A transaction that takes many locks of a table takes the table instead ([`TransactionLocks`]).
//!
//! - `nodes`: the database and its tables, with the inheritance of their locks from transaction to transaction;
//! - `rows`: keys and gaps, by [names](name::Place);
//! - `waits`: who may wait for whom;
//! - `held_nodes`, `held_rows`: what a session has of nodes and rows;
//! - `transaction`: what a transaction asks for, level by level.
//!
//! Whatever is granted or refused is so with a latch, for a few steps: nobody waits for a lock or a page with a latch of the manager, and nobody
//! has two.
//!
//! **Deadlocks** are prevented by ages: no transaction waits for an older one while an older one waits for it (`waits`).

mod answer;
mod held_nodes;
mod held_rows;
mod latched;
mod mode;
mod name;
mod nodes;
mod rows;
#[cfg(test)]
mod tests;
mod transaction;
mod waits;

use platform::{OutOfMemory, Platform};

pub(crate) use answer::Answer;
pub(crate) use mode::LockMode;
pub(crate) use name::{Place, name};
pub(crate) use transaction::{TransactionLocks, Wish};

use crate::options::PagedOptions;

/// All locks of a database.
pub(crate) struct LockManager<P: Platform> {
    rows: rows::RowLocks<P>,
    nodes: nodes::NodeLocks<P>,
    waits: waits::Waits<P>,
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
            waits: waits::Waits::new(c, sessions)?,
            escalation: options.escalation.clamp(1, per_session),
            inherits: options.inherits_locks(),
            is_alone: options.is_alone(),
            skips_intents: broken.intents,
        })
    }

    /// The database has stopped, and nobody may give locks back any more: whoever waits for one need not wait.
    pub(crate) fn stop(&self, c: P::Core) {
        self.waits.stop_all(c);
    }

    /// Whether nothing is locked, as nobody else can be there.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }
}
