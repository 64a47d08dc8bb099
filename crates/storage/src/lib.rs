//! Rows, indexes and their memory.
//!
//! - [`arena`]: memory from node-local regions, by size class, thread-local;
//! - [`epoch`]: when may memory that readers could still see be used again;
//! - [`local`]: the two together, as each worker holds them;
//! - [`tree`], [`hash`]: the two kinds of index; [`index`]: an index of a table, divided into
//!   partitions;
//! - [`catalog`]: the descriptors of all that, with a copy on every memory node;
//! - [`listed`]: the lists of which a catalog consists;
//! - [`latch`]: versions for optimistic readers, and mutual exclusion;
//! - [`latched`]: a value behind a latch;
//! - [`latched_word`]: latches with words beside them that safe code can use, for benchmarks;
//! - [`parallel_job`]: a job that several workers do, and its progress;
//! - [`places`]: lists that grow to a fixed length while they are used;
//! - [`record`]: a row in memory: the scheme's header, then words;
//! - [`optimisations`]: those that an instance can be made without.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod arena;
pub mod catalog;
mod chunks;
pub mod epoch;
pub mod hash;
mod heap;
pub mod index;
pub mod index_part;
pub mod latch;
pub mod latched;
pub mod latched_word;
pub mod listed;
pub mod local;
pub mod optimisations;
pub mod parallel_job;
pub mod places;
pub mod record;
pub mod tree;

pub use arena::{Arena, Memory};
pub use catalog::Table;
pub use chunks::MemoryUse;
pub use epoch::{Epochs, Participant, last_complete};
pub use index::{Index, Partition, Walk};
pub use index_part::IndexPart;
pub use latched::Latched;
pub use latched_word::{LatchSeat, LatchedLines, LatchedWord, WORDS_BESIDE_LATCH};
pub use listed::{Listed, Space};
pub use local::{Loan, Local};
pub use optimisations::{Optimisation, Optimisations};
pub use parallel_job::{Listener, ParallelJob};
pub use places::Places;
pub use record::{RecordHeader, RecordRef};
