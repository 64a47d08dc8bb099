//! Insertions.

use platform::files::Files;

use super::Tree;
use super::descend::DescentTarget;
use super::get::Entry;
use crate::error::PagedError;
use crate::key::KeyWords;
use crate::log::record::Takeback;
use crate::page::{Change, KeyPlace, RecordParts, Slot};
use crate::pool::{LatchedPage, PoolWorker, ReadPage, Role};

/// The entry above a new key: the gap below it is split.
#[derive(Clone, Debug)]
pub(crate) enum NextKey {
    /// The next entry of the leaf, or the fence above the leaf.
    Key(KeyWords),
    /// There is none.
    End,
}

/// Decides whether an insertion may happen, with the leaf latched: it neither waits nor uses pages.
pub(crate) trait Guard: FnMut(NextKey) -> bool {}

impl<F: FnMut(NextKey) -> bool> Guard for F {}

/// The place of an insertion: the next insertion may come right behind it.
pub(crate) struct InsertionPlace<'p, P: Files> {
    leaf: ReadPage<'p, P>,
    place: usize,
}

impl<P: Files> InsertionPlace<'_, P> {
    /// Returns true if a key belongs there, if the leaf is unchanged.
    #[inline]
    fn covers(&self, c: P::Core, width: usize, key: &[u64]) -> bool {
        self.leaf.page(width).comes_behind(c, key, self.place)
    }
}

/// Result of an insertion.
#[derive(Debug)]
pub(crate) enum Inserted {
    /// The record is there now; in place of this ghost, if there was one.
    Done(Option<Replaced>),
    /// There is such a key, which is no ghost.
    Exists,
    /// The guard refused.
    Refused,
}

/// The record that was in the place of another one.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub words: Vec<u64>,
    pub tail_bytes: usize,
}

impl Replaced {
    /// The record.
    pub(crate) fn parts(&self) -> RecordParts<'_> {
        RecordParts { words: &self.words, tail_bytes: self.tail_bytes }
    }
}

impl Tree {
    /// Inserts a record, if the guard, if there is one, allows it. A ghost with the same key is
    /// replaced without the guard. `behind` is the place of the insertion before, if it is known,
    /// and then of this one.
    pub(crate) fn insert<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
        behind: &mut Option<InsertionPlace<'p, P>>,
        parts: RecordParts<'_>,
        mut guard: Option<impl Guard>,
    ) -> Result<Inserted, PagedError> {
        let (c, mut asks_fences) = (worker.c, false);
        loop {
            let known = behind.take().filter(|behind| behind.covers(c, self.width, key));
            let (leaf, fences) = match known {
                Some(InsertionPlace { leaf, .. }) => (leaf, None),
                None if asks_fences => {
                    let way = self.descend(worker, DescentTarget::Key(key), 0)?;
                    (way.at, Some(way.fences))
                }
                None => (self.leaf(worker, key)?, None),
            };
            let page = leaf.page(self.width);
            let KeyPlace { entry: place, is_there } = match known {
                Some(InsertionPlace { place, .. }) => KeyPlace { entry: place + 1, is_there: false },
                None => page.find(c, key),
            };
            let slot = is_there.then(|| page.slot(c, place));
            if !leaf.validate(c) {
                continue;
            }
            if slot.is_some_and(|slot| !slot.is_ghost()) {
                return Ok(Inserted::Exists);
            }
            let fits = match slot {
                Some(ghost) => page.fits_instead(ghost, key, parts.words()),
                None => page.fits(key, parts.words()),
            };
            if !fits {
                if leaf.validate(c) {
                    self.split(worker, key, 0)?;
                }
                continue;
            }
            let Some(held) = leaf.latch(c) else { continue };
            let page = held.page(self.width);
            let ghost = slot.map(|slot| replaced(page, c, slot));
            if let (None, Some(guard)) = (&ghost, &mut guard) {
                let next = match fences {
                    _ if place < page.count() => NextKey::Key(page.key(c, place)),
                    Some(fences) => fences.high.map_or(NextKey::End, NextKey::Key),
                    None => {
                        // What lies above the leaf.
                        held.unchanged(c);
                        asks_fences = true;
                        continue;
                    }
                };
                if !guard(next) {
                    held.unchanged(c);
                    return Ok(Inserted::Refused);
                }
            }
            let change = Change::Put { key, parts, ghost: false };
            let back = match &ghost {
                Some(before) => Takeback::Put { parts: before.parts(), ghost: true },
                None => Takeback::Mark { ghost: true },
            };
            let at = KeyPlace { entry: place, is_there: ghost.is_some() };
            let leaf = self.put(worker, held, at, change, back)?;
            *behind = Some(InsertionPlace { leaf, place });
            return Ok(Inserted::Done(ghost));
        }
    }

    /// Logs and makes a change of a latched leaf; the leaf as it is then.
    fn put<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        held: LatchedPage<'p, P>,
        place: KeyPlace,
        change: Change<'_>,
        takeback: Takeback<'_>,
    ) -> Result<ReadPage<'p, P>, PagedError> {
        let c = worker.c;
        let logged = worker.write_ahead(self.number, self.width, &[Role::Old(&held)], change, takeback);
        if let Err(error) = logged {
            held.unchanged(c);
            return Err(error);
        }
        let is_made = held.page(self.width).apply(c, place, change);
        debug_assert!(is_made, "the entry fits");
        Ok(held.changed(c))
    }

    /// Puts a record in place of that of a key, ghost or not, which is a ghost then or not; `None`
    /// if there is no such key.
    pub(crate) fn replace<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        parts: RecordParts<'_>,
        ghost: bool,
    ) -> Result<Option<Replaced>, PagedError> {
        let c = worker.c;
        loop {
            let Entry { leaf, place, slot } = self.find(worker, key)?;
            let Some(slot) = slot else { return Ok(None) };
            let page = leaf.page(self.width);
            let fits = page.fits_instead(slot, key, parts.words());
            if !leaf.validate(c) {
                continue;
            }
            if !fits {
                self.split(worker, key, 0)?;
                continue;
            }
            let Some(held) = leaf.latch(c) else { continue };
            let page = held.page(self.width);
            let before = replaced(page, c, slot);
            let back = Takeback::Put { parts: before.parts(), ghost: slot.is_ghost() };
            let place = KeyPlace { entry: place, is_there: true };
            self.put(worker, held, place, Change::Put { key, parts, ghost }, back)?;
            return Ok(Some(before));
        }
    }
}

/// The record of a latched page that is about to go.
fn replaced<P: Files>(page: crate::page::Page<'_, P>, c: P::Core, slot: Slot) -> Replaced {
    let (mut words, tail_bytes) = (vec![0; slot.record_words()], slot.tail_bytes());
    if let Some(record) = page.record(slot, 0, words.len()) {
        P::read_words(c, record, &mut words);
    }
    Replaced { words, tail_bytes }
}
