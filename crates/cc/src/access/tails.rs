//! Rows and their tails: made for a transaction, given back when nobody finds them any more.

use platform::{OutOfMemory, Platform};
use storage::record::tail;
use storage::{Local, RecordHeader, RecordRef, Table};

use super::{Accesses, NEW_TAIL, WRITTEN};
use crate::abort::Abort;

/// A row of the table with this content, known to nobody.
pub(crate) fn new_row<P: Platform, H: RecordHeader<P>>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    fixed: &[u8],
    tail_bytes: &[u8],
) -> Result<RecordRef<P, H>, OutOfMemory> {
    let tail_bits = tail::allocate::<P>(c, local, tail_bytes)?;
    let last = table.has_tail.then_some(tail_bits);
    // SAFETY: rows are used through their instance, within epochs, and retired when no index names them.
    let row = unsafe { RecordRef::<P, H>::allocate(c, local, fixed, last) };
    if row.is_err() {
        // SAFETY: made above, known to nobody.
        unsafe { tail::retire(c, local, tail_bits) };
    }
    row
}

/// Retires a row of the table and its tail.
///
/// # Safety
/// No index holds the row any more, nor anything else its tail; once; inside an epoch.
pub(crate) unsafe fn retire_row<P: Platform, H: RecordHeader<P>>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    row: RecordRef<P, H>,
) {
    // SAFETY: the caller's promise, for the row and what it points to.
    unsafe {
        if table.has_tail {
            tail::retire(c, local, row.words().last().map_or(0, P::peek));
        }
        row.retire(c, local);
    }
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Gives the row, of a table with tails, a new one in place of one that this transaction may have given it before.
    pub(crate) fn write_tail(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: u32,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let bits = tail::allocate(c, local, bytes)?;
        let access = &mut self.list[number as usize];
        if access.flags & NEW_TAIL != 0 {
            // SAFETY: this transaction made it, and nobody else ever saw it.
            unsafe { tail::retire(c, local, access.tail) };
        }
        access.tail = bits;
        access.flags |= NEW_TAIL | WRITTEN;
        let offset = (access.row.words().len() - 1) * 8;
        self.writes.push(&mut access.writes, offset, &bits.to_le_bytes());
        Ok(())
    }

    /// Retires row, tail and pending tail.
    ///
    /// # Safety
    /// No index holds the row any more; once; inside an epoch.
    pub(crate) unsafe fn retire(&mut self, c: P::Core, local: &mut Local<P>, table: &Table<P>, number: u32) {
        let access = &self.list[number as usize];
        // SAFETY: the caller's promise, for the row and what it points to.
        unsafe {
            if access.flags & NEW_TAIL != 0 {
                tail::retire(c, local, access.tail);
            }
            retire_row(c, local, table, access.row);
        }
    }

    /// Retires new tails that will not be used.
    pub(crate) fn drop_tails(&mut self, c: P::Core, local: &mut Local<P>) {
        for access in &mut self.list {
            if access.flags & NEW_TAIL != 0 {
                // SAFETY: this transaction made the tail, and no row points to it.
                unsafe { tail::retire(c, local, access.tail) };
            }
            access.flags &= !NEW_TAIL;
        }
    }
}
