//! Concurrency control: one [`Scheme`] trait, and every scheme a module, listed in `schemes`.
//!
//! A scheme sees tables as numbers, keys as normalized words, rows as words. The scheme decides
//! which transaction may read and write what and when. What is common to all schemes (the rows of a
//! transaction, its pending writes, its entries in indexes) is in `access` and `writes`; what a log
//! wants to know of a commit is in `redo`.

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
mod row_words;
mod rules;
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
pub use instance::{Content, IndexShape, Instance, Session, Structure, TableShape, TooManySessions};
pub use look_ahead::{LOOK_AHEAD, LookAhead, Use};
pub use lookups::{Ahead, KeyList, Keys};
pub use meter::{Meter, SAMPLE};
pub use mvcc::Mvcc;
pub use new_rows::NewRows;
pub use no_wait::NoWait;
pub use occ::Occ;
pub use options::{InstanceOptions, WAIT_NANOS_MAX_PARTICIPANT};
pub use redo::{Before, RedoSink};
pub use row_words::RowWords;
pub use scheme::{Accessing, Context, Ending, Filling, Holder, Parts, Redo, RowNumber, Scheme, Worker};
pub use schemes::{Branching, SchemeName, SchemeVisitor, UnknownScheme};
pub use silo::Silo;
pub use tictoc::TicToc;
pub use timestamps::{Timestamp, TimestampSource, TimestampWorker, Timestamps};
pub use wait_die::WaitDie;
pub use ways::{CommitLocks, Deadlocks, RowCopies, RowLock, Ways};
pub use writes::{ROW_BYTES_MAX, RowChanges};

/// Schemes that break rules on purpose, so that tests see that the checks notice: `Silo<Broken>` in
/// an instance whose options say which ones.
pub mod mutants {
    pub use crate::rules::{Broken, Rule, Rules, Sound};
}
