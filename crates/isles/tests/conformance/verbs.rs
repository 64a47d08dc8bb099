//! The verbs of closures and objects: the suite's operations are written once for all three types.

use std::borrow::Borrow;

use isles::{
    Assign, Error, KeyRange, Lookup, OpenTransaction, OwnedTransaction, Result, Row, Savepoint, Scan, Select,
    Table, Transaction,
};

use crate::calls::call;

/// A type with the verbs of a transaction.
pub trait Verbs {
    fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>>;
    fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>>;
    fn lock<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>>;
    fn get_field<L: Lookup, F: Select<L::Row>>(
        &mut self,
        index: L,
        key: &L::Key,
        field: F,
    ) -> Result<Option<F::Value>>;
    fn get_many<L: Lookup>(
        &mut self,
        index: L,
        keys: impl IntoIterator<Item: Borrow<L::Key>>,
    ) -> Result<Vec<Option<L::Row>>>;
    fn exists<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<bool>;
    fn scan<L: Lookup>(&mut self, index: L, range: impl KeyRange<L::Key>) -> Scan<'_, L::Row, L::Key>;
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()>;
    fn insert_all<R: Row>(&mut self, table: Table<R>, rows: impl IntoIterator<Item: Borrow<R>>)
    -> Result<()>;
    fn insert_or_ignore<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<bool>;
    fn upsert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<Option<R>>;
    fn upsert_with<R: Row>(&mut self, table: Table<R>, row: &R, merge: impl FnOnce(&mut R)) -> Result<bool>;
    fn update_if<L: Lookup>(
        &mut self,
        index: L,
        key: &L::Key,
        condition: impl FnOnce(&L::Row) -> bool,
        change: impl FnOnce(&mut L::Row),
    ) -> Result<Option<bool>>;
    fn update<L: Lookup, T>(
        &mut self,
        index: L,
        key: &L::Key,
        change: impl FnOnce(&mut L::Row) -> T,
    ) -> Result<Option<T>>;
    fn set_field<L: Lookup, F: Assign<L::Row>>(
        &mut self,
        index: L,
        key: &L::Key,
        field: F,
        value: &F::Value,
    ) -> Result<bool>;
    fn update_field<L: Lookup, F: Assign<L::Row>, T>(
        &mut self,
        index: L,
        key: &L::Key,
        field: F,
        change: impl FnOnce(&mut F::Value) -> T,
    ) -> Result<Option<T>>;
    fn delete<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>>;
    fn savepoint(&mut self) -> Result<Savepoint>;
    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()>;
    fn release(&mut self, savepoint: Savepoint) -> Result<()>;
    fn nested<T>(&mut self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T>;
    fn try_nested<T, E: From<Error>>(
        &mut self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E>;
    /// The transaction as bodies receive it.
    fn body<T>(&mut self, act: impl FnOnce(&mut Transaction<'_>) -> T) -> T;
}

macro_rules! verbs {
    ($($transaction:ty: $body:expr;)+) => { $(
        impl Verbs for $transaction {
            fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                call!(self.get(index, key))
            }
            fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                call!(self.get_for_update(index, key))
            }
            fn lock<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                call!(self.lock(index, key))
            }
            fn get_field<L: Lookup, F: Select<L::Row>>(
                &mut self,
                index: L,
                key: &L::Key,
                field: F,
            ) -> Result<Option<F::Value>> {
                call!(self.get_field(index, key, field))
            }
            fn get_many<L: Lookup>(
                &mut self,
                index: L,
                keys: impl IntoIterator<Item: Borrow<L::Key>>,
            ) -> Result<Vec<Option<L::Row>>> {
                call!(self.get_many(index, keys))
            }
            fn exists<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<bool> {
                call!(self.exists(index, key))
            }
            fn scan<L: Lookup>(
                &mut self,
                index: L,
                range: impl KeyRange<L::Key>,
            ) -> Scan<'_, L::Row, L::Key> {
                call!(self.scan(index, range))
            }
            fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
                call!(self.insert(table, row))
            }
            fn insert_all<R: Row>(
                &mut self,
                table: Table<R>,
                rows: impl IntoIterator<Item: Borrow<R>>,
            ) -> Result<()> {
                call!(self.insert_all(table, rows))
            }
            fn insert_or_ignore<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<bool> {
                call!(self.insert_or_ignore(table, row))
            }
            fn upsert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<Option<R>> {
                call!(self.upsert(table, row))
            }
            fn upsert_with<R: Row>(
                &mut self,
                table: Table<R>,
                row: &R,
                merge: impl FnOnce(&mut R),
            ) -> Result<bool> {
                call!(self.upsert_with(table, row, merge))
            }
            fn update_if<L: Lookup>(
                &mut self,
                index: L,
                key: &L::Key,
                condition: impl FnOnce(&L::Row) -> bool,
                change: impl FnOnce(&mut L::Row),
            ) -> Result<Option<bool>> {
                call!(self.update_if(index, key, condition, change))
            }
            fn update<L: Lookup, T>(
                &mut self,
                index: L,
                key: &L::Key,
                change: impl FnOnce(&mut L::Row) -> T,
            ) -> Result<Option<T>> {
                call!(self.update(index, key, change))
            }
            fn set_field<L: Lookup, F: Assign<L::Row>>(
                &mut self,
                index: L,
                key: &L::Key,
                field: F,
                value: &F::Value,
            ) -> Result<bool> {
                call!(self.set_field(index, key, field, value))
            }
            fn update_field<L: Lookup, F: Assign<L::Row>, T>(
                &mut self,
                index: L,
                key: &L::Key,
                field: F,
                change: impl FnOnce(&mut F::Value) -> T,
            ) -> Result<Option<T>> {
                call!(self.update_field(index, key, field, change))
            }
            fn delete<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                call!(self.delete(index, key))
            }
            fn savepoint(&mut self) -> Result<Savepoint> {
                call!(self.savepoint())
            }
            fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
                call!(self.roll_back_to(savepoint))
            }
            fn release(&mut self, savepoint: Savepoint) -> Result<()> {
                call!(self.release(savepoint))
            }
            fn nested<T>(&mut self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
                call!(self.nested(body))
            }
            fn try_nested<T, E: From<Error>>(
                &mut self,
                body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
            ) -> Result<T, E> {
                call!(self.try_nested(body))
            }
            fn body<T>(&mut self, act: impl FnOnce(&mut Transaction<'_>) -> T) -> T {
                let body: fn(&mut Self, &mut dyn FnMut(&mut Transaction<'_>)) = $body;
                let (mut act, mut output) = (Some(act), None);
                body(self, &mut |transaction| {
                    if let Some(act) = act.take() {
                        output = Some(act(transaction));
                    }
                });
                output.expect("it was called")
            }
        }
    )+ };
}

verbs! {
    Transaction<'_>: |transaction, act| act(transaction);
    OpenTransaction<'_>: |open, act| act(&mut call!(open.verbs()));
    OwnedTransaction: |owned, act| act(&mut call!(owned.verbs()));
}
