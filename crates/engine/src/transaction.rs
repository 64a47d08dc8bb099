//! The verbs over typed rows, on top of a concurrency-control scheme.

pub mod erased;
mod interpreted;

use cc::{Abort, Category, Context, Holder, Mode, Scheme, Session};
use platform::{Intent, Nanos, Platform, Work};
use storage::tree::{Direction, Lookup};
use storage::{Optimisation, Without};

use crate::columns::Columns;
use crate::database::Commit;
use crate::durable::{RedoWriter, epoch_of};
use crate::key::{Key, KeyBuffer, key_words};
use crate::row::{Field, Row, Value};
use crate::table::{Handle, Index, Table};
use crate::verbs::{Verbs, Visitor};

/// Bytes of a row that `find_many` starts to bring.
const AHEAD_BYTES: usize = 128;
/// Most indexes of a row type.
pub(crate) const INDEXES_MAX: usize = 8;
/// Verbs between two looks at the deadline.
const VERBS_PER_LOOK: u32 = 64;

/// What a session keeps from transaction to transaction: buffers, and how it does things.
pub(crate) struct Scratch<'i, P: Platform> {
    words: Vec<u64>,
    tail: Vec<u8>,
    lookups: Vec<Lookup>,
    /// Whether what will be needed is brought closer ahead.
    prefetches: bool,
    /// The way to columns, where it is not compiled.
    columns: Option<&'i Columns<P>>,
}

impl<'i, P: Platform> Scratch<'i, P> {
    pub(crate) fn new(without: Without, columns: Option<&'i Columns<P>>) -> Self {
        let prefetches = !without.has(Optimisation::Prefetch);
        Scratch { words: Vec::new(), tail: Vec::new(), lookups: Vec::new(), prefetches, columns }
    }
}

/// When a transaction gives up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Moment after which it does not commit any more.
    pub deadline: Option<Nanos>,
    /// Most attempts; `None`: until it succeeds.
    pub attempts_max: Option<u32>,
}

/// One attempt of a transaction in one session. Dropping it without committing aborts it.
pub struct Transaction<'s, 'i, P: Platform, S: Scheme<P>> {
    session: &'s mut Session<'i, P, S>,
    scratch: &'s mut Scratch<'i, P>,
    /// The way into the log, if the database has one.
    redo: Option<&'s mut RedoWriter<'i, P>>,
    /// There until the transaction ends.
    inner: Option<S::Transaction>,
    deadline: Option<Nanos>,
    until_look: u32,
    /// Why a verb failed: what follows is its end, whatever the caller makes of the error. A row may be in some of its
    /// indexes only.
    failed: Option<Abort>,
}

impl<'i, P: Platform, S: Scheme<P>> Holder<'i, P, S> for Transaction<'_, 'i, P, S> {
    #[inline(always)]
    fn parts(&mut self) -> (&mut S::Transaction, Context<'_, 'i, P, S>) {
        let inner = self.inner.as_mut().expect("a transaction is there until it ends");
        (inner, self.session.context())
    }
}

impl<'s, 'i, P: Platform, S: Scheme<P>> Transaction<'s, 'i, P, S> {
    /// Begins; the session enters the current epoch.
    #[inline]
    pub(crate) fn begin(
        session: &'s mut Session<'i, P, S>,
        scratch: &'s mut Scratch<'i, P>,
        redo: Option<&'s mut RedoWriter<'i, P>>,
        mode: Mode,
        deadline: Option<Nanos>,
    ) -> Self {
        session.enter();
        P::work(session.core(), Work::Transaction, 1);
        let inner = Some(S::begin(&mut session.context(), mode));
        Transaction { session, scratch, redo, inner, deadline, until_look: VERBS_PER_LOOK, failed: None }
    }

    /// Checks that it can commit, and lets go of the session.
    #[inline]
    pub(crate) fn prepare(mut self) -> Result<S::Prepared, Abort> {
        self.look()?;
        let inner = self.inner.take().expect("a transaction is there until it ends");
        S::prepare(inner, &mut self.session.context())
    }

    /// Commits.
    #[inline]
    pub(crate) fn commit(mut self) -> Result<Commit, Abort> {
        self.look()?;
        let inner = self.inner.take().expect("a transaction is there until it ends");
        let prepared = S::prepare(inner, &mut self.session.context())?;
        match self.redo.take() {
            None => Ok(Commit::of(S::commit(prepared, &mut self.session.context()))),
            Some(redo) => Ok(commit_logged(self.session, redo, prepared)),
        }
    }

    /// Why a transaction ends that fails with `abort`: a conflict if what it read, and drew its conclusion from, was never
    /// true at one moment.
    #[cold]
    pub(crate) fn explain(mut self, abort: Abort) -> Abort {
        match (self.failed.take(), abort) {
            (Some(conflict @ Abort::Conflict(_)), _) => conflict,
            (_, abort @ (Abort::RollBack | Abort::Duplicate { .. } | Abort::Misuse(_))) => {
                let (inner, mut cx) = self.parts();
                S::check(inner, &mut cx).err().unwrap_or(abort)
            }
            (_, abort) => abort,
        }
    }

    /// Remembers that a verb failed.
    #[inline(always)]
    fn note<T>(&mut self, result: Result<T, Abort>) -> Result<T, Abort> {
        if let Err(abort) = &result {
            self.fail(abort);
        }
        result
    }

    #[cold]
    fn fail(&mut self, abort: &Abort) {
        self.failed.get_or_insert_with(|| abort.clone());
    }

    /// Gives up if a verb has failed or the deadline has passed.
    fn look(&mut self) -> Result<(), Abort> {
        self.until_look = VERBS_PER_LOOK;
        if let Some(abort) = &self.failed {
            return Err(abort.clone());
        }
        match self.deadline {
            Some(deadline) if P::now(self.session.core()) >= deadline => Err(Abort::Deadline),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn count_verb(&mut self) -> Result<(), Abort> {
        self.until_look -= 1;
        if self.until_look == 0 { self.look() } else { Ok(()) }
    }

    /// Says where the transaction will go.
    #[inline]
    pub(crate) fn enlist(&mut self, table: usize, key: &KeyBuffer) {
        let (inner, mut cx) = self.parts();
        let words = key.words(cx.tables[table].indexes[0].words);
        S::enlist(inner, &mut cx, table, words);
    }

    /// Starts to bring what the table's first index says of a key.
    pub(crate) fn bring_key(&mut self, table: usize, key: &[u64]) {
        if self.scratch.prefetches {
            let (_, cx) = self.parts();
            cx.tables[table].indexes[0].partition(key).prefetch(cx.c, key);
        }
    }

    /// Starts to bring the first `words` of a row.
    pub(crate) fn bring_row(&mut self, row: u32, words: usize) {
        let c = self.session.core();
        if let (Some(inner), true) = (&mut self.inner, self.scratch.prefetches) {
            S::prefetch(inner, c, row, 0, words, Intent::Read);
        }
    }

    #[inline(always)]
    fn lookup<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &KeyBuffer) -> Result<Lookup, Abort> {
        let words = key.words(const { key_words(K::BITS) });
        let (inner, mut cx) = self.parts();
        let approached = S::approach(inner, &mut cx, index.table().number(), index.number(), words);
        self.note(approached)?;
        let cx = self.session.context();
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Index);
        let lookup =
            cx.tables[index.table().number()].indexes[index.number()].partition(words).get(cx.c, words);
        cx.worker.meter.leave::<P>(cx.c, before);
        Ok(lookup)
    }

    /// Looks keys up and starts to bring the beginning of each row found, and `ahead`.
    #[inline(always)]
    fn look_up_many<R: Row, K: Key, V: Value>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        ahead: Option<Field<R, V>>,
        lookups: &mut Vec<Lookup>,
    ) -> Result<(), Abort> {
        let words = const { key_words(K::BITS) };
        for key in keys {
            let key = KeyBuffer::of(key);
            let (inner, mut cx) = self.parts();
            let (table, index) = (index.table().number(), index.number());
            let approached = S::approach(inner, &mut cx, table, index, key.words(words));
            self.note(approached)?;
        }
        let cx = self.session.context();
        let (c, storage) = (cx.c, &cx.tables[index.table().number()].indexes[index.number()]);
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        for key in keys {
            let key = KeyBuffer::of(key);
            let lookup = storage.partition(key.words(words)).get(c, key.words(words));
            if let Some(bits) = lookup.value {
                let at = |offset: usize| std::ptr::without_provenance::<u8>(bits as usize + offset);
                P::prefetch(c, at(0), (size_of::<S::Header>() + R::BYTES).min(AHEAD_BYTES), intent);
                if let Some(field) = ahead {
                    P::prefetch(c, at(size_of::<S::Header>() + field.offset()), V::BYTES, Intent::Read);
                }
            }
            lookups.push(lookup);
        }
        self.session.worker().meter.leave::<P>(c, before);
        Ok(())
    }

    #[inline(always)]
    fn take<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &KeyBuffer,
        lookup: Lookup,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort> {
        let words = key.words(const { key_words(K::BITS) });
        let table = index.table().number();
        let (inner, mut cx) = self.parts();
        let found = S::access(inner, &mut cx, table, index.number(), words, lookup, intent);
        Ok(self.note(found)?.map(Handle::new))
    }

    /// Reads `words` words, at most `N`, and hands them to `decode` as bytes.
    #[inline(always)]
    fn with_few_words<const N: usize, T>(
        &mut self,
        row: u32,
        first: usize,
        words: usize,
        decode: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Abort> {
        // Once into the buffer, once out of it.
        P::work(self.session.core(), Work::CopyWord, 2 * words as u32);
        let mut buffer = [0; N];
        let (inner, mut cx) = self.parts();
        let read = S::read(inner, &mut cx, row, first, &mut buffer[..words]);
        self.note(read)?;
        Ok(decode(bytemuck::cast_slice(&buffer[..])))
    }

    /// Reads any number of words and hands them to `decode` as bytes.
    fn with_words<T>(
        &mut self,
        row: u32,
        first: usize,
        words: usize,
        decode: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Abort> {
        // Once into the buffer, once out of it.
        P::work(self.session.core(), Work::CopyWord, 2 * words as u32);
        let mut buffer = std::mem::take(&mut self.scratch.words);
        buffer.clear();
        buffer.resize(words, 0);
        let (inner, mut cx) = self.parts();
        let read = S::read(inner, &mut cx, row, first, &mut buffer);
        let value = read.map(|()| decode(bytemuck::cast_slice(&buffer)));
        self.scratch.words = buffer;
        self.note(value)
    }

    /// Reads bytes `start..start + bytes` of a row, both constant where it is called, through as little stack as possible.
    #[inline(always)]
    fn with_span<T>(
        &mut self,
        row: u32,
        start: usize,
        bytes: usize,
        decode: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Abort> {
        if let Some(columns) = self.scratch.columns {
            return self.read_columns(columns, row, (start, bytes), decode);
        }
        let (first, end) = (start / 8, (start + bytes).div_ceil(8));
        let (words, shift) = (end - first, start % 8);
        let decode = |span: &[u8]| decode(&span[shift..]);
        match words {
            0..=1 => self.with_few_words::<1, T>(row, first, words, decode),
            2 => self.with_few_words::<2, T>(row, first, words, decode),
            3..=4 => self.with_few_words::<4, T>(row, first, words, decode),
            5..=8 => self.with_few_words::<8, T>(row, first, words, decode),
            9..=16 => self.with_few_words::<16, T>(row, first, words, decode),
            _ => self.with_words(row, first, words, decode),
        }
    }

    /// Looks keys up one after the other.
    #[cold]
    fn find_each<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut Vec<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        for key in keys {
            found.push(self.find(index, key, intent)?);
        }
        Ok(())
    }

    /// Writes bytes of a row.
    #[inline(always)]
    fn write(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        if let Some(columns) = self.scratch.columns {
            return self.write_columns(columns, row, offset, bytes);
        }
        let (inner, mut cx) = self.parts();
        S::write(inner, &mut cx, row, offset, bytes)
    }

    /// Runs `body` with the bytes of a value.
    #[inline(always)]
    fn with_bytes<T>(
        &mut self,
        bytes: usize,
        encode: impl FnOnce(&mut [u8]),
        body: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> T {
        // Once encoded, once from there to where it waits for the commit.
        P::work(self.session.core(), Work::CopyWord, 2 * bytes.div_ceil(8) as u32);
        match bytes {
            0..=8 => self.with_few_bytes::<8, T>(bytes, encode, body),
            9..=32 => self.with_few_bytes::<32, T>(bytes, encode, body),
            33..=64 => self.with_few_bytes::<64, T>(bytes, encode, body),
            65..=128 => self.with_few_bytes::<128, T>(bytes, encode, body),
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

/// Commits, and leaves what changed in the log: within the worker's epoch, and not later than that of the stamp.
pub(crate) fn commit_logged<P: Platform, S: Scheme<P>>(
    session: &mut Session<'_, P, S>,
    redo: &mut RedoWriter<'_, P>,
    prepared: S::Prepared,
) -> Commit {
    let mut cx = session.context();
    let reads_until = S::reads_until(&prepared);
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Log);
    redo.clear();
    S::redo(&prepared, &mut cx, redo);
    cx.worker.meter.leave::<P>(cx.c, before);
    let stamp = S::commit(prepared, &mut cx);
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Log);
    let local = &cx.worker.local;
    redo.append(cx.c, local.epochs_shared(), local.worker(), stamp);
    cx.worker.meter.leave::<P>(cx.c, before);
    Commit { stamp, durable_with: reads_until.map_or(epoch_of(stamp), epoch_of) }
}

impl<P: Platform, S: Scheme<P>> Drop for Transaction<'_, '_, P, S> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take()
            && !P::is_gone(self.session.core())
        {
            S::abort(inner, &mut self.session.context());
        }
    }
}

/// Runs `body` with the row's keys, one slice an index.
#[inline(always)]
pub(crate) fn with_keys<R: Row, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    const { assert!(R::INDEXES.len() <= INDEXES_MAX, "too many indexes") };
    // Most tables have one or two indexes: making room for more would cost more than the keys.
    match R::INDEXES.len() {
        1 => with_some_keys::<R, 1, T>(row, body),
        2 => with_some_keys::<R, 2, T>(row, body),
        _ => with_some_keys::<R, INDEXES_MAX, T>(row, body),
    }
}

#[inline(always)]
fn with_some_keys<R: Row, const N: usize, T>(row: &R, body: impl FnOnce(&[&[u64]]) -> T) -> T {
    let count = R::INDEXES.len().min(N);
    let mut buffers = [const { KeyBuffer::new() }; N];
    for (number, buffer) in buffers.iter_mut().enumerate().take(count) {
        row.index_key(number, buffer);
    }
    let mut slices: [&[u64]; N] = [&[]; N];
    for (number, slice) in slices.iter_mut().enumerate().take(count) {
        *slice = buffers[number].words(key_words(R::INDEXES[number].key_bits));
    }
    body(&slices[..count])
}

/// Most columns that all keys of a row type may have together.
const KEY_COLUMNS_MAX: usize = 32;

const fn same_text(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Bytes of the row that belong to keys: (start, end) of each column, in order of discovery.
const fn key_bytes<R: Row>() -> [(usize, usize); KEY_COLUMNS_MAX] {
    let mut ranges = [(0, 0); KEY_COLUMNS_MAX];
    let mut count = 0;
    let mut column = 0;
    while column < R::COLUMNS.len() {
        let mut index = 0;
        let mut is_key = false;
        while index < R::INDEXES.len() {
            let mut place = 0;
            while place < R::INDEXES[index].columns.len() {
                is_key = is_key || same_text(R::INDEXES[index].columns[place], R::COLUMNS[column].name);
                place += 1;
            }
            index += 1;
        }
        if is_key {
            assert!(count < KEY_COLUMNS_MAX, "too many key columns");
            ranges[count] = (R::COLUMNS[column].offset, R::COLUMNS[column].offset + R::COLUMNS[column].bytes);
            count += 1;
        }
        column += 1;
    }
    ranges
}

/// Whether bytes `start..end` of a row are part of a key. The compiler sees through it where the field is constant.
#[inline(always)]
fn touches_key<R: Row>(start: usize, end: usize) -> bool {
    let ranges = const { &key_bytes::<R>() };
    ranges.iter().any(|(from, to)| start < *to && *from < end)
}

impl<P: Platform, S: Scheme<P>> Verbs for Transaction<'_, '_, P, S> {
    #[inline]
    fn find<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        key: &K,
        intent: Intent,
    ) -> Result<Option<Handle<R>>, Abort> {
        self.count_verb()?;
        let key = KeyBuffer::of(key);
        let lookup = self.lookup(index, &key)?;
        self.take(index, &key, lookup, intent)
    }

    fn find_many<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        found: &mut Vec<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        if self.scratch.prefetches {
            for key in keys {
                self.prefetch_key(index, key);
            }
        }
        self.find_prefetched::<R, K, u8>(index, keys, intent, None, found)
    }

    fn find_prefetched<R: Row, K: Key, V: Value>(
        &mut self,
        index: Index<R, K>,
        keys: &[K],
        intent: Intent,
        ahead: Option<Field<R, V>>,
        found: &mut Vec<Option<Handle<R>>>,
    ) -> Result<(), Abort> {
        if !self.scratch.prefetches {
            return self.find_each(index, keys, intent, found);
        }
        self.count_verb()?;
        let mut lookups = std::mem::take(&mut self.scratch.lookups);
        lookups.clear();
        let mut result = self.look_up_many(index, keys, intent, ahead, &mut lookups);
        for (key, lookup) in keys.iter().zip(&lookups) {
            // The key serves to protect its absence.
            let key = if lookup.value.is_some() { KeyBuffer::new() } else { KeyBuffer::of(key) };
            match self.take(index, &key, *lookup, intent) {
                Ok(handle) => found.push(handle),
                Err(abort) => {
                    result = Err(abort);
                    break;
                }
            }
        }
        self.scratch.lookups = lookups;
        result
    }

    fn scan<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        low: &K,
        high: &K,
        direction: Direction,
        intent: Intent,
        visit: Visitor<'_, Self, R>,
    ) -> Result<(), Abort> {
        self.count_verb()?;
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let words = const { key_words(K::BITS) };
        let table = index.table().number();
        if self.session.context().tables[table].indexes[index.number()].partition(low.words(words)).is_hash()
        {
            return Err(Abort::Misuse("a hash index has no order to scan"));
        }
        if low > high {
            return Ok(());
        }
        let range = (low.words(words), high.words(words));
        let result =
            S::scan(self, table, index.number(), range, direction, intent, &mut |transaction, row| {
                transaction.count_verb()?;
                Ok(visit(transaction, Handle::new(row))?.is_continue())
            });
        self.note(result)
    }

    fn prefetch_key<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        if !self.scratch.prefetches {
            return;
        }
        let key = KeyBuffer::of(key);
        let words = key.words(const { key_words(K::BITS) });
        let cx = self.session.context();
        let storage = &cx.tables[index.table().number()].indexes[index.number()];
        storage.partition(words).prefetch(cx.c, words);
    }

    #[inline(always)]
    fn prefetch<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, intent: Intent) {
        let (first, end) = (field.offset() / 8, (field.offset() + V::BYTES).div_ceil(8));
        let c = self.session.core();
        if let (Some(inner), true) = (&mut self.inner, self.scratch.prefetches) {
            S::prefetch(inner, c, row.access(), first, end - first, intent);
        }
    }

    #[inline(always)]
    fn get<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>) -> Result<V, Abort> {
        self.with_span(row.access(), field.offset(), V::BYTES, V::fetch)
    }

    #[inline]
    fn put<R: Row, V: Value>(&mut self, row: Handle<R>, field: Field<R, V>, value: &V) -> Result<(), Abort> {
        if touches_key::<R>(field.offset(), field.offset() + V::BYTES) {
            return Err(Abort::Misuse("a key column changes through `replace` only"));
        }
        self.with_bytes(
            V::BYTES,
            |bytes| value.store(bytes),
            |transaction, bytes| {
                let written = transaction.write(row.access(), field.offset(), bytes);
                transaction.note(written)
            },
        )
    }

    fn row<R: Row>(&mut self, row: Handle<R>) -> Result<R, Abort> {
        let mut tail = std::mem::take(&mut self.scratch.tail);
        tail.clear();
        if R::HAS_TAIL {
            let (inner, mut cx) = self.parts();
            let read = S::read_tail(inner, &mut cx, row.access(), &mut tail);
            self.note(read)?;
        }
        let value = self.with_span(row.access(), 0, R::BYTES, |bytes| R::fetch(&bytes[..R::BYTES], &tail));
        self.scratch.tail = tail;
        value
    }

    fn replace<R: Row>(&mut self, row: Handle<R>, value: &R) -> Result<(), Abort> {
        self.count_verb()?;
        let old: R = self.row(row)?;
        let changed = (0..R::INDEXES.len()).any(|number| {
            let (mut before, mut after) = (KeyBuffer::new(), KeyBuffer::new());
            old.index_key(number, &mut before);
            value.index_key(number, &mut after);
            before != after
        });
        if changed {
            self.delete(row)?;
            let table = self.table_of(row);
            return self.insert(table, value);
        }
        self.with_bytes(
            R::BYTES,
            |bytes| value.store(bytes),
            |transaction, bytes| {
                let mut written = transaction.write(row.access(), 0, bytes);
                if R::HAS_TAIL && written.is_ok() {
                    let (inner, mut cx) = transaction.parts();
                    written = S::write_tail(inner, &mut cx, row.access(), value.tail());
                }
                transaction.note(written)
            },
        )
    }

    fn insert<R: Row>(&mut self, table: Table<R>, value: &R) -> Result<(), Abort> {
        self.count_verb()?;
        P::work(self.session.core(), Work::Access, 1);
        self.with_bytes(
            R::BYTES,
            |bytes| value.store(bytes),
            |transaction, bytes| {
                let made = transaction
                    .scratch
                    .columns
                    .map(|columns| transaction.make_columns(columns, table.number(), bytes));
                let bytes = made.as_deref().unwrap_or(bytes);
                let inserted = with_keys(value, |keys| {
                    let (inner, mut cx) = transaction.parts();
                    S::insert(inner, &mut cx, table.number(), keys, bytes, value.tail())
                });
                transaction.note(inserted)
            },
        )
    }

    fn delete<R: Row>(&mut self, row: Handle<R>) -> Result<(), Abort> {
        self.count_verb()?;
        let value: R = self.row(row)?;
        let deleted = with_keys(&value, |keys| {
            let (inner, mut cx) = self.parts();
            S::delete(inner, &mut cx, row.access(), keys)
        });
        self.note(deleted)
    }

    #[inline(always)]
    fn work(&mut self, work: Work, units: u32) {
        P::work(self.session.core(), work, units);
    }
}

impl<P: Platform, S: Scheme<P>> Transaction<'_, '_, P, S> {
    /// The table that a row of this transaction belongs to.
    fn table_of<R: Row>(&mut self, row: Handle<R>) -> Table<R> {
        let (inner, _) = self.parts();
        Table::new(S::table_of(inner, row.access()))
    }
}
