//! Errors of statements: SQLSTATE, message, and the place in the text.

use std::fmt;

use isles::ConstraintKind;

/// Result of this crate's calls.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// Codes of errors (SQLSTATE).
pub mod state {
    /// A value is cut.
    pub const STRING_TOO_LONG: &str = "22001";
    /// A number is out of range.
    pub const OUT_OF_RANGE: &str = "22003";
    /// A date or time that there is not.
    pub const DATETIME: &str = "22007";
    /// A division by zero.
    pub const DIVISION_BY_ZERO: &str = "22012";
    /// A limit, an offset or a parameter out of range.
    pub const INVALID_PARAMETER: &str = "22023";
    /// A text is no value of a type.
    pub const INVALID_TEXT: &str = "22P02";
    /// Binary data are no value of a type.
    pub const INVALID_BINARY: &str = "22P03";
    /// Malformed data of a COPY.
    pub const BAD_COPY: &str = "22P04";
    /// A null in a column that has none.
    pub const NOT_NULL: &str = "23502";
    /// A reference to nothing.
    pub const FOREIGN_KEY: &str = "23503";
    /// A key that is taken.
    pub const UNIQUE: &str = "23505";
    /// A check that is false.
    pub const CHECK: &str = "23514";
    /// A second BEGIN.
    pub const ACTIVE_TRANSACTION: &str = "25001";
    /// A change in a transaction that only reads.
    pub const READ_ONLY: &str = "25006";
    /// No transaction.
    pub const NO_TRANSACTION: &str = "25P01";
    /// The transaction has failed.
    pub const FAILED_TRANSACTION: &str = "25P02";
    /// No such prepared statement.
    pub const NO_STATEMENT: &str = "26000";
    /// No such portal or cursor.
    pub const NO_CURSOR: &str = "34000";
    /// No such savepoint.
    pub const NO_SAVEPOINT: &str = "3B001";
    /// No such schema.
    pub const NO_SCHEMA: &str = "3F000";
    /// A conflict.
    pub const SERIALIZATION: &str = "40001";
    /// Unknown outcome.
    pub const UNKNOWN_OUTCOME: &str = "40003";
    /// A wrong statement.
    pub const SYNTAX: &str = "42601";
    /// An ambiguous column.
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    /// No such column.
    pub const NO_COLUMN: &str = "42703";
    /// No such function or operator.
    pub const NO_FUNCTION: &str = "42883";
    /// No such type or object.
    pub const NO_OBJECT: &str = "42704";
    /// The user may not do this.
    pub const PRIVILEGE: &str = "42501";
    /// No such table.
    pub const NO_TABLE: &str = "42P01";
    /// No such parameter.
    pub const NO_PARAMETER: &str = "42P02";
    /// A table of this name exists.
    pub const DUPLICATE_TABLE: &str = "42P07";
    /// A column of this name exists.
    pub const DUPLICATE_COLUMN: &str = "42701";
    /// A statement or portal of this name exists.
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    /// An object of this name exists.
    pub const DUPLICATE_OBJECT: &str = "42710";
    /// A cursor of this name exists.
    pub const DUPLICATE_CURSOR: &str = "42P03";
    /// Types do not fit each other.
    pub const TYPE_MISMATCH: &str = "42804";
    /// A value cannot become one of another type.
    pub const CANNOT_COERCE: &str = "42846";
    /// A column outside of groups and aggregates.
    pub const GROUPING: &str = "42803";
    /// A reference to columns that are no key.
    pub const INVALID_FOREIGN_KEY: &str = "42830";
    /// A wrong definition of a table.
    pub const INVALID_TABLE: &str = "42P16";
    /// No unique index for ON CONFLICT.
    pub const NO_CONFLICT_TARGET: &str = "42P10";
    /// A parameter whose type is not known.
    pub const INDETERMINATE_TYPE: &str = "42P18";
    /// Something that is not there yet.
    pub const NOT_SUPPORTED: &str = "0A000";
    /// A subquery has several rows.
    pub const CARDINALITY: &str = "21000";
    /// Memory.
    pub const OUT_OF_MEMORY: &str = "53200";
    /// Connections.
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    /// A limit of the server.
    pub const TOO_COMPLEX: &str = "54001";
    /// Too much of something.
    pub const LIMIT: &str = "54000";
    /// Something is in use.
    pub const IN_USE: &str = "55006";
    /// Another object depends on this one.
    pub const DEPENDENT: &str = "2BP01";
    /// A lock was not free in time.
    pub const LOCK: &str = "55P03";
    /// The user cancelled.
    pub const CANCELLED: &str = "57014";
    /// An input or output error.
    pub const IO: &str = "58030";
    /// Something that cannot be.
    pub const INTERNAL: &str = "XX000";
}

/// Error of a statement, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// SQLSTATE.
    pub code: &'static str,
    /// Message in one line.
    pub message: String,
    /// More about the cause.
    pub detail: Option<Box<str>>,
    /// Advice.
    pub hint: Option<Box<str>>,
    /// Table, for errors of constraints.
    pub table: Option<Box<str>>,
    /// Constraint, for errors of constraints.
    pub constraint: Option<Box<str>>,
    /// Line and column in the statement, from 1 on.
    pub place: Option<(u32, u32)>,
    /// True if the same transaction may succeed when it is tried again.
    pub is_conflict: bool,
}

impl SqlError {
    /// Returns an error with a code and a message.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        SqlError {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            table: None,
            constraint: None,
            place: None,
            is_conflict: false,
        }
    }

    /// Returns the error for something that the server does not have.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        SqlError::new(state::NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Adds a place, if there is none yet.
    #[must_use]
    pub fn at(mut self, span: sqlparser::tokenizer::Span) -> Self {
        if self.place.is_none() && span.start.line > 0 {
            self.place = Some((span.start.line as u32, span.start.column as u32));
        }
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// Adds more about the cause.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into().into_boxed_str());
        self
    }

    /// Returns the number of the character in `text` at which the error is, from 1 on.
    pub fn position(&self, text: &str) -> Option<usize> {
        let (line, column) = self.place?;
        let before = text.split_inclusive('\n').take(line as usize - 1);
        Some(before.map(|line| line.chars().count()).sum::<usize>() + column as usize)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for SqlError {}

impl From<isles::Error> for SqlError {
    fn from(error: isles::Error) -> Self {
        let text = error.to_string();
        match error {
            isles::Error::Conflict { .. } => SqlError {
                is_conflict: true,
                ..SqlError::new(
                    state::SERIALIZATION,
                    "could not serialize access due to a conflict with another transaction",
                )
            }
            .detail(text)
            .hint("The transaction might succeed if retried."),
            isles::Error::Duplicate { table, index, key } => duplicate(table, index, key),
            isles::Error::Constraint { table, constraint, kind, reason } => {
                broken(table, constraint, kind, reason)
            }
            isles::Error::OutOfMemory { .. } => SqlError::new(state::OUT_OF_MEMORY, text),
            isles::Error::TooManySessions { .. } => SqlError::new(state::TOO_MANY_CONNECTIONS, text),
            isles::Error::Deadline | isles::Error::Cancelled => {
                SqlError::new(state::CANCELLED, "canceling statement due to user request")
            }
            isles::Error::LockTimeout { .. } => {
                SqlError::new(state::LOCK, "canceling statement due to lock timeout").detail(text)
            }
            isles::Error::DurabilityUnknown => SqlError::new(state::UNKNOWN_OUTCOME, text),
            isles::Error::NotDurable(_) | isles::Error::Storage(_) => SqlError::new(state::IO, text),
            isles::Error::NoSuchTable(_) => SqlError::new(state::NO_TABLE, text),
            isles::Error::Declaration { .. } => SqlError::new(state::INVALID_TABLE, text),
            isles::Error::NotChanged { .. } => SqlError::new(state::IN_USE, text),
            isles::Error::SequenceEnd { .. } => SqlError::new("2200H", text),
            isles::Error::StaleSavepoint => SqlError::new(state::NO_SAVEPOINT, text),
            isles::Error::TooLarge { .. } => SqlError::new(state::LIMIT, text),
            isles::Error::Row(_) => SqlError::new(state::OUT_OF_RANGE, text),
            _ => SqlError::new(state::INTERNAL, text),
        }
    }
}

/// Returns the name that a table of the engine has in SQL.
fn sql_name(engine: &str) -> &str {
    engine.split_once('#').map_or(engine, |(name, _)| name)
}

fn duplicate(table: String, index: String, key: Option<String>) -> SqlError {
    let table = sql_name(&table).to_owned();
    let name = if index == "primary key" { format!("{table}_pkey") } else { index };
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    let error = SqlError::new(state::UNIQUE, message);
    let error = match key {
        Some(key) => error.detail(format!("Key ({key}) already exists.")),
        None => error,
    };
    SqlError { table: Some(table.into()), constraint: Some(name.into()), ..error }
}

fn broken(table: String, constraint: String, kind: ConstraintKind, reason: String) -> SqlError {
    let table = sql_name(&table).to_owned();
    let (code, message) = match kind {
        ConstraintKind::NotNull => (
            state::NOT_NULL,
            format!(
                "null value in column \"{constraint}\" of relation \"{table}\" violates not-null constraint"
            ),
        ),
        ConstraintKind::ForeignKey => (
            state::FOREIGN_KEY,
            format!("a change of table \"{table}\" violates foreign key constraint \"{constraint}\""),
        ),
        _ => (
            state::CHECK,
            format!("new row for relation \"{table}\" violates check constraint \"{constraint}\""),
        ),
    };
    let error = SqlError::new(code, message).detail(reason);
    SqlError { table: Some(table.into()), constraint: Some(constraint.into()), ..error }
}
