//! Durability of a database: commits go to a [log](redo_log), and are found there when the
//! database is opened again.
//!
//! A commit leaves a record: [the changes](concurrency::Redo::redo) in the encoding (`codec`) that
//! the row types give, with its stamp. The caller decides when to acknowledge the commit:
//! [`crate::MemorySession::is_durable`] and [`crate::MemorySession::wait_durable`] are given what
//! the commit depends on. The same holds for the outcome of a transaction that did not commit, if
//! the outcome follows from what the transaction read.
//!
//! The directory also says what its [tables](boundary::directory::description) are, so that a
//! program may change its tables from one opening to the next, and that tools know what
//! [rows](content) there are. How a directory is opened is in `recovery/`.

pub(crate) mod change_stream;
pub(crate) mod checkpoint;
pub(crate) mod codec;
pub mod content;
pub(crate) mod global;
pub(crate) mod journal;
pub(crate) mod layout;
mod redo;
pub(crate) mod tables;

pub(crate) use redo::{Durable, RedoWriter, not_durable};
