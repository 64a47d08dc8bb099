//! What a transaction asks for, level by level: the database, the table, then the key or gap.
//!
//! **Escalation**: a transaction that has many locks in one table asks for the table instead, to share it or to have it alone, and gives back what
//! the table's lock covers. It does not wait for that: if somebody is in the way it goes on row by row, and asks again when it has twice as many. Only
//! when there is no room for another lock it waits, for the table in which it has most. A scan of a whole table asks as soon as it has seen
//! that it will not end at once.

use platform::{Nanos, Platform};

use super::held_nodes::HeldNodes;
use super::held_rows::HeldRows;
use super::rows::RowWish;
use super::{Answer, LockManager, LockMode};

/// The node of the database. Tables follow, in the order of their numbers.
const DATABASE: usize = 0;

/// Locks after which a scan of a whole table asks for the table.
const WHOLE_SCAN_LOCKS: usize = 16;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Number of the table that the place lies in.
    pub table: usize,
    pub name: u64,
    pub mode: LockMode,
    /// Smaller is older; no two transactions have the same.
    pub age: u64,
}

/// The locks of one session's transaction, and what the session keeps for its next one.
pub(crate) struct TransactionLocks {
    rows: HeldRows,
    nodes: HeldNodes,
    /// With so many locks of rows it is time to look whether a table has too many.
    look_at: usize,
}

impl TransactionLocks {
    /// None, of the session with this number.
    pub(crate) fn new<P: Platform>(manager: &LockManager<P>, session: usize) -> Self {
        TransactionLocks {
            rows: HeldRows::new(&manager.rows, session),
            nodes: HeldNodes::new(&manager.nodes, session),
            look_at: manager.escalation,
        }
    }

    /// Locks a place, and before that all that it lies in. With `waits` the transaction waits as long as it may, until the deadline, if there
    /// is one; before that `on_wait` is called.
    pub(crate) fn acquire<P: Platform>(
        &mut self,
        (manager, c): (&LockManager<P>, P::Core),
        wish: Wish,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Answer {
        if manager.is_alone {
            return Answer::Granted;
        }
        let Wish { table, name, mode, age } = wish;
        let (node, intent) = (1 + table, mode.intent());
        if !manager.skips_intents {
            // From the top: what is inherited of a table counts when its transaction has the database.
            for node in [DATABASE, node] {
                if !self.nodes.has(node, intent) {
                    let wish = (node, intent, age);
                    let answer = self.nodes.acquire((&manager.nodes, c), wish, waits, on_wait);
                    if answer != Answer::Granted {
                        return answer;
                    }
                }
            }
        }
        if self.covers(table, mode) {
            return Answer::Granted;
        }
        let before = self.rows.count();
        if before >= self.look_at {
            let answer = self.escalate((manager, c), wish, waits, on_wait);
            if answer != Answer::Granted || self.covers(table, mode) {
                return answer;
            }
        }
        let wish = (table, RowWish { name, mode, age });
        let answer = self.rows.acquire((&manager.rows, c), wish, waits, on_wait);
        if self.rows.count() > before {
            self.nodes.add_row(node);
        }
        answer
    }

    /// Whether the transaction has a table so that it needs no lock of this mode in it.
    #[inline]
    pub(super) fn covers(&self, table: usize, mode: LockMode) -> bool {
        self.nodes.mode(1 + table).is_some_and(|has| has.covers(mode))
    }

    /// Whether the transaction relies on a gap by a lock of its own; not by that of the table, which covers all gaps there will be.
    pub(crate) fn relies_on(&self, gap: u64) -> bool {
        self.rows.mode(gap).is_some_and(|mode| mode.covers(LockMode::Share))
    }

    /// Takes tables instead of rows, if there are too many locks of rows in this table, or altogether.
    #[cold]
    fn escalate<P: Platform>(
        &mut self,
        (manager, c): (&LockManager<P>, P::Core),
        wish: Wish,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Answer {
        let node = 1 + wish.table;
        if self.nodes.is_full(node, manager.escalation) {
            let mode =
                if wish.mode.intent() == LockMode::IntentShare { LockMode::Share } else { LockMode::Exclude };
            if self.take_node((manager, c), (node, mode, wish.age), None, on_wait) != Answer::Granted {
                self.nodes.escalate_after(node, self.rows.count());
            }
        }
        if self.rows.has_room() {
            return Answer::Granted;
        }
        let fullest = self.nodes.fullest().unwrap_or(node);
        // All locks below are covered then.
        let mode = match self.nodes.has(fullest, LockMode::IntentExclude) {
            true => LockMode::Exclude,
            false => LockMode::Share,
        };
        self.take_node((manager, c), (fullest, mode, wish.age), waits, on_wait)
    }

    /// Locks a node, and gives back what that covers.
    fn take_node<P: Platform>(
        &mut self,
        (manager, c): (&LockManager<P>, P::Core),
        wish: (usize, LockMode, u64),
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Answer {
        let node = wish.0;
        let answer = self.nodes.acquire((&manager.nodes, c), wish, waits, on_wait);
        if let (Answer::Granted, Some(mode)) = (answer, self.nodes.mode(node)) {
            let covered = self.rows.release_covered((&manager.rows, c), (node - 1, mode));
            self.nodes.take_rows(node, covered, manager.escalation);
        }
        answer
    }

    /// A scan of a whole table begins.
    pub(crate) fn expect_whole(&mut self, table: usize) {
        self.nodes.escalate_after(1 + table, WHOLE_SCAN_LOCKS);
        self.look_at = 0;
    }

    /// Whether no other transaction has the place in a mode that excludes this one.
    pub(crate) fn is_free<P: Platform>(
        &self,
        (manager, c): (&LockManager<P>, P::Core),
        name: u64,
        mode: LockMode,
    ) -> bool {
        manager.is_alone || self.rows.is_free((&manager.rows, c), name, mode)
    }

    /// Ends a transaction.
    pub(crate) fn release_all<P: Platform>(&mut self, (manager, c): (&LockManager<P>, P::Core)) {
        self.rows.release_all((&manager.rows, c));
        self.nodes.release_all((&manager.nodes, c), manager.inherits);
        self.look_at = manager.escalation;
    }

    /// Ends the session: nothing that it has inherited stays.
    pub(crate) fn end<P: Platform>(&mut self, (manager, c): (&LockManager<P>, P::Core)) {
        self.nodes.end((&manager.nodes, c));
    }
}
