//! Why a transaction did not commit.

/// The cause of a conflict between two transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conflict {
    /// A row that was read had changed by the end.
    ReadChanged,
    /// A key or range that was read had another row by the end, or would have got one.
    Phantom,
    /// Another transaction holds the row.
    Locked,
    /// Another transaction is inserting or deleting the same key.
    KeyInUse,
    /// The transaction waited for others that waited for it, and was chosen to give up.
    Deadlock,
}

/// A place that a transaction waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedPlace {
    /// A row; over pages a key or a gap, or the table as a whole.
    Row,
    /// The gap between two keys, which range locks protect.
    Gap,
}

/// Why a transaction did not commit. After any of these nothing of it remains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Abort {
    /// The transaction conflicted with another one: trying again may succeed.
    #[error("conflict with another transaction ({0:?}): try again")]
    Conflict(Conflict),
    /// A row with this key exists.
    #[error("a row with this key exists in index {index} of table {table}")]
    Duplicate {
        /// Number of the table.
        table: u32,
        /// Number of the index that already has the key: 0 is the primary key.
        index: u32,
    },
    /// The memory limit, or that of the machine, is reached.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The caller asked for the abort: completed work, not a failure.
    #[error("rolled back by the transaction itself")]
    RollBack,
    /// The deadline passed before the transaction committed.
    #[error("the deadline passed")]
    Deadline,
    /// The transaction waited for a lock as long as its session lets it.
    #[error("waited {nanos} ns for a lock ({place:?} of table {table:?})")]
    LockTimeout {
        /// Number of the table, as far as it is known.
        table: Option<u32>,
        /// The place in the table.
        place: LockedPlace,
        /// The time of the wait.
        nanos: u64,
    },
    /// The transaction was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The transaction touched more rows than one transaction may.
    #[error("more than {limit} rows in one transaction: split it")]
    TooLarge {
        /// Highest number of rows one transaction may touch.
        limit: usize,
    },
    /// The log has stopped: nothing commits any more, and what committed since its last durable
    /// epoch is not acknowledged.
    #[error("{0}")]
    NotDurable(String),
    /// The storage manager failed: a file, a page in it, or there is no room for pages. What
    /// failed, and what to do.
    #[error("{0}")]
    Storage(String),
    /// At the deadline it was not known whether the changes of the transaction, or the changes that
    /// its end follows from, are durable.
    #[error("not known to be durable when the deadline passed")]
    DurabilityUnknown {
        /// True if the transaction has committed: then others may see its changes. Otherwise it is
        /// undone, and the reason is unknown.
        committed: bool,
    },
    /// The savepoint is of another transaction, was released, or was set after one to which the
    /// transaction has rolled back.
    #[error("a savepoint that the transaction does not have any more: roll back to one that it has")]
    StaleSavepoint,
    /// The caller used the interface wrongly, such as by changing a key column in place; retrying
    /// cannot help.
    #[error("misuse: {0}")]
    Misuse(&'static str),
}

impl Abort {
    /// A row with this key exists in this index of the table, each named by its number.
    #[cold]
    pub fn duplicate(table: usize, index: usize) -> Self {
        Abort::Duplicate { table: table as u32, index: index as u32 }
    }

    /// The transaction waited in vain for a lock of a table that the caller names.
    #[cold]
    pub fn lock_timeout(place: LockedPlace, nanos: u64) -> Self {
        Abort::LockTimeout { table: None, place, nanos }
    }

    /// The same, with the table of a lock that the transaction waited for in vain.
    #[cold]
    #[must_use]
    pub fn in_table(mut self, number: usize) -> Self {
        if let Abort::LockTimeout { table: table @ None, .. } = &mut self {
            *table = Some(number as u32);
        }
        self
    }

    /// True if the same transaction may succeed when tried again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Abort::Conflict(_))
    }

    /// True if the transaction can go on after a verb has failed like this, once it has rolled back
    /// to a savepoint: the reason is a call of the program, and neither another transaction nor a
    /// limit.
    pub fn ends_at_savepoint(&self) -> bool {
        matches!(self, Abort::Duplicate { .. } | Abort::Misuse(_) | Abort::StaleSavepoint)
    }
}

/// A platform could not hand out memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {requested} bytes for {name} were refused ({reason})")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub requested: usize,
    /// The structure that asked.
    pub name: &'static str,
    /// The reason of the refusal: the operating system's message, or the limit.
    pub reason: String,
}
