//! Isles, embedded: serializable transactions over typed rows, in the memory of your program.
//!
//! # Quick start
//!
//! ```
//! use isles::{Database, Row, Text, text};
//!
//! // A row type: a primary key, and as many indexes as are needed (up to 8).
//! #[derive(Row, Clone, Debug, PartialEq)]
//! #[row(key(id), unique_index(by_owner(owner)))]
//! struct Account {
//!     id: u64,
//!     owner: Text<16>, // up to 16 bytes of text, in place
//!     balance: i64,
//! }
//!
//! # fn main() -> isles::Result<()> {
//! // Declare the tables, then open the database.
//! let mut builder = Database::in_memory();
//! let accounts = builder.table::<Account>("accounts");
//! let database = builder.open()?;
//!
//! // One session a thread.
//! let mut session = database.session()?;
//! session.transaction(|t| {
//!     t.insert(accounts, &Account { id: 1, owner: text!("ada"), balance: 70 })?;
//!     t.insert(accounts, &Account { id: 2, owner: text!("ben"), balance: 30 })
//! })?;
//!
//! // Both changes happen, or none.
//! let left = session.transaction(|t| {
//!     t.update(accounts, &2, |account| account.balance += 20)?;
//!     t.update(accounts.by(Account::BY_OWNER), &text!("ada"), |account| {
//!         account.balance -= 20;
//!         account.balance
//!     })
//! })?;
//! assert_eq!(left, Some(50));
//!
//! // One field, and a range.
//! session.transaction(|t| {
//!     assert_eq!(t.get_field(accounts, &2, Account::BALANCE)?, Some(50));
//!     let total: i64 = t.scan(accounts, ..).collect()?.iter().map(|account| account.balance).sum();
//!     assert_eq!(total, 100);
//!     Ok(())
//! })
//! # }
//! ```
//!
//! The guide `docs/embedding.md` goes on from here, `docs/coming-from.md` has the calls of redb,
//! fjall and rusqlite beside these; `examples/` has a bank, a queue, an inventory and a server.
//!
//! # Rows
//!
//! `#[derive(Row)]` takes a struct with named fields: integers of 1 to 16 bytes, floats, `bool`,
//! [`Text`], arrays of these, types with `#[derive(Value)]` (structs, structs around one value,
//! enums without fields), `Option`s of all these, and `String`, `Vec<u8>` and their `Option`s, of
//! any length. With the features `time` and `uuid`, types of these crates are values too. Its
//! attributes are `#[row(key(..), index(name(..)), unique_index(name(..)))]`. The derive adds a
//! constant for each field of fixed length (`Account::BALANCE`), for each index
//! (`Account::BY_OWNER`), and `KEY`. Keys have up to 8 columns and 64 bytes, of fixed length and
//! without options. Keys of an index that is not unique are completed with the primary key, so a
//! complete key always names one row; a [`prefix`] names many rows.
//!
//! A program that calls this crate by another name says so:
//! `#[row(crate = name::schema, key(..))]`.
//!
//! # What is guaranteed
//!
//! | | |
//! | --- | --- |
//! | Atomicity | A transaction happens completely, or leaves nothing behind: after every [`Error`], after an error of your own, after a panic |
//! | Isolation | Serializable, phantoms included: until the commit no row appears in a range that was scanned, or under a key that was missing |
//! | Decisions | A commit counts only if what the transaction read was current; the same holds for an error that your closure returns |
//! | Durability | [`Database::at`]: what a call returns is on disk, and so is what its error follows from, unless [`Durability`] says otherwise. [`Database::in_memory`]: all rows end with the process |
//! | Memory | Rows and indexes never take more than [`Builder::memory_limit`]; a transaction that needs more gets [`Error::OutOfMemory`]. An opening of [`Database::at`] after a crash also has the log in memory, for as long as it reads it |
//! | Time | Attempts and time of a transaction are bounded ([`TransactionOptions`]); a [`CancelToken`] ends a transaction earlier |
//!
//! # Errors
//!
//! | error | when | then |
//! | --- | --- | --- |
//! | [`Error::Conflict`] | other transactions were in the way in all attempts | try later; touch fewer rows that all transactions touch |
//! | [`Error::Duplicate`] | the named key is taken in the named table and index | use another key; for the primary key perhaps [`Transaction::upsert`] |
//! | [`Error::OutOfMemory`] | the memory limit, or the machine's memory, is used up | delete rows, or raise the limit |
//! | [`Error::Deadline`] | the time is over | allow more, or split the transaction |
//! | [`Error::Cancelled`] | the token was set | nothing: your program set it |
//! | [`Error::DurabilityUnknown`] | committed, but not on disk when the time was over | do not repeat the transaction: read what is there |
//! | [`Error::Nested`] | a transaction in the closure of another of the same database | use the transaction that the closure is given |
//! | [`Error::Forked`] | another process opened the database, and this one was forked from it | use it there, or open one after the fork |
//! | [`Error::TooLarge`] | more than about a million rows in one transaction | split it |
//! | [`Error::TooManySessions`] | all sessions are in use | drop a session, or allow more: [`Builder::sessions`] |
//! | [`Error::InUse`] | `close` while other handles are there, which the error counts by kind | drop them, and close the last one |
//! | [`Error::Backup`] | a directory cannot be copied | the text names the file, and says why |
//! | [`Error::NotChanged`] | the rows of a table do not get the form that was asked for | the text says what is in the way |
//! | [`Error::NoSnapshots`] | a snapshot under a scheme that keeps no versions | [`Scheme::Mvcc`], or a transaction |
//! | [`Error::NotCompiled`] | a scheme that the program is built without | the feature `all-schemes`, or another scheme |
//! | [`Error::Text`] | a text is longer than its [`Text`] column | shorten it, or use a `String` |
//! | [`Error::Misuse`], [`Error::Declaration`], [`Error::NoSuchTable`], [`Error::Row`] | a bug of the program | the text says which |
//! | [`Error::RollBack`] | your closure returned it | nothing: everything is undone |
//!
//! # Threads
//!
//! A [`Database`] is a handle: clone it into each thread. A [`Session`] serves one thread at a
//! time; it has the database with it, so it can be kept in a struct, and sent to another thread.
//! [`OwnedTransaction`]s can too. [`Table`]s are small values to copy. The threads that call the
//! library do its work, and it pins none of them. A database in a directory has a few threads of
//! its own besides, named `files`, that make system calls for whoever does not wait for them, and
//! sleep otherwise; one in memory has none, and a [`Deployment`] has one for each worker. Between
//! transactions a session holds nothing up.
//!
//! A database belongs to the process that opened it. A child of `fork` gets [`Error::Forked`] from
//! every call; what it drops does no harm. Inside a transaction, however long, the session keeps
//! the memory of rows deleted meanwhile from being used again, and holds up other transactions that
//! need what it has read or written.
//!
//! # Layers
//!
//! [`Session`], [`Transaction`], [`Table`] and [`Index`] of this library stand on those of the same
//! names in `engine`, which programs do not see. This library's types do not name the scheme, check
//! that a table belongs to the database at hand, and return an [`Error`] for every wrong use; the
//! engine's types are generic over platform and scheme, and serve workloads that are compiled with
//! them.
//!
//! # Schemes
//!
//! [`Builder::scheme`] chooses the concurrency control when the program runs: [`Scheme::Silo`],
//! which is optimistic, [`Scheme::Mvcc`], which is too and has snapshots, and [`Scheme::NoWait`],
//! which locks. Types do not name the scheme. The choice costs one indirect call for each verb, and
//! saves every program from compiling the engine for each of its row types and schemes.
//!
//! # Features
//!
//! | | |
//! | --- | --- |
//! | `all-schemes` | five more schemes: [`Scheme`] has them all, and without the feature opening a database under one of the five is [`Error::NotCompiled`]. A program takes a fifth longer to build with them |
//! | `time`, `uuid` | types of these crates as columns and keys |
//!
//! None is on unless asked for.

#![forbid(unsafe_code)]

mod attempt;
mod backup;
mod builder;
mod changing;
mod check;
mod converting;
mod database;
mod deployment;
mod described;
mod durably;
mod error;
mod event;
mod existing;
mod latency;
mod ledger;
mod memory_pauses;
mod nesting;
mod on_disk;
mod open;
mod options;
mod own;
mod owned;
mod range;
mod rows;
mod scan;
mod select;
mod session;
mod shared;
mod statistics;
mod table;
mod ticket;
mod transaction;
mod upkeep;
mod waiting;

pub use attempt::Transaction;
pub use backup::{Backup, copy_directory};
pub use boundary::{Progress as OpenProgress, Stage as OpenStage, Stats};
pub use builder::{
    Builder, MEMORY_LIMIT_DEFAULT, SESSIONS_DEFAULT, SESSIONS_MAX, SPARE_TABLES_DEFAULT, SPARE_TABLES_MAX,
};
pub use check::Check;
pub use converting::TableChange;
pub use database::{Database, Scheme};
pub use deployment::{Deployment, DeploymentBuilder, Division, NoProcedure, Procedure, copy_deployment};
pub use distributed::messages::MESSAGE_BYTES_MAX;
pub use error::{Cause, Conflict, Error, OpenReason, Result};
pub use event::{Event, SLOW_DEFAULT};
pub use latency::Latencies;
pub use on_disk::{BlockingJob, OnDisk};
pub use open::OpenTransaction;
pub use options::{ATTEMPTS_DEFAULT, CancelToken, DEADLINE_DEFAULT, Durability, TransactionOptions};
pub use owned::OwnedTransaction;
pub use range::{KeyRange, NormalizedRange, Prefix, Prefixes, prefix, prefixes};
/// Makes a row type of a struct: see [the rows](crate#rows).
pub use row_derive::EmbeddedRow as Row;
/// Makes a group of columns of a struct: see [the rows](crate#rows).
pub use row_derive::EmbeddedValue as Value;
pub use rows::{Only, Rows, Shown, Whole};
pub use scan::Scan;
pub use schema::row::{Field, IndexId, NullableField, Row, Value};
pub use schema::{
    ColumnDescription, Datum, IndexDescription, Key, RowError, TableDescription, Text, TextError, ValueType,
    text,
};
pub use select::{Assign, Select};
pub use session::{Session, SessionWith};
pub use statistics::{
    ConflictStatistics, LogStatistics, MemoryStatistics, Statistics, TransactionStatistics,
};
pub use table::{Index, Lookup, Table, TableOptions};
pub use ticket::Ticket;

/// For the code that the derives generate: no part of the interface.
#[doc(hidden)]
pub use ::schema;

/// The guide for users of the library: its programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
pub struct Guide;

/// Calls of other libraries beside those of this one: its programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/coming-from.md")]
pub struct ComingFrom;

/// The README of the project: its program is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadMe;
