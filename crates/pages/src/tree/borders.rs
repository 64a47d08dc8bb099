//! The cost of borders between partitions, if each partition had a tree of its own.
//!
//! After the multi-rooted B+trees of PLP (Pandis, Tözün, Johnson, Ailamaki, "PLP: page latch-free
//! shared-everything OLTP", PVLDB 2011, "repartitioning"): a partition is divided by dividing each
//! page on the path from its root to the leaf of the border (the upper entries go to a new page of
//! the same level, and the uppermost new page is the root of the new partition), and two
//! partitions are united by copying the entries of one root into the other.
//!
//! Partitions of a table share one tree here, so there is nothing to divide. The work is charged:
//! the descent is made, on each page that would change the header and half of the words are
//! declared to be written, and as many words are declared to be copied. New pages are taken to be
//! in caches, and log records of the change are not charged.

use boundary::BorderChange;
use platform::files::Files;
use platform::{Intent, Work};

use super::Tree;
use crate::error::PagedError;
use crate::key::KEY_WORDS_MAX;
use crate::pool::PoolWorker;

/// Bits of a key's first word behind the leading column.
const BELOW_COLUMN: u32 = 48;

impl Tree {
    /// Charges a change of the border that begins with this leading column.
    pub(crate) fn charge_border<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        column: u16,
        change: BorderChange,
    ) -> Result<(), PagedError> {
        let mut key = [0; KEY_WORDS_MAX];
        key[0] = u64::from(column) << BELOW_COLUMN;
        let c = worker.c;
        let mut at = worker.read(self.root)?;
        loop {
            let page = at.page(self.width);
            page.touch_header(c, Intent::Write);
            let words = at.words();
            let moved = &words[words.len() / 2..];
            P::touch(c, moved.as_ptr(), moved.len() * 8, Intent::Write);
            P::work(c, Work::CopyWord, moved.len() as u32);
            if change == BorderChange::Merge || page.level() == 0 || page.count() == 0 {
                return Ok(());
            }
            let child = page.child(c, page.child_for(c, &key[..self.width.min(KEY_WORDS_MAX)], false));
            if !at.validate(c) {
                // Pages of a loaded table change rarely, and the work is an estimate.
                return Ok(());
            }
            at = worker.read(child)?;
        }
    }
}
