//! Typed names of tables, indexes and rows of the transaction at hand: small values, cheap to copy.

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

/// A row that one attempt of a transaction has found, by the row's number there. Only the attempt
/// makes such names, so each of them names one of its rows. To use the name in any other attempt,
/// or in another database, is an error ([`terms::Abort::Misuse`]), but for one chance in four
/// thousand million that the name stands for another row there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId {
    number: u32,
    /// The attempt; 0 for implementations of `Verbs` that do not tell attempts apart.
    attempt: u32,
}

impl RowId {
    /// Row number `number` of an attempt: for implementations of `AnyVerbs`.
    #[inline(always)]
    pub fn new(number: u32, attempt: u32) -> Self {
        RowId { number, attempt }
    }

    /// The row's number in this attempt, if this attempt has found the row.
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
    /// Table number `number` of its catalog: for implementations of [`crate::Schema`].
    pub fn new(number: usize) -> Self {
        Table { number: number as u32, kind: PhantomData }
    }

    /// Table number `number` of its catalog, which is described like this: a typed view of a table
    /// that may have been described at run time.
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

    /// Number in the catalog.
    #[inline(always)]
    pub fn number(self) -> usize {
        self.number as usize
    }

    /// The primary key's index.
    pub fn primary(self) -> Index<R, R::Key> {
        Index { table: self, number: 0, kind: PhantomData }
    }

    /// One of the declared indexes.
    pub fn index<K: Key>(self, index: IndexId<R, K>) -> Index<R, K> {
        Index { table: self, number: index.number() as u32, kind: PhantomData }
    }
}

impl<R: Row, K: Key> Index<R, K> {
    /// The table that the index belongs to.
    #[inline(always)]
    pub fn table(self) -> Table<R> {
        self.table
    }

    /// Number in [`Row::INDEXES`].
    #[inline(always)]
    pub fn number(self) -> usize {
        self.number as usize
    }
}

impl<R> Handle<R> {
    /// Row number `access` among those that the transaction has found: for implementations of
    /// `Verbs` outside of the engine. No transaction of the engine knows such a row.
    #[inline(always)]
    pub fn new(access: u32) -> Self {
        Handle::of(RowId::new(access, 0))
    }

    /// The number that [`Self::new`] was given.
    #[inline(always)]
    pub fn access(self) -> u32 {
        self.row.number
    }

    /// The row of this name, of type `R`: for the engine.
    #[inline(always)]
    pub fn of(row: RowId) -> Self {
        Handle { row, kind: PhantomData }
    }

    /// The row, whatever its type.
    #[inline(always)]
    pub fn row(self) -> RowId {
        self.row
    }
}
