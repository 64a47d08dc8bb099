//! Look-ahead: the keys that a procedure announces before it begins (`concurrency::look_ahead` says
//! how they are used, and why that is safe).

use schema::{ColumnSet, Index, Key, Row};

/// Hears what a transaction will use, as far as that is known before it begins.
pub trait LookAhead {
    /// The transaction will use these columns of the rows with these keys.
    fn rows<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: impl Iterator<Item = K>,
        columns: ColumnSet<R>,
    );

    /// The transaction will use these columns of the row with this key.
    #[inline(always)]
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, columns: ColumnSet<R>) {
        self.rows(index, std::iter::once(key.clone()), columns);
    }

    /// It will insert this key.
    fn insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K);
}
