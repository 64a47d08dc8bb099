//! B+trees over pages: optimistic lock coupling on the way down, latches on what changes.
//!
//! A tree's root is always the same page: when it is split, its entries move into two new pages
//! below. All other pages are named by one entry of their parent, so a page is found by its number,
//! in any frame. A reader takes the version of a child before it validates the parent again (Leis,
//! Haubenschild, Neumann, "Optimistic Lock Coupling", IEEE Data Engineering Bulletin 2019): at that
//! moment the child was in its place. Numbers of pages are followed when the parent has been
//! validated; if the page is no page of the tree any more by then, the parent has changed, and the
//! reader begins again.
//!
//! Structural changes (splits and merges) are final, even if the transaction aborts: they change no
//! key. Frames for new pages are taken before anything is latched; latches beyond the first are
//! only tried.
//!
//! - `borders`: the cost of borders between partitions;
//! - `descend`: the way down;
//! - `get`: lookups, and changes of one entry;
//! - `insert`, `split`: insertions;
//! - `remove`, `merge`: entries leave, and pages that have become thin;
//! - `scan`: neighbours, in both directions;
//! - `inspect`: whole trees, for checks.

mod borders;
mod descend;
mod get;
mod insert;
mod inspect;
mod merge;
mod remove;
mod scan;
mod split;

pub(crate) use get::{EntryHint, WriteRoom};
pub(crate) use insert::{Inserted, InsertionPlace, NextKey};
pub use inspect::ExaminedTree;
pub(crate) use inspect::TreeFault;
pub(crate) use scan::{AdjacentEntry, Cursor, ReadAhead};

use platform::files::Files;

use crate::error::PagedError;
use crate::key::{is_long, significant};
use crate::pool::PoolWorker;

/// Levels that a tree can have: far more than pages that there can be need.
pub(crate) const LEVELS_MAX: usize = 16;

/// A tree: its number, root and width of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// Its number in the database.
    pub number: u32,
    root: u64,
    /// Words of a key.
    pub width: usize,
}

impl Tree {
    /// A tree that is there.
    pub(crate) fn of(number: u32, root: u64, width: usize) -> Self {
        Tree { number, root, width }
    }

    /// Returns true if the tree takes keys of this length: those of its width, or, if they are
    /// long, shorter ones too.
    #[inline]
    pub(crate) fn takes(&self, words: usize) -> bool {
        words == self.width || is_long(self.width) && words < self.width
    }

    /// A key in the form that the tree takes: long keys without the zeros at their ends.
    #[inline]
    pub(crate) fn key<'k>(&self, key: &'k [u64]) -> &'k [u64] {
        if is_long(self.width) { significant(key) } else { key }
    }

    /// The number of the page that is its root for ever.
    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    /// Makes an empty tree.
    pub(crate) fn create<P: Files>(
        worker: &mut PoolWorker<'_, P>,
        number: u32,
        width: usize,
    ) -> Result<Self, PagedError> {
        worker.reserve(1)?;
        let root = worker.new_page();
        root.page(width).format(worker.c, root.number, number, 0);
        worker.pool.is_in_use(worker.c, &root);
        let tree = Tree { number, root: root.number, width };
        root.changed(worker.c);
        Ok(tree)
    }
}
