//! The verbs for an action that has to stay inside its route.

use boundary::{AnyVerbs, Direction, Fields, Transaction, Verbs, Visitor};
use platform::{Intent, Work};
use schema::{ColumnSet, Field, Handle, Index, Key, Row, RowPart, Table, Value};
use terms::Abort;

use super::watch::{Place, Watch};

/// A transaction for one action, whose touches outside of its route are noted
/// ([`Watch::assert_inside`]). Nothing else differs: the verbs read, lock and prefetch what they do
/// without it. A route has to hold even for an attempt that has read half of another transaction,
/// and is bound to fail.
pub struct Inside<'x> {
    transaction: Transaction<'x>,
    watch: &'x mut Watch,
}

impl<'x> Inside<'x> {
    /// The verbs of a transaction, for the action that is watched.
    pub fn new(verbs: &'x mut (dyn AnyVerbs + 'x), watch: &'x mut Watch) -> Self {
        Inside { transaction: Transaction::new(verbs), watch }
    }

    fn look_up<R: Row, K: Key>(&mut self, index: Index<R, K>, keys: &[K], intent: Intent) {
        for key in keys {
            self.watch.touch("lookup", &Place::behind(index, key, key), intent);
        }
    }

    fn add<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, found: Option<Handle<R>>) {
        if let Some(handle) = found {
            self.watch.add(handle.row(), Place::behind(index, key, key));
        }
    }

    fn add_all<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        rows: Vec<Option<Handle<R>>>,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) {
        keys.iter().zip(&rows).for_each(|(key, row)| self.add(index, key, *row));
        found.extend(rows);
    }
}

impl Verbs for Inside<'_> {
    type InScan<'x> = Inside<'x>;

    fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort> {
        self.look_up(index, std::slice::from_ref(key), intent);
        let found = self.transaction.find(index, key, intent)?;
        self.add(index, key, found);
        Ok(found)
    }

    fn find_constant<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        columns: ColumnSet<R>,
    ) -> Result<Option<RowPart<R>>, Abort> {
        self.look_up(index, std::slice::from_ref(key), Intent::Read);
        self.transaction.find_constant(index, key, columns)
    }

    fn find_unvalidated<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
    ) -> Result<Option<Handle<R>>, Abort> {
        self.look_up(index, std::slice::from_ref(key), Intent::Read);
        let found = self.transaction.find_unvalidated(index, key)?;
        self.add(index, key, found);
        Ok(found)
    }

    fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        self.look_up(index, keys, intent);
        let mut rows = Vec::new();
        self.transaction.find_many(index, keys, intent, &mut rows)?;
        self.add_all(index, keys, rows, found);
        Ok(())
    }

    fn find_prefetched<R: Row, K: Key, V: Value>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        ahead: Option<Field<R, V>>,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        self.look_up(index, keys, intent);
        let mut rows = Vec::new();
        self.transaction.find_prefetched(index, keys, intent, ahead, &mut rows)?;
        self.add_all(index, keys, rows, found);
        Ok(())
    }

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
        Self: 'v,
    {
        let place = Place::behind(index, low, high);
        self.watch.touch("scan", &place, intent);
        let watch = &mut *self.watch;
        self.transaction.scan(index, low, high, direction, intent, &mut |transaction, row: Handle<R>| {
            watch.add(row.row(), place);
            visit(&mut Inside::new(transaction.verbs(), watch), row)
        })
    }

    fn prefetch_key<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.transaction.prefetch_key(index, key);
    }

    fn prefetch_insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.transaction.prefetch_insertion(index, key);
    }

    fn prefetch<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, intent: Intent) {
        self.transaction.prefetch(row, field, intent);
    }

    fn get<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>) -> Result<V, Abort> {
        self.transaction.get(row, field)
    }

    fn get_together<R: Row, F: Fields<R>>(&mut self, row: Handle<R>, fields: F) -> Result<F::Values, Abort> {
        self.transaction.get_together(row, fields)
    }

    fn get_part<R: Row, V: Value>(&mut self, part: RowPart<R>, field: Field<R, V>) -> Result<V, Abort> {
        self.transaction.get_part(part, field)
    }

    fn put<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, value: &V) -> Result<(), Abort> {
        self.watch.change("change", row.row());
        self.transaction.put(row, field, value)
    }

    fn row<R: Row>(&mut self, row: Handle<R>) -> Result<R, Abort> {
        self.transaction.row(row)
    }

    fn replace<R: Row>(&mut self, row: Handle<R>, value: &R) -> Result<(), Abort> {
        self.watch.replace(row.row(), value);
        self.transaction.replace(row, value)
    }

    fn insert<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        self.watch.touch("insertion", &Place::of(table, value), Intent::Write);
        self.transaction.insert(table, value)
    }

    fn insert_unindexed<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        self.watch.touch("insertion", &Place::of(table, value), Intent::Write);
        self.transaction.insert_unindexed(table, value)
    }

    fn delete<R: Row>(&mut self, row: Handle<R>) -> Result<(), Abort> {
        self.watch.change("deletion", row.row());
        self.transaction.delete(row)
    }

    fn work(&mut self, work: Work, units: u32) {
        self.transaction.work(work, units);
    }
}
