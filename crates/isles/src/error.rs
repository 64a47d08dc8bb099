//! Errors of the library.

use std::time::Duration;

use boundary::OpenError;
use boundary::directory::description::DescriptionError;
use concurrency::TooManySessions;
use distributed::DirectoryError;
use engine::durable::content::ContentError;
use pages::PagedError;
use platform::files::{FileError, FileErrorKind};
use redo_log::LogError;
use schema::{ConstraintKind, TableDescription, TableError};
use terms::{Abort, LockedPlace};

pub use crate::cause::Cause;
use crate::cause::MessageError;

/// Result of this library's calls; transactions with an error type of their own use `Result<T, E>`.
/// [`Error`] has an example.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of a conflict between two transactions.
pub use terms::Conflict;

/// Error of a transaction that did not commit, or of another call of this library.
///
/// After any of these errors the session can be used for the next transaction. Nothing remains of
/// the transaction that failed, except after [`Error::DurabilityUnknown`], and perhaps after
/// [`Error::NotDurable`] and [`Error::OutcomeUnknown`].
///
/// ```
/// use isles::{Database, Error, Row};
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// let mut builder = Database::in_memory();
/// let accounts = builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// let twice = database.transaction(|t| {
///     t.insert(accounts, &Account { id: 1, balance: 5 })?;
///     t.insert(accounts, &Account { id: 1, balance: 7 })
/// });
/// match twice {
///     Err(Error::Duplicate { table, index, key }) => {
///         assert_eq!((&*table, &*index, key.as_deref()), ("accounts", "primary key", Some("1")));
///     }
///     Err(error) if error.is_transient() => unreachable!("later it may succeed"),
///     other => unreachable!("{other:?}"),
/// }
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Every attempt of the transaction conflicted with another transaction.
    ///
    /// Inside a transaction this error ends the current attempt. Pass the error on with `?`: the
    /// session then tries the transaction again, as often as
    /// [`crate::TransactionOptions::attempts`] allows.
    #[error(
        "conflict with other transactions in each of {attempts} attempts (last one: {reason:?}): allow more attempts, \
         or let transactions touch fewer rows that all others touch too"
    )]
    Conflict {
        /// Attempts made.
        attempts: u32,
        /// Kind of the last conflict.
        reason: Conflict,
    },
    /// A row with this key already exists.
    #[error("{table} has a row with {} in {index} already: {}", key_in_words(.key), advice(.index))]
    Duplicate {
        /// The table.
        table: String,
        /// The unique index that has the key; `"primary key"` for the primary key.
        index: String,
        /// The values of the key's columns, in order, as text. `None` if one call inserted several
        /// rows, or if a table was being changed.
        key: Option<String>,
    },
    /// A change of rows breaks a constraint of their table. The attempt has failed as with
    /// [`Error::Duplicate`]: it can roll back to a savepoint and go on.
    #[error("table {table} keeps the constraint {constraint}: {reason}")]
    Constraint {
        /// The table that has the constraint.
        table: String,
        /// The name of the constraint; for a generated column the name of the column.
        constraint: String,
        /// The kind of constraint.
        kind: ConstraintKind,
        /// The rule, and the values that break it.
        reason: String,
    },
    /// The memory limit of the database, or the machine's memory, is used up.
    #[error(
        "out of memory: {requested} bytes for {structure} were refused ({reason}): delete rows, or raise \
         `Builder::memory_limit`"
    )]
    OutOfMemory {
        /// Bytes requested.
        requested: usize,
        /// The structure that requested them.
        structure: &'static str,
        /// The limit that was reached, or the message of the operating system.
        reason: String,
    },
    /// The transaction did not commit within [`crate::TransactionOptions::deadline`], or the rows
    /// that led to its own error were not on disk by then.
    #[error(
        "the deadline passed before the transaction committed: allow more time, or split the transaction"
    )]
    Deadline,
    /// The transaction waited for a lock as long as [`crate::TransactionOptions::lock_wait`] lets
    /// it: another transaction holds the lock still. Nothing remains of this one.
    #[error(
        "waited {waited:?} for {place} of table {table} that another transaction has locked: allow more time, end the other \
         transaction sooner, or try again later"
    )]
    LockTimeout {
        /// The table.
        table: String,
        /// The place in the table: a row, or the gap between two keys that a scan has read or that
        /// a key is missing in.
        place: &'static str,
        /// The time of the wait.
        waited: Duration,
    },
    /// The program left a transaction object idle for longer than
    /// [`crate::TransactionOptions::idle`] allows: it was rolled back.
    #[error(
        "the transaction was idle for {idle:?}, and {limit:?} are allowed, so it was rolled back: begin again"
    )]
    Idle {
        /// The time between two calls.
        idle: Duration,
        /// The bound.
        limit: Duration,
    },
    /// The transaction has committed, and other transactions may see its changes, but its deadline
    /// passed, or its [`crate::CancelToken`] was set, before the commit was on disk. A loss of
    /// power may undo the transaction. To find out, read the rows in another transaction, which
    /// returns when the rows that it read are on disk. Repeating the transaction would make the
    /// changes twice.
    #[error(
        "committed, but not known to be on disk when the deadline passed: it happened, and a crash now may lose it; do not \
         repeat it, read what is there"
    )]
    DurabilityUnknown,
    /// A transaction of the same database is already running on this thread. The new transaction
    /// was begun inside the closure of the outer transaction, and could wait for the outer
    /// transaction for ever.
    #[error(
        "a transaction inside the closure of another one of the same database: use the `Transaction` that the closure is \
         given, or begin after it has returned"
    )]
    Nested,
    /// Another process opened the database, and this process was forked from it: changes made by
    /// this process would not reach the database.
    #[error(
        "another process opened this database, and this one was forked from it: use it there, or open databases after the fork"
    )]
    Forked,
    /// The transaction's [`crate::CancelToken`] was set.
    #[error("cancelled through its token")]
    Cancelled,
    /// The transaction accessed more rows than the limit of one transaction.
    #[error("more than {limit} rows in one transaction: split it into several")]
    TooLarge {
        /// Most rows of one transaction.
        limit: usize,
    },
    /// The transaction does not have this [`crate::Savepoint`]: it is another transaction's, or
    /// another attempt's, was released, or was set after a savepoint to which the transaction has
    /// rolled back since. Nothing was taken back, and the transaction can only roll back, as a
    /// whole or to a savepoint that it has.
    #[error("a savepoint that the transaction does not have any more: roll back to one that it has")]
    StaleSavepoint,
    /// The library was used incorrectly. A retry cannot succeed.
    #[error("misuse: {0}")]
    Misuse(&'static str),
    /// A table was declared in a way that cannot work.
    #[error("table {table} cannot be declared like this: {reason}")]
    Declaration {
        /// The table's name.
        table: String,
        /// The mistake, and the accepted form.
        reason: String,
    },
    /// A text does not fit into its column.
    #[error(transparent)]
    Text(#[from] schema::TextError),
    /// The values do not form a row of the table.
    #[error(transparent)]
    Row(#[from] schema::RowError),
    /// The database has no table of this name and row type.
    #[error("{0}")]
    NoSuchTable(String),
    /// The table cannot be changed, or cannot be dropped while it is being changed. The table is
    /// unchanged.
    #[error("table {table} stays as it is: {source}")]
    NotChanged {
        /// The table.
        table: String,
        /// The obstacle.
        source: Cause,
    },
    /// All sessions of the database are in use.
    #[error(
        "all {limit} sessions are in use: drop one, or open the database with more through `Builder::sessions`"
    )]
    TooManySessions {
        /// Most sessions at a time.
        limit: usize,
    },
    /// The database keeps no versions of rows, so it has no snapshots.
    #[error(
        "scheme {scheme} has no snapshots: open the database with `Scheme::Mvcc`, or read in a transaction, which may have to be \
         tried again"
    )]
    NoSnapshots {
        /// The scheme.
        scheme: &'static str,
    },
    /// Changes behind the position are gone: a checkpoint has superseded them, and they were not
    /// kept for a reader, or took more space than
    /// [`Builder::retained_changes`](crate::Builder::retained_changes) allows.
    #[error(
        "the changes behind this position are gone: take a position with `ChangesFrom::Now`, copy the rows, and apply the changes from \
         that position on; a registered reader, or a larger `Builder::retained_changes`, keeps more"
    )]
    ChangesLost,
    /// No reader of changes of this name is registered.
    #[error("no reader of changes {name:?} is registered: `Database::register_change_reader` registers one")]
    NoSuchReader {
        /// The name.
        name: String,
    },
    /// The database gives no stream of its changes.
    #[error("{reason}")]
    NoChanges {
        /// The reason.
        reason: &'static str,
    },
    /// The program is built without this scheme.
    #[error(
        "scheme {scheme} is not compiled in: `isles` is to be a dependency with `features = [\"all-schemes\"]`, or the database is \
         opened under `Scheme::Silo`, `Mvcc` or `NoWait`"
    )]
    NotCompiled {
        /// The scheme.
        scheme: &'static str,
    },
    /// [`crate::Database::close`] was called while the database is in use. The database stays open
    /// for its other handles.
    #[error(
        "the database stays open: in use are {sessions} sessions ({transactions} of them in a transaction that is an object), {tickets} \
         tickets and {clones} clones; drop them, and close the last one"
    )]
    InUse {
        /// Sessions.
        sessions: usize,
        /// Sessions with an open transaction object, included in `sessions`.
        transactions: usize,
        /// Tickets of commits.
        tickets: usize,
        /// Other clones of the database handle.
        clones: usize,
    },
    /// The log has stopped: no further transaction commits, and commits since the last flush may be
    /// lost.
    #[error("{0}")]
    NotDurable(String),
    /// The storage manager failed; the text names the failure and the remedy.
    #[error("{0}")]
    Storage(String),
    /// The directory cannot be opened. It is unchanged.
    #[error("{source}")]
    Open {
        /// Kind of the problem.
        reason: OpenReason,
        /// The exact problem, and the remedy.
        source: Cause,
    },
    /// The directory cannot be copied.
    #[error("{source}")]
    Backup {
        /// The file, and the reason.
        source: Cause,
    },
    /// A deployment cannot be divided like this, or has stopped.
    #[error("{0}")]
    Deployment(String),
    /// A step of a procedure failed in another instance than the one that coordinates.
    #[error("instance {instance}: {what}")]
    Elsewhere {
        /// The instance.
        instance: usize,
        /// The instance's error message.
        what: String,
    },
    /// The steps of a procedure for one other instance, or the outputs that the instance returns,
    /// are longer than a message may be. The procedure has had no effect.
    #[error(
        "{bytes} bytes of steps or outputs of one instance, and at most {limit} travel in one message: divide the procedure, or \
         have its steps say less"
    )]
    MessageTooLong {
        /// Bytes of the message.
        bytes: u64,
        /// Most bytes of a message.
        limit: u64,
    },
    /// A procedure had begun when its deadline passed or its token was set, and did not end within
    /// a further second, because a step does not return. The procedure may still commit. To find
    /// out, read the rows later; repeating the procedure may make the changes twice.
    #[error(
        "the deadline passed, and a step has not ended: the procedure may commit yet; do not repeat it, read what is there"
    )]
    OutcomeUnknown,
    /// A sequence has no further numbers.
    #[error("the sequence {sequence} has given its last number: create another one with more numbers")]
    SequenceEnd {
        /// The name of the sequence.
        sequence: String,
    },
    /// The transaction's own decision. Return this error to undo everything when a more specific
    /// error is not needed.
    #[error("rolled back by the transaction itself")]
    RollBack,
}

/// Describes the key in the error text.
fn key_in_words(key: &Option<String>) -> String {
    key.as_ref().map_or_else(|| "this key".to_owned(), |key| format!("the key {key}"))
}

/// Formats the key that an index already has, from the fixed part and the tail of the row that was
/// to be inserted.
#[cold]
pub(crate) fn key_taken(
    abort: &Abort,
    tables: &[TableDescription],
    fixed: &[u8],
    tail: &[u8],
) -> Option<String> {
    let Abort::Duplicate { table, index } = abort else { return None };
    let table = tables.get(*table as usize)?;
    let columns = &table.indexes().get(*index as usize)?.columns;
    let values = columns.iter().map(|column| table.decode_column(*column, fixed, tail));
    let words: Vec<String> = values.map(|value| Some(value.ok()?.to_string())).collect::<Option<_>>()?;
    Some(words.join(", "))
}

fn advice(index: &str) -> &'static str {
    match index {
        "primary key" => "use another key, `upsert` to replace the row, or `exists` to ask before",
        _ => {
            "change or delete that row first, or use another key; `exists` asks before, and `upsert` replaces rows by their primary key only"
        }
    }
}

/// Kind of reason why a directory cannot be opened, in [`Error::Open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenReason {
    /// Another process, or another database of this process, has the directory open.
    InUse,
    /// The operating system denies access: permissions, a read-only mount, a path that is not a
    /// directory, a missing parent directory, or a name that is too long.
    Denied,
    /// The disk is full, or a file would exceed the limit on file sizes.
    DiskFull,
    /// Another operation on the files failed.
    Files,
    /// The directory holds something other than a database or a deployment.
    SomethingElse,
    /// Another version of this library wrote the directory.
    OtherVersion,
    /// The tables of the directory do not match the declared tables.
    OtherTables,
    /// The deployment in the directory divides the data differently.
    OtherDivision,
    /// Data on disk is damaged.
    Damaged,
    /// A transaction over several databases is in doubt, and this opening can neither resolve nor
    /// keep it.
    InDoubt,
    /// The directory has reached its limit of openings or epochs.
    UsedUp,
    /// The pool is too small for the number of sessions, or pages are too small for the keys of a
    /// table.
    TooSmall,
}

fn of_file(error: &FileError) -> OpenReason {
    match error.kind {
        FileErrorKind::InUse => OpenReason::InUse,
        FileErrorKind::Denied
        | FileErrorKind::ReadOnly
        | FileErrorKind::NotADirectory
        | FileErrorKind::NoParent
        | FileErrorKind::LongName => OpenReason::Denied,
        FileErrorKind::Full | FileErrorKind::TooLarge => OpenReason::DiskFull,
        _ => OpenReason::Files,
    }
}

fn of_log(error: &LogError) -> OpenReason {
    match error {
        LogError::File(file) | LogError::Stopped(file) => of_file(file),
        LogError::Format { .. } => OpenReason::OtherVersion,
        LogError::NotADatabase(_) | LogError::RowsInPages(_) => OpenReason::SomethingElse,
        LogError::NoEpochs => OpenReason::UsedUp,
        LogError::Damaged { .. }
        | LogError::NoManifest { .. }
        | LogError::Foreign(_)
        | LogError::OlderManifest(_)
        | LogError::Copy(_)
        | LogError::Memory(_) => OpenReason::Damaged,
    }
}

impl From<DirectoryError> for Error {
    fn from(error: DirectoryError) -> Self {
        let reason = match &error {
            DirectoryError::File(file) => of_file(file),
            DirectoryError::Memory(out) => return out.clone().into(),
            DirectoryError::Damaged(_) | DirectoryError::Missing(_) => OpenReason::Damaged,
            DirectoryError::Open(_) => OpenReason::InUse,
            DirectoryError::NotADeployment(_) => OpenReason::SomethingElse,
            DirectoryError::Other { .. } => OpenReason::OtherDivision,
        };
        Error::Open { reason, source: Cause::new(error) }
    }
}

impl Error {
    /// Returns the error for a directory that cannot be opened, with a text.
    pub(crate) fn open(reason: OpenReason, words: String) -> Self {
        Error::Open { reason, source: Cause::new(MessageError(words)) }
    }

    /// Returns the error for a table that stays as it is, with a text.
    pub(crate) fn not_changed(table: &str, words: String) -> Self {
        Error::NotChanged { table: table.to_owned(), source: Cause::new(MessageError(words)) }
    }

    /// Returns the error for a copy that failed.
    pub(crate) fn backup(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error::Backup { source: Cause::new(error) }
    }

    /// Returns the error for a directory that failed its check.
    pub(crate) fn of_content(error: ContentError) -> Self {
        let reason = match &error {
            ContentError::Log(LogError::Memory(out)) => return out.clone().into(),
            ContentError::Log(log) => of_log(log),
            ContentError::Description(DescriptionError::Version { .. }) => OpenReason::OtherVersion,
            _ => OpenReason::Damaged,
        };
        Error::Open { reason, source: Cause::new(error) }
    }

    /// Returns true if the same call may succeed later.
    ///
    /// [`Error`] has an example.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Error::Conflict { .. }
                | Error::Deadline
                | Error::LockTimeout { .. }
                | Error::OutOfMemory { .. }
                | Error::TooManySessions { .. }
        )
    }

    /// Converts an abort of the engine; `tables` are its tables.
    pub(crate) fn from_abort(abort: &Abort, tables: &[TableDescription], attempts: u32) -> Self {
        match abort {
            Abort::Conflict(reason) => Error::Conflict { attempts, reason: *reason },
            Abort::Duplicate { table, index } => {
                let table = tables.get(*table as usize);
                let index = match index {
                    0 => "primary key",
                    index => table.map_or("", |table| table.index_name(*index as usize)),
                };
                let table = table.map_or("", TableDescription::name).to_owned();
                Error::Duplicate { table, index: index.to_owned(), key: None }
            }
            Abort::OutOfMemory(out) => out.clone().into(),
            Abort::LockTimeout { table, place, nanos } => {
                let table = table.and_then(|number| tables.get(number as usize));
                let place = match place {
                    LockedPlace::Row => "a row",
                    LockedPlace::Gap => "a gap between two keys",
                };
                let table = table.map_or("", TableDescription::name).to_owned();
                Error::LockTimeout { table, place, waited: Duration::from_nanos(*nanos) }
            }
            Abort::RollBack => Error::RollBack,
            Abort::Deadline => Error::Deadline,
            Abort::Cancelled => Error::Cancelled,
            Abort::TooLarge { limit } => Error::TooLarge { limit: *limit },
            Abort::NotDurable(reason) => Error::NotDurable(reason.clone()),
            Abort::Storage(reason) => Error::Storage(reason.clone()),
            Abort::DurabilityUnknown { committed: true } => Error::DurabilityUnknown,
            Abort::DurabilityUnknown { committed: false } => Error::Deadline,
            Abort::StaleSavepoint => Error::StaleSavepoint,
            Abort::Misuse(what) => Error::Misuse(what),
        }
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        Error::Declaration { table: error.table, reason: error.fault.to_string() }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        let reason = match &error {
            OpenError::Memory(out) | OpenError::Log(LogError::Memory(out)) => return out.clone().into(),
            OpenError::Log(log) => of_log(log),
            OpenError::Schema(_) => OpenReason::OtherTables,
            OpenError::InDoubt { .. } => OpenReason::InDoubt,
            OpenError::Contradiction(_) => OpenReason::Damaged,
        };
        Error::Open { reason, source: Cause::new(error) }
    }
}

impl From<PagedError> for Error {
    fn from(error: PagedError) -> Self {
        let reason = match &error {
            PagedError::OutOfMemory(out) => return out.clone().into(),
            PagedError::File(file) => of_file(file),
            PagedError::Log(log) => of_log(log),
            PagedError::Schema(_) => OpenReason::OtherTables,
            PagedError::OtherEngine(_) | PagedError::OtherPages { .. } | PagedError::OtherBackup { .. } => {
                OpenReason::SomethingElse
            }
            PagedError::PoolTooSmall { .. }
            | PagedError::PoolFull { .. }
            | PagedError::LogTooSmall { .. }
            | PagedError::TooManySessions(_)
            | PagedError::TooManyPages(_)
            | PagedError::PageBytes(_)
            | PagedError::KeyTooLong { .. } => OpenReason::TooSmall,
            PagedError::Contradiction { .. }
            | PagedError::UnknownTree(_)
            | PagedError::Page { .. }
            | PagedError::LostPiece { .. }
            | PagedError::NotUndone(_) => OpenReason::Damaged,
        };
        Error::Open { reason, source: Cause::new(error) }
    }
}

impl From<TooManySessions> for Error {
    fn from(full: TooManySessions) -> Self {
        Error::TooManySessions { limit: full.0 }
    }
}

impl From<platform::OutOfMemory> for Error {
    fn from(out: platform::OutOfMemory) -> Self {
        Error::OutOfMemory { requested: out.requested, structure: out.name, reason: out.reason }
    }
}
