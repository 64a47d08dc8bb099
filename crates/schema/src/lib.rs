//! Schemas: types of values, keys and rows, descriptions of tables, and the format of rows in
//! bytes. No engine.
//!
//! A program declares a table by a row type (`#[derive(Row)]`, module [`row`]) or by a description
//! at run time ([`TableBuilder`]). Both give the same [`TableDescription`], and rows of both have
//! the same bytes ([`RowBytes`]).
//!
//! - `value_type`, `datum`, `text`: types of columns, and values whose type is known at run time;
//! - `key`: keys in normalized form, whose order is that of their bytes;
//! - `row`, `column_set`, `foreign`: typed rows, their columns, and types of other crates as
//!   columns;
//! - `description`, `stored`, `differences`, `table_limits`: what a table is, as a file says it,
//!   how two descriptions differ, and the bounds;
//! - `row_format`, `row_keys`: rows in bytes, and the keys of a row;
//! - `table`, `declaring`: typed names of tables, and how a program declares, fills and inspects
//!   them;
//! - `routes`: the ranges of keys that an action reads and writes.

#![forbid(unsafe_code)]

// Derived rows name this crate.
#[cfg(test)]
extern crate self as schema;

mod column_set;
mod datum;
mod declaring;
pub mod description;
mod differences;
mod foreign;
pub mod key;
pub mod routes;
pub mod row;
mod row_format;
pub mod row_keys;
mod stored;
pub mod table;
pub mod table_limits;
pub mod text;
mod value_type;

pub use column_set::{ColumnSet, ConstantColumns, OTHER_COLUMN, RowPart, extent};
pub use datum::{Datum, Misfit};
pub use declaring::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, TableOptions};
pub use description::{ColumnDescription, IndexDescription, TableBuilder, TableDescription};
pub use key::{Key, KeyBuffer, key_words};
pub use routes::{KeyRange, Route, Routes};
pub use row::{Column, Field, IndexId, IndexInfo, NullableField, Row, TailColumn, Value};
pub use row_derive::{Row, Value};
pub use row_format::{RowBytes, RowError, TAIL_BYTES_MAX};
pub use stored::{StoredIndex, StoredTable};
pub use table::{Handle, Index, RowId, Table};
pub use table_limits::{RowTypeError, TableError, TableFault};
pub use text::{Text, TextError};
pub use value_type::{UnknownType, ValueType};
