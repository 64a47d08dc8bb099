//! Notification of committed changes of a range of keys, built on the stream of all changes.

use std::time::Duration;

use platform::{Hardware, Platform};
use schema::{Row, TableDescription, key_words};

use crate::changed::RowChange;
use crate::changes::Changes;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::position::ChangesFrom;
use crate::range::{KeyRange, NormalizedRange};
use crate::table::Table;

/// A watch of a range of primary keys of one table, returned by [`Database::watch`].
///
/// A watch reads the stream of all changes ([`Changes`]), so that many watches cost more than one
/// reader that knows all of their ranges.
///
/// ```
/// use std::time::Duration;
/// use isles::{Database, Row};
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Job { id: u32, state: u8 }
///
/// # let path = std::env::temp_dir().join(format!("isles-doc-watch-{}", std::process::id()));
/// let mut builder = Database::at(&path);
/// let jobs = builder.table::<Job>("jobs");
/// let database = builder.open()?;
/// let mut watch = database.watch(jobs, 100..200)?;
/// std::thread::scope(|scope| {
///     let waiting = scope.spawn(move || watch.wait_for(Duration::from_secs(10)));
///     database.transaction(|t| t.insert(jobs, &Job { id: 1, state: 0 }))?; // outside the range
///     database.transaction(|t| t.insert(jobs, &Job { id: 150, state: 0 }))?;
///     assert!(waiting.join().expect("no panic")?);
///     Ok::<(), isles::Error>(())
/// })?;
/// # drop(database);
/// # let _ = std::fs::remove_dir_all(&path);
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    changes: Changes,
    database: Database,
    /// Name of the table.
    table: String,
    /// `None` if the range is empty.
    range: Option<NormalizedRange>,
}

impl Database {
    /// Watches a range of primary keys, from now on: commits so far do not wake the watch. One key
    /// is the range `key..=key`.
    ///
    /// Errors: as [`Self::changes`]; [`Error::Misuse`] for a table of another database.
    ///
    /// [`Watch`] has an example.
    pub fn watch<R: Row>(&self, table: Table<R>, range: impl KeyRange<R::Key>) -> Result<Watch> {
        if table.database != self.shared.id {
            return Err(Error::Misuse("the table is one of another database"));
        }
        let changes = self.changes(ChangesFrom::Now)?;
        let table = self.shared.tables().get(table.inner.number()).map(TableDescription::name);
        let table = table.unwrap_or_default().to_owned();
        Ok(Watch { changes, database: self.clone(), table, range: range.normalized() })
    }
}

impl Watch {
    /// Waits until a committed change touches the range: a row in it was inserted, changed or
    /// deleted. Returns false if none did within `time`. Changes that were committed together, or
    /// one after the other before the call, wake it once. A watch that was not asked for so long
    /// that changes are gone wakes too.
    ///
    /// Errors: as [`Changes::next_within`], but for [`Error::ChangesLost`].
    ///
    /// [`Watch`] has an example.
    pub fn wait_for(&mut self, time: Duration) -> Result<bool> {
        let c = Hardware::core();
        let began = Hardware::now(c);
        let mut touched = false;
        loop {
            let passed = Duration::from_nanos(Hardware::now(c).since(began));
            // After a change only what is there already is taken.
            let left = if touched { Duration::ZERO } else { time.saturating_sub(passed) };
            match self.changes.next_within(left) {
                Ok(Some(transaction)) => {
                    touched |= transaction.changes.iter().any(|change| self.is_touched_by(change));
                }
                Ok(None) => return Ok(touched),
                Err(Error::ChangesLost) => {
                    self.changes = self.database.changes(ChangesFrom::Now)?;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_touched_by(&self, change: &RowChange) -> bool {
        let Some(NormalizedRange { low, high }) = &self.range else { return false };
        if change.table().name() != self.table {
            return false;
        }
        let (fixed, tail) = change.with_key();
        let key = change.table().key_of(0, &fixed, &tail);
        let words = key_words(change.table().indexes()[0].key_bits);
        let mut whole = Vec::new();
        key.append_words(words, &mut whole);
        low[..words] <= *whole && *whole <= high[..words]
    }
}
