//! Options of a database of pages.

use std::path::PathBuf;

use platform::Node;
use platform::files::BLOCK_BYTES;
use storage::{Optimisation, Optimisations};
use terms::Faults;

use crate::error::PagedError;
use crate::limits::{FRAMES_PER_SESSION, OWNERS_MAX, RECORD_PAGES_MAX};
use crate::page::PAGE_BYTES;
use crate::paths::PathLengths;

/// Options of a database of pages.
#[derive(Clone, Debug)]
pub struct PagedOptions {
    /// Most sessions at a time.
    pub sessions_max: usize,
    /// Most parts of transactions over several databases that are prepared at a time; 0: there are
    /// none.
    pub parts_max: usize,
    /// Most branches of transactions that a session has open at a time, where workers own
    /// partitions of the data; 0: there are none.
    pub branches_max: usize,
    /// Longest wait for a lock; `None`: as long as the transaction may take. If parts can be
    /// prepared, the holder of the lock may wait for another database.
    pub wait_nanos_max: Option<u64>,
    /// Bytes of all frames: a bound that nothing exceeds.
    pub pool_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Most pages that the database may have.
    pub pages_max: u64,
    /// The directory of the file of pages, which holds pages that have no room in the pool; it may
    /// exist without a database in it. `None`: there is no file.
    pub directory: Option<PathBuf>,
    /// Memory nodes that have a part of the frames each.
    pub nodes: Vec<Node>,
    /// Lists of locks that are held or waited for.
    pub lock_lists: usize,
    /// Most locks of rows and gaps that a transaction has at a time: at this number it locks whole
    /// tables.
    pub locks_max: usize,
    /// The number of locks of rows and gaps in one table from which on a transaction locks the
    /// table instead, if no other transaction prevents that.
    pub escalation: usize,
    /// The optimisations in use: [`Optimisation::InheritedLocks`], [`Optimisation::PlainLocks`] and
    /// [`Optimisation::Aether`] can be left out.
    pub optimisations: Optimisations,
    /// Options of the log; `None`: the database does not outlive the process. With a log there is a
    /// directory.
    pub log: Option<PagedLogOptions>,
    /// The rules that are faults, so that tests see that checkers notice.
    pub faults: Faults,
    /// Path lengths of another storage manager, which simulated machines charge.
    pub paths: PathLengths,
    /// True if readers latch pages, and transactions enter a list of active transactions, as in
    /// Shore-MT. A database with one session does neither.
    pub latches_reads: bool,
}

/// Options of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedLogOptions {
    /// Bytes of a file of the log: whole blocks.
    pub segment_bytes: u64,
    /// Bytes of the buffer between workers and disk.
    pub buffer_bytes: u64,
    /// A checkpoint is due when the log has grown by this many bytes.
    pub checkpoint_bytes: u64,
}

impl Default for PagedLogOptions {
    /// 64 MiB, 8 MiB, 1 GiB.
    fn default() -> Self {
        PagedLogOptions { segment_bytes: 64 << 20, buffer_bytes: 8 << 20, checkpoint_bytes: 1 << 30 }
    }
}

impl Default for PagedOptions {
    /// 64 sessions and no parts, 256 MiB of frames of 8 KiB, as many as 64 times the pages, no
    /// file, 65,536 lists, 8,192 locks, 1,024 in one table.
    fn default() -> Self {
        PagedOptions::with_pool(256 << 20)
    }
}

impl PagedOptions {
    /// The defaults with a pool of `pool_bytes` bytes.
    pub fn with_pool(pool_bytes: u64) -> Self {
        let page_bytes = 8 << 10;
        PagedOptions {
            sessions_max: 64,
            parts_max: 0,
            branches_max: 0,
            wait_nanos_max: None,
            pool_bytes,
            page_bytes,
            pages_max: (pool_bytes / page_bytes as u64).max(1 << 10) * 64,
            directory: None,
            nodes: Vec::new(),
            lock_lists: 1 << 16,
            locks_max: 1 << 13,
            escalation: 1 << 10,
            optimisations: Optimisations::ALL,
            log: None,
            faults: Faults::NONE,
            paths: PathLengths::NONE,
            latches_reads: false,
        }
    }

    /// Transactions that may have locks at a time: one a session, and prepared parts.
    pub(crate) fn owners(&self) -> usize {
        self.sessions_max.max(1) + self.parts_max
    }

    /// Owners of transactions that the log distinguishes: those of locks, and branches.
    pub(crate) fn owners_in_log(&self) -> usize {
        self.owners() + self.sessions_max.max(1) * self.branches_max
    }

    /// Frames in the pool.
    pub(crate) fn frames(&self) -> usize {
        (self.pool_bytes / self.page_bytes as u64) as usize
    }

    /// Returns true if sessions inherit locks of the database and of tables from transaction to
    /// transaction.
    pub(crate) fn inherits_locks(&self) -> bool {
        self.optimisations.has(Optimisation::InheritedLocks)
    }

    /// Returns true if the log works as Aether does.
    pub(crate) fn has_aether(&self) -> bool {
        self.optimisations.has(Optimisation::Aether)
    }

    /// Returns true if there is at most one session, so that nothing is locked while no part is
    /// prepared: a part holds its locks between two transactions of the session.
    pub(crate) fn has_one_session(&self) -> bool {
        self.sessions_max <= 1 && self.optimisations.has(Optimisation::PlainLocks)
    }

    /// Returns true if readers latch pages, and transactions enter a list.
    pub(crate) fn has_latched_reads(&self) -> bool {
        self.latches_reads && self.sessions_max > 1
    }

    /// Checks that a pool can be made with these options.
    pub(crate) fn check(&self) -> Result<(), PagedError> {
        if !PAGE_BYTES.contains(&self.page_bytes) || !self.page_bytes.is_power_of_two() {
            return Err(PagedError::PageBytes(self.page_bytes));
        }
        if self.owners() > OWNERS_MAX {
            return Err(PagedError::TooManySessions(self.owners()));
        }
        if let Some(log) = self.log {
            let least = (RECORD_PAGES_MAX * self.page_bytes as u64).next_multiple_of(BLOCK_BYTES as u64);
            let is_whole = log.segment_bytes.is_multiple_of(BLOCK_BYTES as u64);
            if !is_whole || log.segment_bytes < least + BLOCK_BYTES as u64 || log.buffer_bytes < 2 * least {
                return Err(PagedError::LogTooSmall {
                    segment: least + BLOCK_BYTES as u64,
                    buffer: 2 * least,
                });
            }
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
