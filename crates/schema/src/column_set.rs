//! Sets of columns of a row type, and columns that are never written.
//!
//! A table can declare columns that no transaction writes after loading
//! ([`TableOptions::constant`]): all columns except those that the program's procedures write. The
//! set of rows of such a table does not change. A read of constant columns (`find_constant`) needs
//! no concurrency control, because no transaction can change them. The engine refuses every write
//! of a constant column, and every insertion into such a table and deletion from it. A program with
//! a wrong declaration therefore fails instead of reading wrong values.
//!
//! Sets consist of whole words of 8 bytes: a column that shares a word with a written column is not
//! constant.
//!
//! [`TableOptions::constant`]: crate::TableOptions::constant

use std::marker::PhantomData;

use terms::rows::word_set;

use crate::row::{Field, Row, Value};
use crate::table::Handle;

/// A set of columns of rows of type `R`.
pub struct ColumnSet<R> {
    words: u64,
    kind: PhantomData<fn() -> R>,
}

impl<R> Clone for ColumnSet<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for ColumnSet<R> {}

impl<R: Row> ColumnSet<R> {
    /// The empty set.
    pub const NONE: Self = ColumnSet { words: 0, kind: PhantomData };
    /// The set of all columns.
    pub const ALL: Self = ColumnSet { words: word_set(0, R::BYTES / 8), kind: PhantomData };

    /// Returns the set of one column or group.
    #[inline(always)]
    pub const fn of<V: Value>(field: Field<R, V>) -> Self {
        let (start, end) = (field.offset(), field.offset() + V::BYTES);
        ColumnSet { words: word_set(start / 8, end.div_ceil(8)), kind: PhantomData }
    }

    /// Returns the union with another set.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        ColumnSet { words: self.words | other.words, kind: PhantomData }
    }

    /// Adds a column or group.
    #[must_use]
    pub const fn with<V: Value>(self, field: Field<R, V>) -> Self {
        self.and(Self::of(field))
    }

    /// Returns the columns that are constant if transactions write only the columns of this set.
    pub const fn others_are_constant(self) -> ConstantColumns {
        ConstantColumns(Self::ALL.words & !self.words)
    }

    /// Returns true if all columns of `other` are in the set.
    #[inline(always)]
    pub const fn contains(self, other: Self) -> bool {
        self.words & other.words == other.words
    }

    /// Returns the set in the form of [`terms::rows::word_set`].
    #[inline(always)]
    pub const fn words(self) -> u64 {
        self.words
    }
}

/// Columns of a table that are never written, returned by [`ColumnSet::others_are_constant`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConstantColumns(u64);

impl ConstantColumns {
    /// Returns the set in the form of [`terms::rows::word_set`].
    pub const fn words(self) -> u64 {
        self.0
    }
}

/// Returns the first word of a set that is not empty, and the number of words from it to the last
/// one.
#[inline(always)]
pub fn extent(words: u64) -> (usize, usize) {
    let first = words.trailing_zeros() as usize;
    (first, (u64::BITS - words.leading_zeros()) as usize - first.min(64))
}

/// Error for a read of a column that is not in the [`RowPart`].
pub const OTHER_COLUMN: &str = "a column that the row was not looked up for";

/// A row of type `R` of which only some columns are read.
pub struct RowPart<R> {
    row: Handle<R>,
    columns: ColumnSet<R>,
}

impl<R> Clone for RowPart<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for RowPart<R> {}

impl<R: Row> RowPart<R> {
    /// Restricts a row to these columns.
    #[inline(always)]
    pub fn new(row: Handle<R>, columns: ColumnSet<R>) -> Self {
        RowPart { row, columns }
    }

    /// Returns the row, if the field belongs to the part.
    #[inline(always)]
    pub fn row_for<V: Value>(self, field: Field<R, V>) -> Option<Handle<R>> {
        self.columns.contains(ColumnSet::of(field)).then_some(self.row)
    }
}
