//! A transaction that changes tables: the tables that it sees, those that others see, and its end.
//! The verbs are in `altering.rs`.

use boundary::TableChanges;
use platform::{Hardware, Nanos, Platform};
use schema::TableDescription;
use terms::{Abort, Conflict, Epoch, Fault, LockedPlace};

use crate::altered_tables::Altered;
use crate::attempt::Transaction;
use crate::durable_wait::nanos;
use crate::error::{Error, Result};
use crate::plans::Plans;
use crate::table_locks::{PAUSE_NANOS, Presence, TransactionTurn, wait_until};

/// Longest wait of a transaction for a table that another one changes, and for the right to change
/// tables, if its options do not bound its waits for locks.
pub(crate) const WAIT_NANOS: u64 = 5_000_000;
/// Its longest wait for others to end that began before, if its options do not bound that.
pub(crate) const PATIENCE_NANOS: u64 = 60_000_000_000;

/// Time between two looks at whether a waiting transaction was cancelled.
const SLICE_NANOS: u64 = 20_000_000;

/// By how many epochs a snapshot is older than its transaction.
const SNAPSHOT_AGE: u64 = 2;

/// Returns the time at this distance from now.
fn in_nanos(nanos: u64) -> Nanos {
    Nanos(Hardware::now(Hardware::core()).0.saturating_add(nanos))
}

/// Tables as the transaction sees them.
impl<'t> Transaction<'t> {
    /// Returns the tables as this transaction sees them, with the changes that it has made.
    ///
    /// ```
    /// use isles::{ColumnDescription, Database, TableBuilder, ValueType};
    ///
    /// let id = ColumnDescription::new("id", ValueType::Signed(8));
    /// let items = TableBuilder::new("items").column(id).key(["id"]).build()?;
    /// let database = Database::in_memory().open()?;
    /// database.transaction(|t| {
    ///     t.create_described_table(items.clone())?;
    ///     t.rename_table("items", "goods")?;
    ///     assert_eq!(t.tables()[0].name(), "goods");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn tables(&self) -> Vec<TableDescription> {
        let described = |number: usize| self.shared.tables()[number].clone();
        match &self.state.altered {
            None => self.shared.present().map(|(number, _)| described(number)).collect(),
            Some(altered) => self.all_numbers(altered).map(described).collect(),
        }
    }

    /// Waits for the right to change tables; `None` if another transaction has it too long.
    pub(crate) fn await_turn(&mut self) -> Result<Option<TransactionTurn>> {
        let wait = self.state.lock_wait.map_or(WAIT_NANOS, nanos);
        self.wait_in_slices(wait, |t, until| t.shared.locks.take(until))
    }

    /// Waits until all transactions have ended that began before. No detection of deadlocks knows
    /// of this wait, so it has an end; false then.
    pub(crate) fn await_others(&mut self) -> Result<bool> {
        let wait = self.state.lock_wait.map_or(PATIENCE_NANOS, nanos).min(PATIENCE_NANOS);
        let ended = self.wait_in_slices(wait, |t, until| t.verbs.await_others(until).then_some(()))?;
        Ok(ended.is_some())
    }

    /// Waits by a function that waits until a certain time, and looks now and then whether the
    /// transaction was cancelled; `None` if it has waited for `wait` nanoseconds in vain.
    fn wait_in_slices<T>(
        &mut self,
        wait: u64,
        mut wait_until: impl FnMut(&mut Self, Nanos) -> Option<T>,
    ) -> Result<Option<T>> {
        let end = in_nanos(wait);
        loop {
            let found = wait_until(self, in_nanos(SLICE_NANOS.min(wait)).min(end));
            if found.is_some() || in_nanos(0) >= end {
                return Ok(found);
            }
            self.check_cancelled()?;
        }
    }

    /// Returns the number of the table of this name, for this transaction.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        let is_it = |number: &usize| self.shared.tables()[*number].name() == name;
        match &self.state.altered {
            None => self.shared.present().map(|(number, _)| number).find(is_it),
            Some(altered) => self.all_numbers(altered).find(is_it),
        }
    }

    pub(crate) fn all_numbers<'a>(&'a self, altered: &'a Altered) -> impl Iterator<Item = usize> + 'a {
        let present = self.shared.present().map(|(number, _)| number);
        present.filter(|number| !altered.gone.contains(number)).chain(altered.made.iter().copied())
    }

    /// Returns the plans of constraints that the transaction keeps.
    #[inline]
    pub(crate) fn plans(&self) -> Option<&'t Plans> {
        match &self.state.altered {
            None => self.plans,
            Some(altered) => self.shared.plans.numbered(altered.plans),
        }
    }

    /// Checks a table that is not plainly present: waits for a transaction that has it alone.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`], after which the attempt goes on; a conflict.
    #[cold]
    pub(crate) fn check_presence(&mut self, table: usize) -> Result<()> {
        if let Some(altered) = &self.state.altered
            && (altered.made.contains(&table) || altered.held.contains(&table))
        {
            return if altered.gone.contains(&table) { Err(self.absent(table)) } else { Ok(()) };
        }
        let (c, longest) = (Hardware::core(), self.state.lock_wait.map_or(WAIT_NANOS, nanos));
        let began = Hardware::now(c);
        let until = Nanos(began.0.saturating_add(longest));
        let (presences, locks) = (&self.shared.presences, &self.shared.locks);
        loop {
            match presences.get(table) {
                Presence::Present => return Ok(()),
                Presence::Settling => return self.check_settled(table),
                Presence::Held if locks.waits() => return self.check(Err(Abort::Conflict(Conflict::Locked))),
                Presence::Held => {}
                Presence::Dropped | Presence::Changed | Presence::Filling if locks.commits() => {}
                Presence::Dropped | Presence::Changed | Presence::Filling if self.keeps_form(table) => {
                    return Ok(());
                }
                Presence::Dropped | Presence::Changed | Presence::Filling => return Err(self.absent(table)),
            }
            self.check_cancelled()?;
            let now = Hardware::now(c);
            if now >= until {
                let (place, nanos) = (LockedPlace::Row, now.since(began));
                let table = Some(table as u32);
                return self.check(Err(match self.state.lock_wait {
                    Some(_) => Abort::LockTimeout { table, place, nanos },
                    None => Abort::Conflict(Conflict::Locked),
                }));
            }
            Hardware::rest(c, PAUSE_NANOS);
        }
    }

    /// Checks that the transaction may use a table that is new or has new constraints.
    pub(crate) fn check_settled(&mut self, table: usize) -> Result<()> {
        let locks = &self.shared.locks;
        let Some(settling) = locks.settling(table) else { return Ok(()) };
        // A snapshot shows what was complete two epochs before it began.
        let snapshots_since = Epoch(settling.since.0 + SNAPSHOT_AGE);
        if self.verbs.all_began_after(snapshots_since) {
            locks.settle(table);
            return Ok(());
        }
        match settling.is_new {
            true if self.state.only_reads && !self.verbs.began_after(snapshots_since) => {
                let name = self.shared.tables()[table].name();
                Err(Error::NoSuchTable(format!("table {name} is newer than the snapshot")))
            }
            false if !self.verbs.began_after(settling.since) => {
                self.check(Err(Abort::Conflict(Conflict::Locked)))
            }
            _ => Ok(()),
        }
    }

    /// Waits while a transaction commits that has changed tables; false if none does.
    pub(crate) fn await_table_commit(&self) -> bool {
        let locks = &self.shared.locks;
        let until = Nanos(Hardware::now(Hardware::core()).0.saturating_add(PATIENCE_NANOS));
        locks.commits() && wait_until(until, || !locks.commits())
    }
}

/// The end of a transaction that changes tables, and its savepoints.
impl Transaction<'_> {
    /// Remembers how tables are at a savepoint.
    pub(crate) fn note_savepoint(&mut self, savepoint: boundary::Savepoint) {
        if let Some(altered) = &mut self.state.altered {
            let forms = altered.forms();
            altered.savepoints.push((savepoint, forms));
        }
    }

    /// Has tables be as they were at a savepoint.
    pub(crate) fn return_to_tables(&mut self, savepoint: boundary::Savepoint) {
        let current = self.shared.plans.current_number();
        let Some(altered) = &mut self.state.altered else { return };
        let place = altered.savepoints.iter().position(|(set, _)| *set == savepoint);
        // A savepoint that is not in the list was set before the first change of tables.
        let forms = place.map_or((Vec::new(), Vec::new(), current), |place| {
            altered.savepoints.truncate(place + 1);
            altered.savepoints[place].1.clone()
        });
        if place.is_none() {
            altered.savepoints.clear();
        }
        (altered.made, altered.gone, altered.plans) = forms;
    }

    /// The last step before the commit: commits rows and tables.
    #[cold]
    pub(crate) fn commit_tables(&mut self) -> Result<(), Abort> {
        let Some(altered) = self.state.altered.take() else { return Ok(()) };
        let shared = self.shared;
        let changes = TableChanges { made: altered.made, gone: altered.gone };
        shared.locks.set_commits(true);
        let committed = self.verbs.commit_tables(&changes);
        if committed.is_ok() {
            let has_new_plans = altered.plans != shared.plans.current_number();
            shared.plans.set_current(altered.plans);
            let since = self.verbs.epoch_now();
            let new = shared.inner.traits().snapshots.then_some(since);
            shared.locks.commit(&changes.made, &changes.gone, new, has_new_plans.then_some(since));
        }
        self.verbs.give_up_tables();
        committed
    }

    /// Gives up what the transaction has done to tables.
    #[cold]
    pub(crate) fn give_up_tables(&mut self) {
        let Some(altered) = self.state.altered.take() else { return };
        if self.shared.faults.has(Fault::KeptTables) {
            self.shared.locks.commit(&altered.made, &[], None, None);
        }
        self.verbs.give_up_tables();
    }
}
