//! The verbs over numbers, words and bytes.

use boundary::{AnyVerbs, RowVisitor, Savepoint, Span};
use concurrency::NewRows;
use platform::files::Files;
use platform::{Intent, Work};
use schema::{Routes, RowId};
use storage::tree::Direction;
use terms::Abort;

use super::Transaction;
use super::reading::mode;
use super::scanning::ScanKind;
use terms::rows::{KeyBounds, TableIndex};

impl<P: Files> AnyVerbs for Transaction<'_, '_, P> {
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowId>, Abort> {
        self.verb(|own| own.find_row(table, index, key, Some(mode(intent))))
    }

    fn find_constant(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        words: u64,
    ) -> Result<Option<RowId>, Abort> {
        self.verb(|own| {
            let is_constant = own.table(table)?.is_constant(words, own.is_loaded());
            let mode = (!is_constant).then(|| mode(Intent::Read));
            own.find_row(table, index, key, mode)
        })
    }

    fn find_unvalidated(&mut self, table: usize, index: usize, key: &[u64]) -> Result<Option<RowId>, Abort> {
        self.verb(|own| own.find_row(table, index, key, None))
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
        self.verb(|own| {
            let width = own.table(table)?.trees.get(index).map_or(0, |tree| tree.width);
            if width == 0 || !keys.len().is_multiple_of(width) {
                return Err(Abort::Misuse("a key of another length than those of the index"));
            }
            if index == 0 {
                return own.find_primaries(table, keys, mode(intent), ahead, found);
            }
            for key in keys.chunks_exact(width) {
                found.push(own.find_row(table, index, key, Some(mode(intent)))?);
            }
            Ok(())
        })
    }

    fn prefetch_key(&mut self, _: usize, _: usize, _: &[u64]) {}

    fn is_told(&self) -> bool {
        false
    }

    fn prefetch(&mut self, row: RowId, span: Span, _: Intent) {
        self.bring_closer(row, span);
    }

    fn read(&mut self, row: RowId, span: Span, out: &mut [u64]) -> Result<(), Abort> {
        self.verb(|own| own.read_words(row, span, out))
    }

    fn reads_apart(&self) -> bool {
        false
    }

    fn read_tail(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort> {
        self.verb(|own| own.read_tail_bytes(row, out))
    }

    fn write(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        self.verb(|own| own.write_bytes(row, offset, bytes))
    }

    fn write_tail(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort> {
        self.verb(|own| own.write_tail_bytes(row, bytes))
    }

    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        self.verb(|own| own.insert_row(table, keys, &mut [], fixed, tail))
    }

    fn insert_all(&mut self, table: usize, rows: NewRows<'_>) -> Result<(), Abort> {
        self.verb(|own| {
            let described = own.table(table)?;
            let width: usize = described.trees.iter().map(|tree| tree.width).sum();
            let bytes = described.fixed_words * 8;
            if rows.keys.len() != rows.count * width || rows.fixed.len() != rows.count * bytes {
                return Err(Abort::Misuse("rows or keys of another length than those of the table"));
            }
            let mut keys = Vec::with_capacity(described.trees.len());
            let mut behind: Vec<_> = described.trees.iter().map(|_| None).collect();
            for (mut words, fixed) in rows.keys.chunks_exact(width).zip(rows.fixed.chunks_exact(bytes)) {
                keys.clear();
                for tree in &described.trees {
                    let (key, others) = words.split_at(tree.width);
                    keys.push(key);
                    words = others;
                }
                own.insert_row(table, &keys, &mut behind, fixed, &[])?;
            }
            Ok(())
        })
    }

    fn insert_unindexed(&mut self, _: usize, _: &[&[u64]], _: &[u8], _: &[u8]) -> Result<(), Abort> {
        self.verb(|_| Err(Abort::Misuse("a row in no index has no place in a page")))
    }

    fn delete(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort> {
        self.verb(|own| own.delete_row(row, keys))
    }

    fn replace(
        &mut self,
        row: RowId,
        before: &[&[u64]],
        after: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        self.verb(|own| {
            if before == after {
                return own.replace_record(row, Some(fixed), tail);
            }
            let table = own.session.rows[own.number(row)?].table;
            own.delete_row(row, before)?;
            own.insert_row(table, after, &mut [], fixed, tail)
        })
    }

    fn scan(
        &mut self,
        table: usize,
        index: usize,
        KeyBounds { low, high }: KeyBounds<'_>,
        direction: Direction,
        intent: Intent,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        let range = KeyBounds { low, high };
        let kind = ScanKind::Reads(intent);
        self.verb(|own| own.scan_range(TableIndex { table, index }, range, direction, kind, visit))
    }

    fn scan_or_skip(
        &mut self,
        place: TableIndex,
        range: KeyBounds<'_>,
        direction: Direction,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        self.verb(|own| own.scan_range(place, range, direction, ScanKind::SkipsLocked, visit))
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

    fn refuse(&mut self, what: &'static str) -> Result<(), Abort> {
        self.verb(|_| Err(Abort::Misuse(what)))
    }

    fn enlists(&self) -> bool {
        false
    }

    fn enlist(&mut self, _: &mut dyn FnMut(&mut Routes)) {}

    fn work(&mut self, work: Work, units: u32) {
        P::work(self.core(), work, units);
    }
}
