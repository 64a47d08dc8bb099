//! The paged storage manager: rows in pages of B+trees, in a buffer pool over one file, under two-phase locking.
//!
//! The crate stands beside `storage` and `cc`, not on top of their records: its leaves hold rows, its locks live in a lock manager,
//! and every verb can fail with an error of the file. It shares what is below (platform, files, version latches) and what is above
//! (descriptions, procedures, drivers), to which it is a database, sessions and verbs as objects ([`engine::dynamic`]).
//!
//! ```text
//! database, session          objects of the engine; how transactions are tried, and end
//!    transaction             the verbs: what is locked, and what is done to trees
//!       locks                the lock manager: tables, keys and gaps, modes, who waits
//!       tree                 B+trees over pages: descend, get, insert, split, remove, scan
//!          page              layout of a page
//!          pool              frames, translation, eviction
//!             channel        the file, and a worker's way to it
//! ```
//!
//! **Two-phase locking** (strict): a transaction locks each key that it looks up, whether it is there or not, to share it or to
//! have it alone; a scan also locks the gaps of its range, each named by the key or fence above. An insertion asks, with the leaf
//! latched, whether another transaction relies on the gap that it splits (next-key locking: Mohan, "ARIES/KVL", VLDB 1990; locks of gaps
//! and keys apart as in Lomet, "Key range locking strategies", VLDB 1993). A deleted record stays as a ghost until the commit; then it
//! leaves, unless another transaction relies on the gap below it, which would be joined with the one above. All locks are kept to the end.
//! Before keys and gaps the database and the table are locked, with the intention; many locks of a table become one of the table.
//!
//! What a transaction has changed is undone from its own memory: there is no log yet, so nothing of the database survives its process.

#![forbid(unsafe_code)]

mod channel;
mod context;
mod database;
mod key;
mod locks;
mod options;
mod page;
mod pool;
mod session;
mod shared;
mod tables;
mod transaction;
mod tree;
mod undo;

pub use database::{PagedDatabase, TWO_PHASE_LOCKING};
pub use options::{Broken, FRAMES_PER_SESSION, PagedError, PagedOptions};
pub use page::PageFault;
