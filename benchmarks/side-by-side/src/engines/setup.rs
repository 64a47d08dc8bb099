//! What the engines are told.

use super::binaries::Binaries;

/// What it takes to open a database.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Most clients at a time.
    pub clients_max: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes that the engine may take, with what the operating system caches for it, if that is not
    /// to hold all rows.
    pub memory: Option<u64>,
    /// Where PostgreSQL's programs are; without it there is no such engine.
    pub postgres: Option<Binaries>,
}

impl Setup {
    /// Twice the bytes of all rows with all that belongs to them, and room for what is not in
    /// proportion, and for rows that are inserted: a map of this size holds everything.
    pub(super) fn space_bytes(&self) -> u64 {
        (4 << 30) + self.rows * 2 * 1024
    }

    /// Bytes of a cache that is all that an engine has, but for what it works with: it holds
    /// everything, or seven eighths of the memory.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.memory.map_or_else(|| self.space_bytes(), |bytes| bytes / 8 * 7)
    }

    /// Bytes of the cache of an engine that has buffers of its own beside it, and reads its files
    /// through the operating system's: a quarter of the memory. The operating system has what is
    /// left.
    pub(super) fn cache_before_files(&self) -> u64 {
        self.memory.map_or_else(|| self.space_bytes(), |bytes| bytes / 4)
    }

    /// Bytes of a buffer of rows that were written, of which an engine has several; none: as the
    /// engine likes.
    pub(super) fn buffer_bytes(&self) -> Option<u64> {
        self.memory.map(|bytes| bytes / 16)
    }
}
