//! Lookups and reads.

use boundary::Span;
use platform::files::Files;
use platform::{Code, Intent, Work};
use schema::RowId;
use terms::{Abort, Category, Conflict, Fault};

use super::Transaction;
use crate::context::{Context, FoundRow};
use crate::key::{KeyWords, Words, is_long};
use crate::locks::LockMode;
use crate::page::{Page, Slot, WordSpan};
use crate::tree::{EntryHint, Tree};

/// The lock mode of a row that is found for this intent.
pub(super) fn mode(intent: Intent) -> LockMode {
    match intent {
        Intent::Read => LockMode::Share,
        Intent::Write => LockMode::Exclude,
    }
}

/// The words that bytes of a row lie in.
fn words_of(span: Span) -> WordSpan {
    WordSpan { first: span.offset / 8, count: span.words() }
}

impl<P: Files> Transaction<'_, '_, P> {
    /// Finds a key; with a mode, its row is locked in it.
    #[inline]
    pub(super) fn find_row(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        mode: Option<LockMode>,
    ) -> Result<Option<RowId>, Abort> {
        P::code(self.core(), Code::Table(table));
        P::code(self.core(), Code::PagesFind);
        let described = self.used_table(table)?;
        let (tree, key) = described.tree(index, key)?;
        let mode = mode.filter(|_| !(described.read_only && self.is_loaded()));
        let primary = if index == 0 {
            KeyWords::of(key)
        } else {
            if mode.is_some() {
                self.lock_key(table, tree, key, LockMode::Share)?;
            }
            match self.primary_key(tree, key, None, described.trees[0].width)? {
                None => return Ok(None),
                Some(found) => found,
            }
        };
        self.find_primary(table, primary, mode)
    }

    /// The primary key that an index has for a key, if it has the key.
    pub(super) fn primary_key(
        &mut self,
        tree: Tree,
        key: &[u64],
        hint: Option<EntryHint>,
        width: usize,
    ) -> Result<Option<KeyWords>, Abort> {
        let c = self.core();
        self.session.search_tree(1, self.session.paths().lookup);
        let mut words = Words::zero(width);
        let mut count = width;
        let before = self.session.worker.meter.enter::<P>(c, Category::Index);
        let found = tree.read(&mut self.session.worker, key, hint, |page, slot| {
            if is_long(width) {
                count = slot.record_words().min(width);
            }
            let to = &mut words[..count];
            page.record(slot, 0, count).map(|record| P::read_words(c, record, to)).is_some()
        });
        self.session.worker.meter.leave::<P>(c, before);
        Ok(found?.map(|_| KeyWords::of(&words[..count])))
    }

    /// Finds a primary key.
    #[inline]
    pub(super) fn find_primary(
        &mut self,
        table: usize,
        key: KeyWords,
        mode: Option<LockMode>,
    ) -> Result<Option<RowId>, Abort> {
        let c = self.core();
        let tree = self.table(table)?.trees[0];
        if let Some(mode) = mode {
            let mode = self.session.owner.locks.in_one_step(table, mode);
            self.lock_key(table, tree, &key, mode)?;
        }
        let before = self.session.worker.meter.enter::<P>(c, Category::Index);
        self.session.search_tree(1, self.session.paths().lookup);
        let entry = tree.find(&mut self.session.worker, &key);
        self.session.worker.meter.leave::<P>(c, before);
        let entry = entry?;
        Ok(entry.hint().map(|hint| self.add_row(table, key, hint, mode.is_some())))
    }

    /// Finds primary keys; their rows are locked in the mode, unless the table never changes.
    /// `ahead` names the words that will be read of them.
    pub(super) fn find_primaries(
        &mut self,
        number: usize,
        keys: &[u64],
        mode: LockMode,
        ahead: Option<Span>,
        found: &mut Vec<Option<RowId>>,
    ) -> Result<(), Abort> {
        P::code(self.core(), Code::Table(number));
        P::code(self.core(), Code::PagesFind);
        let table = self.used_table(number)?;
        let tree = table.trees[0];
        let is_locked = !(table.read_only && self.is_loaded());
        if is_locked {
            let mode = self.session.owner.locks.in_one_step(number, mode);
            for key in keys.chunks_exact(tree.width) {
                self.lock_key(number, tree, tree.key(key), mode)?;
            }
        }
        let c = self.core();
        let words = ahead.map_or(WordSpan::default(), words_of);
        let is_locked = is_locked && !self.session.shared.faults.has(Fault::UnlockedReads);
        let before = self.session.worker.meter.enter::<P>(c, Category::Index);
        self.session.search_tree(keys.len() / tree.width, self.session.paths().lookup);
        let Context { worker, rows, leaves, attempt, .. } = &mut *self.session;
        let first = found.len();
        let outcome =
            tree.find_each(worker, keys, words, leaves, |key, entry| {
                found.push(entry.hint().map(|hint| {
                    FoundRow::of(number, KeyWords::of(key), hint, is_locked).enter(rows, *attempt)
                }));
            });
        P::work(c, Work::Access, found[first..].iter().flatten().count() as u32);
        self.session.worker.meter.leave::<P>(c, before);
        Ok(outcome?)
    }

    /// Prefetches words of a row.
    pub(super) fn bring_closer(&mut self, row: RowId, span: Span) {
        let Some(row) =
            row.number_in(self.session.attempt).and_then(|row| self.session.rows.get(row as usize))
        else {
            return;
        };
        if let (Some(hint), Some(table)) = (row.hint, self.session.shared.tables.get(row.table)) {
            table.trees[0].prefetch(&self.session.worker, hint, words_of(span));
        }
    }

    /// Copies words of a row's fixed part.
    #[inline]
    pub(super) fn read_words(&mut self, row: RowId, span: Span, out: &mut [u64]) -> Result<(), Abort> {
        let number = self.number(row)?;
        let is_odd = out.len() != span.words() || span.offset.checked_add(span.bytes).is_none();
        if is_odd {
            return Err(Abort::Misuse("room for another number of words than the bytes lie in"));
        }
        P::code(self.core(), Code::PagesRead);
        let first = span.offset / 8;
        self.table(self.session.rows[number].table)?.check_read(first, out.len())?;
        // The words are copied once into the buffer, and once out of the buffer.
        P::work(self.core(), Work::CopyWord, 2 * out.len() as u32);
        self.read_at(number, first, out)
    }

    /// Copies words of a row's fixed part, which has them.
    #[inline]
    pub(super) fn read_at(&mut self, number: usize, first: usize, out: &mut [u64]) -> Result<(), Abort> {
        let near = self.table(self.session.rows[number].table)?.division.near_fixed();
        if first + out.len() <= near {
            return self.read_near(number, first, out);
        }
        self.hold_pieces(number)?;
        let (in_record, others) = out.split_at_mut(near.saturating_sub(first));
        self.read_near(number, first.min(near), in_record)?;
        self.read_pieces(number, first.saturating_sub(near), others)
    }

    /// Copies words of a row's record.
    #[inline]
    fn read_near(&mut self, number: usize, first: usize, out: &mut [u64]) -> Result<(), Abort> {
        let c = self.core();
        self.with_record(number, |page, slot| {
            page.record(slot, first, out.len()).map(|words| P::read_words(c, words, out)).is_some()
        })
    }

    /// Appends a row's tail.
    pub(super) fn read_tail_bytes(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort> {
        let (c, number) = (self.core(), self.number(row)?);
        let table = self.table(self.session.rows[number].table)?;
        table.check_tail()?;
        let mut words = Vec::new();
        let (mut bytes, mut is_near) = (0, true);
        // Once more, if it is long, with the row held: it may be another one by then.
        for _ in 0..2 {
            self.with_record(number, |page, slot| {
                bytes = slot.tail_bytes();
                is_near = slot.record_words() >= table.division.row_words(bytes);
                if !is_near {
                    return true;
                }
                words.resize(bytes.div_ceil(8), 0);
                let record = page.record(slot, table.fixed_words, words.len());
                record.map(|record| P::read_words(c, record, &mut words)).is_some()
            })?;
            if is_near {
                break;
            }
            self.hold_pieces(number)?;
        }
        if !is_near {
            words.resize(bytes.div_ceil(8), 0);
            P::work(c, Work::CopyWord, words.len() as u32);
            self.read_pieces(number, table.fixed_words - table.division.near_fixed(), &mut words)?;
        }
        out.extend_from_slice(&bytemuck::cast_slice(&words)[..bytes]);
        Ok(())
    }

    /// A row that was found is not there any more.
    #[cold]
    pub(super) fn missing(&self, number: usize) -> Abort {
        if self.session.rows[number].is_locked {
            return Abort::Storage("a row that is locked is not in its page any more".to_owned());
        }
        Abort::Conflict(Conflict::ReadChanged)
    }

    /// Copies something of a row's record.
    #[inline]
    pub(super) fn with_record(
        &mut self,
        number: usize,
        copy: impl FnMut(Page<'_, P>, Slot) -> bool,
    ) -> Result<(), Abort> {
        let row = &self.session.rows[number];
        let (key, hint) = (row.key.clone(), row.hint);
        let tree = self.table(row.table)?.trees[0];
        match tree.read(&mut self.session.worker, &key, hint, copy)? {
            Some(hint) => {
                self.session.rows[number].hint = Some(hint);
                Ok(())
            }
            None => Err(self.missing(number)),
        }
    }
}
