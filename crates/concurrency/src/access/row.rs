//! One row of a transaction, its flags, and the errors of verbs that may not use it.

use platform::{Address, Platform};
use storage::RecordRef;

use crate::writes::Chain;
use terms::Abort;

/// Most rows that one transaction may touch.
pub const ROWS_MAX: usize = 1 << 28;

pub(crate) const READ_ONLY: Abort =
    Abort::Misuse("the table is read-only, or the row was found without concurrency control");
pub(crate) const SAME_ROWS: Abort = Abort::Misuse(
    "the table is read-only, or has columns that are never written and so always the same rows",
);
pub(crate) const DELETED_BEFORE: Abort = Abort::Misuse("the row was deleted by this transaction");
pub(crate) const NO_SUCH_ROW: Abort = Abort::Misuse("a row that this transaction has not found");

/// The transaction writes the row.
pub(crate) const WRITTEN: u8 = 1;
/// The transaction inserts the row.
pub(crate) const INSERTED: u8 = 2;
/// The transaction deletes the row.
pub(crate) const DELETED: u8 = 4;
/// The scheme holds the row for the transaction (what that means is the scheme's matter).
pub(crate) const HELD: u8 = 8;
/// The transaction gives the row a new tail.
pub(crate) const NEW_TAIL: u8 = 16;
/// The transaction has copied words of the row.
pub(crate) const COPIED: u8 = 32;
/// A participant keeps the row as it has read it, and lets others read it. (Of optimistic schemes.)
pub(crate) const MARKED: u8 = 64;

/// The transaction has a copy of the whole row. (Of optimistic schemes: those that lock rows keep
/// another flag in this bit.)
pub(crate) const WHOLE: u8 = 128;

/// One row of a transaction.
pub(crate) struct Access<P: Platform, H> {
    pub row: RecordRef<P, H>,
    /// The row's place, for a global order.
    pub place: Address,
    /// The header as the scheme read it.
    pub seen: u64,
    pub table: u32,
    pub flags: u8,
    /// Indexes whose entry for the row is removed together with the row, one bit each.
    pub linked: u16,
    /// For a row that the transaction has deleted: indexes whose entry for the row another row
    /// takes over when the transaction commits, since the transaction has inserted the same key
    /// again.
    pub(super) passed: u16,
    /// For a row that the transaction inserts: indexes in which the row takes over an entry when
    /// the transaction commits.
    pub(super) inherits: u16,
    /// Start of the row's keys in `Accesses::keys`, if the row is inserted or deleted.
    pub keys: u32,
    pub writes: Chain,
    /// The new tail.
    pub tail: u64,
}

impl<P: Platform, H> Access<P, H> {
    /// A row that the transaction has found, or makes.
    #[inline(always)]
    pub(super) fn found(row: RecordRef<P, H>, place: Address, table: usize, seen: u64, flags: u8) -> Self {
        Access {
            row,
            place,
            seen,
            table: table as u32,
            flags,
            linked: 0,
            passed: 0,
            inherits: 0,
            keys: 0,
            writes: Chain::EMPTY,
            tail: 0,
        }
    }

    /// Returns true if nothing is to be done for the row when the transaction commits but to store
    /// what was written into the row, if anything.
    #[inline(always)]
    pub(crate) fn is_plainly_written(&self) -> bool {
        self.flags & (WRITTEN | DELETED | NEW_TAIL) == WRITTEN && self.inherits == 0
    }

    /// Returns true if the transaction has made the row and entered it in no index.
    pub(crate) fn is_unindexed(&self) -> bool {
        self.flags & (INSERTED | DELETED) == INSERTED && self.linked == 0 && self.inherits == 0
    }
}
