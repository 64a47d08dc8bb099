//! Splits: a full page gives its upper part to a new page behind it.

use platform::files::Files;

use super::descend::{Target, Way};
use super::{LEVELS_MAX, Tree};
use crate::key::KeyWords;
use crate::options::PagedError;
use crate::page::NewEntry;
use crate::pool::{Held, Worker};

/// What became of an attempt.
enum Attempt {
    /// It is over: the page was split, or something has changed.
    Over,
    /// The parent is full.
    ParentIsFull,
}

impl Tree {
    /// Splits the page of this level that covers the key, and before that its parents as far as they are full; or does nothing, if others
    /// have changed the pages meanwhile. The caller looks again.
    #[cold]
    pub(super) fn split<P: Files>(
        &self,
        worker: &mut Worker<'_, P>,
        key: &[u64],
        level: usize,
    ) -> Result<(), PagedError> {
        for level in level..LEVELS_MAX {
            // A root is split in two new pages.
            worker.reserve(2)?;
            let way = self.descend(worker, Target::Key(key), level)?;
            match self.split_page(worker, &way, key) {
                Attempt::Over => return Ok(()),
                Attempt::ParentIsFull => {}
            }
        }
        unreachable!("a tree is higher than numbers of pages allow")
    }

    fn split_page<P: Files>(&self, worker: &mut Worker<'_, P>, way: &Way<'_, P>, key: &[u64]) -> Attempt {
        let c = worker.c;
        let Some((parent, entry)) = way.parent else {
            if let Some(root) = way.at.latch(c) {
                self.split_root(worker, root, key);
            }
            return Attempt::Over;
        };
        let has_room = parent.page(self.width).fits(0);
        if !parent.validate(c) {
            return Attempt::Over;
        }
        if !has_room {
            return Attempt::ParentIsFull;
        }
        let Some(parent) = parent.latch(c) else { return Attempt::Over };
        let Some(left) = way.at.latch(c) else {
            parent.unchanged(c);
            return Attempt::Over;
        };
        if left.page(self.width).count() < 2 {
            left.unchanged(c);
            parent.unchanged(c);
            return Attempt::Over;
        }
        let right = self.new_sibling(worker, &left);
        let stays = self.stays(c, &left, key);
        let separator = left.page(self.width).key(c, stays);
        left.page(self.width).move_from(c, stays, right.page(self.width));
        parent.page(self.width).insert(c, entry + 1, &separator, NewEntry::Child(right.number));
        right.changed(c);
        left.changed(c);
        parent.changed(c);
        Attempt::Over
    }

    /// The entries that stay in a page that is split.
    fn stays<P: Files>(&self, c: P::Core, page: &Held<'_, P>, key: &[u64]) -> usize {
        let page = page.page(self.width);
        let (place, _) = page.find(c, key);
        page.split_at(c, place)
    }

    /// A new, empty page of the same level.
    fn new_sibling<'p, P: Files>(&self, worker: &mut Worker<'p, P>, of: &Held<'_, P>) -> Held<'p, P> {
        let level = of.page(self.width).level();
        let new = worker.new_page();
        new.page(self.width).format(worker.c, (new.number, self.number, level));
        new
    }

    /// Moves all that the root has into two new pages, which become its children.
    fn split_root<P: Files>(&self, worker: &mut Worker<'_, P>, root: Held<'_, P>, key: &[u64]) {
        let c = worker.c;
        let page = root.page(self.width);
        if page.count() < 2 {
            return root.unchanged(c);
        }
        let (left, right) = (self.new_sibling(worker, &root), self.new_sibling(worker, &root));
        let stays = self.stays(c, &root, key);
        let separator = page.key(c, stays);
        // A root covers all keys: no key is less than that of its first entry.
        let first = KeyWords::from_fn(self.width, |_| 0);
        page.move_from(c, stays, right.page(self.width));
        page.move_from(c, 0, left.page(self.width));
        page.format(c, (root.number, self.number, page.level() + 1));
        page.insert(c, 0, &first, NewEntry::Child(left.number));
        page.insert(c, 1, &separator, NewEntry::Child(right.number));
        right.changed(c);
        left.changed(c);
        root.changed(c);
    }
}
