//! A transaction while a table gets another form: its verbs, which note what it changes, so that it
//! can say the same of both forms.

use boundary::{AnyVerbs, RowVisitor, Savepoint, Span};
use concurrency::{NewRows, Scheme};
use platform::{Intent, Platform, Work};
use schema::{Routes, RowId};
use storage::tree::Direction;
use terms::rows::KeyBounds;
use terms::{Abort, Conflict};

use crate::tables::conversion::{Conversion, Reads};
use crate::transaction::Transaction;

/// The error of a verb on the form that a table has no more.
const GONE: &str = "the table has other rows by now: ask the database for the table again";
const UNINDEXED: &str = "a row without indexes is not inserted while its table changes";

/// A transaction, or a borrowed one, whose verbs are called.
pub(crate) trait HasVerbs {
    fn verbs(&mut self) -> &mut (dyn AnyVerbs + '_);
}

impl HasVerbs for &mut (dyn AnyVerbs + '_) {
    fn verbs(&mut self) -> &mut (dyn AnyVerbs + '_) {
        &mut **self
    }
}

impl<P: Platform, S: Scheme<P>> HasVerbs for Transaction<'_, '_, P, S> {
    fn verbs(&mut self) -> &mut (dyn AnyVerbs + '_) {
        self
    }
}

/// A transaction that reads one form of a table.
pub(crate) struct Following<'c, V> {
    pub(crate) inner: V,
    conversion: &'c Conversion,
    reads: Reads,
    /// Primary keys of rows that have changed, one behind the other.
    changed: Vec<u64>,
    /// Why the transaction cannot commit, of what its verbs know nothing.
    failed: Option<Abort>,
}

impl<'c, V: HasVerbs> Following<'c, V> {
    pub(crate) fn new(inner: V, conversion: &'c Conversion, reads: Reads) -> Self {
        Following { inner, conversion, reads, changed: Vec::new(), failed: None }
    }

    /// The last step before the commit: has the other form say the same, if both are kept still.
    /// The transaction may have been refused on the way.
    pub(crate) fn bring_along(&mut self, keeps_both: bool) -> Result<(), Abort> {
        self.check_failed()?;
        if !keeps_both {
            return Ok(());
        }
        let mut keys: Vec<&[u64]> = self.changed.chunks_exact(self.conversion.key_words).collect();
        keys.sort_unstable();
        keys.dedup();
        let verbs = self.inner.verbs();
        keys.into_iter().try_for_each(|key| self.conversion.carry(verbs, self.reads, key))
    }

    pub(crate) fn conversion(&self) -> &'c Conversion {
        self.conversion
    }

    fn check_failed(&self) -> Result<(), Abort> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Refuses the form that transactions like this one do not use. A transaction that began before
    /// the forms changed tries again.
    fn check(&mut self, table: usize) -> Result<(), Abort> {
        if table != self.conversion.tables(self.reads).1 {
            return self.check_failed();
        }
        let abort = match self.reads {
            Reads::Before => Abort::Conflict(Conflict::ReadChanged),
            Reads::After => Abort::Misuse(GONE),
        };
        Err(self.failed.get_or_insert(abort).clone())
    }

    fn is_watched(&self, table: usize) -> bool {
        table == self.conversion.tables(self.reads).0
    }

    fn note(&mut self, table: usize, key: Option<&&[u64]>) {
        if let (true, Some(key)) = (self.is_watched(table), key) {
            let end = self.changed.len() + self.conversion.key_words;
            self.changed.extend_from_slice(key);
            self.changed.resize(end, 0);
        }
    }

    /// Notes that bytes of a row have changed which belong to no key.
    fn note_row(&mut self, row: RowId) -> Result<(), Abort> {
        let verbs = self.inner.verbs();
        let table = verbs.table_of(row)?;
        if table == self.conversion.tables(self.reads).0 {
            let key = self.conversion.key_of(verbs, self.reads, row)?;
            key.append_words(self.conversion.key_words, &mut self.changed);
        }
        Ok(())
    }
}

impl<V: HasVerbs> AnyVerbs for Following<'_, V> {
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowId>, Abort> {
        self.check(table)?;
        self.inner.verbs().find(table, index, key, intent)
    }

    fn find_constant(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        words: u64,
    ) -> Result<Option<RowId>, Abort> {
        self.check(table)?;
        self.inner.verbs().find_constant(table, index, key, words)
    }

    fn find_unvalidated(&mut self, table: usize, index: usize, key: &[u64]) -> Result<Option<RowId>, Abort> {
        self.check(table)?;
        self.inner.verbs().find_unvalidated(table, index, key)
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
        self.check(table)?;
        self.inner.verbs().find_prefetched(table, index, keys, intent, ahead, found)
    }

    fn prefetch_key(&mut self, table: usize, index: usize, key: &[u64]) {
        self.inner.verbs().prefetch_key(table, index, key);
    }

    fn is_told(&self) -> bool {
        false
    }

    fn prefetch(&mut self, row: RowId, span: Span, intent: Intent) {
        self.inner.verbs().prefetch(row, span, intent);
    }

    fn read(&mut self, row: RowId, span: Span, out: &mut [u64]) -> Result<(), Abort> {
        self.inner.verbs().read(row, span, out)
    }

    fn reads_apart(&self) -> bool {
        false
    }

    fn read_tail(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort> {
        self.inner.verbs().read_tail(row, out)
    }

    fn write(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort> {
        self.inner.verbs().write(row, offset, bytes)?;
        self.note_row(row)
    }

    fn write_tail(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort> {
        self.inner.verbs().write_tail(row, bytes)?;
        self.note_row(row)
    }

    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        self.check(table)?;
        self.inner.verbs().insert(table, keys, fixed, tail)?;
        self.note(table, keys.first());
        Ok(())
    }

    fn insert_all(&mut self, table: usize, rows: NewRows<'_>) -> Result<(), Abort> {
        self.check(table)?;
        let keys = rows.keys;
        self.inner.verbs().insert_all(table, rows)?;
        if self.is_watched(table) {
            let (stride, words) = (self.conversion.key_stride(self.reads), self.conversion.key_words);
            keys.chunks_exact(stride).for_each(|keys| self.changed.extend_from_slice(&keys[..words]));
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
        self.check(table)?;
        match self.is_watched(table) {
            true => self.refuse(UNINDEXED),
            false => self.inner.verbs().insert_unindexed(table, keys, fixed, tail),
        }
    }

    fn delete(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort> {
        let verbs = self.inner.verbs();
        let table = verbs.table_of(row)?;
        verbs.delete(row, keys)?;
        self.note(table, keys.first());
        Ok(())
    }

    fn replace(
        &mut self,
        row: RowId,
        before: &[&[u64]],
        after: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let verbs = self.inner.verbs();
        let table = verbs.table_of(row)?;
        verbs.replace(row, before, after, fixed, tail)?;
        self.note(table, before.first());
        self.note(table, after.first());
        Ok(())
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
        self.check(table)?;
        let (conversion, reads) = (self.conversion, self.reads);
        let (changed, failed) = (&mut self.changed, &mut self.failed);
        let mut followed = |verbs: &mut dyn AnyVerbs, row: RowId| {
            let mut inside = Following {
                inner: verbs,
                conversion,
                reads,
                changed: std::mem::take(changed),
                failed: failed.take(),
            };
            let visited = visit(&mut inside, row);
            (*changed, *failed) = (inside.changed, inside.failed);
            visited
        };
        self.inner.verbs().scan(table, index, range, direction, intent, &mut followed)
    }

    fn savepoint(&mut self) -> Result<Savepoint, Abort> {
        self.check_failed()?;
        self.inner.verbs().savepoint()
    }

    /// Keys that have changed since stay noted: the other form says of them what this one does.
    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        self.failed.take_if(|failed| failed.ends_at_savepoint());
        self.check_failed()?;
        self.inner.verbs().roll_back_to(savepoint)
    }

    fn release(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        self.check_failed()?;
        self.inner.verbs().release(savepoint)
    }

    fn table_of(&mut self, row: RowId) -> Result<usize, Abort> {
        self.inner.verbs().table_of(row)
    }

    fn keeps_form(&self, table: usize) -> bool {
        self.reads == Reads::Before && table == self.conversion.before()
    }

    fn refuse(&mut self, what: &'static str) -> Result<(), Abort> {
        self.inner.verbs().refuse(what)
    }

    fn enlists(&self) -> bool {
        false
    }

    fn enlist(&mut self, fill: &mut dyn FnMut(&mut Routes)) {
        self.inner.verbs().enlist(fill);
    }

    fn work(&mut self, work: Work, units: u32) {
        self.inner.verbs().work(work, units);
    }
}
