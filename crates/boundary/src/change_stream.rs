//! Committed changes in the order of commits, as databases give them to their readers.

use std::any::Any;
use std::sync::Arc;

use platform::{Nanos, Platform};
use schema::TableDescription;

pub use redo_log::{ChangesError, ChangesFrom, LogPosition, ReaderPlace};

/// A table, or a form of one, that changed rows belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedTable {
    /// Its number in the log: no other table, and no other form of the table, ever has this number.
    pub id: u32,
    /// Its description.
    pub description: TableDescription,
}

/// The change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// The row is new.
    Inserted {
        /// Its fixed part.
        fixed: Vec<u8>,
        /// Its tail.
        tail: Vec<u8>,
    },
    /// Bytes of the row have changed.
    Updated {
        /// The columns of the primary key, as they lie in rows, one behind the other.
        key: Vec<u8>,
        /// Offsets in the fixed part, and the bytes there.
        parts: Vec<(usize, Vec<u8>)>,
        /// The tail, if it is new.
        tail: Option<Vec<u8>>,
    },
    /// The row is deleted.
    Deleted {
        /// As in [`Self::Updated`].
        key: Vec<u8>,
    },
}

/// The change of one row, and its table.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRow {
    /// The table.
    pub table: Arc<ChangedTable>,
    /// The change.
    pub change: RowChange,
}

/// The changes of one commit, in an order in which they can be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedChanges {
    /// The position behind the commit.
    pub position: LogPosition,
    /// The changes.
    pub rows: Vec<ChangedRow>,
}

/// A stream of changes, which its database reads on.
pub trait AnyChangeStream: Send {
    /// The position behind all commits that were given.
    fn position(&self) -> LogPosition;

    /// The stream itself, for its database.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// The same.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// The part of a durable database that gives committed changes to readers.
pub trait ChangeSource<P: Platform> {
    /// Opens a stream of the commits behind `from`.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn open_changes(&self, c: P::Core, from: ChangesFrom) -> Result<Box<dyn AnyChangeStream>, ChangesError>;

    /// Waits until all transactions that have committed are durable, and returns the position
    /// behind them. No session of the caller is inside an epoch.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn settled_position(&self, c: P::Core) -> Result<LogPosition, ChangesError>;

    /// The next commit of a stream of this database; `None` if there is none by the deadline. No
    /// session of the caller is inside an epoch.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn next_changes(
        &self,
        c: P::Core,
        stream: &mut dyn AnyChangeStream,
        deadline: Option<Nanos>,
    ) -> Result<Option<CommittedChanges>, ChangesError>;

    /// Ends a stream of this database.
    fn close_changes(&self, c: P::Core, stream: Box<dyn AnyChangeStream>);

    /// Registers a reader, for which the log keeps what it needs.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn register_reader(&self, c: P::Core, name: &str, from: ChangesFrom)
    -> Result<LogPosition, ChangesError>;

    /// Takes note that a registered reader needs nothing up to this position any more.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn acknowledge(&self, c: P::Core, name: &str, position: LogPosition) -> Result<(), ChangesError>;

    /// Forgets a registered reader; false if there was none.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn forget_reader(&self, c: P::Core, name: &str) -> Result<bool, ChangesError>;

    /// The registered readers.
    ///
    /// # Errors
    /// [`ChangesError`].
    fn readers(&self, c: P::Core) -> Result<Vec<ReaderPlace>, ChangesError>;
}
