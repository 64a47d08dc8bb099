//! Rows of a range, one after the other.
//!
//! A scan of the engine calls its visitor. An iterator is called: it scans some rows at a time, and
//! goes on behind the last one. The ranges of these scans lie next to each other without a gap, so
//! that they protect together what one scan would.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use boundary::Direction;
use schema::row_keys::with_keys;
use schema::{Key, Row, RowId};

use crate::attempt::Transaction;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::range::NormalizedRange;
use crate::scan::{ROWS_AHEAD, Scan};
use crate::select::Select;

/// Rows that the first scan reads; each later one reads twice as many, up to the most.
const ROWS_FIRST: u64 = 8;
const ROWS_MOST: u64 = 256;

/// The items of an iterator over rows: rows, or some of their fields. [`Scan::rows`] has an
/// example.
pub trait Shown<R: Row> {
    /// That.
    type Item;

    /// Reads the rows of the scan, behind those that are there. The last one, if the item does not
    /// say its keys.
    #[doc(hidden)]
    fn read<K: Key>(&self, scan: &mut Scan<'_, R, K>, to: &mut VecDeque<Self::Item>)
    -> Result<Option<RowId>>;

    /// The rest of the scan behind the last row that it has read.
    #[doc(hidden)]
    fn rest<K: Key>(
        scan: &mut Scan<'_, R, K>,
        last: Option<RowId>,
        read: &VecDeque<Self::Item>,
    ) -> Result<Option<NormalizedRange>>;
}

/// The whole row. What [`Scan::rows`] gives.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl<R: Row> Shown<R> for Whole {
    type Item = R;

    fn read<K: Key>(&self, scan: &mut Scan<'_, R, K>, to: &mut VecDeque<R>) -> Result<Option<RowId>> {
        scan.read_again(ROWS_AHEAD, &mut |_, row| {
            to.push_back(row);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(None)
    }

    fn rest<K: Key>(
        scan: &mut Scan<'_, R, K>,
        _: Option<RowId>,
        read: &VecDeque<R>,
    ) -> Result<Option<NormalizedRange>> {
        Ok(read.back().and_then(|row| scan.behind(row)))
    }
}

/// Some fields. What [`Scan::fields`] gives.
#[derive(Clone, Copy, Debug)]
pub struct Only<F>(pub(crate) F);

impl<R: Row, F: Select<R>> Shown<R> for Only<F> {
    type Item = F::Value;

    fn read<K: Key>(&self, scan: &mut Scan<'_, R, K>, to: &mut VecDeque<F::Value>) -> Result<Option<RowId>> {
        let mut last = None;
        scan.run_again(&mut |transaction, found| {
            to.push_back(transaction.read_fields(found, self.0)?);
            last = Some(found);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(last)
    }

    fn rest<K: Key>(
        scan: &mut Scan<'_, R, K>,
        last: Option<RowId>,
        _: &VecDeque<F::Value>,
    ) -> Result<Option<NormalizedRange>> {
        let Some(last) = last else { return Ok(None) };
        let row: R = scan.transaction.read_row(last)?;
        Ok(scan.behind(&row))
    }
}

/// The rows of a range, or some fields of them, in order: what [`Scan::rows`] and [`Scan::fields`]
/// give. After an error there are no more.
///
/// Rows are read some at a time, up to 256 ahead. The range is protected as far as rows were read.
/// [`Scan::rows`] has an example.
#[must_use = "an iterator reads no rows before it is asked for them"]
pub struct Rows<'a, R, K, S: Shown<R> = Whole>
where
    R: Row,
{
    scan: Scan<'a, R, K>,
    shown: S,
    /// Rows that the program may still get.
    left: u64,
    /// Rows that the next scan reads.
    batch: u64,
    read: VecDeque<S::Item>,
}

impl<'a, R: Row, K: Key, S: Shown<R>> Rows<'a, R, K, S> {
    pub(crate) fn new(scan: Scan<'a, R, K>, shown: S) -> Self {
        let left = scan.limit;
        Rows { scan, shown, left, batch: ROWS_FIRST, read: VecDeque::new() }
    }

    /// The transaction, for verbs between two rows. Rows that were read ahead are shown as they
    /// were then.
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

    /// Reads the next rows.
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

impl<R: Row, K: Key, S: Shown<R>> Iterator for Rows<'_, R, K, S> {
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

impl<R: Row, K: Key, S: Shown<R>> std::iter::FusedIterator for Rows<'_, R, K, S> {}

impl NormalizedRange {
    /// The part with keys above this one, which is in the range.
    fn above(self, key: &[u64], bits: u32) -> Option<NormalizedRange> {
        let low = NormalizedRange::just_after(key, bits)?;
        (low <= self.high).then_some(NormalizedRange { low, ..self })
    }

    /// The part with keys below this one.
    fn below(self, key: &[u64], bits: u32) -> Option<NormalizedRange> {
        let high = NormalizedRange::just_before(key, bits)?;
        (self.low <= high).then_some(NormalizedRange { high, ..self })
    }
}

impl<'a, R: Row, K: Key> Scan<'a, R, K> {
    /// The part of the range behind this row, which is in it.
    fn behind(&self, row: &R) -> Option<NormalizedRange> {
        let number = self.index.inner.number();
        let range = self.range?;
        with_keys(row, |keys| match self.direction {
            Direction::Forward => range.above(keys[number], K::BITS),
            Direction::Reverse => range.below(keys[number], K::BITS),
        })
    }

    /// An iterator over the rows: `for row in t.scan(people, 10..20)` does the same. See [`Rows`].
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
        Rows::new(self, Whole)
    }

    /// An iterator over one field of each row, or a tuple of fields: see [`Self::rows`].
    ///
    /// [`Self::rows`] has an example.
    pub fn fields<F: Select<R>>(self, fields: F) -> Rows<'a, R, K, Only<F>> {
        Rows::new(self, Only(fields))
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
