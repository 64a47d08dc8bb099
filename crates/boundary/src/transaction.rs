//! The verbs over typed rows, on top of a transaction that knows numbers, words and bytes.

use platform::{Intent, Work};
use storage::tree::Direction;
use terms::Abort;
use terms::rows::KeyBounds;

use crate::any_verbs::{AnyVerbs, Span};
use crate::row_batch::RowBatch;
use crate::verbs::{Fields, Verbs, Visitor};
use schema::key::SHORT_KEY_BITS;
use schema::long_key::with_words;
use schema::row_keys::{has_long_keys, touches_key, with_keys};
use schema::{ColumnSet, Field, Handle, Index, Key, OTHER_COLUMN, Row, RowPart, Table, Value, key_words};

/// Words of a value that is read or written without memory of its own, and of one that takes longer
/// to clear.
const FEW_WORDS: usize = 16;
const MORE_WORDS: usize = 64;

/// A transaction with typed rows, whatever platform and scheme run it.
pub struct Transaction<'t> {
    verbs: &'t mut (dyn AnyVerbs + 't),
}

impl<'t> Transaction<'t> {
    /// The same transaction with types.
    pub fn new(verbs: &'t mut (dyn AnyVerbs + 't)) -> Self {
        Transaction { verbs }
    }

    /// The transaction without types.
    pub fn verbs(&mut self) -> &mut (dyn AnyVerbs + 't) {
        self.verbs
    }

    /// See [`AnyVerbs::enlists`].
    pub fn enlists(&self) -> bool {
        self.verbs.enlists()
    }

    fn read<T>(
        &mut self,
        row: Handle<impl Row>,
        span: Span,
        decode: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Abort> {
        let words = span.words();
        let (mut few, mut more, mut many);
        let buffer = if words <= FEW_WORDS {
            few = [0; FEW_WORDS];
            &mut few[..words]
        } else if words <= MORE_WORDS {
            more = [0; MORE_WORDS];
            &mut more[..words]
        } else {
            many = vec![0; words];
            &mut many[..]
        };
        self.verbs.read(row.row(), span, buffer)?;
        Ok(decode(&bytemuck::cast_slice(buffer)[span.offset % 8..]))
    }
}

/// Runs `body` with the `bytes` bytes that `encode` writes.
fn with_bytes<T>(bytes: usize, encode: impl FnOnce(&mut [u8]), body: impl FnOnce(&[u8]) -> T) -> T {
    let (mut few, mut more, mut many);
    let buffer = if bytes <= FEW_WORDS * 8 {
        few = [0; FEW_WORDS * 8];
        &mut few[..bytes]
    } else if bytes <= MORE_WORDS * 8 {
        more = [0; MORE_WORDS * 8];
        &mut more[..bytes]
    } else {
        many = vec![0; bytes];
        &mut many[..]
    };
    encode(buffer);
    body(buffer)
}

/// The place of a field in its row.
fn span<R: Row, V: Value>(field: Field<R, V>) -> Span {
    Span { offset: field.offset(), bytes: V::BYTES }
}

impl Verbs for Transaction<'_> {
    type InScan<'x> = Transaction<'x>;

    fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort> {
        let (table, number) = (index.table().number(), index.number());
        let found = with_words(key, |words| self.verbs.find(table, number, words, intent))?;
        Ok(found.map(Handle::of))
    }

    fn find_constant<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        columns: ColumnSet<R>,
    ) -> Result<Option<RowPart<R>>, Abort> {
        let (table, number) = (index.table().number(), index.number());
        let found = with_words(key, |words| self.verbs.find_constant(table, number, words, columns.words()))?;
        Ok(found.map(|row| RowPart::new(Handle::of(row), columns)))
    }

    fn find_unvalidated<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
    ) -> Result<Option<Handle<R>>, Abort> {
        let (table, number) = (index.table().number(), index.number());
        let found = with_words(key, |words| self.verbs.find_unvalidated(table, number, words))?;
        Ok(found.map(Handle::of))
    }

    fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        for key in keys {
            self.prefetch_key(index, key);
        }
        self.find_prefetched(index, keys, intent, None::<Field<R, u8>>, found)
    }

    fn find_prefetched<R: Row, K: Key, V: Value>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        ahead: Option<Field<R, V>>,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        if const { K::BITS > SHORT_KEY_BITS } {
            return keys.iter().try_for_each(|key| {
                found.extend([self.find(index, key, intent)?]);
                Ok(())
            });
        }
        let width = const { key_words(K::BITS) };
        let mut words = Vec::with_capacity(keys.len() * width);
        for key in keys {
            with_words(key, |key| words.extend_from_slice(key));
        }
        let mut rows = Vec::with_capacity(keys.len());
        let place = (index.table().number(), index.number());
        let result = self.verbs.find_prefetched(place.0, place.1, &words, intent, ahead.map(span), &mut rows);
        found.extend(rows.into_iter().map(|row| row.map(Handle::of)));
        result
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
        let place = (index.table().number(), index.number());
        with_words(low, |low| {
            with_words(high, |high| {
                let range = KeyBounds { low, high };
                self.verbs.scan(place.0, place.1, range, direction, intent, &mut |verbs, row| {
                    Ok(visit(&mut Transaction::new(verbs), Handle::of(row))?.is_continue())
                })
            })
        })
    }

    fn prefetch_key<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        with_words(key, |words| self.verbs.prefetch_key(index.table().number(), index.number(), words));
    }

    fn prefetch_insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        if !self.verbs.is_told() {
            self.prefetch_key(index, key);
        }
    }

    fn prefetch<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, intent: Intent) {
        self.verbs.prefetch(row.row(), span(field), intent);
    }

    fn get<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>) -> Result<V, Abort> {
        self.read(row, span(field), V::fetch)
    }

    fn get_together<R: Row, F: Fields<R>>(&mut self, row: Handle<R>, fields: F) -> Result<F::Values, Abort> {
        if self.verbs.reads_apart() {
            return fields.get_each(self, row);
        }
        let (offset, end) = fields.extent();
        self.read(row, Span { offset, bytes: end - offset }, |bytes| fields.fetch(bytes, offset))
    }

    fn get_part<R: Row, V: Value>(&mut self, part: RowPart<R>, field: Field<R, V>) -> Result<V, Abort> {
        match part.row_for(field) {
            Some(row) => self.get(row, field),
            None => self.verbs.refuse(OTHER_COLUMN).and(Err(Abort::Misuse(OTHER_COLUMN))),
        }
    }

    fn put<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, value: &V) -> Result<(), Abort> {
        let verbs = &mut *self.verbs;
        if touches_key::<R>(field.offset(), field.offset() + V::BYTES) {
            return verbs.refuse("a key column changes through `replace` only");
        }
        with_bytes(V::BYTES, |to| value.store(to), |bytes| verbs.write(row.row(), field.offset(), bytes))
    }

    fn row<R: Row>(&mut self, row: Handle<R>) -> Result<R, Abort> {
        let mut tail = Vec::new();
        if R::HAS_TAIL {
            self.verbs.read_tail(row.row(), &mut tail)?;
        }
        self.read(row, Span { offset: 0, bytes: R::BYTES }, |bytes| R::fetch(&bytes[..R::BYTES], &tail))
    }

    fn replace<R: Row>(&mut self, row: Handle<R>, value: &R) -> Result<(), Abort> {
        let old: R = self.row(row)?;
        let verbs = &mut *self.verbs;
        with_bytes(
            R::BYTES,
            |to| value.store(to),
            |bytes| {
                with_keys(&old, |before| {
                    with_keys(value, |after| verbs.replace(row.row(), before, after, bytes, &value.tail()))
                })
            },
        )
    }

    fn insert<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        let verbs = &mut *self.verbs;
        with_bytes(
            R::BYTES,
            |to| value.store(to),
            |bytes| with_keys(value, |keys| verbs.insert(table.number(), keys, bytes, &value.tail())),
        )
    }

    fn insert_all<R: Row>(
        &mut self,
        table: Table<R>,
        mut rows: impl Iterator<Item = R>,
    ) -> Result<(), Abort> {
        if R::HAS_TAIL || has_long_keys::<R>() {
            return rows.try_for_each(|row| self.insert(table, &row));
        }
        let mut batch = RowBatch::default();
        rows.for_each(|row| batch.push(&row));
        self.verbs.insert_all(table.number(), batch.rows())
    }

    fn insert_unindexed<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        let verbs = &mut *self.verbs;
        with_bytes(
            R::BYTES,
            |to| value.store(to),
            |bytes| {
                with_keys(value, |keys| verbs.insert_unindexed(table.number(), keys, bytes, &value.tail()))
            },
        )
    }

    fn delete<R: Row>(&mut self, row: Handle<R>) -> Result<(), Abort> {
        let value: R = self.row(row)?;
        with_keys(&value, |keys| self.verbs.delete(row.row(), keys))
    }

    fn untyped(&mut self) -> Option<&mut (dyn AnyVerbs + '_)> {
        Some(&mut *self.verbs)
    }

    fn work(&mut self, work: Work, units: u32) {
        self.verbs.work(work, units);
    }
}
