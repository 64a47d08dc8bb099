//! Creation and removal of tables while the database is open.

use boundary::{ChangeError, SchemaBuilder, Swept};
use platform::{Hardware, Platform};
use schema::Row;

use crate::database::Database;
use crate::error::{Cause, Error, Result};
use crate::shared::Presence;
use crate::table::{Table, TableOptions};

/// Longest time that [`Database::drop_table`] waits for earlier transactions. Sessions remove the
/// rows later if the wait was not enough.
const SWEEP_WAIT_NANOS: u64 = 20_000_000;
/// Pause between two checks for such transactions.
const SWEEP_PAUSE_NANOS: u64 = 200_000;

impl Database {
    /// Creates a table with ordered indexes while the database is in use. When the call returns,
    /// the table is durable if the database is, and transactions that begin later can use it in all
    /// sessions. At the next opening the program declares the table like any other
    /// ([`Builder::table`](crate::Builder::table)), or calls
    /// [`Builder::tables_of_directory`](crate::Builder::tables_of_directory).
    ///
    /// Errors: [`Error::Declaration`] for an invalid table, for a name that is taken, or if no
    /// place is left ([`Builder::spare_tables`](crate::Builder::spare_tables));
    /// [`Error::OutOfMemory`]; [`Error::NotDurable`] if a file operation failed: the table then
    /// does not exist, except that the next opening may find an empty table if the log has stopped;
    /// [`Error::TooManySessions`]; [`Error::Nested`] inside a transaction; [`Error::Misuse`] in an
    /// instance of a deployment.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Visit { id: u64, page: u32 }
    ///
    /// let database = Database::in_memory().open()?;
    /// let mut session = database.session()?;
    /// for day in ["monday", "tuesday"] {
    ///     let visits = database.create_table::<Visit>(day)?;
    ///     session.transaction(|t| t.insert(visits, &Visit { id: 1, page: 7 }))?;
    /// }
    /// // One deletion for all rows of a day.
    /// database.drop_table("monday")?;
    /// let names: Vec<_> = database.tables().iter().map(|table| table.name()).collect();
    /// assert_eq!(names, ["tuesday"]);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn create_table<R: Row>(&self, name: &str) -> Result<Table<R>> {
        self.create_table_with(name, TableOptions::new())
    }

    /// As [`Self::create_table`], with options.
    ///
    /// ```
    /// use isles::{Database, Row, TableOptions};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Visit { id: u64, page: u32 }
    ///
    /// let database = Database::in_memory().open()?;
    /// let options = TableOptions::new().hash(Visit::KEY).expected_rows(100_000);
    /// let visits = database.create_table_with::<Visit>("visits", options)?;
    /// database.transaction(|t| t.insert(visits, &Visit { id: 1, page: 7 }))?;
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn create_table_with<R: Row>(&self, name: &str, options: TableOptions<R>) -> Result<Table<R>> {
        self.check_changeable()?;
        let mut schema = SchemaBuilder::new();
        schema.declare_rows::<R>(name, &options.into_engine())?;
        let mut session = self.shared.inner.session(Hardware::core(), None, false)?;
        let number = session.create_table(schema).map_err(|error| of_change(error, name))?;
        // A change of a table that failed may have left this number in another state.
        self.shared.set_presence(number, Presence::Present);
        Ok(Table { inner: schema::Table::new(number), database: self.shared.id })
    }

    /// Drops a table while the database is in use. When the call returns, the table is gone, on
    /// disk too, and its name is free. Transactions that begin later get [`Error::NoSuchTable`].
    /// Earlier transactions may continue to read the table. If they have changed it, their commits
    /// fail with [`Error::Misuse`] in a durable database; in memory they commit, and their changes
    /// are lost with the table.
    ///
    /// The rows are removed at once if no earlier transaction is open. Otherwise sessions remove
    /// them in small steps after the last such transaction has ended. Their memory is reused.
    ///
    /// Errors: [`Error::NoSuchTable`]; [`Error::NotChanged`] while [`Self::change_table`] changes
    /// the table; [`Error::NotDurable`] if a file operation failed: the table and its rows then
    /// still exist, except that the table may be gone at the next opening if the log has stopped;
    /// [`Error::TooManySessions`]; [`Error::Nested`] inside a transaction; [`Error::Misuse`] in an
    /// instance of a deployment, or in a database that was opened without
    /// [`Builder::spare_tables`](crate::Builder::spare_tables). [`Self::create_table`] has an
    /// example.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.check_changeable()?;
        let shared = &*self.shared;
        let number = shared.table_number(name)?;
        if shared.limits.spare_tables == 0 {
            return Err(Error::Misuse(
                "no table is dropped while a database is open that has no spare tables, or whose rows lie in pages",
            ));
        }
        let c = Hardware::core();
        let mut session = shared.inner.session(c, None, false)?;
        // The table may have been dropped or changed in the meantime.
        if !shared.move_presence(number, Presence::Present, Presence::Dropped) {
            return Err(of_change(ChangeError::NoSuchTable, name));
        }
        let dropped = session.drop_table(number);
        if dropped.as_ref().is_err_and(|error| *error != ChangeError::NoSuchTable) {
            shared.move_presence(number, Presence::Dropped, Presence::Present);
        }
        dropped.map_err(|error| of_change(error, name))?;
        let until = Hardware::now(c).plus(SWEEP_WAIT_NANOS);
        loop {
            match session.sweep() {
                Swept::All => return Ok(()),
                Swept::Waits if Hardware::now(c) >= until => return Ok(()),
                Swept::Waits => Hardware::rest(c, SWEEP_PAUSE_NANOS),
                Swept::More => {}
            }
        }
    }

    pub(crate) fn check_changeable(&self) -> Result<()> {
        self.shared.check_outside()?;
        match self.shared.share {
            Some(_) => Err(Error::Misuse("tables of a deployment come and go between openings")),
            None => Ok(()),
        }
    }
}

/// Converts an error of a change of this table.
pub(crate) fn of_change(error: ChangeError, table: &str) -> Error {
    match error {
        ChangeError::Table(error) => error.into(),
        ChangeError::Memory(out) => out.into(),
        ChangeError::NoSuchTable => Error::NoSuchTable(format!("no table {table}: it was dropped meanwhile")),
        ChangeError::Unsupported => {
            Error::Misuse("tables of a database of this kind come and go between openings")
        }
        ChangeError::NoRoom => {
            let reason = "all places for further tables are used: raise `Builder::spare_tables`".to_owned();
            Error::Declaration { table: table.to_owned(), reason }
        }
        ChangeError::Schema(error) => {
            Error::Declaration { table: table.to_owned(), reason: error.to_string() }
        }
        ChangeError::Log(_) => Error::NotDurable(error.to_string()),
        ChangeError::Cancelled => Error::Cancelled,
        ChangeError::Rows(abort) => Error::from_abort(&abort, &[], 1),
        ChangeError::Busy
        | ChangeError::Parts
        | ChangeError::Waits
        | ChangeError::Form { .. }
        | ChangeError::NotUnique { .. } => {
            Error::NotChanged { table: table.to_owned(), source: Cause::new(error) }
        }
    }
}
