//! Looking at a whole instance, for checks and reports: its rows, and where everything lies.
//!
//! Inspection is meant for times at which no transaction runs, but does not rely on that: the
//! inspecting thread is inside an epoch, so that what indexes name is not reused meanwhile.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use platform::Platform;
use storage::tree::Direction;
use storage::{Index, IndexPart, RecordRef, Table};
use terms::rows::KeyBounds;

use super::Instance;
use crate::scheme::{Filling, Parts};

impl<P: Platform, S: Filling<P>> Instance<P, S> {
    /// Enters an epoch for as long as the result lives: what indexes name meanwhile is not reused.
    /// All threads that inspect the instance at a time share one worker.
    fn pin(&self, c: P::Core) -> Pin<'_, P, S> {
        self.workers.with(c, |pool| {
            let pinned = pool.pinned.take().unwrap_or_else(|| {
                let any = pool.idle.pop().or_else(|| self.take_idle(pool, None, self.sessions_max + 1));
                // Sessions leave one worker to this and to `with_local`, whose callers have the
                // instance to themselves.
                let mut worker = any.expect("one is always left");
                worker.local.enter(c);
                (worker, 0)
            });
            pool.pinned = Some((pinned.0, pinned.1 + 1));
        });
        Pin { instance: self, c }
    }

    /// Visits words and tail of all rows of a table, in the order of index `index` if it has one.
    /// It is meant for times at which no transaction runs: what those change meanwhile is shown as
    /// it was, as it is, or half of each, but never the row of another table, nor what is no row
    /// any more.
    pub fn inspect(
        &self,
        c: P::Core,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) {
        let _pin = self.pin(c);
        let schema = &self.tables(c, None)[table];
        let mut words = vec![0; schema.row_words as usize];
        let mut tail = Vec::new();
        let mut show = |bits: u64| {
            // SAFETY: read from an index of this table in the epoch of the pin.
            let row = unsafe { RecordRef::<P, S::Header>::from_bits(bits, schema.row_words) };
            if !S::is_present(c, row.header()) {
                return;
            }
            P::read_words(c, row.words(), &mut words);
            tail.clear();
            if schema.has_tail {
                // Acquire: pairs with the release fence with which a tail is made.
                P::fence(c, Ordering::Acquire);
                // SAFETY: the row's last word. It pointed to one of the row's tails in the epoch of
                // the pin, in which replaced tails are not reused.
                unsafe { storage::record::tail::read::<P>(c, words.last().copied().unwrap_or(0), &mut tail) };
            }
            visit(&words, &tail);
        };
        for partition in schema.indexes[index].partitions(range.low, range.high, Direction::Forward) {
            if partition.is_hash() {
                partition.for_each(c, &mut show);
            } else {
                partition.scan(c, range, Direction::Forward, false, &mut |seen| {
                    seen.values.iter().for_each(|bits| show(*bits));
                    ControlFlow::Continue(())
                });
            }
        }
    }
}

/// The structure at an address, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A row of the table with this number.
    Row(usize),
    /// A part of an index: numbers of table and index, of which 0 is the primary key.
    Index(usize, usize, IndexPart),
}

/// Bytes of rows and index entries themselves, without anything around them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Headers and words of rows.
    pub row_bytes: u64,
    /// Keys and values in indexes.
    pub entry_bytes: u64,
}

impl Content {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Content) -> Self {
        Content {
            row_bytes: self.row_bytes + other.row_bytes,
            entry_bytes: self.entry_bytes + other.entry_bytes,
        }
    }
}

impl<P: Platform, S: Filling<P>> Instance<P, S> {
    /// Shows where rows and parts of indexes lie, copies included. As [`Self::inspect`], it is
    /// meant for times at which no transaction runs.
    pub fn visit_structures(&self, c: P::Core, visit: &mut dyn FnMut(Structure, *const u8, usize)) {
        let _pin = self.pin(c);
        for (number, catalog) in self.catalogs.iter().enumerate() {
            let tables = catalog.tables.get(c).iter().zip(self.catalogs[0].tables.get(c));
            for (table_number, (table, first)) in tables.enumerate() {
                // A table has copies of all its partitions, or of none.
                let is_new = number == 0
                    || table.indexes.iter().zip(&first.indexes).any(|(index, first)| !is_same(index, first));
                for (index_number, index) in table.indexes.iter().enumerate() {
                    let mut show = |part, at, bytes| {
                        visit(Structure::Index(table_number, index_number, part), at, bytes);
                    };
                    let partitions = index.all_partitions();
                    show(IndexPart::Descriptors, partitions.as_ptr().cast(), size_of_val(partitions));
                    if is_new {
                        partitions.iter().for_each(|partition| partition.visit_parts(c, &mut show));
                    }
                }
                if is_new {
                    let bytes = RecordRef::<P, S::Header>::bytes(table.row_words);
                    self.for_each_row(c, table, &mut |row| {
                        visit(Structure::Row(table_number), row.start(), bytes)
                    });
                }
            }
        }
    }

    /// Bytes of rows and index entries themselves, but for rows' variable-length parts,
    /// and for tables whose keys are dense, which never grow. No transaction runs.
    pub fn content(&self, c: P::Core) -> Content {
        let _pin = self.pin(c);
        let mut content = Content::default();
        for table in self.tables(c, None) {
            let mut rows = None;
            for index in &table.indexes {
                let partitions = index.all_partitions().iter();
                let entries: Option<u64> = partitions.map(|partition| partition.entries(c)).sum();
                content.entry_bytes += entries.unwrap_or(0) * (index.words as u64 + 1) * 8;
                rows = rows.or(Some(entries.unwrap_or(0)));
            }
            content.row_bytes += rows.unwrap_or(0) * RecordRef::<P, S::Header>::bytes(table.row_words) as u64;
        }
        content
    }

    /// All rows that a table's primary key names. The visitor keeps none of them.
    pub(super) fn for_each_row(
        &self,
        c: P::Core,
        table: &Table<P>,
        visit: &mut dyn FnMut(RecordRef<P, S::Header>),
    ) {
        let Some(primary) = table.indexes.first() else { return };
        let _pin = self.pin(c);
        // SAFETY: read from an index of this table in the epoch of the pin.
        let mut show = |bits: u64| visit(unsafe { RecordRef::from_bits(bits, table.row_words) });
        for partition in primary.all_partitions() {
            if partition.is_hash() {
                partition.for_each(c, &mut show);
            } else {
                let (low, high) = (vec![0; primary.words], vec![u64::MAX; primary.words]);
                let all = KeyBounds { low: &low, high: &high };
                partition.scan(c, all, Direction::Forward, false, &mut |seen| {
                    seen.values.iter().for_each(|bits| show(*bits));
                    ControlFlow::Continue(())
                });
            }
        }
    }
}

/// Keeps what the instance's indexes name from being reused.
struct Pin<'i, P: Platform, S: Parts<P>> {
    instance: &'i Instance<P, S>,
    c: P::Core,
}

impl<P: Platform, S: Parts<P>> Drop for Pin<'_, P, S> {
    fn drop(&mut self) {
        let c = self.c;
        if P::is_gone(c) {
            return;
        }
        self.instance.workers.with(c, |pool| match pool.pinned.take() {
            Some((mut worker, 1)) => {
                worker.local.leave(c);
                pool.idle.push(worker);
            }
            Some((worker, users)) => pool.pinned = Some((worker, users - 1)),
            None => unreachable!("there is a pin"),
        });
    }
}

fn is_same<P: Platform>(one: &Index<P>, other: &Index<P>) -> bool {
    let (one, other) = (one.all_partitions(), other.all_partitions());
    one.iter().zip(other).all(|(one, other)| one.is_same(other))
}
