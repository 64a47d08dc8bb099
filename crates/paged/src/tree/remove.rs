//! Entries leave, and so do leaves that have become empty.
//!
//! Transactions lock the gap below a key, or below a fence between two leaves. A gap may be joined with the one above only if nobody
//! depends on it by that name, which the caller answers for: with the leaf latched, so that whoever locks the gap later notices that
//! the leaf has changed.

use platform::files::Files;

use super::Tree;
use super::descend::{Target, Way};
use crate::log::record::{Change, Takeback};
use crate::options::PagedError;
use crate::pool::{Role, Worker};

impl Tree {
    /// Removes the ghost with this key, if there is one and `may_join` says that the gap below a key may be joined with the one above.
    /// Otherwise the ghost stays, which harms nobody.
    pub(crate) fn remove_ghost<P: Files>(
        &self,
        worker: &mut Worker<'_, P>,
        key: &[u64],
        may_join: &mut impl FnMut(&[u64]) -> bool,
    ) -> Result<(), PagedError> {
        let c = worker.c;
        loop {
            let way = self.descend(worker, Target::Key(key), 0)?;
            let page = way.at.page(self.width);
            let (place, is_there) = page.find(c, key);
            let is_ghost = is_there && page.slot(c, place).is_ghost();
            if !way.at.validate(c) {
                continue;
            }
            if !is_ghost {
                return Ok(());
            }
            let Some(held) = way.at.latch(c) else { continue };
            if !may_join(key) {
                held.unchanged(c);
                return Ok(());
            }
            let change = (Change::Remove { key }, Takeback::None);
            let logged = worker.write_ahead((self.number, self.width), &[Role::Old(&held)], change);
            if let Err(error) = logged {
                held.unchanged(c);
                return Err(error);
            }
            held.page(self.width).remove(c, place);
            let is_empty = held.page(self.width).count() == 0;
            let leaf = held.changed(c);
            if is_empty {
                self.unlink(worker, Way { at: leaf, ..way }, may_join)?;
            }
            return Ok(());
        }
    }

    /// Takes an empty leaf out of its parent, if that is possible at once: a neighbour with the same parent takes over its keys.
    #[cold]
    fn unlink<'p, P: Files>(
        &self,
        worker: &mut Worker<'p, P>,
        way: Way<'p, P>,
        may_join: &mut impl FnMut(&[u64]) -> bool,
    ) -> Result<(), PagedError> {
        let c = worker.c;
        let Some((parent, entry)) = way.parent else { return Ok(()) };
        let page = parent.page(self.width);
        let count = page.count();
        // The neighbour below takes over, or for the first leaf the one above.
        let other = if entry > 0 { entry - 1 } else { 1 };
        if count < 2 || other >= count {
            return Ok(());
        }
        let (number, fence) = (page.word(c, other), page.key(c, entry.max(other)));
        if !parent.validate(c) {
            return Ok(());
        }
        let neighbour = worker.read(number);
        if !parent.validate(c) {
            return Ok(());
        }
        let neighbour = neighbour?;
        let Some(parent) = parent.latch(c) else { return Ok(()) };
        let Some(neighbour) = neighbour.latch(c) else {
            parent.unchanged(c);
            return Ok(());
        };
        let Some(leaf) = way.at.latch(c) else {
            neighbour.unchanged(c);
            parent.unchanged(c);
            return Ok(());
        };
        // The fence between both goes.
        if worker.is_on_its_way(&leaf) || !may_join(&fence) {
            leaf.unchanged(c);
            neighbour.unchanged(c);
            parent.unchanged(c);
            return Ok(());
        }
        // The first entry stays, and names the neighbour: its key is the least of the parent.
        let (goes, child) = if entry == 0 { (1, Some(neighbour.number)) } else { (entry, None) };
        let change = (Change::Unlink { entry: goes, child }, Takeback::None);
        let parts = [Role::Old(&parent), Role::Gone(&leaf)];
        if let Err(error) = worker.write_ahead((self.number, self.width), &parts, change) {
            leaf.unchanged(c);
            neighbour.unchanged(c);
            parent.unchanged(c);
            return Err(error);
        }
        parent.page(self.width).unlink(c, goes, child);
        worker.free_page(leaf);
        // Its fences are others now.
        neighbour.unchanged_but_moved(c);
        parent.changed(c);
        Ok(())
    }
}
