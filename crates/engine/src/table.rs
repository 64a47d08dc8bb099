//! Typed names of tables, indexes and rows of the transaction at hand: small values, cheap to copy.

use std::marker::PhantomData;

use crate::key::Key;
use crate::row::{IndexId, Row};

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

/// A row that the current transaction has found. Using it in another transaction is an error ([`cc::Abort::Misuse`]) or
/// names another row of that transaction.
pub struct Handle<R> {
    access: u32,
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
        write!(to, "Handle({})", self.access)
    }
}

impl<R: Row> Table<R> {
    /// Table number `number` of its catalog: for implementations of [`crate::Schema`].
    pub fn new(number: usize) -> Self {
        Table { number: number as u32, kind: PhantomData }
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
    /// The table it belongs to.
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
    /// Row number `access` among those that the transaction has found: for implementations of [`crate::Verbs`].
    #[inline(always)]
    pub fn new(access: u32) -> Self {
        Handle { access, kind: PhantomData }
    }

    /// The number that [`Self::new`] was given.
    #[inline(always)]
    pub fn access(self) -> u32 {
        self.access
    }
}
