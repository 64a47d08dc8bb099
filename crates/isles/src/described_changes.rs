//! Verbs that change rows without a Rust type.

use platform::Intent;
use schema::{Datum, RowBytes, RowId, TableDescription, key_words};

use crate::attempt::{Transaction, image, part_of};
use crate::error::{Error, Result};
use crate::table::Table;

impl<'t> Transaction<'t> {
    /// Inserts a row with values for some of its columns, and returns it as it was inserted: all
    /// other columns get their default, a number of their sequence, or null.
    ///
    /// Errors: as [`Self::insert_dynamic`]; [`Error::Row`] for a column without a value that has no
    /// default; [`Error::SequenceEnd`].
    ///
    /// ```
    /// use isles::{ColumnDescription, Constraints, Database, Datum, Expression, TableBuilder, ValueType};
    ///
    /// let column = ColumnDescription::new;
    /// let orders = TableBuilder::new("orders")
    ///     .column(column("id", ValueType::Signed(8)))
    ///     .column(column("amount", ValueType::Signed(4)))
    ///     .column(column("price", ValueType::Signed(8)))
    ///     .column(column("total", ValueType::Signed(8)))
    ///     .key(["id"])
    ///     .constraints(
    ///         Constraints::new()
    ///             .identity("id", "order ids")
    ///             .default_value("amount", 1)
    ///             .generated("total", Expression::column("amount") * Expression::column("price")),
    ///     )
    ///     .build()?;
    /// let mut builder = Database::in_memory();
    /// builder.described_table(orders);
    /// let database = builder.open()?;
    /// let row = database.transaction(|t| t.insert_columns("orders", &[("price", Datum::Signed(7))]))?;
    /// assert_eq!(row, [1, 1, 7, 7].map(Datum::Signed));
    ///
    /// let doubled = [1, 2, 7, 0].map(Datum::Signed);
    /// database.transaction(|t| t.update_dynamic("orders", &doubled[..1], &doubled))?;
    /// let row = database.transaction(|t| t.get_dynamic("orders", &doubled[..1]))?.expect("it is there");
    /// assert_eq!(row[3], Datum::Signed(14));
    /// assert!(database.transaction(|t| t.delete_dynamic("orders", &doubled[..1]))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_columns(&mut self, table: &str, columns: &[(&str, Datum)]) -> Result<Vec<Datum>> {
        let (number, table) = self.described(table)?;
        let mut values = vec![None; table.columns().len()];
        for (name, value) in columns {
            let place = table.column(name).ok_or_else(|| {
                Error::NoSuchTable(format!("table {} has no column {name:?}", table.name()))
            })?;
            values[place] = Some(value.clone());
        }
        for (column, sequence) in self.plan(number).map_or(&[][..], |plan| &plan.identities) {
            if values[*column].is_none() {
                values[*column] = Some(Datum::Signed(self.next_number(sequence)?));
            }
        }
        let generated = &table.constraints().generated;
        let values = values.into_iter().enumerate().map(|(column, value)| {
            let is_generated = || generated.iter().any(|(name, _)| *name == table.columns()[column].name);
            let value = value.or_else(|| table.default_of(column));
            // What a generated column has before it is computed does not count.
            value.unwrap_or_else(|| {
                if is_generated() { table.columns()[column].empty_value() } else { Datum::Null }
            })
        });
        let mut row = RowBytes::default();
        table.encode_row(&values.collect::<Vec<_>>(), &mut row).map_err(Error::Row)?;
        let row = self.insert_described(number, table, row)?;
        table.decode_row(&row.fixed, &row.tail).map_err(Error::Row)
    }

    /// Returns the next number of a sequence.
    pub(crate) fn next_number(&self, sequence: &str) -> Result<i64> {
        let next = self.shared.numbers.get();
        next.ok_or(Error::Misuse("an instance of a deployment has no sequences"))?(sequence)
    }

    /// Inserts a row; returns it as it was inserted.
    pub(crate) fn insert_described(
        &mut self,
        number: usize,
        table: &TableDescription,
        row: RowBytes,
    ) -> Result<RowBytes> {
        if let Some(plan) = self.plan(number) {
            return self.insert_kept(plan, row);
        }
        let keys = table.words_of(&row.keys);
        self.check_share(number, Some(part_of(keys[0])), Intent::Write)?;
        let inserted = self.verbs.insert(number, &keys, &row.fixed, &row.tail);
        self.check_written(inserted, &row)?;
        Ok(row)
    }

    /// Finds the row with this primary key, to change it.
    fn find_described(&mut self, name: &str, key: &[Datum]) -> Result<Found<'t>> {
        let (number, table) = self.described(name)?;
        let key = table.encode_key(0, key).map_err(Error::Row)?;
        let words = key.words(key_words(table.indexes()[0].key_bits));
        self.check_share(number, Some(part_of(words)), Intent::Write)?;
        let found = self.verbs.find(number, 0, words, Intent::Write);
        Ok(Found { number, table, row: self.check(found)? })
    }

    /// Replaces the row with this primary key by one of these values, one for each column; the key
    /// may change too. Returns false if there is no such row.
    ///
    /// Errors: as [`Self::insert_dynamic`].
    ///
    /// [`Self::insert_columns`] has an example.
    pub fn update_dynamic(&mut self, table: &str, key: &[Datum], values: &[Datum]) -> Result<bool> {
        let Found { number, table, row } = self.find_described(table, key)?;
        let mut new = RowBytes::default();
        table.encode_row(values, &mut new).map_err(Error::Row)?;
        let Some(found) = row else { return Ok(false) };
        let old = self.read_bytes(table, found)?;
        if let Some(plan) = self.plan(number) {
            return self.rewrite_kept(plan, found, old, new).map(|()| true);
        }
        let (before, after) = (table.words_of(&old.keys), table.words_of(&new.keys));
        self.check_share(number, Some(part_of(after[0])), Intent::Write)?;
        let replaced = self.verbs.replace(found, &before, &after, &new.fixed, &new.tail);
        self.check_written(replaced, &new)?;
        Ok(true)
    }

    /// Deletes the row with this primary key. Returns false if there is no such row.
    ///
    /// Errors: as [`Self::get_dynamic`].
    ///
    /// [`Self::insert_columns`] has an example.
    pub fn delete_dynamic(&mut self, table: &str, key: &[Datum]) -> Result<bool> {
        let Found { number, table, row } = self.find_described(table, key)?;
        let Some(found) = row else { return Ok(false) };
        let old = self.read_bytes(table, found)?;
        if let Some(plan) = self.plan(number) {
            return self.delete_kept(plan, found, old).map(|()| true);
        }
        let deleted = self.verbs.delete(found, &table.words_of(&old.keys));
        self.check(deleted)?;
        Ok(true)
    }

    fn read_bytes(&mut self, table: &TableDescription, found: RowId) -> Result<RowBytes> {
        let (fixed, tail) = self.read_image(table, found)?;
        let keys = (0..table.indexes().len()).map(|index| table.key_of(index, &fixed, &tail)).collect();
        Ok(RowBytes { fixed, tail, keys })
    }

    /// Inserts a row whose identities get numbers of their sequences, and returns it as it was
    /// inserted, with its generated columns.
    ///
    /// Errors: as [`Self::insert`]; [`Error::SequenceEnd`].
    ///
    /// ```
    /// use isles::{Constraints, Database, Row, TableOptions};
    ///
    /// #[derive(Row, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Order { id: i64, item: u32 }
    ///
    /// let mut builder = Database::in_memory();
    /// let options = TableOptions::new().constraints(Constraints::new().identity("id", "order ids"));
    /// let orders = builder.table_with::<Order>("orders", options);
    /// let database = builder.open()?;
    /// let first = database.transaction(|t| t.insert_returning(orders, &Order { id: 0, item: 7 }))?;
    /// assert_eq!(first, Order { id: 1, item: 7 });
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn insert_returning<R: schema::Row>(&mut self, table: Table<R>, row: &R) -> Result<R> {
        self.enter(table)?;
        let number = table.inner.number();
        let Some(plan) = self.plan(number) else {
            self.insert_row(table, row)?;
            let RowBytes { fixed, tail, .. } = image(row);
            return Ok(R::fetch(&fixed, &tail));
        };
        let mut row = image(row);
        if !plan.identities.is_empty() {
            let mut values = plan.description.decode_row(&row.fixed, &row.tail).map_err(Error::Row)?;
            for (column, sequence) in &plan.identities {
                values[*column] = Datum::Signed(self.next_number(sequence)?);
            }
            plan.description.encode_row(&values, &mut row).map_err(Error::Row)?;
        }
        let row = self.insert_kept(plan, row)?;
        Ok(R::fetch(&row.fixed, &row.tail))
    }
}

/// A row that was looked up.
struct Found<'t> {
    number: usize,
    table: &'t TableDescription,
    row: Option<RowId>,
}
