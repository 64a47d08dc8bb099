//! Typed handles of tables, indexes and rows of the current transaction: small values, cheap to
//! copy.

use std::marker::PhantomData;

use crate::description::TableDescription;
use crate::key::Key;
use crate::row::{IndexId, Row};
use crate::table_limits::RowTypeError;

/// A table of rows of type `R`.
pub struct Table<R> {
    number: u32,
    kind: PhantomData<fn() -> R>,
}

/// An index over a table of rows of type `R` with keys of type `K`.
pub struct Index<R, K> {
    table: Table<R>,
    number: u32,
    kind: PhantomData<fn() -> K>,
}

/// A row that an attempt of a transaction has found, identified by its number in the attempt. Only
/// the attempt creates such identifiers, so each of them identifies one of its rows. Use in any
/// other attempt or database is an error ([`terms::Abort::Misuse`]), except that with a probability
/// of 2^-32 the identifier matches a row there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId {
    number: u32,
    /// The attempt; 0 for implementations of `Verbs` that do not distinguish attempts.
    attempt: u32,
}

impl RowId {
    /// Identifies row number `number` of an attempt; for implementations of `AnyVerbs`.
    #[inline(always)]
    pub fn new(number: u32, attempt: u32) -> Self {
        RowId { number, attempt }
    }

    /// Returns the row's number, if this attempt has found the row.
    #[inline(always)]
    pub fn number_in(self, attempt: u32) -> Option<u32> {
        (self.attempt == attempt).then_some(self.number)
    }
}

/// A [`RowId`] of a row of type `R`.
pub struct Handle<R> {
    row: RowId,
    kind: PhantomData<fn() -> R>,
}

macro_rules! copies {
    ($($name:ident<$($parameter:ident),+>),*) => { $(
        impl<$($parameter),+> Clone for $name<$($parameter),+> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($parameter),+> Copy for $name<$($parameter),+> {}
    )* };
}
copies!(Table<R>, Index<R, K>, Handle<R>);

impl<R> std::fmt::Debug for Handle<R> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Handle({})", self.row.number)
    }
}

impl<R: Row> Table<R> {
    /// Returns the handle of table number `number` of a catalog; for implementations of
    /// [`crate::Schema`].
    pub fn new(number: usize) -> Self {
        Table { number: number as u32, kind: PhantomData }
    }

    /// Returns a typed handle of table number `number` of a catalog, after a check of its
    /// description, which may have been made at run time.
    ///
    /// # Errors
    /// The first difference between the description and the row type.
    pub fn view(number: usize, description: &TableDescription) -> Result<Self, RowTypeError> {
        match description.difference_to::<R>() {
            None => Ok(Table::new(number)),
            Some(difference) => {
                Err(RowTypeError { table: description.name().to_owned(), row: R::NAME, difference })
            }
        }
    }

    /// Returns the number in the catalog.
    #[inline(always)]
    pub fn number(self) -> usize {
        self.number as usize
    }

    /// Returns the index of the primary key.
    pub fn primary(self) -> Index<R, R::Key> {
        Index { table: self, number: 0, kind: PhantomData }
    }

    /// Returns a declared index.
    pub fn index<K: Key>(self, index: IndexId<R, K>) -> Index<R, K> {
        Index { table: self, number: index.number() as u32, kind: PhantomData }
    }
}

impl<R: Row, K: Key> Index<R, K> {
    /// Returns the table that the index belongs to.
    #[inline(always)]
    pub fn table(self) -> Table<R> {
        self.table
    }

    /// Returns the number in [`Row::INDEXES`].
    #[inline(always)]
    pub fn number(self) -> usize {
        self.number as usize
    }
}

impl<R> Handle<R> {
    /// Identifies row number `access` among those that the transaction has found; for
    /// implementations of `Verbs` outside of the engine. Transactions of the engine refuse such a
    /// handle.
    #[inline(always)]
    pub fn new(access: u32) -> Self {
        Handle::of(RowId::new(access, 0))
    }

    /// Returns the number passed to [`Self::new`].
    #[inline(always)]
    pub fn access(self) -> u32 {
        self.row.number
    }

    /// Returns a typed handle of the row; for the engine.
    #[inline(always)]
    pub fn of(row: RowId) -> Self {
        Handle { row, kind: PhantomData }
    }

    /// Returns the row without its type.
    #[inline(always)]
    pub fn row(self) -> RowId {
        self.row
    }
}
