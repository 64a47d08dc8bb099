//! Iterators over the rows of a range.
//!
//! A scan of the engine calls a visitor, but an iterator is called by the program. An iterator
//! therefore scans a batch of rows at a time, and continues behind the last row of the batch. The
//! ranges of these scans are adjacent, so together they protect the same range as one scan.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use boundary::Direction;
use schema::row_keys::with_keys;
use schema::{Key, Row};

use crate::attempt::Transaction;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::range::NormalizedRange;
use crate::scan::{ROWS_AHEAD, Scan};
use crate::select::Select;

/// Rows of the first batch; each later batch is twice as large, up to `ROWS_MOST`.
const ROWS_FIRST: u64 = 8;
const ROWS_MOST: u64 = 256;

/// Selects the items of an iterator: whole rows ([`WholeRow`]) or some fields ([`SelectedFields`]).
/// [`Scan::rows`] has an example.
pub trait RowView<R: Row> {
    /// The item for each row.
    type Item;

    /// Reads the rows of the scan and appends their items to `to`. Returns the last row, if its
    /// item does not contain the keys.
    #[doc(hidden)]
    fn read<K: Key>(&self, scan: &mut Scan<'_, R, K>, to: &mut VecDeque<Self::Item>) -> Result<Option<R>>;

    /// Returns the rest of the range, behind the last row that was read.
    #[doc(hidden)]
    fn rest<K: Key>(
        scan: &mut Scan<'_, R, K>,
        last: Option<R>,
        read: &VecDeque<Self::Item>,
    ) -> Result<Option<NormalizedRange>>;
}

/// Selects whole rows, as [`Scan::rows`] does.
#[derive(Clone, Copy, Debug)]
pub struct WholeRow;

impl<R: Row> RowView<R> for WholeRow {
    type Item = R;

    fn read<K: Key>(&self, scan: &mut Scan<'_, R, K>, to: &mut VecDeque<R>) -> Result<Option<R>> {
        scan.read_again(ROWS_AHEAD, &mut |_, row| {
            to.push_back(row);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(None)
    }

    fn rest<K: Key>(
        scan: &mut Scan<'_, R, K>,
        _: Option<R>,
        read: &VecDeque<R>,
    ) -> Result<Option<NormalizedRange>> {
        Ok(read.back().and_then(|row| scan.behind(row)))
    }
}

/// Selects some fields of each row, as [`Scan::fields`] does.
#[derive(Clone, Copy, Debug)]
pub struct SelectedFields<F>(pub(crate) F);

impl<R: Row, F: Select<R>> RowView<R> for SelectedFields<F> {
    type Item = F::Value;

    fn read<K: Key>(&self, scan: &mut Scan<'_, R, K>, to: &mut VecDeque<F::Value>) -> Result<Option<R>> {
        let (mut last, limit) = (None, scan.limit);
        scan.run_again(&mut |transaction, found| {
            to.push_back(transaction.read_fields(found, self.0)?);
            if to.len() as u64 == limit {
                // A snapshot forgets the row when it has been visited.
                last = Some(transaction.read_row(found)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(last)
    }

    fn rest<K: Key>(
        scan: &mut Scan<'_, R, K>,
        last: Option<R>,
        _: &VecDeque<F::Value>,
    ) -> Result<Option<NormalizedRange>> {
        Ok(last.and_then(|row| scan.behind(&row)))
    }
}

/// An iterator over the rows of a range, or over some of their fields, in order: returned by
/// [`Scan::rows`] and [`Scan::fields`]. The iterator ends after its first error.
///
/// The iterator reads up to 256 rows ahead. The range is protected up to the last row that was
/// read. [`Scan::rows`] has an example.
#[must_use = "an iterator reads no rows before it is asked for them"]
pub struct Rows<'a, R, K, S: RowView<R> = WholeRow>
where
    R: Row,
{
    scan: Scan<'a, R, K>,
    shown: S,
    /// Rows that the iterator may still return.
    left: u64,
    /// Rows of the next batch.
    batch: u64,
    read: VecDeque<S::Item>,
}

impl<'a, R: Row, K: Key, S: RowView<R>> Rows<'a, R, K, S> {
    pub(crate) fn new(scan: Scan<'a, R, K>, shown: S) -> Self {
        let left = scan.limit;
        Rows { scan, shown, left, batch: ROWS_FIRST, read: VecDeque::new() }
    }

    /// Returns the transaction, for verbs between two rows. Rows that were read ahead are returned
    /// as they were when they were read.
    ///
    /// ```
    /// # use isles::{Database, Row};
    /// # #[derive(Row, Debug)]
    /// # #[row(key(id))]
    /// # struct Task { id: u64, done: bool }
    /// # let mut builder = Database::in_memory();
    /// # let tasks = builder.table::<Task>("tasks");
    /// # let database = builder.open()?;
    /// # database.transaction(|t| t.insert_all(tasks, (0..20).map(|id| Task { id, done: id % 2 == 0 })))?;
    /// database.transaction(|t| {
    ///     let mut rows = t.scan(tasks, ..).rows();
    ///     while let Some(task) = rows.next() {
    ///         let task = task?;
    ///         if task.done {
    ///             rows.transaction().delete(tasks, &task.id)?;
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// # assert_eq!(database.transaction(|t| t.scan(tasks, ..).count())?, 10);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn transaction(&mut self) -> &mut Transaction<'a> {
        &mut self.scan.transaction
    }

    /// Reads the next batch.
    fn fill(&mut self) -> Result<()> {
        self.scan.limit = self.batch.min(self.left);
        self.batch = (2 * self.batch).min(ROWS_MOST);
        let last = self.shown.read(&mut self.scan, &mut self.read)?;
        let count = self.read.len() as u64;
        self.left -= count;
        if count < self.scan.limit {
            self.left = 0;
        }
        if self.left > 0 {
            self.scan.range = S::rest(&mut self.scan, last, &self.read)?;
        }
        Ok(())
    }
}

impl<R: Row, K: Key, S: RowView<R>> Iterator for Rows<'_, R, K, S> {
    type Item = Result<S::Item>;

    fn next(&mut self) -> Option<Result<S::Item>> {
        if self.read.is_empty()
            && self.left > 0
            && let Err(error) = self.fill()
        {
            self.left = 0;
            self.read.clear();
            return Some(Err(error));
        }
        self.read.pop_front().map(Ok)
    }
}

impl<R: Row, K: Key, S: RowView<R>> std::iter::FusedIterator for Rows<'_, R, K, S> {}

impl NormalizedRange {
    /// Returns the part of the range that a scan in this direction visits behind a key of this many
    /// bits, which may be outside of the range.
    pub(crate) fn behind(self, key: &[u64], bits: u32, direction: Direction) -> Option<NormalizedRange> {
        let NormalizedRange { mut low, mut high } = self;
        match direction {
            Direction::Forward => {
                let after = NormalizedRange::just_after(key, bits)?;
                if *after > *low {
                    low = after;
                }
            }
            Direction::Reverse => {
                let before = NormalizedRange::just_before(key, bits)?;
                if *before < *high {
                    high = before;
                }
            }
        }
        (*low <= *high).then_some(NormalizedRange { low, high })
    }
}

impl<'a, R: Row, K: Key> Scan<'a, R, K> {
    /// Returns the part of the range behind this row.
    pub(crate) fn behind(&self, row: &R) -> Option<NormalizedRange> {
        with_keys(row, |keys| self.behind_key(keys[self.index.inner.number()]))
    }

    /// Returns the part of the range behind this key, which may be outside of the range.
    pub(crate) fn behind_key(&self, key: &[u64]) -> Option<NormalizedRange> {
        self.range.clone()?.behind(key, K::BITS, self.direction)
    }

    /// Returns an iterator over the rows. `for row in t.scan(people, 10..20)` does the same. See
    /// [`Rows`].
    ///
    /// ```
    /// # use isles::{Database, Row};
    /// # #[derive(Row, Debug)]
    /// # #[row(key(id))]
    /// # struct Person { id: u32, age: u8, name: [u8; 16] }
    /// # let mut builder = Database::in_memory();
    /// # let people = builder.table::<Person>("people");
    /// # let database = builder.open()?;
    /// # database.transaction(|t| t.insert_all(people, (0..50).map(|id| Person { id, age: id as u8, name: [0; 16] })))?;
    /// database.transaction(|t| {
    ///     for row in t.scan(people, 10..20).reverse() {
    ///         let person = row?;
    ///         assert_eq!(person.id, u32::from(person.age));
    ///     }
    ///     // Fields alone, which is cheaper; and all that iterators can do.
    ///     let ages: isles::Result<Vec<u8>> = t.scan(people, ..).fields(Person::AGE).step_by(20).collect();
    ///     assert_eq!(ages?, [0, 20, 40]);
    ///     let oldest = t.scan(people, ..).reverse().fields((Person::ID, Person::AGE)).next().transpose()?;
    ///     assert_eq!(oldest, Some((49, 49)));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn rows(self) -> Rows<'a, R, K> {
        Rows::new(self, WholeRow)
    }

    /// Returns an iterator over one field of each row, or over a tuple of fields: see
    /// [`Self::rows`].
    ///
    /// [`Self::rows`] has an example.
    pub fn fields<F: Select<R>>(self, fields: F) -> Rows<'a, R, K, SelectedFields<F>> {
        Rows::new(self, SelectedFields(fields))
    }
}

impl<'a, R: Row, K: Key> IntoIterator for Scan<'a, R, K> {
    type Item = Result<R>;
    type IntoIter = Rows<'a, R, K>;

    /// As [`Scan::rows`].
    fn into_iter(self) -> Rows<'a, R, K> {
        self.rows()
    }
}
