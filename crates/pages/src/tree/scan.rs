//! Neighbours of a key, in both directions.

use platform::files::Files;
use storage::tree::Direction;

use super::descend::{DescentTarget, Fences, ParentEntry, Way};
use super::get::EntryHint;
use super::{NextKey, Tree};
use crate::error::PagedError;
use crate::key::KeyWords;
use crate::page::{Slot, WordSpan};
use crate::pool::{PoolWorker, ReadPage};

/// A place between two entries of a leaf, as it was found.
pub(crate) struct Cursor<'p, P: Files> {
    pub leaf: ReadPage<'p, P>,
    pub fences: Fences,
    /// Entries before it.
    pub place: usize,
    parent: Option<ParentEntry<'p, P>>,
    tree: Tree,
}

/// Progress of a scan's read-ahead. It begins when the scan comes to its second leaf, with few
/// leaves, and continues with more and more.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// Leaves that the scan has left behind.
    crossed: u32,
    /// Leaves that will be there.
    covered: usize,
}

/// Leaves that a scan reads ahead first.
const AHEAD_MIN: usize = 2;

impl ReadAhead {
    /// The scan has come to the end of a leaf.
    pub(crate) fn crosses(&mut self) {
        self.crossed += 1;
        self.covered = self.covered.saturating_sub(1);
    }

    /// The number of leaves to read ahead now: none if most of them will be there.
    fn window(&self, most: usize) -> Option<usize> {
        let window = most.min(AHEAD_MIN << self.crossed.min(8));
        (self.crossed > 0 && most > 0 && self.covered * 2 <= window).then_some(window)
    }
}

/// An entry next to a cursor.
#[derive(Clone, Debug)]
pub(crate) struct AdjacentEntry {
    pub key: KeyWords,
    pub slot: Slot,
    pub hint: EntryHint,
}

impl Tree {
    /// The place before the first entry with this key or a larger one; with `after`, a larger one.
    pub(crate) fn seek_up<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
        after: bool,
    ) -> Result<Cursor<'p, P>, PagedError> {
        self.seek(worker, DescentTarget::Key(key), key, after)
    }

    /// The place behind the last entry with this key or a smaller one; with `before`, a smaller
    /// one.
    pub(crate) fn seek_down<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
        before: bool,
    ) -> Result<Cursor<'p, P>, PagedError> {
        let target = if before { DescentTarget::Below(key) } else { DescentTarget::Key(key) };
        self.seek(worker, target, key, !before)
    }

    /// The place behind the entries of a leaf with smaller keys, and behind that with the key
    /// itself if it is `behind`.
    fn seek<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        target: DescentTarget<'_>,
        key: &[u64],
        behind: bool,
    ) -> Result<Cursor<'p, P>, PagedError> {
        let c = worker.c;
        loop {
            let Way { at: leaf, parent, fences } = self.descend(worker, target, 0)?;
            let page = leaf.page(self.width);
            let place = if behind { page.count_up_to(c, key) } else { page.find(c, key).entry };
            if leaf.validate(c) {
                return Ok(Cursor { leaf, fences, place, parent, tree: *self });
            }
        }
    }
}

impl<P: Files> Cursor<'_, P> {
    /// Has the leaves read that come next, as far as they cover keys up to `bound`.
    pub(crate) fn read_ahead(
        &self,
        worker: &mut PoolWorker<'_, P>,
        ahead: &mut ReadAhead,
        direction: Direction,
        bound: &[u64],
    ) {
        let Some(window) = ahead.window(worker.read_ahead_max()) else { return };
        let Some(&ParentEntry { page: parent, entry }) = self.parent.as_ref() else { return };
        let (c, page) = (worker.c, parent.page(self.tree.width));
        let count = page.count();
        let next = |step: usize| match direction {
            Direction::Forward => {
                let next = entry + step;
                (next < count && page.key(c, next)[..] <= *bound).then_some(next)
            }
            // A child covers keys below the key of the next one.
            Direction::Reverse => entry.checked_sub(step).filter(|next| page.key(c, next + 1)[..] > *bound),
        };
        let numbers: Vec<u64> = (1..=window).map_while(next).map(|next| page.child(c, next)).collect();
        if !parent.validate(c) {
            return;
        }
        if ahead.crossed == 1 {
            worker.begin_read_ahead();
        }
        ahead.covered = numbers.len();
        worker.read_ahead(&numbers);
    }

    /// Returns true if the leaf is unchanged.
    pub(crate) fn is_current(&self, c: P::Core) -> bool {
        self.leaf.validate(c)
    }

    fn entry_at(&self, c: P::Core, place: usize) -> AdjacentEntry {
        let page = self.leaf.page(self.tree.width);
        let slot = page.slot(c, place);
        let hint = EntryHint::new(&self.leaf, place, slot);
        AdjacentEntry { key: page.key(c, place), slot, hint }
    }

    /// Key and slot of an entry as it may be, if the leaf may have that many: nothing is validated,
    /// so this serves for a prefetch only.
    #[inline]
    pub(crate) fn guess(&self, c: P::Core, place: usize) -> Option<(KeyWords, Slot)> {
        let page = self.leaf.page(self.tree.width);
        (place < page.count()).then(|| (page.key(c, place), page.slot(c, place)))
    }

    /// Prefetches words of a record of the leaf.
    #[inline]
    pub(crate) fn prefetch_record(&self, c: P::Core, slot: Slot, words: WordSpan) {
        self.leaf.page(self.tree.width).prefetch_record(c, slot, words);
    }

    /// The entry above the cursor; `Err` with what bounds the leaf if the leaf has none there.
    /// `None` if the leaf has changed.
    pub(crate) fn above(&self, c: P::Core) -> Option<Result<AdjacentEntry, NextKey>> {
        let is_there = self.place < self.leaf.page(self.tree.width).count();
        let entry = is_there.then(|| self.entry_at(c, self.place));
        let bound = || self.fences.high.clone().map_or(NextKey::End, NextKey::Key);
        self.is_current(c).then(|| entry.ok_or_else(bound))
    }

    /// The entry below the cursor; `Ok(None)` if the leaf has none there. `None` if the leaf has
    /// changed.
    pub(crate) fn below(&self, c: P::Core) -> Option<Option<AdjacentEntry>> {
        let place = self.place.checked_sub(1);
        let entry = place.map(|place| self.entry_at(c, place));
        self.is_current(c).then_some(entry)
    }
}
