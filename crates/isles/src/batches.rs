//! Changes of many rows as several transactions: for ranges whose rows are too many for one.

use std::ops::ControlFlow;

use schema::{Key, Row};

use crate::attempt::Transaction;
use crate::database::{Database, PLACE_WAIT};
use crate::error::{Error, Result};
use crate::range::{KeyRange, NormalizedRange};
#[cfg(doc)]
use crate::session::Session;
use crate::table::{Index, Lookup, Table};

/// Progress of [`Database::delete_in_batches`] and [`Database::update_in_batches`]: a transaction
/// has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'r, R> {
    /// Rows that were deleted or updated so far, by all transactions of the call.
    pub rows: u64,
    /// The last of these rows, as it was before. A program that stores its key continues behind it
    /// after a restart.
    pub last: &'r R,
}

/// The rest of a range.
struct Rest(NormalizedRange);

impl<K: Key> KeyRange<K> for Rest {
    fn normalized(&self) -> Option<NormalizedRange> {
        Some(self.0.clone())
    }
}

impl Database {
    /// Deletes the rows with keys in `range`, in the order of the index, as several transactions:
    /// each deletes up to `rows_each` rows. Other transactions run between them, and see a part of
    /// the rows deleted. Returns the number of rows.
    ///
    /// `progress` is called after each commit, and ends the call with `Break`. After that, and
    /// after an error, the rows that were deleted stay deleted, and another call deletes the rest.
    ///
    /// Errors: those of [`Session::transaction`] and [`Transaction::delete`], and
    /// [`Error::TooManySessions`] if all sessions are in use for 5 s; [`Error::Misuse`] if
    /// `rows_each` is 0, or the index is a hash index.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row, Clone, Debug, PartialEq)]
    /// #[row(key(at))]
    /// struct Event { at: u64, seen: bool }
    ///
    /// let mut builder = Database::in_memory();
    /// let events = builder.table::<Event>("events");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert_all(events, (0..1000).map(|at| Event { at, seen: false })))?;
    ///
    /// // A pause after each batch leaves room for others.
    /// let seen = database.update_in_batches(events, .., 100, |event| event.seen = true, |batch| {
    ///     println!("{} events, up to {}", batch.rows, batch.last.at);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(seen, 1000);
    ///
    /// let some = database.delete_in_batches(events, ..900, 100, |batch| match batch.rows {
    ///     500.. => ControlFlow::Break(()),
    ///     _ => ControlFlow::Continue(()),
    /// })?;
    /// assert_eq!(some, 500);
    /// // The same call goes on where the other one has ended.
    /// assert_eq!(database.delete_in_batches(events, ..900, 100, |_| ControlFlow::Continue(()))?, 400);
    /// assert_eq!(database.transaction(|t| t.scan(events, ..).count())?, 100);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn delete_in_batches<L: Lookup>(
        &self,
        index: L,
        range: impl KeyRange<L::Key>,
        rows_each: u64,
        progress: impl FnMut(Batch<'_, L::Row>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let delete = |t: &mut Transaction<'_>, table: Table<L::Row>, row: &L::Row| {
            t.delete(table, &row.key()).map(drop)
        };
        self.change_in_batches(index.index(), range.normalized(), rows_each, delete, progress)
    }

    /// Calls `change` with each row with a key in `range`, in the order of the index, and writes
    /// the changed row, as several transactions: each updates up to `rows_each` rows. Returns the
    /// number of rows.
    ///
    /// As [`Self::delete_in_batches`], which has an example, but another call begins from the first
    /// row of its range: a program that continues passes the range behind [`Batch::last`]. A row
    /// whose key moves into the rest of the range is updated again.
    ///
    /// Errors: as [`Self::delete_in_batches`], and those of [`Transaction::update`].
    pub fn update_in_batches<L: Lookup>(
        &self,
        index: L,
        range: impl KeyRange<L::Key>,
        rows_each: u64,
        mut change: impl FnMut(&mut L::Row),
        progress: impl FnMut(Batch<'_, L::Row>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let update = |t: &mut Transaction<'_>, table: Table<L::Row>, row: &L::Row| {
            t.update(table, &row.key(), &mut change).map(drop)
        };
        self.change_in_batches(index.index(), range.normalized(), rows_each, update, progress)
    }

    fn change_in_batches<R: Row, K: Key>(
        &self,
        index: Index<R, K>,
        range: Option<NormalizedRange>,
        rows_each: u64,
        mut change: impl FnMut(&mut Transaction<'_>, Table<R>, &R) -> Result<()>,
        mut progress: impl FnMut(Batch<'_, R>) -> ControlFlow<()>,
    ) -> Result<u64> {
        if rows_each == 0 {
            return Err(Error::Misuse("a batch of no rows: let each transaction change at least one"));
        }
        let mut session = self.session_within(PLACE_WAIT)?;
        let (mut rest, mut rows) = (range, 0);
        while let Some(range) = rest {
            let changed = session.transaction(|t| {
                let found = t.scan(index, Rest(range.clone())).limit(rows_each).for_update().collect()?;
                found.iter().try_for_each(|row| change(t, index.table(), row))?;
                let behind = found.last().and_then(|row| t.scan(index, Rest(range.clone())).behind(row));
                Ok((found, behind))
            });
            let (found, behind) = changed?;
            let Some(last) = found.last() else { break };
            rows += found.len() as u64;
            rest = behind;
            if progress(Batch { rows, last }).is_break() || (found.len() as u64) < rows_each {
                break;
            }
        }
        Ok(rows)
    }
}
