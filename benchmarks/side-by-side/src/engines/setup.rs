//! What the engines are told.

use super::postgres::server::Binaries;

/// What it takes to open a database.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Most clients at a time.
    pub clients_max: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of caches, if they are not to hold all rows.
    pub cache: Option<u64>,
    /// Where PostgreSQL's programs are; without it there is no such engine.
    pub postgres: Option<Binaries>,
}

impl Setup {
    /// Twice the bytes of all rows with all that belongs to them, and room for what is not in proportion, and for rows that are inserted:
    /// a map of this size holds everything.
    pub(super) fn space_bytes(&self) -> u64 {
        (4 << 30) + self.rows * 2 * 1024
    }

    /// Bytes of a cache: it holds everything, unless another size was asked for.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.cache.unwrap_or_else(|| self.space_bytes())
    }

    /// Bytes of the cache of an engine that has buffers beside it: three quarters of what all of it may take.
    pub(super) fn cache_beside_buffers(&self) -> u64 {
        self.cache.map_or_else(|| self.space_bytes(), |bytes| bytes / 4 * 3)
    }

    /// Bytes of a buffer of rows that were written, of which an engine has up to four; none: as the engine likes.
    pub(super) fn buffer_bytes(&self) -> Option<u64> {
        self.cache.map(|bytes| bytes / 16)
    }
}
