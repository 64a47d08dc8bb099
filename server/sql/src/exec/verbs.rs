//! Verbs over the rows of a table. Each is followed by a look at whether the table is still as the
//! statement was bound to it.

use isles::{Datum, DescribedScan};

use crate::error::{Result, SqlError, state};
use crate::exec::{Exec, Row};
use crate::schema::Table;

impl Exec<'_, '_> {
    /// Reads the next rows of a range.
    pub fn next_rows(&mut self, table: &Table, scan: &mut DescribedScan, rows: usize) -> Result<Vec<Row>> {
        let rows = self.transaction.next_described(scan, rows)?;
        self.check_table(table)?;
        Ok(rows)
    }

    /// Returns the row of a primary key.
    pub fn row(&mut self, table: &Table, key: &[Datum]) -> Result<Option<Row>> {
        let row = self.transaction.get_dynamic(&table.engine, key)?;
        self.check_table(table)?;
        Ok(row)
    }

    /// Inserts a row.
    pub fn insert(&mut self, table: &Table, row: &[Datum]) -> Result<()> {
        self.transaction.insert_dynamic(&table.engine, row)?;
        self.check_table(table)
    }

    /// Replaces the row of a primary key.
    pub fn update(&mut self, table: &Table, key: &[Datum], row: &[Datum]) -> Result<()> {
        self.transaction.update_dynamic(&table.engine, key, row)?;
        self.check_table(table)
    }

    /// Deletes the row of a primary key; false if there is none.
    pub fn delete(&mut self, table: &Table, key: &[Datum]) -> Result<bool> {
        let deleted = self.transaction.delete_dynamic(&table.engine, key)?;
        self.check_table(table)?;
        Ok(deleted)
    }

    /// Fails if another transaction has changed the table since the statement began.
    #[inline]
    fn check_table(&mut self, table: &Table) -> Result<()> {
        if self.context.shared.current() == self.context.seen { Ok(()) } else { self.compare(table) }
    }

    #[cold]
    fn compare(&mut self, table: &Table) -> Result<()> {
        let now = self.context.shared.get();
        if now.tables.get(&table.name).is_some_and(|now| now.is_like(table)) {
            return Ok(());
        }
        let message = format!("table \"{}\" was changed by another transaction", table.name);
        let error = SqlError::new(state::SERIALIZATION, message);
        Err(SqlError { is_conflict: true, ..error }.hint("The transaction might succeed if retried."))
    }
}
