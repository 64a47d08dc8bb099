//! Scans of ordered indexes.

use std::ops::ControlFlow;

use boundary::{AnyVerbs, Direction, ScanOrder};
use concurrency::RowWords;
use platform::Intent;
use schema::{Key, Row, RowId};
use terms::Abort;
use terms::rows::{KeyBounds, TableIndex};

use crate::attempt::{Transaction, part_of};
use crate::error::{Error, Result};
use crate::range::NormalizedRange;
use crate::table::{Index, Lookup};

/// Rows that a scan reads ahead of the visitor, if the visitor cannot use the transaction.
pub(crate) const ROWS_AHEAD: usize = 16;

/// A scan of the rows with keys in a range of an ordered index, returned by [`Transaction::scan`].
/// Set direction and limit first, then call a method that runs the scan.
///
/// The range is protected as far as the scan visited it, and up to fifteen rows further: no row can
/// appear, change or vanish there before the transaction commits. A scan over a hash index fails
/// with [`Error::Misuse`]; its other errors are those of all verbs.
///
/// ```
/// use isles::{Database, Row, prefix};
/// use std::ops::ControlFlow;
///
/// #[derive(Row, Debug)]
/// #[row(key(id), index(by_city(city)))]
/// struct Person { id: u32, city: u16, age: u8 }
///
/// let mut builder = Database::in_memory();
/// let people = builder.table::<Person>("people");
/// let database = builder.open()?;
/// let mut session = database.session()?;
/// session.transaction(|t| {
///     for id in 0..100 {
///         t.insert(people, &Person { id, city: (id % 4) as u16, age: (id / 2) as u8 })?;
///     }
///     Ok(())
/// })?;
/// session.transaction(|t| {
///     // The last two people of city 3, in descending order.
///     let last = t.scan(people.by(Person::BY_CITY), prefix(3)).reverse().limit(2).collect()?;
///     assert_eq!(last.iter().map(|person| person.id).collect::<Vec<_>>(), [99, 95]);
///     // Ids from 10 to 19, until a person is older than 7.
///     let mut ages = 0;
///     t.scan(people, 10..20).for_each(|person| {
///         ages += u32::from(person.age);
///         if person.age > 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
///     })?;
///     assert_eq!(t.scan(people, ..).count()?, 100);
///     Ok(())
/// })?;
/// # Ok::<(), isles::Error>(())
/// ```
#[must_use = "a scan does nothing before `collect`, `for_each`, `count` or another method that runs it"]
pub struct Scan<'a, R, K> {
    pub(crate) transaction: Transaction<'a>,
    pub(crate) index: Index<R, K>,
    /// `None`: empty.
    pub(crate) range: Option<NormalizedRange>,
    pub(crate) direction: Direction,
    intent: Intent,
    /// True if rows that others have locked are skipped.
    skips: bool,
    pub(crate) limit: u64,
    /// True once the range was checked against the parts of the instance. An iterator continues
    /// with the rest of the range, which is not checked again: the rest alone may lie in a part of
    /// another instance.
    admitted: bool,
}

impl<'a, R: Row, K: Key> Scan<'a, R, K> {
    pub(crate) fn new(
        transaction: Transaction<'a>,
        index: Index<R, K>,
        range: Option<NormalizedRange>,
    ) -> Self {
        let (direction, intent) = (Direction::Forward, Intent::Read);
        Scan { transaction, index, range, direction, intent, skips: false, limit: u64::MAX, admitted: false }
    }

    /// Visits the rows in descending order of their keys.
    ///
    /// [`Scan`] has an example.
    pub fn reverse(mut self) -> Self {
        self.direction = Direction::Reverse;
        self
    }

    /// Visits at most this many rows.
    ///
    /// [`Scan`] has an example.
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = rows;
        self
    }

    /// Declares that this transaction is going to change the rows, as
    /// [`Transaction::get_for_update`] does.
    ///
    /// [`Scan`] has an example.
    pub fn for_update(mut self) -> Self {
        self.intent = Intent::Write;
        self
    }

    /// Locks each row that the scan visits, as [`Transaction::lock`] does, and skips rows that
    /// another transaction has locked (`SELECT .. FOR UPDATE SKIP LOCKED`): several consumers of a
    /// queue each get rows of their own, without waiting for each other.
    ///
    /// A skipped row counts as not read, and so does everything between the visited rows: rows may
    /// appear, change and vanish there. So the transaction is serializable with respect to the
    /// rows that it got, as if it had looked up each of them by its key; that the scan returned no
    /// more, or none, says nothing about the table. Under the schemes that lock and over pages
    /// locked rows are skipped. The others have nothing to skip before a commit: there the scan is
    /// one [`Self::for_update`], and of two consumers that get the same row one conflicts and is
    /// tried again. In all cases each row has one consumer that commits.
    ///
    /// ```
    /// use isles::{Database, Row, Scheme};
    ///
    /// #[derive(Row, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Job { id: u64, work: u32 }
    ///
    /// let mut builder = Database::in_memory().scheme(Scheme::NoWait);
    /// let jobs = builder.table::<Job>("jobs");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert_all(jobs, (1..4).map(|id| Job { id, work: 7 })))?;
    ///
    /// let mut first = database.begin()?;
    /// assert_eq!(first.scan(jobs, ..).lock_or_skip().first()?, Some(Job { id: 1, work: 7 }));
    /// // Another consumer meanwhile: it gets the next job.
    /// let job = database.transaction(|t| {
    ///     let job = t.scan(jobs, ..).lock_or_skip().first()?;
    ///     if let Some(job) = &job {
    ///         t.delete(jobs, &job.id)?;
    ///     }
    ///     Ok(job)
    /// })?;
    /// assert_eq!(job.map(|job| job.id), Some(2));
    /// first.delete(jobs, &1)?;
    /// first.commit()?;
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn lock_or_skip(mut self) -> Self {
        self.intent = Intent::Write;
        self.skips = true;
        self
    }

    /// Returns all rows.
    ///
    /// [`Scan`] has an example.
    pub fn collect(self) -> Result<Vec<R>> {
        let mut rows = Vec::new();
        self.for_each(|row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Returns the first row.
    ///
    /// [`Scan`] has an example.
    pub fn first(mut self) -> Result<Option<R>> {
        self.limit = self.limit.min(1);
        let mut first = None;
        self.for_each(|row| {
            first = Some(row);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// Returns the last row of the range. Any limit but 0 is ignored.
    ///
    /// [`Scan`] has an example.
    pub fn last(mut self) -> Result<Option<R>> {
        self.direction = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        self.first()
    }

    /// Calls `visit` with each row until `visit` breaks.
    ///
    /// [`Scan`] has an example.
    pub fn for_each(mut self, mut visit: impl FnMut(R) -> ControlFlow<()>) -> Result<()> {
        self.read_again(ROWS_AHEAD, &mut |_, row| Ok(visit(row)))
    }

    /// Calls `visit` with the transaction and each row until `visit` breaks or fails. `visit` may
    /// use all verbs. It is unspecified if the scan visits rows that `visit` inserts into the rest
    /// of the range.
    ///
    /// [`Scan`] has an example.
    pub fn try_for_each(
        mut self,
        mut visit: impl FnMut(&mut Transaction<'_>, R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        // `visit` may change rows that follow.
        self.read_again(1, &mut visit)
    }

    /// Returns the number of rows.
    ///
    /// [`Scan`] has an example.
    pub fn count(self) -> Result<u64> {
        let mut count = 0;
        self.run(&mut |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// Calls `change` with each row and writes the changed row; keys may change too. Returns the
    /// number of rows. The scan finds all rows before it makes the first change.
    ///
    /// Errors: as [`Transaction::update`].
    ///
    /// [`Scan`] has an example.
    pub fn update(self, mut change: impl FnMut(&mut R)) -> Result<u64> {
        let table = self.index.table();
        self.for_update().run_all(|transaction, found| transaction.update_row(table, found, &mut change))
    }

    /// Deletes all rows. Returns the number of rows.
    ///
    /// [`Scan`] has an example.
    pub fn delete(self) -> Result<u64> {
        let table = self.index.table();
        self.for_update().run_all(|transaction, found| transaction.delete_row(table, found).map(drop))
    }

    /// Finds all rows, then calls `act` with each.
    fn run_all(mut self, mut act: impl FnMut(&mut Transaction<'_>, RowId) -> Result<()>) -> Result<u64> {
        let table = self.index.table();
        if self.transaction.plan(table.inner.number()).is_some() {
            return self.run_by_keys(act);
        }
        let mut rows = Vec::new();
        self.run_again(&mut |_, found| {
            rows.push(found);
            Ok(ControlFlow::Continue(()))
        })?;
        for found in &rows {
            self.transaction.check_cancelled()?;
            act(&mut self.transaction, *found)?;
        }
        Ok(rows.len() as u64)
    }

    /// As [`Self::run_all`], for a table whose constraints may change rows that follow, or delete
    /// them.
    fn run_by_keys(mut self, mut act: impl FnMut(&mut Transaction<'_>, RowId) -> Result<()>) -> Result<u64> {
        let (table, mut keys) = (self.index.table(), Vec::new());
        self.read_again(ROWS_AHEAD, &mut |_, row: R| {
            keys.push(row.key());
            Ok(ControlFlow::Continue(()))
        })?;
        for key in &keys {
            if let Some(found) = self.transaction.find(table.index(), key, Intent::Write)? {
                act(&mut self.transaction, found)?;
            }
        }
        Ok(keys.len() as u64)
    }

    fn run(mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.run_again(visit)
    }

    pub(crate) fn run_again(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let Some(range) = self.begin()? else { return Ok(()) };
        let range = KeyBounds { low: range.low_words::<K>(), high: range.high_words::<K>() };
        let (number, index) = (self.index.table().inner.number(), self.index.inner.number());
        let Transaction { verbs, state, shared, cancel, plans } = self.transaction.again();
        let mut shown = RowCounter { left: self.limit, failed: None };
        let mut show = |verbs: &mut dyn AnyVerbs, found| {
            let mut transaction = Transaction { verbs, state: &mut *state, shared, cancel, plans };
            let goes_on = shown.show(&mut transaction, |transaction| visit(transaction, found));
            if transaction.state.only_reads {
                transaction.verbs.forget_rows();
            }
            Ok(goes_on)
        };
        let scanned = match self.skips {
            true => verbs.scan_or_skip(TableIndex { table: number, index }, range, self.direction, &mut show),
            false => verbs.scan(number, index, range, self.direction, self.intent, &mut show),
        };
        self.end(scanned, shown.failed)
    }

    /// Reads all rows in order, up to `ahead` rows before it calls `visit` with the first one. Rows
    /// without a variable-length part are read while the scan visits them, and the engine need not
    /// keep references to them.
    pub(crate) fn read_again(
        &mut self,
        ahead: usize,
        visit: &mut impl FnMut(&mut Transaction<'_>, R) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        if R::HAS_TAIL || self.skips {
            return self.run_again(&mut |transaction, found| {
                let row = transaction.read_row(found)?;
                visit(transaction, row)
            });
        }
        let Some(range) = self.begin()? else { return Ok(()) };
        let range = KeyBounds { low: range.low_words::<K>(), high: range.high_words::<K>() };
        let place = TableIndex { table: self.index.table().inner.number(), index: self.index.inner.number() };
        let order = ScanOrder { direction: self.direction, intent: self.intent };
        let wanted = RowWords { first: 0, count: R::BYTES / 8, ahead, most: self.limit };
        let Transaction { verbs, state, shared, cancel, plans } = self.transaction.again();
        let mut shown = RowCounter { left: self.limit, failed: None };
        let scanned = verbs.scan_and_read(place, range, order, wanted, &mut |verbs, words| {
            let mut transaction = Transaction { verbs, state: &mut *state, shared, cancel, plans };
            for row in bytemuck::cast_slice(words).chunks_exact(R::BYTES) {
                if !shown.show(&mut transaction, |transaction| visit(transaction, R::fetch(row, &[]))) {
                    return Ok(false);
                }
            }
            if transaction.state.only_reads {
                transaction.verbs.forget_rows();
            }
            Ok(true)
        });
        self.end(scanned, shown.failed)
    }

    /// Checks that the scan may run. Returns the range to visit, unless it is empty.
    pub(crate) fn begin(&mut self) -> Result<Option<NormalizedRange>> {
        let table = self.index.table();
        self.transaction.enter(table)?;
        let Some(range) = self.range.clone().filter(|_| self.limit > 0) else { return Ok(None) };
        let asks = self.transaction.shared.share.is_some() || self.transaction.state.only_reads;
        if asks && !self.admitted {
            // A session of an instance sees all rows of the instance.
            let [low, high] = [part_of(&range.low), part_of(&range.high)];
            let is_primary = self.index.inner.number() == 0;
            let part = if is_primary { (low == high).then_some(low) } else { self.transaction.step_part() };
            self.transaction.check_share(table.inner.number(), part, self.intent)?;
            self.admitted = true;
        }
        Ok(Some(range))
    }

    /// Returns the error of the visitor, or else the result of the scan.
    fn end(&mut self, scanned: std::result::Result<(), Abort>, failed: Option<Error>) -> Result<()> {
        match failed {
            Some(error) => Err(error),
            None => self.transaction.check(scanned),
        }
    }
}

/// Counts the rows that a scan passes to its visitor.
struct RowCounter {
    /// Rows that the scan may still visit.
    left: u64,
    /// Error of the visitor.
    failed: Option<Error>,
}

impl RowCounter {
    /// Passes a row to the visitor. Returns true if the scan continues.
    #[inline(always)]
    fn show(
        &mut self,
        transaction: &mut Transaction<'_>,
        visit: impl FnOnce(&mut Transaction<'_>) -> Result<ControlFlow<()>>,
    ) -> bool {
        self.left -= 1;
        let visited = match transaction.check_cancelled() {
            Ok(()) => visit(transaction),
            Err(error) => Err(error),
        };
        match visited {
            Ok(flow) => flow.is_continue() && self.left > 0,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }
}

/// Visitor of the rows of a scan.
type Visit<'v> = dyn FnMut(&mut Transaction<'_>, RowId) -> Result<ControlFlow<()>> + 'v;
