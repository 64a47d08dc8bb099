//! A database of pages, as the engine's callers see databases.

use std::any::Any;
use std::collections::BTreeSet;

use boundary::{AnyDatabase, AnyPrepared, AnySession, Decision, Occupant, PartOf, RoamingSession, Traits};
use concurrency::{Content, TooManySessions};
use platform::files::Files;
use platform::{Address, Nanos, Node, OutOfMemory};
use redo_log::{LogError, LogUse};
use schema::TableDescription;
use storage::MemoryUse;
use storage::tree::Direction;
use terms::rows::KeyBounds;
use terms::{Abort, Epoch};

use crate::error::PagedError;
use crate::inspection::{TableTrees, check_trees};
use crate::key::KeyWords;
use crate::lsn::Lsn;
use crate::pool::PoolWorker;
use crate::rows::tables::Table;
use crate::session::PagesSession;
use crate::shared::SharedState;
use crate::tree::{EntryHint, NextKey, ReadAhead, Tree};

/// The name of its concurrency control.
pub const TWO_PHASE_LOCKING: &str = "2pl";

/// A database with rows in pages, under two-phase locking.
pub struct PagedDatabase<P: Files> {
    pub(crate) shared: SharedState<P>,
    pub(crate) descriptions: Vec<TableDescription>,
}

impl<P: Files> PagedDatabase<P> {
    fn begin_session(
        &self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<PagesSession<'_, P>, TooManySessions> {
        let (number, owner) = self.shared.begin_session(c)?;
        Ok(PagesSession::new(&self.shared, c, number, owner, node, measure))
    }

    /// The error that has stopped the database, if the database has stopped.
    pub fn failure(&self, c: P::Core) -> Option<PagedError> {
        self.shared.failure(c)
    }

    /// Checks that all pages are in their places, and all indexes agree with the rows, while no
    /// transaction runs. Returns descriptions of all faults.
    ///
    /// # Errors
    /// A page cannot be read.
    pub fn check(&self, c: P::Core) -> Result<Vec<String>, PagedError> {
        let mut worker = self.shared.pool.worker(c, 0);
        let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
        for (table, description) in self.shared.tables.iter().zip(&self.descriptions) {
            let Table { overflow, division, .. } = *table;
            let trees = TableTrees { indexes: table.trees.clone(), overflow, division };
            check_trees(&mut worker, &mut seen, description.name(), &trees, &mut wrong)?;
            let mut counts = Vec::new();
            for index in 0..table.trees.len() {
                let mut count = 0;
                self.visit_all(&mut worker, table, index, &mut |_, _| count += 1)?;
                counts.push(count);
            }
            if counts.iter().any(|count| *count != counts[0]) {
                wrong.push(format!("{}: its indexes lead to {counts:?} rows", description.name()));
            }
        }
        if self.shared.pool.log().is_some() {
            let states = (1..).zip(self.shared.pool.states());
            let lost = states.filter(|(number, state)| *state != 0 && !seen.contains(number));
            wrong.extend(lost.map(|(number, _)| format!("page {number} is in use, and in no tree")));
        }
        Ok(wrong)
    }

    /// Visits all rows, in the order of an index.
    fn visit_all(
        &self,
        worker: &mut PoolWorker<'_, P>,
        table: &Table,
        index: usize,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) -> Result<(), PagedError> {
        let width = table.trees[index].width;
        let (least, most) = (vec![0; width], vec![u64::MAX; width]);
        let low = table.trees[index].key(&least);
        self.visit(worker, table, index, KeyBounds { low, high: &most }, visit)
    }

    /// Visits the rows with keys in a range of an index.
    fn visit(
        &self,
        worker: &mut PoolWorker<'_, P>,
        table: &Table,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) -> Result<(), PagedError> {
        let c = worker.c;
        let tree = table.trees[index];
        let (mut from, mut after) = (KeyWords::of(range.low), false);
        let (mut record, mut ahead) = (Vec::new(), ReadAhead::default());
        loop {
            let mut cursor = tree.seek_up(worker, &from, after)?;
            cursor.read_ahead(worker, &mut ahead, Direction::Forward, range.high);
            loop {
                let entry = match cursor.above(c) {
                    None => break,
                    Some(Err(NextKey::End)) => return Ok(()),
                    Some(Err(NextKey::Key(fence))) => {
                        (from, after) = (fence, false);
                        ahead.crosses();
                        break;
                    }
                    Some(Ok(entry)) => entry,
                };
                if entry.key[..] > *range.high {
                    return Ok(());
                }
                (from, after) = (entry.key.clone(), true);
                cursor.place += 1;
                if entry.slot.is_ghost() {
                    continue;
                }
                let mut key = entry.key.clone();
                if index > 0 {
                    let mut words = Vec::new();
                    copy_record(&tree, worker, &entry.key, Some(entry.hint), &mut words)?;
                    key = KeyWords::of(&words);
                }
                let hint = (index == 0).then_some(entry.hint);
                let found = copy_record(&table.trees[0], worker, &key, hint, &mut record)?;
                if let Some(tail_bytes) = found {
                    copy_pieces(table, worker, &key, tail_bytes, &mut record)?;
                    let (fixed, tail) = record.split_at(table.fixed_words);
                    visit(fixed, &bytemuck::cast_slice(tail)[..tail_bytes]);
                }
            }
        }
    }
}

/// Copies a record; the bytes of its tail, if there is one with the key.
fn copy_record<P: Files>(
    tree: &Tree,
    worker: &mut PoolWorker<'_, P>,
    key: &[u64],
    hint: Option<EntryHint>,
    out: &mut Vec<u64>,
) -> Result<Option<usize>, PagedError> {
    let c = worker.c;
    let read = tree.read(worker, key, hint, |page, slot| {
        out.resize(slot.record_words(), 0);
        page.record(slot, 0, slot.record_words()).map(|words| P::read_words(c, words, out)).is_some()
    })?;
    Ok(read.map(|hint| hint.slot().tail_bytes()))
}

/// Completes a row of which `row` has the record.
fn copy_pieces<P: Files>(
    table: &Table,
    worker: &mut PoolWorker<'_, P>,
    key: &[u64],
    tail_bytes: usize,
    row: &mut Vec<u64>,
) -> Result<(), PagedError> {
    let words = table.division.row_words(tail_bytes);
    let mut piece = Vec::new();
    for number in 0..table.division.pieces(words) {
        let key = table.division.piece_key(key, number);
        let read =
            table.overflow.map(|tree| copy_record(&tree, worker, &key, None, &mut piece)).transpose()?;
        if read.flatten().is_none() || piece.len() != table.division.piece_words(words, number) {
            let table = table.trees[0].number;
            return Err(PagedError::LostPiece { tree: table, piece: number });
        }
        row.extend_from_slice(&piece);
    }
    Ok(())
}

impl<P: Files> AnyDatabase<P> for PagedDatabase<P> {
    fn traits(&self) -> Traits {
        let (name, strict, branches) = (TWO_PHASE_LOCKING, true, true);
        Traits { name, strict, snapshots: false, locks_partitions: false, branches }
    }

    fn tables(&self) -> &[TableDescription] {
        &self.descriptions
    }

    fn session<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Box<dyn AnySession<'d> + 'd>, TooManySessions> {
        Ok(Box::new(self.begin_session(c, node, measure)?))
    }

    fn session_to_send<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Box<dyn AnySession<'d> + Send + 'd>, TooManySessions>
    where
        P::Core: Send,
    {
        Ok(Box::new(self.begin_session(c, node, measure)?))
    }

    fn roaming_session<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Option<Result<Box<dyn RoamingSession<'d> + 'd>, TooManySessions>>
    where
        P::Core: Send,
    {
        let session = self.begin_session(c, node, measure);
        Some(session.map(|session| Box::new(session) as Box<dyn RoamingSession<'d> + 'd>))
    }

    fn is_durable(&self, c: P::Core, outcome: Epoch) -> bool {
        self.shared.pool.log().is_none_or(|log| log.buffer.durable(c) >= Lsn(outcome.0))
    }

    fn wait_durable_until(&self, c: P::Core, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        match self.shared.pool.log() {
            Some(log) => Ok(log.wait(c, Lsn(outcome.0), deadline)?),
            None => Ok(true),
        }
    }

    fn durable_with(&self, c: P::Core) -> Option<Epoch> {
        self.shared.pool.log().map(|log| Epoch(log.buffer.end(c).0))
    }

    fn loaded(&mut self, _: P::Core) -> Result<(), OutOfMemory> {
        self.shared.is_loaded = true;
        Ok(())
    }

    fn settle(&self, _: P::Core) {}

    fn memory_bytes(&self, _: P::Core) -> u64 {
        self.shared.pool.bytes()
    }

    fn memory_use(&self, c: P::Core) -> MemoryUse {
        self.shared.pool.memory_use(c)
    }

    fn content(&self, c: P::Core) -> Content {
        let mut worker = self.shared.pool.worker(c, 0);
        let mut content = Content::default();
        for table in &self.shared.tables {
            let width = table.trees[0].width;
            // A key and the word beside it; the other trees have primary keys as records.
            let words = |(number, tree): (usize, &Tree)| tree.width + 1 + if number == 0 { 0 } else { width };
            let entries = 8 * table.trees.iter().enumerate().map(words).sum::<usize>() as u64;
            let visited = self.visit_all(&mut worker, table, 0, &mut |fixed, tail| {
                content.row_bytes += (8 * fixed.len() + tail.len()) as u64;
                content.entry_bytes += entries;
            });
            if let Err(error) = visited {
                self.shared.fail(c, error);
            }
        }
        content
    }

    fn log_used(&self, c: P::Core) -> Option<LogUse> {
        self.shared.pool.log().map(|log| log.used(c))
    }

    fn occupants(&self, _: P::Core, lines: &[Address]) -> Vec<Option<Occupant>> {
        vec![None; lines.len()]
    }

    fn inspect(
        &self,
        c: P::Core,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) {
        let Some(table) = self.shared.tables.get(table).filter(|table| index < table.trees.len()) else {
            return;
        };
        let mut worker = self.shared.pool.worker(c, 0);
        if let Err(error) = self.visit(&mut worker, table, index, range, visit) {
            self.shared.fail(c, error);
        }
    }

    fn in_doubt(&self, c: P::Core) -> Vec<(PartOf, AnyPrepared<'_>)> {
        let found = self.shared.in_doubt.with(c, std::mem::take);
        let any = |kept| AnyPrepared::new(Box::new(kept), self.shared.address());
        found.into_iter().map(|(part, kept)| (part, any(kept))).collect()
    }

    fn decisions(&self, c: P::Core) -> Vec<Decision> {
        let checkpoints = self.shared.checkpoints.as_ref();
        checkpoints.map_or(Vec::new(), |checkpoints| checkpoints.undecided.decisions(c))
    }

    fn close(self: Box<Self>, c: P::Core) -> Result<(), LogError> {
        self.shared.checkpoint(c).map(drop)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
