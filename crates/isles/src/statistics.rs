//! Statistics of a database: memory, log, epochs, and ends of transactions.

use std::time::Duration;

use crate::latency::Latencies;

/// Statistics of a database, returned by [`Database::statistics`](crate::Database::statistics).
/// Counts begin with the opening. The figures are not a snapshot: each figure was right at some
/// moment during the call. [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Memory for rows and indexes.
    pub memory: MemoryStatistics,
    /// The log; `None` in memory.
    pub log: Option<LogStatistics>,
    /// The current epoch. While sessions run transactions, it advances every 1 to 10 ms.
    pub epoch: u64,
    /// Checkpoints that have ended, successfully or not. This includes checkpoints requested by
    /// [`Database::checkpoint`](crate::Database::checkpoint) and automatic ones.
    pub checkpoints: u64,
    /// Ends of transactions.
    pub transactions: TransactionStatistics,
    /// Durations of transactions; `None` unless [`Builder::latencies`](crate::Builder::latencies)
    /// enables them.
    pub latencies: Option<Latencies>,
    /// Sessions that exist now.
    pub sessions: usize,
    /// Limit set by [`Builder::sessions`](crate::Builder::sessions).
    pub sessions_max: usize,
}

/// Memory of rows and indexes, in bytes. Buffers of sessions and of the log are not included.
/// [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Limit set by [`Builder::memory_limit`](crate::Builder::memory_limit).
    pub limit: u64,
    /// Address space reserved from the operating system, some of it ahead of need. Only touched
    /// memory is physically allocated.
    pub reserved: u64,
    /// Part of `reserved` that rows and indexes have ever occupied.
    pub touched: u64,
    /// Part of `touched` that rows and indexes occupy now, including deleted rows that a
    /// transaction may still read.
    pub used: u64,
}

/// Activity of the log since the database was opened.
/// [`Database::statistics`](crate::Database::statistics) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatistics {
    /// Bytes written, headers and padding included.
    pub written_bytes: u64,
    /// Flushes of files.
    pub flushes: u64,
    /// Groups of commits that were written together.
    pub groups: u64,
    /// Sum over all groups of the time from the first write to the end of the flush.
    pub group_time: Duration,
}

/// Ends of transactions, closures and objects, of all sessions, including sessions that were
/// dropped. Steps of a [`Deployment`](crate::Deployment)'s procedures are not included.
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
    /// Attempts that conflicted with another transaction. Most are followed by another attempt of
    /// the same transaction.
    pub conflicts: ConflictStatistics,
}

/// Conflicts of attempts, by kind. [`Database::statistics`](crate::Database::statistics) has an
/// example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConflictStatistics {
    /// A verb found that a row had changed since the transaction read it.
    pub read_changed: u64,
    /// A verb found that the rows of a range had changed since the transaction read the range.
    pub phantom: u64,
    /// A verb found a row locked by another transaction.
    pub locked: u64,
    /// A verb found that another transaction is inserting or deleting the same key.
    pub key_in_use: u64,
    /// A verb would have waited for a transaction that waits for this one.
    pub deadlock: u64,
    /// All verbs succeeded, but the commit found a locked row, or a change of a row or range that
    /// was read.
    pub at_commit: u64,
}

impl ConflictStatistics {
    /// Returns the sum over all kinds.
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
