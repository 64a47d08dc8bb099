//! The way from the root to a page.

use platform::Intent;
use platform::files::Files;

use super::Tree;
use crate::error::PagedError;
use crate::key::KeyWords;
use crate::pool::{PoolWorker, ReadPage};

/// The target of a descent.
#[derive(Clone, Copy)]
pub(crate) enum DescentTarget<'k> {
    /// The page that covers the key.
    Key(&'k [u64]),
    /// The page that covers the keys right below the key.
    Below(&'k [u64]),
}

/// The keys that a page covers: from `low` on, below `high`. None: no bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    pub low: Option<KeyWords>,
    pub high: Option<KeyWords>,
}

/// The entry that leads to a page.
pub(crate) struct ParentEntry<'p, P: Files> {
    /// The parent of the page.
    pub page: ReadPage<'p, P>,
    /// Number of the entry there.
    pub entry: usize,
}

/// A page that was found on the way down.
pub(crate) struct Way<'p, P: Files> {
    pub at: ReadPage<'p, P>,
    /// None of the root.
    pub parent: Option<ParentEntry<'p, P>>,
    /// None if they were not requested.
    pub fences: Fences,
}

impl Tree {
    /// Descends to the page of this level (0: a leaf). The content of the page is not validated
    /// yet; that it was the right page is.
    pub(crate) fn descend<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        target: DescentTarget<'_>,
        level: usize,
    ) -> Result<Way<'p, P>, PagedError> {
        self.descend_as::<P, true>(worker, target, level)
    }

    /// Descends to the leaf that covers a key, as above.
    #[inline]
    pub(crate) fn leaf<'p, P: Files>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        key: &[u64],
    ) -> Result<ReadPage<'p, P>, PagedError> {
        Ok(self.descend_as::<P, false>(worker, DescentTarget::Key(key), 0)?.at)
    }

    #[inline]
    fn descend_as<'p, P: Files, const FENCES: bool>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        target: DescentTarget<'_>,
        level: usize,
    ) -> Result<Way<'p, P>, PagedError> {
        loop {
            if let Some(way) = self.try_descend::<P, FENCES>(worker, target, level)? {
                return Ok(way);
            }
        }
    }

    /// The same; `None` if something has changed on the way.
    #[inline]
    fn try_descend<'p, P: Files, const FENCES: bool>(
        &self,
        worker: &mut PoolWorker<'p, P>,
        target: DescentTarget<'_>,
        level: usize,
    ) -> Result<Option<Way<'p, P>>, PagedError> {
        let c = worker.c;
        let (mut parent, mut fences) = (None, Fences::default());
        let mut at = worker.read(self.root)?;
        loop {
            let page = at.page(self.width);
            page.touch_header(c, Intent::Read);
            if page.level() <= level {
                return Ok(at.validate(c).then_some(Way { at, parent, fences }));
            }
            let count = page.count();
            if count == 0 {
                // Inner pages have children: this one is changing.
                return Ok(None);
            }
            let entry = match target {
                DescentTarget::Key(key) => page.child_for(c, key, false),
                DescentTarget::Below(key) => page.child_for(c, key, true),
            };
            if FENCES && entry > 0 {
                fences.low = Some(page.key(c, entry));
            }
            if FENCES && entry + 1 < count {
                fences.high = Some(page.key(c, entry + 1));
            }
            let child = page.child(c, entry);
            if !at.validate(c) {
                return Ok(None);
            }
            let found = worker.read(child);
            if !at.validate(c) {
                return Ok(None);
            }
            parent = Some(ParentEntry { page: at, entry });
            at = found?;
        }
    }
}
