//! The lock manager: who has locked what, and who waits.
//!
//! Locks are hierarchical (Gray and others, see `mode`): who locks a key or a gap has first locked
//! the database and the table with the intention. A transaction that takes many locks of a table
//! takes the table instead ([`TransactionLocks`]).
//!
//! - `nodes`: the database and its tables, with the inheritance of their locks from transaction to
//!   transaction;
//! - `rows`: keys and gaps, by [names](name::Place);
//! - `waits`: who may wait for whom;
//! - `held_nodes`, `held_rows`: what a owner has of nodes and rows;
//! - `transaction`: what a transaction asks for, level by level.
//!
//! Whatever is granted or refused is so with a latch, for a few steps: nobody waits for a lock or a
//! page with a latch of the manager, and nobody has two.
//!
//! **Deadlocks** are prevented by ages: no transaction waits for an older one while an older one
//! waits for it (`waits`).

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
    /// Whether owners inherit.
    inherits: bool,
    /// Whether there is one session.
    has_one_session: bool,
    /// A mutant: rows are locked without intentions.
    skips_intents: bool,
}

impl<P: Platform> LockManager<P> {
    /// No locks, of so many tables.
    pub(crate) fn new(c: P::Core, options: &PagedOptions, tables: usize) -> Result<Self, OutOfMemory> {
        let owners = options.owners();
        let per_owner = options.locks_max.max(1);
        let broken = options.broken;
        Ok(LockManager {
            rows: rows::RowLocks::new(c, (options.lock_lists, owners, per_owner))?,
            nodes: nodes::NodeLocks::new(c, (1 + tables, owners), broken.keeps_inherited)?,
            waits: waits::Waits::new(c, owners)?,
            escalation: options.escalation.clamp(1, per_owner),
            inherits: options.inherits_locks(),
            has_one_session: options.has_one_session(),
            skips_intents: broken.intents,
        })
    }

    /// The database has stopped, and nobody may give locks back any more: whoever waits for one
    /// need not wait.
    pub(crate) fn stop(&self, c: P::Core) {
        self.waits.stop_all(c);
    }

    /// Has brought closer what it takes to lock a key or gap of this name.
    #[inline]
    pub(crate) fn prefetch(&self, c: P::Core, name: u64) {
        self.rows.prefetch(c, name);
    }

    /// Whether there is one session: it meets nobody but parts that it has prepared.
    #[inline]
    pub(crate) fn has_one_session(&self) -> bool {
        self.has_one_session
    }
}
