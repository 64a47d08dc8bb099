//! The operations of a stored procedure inside a transaction.

use std::ops::ControlFlow;

use platform::{Intent, Work};
use terms::Abort;

use crate::any_verbs::AnyVerbs;
use schema::{ColumnSet, Field, Handle, Index, Key, Row, RowPart, Table, Value};

/// Order and purpose of a scan.
pub use storage::tree::{Direction, ScanOrder};

/// The callback of a scan, called with each row; its result continues or ends the scan.
pub type Visitor<'v, T, R> =
    &'v mut dyn FnMut(&mut <T as Verbs>::InScan<'_>, Handle<R>) -> Result<ControlFlow<()>, Abort>;

/// Fields of one row that are read together: a tuple of them.
pub trait Fields<R: Row>: Copy {
    /// Their values, a tuple as well.
    type Values;

    /// The first byte of the row that one of them has, and the first behind all of them.
    fn extent(self) -> (usize, usize);

    /// Their values from the bytes of a row from byte `start` on.
    fn fetch(self, from: &[u8], start: usize) -> Self::Values;

    /// Reads them one by one.
    fn get_each<T: Verbs + ?Sized>(self, transaction: &mut T, row: Handle<R>) -> Result<Self::Values, Abort>;
}

macro_rules! fields {
    ($(($($value:ident $place:tt),+))+) => { $(
        impl<R: Row, $($value: Value),+> Fields<R> for ($(Field<R, $value>,)+) {
            type Values = ($($value,)+);

            #[inline(always)]
            fn extent(self) -> (usize, usize) {
                let (mut start, mut end) = (usize::MAX, 0);
                $(
                    start = start.min(self.$place.offset());
                    end = end.max(self.$place.offset() + $value::BYTES);
                )+
                (start, end)
            }

            #[inline(always)]
            fn fetch(self, from: &[u8], start: usize) -> Self::Values {
                ($($value::fetch(&from[self.$place.offset() - start..]),)+)
            }

            fn get_each<T: Verbs + ?Sized>(
                self,
                transaction: &mut T,
                row: Handle<R>,
            ) -> Result<Self::Values, Abort> {
                Ok(($(transaction.get(row, self.$place)?,)+))
            }
        }
    )+ };
}
fields! { (A 0, B 1) (A 0, B 1, C 2) }

/// The verbs of a transaction over typed rows. Procedures are written against this trait once, and
/// run under every scheme, platform and executor.
///
/// Every verb may fail with an [`Abort`]; the procedure passes it on with `?` and does nothing
/// more. Nothing that was read may leave the procedure before it committed.
pub trait Verbs {
    /// The transaction as the visitor of a scan sees it.
    type InScan<'x>: Verbs;

    /// Looks a key up. `intent` says whether the row will be written: locking schemes lock
    /// accordingly. The absence of a row is protected like a row: the key is still absent when the
    /// transaction commits.
    fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort>;

    /// Looks a key up to read these columns of the row, and prefetches them. If they are constant
    /// ([`TableOptions::constant`](schema::TableOptions::constant)), that needs no concurrency
    /// control; if they are not, this is [`Self::find`] with the intent to read.
    fn find_constant<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        columns: ColumnSet<R>,
    ) -> Result<Option<RowPart<R>>, Abort>;

    /// Looks a key up without any concurrency control: no lock is taken, and nothing is validated.
    /// Fields of the row can be read (not its tail, and not the whole row if it has one) and
    /// nothing can be written. What is read may be of several transactions, also of ones that never
    /// commit, and the row may be gone. So a transaction that uses this verb is *not serializable*;
    /// it is there to show what concurrency control costs, and to do what other programs do.
    fn find_unvalidated<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
    ) -> Result<Option<Handle<R>>, Abort>;

    /// Looks many keys up so that their cache misses overlap; appends a handle or `None` to `found`
    /// for each key.
    fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort>;

    /// As [`Self::find_many`], for keys that [`Self::prefetch_key`] was called with before;
    /// prefetches the field `ahead` of each row together with what a lookup prefetches anyway.
    fn find_prefetched<R: Row, K: Key, V: Value>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        ahead: Option<Field<R, V>>,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        let _ = ahead;
        self.find_many(index, keys, intent, found)
    }

    /// Visits the rows with keys from `low` to `high`, both included, in the given order, until
    /// `visit` breaks. No row can appear in the visited part before the transaction commits.
    fn scan<'v, R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        low: &K,
        high: &K,
        direction: Direction,
        intent: Intent,
        visit: Visitor<'v, Self, R>,
    ) -> Result<(), Abort>
    where
        Self: 'v;

    /// Prefetches what a lookup or an insertion of this key will read of the index, and has no
    /// other effect.
    fn prefetch_key<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        let _ = (index, key);
    }

    /// As [`Self::prefetch_key`], for several keys.
    fn prefetch_keys<R: Row, K: Key>(&mut self, index: Index<R, K>, keys: impl Iterator<Item = K>) {
        keys.for_each(|key| self.prefetch_key(index, &key));
    }

    /// As [`Self::prefetch_key`], for a key that will be inserted, and of which the procedure tells
    /// before it begins ([`crate::LookAhead::insertion`]): does nothing if it was heard.
    fn prefetch_insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.prefetch_key(index, key);
    }

    /// Prefetches a field.
    fn prefetch<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, intent: Intent);

    /// Reads one field or group.
    fn get<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>) -> Result<V, Abort>;

    /// Reads fields that stand close to each other in the row in one pass: all that lies between
    /// the first and the last of them is copied. An optimistic transaction comes once to a line
    /// that others write, instead of once a field.
    fn get_together<R: Row, F: Fields<R>>(&mut self, row: Handle<R>, fields: F) -> Result<F::Values, Abort> {
        fields.get_each(self, row)
    }

    /// Reads one field or group of those that the row was looked up for.
    fn get_part<R: Row, V: Value>(&mut self, part: RowPart<R>, field: Field<R, V>) -> Result<V, Abort>;

    /// Writes one field or group, which is not part of a key. Only the bytes of the field are
    /// written and logged.
    fn put<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, value: &V) -> Result<(), Abort>;

    /// Reads the whole row.
    fn row<R: Row>(&mut self, row: Handle<R>) -> Result<R, Abort>;

    /// Replaces the whole row; its keys may change.
    fn replace<R: Row>(&mut self, row: Handle<R>, value: &R) -> Result<(), Abort>;

    /// Inserts a row. [`Abort::Duplicate`] if the primary key or a unique index has its key
    /// already.
    fn insert<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort>;

    /// Inserts several rows, as [`Self::insert`] each, in order. That is less work where their keys
    /// follow each other, like those of the lines of an order.
    fn insert_all<R: Row>(&mut self, table: Table<R>, rows: impl Iterator<Item = R>) -> Result<(), Abort> {
        for row in rows {
            self.insert(table, &row)?;
        }
        Ok(())
    }

    /// Makes a row that enters no index: it is allocated and filled like one that is inserted, but
    /// no transaction will ever find it, not even this one, no key is a duplicate, and no log has
    /// it. Its memory stays in use if the transaction commits. It is there to do what other
    /// programs do.
    fn insert_unindexed<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort>;

    /// Deletes a row.
    fn delete<R: Row>(&mut self, row: Handle<R>) -> Result<(), Abort>;

    /// Declares computation, which takes time in the virtual machine.
    fn work(&mut self, work: Work, units: u32);

    /// The same transaction without types, if it is an object ([`crate::Transaction`]).
    fn untyped(&mut self) -> Option<&mut (dyn AnyVerbs + '_)> {
        None
    }
}
