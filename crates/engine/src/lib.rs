//! The memory engine: typed rows in memory, stored procedures, durability, recovery.
//!
//! It implements the [boundary] of storage managers, over the schemes of `concurrency` and the
//! indexes of `storage`. Procedures can also be compiled in one piece with the engine
//! ([`MemorySession::run`]).
//!
//! Some names stand for a thing of this crate, and for the same thing one layer below. A
//! [`MemorySession`] runs the transactions of one worker until they end, with waiting, log and
//! checkpoints. A [`Transaction`] is one attempt with verbs over typed rows; a
//! `Scheme::Transaction` of `concurrency` is the state of a scheme for the attempt.
//!
//! - `tables/`: the list of tables, and both forms of a table that changes;
//! - `durable/`: changes of rows as bytes, records of commits, checkpoints,
//!   [checks](durable::content) of directories;
//! - `transaction/`: one attempt: begin, verbs, commit; `announced`: keys that will be looked up;
//!   `following`: a transaction that keeps both forms of a table; `altering`, `adding`: a
//!   transaction that changes tables, and further tables;
//! - `participants/`: prepared parts of transactions over several databases, branches of owners;
//! - `session/`: attempts until a transaction ends; copies of rows for checkpoints;
//! - `database`: tables, sessions, opening and closing; `structures`: names of lines for reports;
//! - `online_change/`: tables are created, dropped and changed while sessions work;
//! - `recovery/`: opens a directory: reads its log, fills tables, prepares parts in doubt again;
//! - `dynamic/`: the objects of the boundary; [`instances`]: databases under a scheme that is named
//!   at run time;
//! - [`testing`]: executors and observers for tests.

#![forbid(unsafe_code)]

mod database;
pub mod durable;
mod dynamic;
mod inline;
mod inspector;
pub mod instances;
mod look_ahead;
mod online_change;
mod participants;
mod recovery;
mod session;
mod structures;
mod tables;
pub mod testing;
pub mod transaction;

pub use database::MemoryDatabase;
pub use participants::parts::Prepared;
pub use session::MemorySession;
pub use transaction::Transaction;
