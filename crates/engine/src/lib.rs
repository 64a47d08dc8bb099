//! One instance of the database: typed rows, catalog, stored procedures and the executor that runs
//! them.
//!
//! Some names stand for a thing of this crate, and for the same thing one layer below. A
//! [`Session`] runs the transactions of one worker until they end, with waiting, log and
//! checkpoints; a `concurrency::Session` is the worker's place in an instance: core, epoch, measurements. A
//! [`Transaction`] is one attempt with verbs over typed rows; a `Scheme::Transaction` of `concurrency` is
//! what the scheme keeps for the attempt. [`Table`] and [`Index`] are typed names, small values
//! without data; `storage::Table` and `storage::Index` are the structures that hold rows and keys.

#![forbid(unsafe_code)]

mod branches;
mod changing;
mod columns;
mod contention;
mod conversion;
mod converting;
mod copying;
mod database;
mod declaration;
pub mod durable;
pub mod dynamic;
mod ending;
mod following;
mod inline;
mod inspector;
mod loader;
mod look_ahead;
mod open_branches;
mod parts;
pub mod procedure;
mod recovery;
pub mod row_batch;
mod session;
pub mod structures;
mod table_list;
pub mod testing;
pub mod transaction;
mod undecided;
pub mod verbs;

pub use changing::{ChangeError, Swept};
pub use concurrency::Use;
pub use contention::{Backoff, FIXED_PAUSE_NANOS, Pauses};
pub use converting::{ChangeStep, TableChange};
pub use database::Database;
pub use declaration::{SchemaBuilder, TableDivision};
pub use durable::{
    Decision, DurableOptions, GlobalId, OpenError, PartOf, Progress, Recovered, SchemaError, Stage,
};
pub use ending::{Bounds, Commit, Ending, Stats};
pub use inspector::{JointInspector, RowInspector, RowSource};
pub use loader::RowLoader;
pub use look_ahead::LookAhead;
pub use parts::{Outcome, Prepared, Vote};
pub use procedure::{Plan, Procedure};
pub use session::Session;
pub use structures::Occupant;
pub use terms::Epoch;
pub use transaction::Transaction;
pub use verbs::{Direction, Fields, Verbs, Visitor};
