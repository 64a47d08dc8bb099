//! The locks of a transaction, level by level: the database, the table, then the key or gap.
//!
//! **Escalation**: a transaction that has many locks in one table requests the table instead, in
//! shared or exclusive mode, and releases the locks that the table's lock covers. It does not wait
//! for that: if another transaction prevents it, it continues row by row, and requests the table
//! again when it has twice as many. Only when there is no room for another lock it waits, for the
//! table in which it has most. A scan of a whole table requests the table as soon as the scan has
//! passed its first locks.

use platform::{Code, Nanos, Platform};

use super::held_nodes::{HeldNodes, NodeLockRequest};
use super::held_rows::HeldRows;
use super::rows::RowRequest;
use super::{LockAnswer, LockManager, LockMode};

/// Locks after which a scan of a whole table requests the table.
const WHOLE_SCAN_LOCKS: usize = 16;

/// A lock request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest {
    /// Number of the table that the place lies in.
    pub table: usize,
    pub name: u64,
    pub mode: LockMode,
    /// Smaller is older; no two transactions have the same.
    pub age: u64,
}

/// The locks of one owner's transaction, and what the owner keeps for its next one.
pub(crate) struct TransactionLocks {
    owner: usize,
    rows: HeldRows,
    nodes: HeldNodes,
    /// The number of locks of rows at which tables are checked for escalation.
    check_at: usize,
    /// True if there is no other transaction, so that nothing is locked.
    locks_nothing: bool,
    /// The refused request of the transaction's last attempt.
    refused: Option<LockRequest>,
}

impl TransactionLocks {
    /// None, of the owner with this number.
    pub(crate) fn new<P: Platform>(manager: &LockManager<P>, owner: usize) -> Self {
        TransactionLocks {
            owner,
            rows: HeldRows::new(manager, owner),
            nodes: HeldNodes::new(manager, owner),
            check_at: manager.escalation,
            locks_nothing: false,
            refused: None,
        }
    }

    /// Begins a transaction, which has no locks; with `locks_nothing` it takes none, since there is
    /// no other transaction while it lasts.
    #[inline]
    pub(crate) fn begin(&mut self, locks_nothing: bool) {
        self.locks_nothing = locks_nothing;
        self.rows.begin_attempt();
    }

    /// The transaction that begins is another one, not another attempt.
    pub(crate) fn begin_anew(&mut self) {
        self.rows.begin_anew();
        self.forget_refused();
    }

    /// Forgets the refused request: the next attempt may make others.
    pub(crate) fn forget_refused(&mut self) {
        self.refused = None;
    }

    /// An attempt is refused this request, and gives up all that it has.
    pub(crate) fn is_refused(&mut self, request: LockRequest) {
        self.refused = Some(request);
    }

    /// The refused request of the attempt before.
    pub(crate) fn refused(&self) -> Option<LockRequest> {
        self.refused
    }

    /// The mode for a row that is found to be read or changed. Transactions that read the same rows
    /// and change them afterwards abort each other: each has a shared lock that the other one wants
    /// to convert. If an attempt of this transaction converted a lock in this table, the next one
    /// requests the exclusive mode at once.
    #[inline]
    pub(crate) fn in_one_step(&self, table: usize, mode: LockMode) -> LockMode {
        if self.rows.has_converted(table) { LockMode::Exclude } else { mode }
    }

    /// Number of locks of rows and gaps.
    #[inline]
    pub(crate) fn row_locks(&self) -> usize {
        self.rows.count()
    }

    /// Returns true if nothing is locked.
    #[inline]
    pub(crate) fn locks_nothing(&self) -> bool {
        self.locks_nothing
    }

    /// Locks a place, and before that all that it lies in. With `waits` the transaction waits as
    /// long as it may, until the deadline, if there is one; before that `on_wait` is called.
    pub(crate) fn acquire<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: LockRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> LockAnswer {
        P::code(c, Code::PagesLock);
        let LockRequest { table, name, mode, age } = request;
        let is_ready = self.nodes.is_open(1 + table, mode) && self.rows.count() < self.check_at;
        if !is_ready && let Some(answer) = self.get_ready(manager, c, request, waits, on_wait) {
            return answer;
        }
        self.rows.acquire(manager, c, table, RowRequest { name, mode, age }, waits, on_wait)
    }

    /// Locks all that a place lies in, and perhaps the table instead of the place: the answer,
    /// unless the place is to be locked.
    fn get_ready<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: LockRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> Option<LockAnswer> {
        let LockRequest { table, mode, age, .. } = request;
        let mut answer = LockAnswer::Granted;
        if self.locks_nothing {
            return Some(answer);
        }
        if !manager.skips_intents {
            let request = NodeLockRequest { node: 1 + table, mode, age };
            answer = self.nodes.enter(manager, c, request, waits, on_wait);
        }
        if answer == LockAnswer::Granted
            && self.rows.count() >= self.check_at
            && !self.nodes.covers(1 + table, mode)
        {
            answer = self.escalate(manager, c, request, waits, on_wait);
        }
        let is_done = answer != LockAnswer::Granted || self.nodes.covers(1 + table, mode);
        is_done.then_some(answer)
    }

    /// Returns true if the transaction relies on a gap by a lock of its own; not by that of the
    /// table, which covers all gaps there will be.
    pub(crate) fn relies_on(&self, gap: u64) -> bool {
        self.rows.mode(gap).is_some_and(|mode| mode.covers(LockMode::Share))
    }

    /// Takes tables instead of rows, if there are too many locks of rows in this table, or
    /// altogether.
    #[cold]
    fn escalate<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: LockRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> LockAnswer {
        let LockRequest { table, mode, age, .. } = request;
        let counts = self.rows.counts();
        let count = counts.get(&table).copied().unwrap_or(0);
        if count >= self.nodes.escalates_at(1 + table, manager.escalation) {
            let reads = mode.intent() == LockMode::IntentShare;
            let mode = if reads { LockMode::Share } else { LockMode::Exclude };
            let request = NodeLockRequest { node: 1 + table, mode, age };
            let taken = self.take_table(manager, c, request, None, on_wait);
            if taken != LockAnswer::Granted {
                self.nodes.escalate_at(1 + table, 2 * count);
            }
        }
        if !self.rows.has_room() {
            let fullest = counts.iter().max_by_key(|(_, count)| **count).map_or(table, |(table, _)| *table);
            // All locks in it are covered then.
            let mode = if self.nodes.writes(1 + fullest) { LockMode::Exclude } else { LockMode::Share };
            let request = NodeLockRequest { node: 1 + fullest, mode, age };
            let taken = self.take_table(manager, c, request, waits, on_wait);
            if taken != LockAnswer::Granted {
                return taken;
            }
        }
        self.update_check_at(manager.escalation);
        LockAnswer::Granted
    }

    /// Finds out with how many locks some table may have too many.
    fn update_check_at(&mut self, escalation: usize) {
        let counts = self.rows.counts();
        let missing = |(table, count): (&usize, &usize)| {
            self.nodes.escalates_at(1 + *table, escalation).saturating_sub(*count)
        };
        let least = counts.iter().map(missing).min().unwrap_or(escalation).min(escalation);
        self.check_at = (self.rows.count() + least.max(1)).min(self.rows.limit());
    }

    /// Locks a table, and gives back what that covers.
    fn take_table<P: Platform>(
        &mut self,
        manager: &LockManager<P>,
        c: P::Core,
        request: NodeLockRequest,
        waits: Option<Option<Nanos>>,
        on_wait: &mut dyn FnMut(),
    ) -> LockAnswer {
        let node = request.node;
        let answer = self.nodes.acquire(manager, c, request, waits, on_wait);
        if let (LockAnswer::Granted, Some(mode)) = (answer, self.nodes.mode(node)) {
            let left = self.rows.release_covered(manager, c, node - 1, mode);
            self.nodes.escalate_at(node, left + manager.escalation);
        }
        answer
    }

    /// A scan of a whole table begins.
    pub(crate) fn expect_whole(&mut self, table: usize) {
        if self.locks_nothing {
            return;
        }
        let count = self.rows.counts().get(&table).copied().unwrap_or(0);
        self.nodes.escalate_at(1 + table, count + WHOLE_SCAN_LOCKS);
        self.check_at = self.check_at.min(self.rows.count() + WHOLE_SCAN_LOCKS);
    }

    /// Returns true if no other transaction has the place in a mode that excludes this one.
    pub(crate) fn is_free<P: Platform>(
        &self,
        manager: &LockManager<P>,
        c: P::Core,
        name: u64,
        mode: LockMode,
    ) -> bool {
        self.locks_nothing || self.rows.is_free(manager, c, name, mode)
    }

    /// Returns true if the transaction has a table in such a mode that it needs no lock of this
    /// mode in it.
    #[cfg(test)]
    pub(super) fn covers(&self, table: usize, mode: LockMode) -> bool {
        self.nodes.covers(1 + table, mode)
    }

    /// Ends a transaction.
    pub(crate) fn release_all<P: Platform>(&mut self, manager: &LockManager<P>, c: P::Core) {
        if self.locks_nothing {
            return;
        }
        self.rows.release_all(manager, c);
        self.nodes.release_all(manager, c);
        manager.waits.forget(c, self.owner);
        self.check_at = manager.escalation;
    }

    /// Ends the owner: nothing that it has inherited stays.
    pub(crate) fn end<P: Platform>(&mut self, manager: &LockManager<P>, c: P::Core) {
        self.nodes.end(manager, c);
    }
}
