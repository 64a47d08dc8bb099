//! The verbs over typed rows: keys and values become words, and words become values.

use std::marker::PhantomData;

use boundary::{Fields, Verbs, Visitor};
use concurrency::{Ahead, Holder, Keys, NewRows, Scheme};
use platform::{Code, Intent, Platform, Work};
use schema::key::KeyOf;
use schema::row_keys::{touches_key, with_keys};
use schema::{
    ColumnSet, Field, Handle, Index, Key, KeyBuffer, OTHER_COLUMN, Row, RowId, RowPart, Table, Value,
    key_words,
};
use storage::tree::Direction;
use terms::Abort;
use terms::rows::{KeyBounds, TableIndex};

use super::{MakeRow, Transaction};

/// Words that are read by way of the stack, into one of two buffers: what is not needed is not
/// cleared either.
const FEW_WORDS: usize = 16;
const FEWEST_WORDS: usize = 4;

/// How many bytes an encoded value takes.
trait Length {
    const BYTES: usize;
}

/// A row's bytes, without its tail.
struct OfRow<R>(PhantomData<R>);

impl<R: Row> Length for OfRow<R> {
    const BYTES: usize = R::BYTES;
}

/// A field's bytes.
struct OfValue<V>(PhantomData<V>);

impl<V: Value> Length for OfValue<V> {
    const BYTES: usize = V::BYTES;
}

/// The bytes of the smallest buffer on the stack that has room for this many; 0 if none has.
const fn stack_bytes(bytes: usize) -> usize {
    match bytes {
        0..=8 => 8,
        9..=32 => 32,
        33..=64 => 64,
        65..=128 => 128,
        _ => 0,
    }
}

/// The keys of a batch of lookups, made as they are asked for.
struct TypedKeys<'k, K>(&'k [K]);

impl<K: Key> Keys for TypedKeys<'_, K> {
    type Key = KeyOf<K>;

    #[inline(always)]
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn key(&self, number: usize) -> KeyOf<K> {
        KeyOf::new(&self.0[number])
    }
}

impl<P: Platform, S: Scheme<P>> Transaction<'_, '_, P, S> {
    /// Reads bytes `start..start + bytes` of a row, and hands them to `decode`. Both are constant
    /// where this is called, so that one way is left of two, and `decode` is there once.
    #[inline(always)]
    fn with_span<T>(
        &mut self,
        row: u32,
        start: usize,
        bytes: usize,
        decode: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Abort> {
        if let Some(columns) = self.scratch.columns {
            let read = self.read_columns(columns, row, start, bytes)?;
            return Ok(decode(&read));
        }
        let (first, rest) = (start / 8, start % 8);
        // Of a field on a word the number of words is constant, even if its place is not.
        let words = if rest == 0 { bytes.div_ceil(8) } else { (rest + bytes).div_ceil(8) };
        // The words are copied once into the buffer, and once out of the buffer.
        P::work(self.session.core(), Work::CopyWord, 2 * words as u32);
        let (mut fewest, mut few): ([u64; FEWEST_WORDS], [u64; FEW_WORDS]);
        let mut many = Vec::new();
        let buffer = if words <= FEWEST_WORDS {
            fewest = [0; FEWEST_WORDS];
            &mut fewest[..words]
        } else if words <= FEW_WORDS {
            few = [0; FEW_WORDS];
            &mut few[..words]
        } else {
            many = std::mem::take(&mut self.scratch.words);
            many.clear();
            many.resize(words, 0);
            &mut many[..]
        };
        if let Err(abort) = call!(self, |inner, cx| S::read(inner, cx, row, first, buffer)) {
            if words > FEW_WORDS {
                self.scratch.words = many;
            }
            return Err(abort);
        }
        let value = decode(&bytemuck::cast_slice(buffer)[rest..]);
        if words > FEW_WORDS {
            self.scratch.words = many;
        }
        Ok(value)
    }

    /// Makes a row by `make`.
    #[inline(always)]
    fn make_row<R: Row>(
        &mut self,
        table: Table<R>,
        value: &R,
        make: impl MakeRow<P, S>,
    ) -> Result<(), Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table.number()));
        P::code(self.session.core(), Code::Insert);
        P::work(self.session.core(), Work::Access, 1);
        self.with_bytes::<OfRow<R>, _>(
            |bytes| value.store(bytes),
            |transaction, bytes| {
                let made = transaction
                    .scratch
                    .columns
                    .map(|columns| transaction.make_columns(columns, table.number(), bytes));
                let bytes = made.as_deref().unwrap_or(bytes);
                with_keys(value, |keys| {
                    let (table, tail) = (table.number(), value.tail());
                    if R::HAS_TAIL {
                        transaction.check_tail_bytes(tail.len())?;
                    }
                    call!(transaction, |inner, cx| make(inner, cx, table, keys, bytes, &tail))
                })
            },
        )
    }

    /// Inserts rows that are encoded.
    #[inline]
    pub(super) fn insert_batch(&mut self, table: usize, rows: NewRows<'_>) -> Result<(), Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Insert);
        let c = self.session.core();
        P::work(c, Work::Access, rows.count as u32);
        // The rows are encoded, and then copied to where they wait for the commit.
        P::work(c, Work::CopyWord, 2 * (rows.fixed.len() / 8) as u32);
        call!(self, |inner, cx| S::insert_all(inner, cx, table, rows))
    }

    /// Looks keys up one after the other.
    #[cold]
    fn find_each<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        for key in keys {
            found.extend([self.find(index, key, intent)?]);
        }
        Ok(())
    }

    /// Writes bytes of a row.
    #[inline(always)]
    fn write(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        P::code(self.session.core(), Code::Write);
        if let Some(columns) = self.scratch.columns {
            return self.write_columns(columns, row, offset, bytes);
        }
        call!(self, |inner, cx| S::write(inner, cx, row, offset, bytes))
    }

    /// Runs `body` with the bytes of a value.
    #[inline(always)]
    fn with_bytes<L: Length, T>(
        &mut self,
        encode: impl FnOnce(&mut [u8]),
        body: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> T {
        let bytes = L::BYTES;
        // The value is encoded, and then copied to where it waits for the commit.
        P::work(self.session.core(), Work::CopyWord, 2 * bytes.div_ceil(8) as u32);
        // A constant where this is compiled, so `body` is compiled for one of these.
        match const { stack_bytes(L::BYTES) } {
            8 => self.with_few_bytes::<8, T>(bytes, encode, body),
            32 => self.with_few_bytes::<32, T>(bytes, encode, body),
            64 => self.with_few_bytes::<64, T>(bytes, encode, body),
            128 => self.with_few_bytes::<128, T>(bytes, encode, body),
            _ => self.with_many_bytes(bytes, encode, body),
        }
    }

    #[inline(always)]
    fn with_few_bytes<const N: usize, T>(
        &mut self,
        bytes: usize,
        encode: impl FnOnce(&mut [u8]),
        body: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> T {
        let mut buffer = [0; N];
        encode(&mut buffer[..bytes]);
        body(self, &buffer[..bytes])
    }

    fn with_many_bytes<T>(
        &mut self,
        bytes: usize,
        encode: impl FnOnce(&mut [u8]),
        body: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> T {
        let mut words = std::mem::take(&mut self.scratch.words);
        words.clear();
        words.resize(bytes.div_ceil(8), 0);
        let buffer: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        encode(&mut buffer[..bytes]);
        let result = body(self, &buffer[..bytes]);
        self.scratch.words = words;
        result
    }
}

impl<P: Platform, S: Scheme<P>> Transaction<'_, '_, P, S> {
    /// Deletes the row with this content.
    fn delete_known<R: Row>(&mut self, row: u32, value: &R) -> Result<(), Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Delete);
        with_keys(value, |keys| call!(self, |inner, cx| S::delete(inner, cx, row, keys)))
    }
}

impl<'s, 'i, P: Platform, S: Scheme<P>> Verbs for Transaction<'s, 'i, P, S> {
    type InScan<'x> = Transaction<'s, 'i, P, S>;

    #[inline]
    fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(index.table().number()));
        P::code(self.session.core(), Code::Find);
        let key = KeyOf::new(key);
        let words = key.as_ref();
        let (table, index) = (index.table().number(), index.number());
        let found = call!(self, |inner, cx| S::find(inner, cx, table, index, words, intent))?;
        Ok(found.map(|number| Handle::of(self.row_id(number))))
    }

    #[inline]
    fn find_constant<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        columns: ColumnSet<R>,
    ) -> Result<Option<RowPart<R>>, Abort> {
        let place = TableIndex { table: index.table().number(), index: index.number() };
        let found = self.find_words(place, KeyOf::new(key).as_ref(), columns.words())?;
        Ok(found.map(|row| RowPart::new(Handle::of(row), columns)))
    }

    fn find_unvalidated<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
    ) -> Result<Option<Handle<R>>, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(index.table().number()));
        P::code(self.session.core(), Code::Find);
        let key = KeyOf::new(key);
        let words = key.as_ref();
        let (table, index) = (index.table().number(), index.number());
        let found = call!(self, |inner, cx| S::find_unvalidated(inner, cx, table, index, words))?;
        Ok(found.map(|number| Handle::of(self.row_id(number))))
    }

    fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut impl Extend<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        self.prefetch_keys(index, keys.iter().cloned());
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
        if !self.scratch.prefetches {
            return self.find_each(index, keys, intent, found);
        }
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(index.table().number()));
        P::code(self.session.core(), Code::Find);
        let place = TableIndex { table: index.table().number(), index: index.number() };
        let attempt = self.attempt;
        let field = ahead.map(|field| (field.offset(), V::BYTES));
        let (keys, ahead) = (TypedKeys(keys), Ahead { row_bytes: R::BYTES, field });
        let push =
            |row: Option<u32>| found.extend([row.map(|number| Handle::of(RowId::new(number, attempt)))]);
        self.find_keys(place, &keys, intent, ahead, push)
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
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(index.table().number()));
        P::code(self.session.core(), Code::Scan);
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let words = const { key_words(K::BITS) };
        let table = index.table().number();
        if self.session.context().tables[table].indexes[index.number()].partition(low.words(words)).is_hash()
        {
            return self.misuse("a hash index has no order to scan");
        }
        if low > high {
            return Ok(());
        }
        let range = KeyBounds { low: low.words(words), high: high.words(words) };
        let result =
            S::scan(self, table, index.number(), range, direction, intent, &mut |transaction, row| {
                transaction.count_verb()?;
                let row = Handle::of(transaction.row_id(row));
                Ok(visit(transaction, row)?.is_continue())
            });
        self.note(result)
    }

    #[inline(always)]
    fn prefetch_insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        if !self.scratch.knows_current() {
            self.prefetch_key(index, key);
        }
    }

    #[inline(always)]
    fn prefetch_key<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        if !self.scratch.prefetches {
            return;
        }
        let place = TableIndex { table: index.table().number(), index: index.number() };
        self.announce(place, std::iter::once(KeyOf::new(key)));
    }

    #[inline(always)]
    fn prefetch_keys<R: Row, K: Key>(&mut self, index: Index<R, K>, keys: impl Iterator<Item = K>) {
        if self.scratch.prefetches {
            let place = TableIndex { table: index.table().number(), index: index.number() };
            self.announce(place, keys.map(|key| KeyOf::new(&key)));
        }
    }

    #[inline(always)]
    fn prefetch<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, intent: Intent) {
        let (first, end) = (field.offset() / 8, (field.offset() + V::BYTES).div_ceil(8));
        self.prefetch_words(row.row(), first, end - first, intent);
    }

    #[inline(always)]
    fn get<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>) -> Result<V, Abort> {
        let number = self.number(row.row())?;
        self.with_span(number, field.offset(), V::BYTES, V::fetch)
    }

    #[inline(always)]
    fn get_together<R: Row, F: Fields<R>>(&mut self, row: Handle<R>, fields: F) -> Result<F::Values, Abort> {
        if self.scratch.reads_apart {
            return fields.get_each(self, row);
        }
        let number = self.number(row.row())?;
        let (start, end) = fields.extent();
        self.with_span(number, start, end - start, |bytes| fields.fetch(bytes, start))
    }

    #[inline(always)]
    fn get_part<R: Row, V: Value>(&mut self, part: RowPart<R>, field: Field<R, V>) -> Result<V, Abort> {
        match part.row_for(field) {
            Some(row) => self.get(row, field),
            None => self.misuse(OTHER_COLUMN),
        }
    }

    #[inline]
    fn put<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, value: &V) -> Result<(), Abort> {
        if touches_key::<R>(field.offset(), field.offset() + V::BYTES) {
            return self.misuse("a key column changes through `replace` only");
        }
        let number = self.number(row.row())?;
        self.with_bytes::<OfValue<V>, _>(
            |bytes| value.store(bytes),
            |transaction, bytes| transaction.write(number, field.offset(), bytes),
        )
    }

    fn row<R: Row>(&mut self, row: Handle<R>) -> Result<R, Abort> {
        let number = self.number(row.row())?;
        let mut tail = std::mem::take(&mut self.scratch.tail);
        tail.clear();
        if R::HAS_TAIL {
            call!(self, |inner, cx| S::read_tail(inner, cx, number, &mut tail))?;
        }
        let value = self.with_span(number, 0, R::BYTES, |bytes| R::fetch(&bytes[..R::BYTES], &tail));
        self.scratch.tail = tail;
        value
    }

    fn replace<R: Row>(&mut self, row: Handle<R>, value: &R) -> Result<(), Abort> {
        let old: R = self.row(row)?;
        let changed = with_keys(&old, |before| with_keys(value, |after| before != after));
        let number = self.number(row.row())?;
        if changed {
            self.delete_known(number, &old)?;
            let table = Table::new(S::table_of(self.parts().0, number));
            return self.insert(table, value);
        }
        self.with_bytes::<OfRow<R>, _>(
            |bytes| value.store(bytes),
            |transaction, bytes| {
                transaction.write(number, 0, bytes)?;
                if R::HAS_TAIL {
                    let tail = value.tail();
                    transaction.check_tail_bytes(tail.len())?;
                    call!(transaction, |inner, cx| S::write_tail(inner, cx, number, &tail))?;
                }
                Ok(())
            },
        )
    }

    fn insert<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        self.make_row(table, value, S::insert)
    }

    #[inline]
    fn insert_all<R: Row>(
        &mut self,
        table: Table<R>,
        mut rows: impl Iterator<Item = R>,
    ) -> Result<(), Abort> {
        if R::HAS_TAIL || self.scratch.columns.is_some() {
            return rows.try_for_each(|row| self.insert(table, &row));
        }
        let mut batch = std::mem::take(&mut self.scratch.batch);
        batch.clear();
        rows.for_each(|row| batch.push(&row));
        let inserted = self.insert_batch(table.number(), batch.rows());
        self.scratch.batch = batch;
        inserted
    }

    fn insert_unindexed<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        self.make_row(table, value, S::insert_unindexed)
    }

    fn delete<R: Row>(&mut self, row: Handle<R>) -> Result<(), Abort> {
        let value: R = self.row(row)?;
        let number = self.number(row.row())?;
        self.delete_known(number, &value)
    }

    #[inline(always)]
    fn work(&mut self, work: Work, units: u32) {
        P::work(self.session.core(), work, units);
    }
}
