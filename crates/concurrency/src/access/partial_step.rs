//! Steps that are noted for a roll-back to a savepoint.

/// One thing to take back that shows nowhere else.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartialStep {
    /// The transaction has deleted a row that it had inserted, and that was to take over the
    /// entries of these bits.
    OwnDeleted { number: u32, inherits: u16 },
    /// A row has another new tail than this one, which stays until the transaction ends.
    TailReplaced { number: u32, tail: u64 },
}
