//! Changes of tables while a database is open: requests, steps and errors.

use platform::OutOfMemory;
use redo_log::LogError;
use schema::TableError;
use terms::Abort;

use crate::declaration::SchemaBuilder;
use crate::opening::SchemaError;

/// Why tables cannot be changed while the database is open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The database has no room.
    #[error("there is no place for another table: open the database with room for more")]
    NoRoom,
    /// This kind of database cannot.
    #[error("tables of this database come and go between openings only")]
    Unsupported,
    /// The table cannot be as it is declared, or its name is taken.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is no table of this number, or it was dropped before.
    #[error("there is no such table")]
    NoSuchTable,
    /// Another change of a table's rows is under way.
    #[error("rows of a table get another form: change tables when that is over")]
    Busy,
    /// There are prepared parts.
    #[error("parts of transactions over several databases are prepared: finish them before")]
    Parts,
    /// Rows of the table cannot get the form that is declared.
    #[error("the rows of table {table:?} cannot get this form: {reason}")]
    Form {
        /// The table.
        table: String,
        /// The obstacle.
        reason: String,
    },
    /// Two rows have the same key in an index that is to be unique.
    #[error(
        "two rows of table {table:?} have the same key in {index:?}, which is to be unique: one of them is {row}"
    )]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The primary key of one of the rows.
        row: String,
    },
    /// Transactions that began before are still open.
    #[error("transactions that began before are still open: end them, or wait longer")]
    Waits,
    /// The caller wants it no more.
    #[error("cancelled")]
    Cancelled,
    /// Rows cannot be read or written.
    #[error(transparent)]
    Rows(Abort),
    /// The directory has given out all ids.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// There is no memory for the table.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The files refuse, or the log has stopped. If the log goes on, nothing has changed.
    #[error("the change of the tables is not on disk, or not known to be: {0}")]
    Log(#[from] LogError),
}

/// The result of a step towards the end of dropped tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// All their rows are gone.
    All,
    /// There is more to do.
    More,
    /// Transactions go on that began before a table was dropped, or another session is at it.
    Waits,
}

/// The new form of a table.
pub struct TableChange<'w> {
    /// Declares the table as it will be, under its name.
    pub schema: SchemaBuilder,
    /// A row of the table as it will be, fixed part and tail: what rows that are there have in
    /// columns that are new. Without one they have no value there, or the default.
    pub template: Option<(Vec<u8>, Vec<u8>)>,
    /// How long transactions are waited for that began before; `None`: until they end.
    pub patience_nanos: Option<u64>,
    /// Hears of each step; false ends the change, if its form does not count yet.
    pub watch: &'w mut dyn FnMut(ChangeStep) -> bool,
}

/// A step of the change of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStep {
    /// The next table takes this number, and is none that programs may use.
    Made {
        /// The number.
        table: usize,
    },
    /// Transactions are waited for that began before.
    Waits,
    /// This many rows have the new form.
    Rows {
        /// How many.
        rows: u64,
    },
    /// Transactions that begin from now on use the table of this number, and the other no more.
    Counts {
        /// The table as it was.
        before: usize,
        /// The table as it is.
        after: usize,
    },
}
