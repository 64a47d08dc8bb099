//! An index of a table: a tree for keys of 1, 2, 4, 5, 8 or up to 256 words, or a hash index, and
//! its division into partitions.
//!
//! - `kind`: a tree of one of the widths, or a hash index: the only place that lists the widths;
//! - `partition`: one partition: lookups, changes, scans;
//! - `walk`: several keys at once, and all keys while others change them;
//! - `gaps`: the words for schemes that lock gaps: one for the gap above the largest key of a
//!   partition, and, in a hash index, some for absent keys;
//! - `witnesses`: the leaves and buckets that a transaction depends on.

mod gaps;
mod kind;
mod partition;
mod walk;
mod witnesses;

use platform::Platform;

use crate::listed::Listed;
use crate::tree::Direction;

pub use gaps::{Gap, GapGuard, GapWords, Open};
pub use kind::{Rename, Shape};
pub use partition::{Partition, Visit};
pub use walk::Walk;
pub use witnesses::{Mark, Witnesses, witness_is_current};

/// Words of the longest keys that have always as many as their index says.
const SHORT_KEY_WORDS_MAX: usize = 8;

/// An index of a table, divided by the leading 16 bits of its keys.
pub struct Index<P: Platform> {
    /// Words of its keys, of the longest if they are long.
    pub words: usize,
    /// Leading key column of partition 0; `None` if keys do not name their partition.
    pub first: Option<u16>,
    partitions: Listed<Partition<P>>,
}

impl<P: Platform> Index<P> {
    /// An index of these partitions, at least one; keys of partition `i` begin with `first + i`.
    /// Without `first` keys do not name their partition, and there is one partition.
    pub fn new(words: usize, first: Option<u16>, partitions: Listed<Partition<P>>) -> Self {
        assert!(partitions.len() == 1 || first.is_some() && !partitions.is_empty());
        Index { words, first, partitions }
    }

    /// Returns true if keys have several lengths: see [`Self::takes`].
    #[inline(always)]
    pub fn has_long_keys(&self) -> bool {
        self.words > SHORT_KEY_WORDS_MAX
    }

    /// Returns true if a key may have this number of words. A long key may lack those at its end
    /// that are zeros.
    #[inline(always)]
    pub fn takes(&self, words: usize) -> bool {
        words == self.words || self.has_long_keys() && words < self.words && words > 0
    }

    /// Returns true if keys name their partition, even if there is only one.
    #[inline(always)]
    pub fn is_partitioned(&self) -> bool {
        self.first.is_some()
    }

    /// The number of the partition that a key belongs to.
    #[inline(always)]
    pub fn number(&self, key: &[u64]) -> usize {
        if self.partitions.len() == 1 {
            return 0;
        }
        let leading = terms::rows::partition_column(key[0]);
        usize::from(leading.saturating_sub(self.first.unwrap_or(0))).min(self.partitions.len() - 1)
    }

    /// The partition that a key belongs to.
    #[inline(always)]
    pub fn partition(&self, key: &[u64]) -> &Partition<P> {
        &self.partitions[self.number(key)]
    }

    /// All partitions.
    pub fn all_partitions(&self) -> &[Partition<P>] {
        &self.partitions
    }

    /// The list of all partitions, for an index of another catalog.
    ///
    /// # Safety
    /// As [`Listed::share`].
    pub unsafe fn share_partitions(&self) -> Listed<Partition<P>> {
        // SAFETY: passed on to the caller.
        unsafe { self.partitions.share() }
    }

    /// The partitions that keys from `low` to `high` belong to, in this order.
    pub fn partitions(
        &self,
        low: &[u64],
        high: &[u64],
        direction: Direction,
    ) -> impl Iterator<Item = &Partition<P>> + use<'_, P> {
        let (from, to) = (self.number(low), self.number(high));
        let count = (to + 1).saturating_sub(from);
        (0..count).map(move |step| match direction {
            Direction::Forward => &self.partitions[from + step],
            Direction::Reverse => &self.partitions[to - step],
        })
    }
}
