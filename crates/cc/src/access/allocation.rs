//! Rows with their tails: made for a transaction, retired when no index names them any more.

use platform::{OutOfMemory, Platform};
use storage::record::tail;
use storage::{Local, RecordHeader, RecordRef, Table};

/// A row of the table with this content, which no index names yet.
#[inline(always)]
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
        // SAFETY: made above, and no row points to it.
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
