//! What a database of pages is made with, and why it fails.

use std::path::PathBuf;

use cc::Abort;
use platform::files::FileError;
use platform::{Node, OutOfMemory};
use storage::{Optimisation, Optimisations};

use crate::locks::SESSIONS_MAX;
use crate::page::{PAGE_BYTES, PageFault};

/// Frames that a session may have to itself at one moment: those of a split of the root, of what it reads, and of what it evicts.
pub const FRAMES_PER_SESSION: usize = 8;

/// What is made.
#[derive(Clone, Debug)]
pub struct PagedOptions {
    /// Most sessions at a time.
    pub sessions_max: usize,
    /// Bytes of all frames: a bound that nothing exceeds.
    pub pool_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Most pages that the database may have.
    pub pages_max: u64,
    /// Where pages go that have no room in the pool: a directory, which may be there, with no database in it. `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// Memory nodes that have a part of the frames each.
    pub nodes: Vec<Node>,
    /// Lists of locks that are held or waited for.
    pub lock_lists: usize,
    /// Most locks of rows and gaps that a transaction has at a time: with so many it takes whole tables.
    pub locks_max: usize,
    /// Locks of rows and gaps in one table from which on a transaction takes the table instead, if nobody is in the way.
    pub escalation: usize,
    /// What it does without: [`Optimisation::InheritedLocks`], [`Optimisation::PlainLocks`].
    pub optimisations: Optimisations,
    /// The rules that are broken, so that tests see that checkers notice.
    pub broken: Broken,
}

/// Rules that a mutant breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// Scans lock no gaps.
    pub gaps: bool,
    /// Rows that are only read are not locked.
    pub read_locks: bool,
    /// Rows and gaps are locked without their tables.
    pub intents: bool,
    /// Locks of tables that sessions have inherited stay with them, whoever wants to exclude them.
    pub keeps_inherited: bool,
}

impl Default for PagedOptions {
    /// 64 sessions, 256 MiB of frames of 8 KiB, as many as 64 times the pages, no file, 65,536 lists, 8,192 locks, 1,024 in one
    /// table.
    fn default() -> Self {
        PagedOptions::with_pool(256 << 20)
    }
}

impl PagedOptions {
    /// The defaults with a pool of so many bytes.
    pub fn with_pool(pool_bytes: u64) -> Self {
        let page_bytes = 8 << 10;
        PagedOptions {
            sessions_max: 64,
            pool_bytes,
            page_bytes,
            pages_max: (pool_bytes / page_bytes as u64).max(1 << 10) * 64,
            directory: None,
            nodes: Vec::new(),
            lock_lists: 1 << 16,
            locks_max: 1 << 13,
            escalation: 1 << 10,
            optimisations: Optimisations::ALL,
            broken: Broken::default(),
        }
    }

    /// Frames in the pool.
    pub(crate) fn frames(&self) -> usize {
        (self.pool_bytes / self.page_bytes as u64) as usize
    }

    /// Whether sessions inherit locks of the database and of tables from transaction to transaction.
    pub(crate) fn inherits_locks(&self) -> bool {
        self.optimisations.has(Optimisation::InheritedLocks)
    }

    /// Whether one session is all there can be, so that nothing is locked. No part of a transaction over several databases, which would hold
    /// locks between two transactions of the session, can be there.
    pub(crate) fn is_alone(&self) -> bool {
        self.sessions_max <= 1 && self.optimisations.has(Optimisation::PlainLocks)
    }

    /// Whether a pool can be made so.
    pub(crate) fn check(&self) -> Result<(), PagedError> {
        if !PAGE_BYTES.contains(&self.page_bytes) || !self.page_bytes.is_power_of_two() {
            return Err(PagedError::PageBytes(self.page_bytes));
        }
        if self.sessions_max > SESSIONS_MAX {
            return Err(PagedError::TooManySessions(self.sessions_max));
        }
        let needed = self.sessions_max.max(1) * FRAMES_PER_SESSION;
        if self.frames() < needed {
            let bytes = (needed * self.page_bytes) as u64;
            return Err(PagedError::PoolTooSmall {
                pool: self.pool_bytes,
                bytes,
                sessions: self.sessions_max,
            });
        }
        Ok(())
    }
}

/// Why a database of pages cannot be made, or a verb fails for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagedError {
    /// There is no memory for frames or tables.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The file of pages fails.
    #[error(transparent)]
    File(#[from] FileError),
    /// What came from the file is not the page that was wanted.
    #[error("page {number} of {}: {fault}: the file is damaged, and nothing of the page is used", path.display())]
    Page {
        /// Number of the page.
        number: u64,
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        fault: PageFault,
    },
    /// No page can leave the pool.
    #[error("the pool of {frames} pages is full, and no page can leave it: make the pool larger")]
    PoolFull {
        /// Its frames.
        frames: usize,
    },
    /// Workers could wait for frames for ever.
    #[error("a pool of {pool} bytes is too small for {sessions} sessions: they need {bytes}")]
    PoolTooSmall {
        /// Its bytes.
        pool: u64,
        /// Bytes that would do.
        bytes: u64,
        /// Sessions.
        sessions: usize,
    },
    /// A lock cannot count so many sessions.
    #[error("{0} sessions: a database of pages has {SESSIONS_MAX} at most")]
    TooManySessions(usize),
    /// There are as many pages as there may be.
    #[error("the database has {0} pages, and may not have more: make the pool larger")]
    TooManyPages(u64),
    /// A page of such a size cannot be.
    #[error("pages of {0} bytes: a power of two from {min} to {max} is needed", min = PAGE_BYTES.start(), max = PAGE_BYTES.end())]
    PageBytes(usize),
    /// Rows of a table are too long.
    #[error(
        "table {table}: rows of {words} words do not fit a page, which takes {max}: rows do not span pages yet"
    )]
    RowTooLong {
        /// The table's name.
        table: String,
        /// Words of the fixed part.
        words: usize,
        /// Most words of a record.
        max: usize,
    },
    /// Changes could not be undone: nothing that the database has is to be trusted.
    #[error("changes of a transaction could not be undone ({0}): the database has stopped")]
    NotUndone(String),
}

impl From<PagedError> for Abort {
    fn from(error: PagedError) -> Abort {
        match error {
            PagedError::OutOfMemory(error) => Abort::OutOfMemory(error),
            other => Abort::Storage(other.to_string()),
        }
    }
}
