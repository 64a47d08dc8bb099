//! Durability of a database: its commits go to a [log](storage::log), and are found there when it is opened again.
//!
//! A commit leaves a record: [the changes](cc::Scheme::redo) in the [encoding](codec) that the row types give, with its stamp.
//! When it may be acknowledged is up to whoever runs transactions: [`crate::Session::is_durable`] and
//! [`crate::Session::wait_durable`] take what it depends on. The same holds for the outcome of a transaction that did not
//! commit, if it follows from what it read.
//!
//! The directory also says what its [tables](description) are, so that those of a program may change from one opening to the
//! next, and that tools know what [rows](content) there are.

pub(crate) mod checkpoint;
pub(crate) mod codec;
pub mod content;
pub mod description;
pub(crate) mod journal;
pub(crate) mod layout;
mod options;
mod redo;
pub(crate) mod tables;
mod wire;

pub use options::{DurableOptions, OpenError, Progress, Recovered, Stage};
pub(crate) use redo::{Durable, RedoWriter, not_durable};
pub(crate) use tables::DeclaredTable;
pub use tables::SchemaError;
