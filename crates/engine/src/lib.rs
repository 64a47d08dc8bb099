//! One instance of the database: typed rows, catalog, stored procedures and the executor that runs them.
//!
//! Some names stand for a thing of this crate, and for the same thing one layer below. A [`Session`] runs the transactions of
//! one worker until they end, with waiting, log and checkpoints; a `cc::Session` is the worker's place in an instance: core,
//! epoch, measurements. A [`Transaction`] is one attempt with verbs over typed rows; a `Scheme::Transaction` of `cc` is what the
//! scheme keeps for the attempt. [`Table`] and [`Index`] are typed names, small values without data; `storage::Table` and
//! `storage::Index` are the structures that hold rows and keys.

#![forbid(unsafe_code)]

// Derived rows name this crate.
#[cfg(test)]
extern crate self as engine;

mod branches;
mod changing;
mod column_set;
mod columns;
mod contention;
mod conversion;
mod converting;
mod copying;
mod database;
mod datum;
mod declaration;
pub mod description;
mod differences;
pub mod durable;
pub mod dynamic;
mod ending;
mod following;
mod foreign;
mod inline;
mod inspector;
pub mod key;
mod loader;
mod look_ahead;
mod open_branches;
mod parts;
pub mod procedure;
mod recovery;
pub mod routes;
pub mod row;
pub mod row_batch;
mod row_format;
mod row_keys;
pub mod schema;
mod session;
pub mod structures;
pub mod table;
pub mod table_limits;
mod table_list;
pub mod testing;
pub mod text;
pub mod transaction;
mod undecided;
mod value_type;
pub mod verbs;

pub use cc::Use;
pub use changing::{ChangeError, Swept};
pub use column_set::{ColumnSet, ConstantColumns, RowPart};
pub use contention::{Backoff, FIXED_PAUSE_NANOS, Pauses};
pub use converting::{ChangeStep, TableChange};
pub use database::Database;
pub use datum::Datum;
pub use declaration::{SchemaBuilder, TableDivision};
pub use description::{ColumnDescription, IndexDescription, TableBuilder, TableDescription};
pub use durable::{
    Decision, DurableOptions, GlobalId, OpenError, PartOf, Progress, Recovered, SchemaError, Stage,
};
pub use ending::{Bounds, Commit, Ending, Stats};
pub use inspector::{JointInspector, RowInspector, RowSource};
pub use key::{Key, KeyBuffer, key_words};
pub use loader::RowLoader;
pub use look_ahead::LookAhead;
pub use parts::{Outcome, Prepared, Vote};
pub use procedure::{Plan, Procedure};
pub use routes::{KeyRange, Route, Routes};
pub use row::{Column, Field, IndexId, IndexInfo, NullableField, Row, TailColumn, Value};
pub use row_derive::{Row, Value};
pub use row_format::{RowBytes, RowError};
pub use schema::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, TableOptions};
pub use session::Session;
pub use structures::Occupant;
pub use table::{Handle, Index, RowId, Table};
pub use table_limits::{RowTypeError, TableError, TableFault};
pub use terms::Epoch;
pub use text::{Text, TextError};
pub use transaction::Transaction;
pub use value_type::{UnknownType, ValueType};
pub use verbs::{Direction, Fields, Verbs, Visitor};
