//! Categories of a worker's time.

/// A category of a worker's time ("The full story of 1000 cores", VLDB Journal 2022, section 3, and
/// log and communication).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// The transaction's own logic and its rows.
    Useful,
    /// Looking keys up, inserting and removing them.
    Index,
    /// Getting timestamps.
    Timestamp,
    /// Locks, validation and their bookkeeping.
    Cc,
    /// Applying writes, releasing, cleaning up.
    Commit,
    /// Waiting for another transaction.
    Wait,
    /// Attempts that were aborted.
    Abort,
    /// Waiting between attempts.
    Backoff,
    /// Writing the log.
    Log,
    /// Messages between instances.
    Communication,
}

/// Number of categories.
pub const CATEGORIES: usize = 10;

impl Category {
    /// All categories in the order of their numbers.
    pub const ALL: [Category; CATEGORIES] = [
        Category::Useful,
        Category::Index,
        Category::Timestamp,
        Category::Cc,
        Category::Commit,
        Category::Wait,
        Category::Abort,
        Category::Backoff,
        Category::Log,
        Category::Communication,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Category::Useful => "useful",
            Category::Index => "index",
            Category::Timestamp => "timestamp",
            Category::Cc => "cc",
            Category::Commit => "commit",
            Category::Wait => "wait",
            Category::Abort => "abort",
            Category::Backoff => "backoff",
            Category::Log => "log",
            Category::Communication => "communication",
        }
    }
}
