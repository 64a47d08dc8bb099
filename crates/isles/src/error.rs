//! Errors, and their remedies.

use std::sync::Arc;

use boundary::OpenError;
use boundary::directory::description::DescriptionError;
use distributed::DirectoryError;
use engine::durable::content::ContentError;
use pages::PagedError;
use platform::files::{FileError, FileErrorKind};
use redo_log::LogError;
use schema::{TableDescription, TableError};
use terms::Abort;

/// Results of this library; transactions with an error type of their own use `Result<T, E>`.
/// [`Error`] has an example.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of a conflict between two transactions.
pub use terms::Conflict;

/// Why a transaction did not commit, or a database or session could not be opened.
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
    /// Other transactions were in the way in every attempt that was allowed.
    ///
    /// Inside a transaction this error says that the current attempt is over: pass the error on
    /// with `?`, and the transaction is tried again as often as
    /// [`crate::TransactionOptions::attempts`] allows.
    #[error(
        "conflict with other transactions in each of {attempts} attempts (last one: {reason:?}): allow more attempts, \
         or let transactions touch fewer rows that all others touch too"
    )]
    Conflict {
        /// Attempts made.
        attempts: u32,
        /// The cause of the last conflict.
        reason: Conflict,
    },
    /// A row with this key exists already.
    #[error("{table} has a row with {} in {index} already: {}", key_in_words(.key), advice(.index))]
    Duplicate {
        /// The table.
        table: String,
        /// The unique index that has the key; `"primary key"` for the primary key.
        index: String,
        /// The values of the key's columns, in their order, as text. `None` where several rows were
        /// inserted by one call, or a table got another form.
        key: Option<String>,
    },
    /// The memory limit of the database, or the machine's memory, is used up.
    #[error(
        "out of memory: {requested} bytes for {structure} were refused ({reason}): delete rows, or raise \
         `Builder::memory_limit`"
    )]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// The structure that asked for them.
        structure: &'static str,
        /// The reason of the refusal: the limit, or the operating system's message.
        reason: String,
    },
    /// The transaction did not commit within [`crate::TransactionOptions::deadline`], or the rows
    /// that its own error follows from were not on disk by then.
    #[error(
        "the deadline passed before the transaction committed: allow more time, or split the transaction"
    )]
    Deadline,
    /// The transaction has committed, and other transactions may see its changes, but its deadline
    /// passed, or its [`crate::CancelToken`] was set, before the commit was on disk. A loss of
    /// power now may undo the transaction or not. To learn what holds, read the rows in another
    /// transaction, which returns when what it has read is on disk. Trying again would make the
    /// changes twice.
    #[error(
        "committed, but not known to be on disk when the deadline passed: it happened, and a crash now may lose it; do not \
         repeat it, read what is there"
    )]
    DurabilityUnknown,
    /// A transaction of the same database is running on this thread already: the new transaction
    /// was called inside the closure of the outer transaction, and could wait for the outer
    /// transaction for ever.
    #[error(
        "a transaction inside the closure of another one of the same database: use the `Transaction` that the closure is \
         given, or begin after it has returned"
    )]
    Nested,
    /// Another process opened the database, and this one was forked from that: nothing that this
    /// process did would be in the database.
    #[error(
        "another process opened this database, and this one was forked from it: use it there, or open databases after the fork"
    )]
    Forked,
    /// The transaction's [`crate::CancelToken`] was set.
    #[error("cancelled through its token")]
    Cancelled,
    /// The transaction touched more rows than one transaction may.
    #[error("more than {limit} rows in one transaction: split it into several")]
    TooLarge {
        /// Most rows of one transaction.
        limit: usize,
    },
    /// The library was used wrongly: trying again cannot help.
    #[error("misuse: {0}")]
    Misuse(&'static str),
    /// A table was declared in a way that cannot work.
    #[error("table {table} cannot be declared like this: {reason}")]
    Declaration {
        /// The table's name.
        table: String,
        /// The fault, and the values that are accepted.
        reason: String,
    },
    /// A text does not fit into its column.
    #[error(transparent)]
    Text(#[from] schema::TextError),
    /// Values that are no row of their table.
    #[error(transparent)]
    Row(#[from] schema::RowError),
    /// The database has no table of this name and row type.
    #[error("{0}")]
    NoSuchTable(String),
    /// The rows of a table do not get another form, or the table is not dropped while they do. The
    /// table is as it was.
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
    /// The program is built without this scheme.
    #[error(
        "scheme {scheme} is not compiled in: `isles` is to be a dependency with `features = [\"all-schemes\"]`, or the database is \
         opened under `Scheme::Silo`, `Mvcc` or `NoWait`"
    )]
    NotCompiled {
        /// The scheme.
        scheme: &'static str,
    },
    /// The database was to be closed, and is in use: it is open as before, for those who use it.
    #[error(
        "the database stays open: in use are {sessions} sessions ({transactions} of them in a transaction that is an object), {tickets} \
         tickets and {clones} clones; drop them, and close the last one"
    )]
    InUse {
        /// Sessions.
        sessions: usize,
        /// The sessions with an open transaction.
        transactions: usize,
        /// Tickets of commits.
        tickets: usize,
        /// Clones of the database, without the handle that was to close it.
        clones: usize,
    },
    /// The log has stopped: nothing commits any more, and what committed since the last flush may
    /// be lost.
    #[error("{0}")]
    NotDurable(String),
    /// The storage manager failed: what failed, and what to do.
    #[error("{0}")]
    Storage(String),
    /// The directory cannot be opened. It is as it was.
    #[error("{source}")]
    Open {
        /// The kind of fault.
        reason: OpenReason,
        /// The fault, and its remedy.
        source: Cause,
    },
    /// The directory cannot be copied.
    #[error("{source}")]
    Backup {
        /// Which file, and why.
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
        /// Its words.
        what: String,
    },
    /// The steps of a procedure that work in one other instance, or the outputs that it gives back,
    /// are longer than a message may be. Nothing has happened.
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
    /// A procedure had begun when its deadline passed, or its token was set, and nothing was heard
    /// of it for a second longer: a step does not end. It may commit yet. To learn what holds, read
    /// the rows later; trying again may make the changes twice.
    #[error(
        "the deadline passed, and a step has not ended: the procedure may commit yet; do not repeat it, read what is there"
    )]
    OutcomeUnknown,
    /// The transaction's own decision: return this error to undo everything without a more telling
    /// error of your own.
    #[error("rolled back by the transaction itself")]
    RollBack,
}

/// The advice about a key that is taken.
fn key_in_words(key: &Option<String>) -> String {
    key.as_ref().map_or_else(|| "this key".to_owned(), |key| format!("the key {key}"))
}

/// The key that an index has already, of a row to insert whose fixed part this is.
#[cold]
pub(crate) fn key_taken(abort: &Abort, tables: &[TableDescription], fixed: &[u8]) -> Option<String> {
    let Abort::Duplicate { table, index } = abort else { return None };
    let table = tables.get(*table as usize)?;
    let columns = &table.indexes().get(*index as usize)?.columns;
    // Columns of keys lie in the fixed part.
    let values = columns.iter().map(|column| table.decode_column(*column, fixed, &[]));
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

/// Why a directory cannot be opened: [`Error::Open`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenReason {
    /// Another process, or another database of this one, has it open.
    InUse,
    /// The operating system does not let the program: permissions, a read-only mount, no directory,
    /// none to make it in, or too long a name.
    Denied,
    /// The disk is full, or no file may be as large as it has to be.
    DiskFull,
    /// Another operation on its files failed.
    Files,
    /// It holds something else than a database, or than a deployment of several instances.
    SomethingElse,
    /// Another version of this library wrote it.
    OtherVersion,
    /// Its tables and the declared ones do not go together.
    OtherTables,
    /// Its deployment divides the data otherwise.
    OtherDivision,
    /// Data on disk cannot be read any more.
    Damaged,
    /// A transaction over several databases is in doubt, and cannot be kept as things are.
    InDoubt,
    /// It has been opened, or has committed, as often as it can be.
    UsedUp,
    /// The pool is too small for the sessions, or pages are too small for the keys of a table.
    TooSmall,
}

/// The error below another one, as its source ([`std::error::Error::source`]) and in its words:
/// [`Error::Open`] has one.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    pub(crate) fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Cause(Arc::new(error))
    }
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(to)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(to)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Causes are equal if they say the same.
impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

/// A reason in words alone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Words(String);

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
    /// A directory that cannot be opened, for a reason in words.
    pub(crate) fn open(reason: OpenReason, words: String) -> Self {
        Error::Open { reason, source: Cause::new(Words(words)) }
    }

    /// A copy that failed.
    pub(crate) fn backup(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error::Backup { source: Cause::new(error) }
    }

    /// A directory that is not whole.
    pub(crate) fn of_content(error: ContentError) -> Self {
        let reason = match &error {
            ContentError::Log(LogError::Memory(out)) => return out.clone().into(),
            ContentError::Log(log) => of_log(log),
            ContentError::Description(DescriptionError::Version { .. }) => OpenReason::OtherVersion,
            _ => OpenReason::Damaged,
        };
        Error::Open { reason, source: Cause::new(error) }
    }

    /// True if the same transaction may well succeed when it is tried later.
    ///
    /// [`Error`] has an example.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Error::Conflict { .. }
                | Error::Deadline
                | Error::OutOfMemory { .. }
                | Error::TooManySessions { .. }
        )
    }

    /// The error for an abort of the engine, whose tables are these.
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
            Abort::RollBack => Error::RollBack,
            Abort::Deadline => Error::Deadline,
            Abort::Cancelled => Error::Cancelled,
            Abort::TooLarge { limit } => Error::TooLarge { limit: *limit },
            Abort::NotDurable(reason) => Error::NotDurable(reason.clone()),
            Abort::Storage(reason) => Error::Storage(reason.clone()),
            Abort::DurabilityUnknown { committed: true } => Error::DurabilityUnknown,
            Abort::DurabilityUnknown { committed: false } => Error::Deadline,
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

impl From<platform::OutOfMemory> for Error {
    fn from(out: platform::OutOfMemory) -> Self {
        Error::OutOfMemory { requested: out.requested, structure: out.name, reason: out.reason }
    }
}
