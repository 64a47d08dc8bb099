//! Changes of tables within a transaction, together with rows.
//!
//! A transaction makes tables that only it can use, works on them as on others, and says before its
//! commit which of them are there from then on, and which tables are gone. The commit does both, or
//! neither. What the caller keeps others from meanwhile is in a [`TableHold`]. The engine drops it
//! when the caller gives it up, or when the transaction has ended, however it has.

/// The changes of tables with which a transaction commits, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableChanges {
    /// Tables that the transaction has made, and that are there from then on. The others that it
    /// has made are not.
    pub made: Vec<usize>,
    /// Tables that are gone. No other transaction uses them.
    pub gone: Vec<usize>,
}

impl TableChanges {
    /// Returns true if all tables stay.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty() && self.gone.is_empty()
    }
}

/// Keeps others from something until it is dropped, for the caller of a transaction that changes
/// tables.
pub type TableHold = Box<dyn Send>;
