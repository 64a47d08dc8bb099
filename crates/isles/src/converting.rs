//! Tables whose rows get another form, or that get other indexes, while their database is open.

use std::time::Duration;

use boundary::{ChangeStep, SchemaBuilder};
use concurrency::TooManySessions;
use platform::Hardware;
use schema::Row;

use crate::changing::of_change;
use crate::database::Database;
use crate::durably::nanos;
use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};
use crate::shared::{Presence, Shared};
use crate::table::{Table, TableOptions};

/// How long [`Database::change_table`] waits for transactions that began before, unless told
/// otherwise.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(60);

/// How [`Database::change_table`] gives a table rows of type `R`.
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
    /// A row: fixed part and tail.
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
    /// Ordered indexes; no values in new columns; a minute for transactions that began before.
    ///
    /// [`TableChange`] has an example.
    pub fn new() -> Self {
        TableChange::default()
    }

    /// Existing rows get the values of this row in new columns. Without it they get no value, which
    /// the columns must allow (`Option`).
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn new_columns_of(mut self, row: &R) -> Self {
        let mut fixed = vec![0; R::BYTES];
        row.store(&mut fixed);
        self.template = Some((fixed, row.tail().into_owned()));
        self
    }

    /// How the table is made: see [`TableOptions`], which has an example.
    #[must_use]
    pub fn options(mut self, options: TableOptions<R>) -> Self {
        self.options = options;
        self
    }

    /// How long transactions are waited for that began before the change.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.patience = Some(time);
        self
    }

    /// A token that ends the change, as long as the table has its old form: then it stays so.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Hears how many rows have the new form, every few rows. The thread that changes the table
    /// calls it.
    ///
    /// [`TableChange`] has an example.
    #[must_use]
    pub fn on_progress(mut self, listener: impl FnMut(u64) + 'c) -> Self {
        self.on_progress = Some(Box::new(listener));
        self
    }
}

impl Database {
    /// Gives a table rows of type `R` while the database is in use: with columns that are added or
    /// gone, in another order, and with other indexes. Columns are known by their names. The
    /// primary key stays as it is, and so does the type of each column. When this returns, the
    /// change is on disk, in a directory; a crash before leaves the table as it was. If the table
    /// has rows of this type, nothing happens: a program may call this whenever it starts.
    ///
    /// Sessions go on meanwhile. Until the change is complete transactions use the table by the
    /// handles that they have, and those that have begun go on so to their end; in transactions
    /// that begin later such handles give [`Error::NoSuchTable`], and [`Self::table`] gives one for
    /// the new rows. A transaction that uses it and has begun before conflicts, and is tried again.
    /// A transaction that uses the table while it changes does everything twice. If it makes two
    /// rows with one key in a new unique index, it gets [`Error::Duplicate`], as if the index were
    /// there. Rows are copied: the table takes its memory twice until those that it had are gone,
    /// and one of the places for further tables
    /// ([`Builder::spare_tables`](crate::Builder::spare_tables)).
    ///
    /// Errors: [`Error::NoSuchTable`]; [`Error::NotChanged`] if rows cannot get this form, if two
    /// of them have one key in an index that is to be unique, or if transactions that began before
    /// do not end in time ([`TableChange::wait`]); [`Error::Cancelled`]; [`Error::Declaration`] and
    /// [`Error::OutOfMemory`], as [`Self::create_table`]; [`Error::NotDurable`] if the files
    /// refuse: then the table is as it was, but if the log has stopped it may be found in either
    /// form at the next opening; [`Error::TooManySessions`]; [`Error::Nested`] inside a
    /// transaction; [`Error::Misuse`] in an instance of a deployment, and where rows lie in pages.
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
        let shared: &Shared = &self.shared;
        let watch = &mut |step: ChangeStep| {
            match step {
                ChangeStep::Made { table } => shared.set_presence(table, Presence::Coming),
                ChangeStep::Waits => {}
                ChangeStep::Rows { rows } => {
                    if let Some(listener) = &mut on_progress {
                        listener(rows);
                    }
                }
                ChangeStep::Counts { before, after } => {
                    shared.set_presence(after, Presence::There);
                    shared.set_presence(before, Presence::Changed);
                }
            }
            !is_cancelled(cancel.as_ref())
        };
        let limit = |full: TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut session = shared.inner.session(Hardware::core(), None, false).map_err(limit)?;
        let patience_nanos = patience.map(nanos);
        let change = boundary::TableChange { schema, template, patience_nanos, watch };
        session.change_table(number, change).map(handle).map_err(|error| of_change(error, name))
    }
}
