//! Figures of memory of a run.

use boundary::Database;
use platform::Platform;
use serde::{Deserialize, Serialize};

/// Memory for rows and indexes at the end of a run, and the part that its commits took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryFigures {
    /// Bytes in blocks that are in use.
    pub used_bytes: u64,
    /// Bytes taken from the machine, including those that are not divided into blocks yet.
    pub reserved_bytes: u64,
    /// Bytes that were not used before, for each commit, warm-up included.
    pub fresh_per_commit: f64,
    /// Growth of the stored data for each commit: headers and words of rows, and their entries in
    /// indexes.
    pub rows_per_commit: f64,
}

/// The memory of one database, or the sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemoryTaken {
    used: u64,
    reserved: u64,
    touched: u64,
    content: u64,
}

impl MemoryTaken {
    /// The memory now, while no transaction runs.
    pub(crate) fn of<P: Platform>(c: P::Core, database: &Database<P>) -> Self {
        let (memory, content) = (database.memory_use(c), database.content(c));
        MemoryTaken {
            used: memory.used,
            reserved: memory.reserved,
            touched: memory.touched,
            content: content.row_bytes + content.entry_bytes,
        }
    }

    /// The sum with another database.
    pub(crate) fn and(self, other: MemoryTaken) -> Self {
        MemoryTaken {
            used: self.used + other.used,
            reserved: self.reserved + other.reserved,
            touched: self.touched + other.touched,
            content: self.content + other.content,
        }
    }

    /// The memory now, with growth since `before`. A database that was opened again meanwhile may
    /// have less than before.
    #[must_use]
    pub(crate) fn since(self, before: MemoryTaken) -> Self {
        MemoryTaken {
            touched: self.touched.saturating_sub(before.touched),
            content: self.content.saturating_sub(before.content),
            ..self
        }
    }

    /// The figures for this many commits.
    pub(crate) fn figures(self, commits: u64) -> MemoryFigures {
        let share = |bytes: u64| bytes as f64 / commits.max(1) as f64;
        MemoryFigures {
            used_bytes: self.used,
            reserved_bytes: self.reserved,
            fresh_per_commit: share(self.touched),
            rows_per_commit: share(self.content),
        }
    }
}
