//! Verbs over rows without a Rust type, for tools and for programs that find out about tables at
//! run time.

use boundary::{AnyVerbs, Direction, Span};
use platform::Intent;
use schema::{Datum, RowBytes, RowId, TableDescription, key_words};
use terms::rows::{KeyBounds, TableIndex};

use crate::attempt::{Transaction, part_of, part_range};
use crate::error::{Error, Result};

impl<'t> Transaction<'t> {
    /// Returns the row with this primary key as one value for each column, in the order of
    /// [`crate::Database::tables`]. `None` if there is no such row.
    ///
    /// Errors: [`Error::NoSuchTable`]; [`Error::Row`] if the values do not form a key of the table.
    /// The transaction continues after these two errors.
    ///
    /// ```
    /// use isles::{Database, Datum, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64, owner: String }
    ///
    /// let mut builder = Database::in_memory();
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: -5, owner: "ada".into() }))?;
    ///
    /// let names: Vec<_> = database.tables()[0].columns().iter().map(|column| column.name.as_str()).collect();
    /// assert_eq!(names, ["id", "balance", "owner"]);
    /// let row = database.transaction(|t| t.get_dynamic("accounts", &[Datum::Unsigned(1)]))?;
    /// assert_eq!(row, Some(vec![Datum::Unsigned(1), Datum::Signed(-5), Datum::Text("ada".into())]));
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn get_dynamic(&mut self, table: &str, key: &[Datum]) -> Result<Option<Vec<Datum>>> {
        let (number, table) = self.described(table)?;
        let key = table.encode_key(0, key).map_err(Error::Row)?;
        let words = key.words(key_words(table.indexes()[0].key_bits));
        self.check_share(number, Some(part_of(words)), Intent::Read)?;
        let found = self.verbs.find(number, 0, words, Intent::Read);
        match self.check(found)? {
            None => Ok(None),
            Some(found) => self.read_described(table, found).map(Some),
        }
    }

    /// Inserts a row given as one value for each column.
    ///
    /// Errors: as [`Self::insert`]; [`Error::NoSuchTable`]; [`Error::Row`] if the values do not
    /// form a row of the table. The transaction continues after the last two errors.
    ///
    /// [`Self::get_dynamic`] has an example.
    pub fn insert_dynamic(&mut self, table: &str, values: &[Datum]) -> Result<()> {
        let (number, table) = self.described(table)?;
        let mut row = RowBytes::default();
        table.encode_row(values, &mut row).map_err(Error::Row)?;
        self.insert_described(number, table, row).map(drop)
    }

    /// Returns all rows of a table as values, in the order of the primary key. In a step of a
    /// procedure it returns the rows of the step's part. If the primary key is a hash index, the
    /// call returns [`Error::Misuse`].
    ///
    /// Errors: [`Error::NoSuchTable`].
    ///
    /// [`Self::get_dynamic`] has an example.
    pub fn scan_dynamic(&mut self, table: &str) -> Result<Vec<Vec<Datum>>> {
        self.scan_dynamic_after(table, None, usize::MAX)
    }

    /// Returns up to `rows` rows of a table as values, in the order of the primary key, beginning
    /// with the first row behind the primary key `after`, or with the first row of the table. A
    /// program can thus read a table of any size, some rows in each transaction.
    ///
    /// Errors: as [`Self::scan_dynamic`]; [`Error::Row`] if the values do not form a key of the
    /// table.
    ///
    /// ```
    /// use isles::{Database, Datum, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: i32, balance: i64 }
    ///
    /// let mut builder = Database::in_memory();
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert_all(accounts, (-5..5).map(|id| Account { id, balance: 0 })))?;
    /// let first = database.transaction(|t| t.scan_dynamic_after("accounts", None, 7))?;
    /// let rest = database.transaction(|t| t.scan_dynamic_after("accounts", Some(&first[6][..1]), 7))?;
    /// assert_eq!((first.len(), rest.len(), &rest[0][0]), (7, 3, &Datum::Signed(2)));
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn scan_dynamic_after(
        &mut self,
        table: &str,
        after: Option<&[Datum]>,
        rows: usize,
    ) -> Result<Vec<Vec<Datum>>> {
        let (number, described) = self.described(table)?;
        let words = key_words(described.indexes()[0].key_bits);
        let mut low = vec![0; words];
        if let Some(after) = after {
            let key = described.encode_key(0, after).map_err(Error::Row)?;
            low.clear();
            key.append_words(words, &mut low);
            if !step(&mut low) {
                return Ok(Vec::new());
            }
        }
        self.scan_rows(number, described, low, rows)
    }

    /// Returns rows from a normalized key on.
    fn scan_rows(
        &mut self,
        number: usize,
        table: &TableDescription,
        mut low: Vec<u64>,
        rows: usize,
    ) -> Result<Vec<Vec<Datum>>> {
        self.check_share(number, self.step_part(), Intent::Read)?;
        let mut high = vec![u64::MAX; low.len()];
        let is_divided = self.shared.share.as_ref().is_some_and(|share| !share.is_copied(number));
        if let Some(part) = self.step_part().filter(|_| is_divided) {
            // A step sees its own part only, even if the instance has other parts.
            let [first, last] = part_range(part);
            if low[0] < first {
                low.fill(0);
                low[0] = first;
            }
            high[0] = last;
        }
        if low > high {
            return Ok(Vec::new());
        }
        let at = TableIndex { table: number, index: 0 };
        let range = KeyBounds { low: &low, high: &high };
        let found = self.find_rows(at, range, (Direction::Forward, Intent::Read), rows)?;
        found.into_iter().map(|row| self.read_described(table, row)).collect()
    }

    /// Finds the first rows of a range of an index, at most `rows`.
    pub(crate) fn find_rows(
        &mut self,
        at: TableIndex,
        range: KeyBounds<'_>,
        (direction, intent): (Direction, Intent),
        rows: usize,
    ) -> Result<Vec<RowId>> {
        let mut found = Vec::new();
        if rows > 0 {
            let visit = &mut |_: &mut dyn AnyVerbs, row| {
                found.push(row);
                Ok(found.len() < rows)
            };
            let scanned = self.verbs.scan(at.table, at.index, range, direction, intent, visit);
            self.check(scanned)?;
        }
        Ok(found)
    }

    /// Returns a table by its name, unless the attempt has ended.
    pub(crate) fn described(&mut self, name: &str) -> Result<(usize, &'t TableDescription)> {
        self.check_running()?;
        loop {
            let Some(number) = self.number_of(name) else {
                if self.await_table_commit() {
                    continue;
                }
                return Err(self.shared.no_table(name));
            };
            if self.shared.is_absent(number) {
                match self.check_presence(number) {
                    // Another table has taken its place meanwhile.
                    Err(Error::NoSuchTable(_)) if self.number_of(name) != Some(number) => continue,
                    checked => checked?,
                }
            }
            return Ok((number, &self.shared.tables()[number]));
        }
    }

    pub(crate) fn read_described(&mut self, table: &TableDescription, found: RowId) -> Result<Vec<Datum>> {
        let (fixed, tail) = self.read_image(table, found)?;
        table.decode_row(&fixed, &tail).map_err(Error::Row)
    }

    /// Reads the bytes of a row.
    pub(crate) fn read_image(
        &mut self,
        table: &TableDescription,
        found: RowId,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut words = vec![0; table.row_bytes() / 8];
        let mut tail = Vec::new();
        let mut read = self.verbs.read(found, Span { offset: 0, bytes: table.row_bytes() }, &mut words);
        if table.has_tail() && read.is_ok() {
            read = self.verbs.read_tail(found, &mut tail);
        }
        self.check(read)?;
        Ok((bytemuck::cast_slice(&words).to_vec(), tail))
    }
}

/// Advances a normalized key to the next one. Returns false after the last key.
pub(crate) fn step(key: &mut [u64]) -> bool {
    key.iter_mut().rev().any(|word| {
        *word = word.wrapping_add(1);
        *word != 0
    })
}
