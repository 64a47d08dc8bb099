//! What a worker knows of its records.

/// A transaction's place in the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writing {
    /// Its number; 0: none.
    pub(super) transaction: u64,
    /// The number of its owner, by which checkpoints know where the oldest transaction begins; none
    /// at a restart.
    pub(super) owner: Option<usize>,
    /// Whether the transaction takes its changes back.
    pub(super) compensates: bool,
    /// Whether the transaction has written a record.
    pub(super) has_written: bool,
    /// Whether checkpoints know by the owner where it begins.
    pub(super) is_under_way: bool,
}

impl Writing {
    /// That of a transaction of this owner which begins.
    pub(crate) fn of_owner(transaction: u64, owner: usize) -> Self {
        Writing { transaction, owner: Some(owner), ..Writing::default() }
    }

    /// What an earlier life of the database has written of a transaction.
    pub(crate) fn of_earlier(transaction: u64, owner: Option<usize>) -> Self {
        Writing { transaction, owner, has_written: true, ..Writing::default() }
    }

    /// The transaction's number.
    pub(crate) fn transaction(&self) -> u64 {
        self.transaction
    }

    /// The owner who has to say that the transaction begins.
    pub(super) fn begins(&self) -> Option<usize> {
        self.owner.filter(|_| !self.is_under_way)
    }
}

/// A worker's records.
#[derive(Default)]
pub(super) struct Ahead {
    pub record: Vec<u64>,
    /// The transaction that changes pages.
    pub writing: Writing,
}
