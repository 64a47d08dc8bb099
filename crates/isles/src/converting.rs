//! Changes of a table's columns and indexes while the database is open.

use std::time::Duration;

use boundary::{ChangeError, ChangeStep, SchemaBuilder};
use platform::{Hardware, Nanos, Platform};
use schema::{ForeignKey, Row, TableDescription};

use crate::changing::of_change;
use crate::database::Database;
use crate::durable_wait::nanos;
use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};
use crate::plans::{Plans, TableForm, check_ordered};
use crate::shared::DatabaseShared;
use crate::table::{Table, TableOptions};
use crate::table_forms::FormChange;
use crate::table_locks::Presence;

/// Default of [`TableChange::wait`].
const PATIENCE_DEFAULT: Duration = Duration::from_secs(60);

/// Options of [`Database::change_table`], which changes a table to rows of type `R`.
///
/// ```
/// use isles::{CancelToken, Database, Row, TableChange};
/// use std::time::Duration;
///
/// mod before {
///     #[derive(isles::Row)]
///     #[row(key(id))]
///     pub struct Account { pub id: u64, pub owner: u32 }
/// }
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(key(id), index(by_owner(owner)))]
/// struct Account { id: u64, owner: u32, balance: i64, note: Option<String> }
///
/// let mut builder = Database::in_memory();
/// let old = builder.table::<before::Account>("accounts");
/// let database = builder.open()?;
/// database.transaction(|t| t.insert(old, &before::Account { id: 1, owner: 7 }))?;
///
/// let (token, mut rows) = (CancelToken::new(), 0);
/// let change = TableChange::new()
///     .new_columns_of(&Account { id: 0, owner: 0, balance: 100, note: None })
///     .wait(Duration::from_secs(5))
///     .cancel(&token)
///     .on_progress(|done| rows = done);
/// let accounts = database.change_table("accounts", change)?;
/// let found = database.transaction(|t| t.scan(accounts.by(Account::BY_OWNER), ..).first())?;
/// assert_eq!(found, Some(Account { id: 1, owner: 7, balance: 100, note: None }));
/// assert_eq!(rows, 1);
/// # Ok::<(), isles::Error>(())
/// ```
pub struct TableChange<'c, R> {
    options: TableOptions<R>,
    /// Row with the values of new columns: fixed part and tail.
    template: Option<(Vec<u8>, Vec<u8>)>,
    patience: Option<Duration>,
    cancel: Option<CancelToken>,
    on_progress: Option<Box<dyn FnMut(u64) + 'c>>,
}

impl<R: Row> Default for TableChange<'_, R> {
    fn default() -> Self {
        TableChange {
            options: TableOptions::new(),
            template: None,
            patience: Some(PATIENCE_DEFAULT),
            cancel: None,
            on_progress: None,
        }
    }
}

impl<'c, R: Row> TableChange<'c, R> {
    /// Returns the default options: ordered indexes, no values in new columns, and a wait of up to
    /// a minute for earlier transactions.
    ///
    /// [`TableChange`] has an example.
    pub fn new() -> Self {
        TableChange::default()
    }

    /// Sets the values that existing rows get in new columns: those of this row. Without this call
    /// existing rows get no value there, so new columns have to be `Option`s.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn new_columns_of(mut self, row: &R) -> Self {
        let mut fixed = vec![0; R::BYTES];
        row.store(&mut fixed);
        self.template = Some((fixed, row.tail().into_owned()));
        self
    }

    /// Sets the options of the changed table. [`TableOptions`] has an example.
    #[must_use]
    pub fn options(mut self, options: TableOptions<R>) -> Self {
        self.options = options;
        self
    }

    /// Sets the longest wait for transactions that began before the change.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.patience = Some(time);
        self
    }

    /// Sets a token that cancels the change; the table then keeps its old form. The token has no
    /// effect once the change is complete.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Sets a listener that regularly receives the number of rows converted so far. The thread that
    /// changes the table calls the listener.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn on_progress(mut self, listener: impl FnMut(u64) + 'c) -> Self {
        self.on_progress = Some(Box::new(listener));
        self
    }
}

impl Database {
    /// Changes a table to rows of type `R` while the database is in use: columns may be added,
    /// removed or reordered, and indexes may differ. Columns are identified by their names. The
    /// primary key has to stay the same. Values of a column whose type differs are converted, if
    /// none is rounded or cut: exact numbers to each other, dates and timestamps to each other, and
    /// all types of one value to and from texts. When the call returns, the change is durable if
    /// the database is; a crash before that leaves the table unchanged. If the table already has
    /// rows of this type and these constraints, nothing happens, so a program may call this method
    /// at every start. The table has the constraints of [`TableChange::options`] afterwards, and no
    /// others: existing rows are checked.
    ///
    /// Other sessions continue during the change. Until the change is complete, transactions use
    /// the table through their old handles. Transactions that began before continue to do so to
    /// their end; in later transactions the old handles return [`Error::NoSuchTable`], and
    /// [`Self::table`] returns a handle for the new rows. A transaction that began before the
    /// change was complete and uses a new handle conflicts, and is tried again. During the change
    /// every write to the table is made twice, in the old and in the new form. A transaction that
    /// would create two rows with one key in a new unique index gets [`Error::Duplicate`], as if
    /// the index existed already. The change copies all rows: the table takes twice its memory
    /// until the old rows are removed, and uses one place for further tables
    /// ([`Builder::spare_tables`](crate::Builder::spare_tables)).
    ///
    /// Errors: [`Error::NoSuchTable`]; [`Error::NotChanged`] if the rows cannot be converted, if
    /// one breaks a constraint that the table gets, if two rows have the same key in a new unique
    /// index, or if earlier transactions do not end in time ([`TableChange::wait`]);
    /// [`Error::Cancelled`]; [`Error::Declaration`] and [`Error::OutOfMemory`], as
    /// [`Self::create_table`]; [`Error::NotDurable`] if a file operation failed: the table is
    /// then unchanged, except that the next opening may find it in either form if the log has
    /// stopped; [`Error::TooManySessions`]; [`Error::Nested`] inside a transaction;
    /// [`Error::Misuse`] in an instance of a deployment, and if rows lie in pages.
    ///
    /// [`TableChange`] has an example.
    pub fn change_table<R: Row>(&self, name: &str, change: TableChange<'_, R>) -> Result<Table<R>> {
        self.check_changeable()?;
        let number = self.shared.table_number(name)?;
        let TableChange { options, template, patience, cancel, on_progress } = change;
        let mut schema = SchemaBuilder::new();
        let options = options.into_engine();
        schema.declare_rows::<R>(name, &options)?;
        schema.descriptions().try_for_each(|table| check_ordered(table, &options.kinds))?;
        let before = &self.shared.tables()[number];
        let has_form = |next: &TableDescription| before.constraints() == next.constraints();
        let is_same = before.difference_to::<R>().is_none() && schema.descriptions().all(has_form);
        let number = match is_same {
            true => number,
            false => self.change_form(number, NewForm { schema, template, patience, cancel, on_progress })?,
        };
        Ok(Table { inner: schema::Table::new(number), database: self.shared.id })
    }

    /// Changes the table of the same name to this description, as [`Self::change_table`] does with
    /// default options. New columns have their default, or no value.
    ///
    /// ```
    /// use isles::{ColumnDescription, Constraints, Database, Datum, Expression, TableBuilder, ValueType};
    ///
    /// let visits = |constraints| {
    ///     let id = ColumnDescription::new("id", ValueType::Signed(8));
    ///     TableBuilder::new("visits").column(id).key(["id"]).constraints(constraints).build()
    /// };
    /// let database = Database::in_memory().open()?;
    /// database.create_described_table(visits(Constraints::new())?)?;
    /// database.transaction(|t| t.insert_dynamic("visits", &[Datum::Signed(7)]))?;
    /// let at_least = |least| Constraints::new().check("large", Expression::column("id").at_least(least));
    /// assert!(database.change_described_table(visits(at_least(8))?).is_err(), "a row has 7");
    /// database.change_described_table(visits(at_least(7))?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn change_described_table(&self, table: TableDescription) -> Result<()> {
        self.check_changeable()?;
        let number = self.shared.table_number(table.name())?;
        if self.shared.tables()[number] == table {
            return Ok(());
        }
        let mut schema = SchemaBuilder::new();
        schema.declare(table, &schema::TableOptions::default())?;
        let (patience, cancel) = (Some(PATIENCE_DEFAULT), None);
        let form = NewForm { schema, template: None, patience, cancel, on_progress: None };
        self.change_form(number, form).map(drop)
    }

    /// Gives a table another form; returns its number.
    fn change_form(&self, number: usize, form: NewForm<'_>) -> Result<usize> {
        let shared: &DatabaseShared = &self.shared;
        let _turn = shared.turn_to_change(shared.tables()[number].name())?;
        let next = form.schema.descriptions().next().cloned();
        let next = next.filter(|next| !next.constraints().is_empty() || shared.plans.current().is_some());
        let Some(next) = next else { return self.convert(number, form, false) };
        let added = self.begin_keeping(number, &next, &form)?;
        let changed = self.check_rows(number, &added, &form);
        let changed = changed.and_then(|()| self.convert(number, form, true));
        let mut changes = shared.changing.lock();
        changes.forms.retain(|change| change.before != number);
        shared.publish_plans(&changes)?;
        changed
    }

    /// Has transactions that begin from now on keep the constraints that a table gets. Returns the
    /// names of foreign keys that it does not have yet.
    fn begin_keeping(
        &self,
        number: usize,
        next: &TableDescription,
        form: &NewForm<'_>,
    ) -> Result<Vec<String>> {
        let shared: &DatabaseShared = &self.shared;
        let before = &shared.tables()[number];
        if !next.constraints().identities.is_empty() {
            self.check_sequences()?;
        }
        let as_it_will_be = |(other, table)| if other == number { (other, next) } else { (other, table) };
        let forms: Vec<_> = shared.present().map(as_it_will_be).map(TableForm::of).collect();
        Plans::of(&forms, shared.faults)?;
        // Foreign keys that are added are kept in the form that rows have while they change.
        let mut all = before.constraints().clone();
        let is_new = |key: &&ForeignKey| !before.constraints().foreign_keys.contains(key);
        let added: Vec<_> = next.constraints().foreign_keys.iter().filter(is_new).cloned().collect();
        let names = added.iter().map(|key| key.name.clone()).collect();
        all.foreign_keys.retain(|own| added.iter().all(|key| key.name != own.name));
        all.foreign_keys.extend(added);
        let description = before.clone().with_constraints(all).map_err(|error| {
            Error::not_changed(before.name(), format!("{}: change columns and indexes first", error.fault))
        })?;
        let mut changes = shared.changing.lock();
        if changes.forms.iter().any(|change| change.before == number) {
            return Err(of_change(ChangeError::Busy, before.name()));
        }
        let (next, template) = (next.clone(), form.template.clone());
        let change = FormChange { before: number, description, after: None, next, template, counts: false };
        changes.forms.push(change);
        if let Err(error) = shared.publish_plans(&changes) {
            changes.forms.pop();
            return Err(error);
        }
        Ok(names)
    }

    /// Waits for transactions that do not know of the constraints that a table gets, and checks
    /// that the rows to which its rows refer by these foreign keys are there. The engine checks the
    /// other constraints of each row when the row changes its form.
    fn check_rows(&self, number: usize, added: &[String], form: &NewForm<'_>) -> Result<()> {
        let (shared, c): (&DatabaseShared, _) = (&self.shared, Hardware::core());
        let name = shared.tables()[number].name();
        let until = form.patience.map(|time| Nanos(Hardware::now(c).0.saturating_add(nanos(time))));
        let mut waiting = shared.inner.session(c, None, false)?;
        if !waiting.await_earlier(until) {
            return Err(of_change(ChangeError::Waits, name));
        }
        drop(waiting);
        if added.is_empty() {
            return Ok(());
        }
        let (mut session, mut after) = (self.session()?, None);
        loop {
            if is_cancelled(form.cancel.as_ref()) {
                return Err(Error::Cancelled);
            }
            let checked = session.transaction(|t| t.check_referring_rows(name, added, after.as_deref()));
            match checked {
                Ok(Some(last)) => after = Some(last),
                Ok(None) => return Ok(()),
                Err(error @ Error::Constraint { .. }) => {
                    return Err(Error::not_changed(name, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Has the engine give a table another form; returns its number.
    fn convert(&self, number: usize, form: NewForm<'_>, is_constrained: bool) -> Result<usize> {
        let shared: &DatabaseShared = &self.shared;
        let NewForm { schema, template, patience, cancel, mut on_progress } = form;
        let follow = |after: usize, counts: bool| {
            if !is_constrained {
                return true;
            }
            let mut changes = shared.changing.lock();
            if let Some(change) = changes.forms.iter_mut().find(|change| change.before == number) {
                (change.after, change.counts) = (Some(after), counts);
            }
            shared.publish_plans(&changes).is_ok()
        };
        let watch = &mut |step: ChangeStep| {
            let mut goes_on = true;
            match step {
                ChangeStep::Made { table } => {
                    shared.presences.set(table, Presence::Filling);
                    goes_on = follow(table, false);
                }
                ChangeStep::Waits => {}
                ChangeStep::Rows { rows } => {
                    if let Some(listener) = &mut on_progress {
                        listener(rows);
                    }
                }
                ChangeStep::Counts { before, after } => {
                    goes_on = follow(after, true);
                    shared.presences.set(after, Presence::Present);
                    shared.presences.set(before, Presence::Changed);
                }
            }
            goes_on && !is_cancelled(cancel.as_ref())
        };
        let mut session = shared.inner.session(Hardware::core(), None, false)?;
        let patience_nanos = patience.map(nanos);
        let change = boundary::TableChange { schema, template, patience_nanos, watch };
        let name = shared.tables()[number].name();
        session.change_table(number, change).map_err(|error| of_change(error, name))
    }
}

/// The form that a table gets, and how.
struct NewForm<'c> {
    schema: SchemaBuilder,
    template: Option<(Vec<u8>, Vec<u8>)>,
    patience: Option<Duration>,
    cancel: Option<CancelToken>,
    on_progress: Option<Box<dyn FnMut(u64) + 'c>>,
}
