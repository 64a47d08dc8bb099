//! The paged storage manager: rows in pages of B+trees, in a buffer pool over one file, under
//! two-phase locking.
//!
//! The crate stands beside `storage` and `concurrency`, not on top of their records: its leaves
//! hold rows, its locks live in a lock manager, and every verb can fail with an error of the file.
//! It shares the crates below (platform, files, version latches) and above (descriptions,
//! procedures, drivers), for which it is a database, sessions and verbs as objects
//! ([`boundary`]).
//!
//! ```text
//! opening/              a new database, or the one in a directory: restart, check for a lost end;
//!                       examination without changes, repair of pages from a backup
//! backup                copies of directories of open databases
//! inspection            checks of trees against each other
//! database, session/    the engine's objects; attempts of transactions, and their ends
//! participants/         parts of transactions over several databases, and branches of owners
//! context, owner, undo  services of a transaction; its state until it ends, and its undo
//! shared, central       state that sessions share; lines that all transactions of Shore-MT write
//! checkpoints/          checkpoints, their master file, and the parts and decisions in them
//! transaction/          the verbs: locks, and changes of trees
//!    rows/              shapes of rows; long rows, in records and pieces
//!    locks/             the lock manager: tables, keys and gaps, modes, waits
//!    tree/              B+trees over pages, one operation a file
//!       pool/           frames, translation, eviction; write-ahead, read-ahead
//!          files/       the file of pages: access, head, generations of its log
//!          log/         records, buffer, segments; reading at a restart
//!          page/        layout of a page, and its changes
//! options, limits, error, key, lsn
//! paths                 path lengths of another storage manager, for comparisons
//! ```
//!
//! **Two-phase locking** (strict): a transaction locks each key that it looks up, whether it is
//! there or not, in shared or exclusive mode; a scan also locks the gaps of its range, each named
//! by the key or fence above. An insertion checks, with the leaf latched, that no other transaction
//! relies on the gap that it splits (next-key locking: Mohan, "ARIES/KVL", VLDB 1990; locks of gaps
//! and keys apart as in Lomet, "Key range locking strategies", VLDB 1993). A deleted record stays
//! as a ghost until the commit; then it is removed, unless another transaction relies on the gap
//! below it, which would be joined with the one above. All locks are kept to the end. Before keys
//! and gaps the database and the table are locked, with the intention; many locks of a table become
//! one of the table.
//!
//! If workers own partitions, transactions consist of branches, which lock nothing (`branches`;
//! decision 0041).
//!
//! With a log (`PagedOptions::log`), commits survive crashes (decision 0036); without,
//! nothing of the database survives its process. Changes of a transaction are undone from its own
//! memory, or by the restart from the log.

#![forbid(unsafe_code)]

mod backup;
mod central;
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
mod paths;
mod pool;
mod rows;
mod running;
mod session;
mod shared;
mod transaction;
mod tree;
mod undo;

pub use backup::{CopyError, copy_pages, write_new_file};
pub use database::{PagedDatabase, TWO_PHASE_LOCKING};
pub use error::PagedError;
pub use limits::FRAMES_PER_SESSION;
pub use log::segments::is_log_file_name;
pub use opening::examine::{Examined, described_tables, examine, holds_pages};
pub use opening::repair::{Repaired, repair};
pub use options::{PagedLogOptions, PagedOptions};
pub use page::PageFault;
pub use paths::PathLengths;
pub use tree::ExaminedTree;
