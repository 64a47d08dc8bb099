//! Ways of doing things that stand beside the default, to compare with programs that do so: see
//! `docs/like-engine.md`.
//!
//! A way is chosen when an instance is made, and costs the default nothing: see where each is asked
//! for.

/// All ways of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// How rows are locked, by schemes that lock rows, and partitions.
    pub row_lock: RowLock,
    /// The part of a row that is copied.
    pub row_copies: RowCopies,
    /// How optimistic schemes lock what they have written.
    pub commit_locks: CommitLocks,
    /// How the scheme that detects deadlocks does so, where the locks of rows are managers.
    pub deadlocks: Deadlocks,
    /// Which schemes draw timestamps from a counter.
    pub timestamp_draws: TimestampDraws,
}

/// How the lock of a row is taken, under schemes that lock rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowLock {
    /// A word in front of the row, changed by compare and swap.
    #[default]
    Word,
    /// A manager with a latch: every grant, refusal and release goes through one queue, and holders
    /// are entries of a list. Under `occ` rows have latches, under `hstore` partitions have
    /// managers.
    Latch,
}

/// The part of a row that is copied when a transaction uses the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowCopies {
    /// The fields that are read or written.
    #[default]
    Fields,
    /// The whole row: by optimistic schemes when it is found and when it is written back, by those
    /// that lock rows when it is locked for writing, and again if the transaction aborts.
    Rows,
}

/// How a transaction that commits locks what it has written, under optimistic schemes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitLocks {
    /// In one order for all transactions. A transaction that finds a row locked aborts if it writes
    /// the row, and waits for a bounded time if it has only read the row.
    #[default]
    Ordered,
    /// In the order in which the transaction found the rows; if one is not free, it lets all go,
    /// pauses, and tries again a few times.
    NoWait,
}

/// How deadlocks are found, by the scheme that detects them, where the locks of rows are managers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deadlocks {
    /// In a graph without latches, in which a thread that waits for long shows what it holds; the
    /// youngest of a circle gives up.
    #[default]
    Graph,
    /// In lists of what transactions wait for, each behind a latch, searched all the time; that of
    /// a circle which has the fewest locks gives up.
    Lists,
}

/// Which schemes draw timestamps, where these come from a counter
/// ([`TimestampSource::Counter`](crate::TimestampSource::Counter)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampDraws {
    /// Those that use them.
    #[default]
    Used,
    /// Also those that draw one for each attempt in the published program, and use none here:
    /// `mvcc`, and `hstore` without managers of partitions.
    Published,
}
