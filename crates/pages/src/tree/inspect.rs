//! Checks of whole trees while nothing changes them.

use std::collections::BTreeSet;

use platform::files::Files;

use super::Tree;
use super::descend::Fences;
use crate::error::PagedError;
use crate::key::KeyWords;
use crate::page::Slot;
use crate::pool::PoolWorker;

/// A fault in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeFault {
    /// Number of the page.
    pub page: u64,
    /// A description of the fault.
    pub what: &'static str,
}

/// Findings about a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExaminedTree {
    /// Its pages.
    pub pages: u64,
    /// Its entries, those aside that are deleted.
    pub entries: u64,
}

/// A page that is to be checked.
struct UncheckedPage {
    number: u64,
    /// The level that its parent implies; none of the root.
    level: Option<usize>,
    fences: Fences,
}

impl Tree {
    /// Checks that all pages are in their places, each once, with keys that ascend within their
    /// fences. Faults go to `faults`, and entries that are no ghosts to `visit`. `seen` has the
    /// pages of other trees.
    pub(crate) fn check<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        seen: &mut BTreeSet<u64>,
        faults: &mut Vec<TreeFault>,
        visit: &mut dyn FnMut(&[u64], Slot),
    ) -> Result<ExaminedTree, PagedError> {
        let mut left = vec![UncheckedPage { number: self.root, level: None, fences: Fences::default() }];
        let (mut pages, mut entries): (u64, u64) = (0, 0);
        worker.begin_read_ahead();
        let window = worker.read_ahead_max();
        while let Some(UncheckedPage { number, level, fences: Fences { low, high } }) = left.pop() {
            // Half of them are there still.
            if window > 0 && pages.is_multiple_of(window.div_ceil(2) as u64) {
                let next: Vec<u64> = left.iter().rev().take(window).map(|page| page.number).collect();
                worker.read_ahead(&next);
            }
            pages += 1;
            let mut fault = |what| faults.push(TreeFault { page: number, what });
            if !seen.insert(number) {
                fault("two parents");
                continue;
            }
            let c = worker.c;
            let page = worker.read(number)?.page(self.width);
            if page.number() != number {
                fault("another number");
            }
            if page.tree() != self.number {
                fault("another tree");
            }
            let own = page.level();
            if level.is_some_and(|level| level != own) {
                fault("another level");
                continue;
            }
            let keys: Vec<KeyWords> = (0..page.count()).map(|entry| page.key(c, entry)).collect();
            if keys.windows(2).any(|pair| pair[0][..] >= pair[1][..]) {
                fault("keys out of order");
            }
            // The first key of an inner page is only a bound from below.
            let judged = &keys[usize::from(own > 0).min(keys.len())..];
            let is_outside = |key: &KeyWords| {
                low.as_ref().is_some_and(|low| key[..] < low[..])
                    || high.as_ref().is_some_and(|high| key[..] >= high[..])
            };
            if judged.iter().any(is_outside) {
                fault("a key outside of its fences");
            }
            if own == 0 {
                let all = keys.iter().enumerate().map(|(entry, key)| (key, page.slot(c, entry)));
                for (key, slot) in all.filter(|(_, slot)| !slot.is_ghost()) {
                    entries += 1;
                    visit(key, slot);
                }
                continue;
            }
            if keys.is_empty() {
                fault("an inner page without children");
            }
            // With it, the page can become the upper part of another one.
            if low.as_ref().is_some_and(|low| keys.first().is_some_and(|first| first[..] != low[..])) {
                fault("a first key that is not its fence");
            }
            let children: Vec<u64> = (0..keys.len()).map(|entry| page.child(c, entry)).collect();
            for (entry, child) in children.into_iter().enumerate() {
                let low = if entry == 0 { low.clone() } else { Some(keys[entry].clone()) };
                let fences = Fences { low, high: keys.get(entry + 1).cloned().or_else(|| high.clone()) };
                left.push(UncheckedPage { number: child, level: Some(own - 1), fences });
            }
        }
        Ok(ExaminedTree { pages, entries })
    }
}
