//! Scans: each row of the range is locked, and each gap, before it counts.
//!
//! A lock is named by what the leaf showed, so the leaf is validated when the lock is granted; if
//! it has changed, the scan resumes from the last row that it has visited. A visitor may also
//! change rows: those are changes like any other.
//!
//! A scan that skips rows that others have locked waits for no lock and locks no gap: what it has
//! not visited counts as not read.

use boundary::{AnyVerbs, RowVisitor};
use platform::files::Files;
use platform::{Code, Intent, Work};
use schema::RowId;
use storage::tree::Direction;
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Category, Fault};

use super::reading::mode;
use super::{Transaction, gap};
use crate::key::KeyWords;
use crate::locks::{LockMode, LockPlace, name};
use crate::page::WordSpan;
use crate::tree::{AdjacentEntry, Cursor, NextKey, ReadAhead, Tree};

/// Entries that a scan prefetches ahead of its position: lists of locks lie anywhere, and records
/// anywhere in their leaf.
const AHEAD: usize = 4;
/// Words of records that are prefetched.
const WORDS_AHEAD: usize = 32;

/// The purpose of a scan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanKind {
    /// All rows are visited, for this intent.
    Reads(Intent),
    /// To lock rows exclusively, and to skip those that are not free.
    SkipsLocked,
}

/// Parameters of a scan.
#[derive(Clone, Copy)]
pub(super) struct Scan<'k> {
    pub table: usize,
    pub index: usize,
    pub range: KeyBounds<'k>,
    pub kind: ScanKind,
    /// True if the scan locks.
    locks: bool,
}

impl Scan<'_> {
    fn locks_gaps(&self) -> bool {
        self.locks && self.kind != ScanKind::SkipsLocked
    }

    fn mode(&self) -> LockMode {
        match self.kind {
            ScanKind::Reads(intent) => mode(intent),
            ScanKind::SkipsLocked => LockMode::Exclude,
        }
    }
}

/// Outcome of a step.
enum ScanStep {
    /// The leaf has changed: find it again.
    Again,
    /// There is a row, or a ghost.
    Row(Option<RowId>),
}

impl<P: Files> Transaction<'_, '_, P> {
    /// Visits the rows in a range.
    pub(super) fn scan_range(
        &mut self,
        TableIndex { table, index }: TableIndex,
        range: KeyBounds<'_>,
        direction: Direction,
        kind: ScanKind,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        let KeyBounds { low, high } = range;
        P::code(self.core(), Code::Table(table));
        P::code(self.core(), Code::PagesScan);
        let described = self.used_table(table)?;
        self.session.search_tree(1, self.session.paths().scan);
        let (tree, low) = described.tree(index, low)?;
        let (_, high) = described.tree(index, high)?;
        let range = KeyBounds { low, high };
        if low > high {
            return Ok(());
        }
        let locks = !(described.read_only && self.is_loaded());
        let scan = Scan { table, index, range, kind, locks };
        let is_whole = low.iter().all(|word| *word == 0) && high.iter().all(|word| *word == u64::MAX);
        if scan.locks_gaps() && is_whole {
            self.session.owner.locks.expect_whole(table);
        }
        let scanned = match direction {
            Direction::Forward => self.scan_up(tree, scan, visit),
            Direction::Reverse => self.scan_down(tree, scan, visit),
        };
        self.session.worker.end_read_ahead();
        scanned
    }

    /// The entry above the cursor, with the gap below it locked if the scan locks; `None` if the
    /// leaf has changed.
    fn lock_above(
        &mut self,
        tree: Tree,
        scan: Scan<'_>,
        cursor: &Cursor<'_, P>,
    ) -> Result<Option<Result<AdjacentEntry, NextKey>>, Abort> {
        let c = self.core();
        let Some(above) = cursor.above(c) else { return Ok(None) };
        if scan.locks_gaps() {
            let (place, key) = match &above {
                Ok(entry) => (LockPlace::GapBelow, &entry.key[..]),
                Err(bound) => gap(bound),
            };
            self.lock_gap(scan.table, tree, place, key)?;
            if !cursor.is_current(c) {
                return Ok(None);
            }
        }
        Ok(Some(above))
    }

    /// Prefetches the memory that the scan needs of a later entry.
    #[inline]
    fn prefetch_entry(&self, tree: Tree, scan: Scan<'_>, cursor: &Cursor<'_, P>, place: Option<usize>) {
        let c = self.core();
        let Some((key, slot)) = place.and_then(|place| cursor.guess(c, place)) else { return };
        if scan.index == 0 {
            cursor.prefetch_record(c, slot, WordSpan { first: 0, count: WORDS_AHEAD });
        }
        if scan.locks && !self.session.owner.locks.locks_nothing() {
            P::work(c, Work::Hash, 2 * (key.len() as u32 + 1));
            for place in [LockPlace::GapBelow, LockPlace::Key] {
                self.session.shared.locks.prefetch(c, name(tree.number, place, &key));
            }
        }
    }

    fn scan_up(&mut self, tree: Tree, scan: Scan<'_>, visit: &mut RowVisitor<'_>) -> Result<(), Abort> {
        let c = self.core();
        let (mut from, mut after) = (KeyWords::of(scan.range.low), false);
        let mut ahead = ReadAhead::default();
        loop {
            let before = self.session.worker.meter.enter::<P>(c, Category::Index);
            let cursor = tree.seek_up(&mut self.session.worker, &from, after);
            self.session.worker.meter.leave::<P>(c, before);
            let mut cursor = cursor?;
            cursor.read_ahead(&mut self.session.worker, &mut ahead, Direction::Forward, scan.range.high);
            (0..AHEAD)
                .for_each(|step| self.prefetch_entry(tree, scan, &cursor, cursor.place.checked_add(step)));
            while let Some(above) = self.lock_above(tree, scan, &cursor)? {
                self.prefetch_entry(tree, scan, &cursor, cursor.place.checked_add(AHEAD));
                let entry = match above {
                    Err(NextKey::Key(fence)) if fence[..] <= *scan.range.high => {
                        (from, after) = (fence, false);
                        ahead.crosses();
                        break;
                    }
                    Ok(entry) if entry.key[..] <= *scan.range.high => entry,
                    _ => return Ok(()),
                };
                let ScanStep::Row(row) = self.take(tree, scan, &cursor, &entry)? else { break };
                (from, after) = (entry.key, true);
                cursor.place += 1;
                if let Some(row) = row
                    && !self.show(row, visit)?
                {
                    return Ok(());
                }
            }
        }
    }

    fn scan_down(&mut self, tree: Tree, scan: Scan<'_>, visit: &mut RowVisitor<'_>) -> Result<(), Abort> {
        let c = self.core();
        let (mut until, mut before_it) = (KeyWords::of(scan.range.high), false);
        let mut ahead = ReadAhead::default();
        loop {
            let before = self.session.worker.meter.enter::<P>(c, Category::Index);
            let cursor = tree.seek_down(&mut self.session.worker, &until, before_it);
            self.session.worker.meter.leave::<P>(c, before);
            let mut cursor = cursor?;
            cursor.read_ahead(&mut self.session.worker, &mut ahead, Direction::Reverse, scan.range.low);
            (0..AHEAD)
                .for_each(|step| self.prefetch_entry(tree, scan, &cursor, cursor.place.checked_sub(step)));
            while self.lock_above(tree, scan, &cursor)?.is_some() {
                self.prefetch_entry(tree, scan, &cursor, cursor.place.checked_sub(AHEAD));
                let Some(below) = cursor.below(c) else { break };
                let Some(entry) = below else {
                    match cursor.fences.low.take() {
                        Some(fence) if fence[..] > *scan.range.low => (until, before_it) = (fence, true),
                        _ => return Ok(()),
                    }
                    ahead.crosses();
                    break;
                };
                if entry.key[..] < *scan.range.low {
                    return Ok(());
                }
                let ScanStep::Row(row) = self.take(tree, scan, &cursor, &entry)? else { break };
                (until, before_it) = (entry.key, true);
                cursor.place -= 1;
                if let Some(row) = row
                    && !self.show(row, visit)?
                {
                    return Ok(());
                }
            }
        }
    }

    /// Locks the row of an entry; `None` for a ghost.
    fn take(
        &mut self,
        tree: Tree,
        scan: Scan<'_>,
        cursor: &Cursor<'_, P>,
        entry: &AdjacentEntry,
    ) -> Result<ScanStep, Abort> {
        let c = self.core();
        let mode = scan.locks.then(|| scan.mode());
        if let (Some(_), ScanKind::SkipsLocked) = (mode, scan.kind) {
            return self.take_free(tree, scan, cursor, entry);
        }
        if let Some(mode) = mode {
            let mode = if scan.index == 0 { mode } else { LockMode::Share };
            self.lock_scanned(scan.table, tree, &entry.key, mode)?;
            if !cursor.is_current(c) {
                return Ok(ScanStep::Again);
            }
        }
        self.session.declare_path(self.session.paths().scanned_row);
        if entry.slot.is_ghost() {
            return Ok(ScanStep::Row(None));
        }
        if scan.index == 0 {
            return Ok(ScanStep::Row(Some(self.add_row(
                scan.table,
                entry.key.clone(),
                entry.hint,
                scan.locks,
            ))));
        }
        let width = self.table(scan.table)?.trees[0].width;
        match self.primary_key(tree, &entry.key, Some(entry.hint), width)? {
            Some(primary) => self.find_primary(scan.table, primary, mode).map(ScanStep::Row),
            None => Ok(ScanStep::Again),
        }
    }

    /// Locks the row of an entry, if no other transaction has locked it or the entry; `None` for
    /// those that are skipped, and for a ghost.
    fn take_free(
        &mut self,
        tree: Tree,
        scan: Scan<'_>,
        cursor: &Cursor<'_, P>,
        entry: &AdjacentEntry,
    ) -> Result<ScanStep, Abort> {
        let c = self.core();
        self.session.declare_path(self.session.paths().scanned_row);
        if entry.slot.is_ghost() {
            return Ok(ScanStep::Row(None));
        }
        let entry_mode = if scan.index == 0 { LockMode::Exclude } else { LockMode::Share };
        if !self.lock_if_free(scan.table, tree, &entry.key, entry_mode)? {
            return Ok(ScanStep::Row(None));
        }
        if !cursor.is_current(c) {
            return Ok(ScanStep::Again);
        }
        if scan.index == 0 {
            return Ok(ScanStep::Row(Some(self.add_row(scan.table, entry.key.clone(), entry.hint, true))));
        }
        let primary_tree = self.table(scan.table)?.trees[0];
        let Some(primary) = self.primary_key(tree, &entry.key, Some(entry.hint), primary_tree.width)? else {
            return Ok(ScanStep::Again);
        };
        match self.lock_if_free(scan.table, primary_tree, &primary, LockMode::Exclude)? {
            true => self.find_primary(scan.table, primary, Some(LockMode::Exclude)).map(ScanStep::Row),
            false => Ok(ScanStep::Row(None)),
        }
    }

    /// Locks a key unless another transaction has locked it; false if so.
    fn lock_if_free(&mut self, table: usize, tree: Tree, key: &[u64], mode: LockMode) -> Result<bool, Abort> {
        if self.session.owner.locks.locks_nothing() {
            return Ok(true);
        }
        P::work(self.core(), Work::Hash, key.len() as u32 + 1);
        let is_free = self.session.lock_if_free(table, name(tree.number, LockPlace::Key, key), mode)?;
        Ok(is_free || self.session.shared.faults.has(Fault::UnskippedRows))
    }

    /// Delivers a row to the visitor, whose errors end the transaction as those of verbs do.
    fn show(&mut self, row: RowId, visit: &mut RowVisitor<'_>) -> Result<bool, Abort> {
        let verbs: &mut dyn AnyVerbs = self;
        let goes_on = visit(verbs, row)?;
        self.check().map(|()| goes_on)
    }
}
