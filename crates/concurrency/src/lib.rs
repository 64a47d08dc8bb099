//! Concurrency control: one [`Scheme`] trait, and every scheme a module, listed in `schemes`.
//!
//! A scheme works on tables by number, keys as normalized words, rows as words. The scheme decides
//! which transaction may read and write what and when. The tests (`tests/checks`) state the rules
//! of each scheme as small histories.
//!
//! - Interface: `scheme` (the traits, one for each kind of caller), `schemes` (the list of all
//!   schemes), `options` and `ways` (of an instance), `lookups`, `new_rows`, `row_words`, `scan`
//!   (arguments of verbs), `savepoints` (rolling back to them), `redo` (the changes of a commit,
//!   for a log, and their order).
//! - Instances: `instance` (tables, memory, workers), `catalog` (its tables, by memory node),
//!   `filling` (rows before any transaction), `meter` (the breakdown of a worker's time),
//!   `look_ahead` (keys that later transactions will look up), `timestamps` (from a counter or the
//!   clock).
//! - Shared by most schemes: `access` (the rows of a transaction and their index entries), `writes`
//!   (pending writes).
//! - Optimistic schemes: `optimistic` (the common protocol) with the methods `silo`, `tictoc`,
//!   `occ` and `mvcc` (versions and snapshots).
//! - Schemes that lock: `lock_word` (a lock in one word), `row_latch` (the latch of a manager),
//!   `locking` (two-phase locking, gaps, lock managers) with the policies `no_wait`, `wait_die` and
//!   `dl_detect`.
//! - `hstore`: locks of whole partitions, and an undo list.

#![deny(unsafe_op_in_unsafe_fn)]

mod access;
mod catalog;
mod dl_detect;
mod filling;
mod hstore;
mod instance;
mod lock_word;
mod locking;
mod look_ahead;
mod lookups;
mod meter;
mod mvcc;
mod new_rows;
mod no_wait;
mod occ;
mod optimistic;
mod options;
mod redo;
mod row_latch;
mod row_words;
mod savepoints;
mod scan;
mod scheme;
mod schemes;
mod silo;
mod tictoc;
mod timestamps;
mod wait_die;
mod ways;
mod writes;

pub use access::ROWS_MAX;
pub use dl_detect::DlDetect;
pub use filling::Filler;
pub use hstore::Hstore;
pub use instance::{Content, IndexShape, Instance, Structure, TableShape, TooManySessions, WorkerContext};
pub use look_ahead::{LOOK_AHEAD, LookAhead, Use};
pub use lookups::{Ahead, KeyBatch, KeyList, Keys};
pub use meter::{Meter, SAMPLE};
pub use mvcc::Mvcc;
pub use new_rows::NewRows;
pub use no_wait::NoWait;
pub use occ::Occ;
pub use options::{InstanceOptions, WAIT_NANOS_MAX_PARTICIPANT};
pub use redo::{Before, RedoSink};
pub use row_words::RowWords;
pub use savepoints::SavepointMark;
pub use scheme::{
    Accessing, Context, Ending, Filling, Holder, Parts, Redo, RowNumber, Savepoints, Scheme, WorkerState,
};
pub use schemes::{Branching, SchemeName, SchemeVisitor, UnknownScheme};
pub use silo::Silo;
pub use tictoc::TicToc;
pub use timestamps::{Timestamp, TimestampSource, TimestampWorker, Timestamps};
pub use wait_die::WaitDie;
pub use ways::{CommitLocks, Deadlocks, RowCopies, RowLock, TimestampDraws, Ways};
pub use writes::{ROW_BYTES_MAX, RowChanges};
