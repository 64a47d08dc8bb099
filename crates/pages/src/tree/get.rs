//! Lookups, and changes of one entry.

use platform::files::Files;

use super::Tree;
use crate::error::PagedError;
use crate::log::record::Takeback;
use crate::page::{Change, KeyPlace, Page, Slot, WordSpan};
use crate::pool::{LatchedPage, PageHint, PoolWorker, ReadPage, Role};

/// The place of a found entry: valid while its frame has the version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryHint {
    page: PageHint,
    place: usize,
    slot: Slot,
}

/// A leaf, and the entry of a key in it, if it has one.
pub(crate) struct Entry<'p, P: Files> {
    pub leaf: ReadPage<'p, P>,
    /// The place where the key is, or would be.
    pub place: usize,
    pub slot: Option<Slot>,
}

/// An entry of a latched leaf.
struct LatchedEntry<'p, P: Files> {
    leaf: LatchedPage<'p, P>,
    place: usize,
    slot: Slot,
}

/// Room for the words of a record before and after a write.
pub(crate) struct WriteRoom<'b> {
    pub before: &'b mut [u64],
    pub after: &'b mut [u64],
}

impl<'p, P: Files> Entry<'p, P> {
    /// The place of the entry; `None` if there is none, or a ghost.
    #[inline]
    pub(crate) fn hint(&self) -> Option<EntryHint> {
        let slot = self.slot.filter(|slot| !slot.is_ghost())?;
        Some(EntryHint::new(&self.leaf, self.place, slot))
    }
}

impl EntryHint {
    /// The place of an entry with this slot.
    #[inline]
    pub(crate) fn new<P: Files>(leaf: &ReadPage<'_, P>, place: usize, slot: Slot) -> Self {
        EntryHint { page: PoolWorker::hint(leaf), place, slot }
    }

    /// The slot of the entry.
    #[inline]
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }
}

impl Tree {
    /// Finds a key.
    #[inline]
    pub(crate) fn find<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
    ) -> Result<Entry<'p, P>, PagedError> {
        loop {
            let leaf = self.leaf(worker, key)?;
            if let Some(entry) = self.find_in(worker.c, leaf, key) {
                return Ok(entry);
            }
        }
    }

    /// Finds a key in the leaf that covers it; `None` if the leaf has changed.
    #[inline]
    fn find_in<'p, P: Files>(&self, c: P::Core, leaf: ReadPage<'p, P>, key: &[u64]) -> Option<Entry<'p, P>> {
        let page = leaf.page(self.width);
        let KeyPlace { entry: place, is_there } = page.find(c, key);
        let slot = is_there.then(|| page.slot(c, place));
        leaf.validate(c).then_some(Entry { leaf, place, slot })
    }

    /// Finds keys: all descents come first, then the searches in leaves, and words of the records
    /// are prefetched, so that the misses of several keys overlap. `leaves` is room for the leaves;
    /// `found` receives each key's number and entry.
    pub(crate) fn find_each<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        keys: &[u64],
        words: WordSpan,
        leaves: &mut Vec<ReadPage<'p, P>>,
        mut found: impl FnMut(&[u64], Entry<'p, P>),
    ) -> Result<(), PagedError> {
        let c = worker.c;
        leaves.clear();
        for key in keys.chunks_exact(self.width) {
            let leaf = self.leaf(worker, self.key(key))?;
            leaf.page(self.width).prefetch(c);
            leaves.push(leaf);
        }
        for (key, leaf) in keys.chunks_exact(self.width).zip(leaves) {
            let key = self.key(key);
            let entry = match self.find_in(c, *leaf, key) {
                Some(entry) => entry,
                None => self.find(worker, key)?,
            };
            if let Some(slot) = entry.slot {
                entry.leaf.page(self.width).prefetch_record(c, slot, words);
            }
            found(key, entry);
        }
        Ok(())
    }

    /// Prefetches words of a record, if the hint is still valid.
    #[inline]
    pub(crate) fn prefetch<P: Files>(&self, worker: &PoolWorker<'_, P>, hint: EntryHint, words: WordSpan) {
        let EntryHint { page, slot, .. } = hint;
        worker.hinted(page).page(self.width).prefetch_record(worker.c, slot, words);
    }

    /// The same, without a descent and without validation if there is a hint: it may not hold any
    /// more.
    #[inline]
    fn find_again<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
        hint: Option<EntryHint>,
    ) -> Result<Entry<'p, P>, PagedError> {
        match hint {
            Some(EntryHint { page, place, slot }) => {
                Ok(Entry { leaf: worker.hinted(page), place, slot: Some(slot) })
            }
            None => self.find(worker, key),
        }
    }

    /// Copies words of a record, and returns the place of its entry; `None` if the key is not
    /// there, or is a ghost.
    #[inline]
    pub(crate) fn read<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        mut hint: Option<EntryHint>,
        mut copy: impl FnMut(Page<'_, P>, Slot) -> bool,
    ) -> Result<Option<EntryHint>, PagedError> {
        let c = worker.c;
        loop {
            let entry = self.find_again(worker, key, hint.take())?;
            let Some(slot) = entry.slot.filter(|slot| !slot.is_ghost()) else { return Ok(None) };
            let copied = copy(entry.leaf.page(self.width), slot);
            if copied && entry.leaf.validate(c) {
                return Ok(Some(EntryHint::new(&entry.leaf, entry.place, slot)));
            }
        }
    }

    /// The entry of a key with its leaf latched; `None` if there is no such entry.
    fn latch_entry<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
        mut hint: Option<EntryHint>,
    ) -> Result<Option<LatchedEntry<'p, P>>, PagedError> {
        let c = worker.c;
        loop {
            let Entry { leaf, place, slot } = self.find_again(worker, key, hint.take())?;
            let Some(slot) = slot else { return Ok(None) };
            if let Some(leaf) = leaf.latch(c) {
                return Ok(Some(LatchedEntry { leaf, place, slot }));
            }
        }
    }

    /// Logs and makes a change of an entry, which has the slot of `entry` then; returns its place.
    fn change_entry<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        entry: LatchedEntry<'_, P>,
        change: Change<'_>,
        takeback: Takeback<'_>,
    ) -> Result<EntryHint, PagedError> {
        let (c, LatchedEntry { leaf: held, place, slot }) = (worker.c, entry);
        let logged = worker.write_ahead(self.number, self.width, &[Role::Old(&held)], change, takeback);
        if let Err(error) = logged {
            held.unchanged(c);
            return Err(error);
        }
        let is_made = held.page(self.width).apply(c, KeyPlace { entry: place, is_there: true }, change);
        debug_assert!(is_made, "the entry was read");
        let leaf = held.changed(c);
        Ok(EntryHint::new(&leaf, place, slot))
    }

    /// Makes the record of a key a ghost, or one that is there again; returns true if it was a
    /// ghost before, `None` if there is no such key.
    pub(crate) fn mark<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        ghost: bool,
    ) -> Result<Option<bool>, PagedError> {
        let Some(entry) = self.latch_entry(worker, key, None)? else { return Ok(None) };
        let was = entry.slot.is_ghost();
        if was == ghost {
            entry.leaf.unchanged(worker.c);
        } else {
            let entry = LatchedEntry { slot: entry.slot.as_ghost(ghost), ..entry };
            self.change_entry(worker, entry, Change::Mark { key, ghost }, Takeback::Mark { ghost: was })?;
        }
        Ok(Some(was))
    }

    /// Writes words of a record, from number `first` on. `decide` receives the present words in
    /// `after`, and whether the record is a ghost, and replaces them by the new ones; if it returns
    /// false, nothing happens. Returns the place of the record; `Ok(None)` if nothing has happened.
    pub(crate) fn write<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        hint: Option<EntryHint>,
        first: usize,
        room: WriteRoom<'_>,
        decide: impl FnOnce(&mut [u64], bool) -> bool,
    ) -> Result<Option<EntryHint>, PagedError> {
        let (c, WriteRoom { before, after }) = (worker.c, room);
        let Some(entry) = self.latch_entry(worker, key, hint)? else { return Ok(None) };
        let slot = entry.slot;
        let decided = entry.leaf.page(self.width).record(slot, first, before.len()).is_some_and(|record| {
            P::read_words(c, record, before);
            after.copy_from_slice(before);
            decide(after, slot.is_ghost())
        });
        if !decided {
            entry.leaf.unchanged(c);
            return Ok(None);
        }
        let change = Change::Write { key, first, words: after };
        let back = Takeback::Write { words: before };
        self.change_entry(worker, entry, change, back).map(Some)
    }
}
