//! Schemas: types of values, keys and rows, descriptions of tables, and the byte format of rows.
//! This crate contains no engine.
//!
//! A program declares a table by a row type (`#[derive(Row)]`, module [`row`]) or by a description
//! at run time ([`TableBuilder`]). Both lead to the same [`TableDescription`], and their rows have
//! the same bytes ([`RowBytes`]).
//!
//! - `value_type`, `datum`, `value_error`: types of columns, values whose type is known at run
//!   time, and errors of texts and numbers that are no values;
//! - `text_form`, `casts`: values from and to texts, and to other types;
//! - `text`, `bounded`, `json_text`, `decimal`, `temporal`, `uuid`: types of values: texts, exact
//!   numbers, dates and times, identifiers;
//! - `key`, `long_key`, `key_order`: keys in normalized form, which sort by their bytes, short and
//!   long ones, and the orders of their columns;
//! - `row`, `tail_value`, `column_set`, `foreign`: typed rows, their values of variable length,
//!   sets of their columns, and types that are stored as others;
//! - `description`, `keys_of_table`, `stored`, `differences`, `renaming`, `table_limits`:
//!   descriptions of tables, their keys, descriptions read from files, differences between two
//!   descriptions, other names, and limits;
//! - `row_format`, `row_error`, `row_keys`, `key_columns`: the byte format of rows, errors of rows,
//!   the keys of a row, and the bytes by which logs name rows;
//! - `expression`, `evaluation`: expressions over the columns of a row;
//! - `constraints`, `rules`, `references`: constraints as values, the rules for each row, and keys
//!   by which rows refer to others;
//! - `table`, `declaring`: typed handles of tables, and the traits by which a program declares,
//!   fills and inspects them;
//! - `routes`: the ranges of keys that an action reads and writes.

#![forbid(unsafe_code)]

// Derived rows refer to this crate by name.
#[cfg(test)]
extern crate self as schema;

mod bounded;
mod casts;
mod column_set;
mod constraints;
mod datum;
mod decimal;
mod declaring;
pub mod description;
mod differences;
mod evaluation;
mod expression;
mod foreign;
mod json_text;
pub mod key;
mod key_columns;
pub mod key_order;
mod keys_of_table;
pub mod long_key;
mod references;
mod renaming;
pub mod routes;
pub mod row;
mod row_error;
mod row_format;
pub mod row_keys;
mod rules;
mod stored;
pub mod table;
pub mod table_limits;
mod tail_value;
mod temporal;
pub mod text;
mod text_form;
mod uuid;
mod value_error;
mod value_type;

pub use self::uuid::Uuid;
pub use bounded::{Char, VarChar};
pub use column_set::{ColumnSet, ConstantColumns, OTHER_COLUMN, RowPart, extent};
pub use constraints::{Check, Constraints, ForeignAction, ForeignKey};
pub use datum::{Datum, Misfit};
pub use decimal::{Decimal, Numeric};
pub use declaring::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, TableOptions};
pub use description::{ColumnDescription, IndexDescription, TableBuilder, TableDescription};
pub use expression::{Arithmetic, Comparison, Expression};
pub use json_text::JsonText;
pub use key::{Key, KeyBuffer, KeySink, key_words};
pub use key_columns::{KeyColumns, KeyPlace};
pub use key_order::{DistinctNulls, KeyColumn, KeyOrder, NullsFirst};
pub use long_key::AnyKey;
pub use references::BoundForeignKey;
pub use routes::{KeyRange, Route, Routes};
pub use row::{Column, Field, IndexId, IndexInfo, NullableField, Row, TailColumn, Value};
pub use row_derive::{Row, Value};
pub use row_error::{ConstraintKind, RowError, RuleError, Violation};
pub use row_format::{RowBytes, TAIL_BYTES_MAX, tails_agree};
pub use rules::RowRules;
pub use stored::{StoredIndex, StoredTable};
pub use table::{Handle, Index, RowId, Table};
pub use table_limits::{RowTypeError, TableError, TableFault};
pub use tail_value::TailValue;
pub use temporal::{Date, Interval, Time, Timestamp, TimestampTz};
pub use text::{Text, TextError};
pub use value_error::ValueError;
pub use value_type::{UnknownType, ValueType};
