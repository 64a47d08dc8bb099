//! The steps of a transaction of `hstore`, to take them back.

/// The place of a row's keys in [`HstoreState::words`](super::state::HstoreState), as transactions
/// keep them.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) table: u32,
    pub(super) at: u32,
}

/// One thing done. Rows are named as in indexes, or by their number.
#[derive(Clone, Copy)]
pub(super) enum UndoStep {
    /// Words of a row were overwritten; what was there begins at `at` of
    /// [`HstoreState::words`](super::state::HstoreState).
    Write { row: u32, first: u32, count: u32, at: u32 },
    /// A row has another tail; its last word was written by a step of its own.
    Tail { old: u64, new: u64 },
    /// A row is new, and in the indexes of these bits.
    Insert { row: u64, keys: Keys, linked: u16 },
    /// A row is new, and in no index.
    InsertUnindexed { row: u64, keys: Keys },
    /// The entry of one index names another row than `before`, which the transaction has deleted.
    /// In `keys` are the number of words of its key, and the key.
    Pass { before: u64, keys: Keys, position: u8 },
    /// A row is marked as deleted; it has entries in the indexes of these bits.
    Delete { row: u64, keys: Keys, linked: u16 },
}

impl UndoStep {
    /// The name of the row that is new; 0 if none is.
    #[inline]
    pub(super) fn inserted(&self) -> u64 {
        if let UndoStep::Insert { row, .. } = self { *row } else { 0 }
    }

    pub(super) fn mark_linked(&mut self, position: usize) {
        if let UndoStep::Insert { linked, .. } = self {
            *linked |= 1 << position;
        }
    }
}
