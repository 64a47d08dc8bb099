//! Lookups, and changes of one entry.

use platform::files::Files;

use super::Tree;
use super::descend::Target;
use crate::options::PagedError;
use crate::page::{Page, Slot};
use crate::pool::{FrameId, Read, Worker};

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

    /// Changes the entry of a key with its leaf latched; `None` if there is no such entry. The result, and where the entry is now.
    pub(crate) fn change<P: Files, R>(
        &self,
        worker: &mut Worker<'_, P>,
        (key, mut hint): (&[u64], Option<Hint>),
        change: impl FnOnce(Page<'_, P>, usize, Slot) -> R,
    ) -> Result<Option<(R, Hint)>, PagedError> {
        let c = worker.c;
        loop {
            let entry = self.find_again(worker, key, hint.take())?;
            let Some(slot) = entry.slot else { return Ok(None) };
            let Some(held) = entry.leaf.latch(c) else { continue };
            let result = change(held.page(self.width), entry.place, slot);
            let leaf = held.changed(c);
            return Ok(Some((result, Entry { leaf, ..entry }.hint())));
        }
    }
}
