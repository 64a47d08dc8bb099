//! Limits of tables, and the errors for tables that exceed them.

use crate::key::KEY_BYTES_MAX;

/// Longest name of a table, column or index in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1024;
/// Most indexes of a table, the primary key included: a transaction has a bit for each in a row's
/// 16 (`concurrency/src/access/row.rs`).
pub const INDEXES_MAX: usize = 16;
/// Most columns of a key.
pub const KEY_COLUMNS_MAX: usize = 64;
/// Longest fixed part of a row in bytes, which leaves one word for the tail.
pub const ROW_BYTES_MAX: usize = terms::rows::FIXED_BYTES_MAX - 8;
/// Longest keys of hash indexes in bytes.
pub const HASH_KEY_BYTES_MAX: usize = 8;
/// Most rows that may be expected of a table: a hash index for this many takes 64 GiB and more.
pub const ROWS_EXPECTED_MAX: u64 = 1 << 32;

/// Error of an invalid table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table {table:?} cannot be declared like this: {fault}")]
pub struct TableError {
    /// The table.
    pub table: String,
    /// The fault.
    pub fault: TableFault,
}

/// Fault of a described table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// A name is empty, too long, or contains control characters.
    #[error("the name {name:?} is empty, longer than {NAME_BYTES_MAX} bytes, or has control characters")]
    Name {
        /// The name.
        name: String,
    },
    /// Another table has this name.
    #[error("another table has this name")]
    DuplicateTable,
    /// There are too many columns.
    #[error(
        "it has {columns} columns, and at most {COLUMNS_MAX} are possible: split it into two tables of one key"
    )]
    TooManyColumns {
        /// Their number.
        columns: usize,
    },
    /// Two columns have the same name.
    #[error("two columns are called {column:?}: give one of them another name")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// Two indexes have the same name.
    #[error("two indexes are called {index:?}: give one of them another name")]
    DuplicateIndex {
        /// The name.
        index: String,
    },
    /// The type of a column is invalid.
    #[error(
        "column {column:?} has type {kind}: integers have 1, 2, 4, 8 or 16 bytes, floating-point numbers 4 or 8, exact numbers 1 \
         to 38 digits, at most as many behind the point, texts 1 character or more, lists hold texts or values of fixed length \
         other than u8, and what is inside an array or a group has a fixed length"
    )]
    Type {
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
    /// A column's default is not a value of its type.
    #[error("the default {default} of column {column:?} is no {kind} that fits")]
    Default {
        /// The column.
        column: String,
        /// Its type.
        kind: String,
        /// The default.
        default: String,
    },
    /// An added column is neither nullable nor has a default.
    #[error(
        "column {column:?} is added, and earlier rows have no value there: make it nullable, or give it a default"
    )]
    NoDefault {
        /// The column.
        column: String,
    },
    /// A column is declared as older than another column that was added.
    #[error("column {column:?} stands behind one that was added: columns that are added come last")]
    AddedBefore {
        /// The column.
        column: String,
    },
    /// Rows have no room for more columns.
    #[error(
        "column {column:?} cannot be added while the table is in use, since its rows are compact: declare the column when the \
         database is opened"
    )]
    NotExtensible {
        /// The column.
        column: String,
    },
    /// The primary key is missing.
    #[error("it has no primary key: name its columns with `key`")]
    NoKey,
    /// A key has no columns, or its columns have no bytes.
    #[error("the key {index:?} has no bytes: name a column")]
    EmptyKey {
        /// The index.
        index: String,
    },
    /// A column cannot be part of a key.
    #[error("column {column:?} cannot be part of the key {index:?}: {fault}")]
    Key {
        /// The index.
        index: String,
        /// The column.
        column: String,
        /// The reason.
        fault: KeyFault,
    },
    /// A key is too long.
    #[error(
        "the key {index:?} has {bytes} bytes, the primary key's columns included where it is not unique, and at most \
         {KEY_BYTES_MAX} are possible: shorten its columns, or make a column of their hash and a key of that"
    )]
    KeyTooLong {
        /// The index.
        index: String,
        /// Bytes of its keys.
        bytes: usize,
    },
    /// A key has too many columns.
    #[error(
        "the key {index:?} has {columns} columns, the primary key's included where it is not unique, and at most \
         {KEY_COLUMNS_MAX} are possible"
    )]
    TooManyKeyColumns {
        /// The index.
        index: String,
        /// Their number.
        columns: usize,
    },
    /// A key is too long for a hash index.
    #[error(
        "keys of the hash index {index} have {bytes} bytes, more than {HASH_KEY_BYTES_MAX}: make it an ordered index"
    )]
    HashKeyTooLong {
        /// The index.
        index: String,
        /// Bytes of its keys.
        bytes: usize,
    },
    /// Rows are too long.
    #[error(
        "its rows have {bytes} bytes, and at most {ROW_BYTES_MAX} are possible: columns of no fixed length are not among them"
    )]
    RowTooLong {
        /// Bytes of a row's fixed part.
        bytes: usize,
    },
    /// There are too many indexes.
    #[error("it has {indexes} indexes, and at most {INDEXES_MAX} are possible, the primary key included")]
    TooManyIndexes {
        /// Their number, including the primary key.
        indexes: usize,
    },
    /// A constraint does not fit the table.
    #[error("constraint {name:?}: {reason}")]
    Constraint {
        /// The name of the constraint, or of the column whose values the engine makes.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The expected number of rows is too large.
    #[error("{rows} rows are expected, and at most {ROWS_EXPECTED_MAX} can be")]
    TooManyRows {
        /// Their number.
        rows: u64,
    },
}

/// Reason why a column cannot be part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The table has no such column.
    #[error("there are {known}")]
    Unknown {
        /// The columns of the table.
        known: String,
    },
    /// The key already contains the column.
    #[error("it is there twice")]
    Twice,
    /// The column is the whole tail.
    #[error("it is the whole tail; a column of a tail with a directory can be")]
    WholeTail,
    /// The column was added to a table with rows.
    #[error("it was added later, and is not in the part of the row that keys are made of")]
    Added,
    /// A column of the primary key is nullable.
    #[error("it is nullable, and every row has a primary key: an index can have nullable columns")]
    Nullable,
    /// Keys do not support the order of this type.
    #[error(
        "it has type {kind}; keys are made of numbers, bool, dates, times, intervals, UUIDs, texts, bytes and arrays of u8"
    )]
    Type {
        /// The type.
        kind: String,
    },
}

/// The first difference between two descriptions of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The part that differs.
    pub part: String,
    /// The existing table's form.
    pub found: String,
    /// The declared form.
    pub declared: String,
}

/// A table does not match a row type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rows of table {table} are not those of type {row}: {} is {}, the type has {}",
    difference.part, difference.found, difference.declared
)]
pub struct RowTypeError {
    /// The table.
    pub table: String,
    /// The type.
    pub row: &'static str,
    /// The first difference.
    pub difference: Difference,
}
