//! Splits: a full page gives its upper part to a new page behind it.

use platform::files::Files;

use super::descend::{DescentTarget, ParentEntry, Way};
use super::{LEVELS_MAX, Tree};
use crate::error::PagedError;
use crate::log::record::Takeback;
use crate::page::Change;
use crate::pool::{LatchedPage, PoolWorker, Role};

/// Outcome of an attempt.
enum Attempt {
    /// It is over: the page was split, or something has changed.
    Over,
    /// The parent is full.
    ParentIsFull,
}

impl Tree {
    /// Splits the page of this level that covers the key, and before that its parents if they are
    /// full; does nothing if others have changed the pages meanwhile. The caller descends again.
    #[cold]
    pub(super) fn split<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        level: usize,
    ) -> Result<(), PagedError> {
        for level in level..LEVELS_MAX {
            // A root is split in two new pages.
            worker.reserve(2)?;
            let way = self.descend(worker, DescentTarget::Key(key), level)?;
            match self.split_page(worker, &way, key) {
                Ok(Attempt::Over) => return Ok(()),
                Ok(Attempt::ParentIsFull) => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("a tree is higher than numbers of pages allow")
    }

    fn split_page<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        way: &Way<'_, P>,
        key: &[u64],
    ) -> Result<Attempt, PagedError> {
        let c = worker.c;
        let Some(&ParentEntry { page: parent, entry }) = way.parent.as_ref() else {
            if let Some(root) = way.at.latch(c) {
                self.split_root(worker, root, key)?;
            }
            return Ok(Attempt::Over);
        };
        let has_room = parent.page(self.width).fits_child(&[]);
        if !parent.validate(c) {
            return Ok(Attempt::Over);
        }
        if !has_room {
            return Ok(Attempt::ParentIsFull);
        }
        let Some(parent) = parent.latch(c) else { return Ok(Attempt::Over) };
        let Some(left) = way.at.latch(c) else {
            parent.unchanged(c);
            return Ok(Attempt::Over);
        };
        let page = left.page(self.width);
        if page.count() < 2 {
            left.unchanged(c);
            parent.unchanged(c);
            return Ok(Attempt::Over);
        }
        let stays = self.stays(c, &left, key);
        let separator = page.key(c, stays);
        // Long separators have several lengths.
        if !parent.page(self.width).fits_child(&separator) {
            left.unchanged(c);
            parent.unchanged(c);
            return Ok(Attempt::ParentIsFull);
        }
        let right = self.new_sibling(worker, &left);
        page.copy_to(c, stays, page.count(), right.page(self.width));
        let image = self.image(c, worker, &right);
        let change = Change::Split { separator: &separator, stays, right: &image };
        let parts = [Role::Old(&left), Role::New(&right), Role::Old(&parent)];
        let logged = worker.write_ahead(self.number, self.width, &parts, change, Takeback::None);
        if let Err(error) = logged {
            worker.free_page(right);
            left.unchanged(c);
            parent.unchanged(c);
            return Err(error);
        }
        page.truncate(c, stays);
        debug_assert_eq!(parent.page(self.width).count_up_to(c, &separator), entry + 1);
        parent.page(self.width).insert_child(c, &separator, right.number);
        right.changed(c);
        left.changed(c);
        parent.changed(c);
        Ok(Attempt::Over)
    }

    /// Content of a new page, for the log, if there is one.
    fn image<P: Files>(&self, c: P::Core, worker: &PoolWorker<'_, P>, page: &LatchedPage<'_, P>) -> Vec<u64> {
        let mut image = Vec::new();
        if worker.pool.log().is_some() {
            page.page(self.width).append_image(c, &mut image);
        }
        image
    }

    /// The entries that stay in a page that is split.
    fn stays<P: Files>(&self, c: P::Core, page: &LatchedPage<'_, P>, key: &[u64]) -> usize {
        let page = page.page(self.width);
        page.split_at(c, page.find(c, key).entry)
    }

    /// A new, empty page of the same level.
    fn new_sibling<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        of: &LatchedPage<'_, P>,
    ) -> LatchedPage<'p, P> {
        let level = of.page(self.width).level();
        let new = worker.new_page();
        new.page(self.width).format(worker.c, new.number, self.number, level);
        new
    }

    /// Moves all that the root has into two new pages, which become its children.
    fn split_root<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        root: LatchedPage<'_, P>,
        key: &[u64],
    ) -> Result<(), PagedError> {
        let c = worker.c;
        let page = root.page(self.width);
        if page.count() < 2 {
            root.unchanged(c);
            return Ok(());
        }
        let (left, right) = (self.new_sibling(worker, &root), self.new_sibling(worker, &root));
        let stays = self.stays(c, &root, key);
        let separator = page.key(c, stays);
        page.copy_to(c, 0, stays, left.page(self.width));
        page.copy_to(c, stays, page.count(), right.page(self.width));
        let images = [self.image(c, worker, &left), self.image(c, worker, &right)];
        let change = Change::SplitRoot { separator: &separator, left: &images[0], right: &images[1] };
        let parts = [Role::Old(&root), Role::New(&left), Role::New(&right)];
        let logged = worker.write_ahead(self.number, self.width, &parts, change, Takeback::None);
        if let Err(error) = logged {
            worker.free_page(left);
            worker.free_page(right);
            root.unchanged(c);
            return Err(error);
        }
        let (level, children) = (page.level() + 1, [left.number, right.number]);
        page.become_root(c, root.number, self.number, level, &separator, children);
        right.changed(c);
        left.changed(c);
        root.changed(c);
        Ok(())
    }
}
