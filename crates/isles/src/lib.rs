//! Isles, embedded: serializable transactions over typed rows, in the memory of your program.
//!
//! # Quick start
//!
//! ```
//! use isles::{Database, Row, Text, text};
//!
//! // A row type: a primary key, and as many indexes as are needed (up to 16).
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
//! The guide `docs/embedding.md` continues from here. `docs/coming-from.md` shows the calls of
//! redb, fjall and rusqlite beside those of this library. `examples/` contains complete programs,
//! among them a bank, a queue, an inventory and a server.
//!
//! # Rows
//!
//! `#[derive(Row)]` takes a struct with named fields: integers of 1 to 16 bytes, floats, `bool`,
//! [`Text`], [`Numeric`], [`Date`], [`Time`], [`Timestamp`], [`TimestampTz`], [`Interval`],
//! [`Uuid`], [`Char`], `SystemTime`, `Duration`, arrays of these, types with `#[derive(Value)]`
//! (structs, structs around one value, enums without fields), `Option`s of all these, and `String`,
//! [`VarChar`], [`JsonText`], `Vec<u8>`, `Vec`s of values of fixed length and of `String`, and
//! their `Option`s, of any length. With the features `time` and `uuid`, types of these crates are
//! values too. The attributes of a row are `#[row(key(..), index(name(..)),
//! unique_index(name(..)))]`. The derive adds a constant for each field of fixed length
//! (`Account::BALANCE`), for each index (`Account::BY_OWNER`), and `KEY`. A key has up to 12
//! columns and 2 KiB. The primary key has 64 bytes, and its columns have a fixed length and are not
//! `Option`s; other indexes have no such limits. `desc(column)` and `nulls_first(column)` are
//! columns in another order. The library appends the primary key to the keys of an index that is
//! not unique. A complete key therefore always identifies one row; a [`prefix`] identifies many
//! rows.
//!
//! A program that imports this crate under another name passes that name to the derive:
//! `#[row(crate = name::schema, key(..))]`.
//!
//! # What is guaranteed
//!
//! | | |
//! | --- | --- |
//! | Atomicity | A transaction happens completely, or it leaves nothing behind: after every [`Error`], after an error of the program, after a panic |
//! | Isolation | Serializable, phantoms included: until the commit no row appears in a range that was scanned, or under a key that was missing |
//! | Decisions | A commit succeeds only if every row that the transaction read is still current. An error that the closure returns is reported under the same condition |
//! | Durability | [`Database::at`]: when a call returns, its commit is on disk, unless [`Durability`] allows otherwise. When a call returns an error, the rows that led to the error are on disk. [`Database::in_memory`]: all rows are lost when the process ends |
//! | Memory | Rows and indexes never take more than [`Builder::memory_limit`]; a transaction that needs more gets [`Error::OutOfMemory`]. An opening of [`Database::at`] after a crash also holds the log in memory while it reads the log |
//! | Time | The number of attempts and the duration of a transaction are bounded ([`TransactionOptions`]); a [`CancelToken`] ends a transaction earlier |
//!
//! # Errors
//!
//! | error | cause | remedy |
//! | --- | --- | --- |
//! | [`Error::Conflict`] | every attempt conflicted with another transaction | try again later; access fewer rows that all transactions access |
//! | [`Error::Duplicate`] | the named key is taken in the named table and index | use another key, or replace the row with [`Transaction::upsert`] if the primary key is taken |
//! | [`Error::OutOfMemory`] | the memory limit, or the machine's memory, is used up | delete rows, or raise the limit |
//! | [`Error::Deadline`] | the deadline passed | allow more time, or split the transaction |
//! | [`Error::LockTimeout`] | another transaction held a lock for longer than [`TransactionOptions::lock_wait`] | try again later; allow more time |
//! | [`Error::Idle`] | the program left a transaction object idle for longer than [`TransactionOptions::idle`] | begin again |
//! | [`Error::Cancelled`] | the program set the token | none |
//! | [`Error::DurabilityUnknown`] | committed, but not on disk when the deadline passed | do not repeat the transaction: read the rows |
//! | [`Error::Nested`] | a transaction inside the closure of another transaction of the same database | use the transaction that the closure receives |
//! | [`Error::Forked`] | another process opened the database, and this process was forked from it | use the database in that process, or open a database after the fork |
//! | [`Error::TooLarge`] | more than 268 million rows in one transaction | split it |
//! | [`Error::TooManySessions`] | all sessions are in use | drop a session, or allow more: [`Builder::sessions`] |
//! | [`Error::InUse`] | `close` while other handles exist; the error counts them by kind | drop them, and close the last one |
//! | [`Error::Backup`] | a directory cannot be copied | the text names the file and the reason |
//! | [`Error::NotChanged`] | a table cannot be changed to the requested rows | the text names the obstacle |
//! | [`Error::NoSnapshots`] | a snapshot under a scheme that keeps no versions | use [`Scheme::Mvcc`], or a transaction |
//! | [`Error::ChangesLost`] | a reader of changes is further behind than the log keeps them | copy the rows, and read on from there; register the reader |
//! | [`Error::NoSuchReader`] | no reader of changes of this name is registered | register it |
//! | [`Error::NoChanges`] | in memory and over pages there is no stream of changes | use [`Database::at`] without pages |
//! | [`Error::NotCompiled`] | the program is built without the scheme | enable the feature `all-schemes`, or use another scheme |
//! | [`Error::SequenceEnd`] | a [`Sequence`] has given its last number | create a sequence with more numbers |
//! | [`Error::Text`] | a text is longer than its [`Text`] column | shorten it, or use a `String` |
//! | [`Error::StaleSavepoint`] | the transaction does not have the [`Savepoint`] any more | roll back to a savepoint that it has |
//! | [`Error::Misuse`], [`Error::Declaration`], [`Error::NoSuchTable`], [`Error::Row`] | a bug of the program | the text describes it |
//! | [`Error::RollBack`] | the closure returned it | none: everything is undone |
//!
//! # Threads
//!
//! A [`Database`] is a handle: clone it into each thread. A [`Session`] serves one thread at a
//! time. It owns a handle of the database, so it can be kept in a struct and sent to another
//! thread; the same holds for an [`OwnedTransaction`]. A [`Table`] is a small `Copy` value. The
//! calling threads do the work of the library, and the library pins none of them. A database in a
//! directory also has a few threads named `files`, which make system calls in the background and
//! sleep otherwise. A database in memory has no threads, and a [`Deployment`] has one for each
//! worker. Between transactions a session delays no other session.
//!
//! A database belongs to the process that opened it. A child of `fork` gets [`Error::Forked`] from
//! every call; dropping handles in the child is harmless. An open transaction keeps the memory of
//! rows deleted in the meantime from being reused, and it delays other transactions that need rows
//! which it has read or written.
//!
//! # Layers
//!
//! [`Session`], [`Transaction`], [`Table`] and [`Index`] of this library wrap types of the same
//! names in the crates below, which programs do not see. The types of this library do not name the
//! scheme, check that a table belongs to its database, and return an [`Error`] for every wrong use.
//! The engine's types are generic over platform and scheme, and serve workloads that are compiled
//! together with them.
//!
//! # Schemes
//!
//! [`Builder::scheme`] chooses the concurrency control at run time: [`Scheme::Silo`] is optimistic,
//! [`Scheme::Mvcc`] is optimistic and has snapshots, and [`Scheme::NoWait`] locks. Types do not
//! name the scheme. The choice costs one indirect call for each verb, and programs need not compile
//! the engine for each of their row types and schemes.
//!
//! # Features
//!
//! | | |
//! | --- | --- |
//! | `all-schemes` | five more schemes. [`Scheme`] always lists them; without the feature, opening a database under one of the five returns [`Error::NotCompiled`]. A program takes a fifth longer to build with the feature |
//! | `time`, `uuid` | types of these crates as columns and keys |
//!
//! No feature is enabled by default.

#![forbid(unsafe_code)]

// Catalogue of the files:
//
// - Opening: `builder` (limits, scheme, tables), `options` (bounds of transactions), `existing`
//   (tables of a directory without row types), `database` (handles), `shared` (state of all
//   handles).
// - Transactions: `session`, `attempts` and `memory_pauses` (the loop of attempts), `attempt` (its
//   state), `transaction` (typed verbs), `savepoint` (savepoints, nested transactions),
//   `described`, `described_changes` and `described_scan` (verbs without a row type), `open` and
//   `owned` (transaction objects), `nesting`; `kv` (buckets of bytes).
// - Ranges: `range`, `scan`, `rows` (iterators), `select` (fields that are read or written),
//   `table` (handles), `batches` (changes as several transactions), `paging` (pages of a scan).
// - Durability: `durable_wait`, `ticket`, `on_disk` and `waiters` (futures), `backup`, `check`,
//   `read_copy` (reads beside another process).
// - Streams of committed changes: `changes`, `changed` (transactions and rows), `position`; `watch`
//   (notification of changes of a range).
// - `sequence`, `sequence_list`: numbers that are given once.
// - Constraints: `plans` (the constraints of all tables, looked up), `enforcing` (changes of rows
//   of tables with constraints), `identities` (columns that get numbers of a sequence), `expiry`
//   and `sweeping` (rows that expire).
// - Changes of tables: `changing` (creation and removal), `converting` (other columns and indexes),
//   `table_forms` (changes that are under way); within transactions `altering` (verbs), `altered`
//   and `altered_tables` (what a transaction has changed), `table_locks` (tables that it holds).
// - Figures: `ledger` (users and counters), `statistics`, `latency`, `event`, `upkeep`, `observing`
//   (for other crates).
// - `deployment`: several instances as one database. `error`, `cause`; `process_owned` (values and
//   `fork`).

mod altered;
mod altered_tables;
mod altering;
mod attempt;
mod attempts;
mod backup;
mod batches;
mod builder;
mod cause;
mod changed;
mod changes;
mod changing;
mod check;
mod converting;
mod database;
mod deployment;
mod described;
mod described_changes;
mod described_scan;
mod durable_wait;
mod ended;
mod enforcing;
mod error;
mod event;
mod existing;
mod expiry;
mod identities;
pub mod kv;
mod latency;
mod ledger;
mod memory_pauses;
mod nesting;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod observing;
mod on_disk;
mod open;
mod options;
mod owned;
mod paging;
mod plans;
mod position;
mod process_owned;
mod range;
mod read_copy;
mod rows;
mod savepoint;
mod scan;
mod select;
mod sequence;
mod sequence_list;
mod session;
mod shared;
mod statistics;
mod sweeping;
mod table;
mod table_forms;
mod table_locks;
mod ticket;
mod transaction;
mod upkeep;
mod waiters;
mod watch;

pub use attempt::Transaction;
pub use backup::{Backup, copy_directory};
pub use batches::Batch;
pub use boundary::{Progress as OpenProgress, Stage as OpenStage, Stats};
pub use builder::{
    Builder, MEMORY_LIMIT_DEFAULT, RETAINED_CHANGES_DEFAULT, SESSIONS_DEFAULT, SESSIONS_MAX,
    SPARE_TABLES_DEFAULT, SPARE_TABLES_MAX,
};
pub use changed::{ChangeKind, CommittedTransaction, RowChange};
pub use changes::{AvailableChanges, ChangeReader, Changes};
pub use check::Check;
pub use converting::TableChange;
pub use database::{Database, Scheme};
pub use deployment::{Deployment, DeploymentBuilder, Division, NoProcedure, Procedure, copy_deployment};
pub use described_scan::DescribedScan;
pub use distributed::messages::MESSAGE_BYTES_MAX;
pub use error::{Cause, Conflict, Error, OpenReason, Result};
pub use event::{Event, SLOW_DEFAULT};
pub use latency::Latencies;
#[cfg(feature = "metrics")]
pub use observing::record_metrics;
#[cfg(feature = "tracing")]
pub use observing::trace_event;
pub use on_disk::{BlockingJob, OnDisk};
pub use open::OpenTransaction;
pub use options::{ATTEMPTS_DEFAULT, CancelToken, DEADLINE_DEFAULT, Durability, TransactionOptions};
pub use owned::OwnedTransaction;
pub use paging::PageToken;
pub use position::{ChangePosition, ChangesFrom};
pub use range::{KeyRange, NormalizedRange, Prefix, Prefixes, prefix, prefixes};
pub use read_copy::ReadCopy;
/// Derives a row type from a struct: see [Rows](crate#rows).
pub use row_derive::EmbeddedRow as Row;
/// Derives a group of columns from a struct: see [Rows](crate#rows).
pub use row_derive::EmbeddedValue as Value;
pub use rows::{RowView, Rows, SelectedFields, WholeRow};
pub use savepoint::Savepoint;
pub use scan::Scan;
pub use schema::row::{Field, IndexId, NullableField, Row, Value};
pub use schema::{
    Char, Check as CheckConstraint, ColumnDescription, ConstraintKind, Constraints, Date, Datum, Decimal,
    DistinctNulls, Expression, ForeignAction, ForeignKey, IndexDescription, Interval, JsonText, Key,
    KeyOrder, NullsFirst, Numeric, RowError, TableBuilder, TableDescription, TailValue, Text, TextError,
    Time, Timestamp, TimestampTz, Uuid, ValueError, ValueType, VarChar, text,
};
pub use select::{Assign, Select};
pub use sequence::{Sequence, SequenceOptions};
pub use session::{Session, SessionWith};
pub use statistics::{
    ConflictStatistics, LogStatistics, MemoryStatistics, Statistics, TransactionStatistics,
};
pub use table::{Index, Lookup, Table, TableOptions};
pub use ticket::Ticket;
pub use watch::Watch;

/// Used by the code that the derives generate; not part of the interface.
#[doc(hidden)]
pub use ::schema;

/// The guide of the library; its programs run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
pub struct Guide;

/// The page on changes of tables within transactions; its program runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/table-changes.md")]
pub struct TableChangeGuide;

/// The page on savepoints; its program runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/savepoints.md")]
pub struct SavepointGuide;

/// The page on constraints; its programs run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/constraints.md")]
pub struct ConstraintGuide;

/// Calls of other libraries beside those of this library; its programs run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/coming-from.md")]
pub struct ComingFrom;

/// The project's README; its program is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadMe;
