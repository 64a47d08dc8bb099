//! Savepoints: moments within a transaction to which it can roll back, and go on.
//!
//! A roll-back takes changes back, and nothing else: what the transaction has read since stays
//! among what it validates or has locked, because it may have decided what the transaction does
//! next, and locks stay. A row that was inserted since becomes a row that the transaction has
//! inserted and deleted: where other transactions could find the row, its entries stay in the
//! indexes until the transaction ends, and keep its keys from others as before.
//!
//! A transaction that sets no savepoint pays nothing: what a roll-back needs is kept from the first
//! savepoint on, and most of it follows from where keys and writes of the transaction lie.

use crate::writes::WriteMark;

/// How much a transaction had kept when it set a savepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavepointMark {
    /// Rows that it had found.
    pub(crate) rows: usize,
    /// Words of keys.
    pub(crate) words: usize,
    /// End of its writes that are not applied.
    pub(crate) writes: WriteMark,
    /// Entries in its list of things to take back.
    pub(crate) steps: usize,
}
