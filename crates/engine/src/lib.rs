//! One instance of the database: typed rows, catalog, stored procedures and the executor that runs
//! them.
//!
//! Some names stand for a thing of this crate, and for the same thing one layer below. A
//! [`Session`] runs the transactions of one worker until they end, with waiting, log and
//! checkpoints; a `concurrency::WorkerContext` is the worker's place in an instance: core, epoch, measurements. A
//! [`Transaction`] is one attempt with verbs over typed rows; a `Scheme::Transaction` of `concurrency` is
//! what the scheme keeps for the attempt. [`Table`] and [`Index`] are typed names, small values
//! without data; `storage::Table` and `storage::Index` are the structures that hold rows and keys.

#![forbid(unsafe_code)]

mod changing;
mod columns;
mod conversion;
mod converting;
mod copying;
mod database;
pub mod durable;
mod dynamic;
mod following;
mod inline;
mod inspector;
pub mod instances;
mod look_ahead;
mod open_branches;
mod parts;
mod recovery;
mod session;
mod structures;
mod table_list;
pub mod testing;
pub mod transaction;
mod undecided;

pub use database::MemoryDatabase;
pub use parts::Prepared;
pub use session::MemorySession;
pub use transaction::Transaction;
