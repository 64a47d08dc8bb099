//! Rows with their tails: made for a transaction, retired when no index names them any more.

use std::ptr::NonNull;

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
    // SAFETY: rows are used through their instance, within epochs, and retired when no index names
    // them.
    let row = unsafe { RecordRef::<P, H>::allocate(c, local, fixed, last) };
    if row.is_err() {
        // SAFETY: made above, and no row points to it.
        unsafe { tail::retire(c, local, tail_bits) };
    }
    row
}

/// Rows without tails that are made together, at most: their blocks are on the stack until then.
const ROWS_TOGETHER: usize = 16;

/// Makes rows of the table with these contents, one behind the other in `fixed`, which no index
/// names yet, and gives each to `each`. The table's rows have no tails.
#[inline(always)]
pub(crate) fn new_rows<P: Platform, H: RecordHeader<P>>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    fixed: &[u8],
    mut each: impl FnMut(RecordRef<P, H>),
) -> Result<(), OutOfMemory> {
    let bytes = RecordRef::<P, H>::bytes(table.row_words);
    for fixed in fixed.chunks(ROWS_TOGETHER * table.fixed_bytes()) {
        let of_rows = fixed.chunks_exact(table.fixed_bytes());
        let mut blocks = [NonNull::dangling(); ROWS_TOGETHER];
        let blocks = &mut blocks[..of_rows.len()];
        local.allocate_several(c, bytes, blocks)?;
        for (block, fixed) in blocks.iter().zip(of_rows) {
            // SAFETY: as in `new_row`; a block of the length of the table's rows, which was
            // allocated for this one.
            each(unsafe { RecordRef::fill(c, *block, fixed, None) });
        }
    }
    Ok(())
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
