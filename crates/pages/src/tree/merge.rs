//! Merges: a page that has become thin and a neighbour become one, if both fit with some room to
//! spare.
//!
//! The neighbour has the same parent; the lower one of the two receives the entries of the upper
//! one, which is free then. If the parent becomes thin, it is merged in turn, and a root with one
//! child takes that child's entries. A page is considered when it becomes thin, and each time that
//! its fill has fallen by another step, so that removing many entries reads few neighbours.
//!
//! Two leaves that become one join the gap below the fence between them with the one above: see
//! [`super::remove`].

use platform::files::Files;
use terms::Fault;

use super::descend::{DescentTarget, ParentEntry, Way};
use super::{LEVELS_MAX, Tree};
use crate::error::PagedError;
use crate::log::record::Takeback;
use crate::page::Change;
use crate::page::THIN_FILL;
use crate::pool::{LatchedPage, PoolWorker, ReadPage, Role};

/// Outcome of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// These two stay two pages.
    Apart,
    /// It is over: they are one page, or something has changed.
    Over,
    /// They are one page, and their parent has become thin.
    ParentIsThin,
}

/// Two neighbours, the entry of the upper one in their parent, and whether these are leaves.
struct Pair<'p, P: Files> {
    parent: ReadPage<'p, P>,
    left: ReadPage<'p, P>,
    right: ReadPage<'p, P>,
    entry: usize,
    is_of_leaves: bool,
}

impl Tree {
    /// Merges the thin leaf that covers the key with a neighbour, and after that its parents if
    /// they become thin; does nothing if others have changed the pages meanwhile.
    #[cold]
    pub(super) fn merge<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        may_join: &mut impl FnMut(&[u64]) -> bool,
    ) -> Result<(), PagedError> {
        for level in 0..LEVELS_MAX {
            let way = self.descend(worker, DescentTarget::Key(key), level)?;
            if self.merge_page(worker, &way, may_join)? != Attempt::ParentIsThin {
                break;
            }
        }
        worker.share_free_pages();
        Ok(())
    }

    fn merge_page<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        way: &Way<'p, P>,
        may_join: &mut impl FnMut(&[u64]) -> bool,
    ) -> Result<Attempt, PagedError> {
        let c = worker.c;
        let Some(&ParentEntry { page: parent, entry }) = way.parent.as_ref() else {
            return self.merge_root(worker, way.at);
        };
        let page = parent.page(self.width);
        let (count, is_of_leaves) = (page.count(), page.level() == 1);
        if count < 2 {
            return Ok(if parent.validate(c) { Attempt::ParentIsThin } else { Attempt::Over });
        }
        // The neighbour below, then the one above.
        for upper in [entry, entry + 1].into_iter().filter(|upper| (1..count).contains(upper)) {
            let other = if upper == entry { entry - 1 } else { upper };
            let number = page.child(c, other);
            if !parent.validate(c) {
                return Ok(Attempt::Over);
            }
            let neighbour = worker.read(number);
            if !parent.validate(c) {
                return Ok(Attempt::Over);
            }
            let neighbour = neighbour?;
            let (left, right) = if upper == entry { (neighbour, way.at) } else { (way.at, neighbour) };
            let pair = Pair { parent, left, right, entry: upper, is_of_leaves };
            let attempt = self.merge_pair(worker, &pair, may_join)?;
            if attempt != Attempt::Apart {
                return Ok(attempt);
            }
        }
        Ok(Attempt::Over)
    }

    /// Merges two pages, if they fit and no transaction prevents it.
    fn merge_pair<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        pair: &Pair<'p, P>,
        may_join: &mut impl FnMut(&[u64]) -> bool,
    ) -> Result<Attempt, PagedError> {
        let (c, width) = (worker.c, self.width);
        let &Pair { parent, left, right, entry, is_of_leaves } = pair;
        // A guess, which saves the latches.
        if !left.page(width).has_room_for(right.page(width)) {
            return Ok(Attempt::Apart);
        }
        let Some([parent, left, right]) = latch_all(c, [parent, left, right]) else {
            return Ok(Attempt::Over);
        };
        let fence = parent.page(width).key(c, entry);
        let is_refused = !left.page(width).has_room_for(right.page(width))
            || worker.is_on_its_way(&right)
            || is_of_leaves && !worker.pool.faults().has(Fault::MergedBusyLeaves) && !may_join(&fence);
        if is_refused {
            unlatch(c, [right, left, parent]);
            return Ok(Attempt::Apart);
        }
        let mut image = Vec::new();
        right.page(width).append_image(c, &mut image);
        let change = Change::Merge { entry, right: &image };
        let parts = [Role::Old(&left), Role::Gone(&right), Role::Old(&parent)];
        if let Err(error) = worker.write_ahead(self.number, width, &parts, change, Takeback::None) {
            unlatch(c, [right, left, parent]);
            return Err(error);
        }
        let is_made = left.page(width).absorb(c, &image);
        assert!(is_made, "there is room for both");
        let page = parent.page(width);
        page.remove(c, entry);
        let is_thin = page.count() == 1 || page.fill() <= THIN_FILL;
        worker.free_page(right);
        left.changed(c);
        parent.changed(c);
        Ok(if is_thin { Attempt::ParentIsThin } else { Attempt::Over })
    }

    /// Puts the only child of a root in the root's place.
    fn merge_root<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        root: ReadPage<'p, P>,
    ) -> Result<Attempt, PagedError> {
        let c = worker.c;
        let page = root.page(self.width);
        let (is_chain, number) = (page.level() > 0 && page.count() == 1, page.child(c, 0));
        if !root.validate(c) || !is_chain {
            return Ok(Attempt::Over);
        }
        let child = worker.read(number);
        if !root.validate(c) {
            return Ok(Attempt::Over);
        }
        let Some([root, child]) = latch_all(c, [root, child?]) else { return Ok(Attempt::Over) };
        if worker.is_on_its_way(&child) {
            unlatch(c, [child, root]);
            return Ok(Attempt::Over);
        }
        let mut image = Vec::new();
        child.page(self.width).append_image(c, &mut image);
        let change = Change::MergeRoot { child: &image };
        let parts = [Role::Old(&root), Role::Gone(&child)];
        if let Err(error) = worker.write_ahead(self.number, self.width, &parts, change, Takeback::None) {
            unlatch(c, [child, root]);
            return Err(error);
        }
        let is_made = root.page(self.width).become_child(c, root.number, self.number, &image);
        assert!(is_made, "pages of a tree are of one size");
        worker.free_page(child);
        root.changed(c);
        Ok(Attempt::Over)
    }
}

/// Latches all of these pages, from the first to the last, if they are as they were found.
fn latch_all<'p, P: Files, const N: usize>(
    c: P::Core,
    pages: [ReadPage<'p, P>; N],
) -> Option<[LatchedPage<'p, P>; N]> {
    let held: Vec<LatchedPage<'p, P>> = pages.into_iter().map_while(|page| page.latch(c)).collect();
    match held.try_into() {
        Ok(all) => Some(all),
        Err(some) => {
            unlatch(c, some);
            None
        }
    }
}

/// Unlatches pages in which nothing has changed.
fn unlatch<'p, P: Files>(c: P::Core, pages: impl IntoIterator<Item = LatchedPage<'p, P>>) {
    pages.into_iter().for_each(|held| held.unchanged(c));
}
