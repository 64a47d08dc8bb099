//! Rows of a transaction about which nothing can conflict: they are in a table that is never written, or were found without
//! concurrency control. They are apart from the others, which are looked at when the transaction ends.

use platform::Platform;
use storage::{RecordHeader, RecordRef};

use super::row::{Access, NO_SUCH_ROW, READ_ONLY, ROWS_MAX};
use super::shape::check_read;
use crate::abort::Abort;

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

impl<P: Platform, H: RecordHeader<P>> super::Accesses<P, H> {
    /// The row with this number, if nothing about it can conflict.
    #[inline(always)]
    pub(crate) fn free(&self, number: u32) -> Option<&FreeRow<P, H>> {
        self.free.get(number)
    }

    /// Copies words of such a row.
    #[inline(always)]
    pub(crate) fn read_free(
        &self,
        c: P::Core,
        number: u32,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let row = self.free(number).ok_or(NO_SUCH_ROW)?.row;
        check_read(row.words().len(), first, out.len())?;
        P::read_words(c, &row.words()[first..first + out.len()], out);
        Ok(())
    }

    /// The row, which the transaction is about to change.
    #[inline(always)]
    pub(crate) fn get_to_change(&mut self, number: u32) -> Result<&mut Access<P, H>, Abort> {
        if number as usize >= self.list.len() {
            return Err(self.refuse_change(number));
        }
        self.get(number)
    }

    #[cold]
    fn refuse_change(&self, number: u32) -> Abort {
        if self.free(number).is_some() { READ_ONLY } else { NO_SUCH_ROW }
    }

    /// The row and its table, whether anything about it can conflict or not.
    pub(crate) fn row_of(&self, number: u32) -> Option<(RecordRef<P, H>, usize)> {
        let free = || self.free(number).map(|free| (free.row, free.table as usize));
        let listed = self.list.get(number as usize);
        listed.map(|access| (access.row, access.table as usize)).or_else(free)
    }
}
