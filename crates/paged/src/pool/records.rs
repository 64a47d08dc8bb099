//! What a worker knows of its records.

/// A worker's records.
#[derive(Default)]
pub(super) struct Ahead {
    pub record: Vec<u64>,
    /// The transaction that changes pages.
    pub transaction: u64,
    /// Whether the transaction takes its changes back.
    pub compensates: bool,
    /// Whether the transaction has written a record.
    pub has_written: bool,
}
