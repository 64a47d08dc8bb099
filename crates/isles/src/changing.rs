//! Tables that a program creates and drops while its database is open.

use boundary::{ChangeError, SchemaBuilder, Swept};
use concurrency::TooManySessions;
use platform::{Hardware, Platform};
use schema::Row;

use crate::database::Database;
use crate::error::{Cause, Error, Result};
use crate::shared::Presence;
use crate::table::{Table, TableOptions};

/// How long [`Database::drop_table`] waits for transactions that began before; then sessions see to
/// the rows.
const SWEEP_WAIT_NANOS: u64 = 20_000_000;
/// Between two looks whether they have ended.
const SWEEP_PAUSE_NANOS: u64 = 200_000;

impl Database {
    /// Makes a table while the database is in use, with ordered indexes. When this returns the
    /// table is on disk, in a directory, and transactions that begin from then on can use it, in
    /// all sessions. At a later opening the program declares the table as those that it has
    /// declared before ([`Builder::table`](crate::Builder::table)), or leaves it to
    /// [`Builder::tables_of_directory`](crate::Builder::tables_of_directory).
    ///
    /// Errors: [`Error::Declaration`] for a table that cannot be made, whose name is taken, or for
    /// which there is no place ([`Builder::spare_tables`](crate::Builder::spare_tables));
    /// [`Error::OutOfMemory`]; [`Error::NotDurable`] if the files refuse: then there is no such
    /// table, but if the log has stopped an empty one may be found at the next opening;
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
        let limit = |full: TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut session = self.shared.inner.session(Hardware::core(), None, false).map_err(limit)?;
        let number = session.create_table(schema).map_err(|error| of_change(error, name))?;
        // A table with other rows may have been about to take the number.
        self.shared.set_presence(number, Presence::There);
        Ok(Table { inner: schema::Table::new(number), database: self.shared.id })
    }

    /// Drops a table while the database is in use. When this returns the table is gone, on disk
    /// too, and another one may be created under its name. Transactions that begin from then on get
    /// [`Error::NoSuchTable`] for it. Those that have begun may go on reading the table; if they
    /// have changed it, their commits fail with [`Error::Misuse`] in a directory, and in memory
    /// they commit, and what they have changed goes with the table.
    ///
    /// The rows go at once if no transaction is open that began before, or else little by little,
    /// by sessions that run transactions, when none is any more. Their memory is used again.
    ///
    /// Errors: [`Error::NoSuchTable`]; [`Error::NotChanged`] while the table gets other rows
    /// ([`Self::change_table`]); [`Error::NotDurable`] if the files refuse: then the table is there
    /// with its rows as before, but if the log has stopped it may be gone at the next opening;
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
        let limit = |full: TooManySessions| Error::TooManySessions { limit: full.0 };
        let c = Hardware::core();
        let mut session = shared.inner.session(c, None, false).map_err(limit)?;
        // It may have been dropped since, or have got other rows.
        if !shared.move_presence(number, Presence::There, Presence::Dropped) {
            return Err(of_change(ChangeError::NoSuchTable, name));
        }
        let dropped = session.drop_table(number);
        if dropped.as_ref().is_err_and(|error| *error != ChangeError::NoSuchTable) {
            shared.move_presence(number, Presence::Dropped, Presence::There);
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

/// The obstacle to a change of this table.
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
