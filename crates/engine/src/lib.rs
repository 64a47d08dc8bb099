//! One instance of the database: typed rows, catalog, stored procedures and the executor that runs them.

#![forbid(unsafe_code)]

// Derived rows name this crate.
#[cfg(test)]
extern crate self as engine;

mod columns;
mod contention;
pub mod database;
mod declaration;
pub mod durable;
pub mod key;
pub mod procedure;
pub mod row;
pub mod schema;
pub mod structures;
pub mod table;
pub mod testing;
pub mod text;
pub mod transaction;
pub mod verbs;

pub use database::{Commit, Database, Ending, Quiet, RowLoader, Session, Stats};
pub use declaration::SchemaBuilder;
pub use durable::{DurableOptions, OpenError, Progress, Recovered, SchemaError, Stage};
pub use key::{Key, KeyBuffer};
pub use procedure::{Plan, Procedure, Route};
pub use row::{Column, Field, IndexId, IndexInfo, Row, Value, ValueType};
pub use row_derive::{Row, Value};
pub use schema::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, TableOptions};
pub use storage::Epoch;
pub use structures::Occupant;
pub use table::{Handle, Index, RowId, Table};
pub use text::Text;
pub use transaction::erased::ErasedVerbs;
pub use transaction::{Bounds, Prepared, Transaction};
pub use verbs::{Direction, Verbs, Visitor};
