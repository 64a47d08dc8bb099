//! Errors of rows: values that do not fit, bytes that are no row, and rules that a row breaks.

use terms::rows::TAIL_BYTES_MAX;

use crate::key::KEY_BYTES_MAX;

/// Error of encoding or decoding a row by a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The number of values is not the number of columns.
    #[error("{values} values for the {columns} columns of table {table:?}")]
    Count {
        /// The table.
        table: String,
        /// Values.
        values: usize,
        /// Columns.
        columns: usize,
    },
    /// A column that is not nullable has no value.
    #[error("column {column:?} of table {table:?} is not nullable: give it a value")]
    Null {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A value of another type.
    #[error("{value} is no {kind}: column {column:?} of table {table:?}; give it {cure}")]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        kind: String,
        /// The value, or its start.
        value: String,
        /// Values that fit.
        cure: &'static str,
    },
    /// A value that is too long, too short or out of range.
    #[error("{value} does not fit into {kind}: column {column:?} of table {table:?}; {cure}")]
    Range {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        kind: String,
        /// The value, or its start.
        value: String,
        /// Values that fit.
        cure: &'static str,
    },
    /// The columns in the tail are too long together.
    #[error(
        "a row of table {table:?} has {bytes} bytes in its tail, and at most {TAIL_BYTES_MAX} are possible"
    )]
    TailTooLong {
        /// The table.
        table: String,
        /// Bytes.
        bytes: usize,
    },
    /// A key with columns of variable length is too long.
    #[error(
        "a row of table {table:?} has a key of {bytes} bytes in index {index:?}, with a byte more for the end of each column of \
         variable length and for each byte 0 or 1 there, and at most {KEY_BYTES_MAX} are possible"
    )]
    KeyTooLong {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// Bytes of the key.
        bytes: usize,
    },
    /// A generated column has no value.
    #[error("table {table:?}: {violation}")]
    Rule {
        /// The table.
        table: String,
        /// The column and the reason.
        violation: Box<Violation>,
    },
    /// The bytes are not a row of the table.
    #[error("the bytes of a row of table {table:?} are not what its description says: column {column:?}")]
    Damaged {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
}

/// The kind of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// A column without a value.
    NotNull,
    /// A condition that is false.
    Check,
    /// A reference to no row, or from rows that are there.
    ForeignKey,
    /// A generated column without a value that fits.
    Generated,
}

/// A row that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("constraint {constraint:?}: {reason}")]
pub struct Violation {
    /// The name of the constraint; for a generated column the name of the column.
    pub constraint: String,
    /// The kind of constraint.
    pub kind: ConstraintKind,
    /// The rule, and the values that break it.
    pub reason: String,
}

/// A row that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It breaks a rule.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A value does not fit.
    #[error(transparent)]
    Row(#[from] RowError),
}
