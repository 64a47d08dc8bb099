//! Rows of a transaction about which nothing can conflict: they are in a table that is never
//! written, or were found without concurrency control. They are apart from the others, which are
//! checked when the transaction ends.

use platform::Platform;
use storage::{RecordHeader, RecordRef};

use super::row::ROWS_MAX;
use terms::Abort;

/// In the numbers of these rows, and of no others.
const FREE: u32 = 1 << 31;

const _: () = assert!(ROWS_MAX < FREE as usize);

/// One of these rows.
pub(crate) struct FreeRow<P: Platform, H> {
    pub row: RecordRef<P, H>,
    pub table: u32,
}

/// These rows of one transaction.
pub(super) struct FreeRows<P: Platform, H>(Vec<FreeRow<P, H>>);

impl<P: Platform, H: RecordHeader<P>> FreeRows<P, H> {
    pub(super) fn new() -> Self {
        FreeRows(Vec::new())
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a row; its number. A row that is added again has another number.
    #[inline(always)]
    pub(super) fn push(&mut self, row: RecordRef<P, H>, table: usize) -> Result<u32, Abort> {
        if self.0.len() >= ROWS_MAX {
            return Err(Abort::TooLarge { limit: ROWS_MAX });
        }
        self.0.push(FreeRow { row, table: table as u32 });
        Ok(FREE | (self.0.len() - 1) as u32)
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<&FreeRow<P, H>> {
        // A number without the bit becomes one that is too large.
        self.0.get((number ^ FREE) as usize)
    }
}
