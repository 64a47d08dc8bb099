//! Checks that the rows and keys of a caller have the lengths of the table. Later readers of the
//! row would read rows, keys and tails of another length beyond their ends: so verbs refuse them.

use platform::Platform;
use storage::Table;

use super::row::SAME_ROWS;
use crate::new_rows::NewRows;
use terms::Abort;

const LENGTH: Abort = Abort::Misuse("a row of another length than those of the table");
const KEYS: Abort = Abort::Misuse("other keys than the table's indexes have");
const CONSTANT: Abort = Abort::Misuse("a column that was declared never to be written");
const SPAN: Abort = Abort::Misuse("bytes that rows of the table do not have");
const LOOSE_TAIL: Abort = Abort::Misuse("a tail is not read without concurrency control");
const TAIL: Abort = Abort::Misuse("rows of the table have no tail");

/// Checks the shape of a new row of the table.
#[inline(always)]
pub(crate) fn check_row<P: Platform>(
    table: &Table<P>,
    keys: &[&[u64]],
    fixed: &[u8],
    tail: &[u8],
) -> Result<(), Abort> {
    if fixed.len() != table.fixed_bytes() {
        return Err(LENGTH);
    }
    if !tail.is_empty() {
        check_tail(table)?;
    }
    check_keys(table, keys)
}

/// Checks the shapes of new rows of the table, which has no long keys.
pub(crate) fn check_rows<P: Platform>(table: &Table<P>, rows: NewRows<'_>) -> Result<(), Abort> {
    if rows.fixed.len() != rows.count * table.fixed_bytes() {
        return Err(LENGTH);
    }
    if table.closed {
        return Err(SAME_ROWS);
    }
    if rows.keys.len() != rows.count * table.key_words() || table.has_long_keys { Err(KEYS) } else { Ok(()) }
}

/// Checks that a row with keys like these, one an index, may enter the table or leave it.
#[inline(always)]
pub(crate) fn check_keys<P: Platform>(table: &Table<P>, keys: &[&[u64]]) -> Result<(), Abort> {
    if table.closed {
        return Err(SAME_ROWS);
    }
    let as_long = || table.indexes.iter().zip(keys).all(|(index, key)| index.takes(key.len()));
    if table.indexes.len() == keys.len() && as_long() { Ok(()) } else { Err(KEYS) }
}

/// Checks that a row of `words` words has the words from number `first` on.
#[inline(always)]
pub(crate) fn check_read(words: usize, first: usize, count: usize) -> Result<(), Abort> {
    if first <= words && count <= words - first { Ok(()) } else { Err(SPAN) }
}

/// Checks that a transaction may write the bytes from `offset` on of the table's rows.
#[inline(always)]
pub(crate) fn check_write<P: Platform>(table: &Table<P>, offset: usize, bytes: usize) -> Result<(), Abort> {
    let fixed = table.fixed_bytes();
    if offset > fixed || bytes > fixed - offset {
        return Err(SPAN);
    }
    if table.has_constant(offset, bytes) { Err(CONSTANT) } else { Ok(()) }
}

/// Checks that the tail of a row of the table can be read, which is `free` of concurrency control
/// or not: a tail is found through a word of the row, which nothing holds still where writers are
/// not kept out.
#[inline(always)]
pub(crate) fn check_tail_read<P: Platform>(table: &Table<P>, free: bool) -> Result<(), Abort> {
    if free && !table.read_only { Err(LOOSE_TAIL) } else { check_tail(table) }
}

/// Checks that rows of the table have a tail.
#[inline(always)]
pub(crate) fn check_tail<P: Platform>(table: &Table<P>) -> Result<(), Abort> {
    if table.has_tail { Ok(()) } else { Err(TAIL) }
}
