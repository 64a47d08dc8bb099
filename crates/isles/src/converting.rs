//! Changes of a table's columns and indexes while the database is open.

use std::time::Duration;

use boundary::{ChangeStep, SchemaBuilder};
use platform::Hardware;
use schema::Row;

use crate::changing::of_change;
use crate::database::Database;
use crate::durable_wait::nanos;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::options::{CancelToken, is_cancelled};
use crate::shared::{DatabaseShared, Presence};
use crate::table::{Table, TableOptions};

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
    /// rows of this type, nothing happens, so a program may call this method at every start.
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
    /// two rows have the same key in a new unique index, or if earlier transactions do not end in
    /// time ([`TableChange::wait`]); [`Error::Cancelled`]; [`Error::Declaration`] and
    /// [`Error::OutOfMemory`], as [`Self::create_table`]; [`Error::NotDurable`] if a file operation
    /// failed: the table is then unchanged, except that the next opening may find it in either form
    /// if the log has stopped; [`Error::TooManySessions`]; [`Error::Nested`] inside a transaction;
    /// [`Error::Misuse`] in an instance of a deployment, and if rows lie in pages.
    ///
    /// [`TableChange`] has an example.
    pub fn change_table<R: Row>(&self, name: &str, change: TableChange<'_, R>) -> Result<Table<R>> {
        self.check_changeable()?;
        let number = self.shared.table_number(name)?;
        let handle = |number| Table { inner: schema::Table::new(number), database: self.shared.id };
        if self.shared.tables()[number].difference_to::<R>().is_none() {
            return Ok(handle(number));
        }
        let TableChange { options, template, patience, cancel, mut on_progress } = change;
        let mut schema = SchemaBuilder::new();
        schema.declare_rows::<R>(name, &options.into_engine())?;
        let shared: &DatabaseShared = &self.shared;
        let watch = &mut |step: ChangeStep| {
            match step {
                ChangeStep::Made { table } => shared.set_presence(table, Presence::Filling),
                ChangeStep::Waits => {}
                ChangeStep::Rows { rows } => {
                    if let Some(listener) = &mut on_progress {
                        listener(rows);
                    }
                }
                ChangeStep::Counts { before, after } => {
                    shared.set_presence(after, Presence::Present);
                    shared.set_presence(before, Presence::Changed);
                }
            }
            !is_cancelled(cancel.as_ref())
        };
        let mut session = shared.inner.session(Hardware::core(), None, false)?;
        let patience_nanos = patience.map(nanos);
        let change = boundary::TableChange { schema, template, patience_nanos, watch };
        session.change_table(number, change).map(handle).map_err(|error| of_change(error, name))
    }
}
