//! The paged storage manager: rows in pages of B+trees, in a buffer pool over one file, under
//! two-phase locking.
//!
//! The crate stands beside `storage` and `concurrency`, not on top of their records: its leaves hold rows,
//! its locks live in a lock manager, and every verb can fail with an error of the file. It shares
//! what is below (platform, files, version latches) and what is above (descriptions, procedures,
//! drivers), to which it is a database, sessions and verbs as objects ([`engine::dynamic`]).
//!
//! ```text
//! opening, restart           what a directory holds, and what its log says; whether pages know more (lost_end)
//! examine, inspection        the same, only to look; whether trees are whole
//! backup, repair             copies of directories, and pages made anew from them
//! database, session          objects of the engine; how transactions are tried, and end
//! parts, context             what a session has, and parts of transactions over several databases
//! checkpoint, master         from where a restart reads the log; with parts and decisions (undecided)
//! branches                   what the worker that owns partitions does for transactions of several workers
//! owner                      what a transaction has until it ends, in whichever session
//!    transaction             the verbs: what is locked, and what is done to trees
//!       tables, overflow     what rows look like; long rows, in records and pieces
//!       locks                the lock manager: tables, keys and gaps, modes, who waits
//!       tree                 B+trees over pages: descend, get, insert, split, remove, scan
//!          pool              frames, translation, eviction; what is written ahead
//!             log            records, and how they get to the disk
//!             page           layout of a page, and its changes
//!             channel        the file, and a worker's way to it; whose file it is (head)
//! ```
//!
//! **Two-phase locking** (strict): a transaction locks each key that it looks up, whether it is
//! there or not, to share it or to have it alone; a scan also locks the gaps of its range, each
//! named by the key or fence above. An insertion asks, with the leaf latched, whether another
//! transaction relies on the gap that it splits (next-key locking: Mohan, "ARIES/KVL", VLDB 1990;
//! locks of gaps and keys apart as in Lomet, "Key range locking strategies", VLDB 1993). A deleted
//! record stays as a ghost until the commit; then it leaves, unless another transaction relies on
//! the gap below it, which would be joined with the one above. All locks are kept to the end.
//! Before keys and gaps the database and the table are locked, with the intention; many locks of a
//! table become one of the table.
//!
//! Where workers own partitions, transactions are made of branches, which lock nothing (`branches`;
//! decision 0041).
//!
//! With a log (`PagedOptions::log`), what is committed survives crashes (decision 0036); without,
//! nothing of the database survives its process. What a transaction has changed is undone from its
//! own memory, or by the restart from the log.

#![forbid(unsafe_code)]

mod backup;
mod checkpoints;
mod context;
mod database;
mod error;
mod files;
mod inspection;
mod key;
mod limits;
mod locks;
mod log;
mod lsn;
mod opening;
mod options;
mod owner;
mod page;
mod participants;
mod pool;
mod rows;
mod running;
mod session;
mod shared;
mod transaction;
mod tree;
mod undo;

pub use backup::{CopyError, copy_pages, read_backwards, write_new_file};
pub use database::{PagedDatabase, TWO_PHASE_LOCKING};
pub use error::PagedError;
pub use inspection::ExaminedTree;
pub use limits::FRAMES_PER_SESSION;
pub use opening::examine::{Examined, examine, holds_pages};
pub use opening::repair::{Repaired, repair};
pub use options::{Broken, PagedLogOptions, PagedOptions};
pub use page::PageFault;
