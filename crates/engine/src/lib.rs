//! One instance of the database: typed rows, catalog, stored procedures and the executor that runs them.

#![forbid(unsafe_code)]

// Derived rows name this crate.
#[cfg(test)]
extern crate self as engine;

mod columns;
mod contention;
mod copying;
mod database;
mod declaration;
pub mod durable;
mod ending;
mod inspector;
pub mod key;
mod loader;
pub mod procedure;
mod recovery;
pub mod row;
mod row_keys;
pub mod schema;
mod session;
pub mod structures;
pub mod table;
pub mod testing;
pub mod text;
pub mod transaction;
pub mod verbs;

pub use database::Database;
pub use declaration::SchemaBuilder;
pub use durable::{DurableOptions, OpenError, Progress, Recovered, SchemaError, Stage};
pub use ending::{Bounds, Commit, Ending, Stats};
pub use inspector::RowInspector;
pub use key::{Key, KeyBuffer};
pub use loader::RowLoader;
pub use procedure::{Plan, Procedure, Route};
pub use row::{Column, Field, IndexId, IndexInfo, Row, Value, ValueType};
pub use row_derive::{Row, Value};
pub use schema::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, TableOptions};
pub use session::Session;
pub use storage::Epoch;
pub use structures::Occupant;
pub use table::{Handle, Index, RowId, Table};
pub use text::Text;
pub use transaction::erased::ErasedVerbs;
pub use transaction::{Prepared, Transaction};
pub use verbs::{Direction, Verbs, Visitor};
