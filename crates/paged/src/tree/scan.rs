//! Neighbours of a key, in both directions.

use platform::files::Files;

use super::descend::{Fences, Target};
use super::get::{Entry, Hint};
use super::{NextKey, Tree};
use crate::key::KeyWords;
use crate::options::PagedError;
use crate::page::Slot;
use crate::pool::{Read, Worker};

/// A place between two entries of a leaf, as it was found.
pub(crate) struct Cursor<'p, P: Files> {
    pub leaf: Read<'p, P>,
    pub fences: Fences,
    /// Entries before it.
    pub place: usize,
    tree: Tree,
}

/// An entry next to a cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub key: KeyWords,
    pub slot: Slot,
    pub hint: Hint,
}

impl Tree {
    /// The place before the first entry with this key or a larger one; with `after`, a larger one.
    pub(crate) fn seek_up<'p, P: Files>(
        &self,
        worker: &mut Worker<'p, P>,
        (key, after): (&[u64], bool),
    ) -> Result<Cursor<'p, P>, PagedError> {
        let c = worker.c;
        loop {
            let way = self.descend(worker, Target::Key(key), 0)?;
            let page = way.at.page(self.width);
            let place = if after { page.count_up_to(c, key) } else { page.find(c, key).0 };
            if way.at.validate(c) {
                return Ok(Cursor { leaf: way.at, fences: way.fences, place, tree: *self });
            }
        }
    }

    /// The place behind the last entry with this key or a smaller one; with `before`, a smaller one.
    pub(crate) fn seek_down<'p, P: Files>(
        &self,
        worker: &mut Worker<'p, P>,
        (key, before): (&[u64], bool),
    ) -> Result<Cursor<'p, P>, PagedError> {
        let c = worker.c;
        loop {
            let target = if before { Target::Below(key) } else { Target::Key(key) };
            let way = self.descend(worker, target, 0)?;
            let page = way.at.page(self.width);
            let place = if before { page.find(c, key).0 } else { page.count_up_to(c, key) };
            if way.at.validate(c) {
                return Ok(Cursor { leaf: way.at, fences: way.fences, place, tree: *self });
            }
        }
    }
}

impl<P: Files> Cursor<'_, P> {
    /// Whether the leaf is as it was found.
    pub(crate) fn is_current(&self, c: P::Core) -> bool {
        self.leaf.validate(c)
    }

    fn look(&self, c: P::Core, place: usize) -> Look {
        let page = self.leaf.page(self.tree.width);
        let slot = page.slot(c, place);
        let hint = Entry { leaf: self.leaf, place, slot: None }.hint();
        Look { key: page.key(c, place), slot, hint }
    }

    /// The entry above the cursor; `Err` with what bounds the leaf if the leaf has none there. `None` if the leaf has changed.
    pub(crate) fn above(&self, c: P::Core) -> Option<Result<Look, NextKey>> {
        let is_there = self.place < self.leaf.page(self.tree.width).count();
        let look = is_there.then(|| self.look(c, self.place));
        let bound = self.fences.high.map_or(NextKey::End, NextKey::Key);
        self.is_current(c).then_some(look.ok_or(bound))
    }

    /// The entry below the cursor; `Ok(None)` if the leaf has none there. `None` if the leaf has changed.
    pub(crate) fn below(&self, c: P::Core) -> Option<Option<Look>> {
        let place = self.place.checked_sub(1);
        let look = place.map(|place| self.look(c, place));
        self.is_current(c).then_some(look)
    }
}
