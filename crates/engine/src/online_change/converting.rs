//! How a table gets rows of another form, or other indexes, while it is in use.
//!
//! The form to come is a table of its own that no session knows, with the same primary keys
//! ([`crate::tables::conversion`]). In this order:
//!
//! 1. The table to come is made. To the directory it is one that was dropped: a crash leaves the
//!    table as it was.
//! 2. Transactions that begin from now on read the table as it was, and say what they change of
//!    both (`following.rs`), in the same commit.
//! 3. When those have ended that began before, the rows are carried over, some in a transaction.
//!    When that is durable, both say the same.
//! 4. The directory's manifest is replaced by one in which the form to come is the table, and the
//!    other one was dropped. Both change in the same commits still, so whichever of the two a crash
//!    leaves has every commit that was acknowledged.
//! 5. Transactions that begin from now on read the table as it will be, and say what they change of
//!    both: others still read the table as it was.
//! 6. When these have ended, both forms are no longer kept, and the table as it was ends as dropped
//!    ones do.
//!
//! A transaction that reads both forms would see a row twice; a transaction that began in step 2
//! and finds the form to come tries again.

use boundary::directory::description::NOT_COUNTED;
use boundary::{AnyVerbs, Bounds, ChangeError, ChangeStep, Ending, SchemaBuilder, Span, Swept, TableChange};
use concurrency::Scheme;
use platform::{Intent, Nanos, Platform};
use schema::TableDescription;
use storage::Walk;
use terms::{Abort, Epoch, Fault};

use crate::session::MemorySession;
use crate::tables::conversion::{Conversion, Reads, RowImage, TableForm};
use crate::tables::table_list::{Changes, End};

/// Rows that are carried over in one transaction.
const SLICE_ROWS: usize = 32;
/// Attempts to carry rows over before the session does other things in between.
const ATTEMPTS: u32 = 16;
/// Time between two checks if transactions have ended.
const PAUSE_NANOS: u64 = 100_000;
/// How long a change whose form counts waits for transactions that read the other; then sessions
/// that tend end it.
const LEAVE_NANOS: u64 = 20_000_000;

impl<P: Platform, S: Scheme<P>> MemorySession<'_, P, S> {
    /// Gives the rows of a table another form, or the table other indexes, while sessions use it
    /// through objects ([`boundary::AnySession`]); the number of the table as it is from then
    /// on. Until then transactions use the number that the table had. Transactions that make two
    /// rows with one key in an index that is to be unique fail as if it were there. The session is
    /// in no transaction, and no caller uses the table through compiled verbs.
    ///
    /// # Errors
    /// [`ChangeError`]; the table is as it was. If the log has stopped it may be found in the other
    /// form at the next opening.
    pub fn change_table(&mut self, table: usize, change: TableChange<'_>) -> Result<usize, ChangeError> {
        let c = self.inner.core();
        let TableChange { schema, template, patience_nanos, watch } = change;
        let changes = self.tables.changes().ok_or(ChangeError::Unsupported)?;
        let until = patience_nanos.map(|nanos| P::now(c).plus(nanos));
        self.inner.leave();
        self.await_conversion(changes, until, watch)?;
        let begun = self.begin_forms(changes, table, schema, template, watch);
        let number = begun.inspect_err(|_| changes.end_conversion(c))?;
        let (conversion, _) = changes.conversion(c).expect("a table changes its form");
        let filled = self.fill_form(changes, conversion, until, watch);
        let counted = filled.and_then(|()| self.count_form(changes, conversion));
        if let Err(error) = counted {
            changes.set_form(c, None);
            // Transactions that have changed this form have to try again.
            let ended = self.end_table(changes, conversion.after(), End::Replaced);
            changes.end_conversion(c);
            return Err(ended.err().unwrap_or(error));
        }
        let (before, after) = (conversion.before(), conversion.after());
        watch(ChangeStep::Counts { before, after });
        changes.set_form(c, Some((number, Reads::After)));
        changes.let_go(c, before, self.inner.instance().epochs().current(c));
        let until = P::now(c).plus(LEAVE_NANOS);
        while changes.converts(c) && P::now(c) < until {
            if self.sweep() == Swept::Waits {
                P::rest(c, PAUSE_NANOS);
            }
        }
        Ok(after)
    }

    /// Waits until no other table changes its form, and claims that.
    fn await_conversion(
        &mut self,
        changes: &Changes<P>,
        until: Option<Nanos>,
        watch: &mut dyn FnMut(ChangeStep) -> bool,
    ) -> Result<(), ChangeError> {
        let c = self.inner.core();
        while !changes.begin_conversion(c) {
            self.pause(until, ChangeError::Busy, watch)?;
        }
        Ok(())
    }

    /// Waits a little for others, and does what sessions do between transactions; `late` is the
    /// error when it is too late for that.
    fn pause(
        &mut self,
        until: Option<Nanos>,
        late: ChangeError,
        watch: &mut dyn FnMut(ChangeStep) -> bool,
    ) -> Result<(), ChangeError> {
        let c = self.inner.core();
        if !watch(ChangeStep::Waits) {
            return Err(ChangeError::Cancelled);
        }
        if until.is_some_and(|until| P::now(c) >= until) {
            return Err(late);
        }
        self.tend(P::now(c));
        self.inner.leave();
        P::rest(c, PAUSE_NANOS);
        Ok(())
    }

    /// Steps 1 and 2: makes the table to come, and has transactions keep both. The number of the
    /// conversion.
    fn begin_forms(
        &mut self,
        changes: &Changes<P>,
        table: usize,
        mut schema: SchemaBuilder,
        template: Option<RowImage>,
        watch: &mut dyn FnMut(ChangeStep) -> bool,
    ) -> Result<usize, ChangeError> {
        let (c, tables) = (self.inner.core(), self.tables);
        let turn = changes.turn(c);
        let before = tables.get().get(table).filter(|_| !changes.is_dropped(table));
        let before = before.ok_or(ChangeError::NoSuchTable)?;
        let declared = schema.tables.pop().filter(|declared| declared.description.name() == before.name());
        let declared = declared.ok_or(ChangeError::NoSuchTable)?;
        let after = tables.get().len();
        let old = TableForm { table, description: before };
        let new = TableForm { table: after, description: &declared.description };
        let conversion = Conversion::new(old, new, template)
            .map_err(|reason| ChangeError::Form { table: before.name().to_owned(), reason })?;
        if changes.has_parts(c) {
            return Err(ChangeError::Parts);
        }
        if !watch(ChangeStep::Made { table: after }) {
            return Err(ChangeError::Cancelled);
        }
        let made = self.add_table(&turn, declared, Some(NOT_COUNTED))?;
        assert_eq!(made, after, "one core at a time adds tables");
        let number = changes.keep_conversion(c, conversion);
        changes.set_form(c, Some((number, Reads::Before)));
        Ok(number)
    }

    /// Step 3.
    fn fill_form(
        &mut self,
        changes: &Changes<P>,
        conversion: &Conversion,
        until: Option<Nanos>,
        watch: &mut dyn FnMut(ChangeStep) -> bool,
    ) -> Result<(), ChangeError> {
        let c = self.inner.core();
        let epochs = self.inner.instance().epochs();
        let since = epochs.current(c);
        if !changes.has_fault(Fault::EarlyConversion) {
            self.await_older(since, until, watch)?;
        }
        if changes.has_parts(c) {
            return Err(ChangeError::Parts);
        }
        let (mut partition, mut walk, mut rows, mut keys) = (0, Walk::default(), 0, Vec::new());
        loop {
            keys.clear();
            self.inner.enter();
            let primary = &self.inner.tables()[conversion.before()].indexes[0];
            let Some(storage) = primary.all_partitions().get(partition) else { break };
            if !storage.walk(c, &mut walk, SLICE_ROWS, &mut keys) {
                (partition, walk) = (partition + 1, Walk::default());
            }
            self.inner.leave();
            for keys in keys.chunks(SLICE_ROWS * conversion.key_words) {
                self.carry_rows(conversion, keys, until, watch)?;
                rows += (keys.len() / conversion.key_words) as u64;
                self.tend(P::now(c));
            }
            if !keys.is_empty() && !watch(ChangeStep::Rows { rows }) {
                return Err(ChangeError::Cancelled);
            }
        }
        // Snapshots that begin later show all that was carried over.
        self.await_commits(epochs.current(c));
        Ok(())
    }

    /// Waits until all transactions have ended that began before, at the longest until this moment;
    /// false if some go on. The session is in no transaction.
    pub fn await_earlier(&mut self, until: Option<Nanos>) -> bool {
        let since = self.inner.instance().epochs().current(self.inner.core());
        self.await_older(since, until, &mut |_| true).is_ok()
    }

    /// Waits until all transactions have ended that entered in this epoch, or before.
    fn await_older(
        &mut self,
        since: Epoch,
        until: Option<Nanos>,
        watch: &mut dyn FnMut(ChangeStep) -> bool,
    ) -> Result<(), ChangeError> {
        let (c, epochs) = (self.inner.core(), self.inner.instance().epochs());
        loop {
            self.inner.leave();
            // Also moves the horizon.
            epochs.try_advance(c);
            if epochs.horizon(c) > since {
                return Ok(());
            }
            self.pause(until, ChangeError::Waits, watch)?;
        }
    }

    /// Carries the rows with these primary keys over: together, or each alone if other transactions
    /// are in the way.
    fn carry_rows(
        &mut self,
        conversion: &Conversion,
        keys: &[u64],
        until: Option<Nanos>,
        watch: &mut dyn FnMut(ChangeStep) -> bool,
    ) -> Result<(), ChangeError> {
        if self.try_to_carry(conversion, keys)? {
            return Ok(());
        }
        for key in keys.chunks_exact(conversion.key_words) {
            while !self.try_to_carry(conversion, key)? {
                self.pause(until, ChangeError::Waits, watch)?;
            }
        }
        Ok(())
    }

    /// Carries rows over in one transaction; false if others were in the way of some attempts.
    fn try_to_carry(&mut self, conversion: &Conversion, keys: &[u64]) -> Result<bool, ChangeError> {
        let mut at = &keys[..0];
        let bounds = Bounds { attempts_max: Some(ATTEMPTS), ..Bounds::default() };
        let ended = self.transact(&bounds, |transaction| {
            keys.chunks_exact(conversion.key_words).try_for_each(|key| {
                at = key;
                conversion.carry(transaction, Reads::Before, key)
            })
        });
        match ended {
            Ok(Ending::Committed(..) | Ending::RolledBack(_)) => Ok(true),
            Err(abort) if abort.is_conflict() => {
                self.turn_to_another(false);
                Ok(false)
            }
            Err(Abort::Duplicate { index, .. }) => {
                let table = &self.tables.get()[conversion.after()];
                let (name, index) = (table.name().to_owned(), table.index_name(index as usize).to_owned());
                Err(ChangeError::NotUnique { table: name, index, row: self.name_row(conversion, at) })
            }
            Err(Abort::OutOfMemory(out)) => Err(out.into()),
            Err(Abort::Storage(reason)) => {
                let table = self.tables.get()[conversion.before()].name().to_owned();
                let reason = format!("{reason}: the row is {}", self.name_row(conversion, at));
                Err(ChangeError::Form { table, reason })
            }
            Err(abort) => Err(ChangeError::Rows(abort)),
        }
    }

    /// The primary key of a row as a person reads it.
    fn name_row(&mut self, conversion: &Conversion, key: &[u64]) -> String {
        let table = &self.tables.get()[conversion.before()];
        let mut named = String::new();
        let bounds = Bounds { attempts_max: Some(ATTEMPTS), ..Bounds::default() };
        let ended = self.transact(&bounds, |transaction| {
            let found = AnyVerbs::find(transaction, conversion.before(), 0, key, Intent::Read)?;
            let Some(found) = found else { return Ok(()) };
            let span = Span { offset: 0, bytes: table.row_bytes() };
            let mut words = vec![0; span.words()];
            AnyVerbs::read(transaction, found, span, &mut words)?;
            named = key_in_words(table, bytemuck::cast_slice(&words));
            Ok(())
        });
        match ended {
            Ok(_) if !named.is_empty() => named,
            _ => "gone by now".to_owned(),
        }
    }

    /// Step 4.
    fn count_form(&mut self, changes: &Changes<P>, conversion: &Conversion) -> Result<(), ChangeError> {
        let c = self.inner.core();
        self.inner.leave();
        let Some(redo) = &self.redo else { return Ok(()) };
        let durable = redo.durable;
        if !changes.has_fault(Fault::EarlySwitch) {
            durable.journal.settle(c, self.inner.instance().epochs())?;
        }
        let turn = changes.turn(c);
        let codecs = durable.codecs.get(c);
        let (before, after) = (codecs[conversion.before()].id, codecs[conversion.after()].id);
        let mut next = turn.description();
        for table in &mut next.tables {
            table.continued_by = table.continued_by.filter(|id| *id != before);
            match table.id {
                id if id == before => table.dropped = Some(NOT_COUNTED),
                id if id == after => table.dropped = None,
                _ => {}
            }
        }
        // If this fails the table as it was counts, or the log has stopped.
        durable.journal.describe(c, next.encode())?;
        turn.describe(next);
        Ok(())
    }

    /// Step 6: no transaction is there that reads this form.
    #[cold]
    pub(crate) fn end_form(&mut self, changes: &Changes<P>, form: usize) {
        let c = self.inner.core();
        changes.set_form(c, None);
        // If the log has stopped, an opening drops the table: it does not count.
        let _ = self.end_table(changes, form, End::Replaced);
        changes.end_outgoing(c);
    }
}

/// The primary key of a row with this fixed part.
fn key_in_words(table: &TableDescription, fixed: &[u8]) -> String {
    let values = table.indexes()[0].columns.iter().map(|column| {
        let value = table.decode_column(*column, fixed, &[]);
        value.map_or_else(|_| "?".to_owned(), |value| value.to_string())
    });
    format!("({})", values.collect::<Vec<_>>().join(", "))
}
