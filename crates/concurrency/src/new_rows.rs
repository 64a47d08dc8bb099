//! Several rows that are inserted at once, as an argument.

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
