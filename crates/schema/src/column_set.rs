//! Sets of columns of a row type, and columns that are never written.
//!
//! A table can be declared to have columns that no transaction writes after loading
//! ([`TableOptions::constant`]): those that are left when the columns that a program's procedures
//! write are taken away. Such a table has always the same rows. A transaction that reads constant
//! columns only (`find_constant`) needs no concurrency control for that: nobody can make what it
//! reads untrue. The engine refuses to write a constant column, and to insert rows into such a
//! table or delete them, whoever asks: a program that was declared wrongly fails, and reads nothing
//! wrong.
//!
//! Sets are of whole words of 8 bytes: a column that shares a word with a column that is written is
//! not constant.
//!
//! [`TableOptions::constant`]: crate::TableOptions::constant

use std::marker::PhantomData;

use terms::rows::word_set;

use crate::row::{Field, Row, Value};
use crate::table::Handle;

/// Columns of rows of type `R`.
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
    /// No columns.
    pub const NONE: Self = ColumnSet { words: 0, kind: PhantomData };
    /// All columns.
    pub const ALL: Self = ColumnSet { words: word_set(0, R::BYTES / 8), kind: PhantomData };

    /// One column or group.
    #[inline(always)]
    pub const fn of<V: Value>(field: Field<R, V>) -> Self {
        let (start, end) = (field.offset(), field.offset() + V::BYTES);
        ColumnSet { words: word_set(start / 8, end.div_ceil(8)), kind: PhantomData }
    }

    /// These columns and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        ColumnSet { words: self.words | other.words, kind: PhantomData }
    }

    /// These columns and one more.
    #[must_use]
    pub const fn with<V: Value>(self, field: Field<R, V>) -> Self {
        self.and(Self::of(field))
    }

    /// The columns that are constant if no others are written than these.
    pub const fn others_are_constant(self) -> ConstantColumns {
        ConstantColumns(Self::ALL.words & !self.words)
    }

    /// True if all columns of `other` are in the set.
    #[inline(always)]
    pub const fn contains(self, other: Self) -> bool {
        self.words & other.words == other.words
    }

    /// The set as [`terms::rows::word_set`] names words.
    #[inline(always)]
    pub const fn words(self) -> u64 {
        self.words
    }
}

/// Columns of a table that are never written: those that remain of
/// [`ColumnSet::others_are_constant`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConstantColumns(u64);

impl ConstantColumns {
    /// The set as [`terms::rows::word_set`] names words.
    pub const fn words(self) -> u64 {
        self.0
    }
}

/// The first word of a set that is not empty, and how many there are from it to the last one.
#[inline(always)]
pub fn extent(words: u64) -> (usize, usize) {
    let first = words.trailing_zeros() as usize;
    (first, (u64::BITS - words.leading_zeros()) as usize - first.min(64))
}

/// The refusal of a read of a column that is not in the [`RowPart`].
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
    /// These columns of a row.
    #[inline(always)]
    pub fn new(row: Handle<R>, columns: ColumnSet<R>) -> Self {
        RowPart { row, columns }
    }

    /// The row, if the field is one of the part.
    #[inline(always)]
    pub fn row_for<V: Value>(self, field: Field<R, V>) -> Option<Handle<R>> {
        self.columns.contains(ColumnSet::of(field)).then_some(self.row)
    }
}
