//! The lock manager: locks and waiting requests.
//!
//! Locks are hierarchical (Gray and others, see `mode`): a transaction that locks a key or a gap
//! has first locked the database and the table with the intention. A transaction that takes many
//! locks of a table takes the table instead ([`TransactionLocks`]).
//!
//! - `nodes`: the database and its tables, with the inheritance of their locks from transaction to
//!   transaction;
//! - `rows`: keys and gaps, by [names](name::LockPlace);
//! - `waits`: the rule for waiting;
//! - `held_nodes`, `held_rows`: an owner's locks of nodes and rows;
//! - `transaction`: the locks of a transaction, level by level.
//!
//! Every request is granted or refused with a latch held for a few steps: no worker waits for a
//! lock or a page with a latch of the manager, and none has two.
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
use terms::Fault;

pub(crate) use answer::LockAnswer;
pub(crate) use mode::LockMode;
pub(crate) use name::{LockPlace, name};
pub(crate) use transaction::{LockRequest, TransactionLocks};

use crate::options::PagedOptions;

/// All locks of a database.
pub(crate) struct LockManager<P: Platform> {
    rows: rows::RowLocks<P>,
    nodes: nodes::NodeLocks<P>,
    waits: waits::Waits<P>,
    /// The number of locks of rows and gaps in one table from which on a transaction requests the
    /// table.
    escalation: usize,
    /// True if owners inherit.
    inherits: bool,
    /// True if there is one session.
    has_one_session: bool,
    /// Instructions of another storage manager for the lock of a node.
    lock_node_instructions: u32,
    /// A mutant: rows are locked without intentions.
    skips_intents: bool,
}

impl<P: Platform> LockManager<P> {
    /// No locks, of `tables` tables.
    pub(crate) fn new(c: P::Core, options: &PagedOptions, tables: usize) -> Result<Self, OutOfMemory> {
        let owners = options.owners();
        let per_owner = options.locks_max.max(1);
        let faults = options.faults;
        Ok(LockManager {
            rows: rows::RowLocks::new(c, options.lock_lists, owners, per_owner)?,
            nodes: nodes::NodeLocks::new(c, 1 + tables, owners, faults.has(Fault::KeptInheritedLocks))?,
            waits: waits::Waits::new(c, owners)?,
            escalation: options.escalation.clamp(1, per_owner),
            inherits: options.inherits_locks(),
            has_one_session: options.has_one_session(),
            lock_node_instructions: options.paths.lock_node,
            skips_intents: faults.has(Fault::MissingIntents),
        })
    }

    /// Stops the manager with the database: locks are not released any more, so requests do not
    /// wait.
    pub(crate) fn stop(&self, c: P::Core) {
        self.waits.stop_all(c);
    }

    /// Prefetches the memory that locks a key or gap of this name.
    #[inline]
    pub(crate) fn prefetch(&self, c: P::Core, name: u64) {
        self.rows.prefetch(c, name);
    }

    /// Returns true if there is one session: it conflicts only with parts that it has prepared.
    #[inline]
    pub(crate) fn has_one_session(&self) -> bool {
        self.has_one_session
    }
}
