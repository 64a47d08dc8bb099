//! Rows to insert, as an argument.

/// A row to insert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow<'r> {
    /// Its keys, one an index of the table.
    pub keys: &'r [&'r [u64]],
    /// Its fixed part.
    pub fixed: &'r [u8],
    /// Its tail; empty if the table has none.
    pub tail: &'r [u8],
}

/// Rows to insert into one table, without tails.
#[derive(Clone, Copy, Debug)]
pub struct NewRows<'r> {
    /// How many.
    pub count: usize,
    /// Their keys: those of the first row, one an index, then those of the next.
    pub keys: &'r [u64],
    /// Their fixed parts, one behind the other.
    pub fixed: &'r [u8],
}
