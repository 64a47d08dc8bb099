//! Ranges of rows without a Rust type, by any index, read in steps.

use std::ops::Bound;

use boundary::Direction;
use platform::Intent;
use schema::{AnyKey, Datum, TableDescription, key_words};
use terms::rows::{KeyBounds, TableIndex};

use crate::attempt::{Transaction, part_of};
use crate::error::{Error, Result};
use crate::range::NormalizedRange;

/// A range of the rows of a table without a row type, in the order of one of its indexes. The value
/// is a place in the range: [`Transaction::next_described`] reads the next rows and moves on.
///
/// The range is protected as far as it was read: no row can appear, change or vanish there before
/// the transaction commits. A range of one complete key of a unique index is a lookup.
///
/// ```
/// use isles::{Database, Datum, DescribedScan, Row};
/// use std::ops::Bound;
///
/// #[derive(Row)]
/// #[row(key(id), index(by_city(city)))]
/// struct Person { id: u32, city: u16 }
///
/// let mut builder = Database::in_memory();
/// let people = builder.table::<Person>("people");
/// let database = builder.open()?;
/// database.transaction(|t| t.insert_all(people, (0..40).map(|id| Person { id, city: id as u16 % 4 })))?;
///
/// let city = || Bound::Included(vec![Datum::Unsigned(3)]);
/// let ids = database.transaction(|t| {
///     let mut scan = DescribedScan::new("people", 1).low(city()).high(city()).reverse();
///     let mut ids = Vec::new();
///     loop {
///         let rows = t.next_described(&mut scan, 4)?;
///         if rows.is_empty() {
///             return Ok(ids);
///         }
///         ids.extend(rows.into_iter().map(|row| row[0].clone()));
///     }
/// })?;
/// assert_eq!(ids.len(), 10);
/// assert_eq!(ids[..2], [Datum::Unsigned(39), Datum::Unsigned(35)]);
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DescribedScan {
    table: String,
    index: usize,
    low: Bound<Vec<Datum>>,
    high: Bound<Vec<Datum>>,
    direction: Direction,
    intent: Intent,
    rest: Rest,
}

/// The part of a range that was not read.
#[derive(Clone, Debug)]
enum Rest {
    /// All of it.
    All,
    /// These keys.
    Keys(NormalizedRange),
    /// Nothing.
    Nothing,
}

impl DescribedScan {
    /// Returns the range of all rows, in the order of index number `index` of the table's
    /// description; 0 is the primary key.
    ///
    /// [`DescribedScan`] has an example.
    pub fn new(table: impl Into<String>, index: usize) -> Self {
        DescribedScan {
            table: table.into(),
            index,
            low: Bound::Unbounded,
            high: Bound::Unbounded,
            direction: Direction::Forward,
            intent: Intent::Read,
            rest: Rest::All,
        }
    }

    /// Begins the range with rows that have these values in the leading columns of the index, or
    /// behind them. The order is that of the index.
    ///
    /// [`DescribedScan`] has an example.
    #[must_use]
    pub fn low(mut self, columns: Bound<Vec<Datum>>) -> Self {
        self.low = columns;
        self
    }

    /// Ends the range with rows that have these values in the leading columns of the index, or
    /// before them.
    ///
    /// [`DescribedScan`] has an example.
    #[must_use]
    pub fn high(mut self, columns: Bound<Vec<Datum>>) -> Self {
        self.high = columns;
        self
    }

    /// Reads the range from its end.
    ///
    /// [`DescribedScan`] has an example.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.direction = Direction::Reverse;
        self
    }

    /// Reads rows that the transaction is going to change, or keeps as they are: as
    /// [`Transaction::lock`].
    ///
    /// ```
    /// use isles::{Database, Datum, DescribedScan, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: i64, balance: i64 }
    ///
    /// let mut builder = Database::in_memory();
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// let rows = database.transaction(|t| {
    ///     t.next_described(&mut DescribedScan::new("accounts", 0).for_update(), 10)
    /// })?;
    /// assert_eq!(rows, [[Datum::Signed(1), Datum::Signed(5)]]);
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn for_update(mut self) -> Self {
        self.intent = Intent::Write;
        self
    }

    /// Returns the key that is the whole range, if an index can be asked for it.
    fn only_key(&self, table: &TableDescription) -> Result<Option<AnyKey>> {
        let index = &table.indexes()[self.index];
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high))
                if low.len() == index.columns.len() && low == high && !low.contains(&Datum::Null) =>
            {
                table.encode_key(self.index, low).map(Some).map_err(Error::Row)
            }
            _ => Ok(None),
        }
    }

    /// Returns the words of the whole range; `None` if it is empty.
    fn range(&self, table: &TableDescription) -> Result<Option<NormalizedRange>> {
        let key = |columns: &Bound<Vec<Datum>>| {
            Ok::<_, Error>(match columns {
                Bound::Unbounded => Bound::Unbounded,
                Bound::Included(values) => Bound::Included(self.prefix(table, values)?),
                Bound::Excluded(values) => Bound::Excluded(self.prefix(table, values)?),
            })
        };
        let (low, high) = (key(&self.low)?, key(&self.high)?);
        let bits = table.indexes()[self.index].key_bits;
        Ok(NormalizedRange::of_prefixes(low.as_ref(), high.as_ref(), bits))
    }

    fn prefix(&self, table: &TableDescription, values: &[Datum]) -> Result<AnyKey> {
        table.encode_key_prefix(self.index, values).map_err(Error::Row)
    }
}

impl Transaction<'_> {
    /// Returns the next rows of a range, at most `rows`, as one value for each column, and moves
    /// on. No row is returned at the end of the range.
    ///
    /// Errors: [`Error::NoSuchTable`], also for an index that the table does not have;
    /// [`Error::Row`] if the bounds do not fit the index. The transaction continues after these
    /// two errors.
    ///
    /// [`DescribedScan`] has an example.
    pub fn next_described(&mut self, scan: &mut DescribedScan, rows: usize) -> Result<Vec<Vec<Datum>>> {
        let (number, table) = self.described(&scan.table)?;
        if scan.index >= table.indexes().len() {
            return Err(Error::NoSuchTable(format!("table {} has no index {}", table.name(), scan.index)));
        }
        if rows == 0 {
            return Ok(Vec::new());
        }
        let range = match &scan.rest {
            Rest::Nothing => None,
            Rest::Keys(range) => Some(range.clone()),
            Rest::All => {
                if let Some(key) = scan.only_key(table)? {
                    scan.rest = Rest::Nothing;
                    return self.find_described_row(number, table, scan, &key);
                }
                scan.range(table)?
            }
        };
        scan.rest = Rest::Nothing;
        match range {
            Some(range) => self.read_described_range(number, table, scan, range, rows),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the row with this key.
    fn find_described_row(
        &mut self,
        number: usize,
        table: &TableDescription,
        scan: &DescribedScan,
        key: &AnyKey,
    ) -> Result<Vec<Vec<Datum>>> {
        let words = key.words(key_words(table.indexes()[scan.index].key_bits));
        let part = if scan.index == 0 { Some(part_of(words)) } else { self.step_part() };
        self.check_share(number, part, scan.intent)?;
        let found = self.verbs.find(number, scan.index, words, scan.intent);
        let found = self.check(found)?;
        found.into_iter().map(|row| self.read_described(table, row)).collect()
    }

    /// Reads the first rows of a range; what remains of it is left in the scan.
    fn read_described_range(
        &mut self,
        number: usize,
        table: &TableDescription,
        scan: &mut DescribedScan,
        range: NormalizedRange,
        rows: usize,
    ) -> Result<Vec<Vec<Datum>>> {
        self.check_share(number, self.step_part(), scan.intent)?;
        let bits = table.indexes()[scan.index].key_bits;
        let words = key_words(bits);
        let bounds = KeyBounds { low: &range.low[..words], high: &range.high[..words] };
        let at = TableIndex { table: number, index: scan.index };
        let found = self.find_rows(at, bounds, (scan.direction, scan.intent), rows)?;
        let is_full = found.len() == rows;
        let mut read = Vec::with_capacity(found.len());
        let mut last = None;
        for (place, row) in found.iter().enumerate() {
            let (fixed, tail) = self.read_image(table, *row)?;
            read.push(table.decode_row(&fixed, &tail).map_err(Error::Row)?);
            if is_full && place + 1 == rows {
                last = Some(table.key_of(scan.index, &fixed, &tail));
            }
        }
        if let Some(last) = last {
            let rest = range.behind(last.words(words), bits, scan.direction);
            scan.rest = rest.map_or(Rest::Nothing, Rest::Keys);
        }
        Ok(read)
    }
}
