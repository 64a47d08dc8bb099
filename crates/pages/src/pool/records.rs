//! A worker's state of its transaction in the log.

use crate::log::LogWriter;
use crate::log::record::Compensation;

/// A transaction's place in the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writing {
    /// Its number; 0: none.
    pub(super) transaction: u64,
    /// The number of its owner, by which checkpoints find the beginning of the oldest transaction;
    /// none at a restart.
    pub(super) owner: Option<usize>,
    /// While the transaction is undone, or a part of it.
    pub(super) compensates: Option<Compensation>,
    /// True if the transaction has written a record.
    pub(super) has_written: bool,
    /// True if checkpoints find the transaction's beginning by its owner.
    pub(super) is_under_way: bool,
}

impl Writing {
    /// The state of a transaction of this owner that begins.
    pub(crate) fn of_owner(transaction: u64, owner: usize) -> Self {
        Writing { transaction, owner: Some(owner), ..Writing::default() }
    }

    /// The state of a transaction that an earlier generation has written.
    pub(crate) fn of_earlier(transaction: u64, owner: Option<usize>) -> Self {
        Writing { transaction, owner, has_written: true, ..Writing::default() }
    }

    /// The transaction's number.
    pub(crate) fn transaction(&self) -> u64 {
        self.transaction
    }

    /// The owner that has to publish the beginning of the transaction.
    pub(super) fn begins(&self) -> Option<usize> {
        self.owner.filter(|_| !self.is_under_way)
    }
}

/// A worker's records.
#[derive(Default)]
pub(super) struct Ahead {
    pub record: Vec<u64>,
    pub writer: LogWriter,
    /// The transaction that changes pages.
    pub writing: Writing,
}
