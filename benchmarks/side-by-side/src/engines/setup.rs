//! Settings of the engines.

use super::binaries::Binaries;

/// Settings for opening a database.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Most clients at a time.
    pub clients_max: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes that the engine may use, including the operating system's cache of its files; `None`:
    /// room for all rows.
    pub memory: Option<u64>,
    /// PostgreSQL's programs; `None`: the engine is not available.
    pub postgres: Option<Binaries>,
}

impl Setup {
    /// Twice the bytes of all rows with their overhead, plus a constant for fixed costs and for
    /// inserted rows: a memory map of this size holds everything.
    pub(super) fn space_bytes(&self) -> u64 {
        (4 << 30) + self.rows * 2 * 1024
    }

    /// Bytes of the cache of an engine whose memory is almost only this cache: it holds everything,
    /// or has seven eighths of the memory.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.memory.map_or_else(|| self.space_bytes(), |bytes| bytes / 8 * 7)
    }

    /// Bytes of the cache of an engine that has other buffers, too, and reads its files through the
    /// operating system's cache: a quarter of the memory. The operating system uses the rest.
    pub(super) fn cache_before_files(&self) -> u64 {
        self.memory.map_or_else(|| self.space_bytes(), |bytes| bytes / 4)
    }

    /// Bytes of a write buffer, of which an engine has several; `None`: the engine's default.
    pub(super) fn buffer_bytes(&self) -> Option<u64> {
        self.memory.map(|bytes| bytes / 16)
    }
}
