//! The scheme's name as a type, and what its transactions keep.

use crate::scheme::RowNumber;

/// The method of `mvcc`.
pub struct MvccMethod;

/// State of a transaction besides its rows.
#[derive(Default)]
pub struct MvccOwn {
    /// The last epoch that the transaction sees, if it reads a snapshot.
    pub(super) snapshot: Option<u64>,
    /// True if the transaction is a participant of a transaction over several databases.
    pub(super) is_participant: bool,
    /// From `prepare` to `commit`: numbers of rows, in order, and copies of their versions.
    pub(super) copies: Vec<(RowNumber, u64)>,
    /// From `prepare` to `commit`: numbers of rows to delete that need no copy.
    pub(super) in_place: Vec<RowNumber>,
    /// Numbers of inserted rows, in order, and blocks that name the deleted rows whose index
    /// entries they take over.
    pub(super) inherited: Vec<(RowNumber, u64)>,
}
