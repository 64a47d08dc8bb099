//! How a database is opened durably: the options, what the opening reports, and why it fails.

use std::path::PathBuf;

use platform::{OutOfMemory, Place};
use redo_log::{LogError, LogOptions};

use crate::directory::description::{Description, DescriptionError, TABLE_IDS_MAX};
use crate::directory::wire::Unreadable;
use crate::participants::GlobalId;

/// Bytes of log that an opening repeats within some seconds.
const CHECKPOINT_BYTES: u64 = 1 << 30;

/// Where and how a database is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableOptions {
    /// The directory, made if it is not there.
    pub path: PathBuf,
    /// How the log is written.
    pub log: LogOptions,
    /// A checkpoint takes the place of the log when the log has at least this many bytes, and twice
    /// as many as the checkpoint before; bytes of log that the opening has read count too. The
    /// checkpoint is made while transactions run, or by [`crate::Database::close`].
    pub checkpoint_bytes: u64,
    /// Where recovery runs: one worker at each place, of which there is at least one.
    pub places: Vec<Place>,
}

impl DurableOptions {
    /// A database in this directory, with the default options of a log.
    pub fn new(path: PathBuf) -> Self {
        let places = vec![Place { thread: None }];
        DurableOptions { path, log: LogOptions::default(), checkpoint_bytes: CHECKPOINT_BYTES, places }
    }
}

/// The state that the opening of a durable database found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// True if the directory held a database already.
    pub existed: bool,
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Records that were repeated, each of a transaction or of a part of its changes.
    pub records: u64,
    /// Changes of rows in these records.
    pub changes: u64,
    /// Bytes of the log that were read.
    pub log_bytes: u64,
    /// Nanoseconds that the opening took, until the first transaction could begin.
    pub nanos: u64,
    /// The last epoch whose commits count.
    pub last_epoch: u64,
    /// Parts of transactions over several databases that are in doubt.
    pub in_doubt: u64,
    /// The number of this opening, larger than that of any before.
    pub opening: u64,
}

/// Stages of the opening of a database, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The log is read and verified. Counted in bytes.
    Reading,
    /// The log is divided into changes of rows. Counted in bytes.
    Dividing,
    /// The rows that the log inserts are made. Counted in changes.
    Repeating,
    /// The checkpoint is read, and its rows are made. Counted in bytes.
    Loading,
}

/// How far the opening of a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current stage. A stage with nothing to do is passed over.
    pub stage: Stage,
    /// How much of the stage is done.
    pub done: u64,
    /// How much there is to do in the stage.
    pub total: u64,
}

/// Why the tables of a program are not those of a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The description of the directory's tables cannot be read.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A table of the directory is not declared.
    #[error(
        "the database has a table {table:?} that the program does not declare: declare it, or say `drop_table({table:?})`, \
         and its rows go"
    )]
    Undeclared {
        /// Its name.
        table: String,
    },
    /// A table is declared and dropped.
    #[error(
        "table {table:?} is declared and dropped: do one of them, or drop it in an opening of its own before"
    )]
    DeclaredAndDropped {
        /// Its name.
        table: String,
    },
    /// Rows of a table are not those declared.
    #[error(
        "the rows of table {table:?} are others than those declared: {part} is {found}, declared is {declared}; a \
         new column that is an `Option`, or has a default, can be declared at once; otherwise declare the rows as they are, and give them \
         their new form by `Database::change_table`"
    )]
    Rows {
        /// The table.
        table: String,
        /// The first part that differs.
        part: String,
        /// Its description in the directory.
        found: String,
        /// Its declaration in the program.
        declared: String,
    },
    /// Rows that are there contradict an index that was not there, or was not unique.
    #[error(
        "two rows of table {table:?} have the same key in {index:?}, which is declared unique: open the database with the \
         index it had, or one that is not unique, and change the rows"
    )]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// The directory has given out all ids.
    #[error(
        "the directory has seen {TABLE_IDS_MAX} tables, and can have no more: copy the rows to a new one"
    )]
    TooManyTables,
}

impl Description {
    /// An id that no table has had.
    pub fn new_id(&mut self) -> Result<u32, SchemaError> {
        match self.next_id {
            TABLE_IDS_MAX => Err(SchemaError::TooManyTables),
            id => {
                self.next_id += 1;
                Ok(id)
            }
        }
    }
}

/// Why a durable database cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The machine refused memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The tables of the directory and the declared tables do not go together.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A part of a transaction over several databases is in doubt, and the database is not what it
    /// was when the part was prepared: columns were added, partitions are others, or the scheme is
    /// one that locks whole partitions, in which another one has left several parts.
    #[error(
        "the part of transaction {global} is in doubt and cannot keep its rows: {what}; open the database as it was, under \
         the scheme that has left it, and finish the part"
    )]
    InDoubt {
        /// The transaction.
        global: GlobalId,
        /// The obstacle.
        what: String,
    },
    /// The log contradicts itself.
    #[error("the log cannot be repeated: {0}; restore a backup")]
    Contradiction(String),
}

impl From<Unreadable> for OpenError {
    fn from(_: Unreadable) -> Self {
        OpenError::Contradiction("a record is not what this version writes".into())
    }
}
