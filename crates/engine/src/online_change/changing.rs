//! Tables that come and go while a database is open.
//!
//! A table is created in this order: its trees are made; the directory's manifest is replaced by
//! one that knows its id; its place is filled, and transactions that begin from then on can use it.
//! A crash leaves no table, or an empty one.
//!
//! A table is dropped in this order: it is marked; all commits that were announced before are over,
//! and durable; the manifest says that the table is gone. Commits that are announced after the mark
//! and that have changed the table are refused: no record by its id is left after the manifest says
//! so. Until then checkpoints copy the table's rows, and if the files refuse, the mark is taken
//! away and the table is as before. Transactions that began before may continue to read it. Its
//! rows go when all those have ended, some at a time, by the session that tends: as deletions
//! without records in the log.

use boundary::directory::description::NOT_COUNTED;
use boundary::{AnyVerbs, ChangeError, Declared, SchemaBuilder, Span, Swept};
use concurrency::Scheme;
use platform::{Intent, Platform};
use schema::{AnyKey, TableDescription, TableError, TableFault};
use storage::last_complete;
use terms::{Abort, Epoch, Mode};

use crate::session::MemorySession;
use crate::tables::conversion::{Conversion, Reads};
use crate::tables::table_list::{Changes, End, Leaving, Turn};
use crate::transaction::Transaction;
use crate::transaction::adding::add_table;

/// Rows of a dropped table that go together.
const SLICE_ROWS: usize = 64;
/// Time between two checks of commits of other workers that are waited for.
const COMMIT_PAUSE_NANOS: u64 = 1_000;

impl<'d, P: Platform, S: Scheme<P>> MemorySession<'d, P, S> {
    /// Makes the one table that the schema declares; its number. Transactions that begin when this
    /// has returned can use it, of all sessions. The session is in no transaction.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed, but if the log has stopped an empty table may be found
    /// at the next opening.
    pub fn create_table(&mut self, mut schema: SchemaBuilder) -> Result<usize, ChangeError> {
        let (Some(declared), true) = (schema.tables.pop(), schema.tables.is_empty()) else {
            return Err(ChangeError::NoSuchTable);
        };
        let (c, tables) = (self.inner.core(), self.tables);
        let Some(changes) = tables.changes() else { return Err(ChangeError::NoRoom) };
        let turn = changes.turn(c);
        let name = declared.description.name();
        let mut present = (0..).zip(tables.get()).filter(|(number, _)| !changes.is_dropped(*number));
        if present.any(|(_, table)| table.name() == name) {
            let (table, fault) = (name.to_owned(), TableFault::DuplicateTable);
            return Err(TableError { table, fault }.into());
        }
        self.add_table(&turn, declared, None)
    }

    /// Makes a table and takes its place for it; `dropped`: what the directory is to say of its
    /// end.
    pub(crate) fn add_table(
        &mut self,
        turn: &Turn<'_, P>,
        declared: Declared,
        dropped: Option<u64>,
    ) -> Result<usize, ChangeError> {
        let durable = self.redo.as_ref().map(|redo| redo.durable);
        add_table(&mut self.inner, self.tables, durable, turn, declared, Some(dropped))
    }

    /// Drops a table: when this returns, that is durable, and the name is free. The caller lets no
    /// transaction use the table that begins later. Those that have begun may read it; if they have
    /// changed it, their commits are refused in a durable database. The session is in no
    /// transaction.
    ///
    /// # Errors
    /// [`ChangeError`]; the table is as before, but for commits that were refused meanwhile. If the
    /// log has stopped the table may be gone at the next opening.
    pub fn drop_table(&mut self, table: usize) -> Result<(), ChangeError> {
        let changes = self.tables.changes().ok_or(ChangeError::Unsupported)?;
        self.end_table(changes, table, End::Dropped)
    }

    /// Drops a table, or a form of one.
    pub(crate) fn end_table(
        &mut self,
        changes: &Changes<P>,
        table: usize,
        end: End,
    ) -> Result<(), ChangeError> {
        let c = self.inner.core();
        self.inner.leave();
        let turn = changes.turn(c);
        if table >= self.tables.get().len() || changes.is_dropped(table) {
            return Err(ChangeError::NoSuchTable);
        }
        let is_form = |(forms, _): (&Conversion, Reads)| table == forms.before() || table == forms.after();
        if end == End::Dropped && changes.conversion(c).is_some_and(is_form) {
            return Err(ChangeError::Busy);
        }
        // No part is prepared while a table changes its form.
        if end == End::Dropped && changes.has_parts(c) {
            return Err(ChangeError::Parts);
        }
        changes.mark(c, table, end);
        match self.end_on_disk(changes, &turn, table) {
            Ok(()) => changes.set_gone(c, table),
            // No transaction uses a form that was replaced.
            Err(error) if end == End::Replaced => return Err(error),
            Err(error) => {
                changes.unmark(c, table);
                return Err(error);
            }
        }
        // Later transactions enter in later epochs, or get the mark from the caller.
        changes.begin_leaving(c, table, self.inner.instance().epochs().current(c));
        Ok(())
    }

    /// Has the directory, if there is one, say that a table is gone which is marked, unless parts
    /// were prepared meanwhile.
    fn end_on_disk(
        &mut self,
        changes: &Changes<P>,
        turn: &Turn<'_, P>,
        table: usize,
    ) -> Result<(), ChangeError> {
        let (c, epochs) = (self.inner.core(), self.inner.instance().epochs());
        let durable = self.redo.as_ref().map(|redo| redo.durable);
        match durable {
            Some(durable) => durable.journal.settle(c, epochs)?,
            None => self.await_commits(epochs.current(c)),
        }
        // What was announced before the mark is over: a part is prepared by now, or finds the mark.
        if changes.end(table) == End::Dropped && changes.has_parts(c) {
            return Err(ChangeError::Parts);
        }
        let Some(durable) = durable else { return Ok(()) };
        let id = durable.codecs.get(c)[table].id;
        let before = turn.description();
        let mut next = before.clone();
        next.tables
            .iter_mut()
            .filter(|table| table.id == id)
            .for_each(|table| table.dropped = Some(NOT_COUNTED));
        let forms = next.tables.iter_mut().filter(|table| table.continued_by == Some(id));
        forms.for_each(|table| table.continued_by = None);
        // Of a form that does not count it says so already.
        if next != before {
            durable.journal.describe(c, next.encode())?;
            turn.describe(next);
        }
        Ok(())
    }

    /// Waits until all commits are over that were announced in this epoch, or before. The session
    /// is in no transaction.
    pub(crate) fn await_commits(&mut self, epoch: Epoch) {
        let c = self.inner.core();
        self.inner.leave();
        let epochs = self.inner.instance().epochs();
        while last_complete(epochs.current(c)).0 < epoch.0 {
            if !epochs.try_advance(c) {
                P::rest(c, COMMIT_PAUSE_NANOS);
            }
        }
    }

    /// Lets some rows of dropped tables go, if no session can use them any more. The session is in
    /// no transaction.
    #[cold]
    pub fn sweep(&mut self) -> Swept {
        let (c, tables) = (self.inner.core(), self.tables);
        let Some(changes) = tables.changes().filter(|changes| changes.is_leaving()) else {
            return Swept::All;
        };
        self.inner.leave();
        let epochs = self.inner.instance().epochs();
        // Also moves the horizon.
        epochs.try_advance(c);
        if let Some(form) = changes.take_outgoing(c, epochs.horizon(c)) {
            self.end_form(changes, form);
            return Swept::More;
        }
        let Some(mut leaving) = changes.take_leaving(c, epochs.horizon(c)) else { return Swept::Waits };
        let description = &tables.get()[leaving.table];
        let is_over = self.sweep_slice(&mut leaving, description);
        changes.put_back(c, Some(leaving).filter(|_| !is_over));
        if changes.is_leaving() { Swept::More } else { Swept::All }
    }

    /// Deletes some rows; true if there are none.
    fn sweep_slice(&mut self, leaving: &mut Leaving, description: &TableDescription) -> bool {
        let c = self.inner.core();
        let mut keys = Vec::new();
        self.inner.enter();
        let primary = &self.inner.tables()[leaving.table].indexes[0];
        match primary.all_partitions().get(leaving.partition) {
            Some(partition) => {
                if !partition.walk(c, &mut leaving.walk, SLICE_ROWS, &mut keys) {
                    leaving.walk = Default::default();
                    leaving.partition += 1;
                }
            }
            // Another pass deletes the rows that could not be deleted.
            None if leaving.found => (leaving.partition, leaving.found) = (0, false),
            None => {
                self.inner.leave();
                return true;
            }
        }
        let width = primary.words;
        let mut transaction =
            Transaction::begin(&mut self.inner, &mut self.scratch, None, Mode::Single, None);
        let outcome = match delete_rows(&mut transaction, leaving.table, description, &keys, width) {
            Ok(found) => transaction.commit().map(|_| found).map_err(|(abort, _)| abort),
            Err(abort) => Err(transaction.explain(abort).0),
        };
        if outcome.is_err() {
            S::turn_to_another(self.inner.worker(), false);
        }
        leaving.found |= outcome.unwrap_or(true);
        self.inner.leave();
        false
    }
}

/// Deletes the rows with these primary keys, those that are there; whether there were any.
fn delete_rows<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    table: usize,
    description: &TableDescription,
    keys: &[u64],
    width: usize,
) -> Result<bool, Abort> {
    let indexes = description.indexes();
    let span = Span { offset: 0, bytes: description.row_bytes() };
    let (mut row, mut tail) = (vec![0; span.words()], Vec::new());
    let mut any = false;
    for key in keys.chunks_exact(width) {
        let Some(found) = AnyVerbs::find(transaction, table, 0, key, Intent::Write)? else { continue };
        AnyVerbs::read(transaction, found, span, &mut row)?;
        if description.has_tail() {
            AnyVerbs::read_tail(transaction, found, &mut tail)?;
        }
        let fixed = bytemuck::cast_slice(&row);
        let of_row: Vec<AnyKey> =
            (0..indexes.len()).map(|number| description.key_of(number, fixed, &tail)).collect();
        AnyVerbs::delete(transaction, found, &description.words_of(&of_row))?;
        any = true;
    }
    Ok(any)
}
