//! Streams of committed changes, and their readers.
// A stream shares the database with the other handles.
#![allow(clippy::disallowed_types)]

use std::sync::Arc;
use std::time::Duration;

use boundary::{AnyChangeStream, ChangeSource, ChangesError};
use platform::{Hardware, Nanos, Platform};
use redo_log::LogError;

use crate::changed::CommittedTransaction;
use crate::database::Database;
use crate::durable_wait::nanos;
use crate::error::{Error, Result};
use crate::position::{ChangePosition, ChangesFrom};
use crate::shared::DatabaseShared;

/// How long one call of [`Iterator::next`] waits at a time.
const TURN: Duration = Duration::from_secs(1);

/// The committed changes of a database in the order of their commits, from a position on, returned
/// by [`Database::changes`].
///
/// - *Only durable changes*: a commit is given when no crash can take it back, at the latest some
///   milliseconds after it is on disk.
/// - *Order*: transactions that depend on each other are given in the order in which they depend.
///   Others may be given in any order within an epoch, which takes milliseconds.
/// - *Each commit once*: a stream that resumes from a position gives all commits behind it and none
///   before it. A program that applies changes and stores the position in one step misses and
///   repeats nothing, whenever it is killed.
/// - *Bounded memory*: a stream that is behind reads the log from disk.
///
/// The stream keeps the database open. Segments of the log that it needs stay, within
/// [`Builder::retained_changes`](crate::Builder::retained_changes). Beyond this bound the stream
/// ends with [`Error::ChangesLost`], and never with a gap.
///
/// As an iterator a stream waits for the next commit, for ever, and ends only after an error.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::time::Duration;
/// use isles::{ChangeKind, ChangePosition, ChangesFrom, Database, Datum, Row};
///
/// #[derive(Row, Clone, Debug, PartialEq)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// # let path = std::env::temp_dir().join(format!("isles-doc-changes-{}", std::process::id()));
/// let mut builder = Database::at(&path);
/// let accounts = builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// let mut changes = database.changes(ChangesFrom::Now)?;
/// database.transaction(|t| {
///     t.insert(accounts, &Account { id: 1, balance: 5 })?;
///     t.insert(accounts, &Account { id: 2, balance: 7 })
/// })?;
/// database.transaction(|t| t.update_field(accounts, &1, Account::BALANCE, |balance| *balance += 1))?;
/// database.transaction(|t| t.delete(accounts, &2))?;
///
/// // A copy of the table, kept up to date.
/// let mut copy = BTreeMap::new();
/// while let Some(transaction) = changes.next_within(Duration::from_millis(100))? {
///     for change in &transaction.changes {
///         assert_eq!((change.table().name(), change.table_id()), ("accounts", 0));
///         let Datum::Unsigned(id) = change.key()?[0] else { unreachable!("the key's type") };
///         match change.kind() {
///             ChangeKind::Insert => drop(copy.insert(id, change.row::<Account>()?.expect("a row"))),
///             ChangeKind::Update => change.apply(copy.get_mut(&id).expect("it is there"))?,
///             ChangeKind::Delete => drop(copy.remove(&id)),
///             _ => {}
///         }
///     }
/// }
/// assert_eq!(copy, BTreeMap::from([(1, Account { id: 1, balance: 6 })]));
///
/// // Later, perhaps in another process.
/// let stored = changes.last_position().to_bytes();
/// drop(changes);
/// database.transaction(|t| t.insert(accounts, &Account { id: 3, balance: 0 }))?;
/// let mut changes = database.changes(ChangePosition::from_bytes(&stored)?)?;
/// let transaction = changes.available()?.next().expect("one commit")?;
/// let values = transaction.changes[0].values()?;
/// assert_eq!(values, Some(vec![Datum::Unsigned(3), Datum::Signed(0)]));
///
/// // A reader that is registered: the log keeps what it needs.
/// database.register_change_reader("search", transaction.position)?;
/// database.acknowledge_changes("search", changes.last_position())?;
/// assert_eq!(database.change_readers()?[0].name, "search");
/// assert!(database.forget_change_reader("search")?);
/// # drop((changes, database));
/// # let _ = std::fs::remove_dir_all(&path);
/// # Ok::<(), isles::Error>(())
/// ```
pub struct Changes {
    /// `None` once the stream has ended with an error.
    stream: Option<Box<dyn AnyChangeStream>>,
    position: ChangePosition,
    shared: Arc<DatabaseShared>,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Changes").field("position", &self.position).finish()
    }
}

/// A registered reader of changes, returned by [`Database::change_readers`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeReader {
    /// Its name.
    pub name: String,
    /// The position that it has acknowledged.
    pub position: ChangePosition,
    /// True if changes behind the position are gone, because the reader was further behind than
    /// [`Builder::retained_changes`](crate::Builder::retained_changes) allows.
    pub is_lost: bool,
}

/// The commits of a stream that were made before the iterator, returned by [`Changes::available`].
#[derive(Debug)]
pub struct AvailableChanges<'c> {
    changes: &'c mut Changes,
    /// No commit behind this position was made before the iterator.
    end: ChangePosition,
}

impl Database {
    /// Opens a stream of the committed changes behind `from`: behind all commits so far, behind a
    /// stored [`ChangePosition`], behind what a registered reader has acknowledged, or from the
    /// oldest change that is still there. [`Changes`] describes what the stream gives.
    ///
    /// A program that needs all rows first takes a position with [`ChangesFrom::Now`], copies the
    /// rows, and then applies the changes from that position on: changes that the copy has already
    /// may come once more, and have no further effect in the end.
    ///
    /// Errors: [`Error::ChangesLost`]; [`Error::NoSuchReader`]; [`Error::NoChanges`] in memory and
    /// over pages; [`Error::Misuse`] for a position of another database; [`Error::NotDurable`] if
    /// the log has stopped; [`Error::Nested`] inside a transaction.
    ///
    /// [`Changes`] has an example.
    pub fn changes(&self, from: impl Into<ChangesFrom>) -> Result<Changes> {
        self.shared.check_outside()?;
        let from = from.into().into_inner();
        let stream = self.shared.change_source()?.open_changes(Hardware::core(), from);
        let stream = stream.map_err(|error| self.shared.of_changes(error))?;
        let position = ChangePosition::of(stream.position());
        Ok(Changes { stream: Some(stream), position, shared: Arc::clone(&self.shared) })
    }

    /// Registers a reader of changes under a name of 1 to 64 bytes, durably, and returns its
    /// position. From now on the log keeps the changes behind the position that the reader
    /// acknowledges, within [`Builder::retained_changes`](crate::Builder::retained_changes), also
    /// while the database is closed. A reader of this name gets the new position. A directory has
    /// up to 64 readers.
    ///
    /// Errors: as [`Self::changes`]; [`Error::Misuse`] for a name that is too long, or one reader
    /// too many.
    ///
    /// [`Changes`] has an example.
    pub fn register_change_reader(&self, name: &str, from: impl Into<ChangesFrom>) -> Result<ChangePosition> {
        self.shared.check_outside()?;
        let (c, from) = (Hardware::core(), from.into().into_inner());
        let position = self.shared.change_source()?.register_reader(c, name, from);
        position.map(ChangePosition::of).map_err(|error| self.shared.of_changes(error))
    }

    /// Records that a registered reader needs nothing up to this position any more. The record is
    /// on disk after the next checkpoint, or when the database is closed. After a crash the reader
    /// may have an earlier position, which keeps more than it needs: a reader that stores its
    /// position itself resumes from that one.
    ///
    /// Errors: [`Error::NoSuchReader`]; [`Error::Misuse`] for a position of another database;
    /// [`Error::NotDurable`] if a file operation failed.
    ///
    /// [`Changes`] has an example.
    pub fn acknowledge_changes(&self, name: &str, position: ChangePosition) -> Result<()> {
        self.shared.check_process()?;
        let (c, position) = (Hardware::core(), position.inner());
        let acknowledged = self.shared.change_source()?.acknowledge(c, name, position);
        acknowledged.map_err(|error| self.shared.of_changes(error))
    }

    /// Forgets a registered reader, durably. Returns false if there was none of this name.
    ///
    /// Errors: [`Error::NotDurable`] if a file operation failed.
    ///
    /// [`Changes`] has an example.
    pub fn forget_change_reader(&self, name: &str) -> Result<bool> {
        self.shared.check_process()?;
        let forgotten = self.shared.change_source()?.forget_reader(Hardware::core(), name);
        forgotten.map_err(|error| self.shared.of_changes(error))
    }

    /// Returns the registered readers, in the order of their names.
    ///
    /// Errors: [`Error::NoChanges`] in memory and over pages.
    ///
    /// [`Changes`] has an example.
    pub fn change_readers(&self) -> Result<Vec<ChangeReader>> {
        self.shared.check_process()?;
        let readers = self.shared.change_source()?.readers(Hardware::core());
        let readers = readers.map_err(|error| self.shared.of_changes(error))?.into_iter();
        let reader = |reader: boundary::ReaderPlace| ChangeReader {
            name: reader.name,
            position: ChangePosition::of(reader.position),
            is_lost: reader.is_lost,
        };
        Ok(readers.map(reader).collect())
    }
}

impl DatabaseShared {
    fn change_source(&self) -> Result<&dyn ChangeSource<Hardware>> {
        self.inner.change_source().map_err(|error| self.of_changes(error))
    }

    fn of_changes(&self, error: ChangesError) -> Error {
        match error {
            ChangesError::Lost => Error::ChangesLost,
            ChangesError::NoSuchReader(name) => Error::NoSuchReader { name },
            ChangesError::Unsupported(reason) => Error::NoChanges { reason },
            ChangesError::OtherDatabase => Error::Misuse(
                "the position is of another database, or of a copy that went on for itself: take one here",
            ),
            ChangesError::TooManyReaders => Error::Misuse(
                "a directory has at most 64 readers of changes, with names of 1 to 64 bytes: forget one, or shorten the name",
            ),
            ChangesError::Log(error @ LogError::Damaged { .. }) => Error::Storage(error.to_string()),
            ChangesError::Log(error) => Error::NotDurable(error.to_string()),
        }
    }
}

impl Changes {
    /// Returns the next commit, and waits for it no longer than `time`; `None` if there is none by
    /// then. With [`Duration::ZERO`] the call waits for nothing: it returns a commit that is
    /// durable, and asks the log to make later ones durable.
    ///
    /// Errors: [`Error::ChangesLost`] if the stream was further behind than the log keeps changes;
    /// [`Error::NotDurable`] if the log has stopped; [`Error::Nested`] inside a transaction. After
    /// the first two the stream has ended.
    ///
    /// [`Changes`] has an example.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<CommittedTransaction>> {
        self.shared.check_outside()?;
        const ENDED: Error = Error::Misuse("the stream of changes has ended with an error: open another one");
        let stream = self.stream.as_deref_mut().ok_or(ENDED)?;
        let c = Hardware::core();
        let deadline = Nanos(Hardware::now(c).0.saturating_add(nanos(time)));
        let changes = self.shared.change_source()?.next_changes(c, stream, Some(deadline));
        match changes {
            Ok(changes) => {
                let position = changes.as_ref().map_or_else(|| stream.position(), |next| next.position);
                self.position = ChangePosition::of(position);
                Ok(changes.map(CommittedTransaction::of))
            }
            Err(error) => {
                self.end();
                Err(self.shared.of_changes(error))
            }
        }
    }

    /// Waits until all transactions that committed before this call are on disk, and returns an
    /// iterator over the commits that the stream has not given yet, which ends there.
    ///
    /// Errors: as [`Self::next_within`].
    ///
    /// [`Changes`] has an example.
    pub fn available(&mut self) -> Result<AvailableChanges<'_>> {
        self.shared.check_outside()?;
        // Commits may be on disk before their epoch is complete, and are not given yet then.
        let settled = self.shared.change_source()?.settled_position(Hardware::core());
        let end = ChangePosition::of(settled.map_err(|error| self.shared.of_changes(error))?);
        Ok(AvailableChanges { changes: self, end })
    }

    /// Returns the position behind all commits that the stream has given.
    ///
    /// [`Changes`] has an example.
    pub fn last_position(&self) -> ChangePosition {
        self.position
    }

    fn end(&mut self) {
        // In a child of `fork` the stream is the parent's.
        if self.shared.check_process().is_err() {
            std::mem::forget(self.stream.take());
        } else if let (Some(stream), Ok(source)) = (self.stream.take(), self.shared.change_source()) {
            source.close_changes(Hardware::core(), stream);
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.end();
    }
}

impl Iterator for Changes {
    type Item = Result<CommittedTransaction>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stream.as_ref()?;
        loop {
            match self.next_within(TURN) {
                Ok(None) => {}
                Ok(Some(transaction)) => return Some(Ok(transaction)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for AvailableChanges<'_> {
    type Item = Result<CommittedTransaction>;

    fn next(&mut self) -> Option<Self::Item> {
        self.changes.stream.as_ref()?;
        if self.changes.position.is_behind(self.end) {
            return None;
        }
        self.changes.next_within(Duration::ZERO).transpose()
    }
}
