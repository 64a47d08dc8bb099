//! The verbs over numbers, words and bytes.

use boundary::{
    AnyVerbs, ChangeError, Reader, RowVisitor, Savepoint, SchemaBuilder, Span, TableChanges, TableHold,
};
use concurrency::{Ahead, Holder, KeyList, NewRows, RowWords, Scheme};
use platform::{Code, Intent, Nanos, Platform, Work};
use schema::{Routes, RowId, tails_agree};
use storage::Index;
use storage::tree::{Direction, ScanOrder};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Epoch};

use super::{MakeRow, Transaction};

/// Words of the rows that a scan reads at a time, at most.
const ROOM_WORDS_MAX: usize = 1 << 16;

/// Error of a write that would change a key.
const KEY_CHANGES: &str = "bytes of a key change by deleting the row and inserting another";

impl<'i, P: Platform, S: Scheme<P>> Transaction<'_, 'i, P, S> {
    /// An index of a table; an error if there is none, or if its keys are not as long as `key`.
    #[inline(always)]
    fn index_for(&mut self, table: usize, index: usize, key: &[u64]) -> Result<&'i Index<P>, Abort> {
        let tables = self.session.context().tables;
        match tables.get(table).and_then(|table| table.indexes.get(index)) {
            Some(index) if index.takes(key.len()) => Ok(index),
            Some(_) => self.misuse("a key of another length than those of the index"),
            None => self.misuse("no such table or index"),
        }
    }

    /// Refuses bytes from `offset` on that would change a key of the row.
    #[inline]
    fn keep_keys(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        let (inner, cx) = self.parts();
        let table = &cx.tables[S::table_of(inner, row)];
        let end = offset.saturating_add(bytes.len());
        for key in &table.key_bytes {
            let (from, to) = (key.from.max(offset), key.to.min(end));
            if from >= to {
                continue;
            }
            let before = self.read_bytes(row, from, to)?;
            if key.are_changed(from, before, &bytes[from - offset..to - offset]) {
                return self.misuse(KEY_CHANGES);
            }
        }
        Ok(())
    }

    /// Refuses a tail that would change a key of the row.
    #[inline]
    fn keep_tail_keys(&mut self, row: u32, tail: &[u8]) -> Result<(), Abort> {
        let (inner, cx) = self.parts();
        let table = &cx.tables[S::table_of(inner, row)];
        if table.key_tail.is_empty() {
            return Ok(());
        }
        let mut before = Vec::new();
        call!(self, |inner, cx| S::read_tail(inner, cx, row, &mut before))?;
        match tails_agree(&table.key_tail, &before, tail) {
            true => Ok(()),
            false => self.misuse(KEY_CHANGES),
        }
    }

    /// Copies words of a row's fixed part, from number `first` on, to where a copier of rows needs
    /// them.
    pub(crate) fn copy_words(&mut self, row: RowId, first: usize, out: &mut [u64]) -> Result<(), Abort> {
        P::work(self.session.core(), Work::CopyWord, out.len() as u32);
        let row = self.number(row)?;
        call!(self, |inner, cx| S::read(inner, cx, row, first, out))
    }

    /// Bytes of a row, as the transaction sees them.
    fn read_bytes(&mut self, row: u32, from: usize, to: usize) -> Result<&[u8], Abort> {
        let first = from / 8;
        let mut words = std::mem::take(&mut self.scratch.words);
        words.clear();
        words.resize(to.div_ceil(8) - first, 0);
        let read = call!(self, |inner, cx| S::read(inner, cx, row, first, &mut words));
        self.scratch.words = words;
        read?;
        Ok(&bytemuck::cast_slice(&self.scratch.words)[from - first * 8..to - first * 8])
    }

    /// Checks before a scan that there is something to scan.
    fn begin_scan(
        &mut self,
        TableIndex { table, index }: TableIndex,
        KeyBounds { low, high }: KeyBounds<'_>,
    ) -> Result<bool, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Scan);
        self.index_for(table, index, high)?;
        if self.index_for(table, index, low)?.partition(low).is_hash() {
            return self.misuse("a hash index has no order to scan");
        }
        Ok(low <= high)
    }

    /// Reads words of a row by its columns.
    #[cold]
    fn find_and_read_columns(
        &mut self,
        TableIndex { table, index }: TableIndex,
        key: &[u64],
        first: usize,
        out: &mut [u64],
    ) -> Result<bool, Abort> {
        let found = call!(self, |inner, cx| S::find(inner, cx, table, index, key, Intent::Read))?;
        let Some(row) = found else { return Ok(false) };
        let row = self.row_id(row);
        AnyVerbs::read(self, row, Span::of_words(first, out.len()), out).map(|()| true)
    }

    /// Shows words of the rows of a scan.
    fn scan_words(
        &mut self,
        place: TableIndex,
        range: KeyBounds<'_>,
        order: ScanOrder,
        wanted: RowWords,
        room: &mut [u64],
        visit: &mut Reader<'_>,
    ) -> Result<(), Abort> {
        S::scan_words(self, place, range, order, wanted, room, &mut |transaction, words| {
            transaction.count_verb()?;
            // As by a read: once into the buffer, and once out of the buffer.
            P::work(transaction.session.core(), Work::CopyWord, 2 * words.len() as u32);
            visit(transaction, words)
        })
    }

    /// Makes a row by `make`.
    #[inline]
    fn make_erased_row(
        &mut self,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
        make: impl MakeRow<P, S>,
    ) -> Result<(), Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Insert);
        if table >= self.session.context().tables.len() {
            return self.misuse("no such table");
        }
        self.check_tail_bytes(tail.len())?;
        P::work(self.session.core(), Work::Access, 1);
        // The row is encoded, and then copied to where it waits for the commit.
        P::work(self.session.core(), Work::CopyWord, 2 * fixed.len().div_ceil(8) as u32);
        let made = self.scratch.columns.map(|columns| self.make_columns(columns, table, fixed));
        let fixed = made.as_deref().unwrap_or(fixed);
        call!(self, |inner, cx| make(inner, cx, table, keys, fixed, tail))
    }

    /// Writes bytes of a row, keys or not.
    fn write_all(&mut self, row: u32, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        P::code(self.session.core(), Code::Write);
        // The bytes are encoded, and then copied to where they wait for the commit.
        P::work(self.session.core(), Work::CopyWord, 2 * bytes.len().div_ceil(8) as u32);
        match self.scratch.columns {
            Some(columns) => self.write_columns(columns, row, offset, bytes),
            None => call!(self, |inner, cx| S::write(inner, cx, row, offset, bytes)),
        }
    }
}

impl<P: Platform, S: Scheme<P>> AnyVerbs for Transaction<'_, '_, P, S> {
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowId>, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Find);
        self.index_for(table, index, key)?;
        let found = call!(self, |inner, cx| S::find(inner, cx, table, index, key, intent))?;
        Ok(found.map(|number| self.row_id(number)))
    }

    fn find_and_read(
        &mut self,
        TableIndex { table, index }: TableIndex,
        key: &[u64],
        first: usize,
        out: &mut [u64],
    ) -> Result<bool, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Find);
        let storage = self.index_for(table, index, key)?;
        if self.scratch.columns.is_some() {
            return self.find_and_read_columns(TableIndex { table, index }, key, first, out);
        }
        let c = self.session.core();
        let found = call!(self, |inner, cx| {
            S::find_words(inner, cx, TableIndex { table, index }, storage, key, first, out)
        })?;
        if found {
            P::work(c, Work::CopyWord, 2 * out.len() as u32);
        }
        Ok(found)
    }

    fn find_constant(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        words: u64,
    ) -> Result<Option<RowId>, Abort> {
        self.index_for(table, index, key)?;
        self.find_words(TableIndex { table, index }, key, words)
    }

    fn find_unvalidated(&mut self, table: usize, index: usize, key: &[u64]) -> Result<Option<RowId>, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Find);
        self.index_for(table, index, key)?;
        let found = call!(self, |inner, cx| S::find_unvalidated(inner, cx, table, index, key))?;
        Ok(found.map(|number| self.row_id(number)))
    }

    fn find_prefetched(
        &mut self,
        table: usize,
        index: usize,
        keys: &[u64],
        intent: Intent,
        ahead: Option<Span>,
        found: &mut Vec<Option<RowId>>,
    ) -> Result<(), Abort> {
        let tables = self.session.context().tables;
        let Some(storage) = tables.get(table).and_then(|table| table.indexes.get(index)) else {
            return self.misuse("no such table or index");
        };
        if !keys.len().is_multiple_of(storage.words) {
            return self.misuse("a key of another length than those of the index");
        }
        if !self.scratch.prefetches {
            for key in keys.chunks_exact(storage.words) {
                found.push(self.find(table, index, key, intent)?);
            }
            return Ok(());
        }
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Find);
        let (row_bytes, attempt) = (tables[table].fixed_bytes(), self.attempt);
        if ahead.is_some_and(|span| span.offset.saturating_add(span.bytes) > row_bytes) {
            return self.misuse("bytes to prefetch that rows of the table do not have");
        }
        let ahead = Ahead { row_bytes, field: ahead.map(|span| (span.offset, span.bytes)) };
        let keys = KeyList { words: keys, width: storage.words };
        let push = |row: Option<u32>| found.push(row.map(|number| RowId::new(number, attempt)));
        self.find_keys(TableIndex { table, index }, &keys, intent, ahead, push)
    }

    fn prefetch_key(&mut self, table: usize, index: usize, key: &[u64]) {
        let cx = self.session.context();
        let storage = cx.tables.get(table).and_then(|table| table.indexes.get(index));
        if let (Some(storage), true) = (storage, self.scratch.prefetches)
            && storage.takes(key.len())
        {
            self.announce(TableIndex { table, index }, std::iter::once(key));
        }
    }

    fn is_told(&self) -> bool {
        self.scratch.knows_current()
    }

    fn prefetch(&mut self, row: RowId, span: Span, intent: Intent) {
        self.prefetch_words(row, span.first_word(), span.words(), intent);
    }

    fn read(&mut self, row: RowId, span: Span, out: &mut [u64]) -> Result<(), Abort> {
        let row = self.number(row)?;
        if out.len() != span.words() || span.offset.checked_add(span.bytes).is_none() {
            return self.misuse("room for another number of words than the bytes lie in");
        }
        if let Some(columns) = self.scratch.columns {
            let shift = span.offset % 8;
            let bytes = self.read_columns(columns, row, span.offset, span.bytes)?;
            bytemuck::cast_slice_mut(out)[shift..shift + span.bytes].copy_from_slice(&bytes);
            return Ok(());
        }
        // The words are copied once into the buffer, and once out of the buffer.
        P::work(self.session.core(), Work::CopyWord, 2 * out.len() as u32);
        call!(self, |inner, cx| S::read(inner, cx, row, span.first_word(), out))
    }

    fn forget_rows(&mut self) {
        if let Some(inner) = &mut self.inner {
            S::forget_rows(inner);
        }
    }

    fn reads_apart(&self) -> bool {
        self.scratch.reads_apart
    }

    fn read_tail(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort> {
        let row = self.number(row)?;
        call!(self, |inner, cx| S::read_tail(inner, cx, row, out))
    }

    fn write(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        let row = self.number(row)?;
        self.keep_keys(row, offset, bytes)?;
        self.write_all(row, offset, bytes)
    }

    fn write_tail(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort> {
        let row = self.number(row)?;
        self.check_tail_bytes(bytes.len())?;
        self.keep_tail_keys(row, bytes)?;
        call!(self, |inner, cx| S::write_tail(inner, cx, row, bytes))
    }

    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        self.make_erased_row(table, keys, fixed, tail, S::insert)
    }

    fn insert_all(&mut self, table: usize, rows: NewRows<'_>) -> Result<(), Abort> {
        let tables = self.session.context().tables;
        let Some(shape) = tables.get(table) else { return self.misuse("no such table") };
        let (width, bytes) = (shape.key_words(), shape.fixed_bytes());
        if self.scratch.columns.is_none() && !shape.has_long_keys {
            return self.insert_batch(table, rows);
        }
        if rows.keys.len() != rows.count * width || rows.fixed.len() != rows.count * bytes {
            return self.misuse("rows or keys of another length than those of the table");
        }
        for (keys, fixed) in rows.keys.chunks_exact(width).zip(rows.fixed.chunks_exact(bytes)) {
            let keys: Vec<&[u64]> = shape.split_keys(keys).collect();
            AnyVerbs::insert(self, table, &keys, fixed, &[])?;
        }
        Ok(())
    }

    fn insert_unindexed(
        &mut self,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        self.make_erased_row(table, keys, fixed, tail, S::insert_unindexed)
    }

    fn delete(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Delete);
        let row = self.number(row)?;
        call!(self, |inner, cx| S::delete(inner, cx, row, keys))
    }

    fn replace(
        &mut self,
        row: RowId,
        before: &[&[u64]],
        after: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let number = self.number(row)?;
        let (inner, cx) = self.parts();
        let number_of_table = S::table_of(inner, number);
        let table = &cx.tables[number_of_table];
        if before != after {
            AnyVerbs::delete(self, row, before)?;
            return AnyVerbs::insert(self, number_of_table, after, fixed, tail);
        }
        if fixed.len() != table.fixed_bytes() {
            return self.misuse("a row of another length than those of the table");
        }
        self.check_tail_bytes(tail.len())?;
        self.write_all(number, 0, fixed)?;
        match table.has_tail || !tail.is_empty() {
            true => call!(self, |inner, cx| S::write_tail(inner, cx, number, tail)),
            false => Ok(()),
        }
    }

    fn scan(
        &mut self,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        direction: Direction,
        intent: Intent,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        if !self.begin_scan(TableIndex { table, index }, range)? {
            return Ok(());
        }
        let scanned = S::scan(self, table, index, range, direction, intent, &mut |transaction, row| {
            transaction.count_verb()?;
            let row = transaction.row_id(row);
            visit(transaction, row)
        });
        self.note(scanned)
    }

    fn scan_or_skip(
        &mut self,
        place: TableIndex,
        range: KeyBounds<'_>,
        direction: Direction,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        if !self.begin_scan(place, range)? {
            return Ok(());
        }
        let scanned = S::scan_or_skip(self, place, range, direction, &mut |transaction, row| {
            transaction.count_verb()?;
            let row = transaction.row_id(row);
            visit(transaction, row)
        });
        self.note(scanned)
    }

    fn scan_and_read(
        &mut self,
        place: TableIndex,
        range: KeyBounds<'_>,
        order: ScanOrder,
        wanted: RowWords,
        visit: &mut Reader<'_>,
    ) -> Result<(), Abort> {
        if !self.begin_scan(place, range)? {
            return Ok(());
        }
        if wanted.count == 0
            || wanted.ahead == 0
            || wanted.count.saturating_mul(wanted.ahead) > ROOM_WORDS_MAX
        {
            return self.misuse("a scan that reads nothing, or too much at a time");
        }
        let mut room = std::mem::take(&mut self.scratch.words);
        room.resize(wanted.count * wanted.ahead, 0);
        let scanned = match self.scratch.columns {
            None => self.scan_words(place, range, order, wanted, &mut room, visit),
            Some(_) => S::scan(
                self,
                place.table,
                place.index,
                range,
                order.direction,
                order.intent,
                &mut |transaction, row| {
                    transaction.count_verb()?;
                    let row = transaction.row_id(row);
                    let words = &mut room[..wanted.count];
                    AnyVerbs::read(transaction, row, Span::of_words(wanted.first, wanted.count), words)?;
                    visit(transaction, words)
                },
            ),
        };
        self.scratch.words = room;
        self.note(scanned)
    }

    fn savepoint(&mut self) -> Result<Savepoint, Abort> {
        self.set_savepoint()
    }

    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        self.return_to(savepoint)
    }

    fn release(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        self.release_savepoint(savepoint)
    }

    fn table_of(&mut self, row: RowId) -> Result<usize, Abort> {
        let row = self.number(row)?;
        let (inner, _) = self.parts();
        Ok(S::table_of(inner, row))
    }

    fn make_table(&mut self, schema: SchemaBuilder) -> Result<usize, ChangeError> {
        self.make(schema)
    }

    fn hold_tables(&mut self, hold: TableHold) -> bool {
        self.hold(hold)
    }

    fn await_others(&mut self, until: Nanos) -> bool {
        self.await_all_others(until)
    }

    fn began_after(&mut self, epoch: Epoch) -> bool {
        self.entered_after(epoch)
    }

    fn all_began_after(&self, epoch: Epoch) -> bool {
        self.all_entered_after(epoch)
    }

    fn epoch_now(&self) -> Epoch {
        self.current_epoch()
    }

    fn commit_tables(&mut self, changes: &TableChanges) -> Result<(), Abort> {
        self.commit_altered(changes)
    }

    fn give_up_tables(&mut self) {
        self.give_up();
    }

    fn refuse(&mut self, what: &'static str) -> Result<(), Abort> {
        self.misuse(what)
    }

    fn enlists(&self) -> bool {
        S::ENLISTS
    }

    fn enlist(&mut self, fill: &mut dyn FnMut(&mut Routes)) {
        Transaction::enlist(self, fill);
    }

    fn work(&mut self, work: Work, units: u32) {
        P::work(self.session.core(), work, units);
    }
}
