//! Lookups, and changes of one entry.

use platform::files::Files;

use super::Tree;
use crate::error::PagedError;
use crate::log::record::Takeback;
use crate::page::Change;
use crate::page::{Page, Slot};
use crate::pool::{FrameId, LatchedPage, PoolWorker, ReadPage, Role};

/// The place of a found entry: valid while its frame has the version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryHint {
    frame: (FrameId, u64, u64),
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
        EntryHint { frame: PoolWorker::hint(leaf), place, slot }
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
        let (place, is_there) = page.find(c, key);
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
        words: (usize, usize),
        leaves: &mut Vec<ReadPage<'p, P>>,
        mut found: impl FnMut(&[u64], Entry<'p, P>),
    ) -> Result<(), PagedError> {
        let c = worker.c;
        leaves.clear();
        for key in keys.chunks_exact(self.width) {
            let leaf = self.leaf(worker, key)?;
            leaf.page(self.width).prefetch(c);
            leaves.push(leaf);
        }
        for (key, leaf) in keys.chunks_exact(self.width).zip(leaves) {
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
    pub(crate) fn prefetch<P: Files>(
        &self,
        worker: &PoolWorker<'_, P>,
        hint: EntryHint,
        words: (usize, usize),
    ) {
        let EntryHint { frame, slot, .. } = hint;
        worker.hinted(frame).page(self.width).prefetch_record(worker.c, slot, words);
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
            Some(EntryHint { frame, place, slot }) => {
                Ok(Entry { leaf: worker.hinted(frame), place, slot: Some(slot) })
            }
            None => self.find(worker, key),
        }
    }

    /// Copies words of a record, from number `first` on; `None` if the key is not there, or is a
    /// ghost. Gives where it was found, and its slot.
    #[inline]
    pub(crate) fn read<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        (key, mut hint): (&[u64], Option<EntryHint>),
        mut copy: impl FnMut(Page<'_, P>, Slot) -> bool,
    ) -> Result<Option<(EntryHint, Slot)>, PagedError> {
        let c = worker.c;
        loop {
            let entry = self.find_again(worker, key, hint.take())?;
            let Some(slot) = entry.slot.filter(|slot| !slot.is_ghost()) else { return Ok(None) };
            let copied = copy(entry.leaf.page(self.width), slot);
            if copied && entry.leaf.validate(c) {
                return Ok(Some((EntryHint::new(&entry.leaf, entry.place, slot), slot)));
            }
        }
    }

    /// The entry of a key with its leaf latched, the place, and the slot; `None` if there is no
    /// such entry.
    fn latch_entry<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        (key, mut hint): (&[u64], Option<EntryHint>),
    ) -> Result<Option<(LatchedPage<'p, P>, usize, Slot)>, PagedError> {
        let c = worker.c;
        loop {
            let Entry { leaf, place, slot } = self.find_again(worker, key, hint.take())?;
            let Some(slot) = slot else { return Ok(None) };
            if let Some(held) = leaf.latch(c) {
                return Ok(Some((held, place, slot)));
            }
        }
    }

    /// Logs and makes a change of an entry of a latched leaf, which has this slot then; where the
    /// entry is now.
    fn change_entry<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        (held, place, slot): (LatchedPage<'_, P>, usize, Slot),
        (change, takeback): (Change<'_>, Takeback<'_>),
    ) -> Result<EntryHint, PagedError> {
        let c = worker.c;
        let logged = worker.write_ahead((self.number, self.width), &[Role::Old(&held)], (change, takeback));
        if let Err(error) = logged {
            held.unchanged(c);
            return Err(error);
        }
        let is_made = held.page(self.width).apply(c, (place, true), change);
        debug_assert!(is_made, "the entry was looked at");
        let leaf = held.changed(c);
        Ok(EntryHint::new(&leaf, place, slot))
    }

    /// Makes the record of a key a ghost, or one that is there again: whether it was a ghost
    /// before, and where it is; `None` if there is no such key.
    pub(crate) fn mark<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        (key, hint): (&[u64], Option<EntryHint>),
        ghost: bool,
    ) -> Result<Option<(bool, EntryHint)>, PagedError> {
        let Some((held, place, slot)) = self.latch_entry(worker, (key, hint))? else { return Ok(None) };
        let was = slot.is_ghost();
        if was == ghost {
            let hint = EntryHint::new(&held.as_read(), place, slot);
            held.unchanged(worker.c);
            return Ok(Some((was, hint)));
        }
        let (change, back) = (Change::Mark { key, ghost }, Takeback::Mark { ghost: was });
        let hint = self.change_entry(worker, (held, place, slot.as_ghost(ghost)), (change, back))?;
        Ok(Some((was, hint)))
    }

    /// Writes words of a record, from number `first` on. `decide` receives the present words in
    /// `after`, and whether the record is a ghost, and replaces them by the new ones; if it returns
    /// false, nothing happens. Returns the place of the record; `Ok(None)` if nothing has happened.
    pub(crate) fn write<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        (key, hint): (&[u64], Option<EntryHint>),
        first: usize,
        (before, after): (&mut [u64], &mut [u64]),
        decide: impl FnOnce(&mut [u64], bool) -> bool,
    ) -> Result<Option<EntryHint>, PagedError> {
        let c = worker.c;
        let Some((held, place, slot)) = self.latch_entry(worker, (key, hint))? else { return Ok(None) };
        let decided = held.page(self.width).record(slot, first, before.len()).is_some_and(|record| {
            P::read_words(c, record, before);
            after.copy_from_slice(before);
            decide(after, slot.is_ghost())
        });
        if !decided {
            held.unchanged(c);
            return Ok(None);
        }
        let change = Change::Write { key, first, words: after };
        let back = Takeback::Write { words: before };
        self.change_entry(worker, (held, place, slot), (change, back)).map(Some)
    }
}
