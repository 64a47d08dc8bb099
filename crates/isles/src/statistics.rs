//! Figures of a database: memory, log, epochs, and how transactions ended.

use std::time::Duration;

use crate::latency::Latencies;

/// Figures of a database, from [`Database::statistics`](crate::Database::statistics). Counts begin
/// with the opening. The figures are not of one moment: each was right at some moment during the
/// call. [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Memory for rows and indexes.
    pub memory: MemoryStatistics,
    /// The log; `None` in memory.
    pub log: Option<LogStatistics>,
    /// The current epoch. It advances while sessions run transactions, by one in 1 to 10 ms.
    pub epoch: u64,
    /// Copies of all rows that have ended, whether they were asked for
    /// ([`Database::checkpoint`](crate::Database::checkpoint)) or became due, and whether or not
    /// they have succeeded.
    pub checkpoints: u64,
    /// How transactions ended.
    pub transactions: TransactionStatistics,
    /// How long they took; `None` unless [`Builder::latencies`](crate::Builder::latencies) says so.
    pub latencies: Option<Latencies>,
    /// Sessions that are there.
    pub sessions: usize,
    /// Most sessions that there may be: [`Builder::sessions`](crate::Builder::sessions).
    pub sessions_max: usize,
}

/// Bytes for rows and indexes. Buffers of sessions and of the log are not among them.
/// [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Most that may be reserved: [`Builder::memory_limit`](crate::Builder::memory_limit).
    pub limit: u64,
    /// Taken from the machine, some of it ahead of need. What the machine gives it really is what
    /// was touched.
    pub reserved: u64,
    /// The part of it that rows and indexes have ever used.
    pub touched: u64,
    /// The part of it that rows and indexes use now, with deleted rows that a transaction may still
    /// read.
    pub used: u64,
}

/// The work of the log since the database was opened.
/// [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatistics {
    /// Bytes written, headers and padding included.
    pub written_bytes: u64,
    /// Flushes of files.
    pub flushes: u64,
    /// Groups of commits that went to the disk together.
    pub groups: u64,
    /// From the beginning of each group's writes to the end of its flush, summed up.
    pub group_time: Duration,
}

/// How transactions ended: closures and objects, in all sessions, those included that are gone.
/// Steps of a [`Deployment`](crate::Deployment)'s procedures are not among them.
/// [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStatistics {
    /// Transactions that committed, snapshots included.
    pub commits: u64,
    /// Transactions that rolled back by their own decision.
    pub rollbacks: u64,
    /// Transactions that ended with an error of this library.
    pub failures: u64,
    /// Attempts that met another transaction. Most are followed by another attempt of the same
    /// transaction.
    pub conflicts: ConflictStatistics,
}

/// Causes of conflicts, in a verb or at the commit.
/// [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConflictStatistics {
    /// A verb found a row changed that was read before.
    pub read_changed: u64,
    /// A verb found another row in a range that was read before.
    pub phantom: u64,
    /// A verb found a row locked by another transaction.
    pub locked: u64,
    /// A verb found that another transaction is inserting or deleting the same key.
    pub key_in_use: u64,
    /// A verb waited for a transaction that waited for this one.
    pub deadlock: u64,
    /// No verb failed, and the commit found a row locked, or something changed that was read.
    pub at_commit: u64,
}

impl ConflictStatistics {
    /// All together.
    ///
    /// ```
    /// let database = isles::Database::in_memory().open()?;
    /// assert_eq!(database.statistics().transactions.conflicts.total(), 0);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn total(&self) -> u64 {
        let ConflictStatistics { read_changed, phantom, locked, key_in_use, deadlock, at_commit } = self;
        read_changed + phantom + locked + key_in_use + deadlock + at_commit
    }
}
