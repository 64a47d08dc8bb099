//! Creation and removal of tables while the database is open.

use boundary::{ChangeError, SchemaBuilder, Swept};
use platform::{Hardware, Platform};
use schema::{Row, TableDescription};

use crate::database::Database;
use crate::error::{Cause, Error, Result};
use crate::plans::check_ordered;
use crate::table::{Table, TableOptions};
use crate::table_locks::Presence;

/// Longest time that [`Database::drop_table`] waits for earlier transactions. Sessions remove the
/// rows later if the wait was not enough.
const SWEEP_WAIT_NANOS: u64 = 20_000_000;
/// Longest wait for transactions that do not know of the constraints of a new table.
const PATIENCE_NANOS: u64 = 60_000_000_000;
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
        let options = options.into_engine();
        schema.declare_rows::<R>(name, &options)?;
        schema.descriptions().try_for_each(|table| check_ordered(table, &options.kinds))?;
        let number = self.add_table(schema, name)?;
        Ok(Table { inner: schema::Table::new(number), database: self.shared.id })
    }

    /// As [`Self::create_table`], for a table without a row type, which has ordered indexes.
    ///
    /// ```
    /// use isles::{ColumnDescription, Constraints, Database, Datum, Expression, TableBuilder, ValueType};
    ///
    /// let database = Database::in_memory().open()?;
    /// let constraints = Constraints::new().check("positive", Expression::column("id").more(0));
    /// let visits = TableBuilder::new("visits")
    ///     .column(ColumnDescription::new("id", ValueType::Signed(8)))
    ///     .key(["id"])
    ///     .constraints(constraints)
    ///     .build()?;
    /// database.create_described_table(visits)?;
    /// let refused = database.transaction(|t| t.insert_dynamic("visits", &[Datum::Signed(0)]));
    /// assert!(refused.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_described_table(&self, table: TableDescription) -> Result<()> {
        self.check_changeable()?;
        let (name, mut schema) = (table.name().to_owned(), SchemaBuilder::new());
        schema.declare(table, &schema::TableOptions::default())?;
        self.add_table(schema, &name).map(drop)
    }

    /// Creates the table that the schema declares; returns its number.
    fn add_table(&self, schema: SchemaBuilder, name: &str) -> Result<usize> {
        let shared = &*self.shared;
        let _turn = shared.turn_to_change(name)?;
        let declared = schema.descriptions().next().cloned();
        let constrained = declared.filter(|table| !table.constraints().is_empty());
        if let Some(table) = &constrained {
            self.check_new(table)?;
        }
        let c = Hardware::core();
        let mut session = shared.inner.session(c, None, false)?;
        let number = session.create_table(schema).map_err(|error| of_change(error, name))?;
        if constrained.is_some() {
            let kept = self.keep_constraints_of(number);
            let until = Hardware::now(c).plus(PATIENCE_NANOS);
            // Transactions that began before do not know of the constraints.
            let kept = kept.and_then(|()| match session.await_earlier(Some(until)) {
                true => Ok(()),
                false => Err(of_change(ChangeError::Waits, name)),
            });
            let mut changes = shared.changing.lock();
            changes.created.retain(|created| *created != number);
            if let Err(error) = kept {
                // No transaction has used the table.
                let _ = session.drop_table(number);
                shared.publish_plans(&changes)?;
                return Err(error);
            }
        }
        shared.presences.set(number, Presence::Present);
        Ok(number)
    }

    /// Checks the constraints of a table that is to be created.
    fn check_new(&self, table: &TableDescription) -> Result<()> {
        let shared = &*self.shared;
        let changes = shared.changing.lock();
        let next = shared.tables().len();
        changes.plans(shared.present().chain([(next, table)]), shared.tables(), shared.faults)?;
        match table.constraints().identities.is_empty() {
            true => Ok(()),
            false => self.check_sequences(),
        }
    }

    /// Has transactions that begin from now on keep the constraints of a new table.
    fn keep_constraints_of(&self, number: usize) -> Result<()> {
        let mut changes = self.shared.changing.lock();
        changes.created.push(number);
        self.shared.publish_plans(&changes)
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
        let _turn = shared.turn_to_change(name)?;
        let c = Hardware::core();
        let mut session = shared.inner.session(c, None, false)?;
        let changes = shared.changing.lock();
        let mut others =
            shared.present().chain(changes.created.iter().map(|new| (*new, &shared.tables()[*new])));
        let refers = |(other, table): &(usize, &TableDescription)| {
            *other != number && table.constraints().foreign_keys.iter().any(|key| key.table == name)
        };
        if let Some((_, other)) = others.find(refers) {
            let why =
                format!("rows of table {} refer to its rows: drop that constraint before", other.name());
            return Err(Error::not_changed(name, why));
        }
        // The table may have been dropped or changed in the meantime.
        let from = shared.presences.get(number);
        if !from.is_there() || !shared.presences.replace(number, from, Presence::Dropped) {
            return Err(of_change(ChangeError::NoSuchTable, name));
        }
        drop(changes);
        let dropped = session.drop_table(number);
        if dropped.as_ref().is_err_and(|error| *error != ChangeError::NoSuchTable) {
            shared.presences.replace(number, Presence::Dropped, Presence::Present);
        }
        dropped.map_err(|error| of_change(error, name))?;
        if shared.plans.current().is_some() {
            shared.publish_plans(&shared.changing.lock())?;
        }
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
