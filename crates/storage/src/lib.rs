//! Rows, indexes and their memory.
//!
//! - [`arena`]: memory from node-local regions, by size class, thread-local;
//! - [`epoch`]: when may memory that readers could still see be used again;
//! - [`latch`]: the version word of optimistic readers, and the queue lock;
//! - [`local`]: the two together, as each worker holds them;
//! - [`record`]: a row in memory: the scheme's header, then words;
//! - [`tree`]: the ordered index.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod arena;
pub mod epoch;
pub mod latch;
pub mod local;
pub mod record;
pub mod tree;

pub use arena::{Arena, Memory};
pub use epoch::{Epoch, Epochs, Participant};
pub use local::Local;
pub use record::{RecordHeader, RecordRef};
