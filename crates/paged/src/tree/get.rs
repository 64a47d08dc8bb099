//! Lookups, and changes of one entry.

use platform::files::Files;

use super::Tree;
use super::descend::Target;
use crate::log::record::{Change, Takeback};
use crate::options::PagedError;
use crate::page::{Page, Slot};
use crate::pool::{FrameId, Held, Read, Role, Worker};

/// Where an entry was found: good while its frame has the version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    frame: (FrameId, u64, u64),
    place: usize,
}

/// A leaf, and the entry of a key in it, if it has one.
pub(crate) struct Entry<'p, P: Files> {
    pub leaf: Read<'p, P>,
    /// The place where the key is, or would be.
    pub place: usize,
    pub slot: Option<Slot>,
}

impl<'p, P: Files> Entry<'p, P> {
    /// Where it was found.
    pub(crate) fn hint(&self) -> Hint {
        Hint { frame: Worker::hint(&self.leaf), place: self.place }
    }
}

impl Tree {
    /// Looks a key up.
    pub(crate) fn find<'p, P: Files>(
        &self,
        worker: &mut Worker<'p, P>,
        key: &[u64],
    ) -> Result<Entry<'p, P>, PagedError> {
        let c = worker.c;
        loop {
            let leaf = self.descend(worker, Target::Key(key), 0)?.at;
            let page = leaf.page(self.width);
            let (place, is_there) = page.find(c, key);
            let slot = is_there.then(|| page.slot(c, place));
            if leaf.validate(c) {
                return Ok(Entry { leaf, place, slot });
            }
        }
    }

    /// The same, if the hint still holds without a descent.
    fn find_again<'p, P: Files>(
        &self,
        worker: &mut Worker<'p, P>,
        key: &[u64],
        hint: Option<Hint>,
    ) -> Result<Entry<'p, P>, PagedError> {
        if let Some(Hint { frame, place }) = hint {
            let leaf = worker.hinted(frame);
            let page = leaf.page(self.width);
            if leaf.validate(worker.c) {
                let slot = page.slot(worker.c, place);
                if leaf.validate(worker.c) {
                    return Ok(Entry { leaf, place, slot: Some(slot) });
                }
            }
        }
        self.find(worker, key)
    }

    /// Copies words of a record, from number `first` on; `None` if the key is not there, or is a ghost. Gives where it was found, and its
    /// slot.
    pub(crate) fn read<P: Files>(
        &self,
        worker: &mut Worker<'_, P>,
        (key, mut hint): (&[u64], Option<Hint>),
        mut copy: impl FnMut(Page<'_, P>, Slot) -> bool,
    ) -> Result<Option<(Hint, Slot)>, PagedError> {
        let c = worker.c;
        loop {
            let entry = self.find_again(worker, key, hint.take())?;
            let Some(slot) = entry.slot.filter(|slot| !slot.is_ghost()) else { return Ok(None) };
            let copied = copy(entry.leaf.page(self.width), slot);
            if copied && entry.leaf.validate(c) {
                return Ok(Some((entry.hint(), slot)));
            }
        }
    }

    /// The entry of a key with its leaf latched, the place, and the slot; `None` if there is no such entry.
    fn latch_entry<'p, P: Files>(
        &self,
        worker: &mut Worker<'p, P>,
        (key, mut hint): (&[u64], Option<Hint>),
    ) -> Result<Option<(Held<'p, P>, usize, Slot)>, PagedError> {
        let c = worker.c;
        loop {
            let Entry { leaf, place, slot } = self.find_again(worker, key, hint.take())?;
            let Some(slot) = slot else { return Ok(None) };
            if let Some(held) = leaf.latch(c) {
                return Ok(Some((held, place, slot)));
            }
        }
    }

    /// Logs and makes a change of an entry of a latched leaf; where the entry is now.
    fn change_entry<P: Files>(
        &self,
        worker: &mut Worker<'_, P>,
        (held, place): (Held<'_, P>, usize),
        (change, takeback): (Change<'_>, Takeback<'_>),
    ) -> Result<Hint, PagedError> {
        let c = worker.c;
        let logged = worker.write_ahead((self.number, self.width), &[Role::Old(&held)], (change, takeback));
        if let Err(error) = logged {
            held.unchanged(c);
            return Err(error);
        }
        let is_made = held.page(self.width).apply(c, (place, true), change);
        debug_assert!(is_made, "the entry was looked at");
        let leaf = held.changed(c);
        Ok(Entry { leaf, place, slot: None }.hint())
    }

    /// Makes the record of a key a ghost, or one that is there again: whether it was a ghost before, and where it is; `None` if there is
    /// no such key.
    pub(crate) fn mark<P: Files>(
        &self,
        worker: &mut Worker<'_, P>,
        (key, hint): (&[u64], Option<Hint>),
        ghost: bool,
    ) -> Result<Option<(bool, Hint)>, PagedError> {
        let Some((held, place, slot)) = self.latch_entry(worker, (key, hint))? else { return Ok(None) };
        let was = slot.is_ghost();
        if was == ghost {
            let hint = Entry { leaf: held.as_read(), place, slot: None }.hint();
            held.unchanged(worker.c);
            return Ok(Some((was, hint)));
        }
        let (change, back) = (Change::Mark { key, ghost }, Takeback::Mark { ghost: was });
        let hint = self.change_entry(worker, (held, place), (change, back))?;
        Ok(Some((was, hint)))
    }

    /// Writes words of a record, from number `first` on. `decide` is told those that are there, and whether the record is a ghost, and says
    /// those to come; with `None` nothing happens. Where the record is; `Ok(None)` if nothing has happened.
    pub(crate) fn write<P: Files>(
        &self,
        worker: &mut Worker<'_, P>,
        (key, hint): (&[u64], Option<Hint>),
        first: usize,
        before: &mut [u64],
        decide: impl FnOnce(&[u64], bool) -> Option<Vec<u64>>,
    ) -> Result<Option<Hint>, PagedError> {
        let c = worker.c;
        let Some((held, place, slot)) = self.latch_entry(worker, (key, hint))? else { return Ok(None) };
        let decided = held.page(self.width).record(slot, first, before.len()).and_then(|record| {
            P::read_words(c, record, before);
            decide(before, slot.is_ghost())
        });
        let Some(after) = decided else {
            held.unchanged(c);
            return Ok(None);
        };
        let change = Change::Write { key, first, words: &after };
        let back = Takeback::Write { words: before };
        self.change_entry(worker, (held, place), (change, back)).map(Some)
    }
}
