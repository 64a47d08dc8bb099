//! The right to change tables, and the tables that a transaction which has it keeps from others
//! until it ends (decision 0119).
// The words belong to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::{Hardware, Nanos, Platform};
use terms::Epoch;

/// Time between two looks at something that another transaction has.
pub(crate) const PAUSE_NANOS: u64 = 50_000;

/// A transaction changes tables.
const ALONE: usize = usize::MAX;

/// State of a table with respect to transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Presence {
    Present,
    Dropped,
    /// The table was changed: its name now belongs to a table with other rows.
    Changed,
    /// The table is being filled by a change, and has no name yet, or is not there yet.
    Filling,
    /// The table is there, and a transaction that changes tables has it alone.
    Held,
    /// The table is there, and is new or has new constraints: some transactions do not use it that
    /// began before.
    Settling,
}

impl Presence {
    fn of(word: u8) -> Self {
        const ALL: [Presence; 6] = [
            Presence::Present,
            Presence::Dropped,
            Presence::Changed,
            Presence::Filling,
            Presence::Held,
            Presence::Settling,
        ];
        ALL[usize::from(word)]
    }

    /// True if the table has a name.
    pub(crate) fn is_there(self) -> bool {
        matches!(self, Presence::Present | Presence::Held | Presence::Settling)
    }
}

/// The states of all tables, and of each place for further tables.
pub(crate) struct Presences(Arc<[AtomicU8]>);

impl Presences {
    /// Tables that are present, and places without one.
    pub(crate) fn new(tables: usize, places: usize) -> Self {
        let present = (0..tables).map(|_| AtomicU8::new(Presence::Present as u8));
        let further = (0..places).map(|_| AtomicU8::new(Presence::Filling as u8));
        Presences(present.chain(further).collect())
    }

    pub(crate) fn share(&self) -> Self {
        Presences(Arc::clone(&self.0))
    }

    /// Returns true if a table is there and no transaction keeps it from others.
    #[inline]
    pub(crate) fn is_plainly_present(&self, table: usize) -> bool {
        // Relaxed: a thread that has seen a change also sees this word; for any other thread the
        // transaction counts as begun before the change.
        self.0.get(table).is_none_or(|presence| presence.load(Ordering::Relaxed) == Presence::Present as u8)
    }

    pub(crate) fn get(&self, table: usize) -> Presence {
        // Acquire: pairs with `set`, for what was published before.
        self.0.get(table).map_or(Presence::Present, |word| Presence::of(word.load(Ordering::Acquire)))
    }

    /// Sets the state of a table for transactions that begin from now on.
    pub(crate) fn set(&self, table: usize, presence: Presence) {
        if let Some(now) = self.0.get(table) {
            // Release: this store precedes the read of the epoch after which no transaction uses
            // the old state; a transaction of a later epoch reads that epoch with acquire.
            now.store(presence as u8, Ordering::Release);
        }
    }

    /// As [`Self::set`], if the state was `from`. Returns true if it was.
    pub(crate) fn replace(&self, table: usize, from: Presence, to: Presence) -> bool {
        let Some(now) = self.0.get(table) else { return false };
        // Release: as in `set`. Relaxed on failure: no other data depends on it.
        now.compare_exchange(from as u8, to as u8, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The right to change tables, and what transactions that have it keep from others.
pub(crate) struct TableLocks {
    presences: Presences,
    /// Number of changes outside of transactions that are under way, or [`ALONE`].
    users: AtomicUsize,
    /// The transaction that changes tables waits for others.
    waits: AtomicBool,
    /// It commits: others may see its rows before its tables.
    commits: AtomicBool,
    /// The tables that it has alone.
    held: Mutex<Vec<usize>>,
    settling: Mutex<Vec<SettlingTable>>,
}

/// A table that is not as it was for transactions that began in this epoch or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SettlingTable {
    table: usize,
    pub(crate) since: Epoch,
    /// The table is new: snapshots that are older would find it empty. Otherwise its constraints
    /// are new, which transactions that are older do not know.
    pub(crate) is_new: bool,
}

/// The right to change tables outside of transactions, until it is dropped.
pub(crate) struct SharedTurn(Arc<TableLocks>);

/// The right of one transaction to change tables. When it is dropped, the tables that it holds are
/// present again.
pub(crate) struct TransactionTurn(Arc<TableLocks>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TableLocks {
    pub(crate) fn new(presences: Presences) -> Arc<Self> {
        Arc::new(TableLocks {
            presences,
            users: AtomicUsize::new(0),
            waits: AtomicBool::new(false),
            commits: AtomicBool::new(false),
            held: Mutex::default(),
            settling: Mutex::default(),
        })
    }

    /// Begins a change of tables outside of transactions, when no transaction changes tables;
    /// `None` if one does at this moment.
    pub(crate) fn share(self: &Arc<Self>, until: Nanos) -> Option<SharedTurn> {
        let add = |users: usize| (users != ALONE).then_some(users + 1);
        let taken =
            wait_until(until, || self.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).is_ok());
        taken.then(|| SharedTurn(Arc::clone(self)))
    }

    /// Begins a change of tables in a transaction, when no other is under way.
    pub(crate) fn take(self: &Arc<Self>, until: Nanos) -> Option<TransactionTurn> {
        let taken = wait_until(until, || {
            self.users.compare_exchange(0, ALONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
        });
        taken.then(|| TransactionTurn(Arc::clone(self)))
    }

    /// Keeps a present table from other transactions; false if it is not present.
    pub(crate) fn hold(&self, table: usize) -> bool {
        let holds = self.presences.replace(table, Presence::Present, Presence::Held)
            || self.presences.replace(table, Presence::Settling, Presence::Held);
        if holds {
            lock(&self.held).push(table);
        }
        holds
    }

    /// Lets others use these tables again.
    pub(crate) fn let_go(&self, tables: &[usize]) {
        lock(&self.held).retain(|held| !tables.contains(held));
        tables.iter().for_each(|table| self.set_free(*table));
    }

    fn set_free(&self, table: usize) {
        let to = if self.settling(table).is_some() { Presence::Settling } else { Presence::Present };
        self.presences.replace(table, Presence::Held, to);
    }

    /// The transaction has committed: these tables are there, and those are gone. `new`: the epoch
    /// of the commit, if snapshots have to be younger to use tables that are there now;
    /// `constrained`: if transactions have to be, to use the other tables that it holds.
    pub(crate) fn commit(
        &self,
        made: &[usize],
        gone: &[usize],
        new: Option<Epoch>,
        constrained: Option<Epoch>,
    ) {
        let held = std::mem::take(&mut *lock(&self.held));
        let mut settling = lock(&self.settling);
        settling.retain(|settling| !gone.contains(&settling.table));
        let (is_new, others) = (true, held.iter().filter(|table| !gone.contains(table)));
        if let Some(since) = new {
            settling.extend(made.iter().map(|table| SettlingTable { table: *table, since, is_new }));
        }
        if let Some(since) = constrained {
            settling.retain(|settling| !held.contains(&settling.table));
            settling.extend(others.map(|table| SettlingTable { table: *table, since, is_new: false }));
        }
        drop(settling);
        let there = if new.is_some() { Presence::Settling } else { Presence::Present };
        made.iter().for_each(|table| self.presences.set(*table, there));
        gone.iter().for_each(|table| self.presences.set(*table, Presence::Dropped));
        held.iter().for_each(|table| self.set_free(*table));
    }

    /// Says whether the transaction waits for others; they do not wait for it then.
    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::SeqCst);
    }

    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    /// Says whether the transaction commits.
    pub(crate) fn set_commits(&self, commits: bool) {
        // SeqCst: before the rows are visible.
        self.commits.store(commits, Ordering::SeqCst);
    }

    pub(crate) fn commits(&self) -> bool {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns which transactions use a table that is new or has new constraints.
    pub(crate) fn settling(&self, table: usize) -> Option<SettlingTable> {
        lock(&self.settling).iter().find(|settling| settling.table == table).copied()
    }

    /// All transactions may use a table.
    pub(crate) fn settle(&self, table: usize) {
        lock(&self.settling).retain(|settling| settling.table != table);
        self.presences.replace(table, Presence::Settling, Presence::Present);
    }
}

impl Drop for SharedTurn {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for TransactionTurn {
    fn drop(&mut self) {
        let held = std::mem::take(&mut *lock(&self.0.held));
        held.iter().for_each(|table| self.0.set_free(*table));
        self.0.set_waits(false);
        self.0.set_commits(false);
        self.0.users.store(0, Ordering::Release);
    }
}

/// Asks again and again until the answer is yes, or it is too late.
pub(crate) fn wait_until(until: Nanos, mut is_so: impl FnMut() -> bool) -> bool {
    let c = Hardware::core();
    loop {
        if is_so() {
            return true;
        }
        if Hardware::now(c) >= until {
            return false;
        }
        Hardware::rest(c, PAUSE_NANOS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_held_by_one_transaction_until_it_ends() {
        let presences = Presences::new(3, 1);
        let locks = TableLocks::new(presences.share());
        let turn = locks.take(Nanos(0)).expect("nobody has it");
        assert!(locks.take(Nanos(0)).is_none() && locks.share(Nanos(0)).is_none());
        assert!(locks.hold(0) && locks.hold(1) && locks.hold(2) && !locks.hold(3) && !locks.hold(0));
        assert_eq!((presences.get(0), presences.is_plainly_present(0)), (Presence::Held, false));
        locks.let_go(&[2]);
        assert!(presences.is_plainly_present(2));
        locks.commit(&[3], &[0], None, Some(Epoch(7)));
        drop(turn);
        let all: Vec<_> = (0..4).map(|table| presences.get(table)).collect();
        assert_eq!(all, [Presence::Dropped, Presence::Settling, Presence::Present, Presence::Present]);
        let settling = SettlingTable { table: 1, since: Epoch(7), is_new: false };
        assert_eq!((locks.settling(1), locks.settling(2)), (Some(settling), None));

        // What a transaction that rolls back has held is as before.
        let shared = locks.share(Nanos(0)).expect("nobody has it");
        assert!(locks.take(Nanos(0)).is_none() && locks.share(Nanos(0)).is_some());
        drop(shared);
        let turn = locks.take(Nanos(0)).expect("nobody has it");
        assert!(locks.hold(1) && locks.hold(3));
        drop(turn);
        assert_eq!((presences.get(1), presences.get(3)), (Presence::Settling, Presence::Present));
        locks.settle(1);
        assert!(presences.is_plainly_present(1) && locks.settling(1).is_none());
    }
}
