//! The state of a transaction that changes tables.

use boundary::TableHold;

/// The tables that a transaction changes, until it ends.
pub(crate) struct AlteredTables {
    /// The tables that it has made.
    pub(super) made: Vec<usize>,
    /// Keeps others from tables.
    pub(super) _hold: TableHold,
}
