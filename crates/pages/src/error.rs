//! Errors of a database of pages.

use std::path::PathBuf;

use boundary::SchemaError;
use platform::OutOfMemory;
use platform::files::{BLOCK_BYTES, FileError};
use redo_log::LogError;
use terms::Abort;

use crate::limits::OWNERS_MAX;
use crate::page::{PAGE_BYTES, PageFault};

/// The reason why a database of pages cannot be made, or a verb fails for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagedError {
    /// There is no memory for frames or tables.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The file of pages fails.
    #[error(transparent)]
    File(#[from] FileError),
    /// The log, or what a checkpoint has left.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The tables of the directory and the declared tables do not go together.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The directory has a database of the other storage manager.
    #[error("{}: holds rows in memory: open it without a pool of pages, or name another directory", .0.display())]
    OtherEngine(PathBuf),
    /// The directory has pages of another size.
    #[error("{}: has pages of {found} bytes, not of {asked}: open it with pages of that size", path.display())]
    OtherPages {
        /// The directory.
        path: PathBuf,
        /// Bytes of its pages.
        found: usize,
        /// Bytes of a page in the options.
        asked: usize,
    },
    /// A page and the log do not go together.
    #[error("page {number} is not what the log changes: the file or the log is damaged; restore a backup")]
    Contradiction {
        /// Number of the page.
        number: u64,
    },
    /// The log names a tree that is not there.
    #[error("the log names tree {0}, which the database does not have: the log is damaged; restore a backup")]
    UnknownTree(u32),
    /// The bytes read from the file are not the requested page.
    #[error("page {number} of {}: {fault}: nothing of it is used; restore a backup, or have the page made anew from one", path.display())]
    Page {
        /// Number of the page.
        number: u64,
        /// The directory.
        path: PathBuf,
        /// The fault that was found.
        fault: PageFault,
    },
    /// No page can leave the pool.
    #[error("the pool of {frames} pages is full, and no page can leave it: make the pool larger")]
    PoolFull {
        /// Its frames.
        frames: usize,
    },
    /// Workers could wait for frames for ever.
    #[error("a pool of {pool} bytes is too small for {sessions} sessions: make it {bytes} bytes at least")]
    PoolTooSmall {
        /// Its bytes.
        pool: u64,
        /// Bytes that would do.
        bytes: u64,
        /// Sessions.
        sessions: usize,
    },
    /// A lock cannot count this many sessions and parts.
    #[error("{0} sessions and prepared parts: a database of pages has {OWNERS_MAX} at most")]
    TooManySessions(usize),
    /// Records may not fit files or buffer of the log.
    #[error(
        "the log is too small for pages of that size: files of whole blocks of {BLOCK_BYTES} bytes and at least {segment} \
         bytes are needed, and a buffer of {buffer}"
    )]
    LogTooSmall {
        /// Least bytes of a file.
        segment: u64,
        /// Least bytes of the buffer.
        buffer: u64,
    },
    /// There are as many pages as there may be.
    #[error("the database has {0} pages, and may not have more: make the pool larger")]
    TooManyPages(u64),
    /// A page of such a size cannot be.
    #[error("pages of {0} bytes: a power of two from {min} to {max} is needed", min = PAGE_BYTES.start(), max = PAGE_BYTES.end())]
    PageBytes(usize),
    /// Primary keys of a table are too long for entries of another index.
    #[error(
        "table {table}: primary keys of {words} words do not fit the entries of an index, which take {max}: shorten the keys, or \
         make pages larger"
    )]
    KeyTooLong {
        /// The table's name.
        table: String,
        /// Words of the primary key.
        words: usize,
        /// Most words of a record.
        max: usize,
    },
    /// The backup for a repair is no backup of the database.
    #[error("{}: no copy of what {} was once: name a backup that was made of this database, and not opened since", backup.display(), path.display())]
    OtherBackup {
        /// The directory of the database.
        path: PathBuf,
        /// The directory named as its backup.
        backup: PathBuf,
    },
    /// A row has fewer pieces than its record says.
    #[error("piece {piece} of a row of tree {tree} is missing: the file is damaged; restore a backup")]
    LostPiece {
        /// The number of the tree of the rows.
        tree: u32,
        /// The number of the piece.
        piece: u64,
    },
    /// Changes could not be undone: nothing that the database has is to be trusted.
    #[error("changes of a transaction could not be undone ({0}): the database has stopped")]
    NotUndone(String),
}

impl From<PagedError> for Abort {
    fn from(error: PagedError) -> Abort {
        match error {
            PagedError::OutOfMemory(error) => Abort::OutOfMemory(error),
            PagedError::Log(error) => Abort::NotDurable(error.to_string()),
            other => Abort::Storage(other.to_string()),
        }
    }
}
