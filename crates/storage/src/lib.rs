//! Rows in memory, their indexes and their memory.
//!
//! - [`arena`]: memory from node-local regions, by size class, thread-local;
//! - [`epoch`]: reclamation of memory that readers may still see, and the order of commits;
//! - [`local`]: a worker's arena, epoch announcements and retired blocks;
//! - [`tree`], [`hash`]: B+tree and hash index, one operation a file;
//! - [`index`], [`index_part`]: an index of a table, divided into partitions, and names of its
//!   structures for reports;
//! - [`catalog`]: descriptors of tables, indexes and partitions, with a copy on every memory node;
//! - [`listed`]: the lists in a catalog;
//! - [`latch`]: versions for optimistic readers, and mutual exclusion;
//! - [`elided`]: a mutex with lock elision, for comparisons;
//! - [`latched`]: a value behind a latch;
//! - [`latched_word`]: latches with words beside them that safe code can use, for benchmarks;
//! - [`parallel_job`]: a job on several workers, and its progress;
//! - [`places`]: lists that grow to a fixed length while they are used;
//! - [`record`]: a row in memory: the scheme's header, then words;
//! - [`optimisations`]: optimisations that can be switched off, for comparisons.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod arena;
pub mod catalog;
mod chunks;
pub mod elided;
pub mod epoch;
pub mod hash;
mod heap;
pub mod index;
pub mod index_part;
mod kept_keys;
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
