//! Tags of caches: the lines, with their versions, in each cache.
//!
//! A tag is a line's number and the version that was current when the line came. Requesting a line
//! to write raises its version, which invalidates all copies at once, wherever they are. A set
//! holds one tag for each of its ways, most recently used first.

use crate::SimError;
use crate::arena::{Arena, Pages, prefetch};
use crate::line::LineNumber;

/// A line's number and version; never 0, because no cache has line 0.
pub(crate) type Tag = u64;

/// Tag of a version of a line.
#[inline(always)]
pub(crate) fn tag(line: LineNumber, version: u32) -> Tag {
    (u64::from(line) << 32) | u64::from(version)
}

/// The line of a tag.
#[inline(always)]
pub(crate) fn line_of(tag: Tag) -> LineNumber {
    (tag >> 32) as LineNumber
}

/// The caches of one level, one after the other.
pub(crate) struct Tags<const WAYS: usize> {
    tags: Arena<u64>,
    sets: u32,
    /// 2^64 / `sets`, rounded up: Lemire, Kaser, Kurz, "Faster remainder by direct
    /// computation", 2019.
    reciprocal: u64,
    /// Scatters lines over the sets, as shared caches do. Private caches are indexed by the line's
    /// lowest bits.
    hashed: bool,
}

impl<const WAYS: usize> Tags<WAYS> {
    /// `caches` caches of this many lines each.
    pub(crate) fn new(
        caches: usize,
        lines: usize,
        hashed: bool,
        purpose: &'static str,
    ) -> Result<Self, SimError> {
        let sets = (lines / WAYS).max(1) as u32;
        Ok(Tags {
            tags: Arena::new(caches * sets as usize * WAYS, Pages::Huge, purpose)?,
            sets,
            reciprocal: (u64::MAX / u64::from(sets)).wrapping_add(1),
            hashed,
        })
    }

    #[inline(always)]
    fn set(&self, cache: usize, line: LineNumber) -> usize {
        let index = if self.hashed { line.wrapping_mul(0x9e37_79b1) } else { line };
        let fraction = self.reciprocal.wrapping_mul(u64::from(index));
        let set = (u128::from(fraction) * u128::from(self.sets)) >> 64;
        (cache * self.sets as usize + set as usize) * WAYS
    }

    /// Prefetches the set of a line on the host.
    #[inline(always)]
    pub(crate) fn announce(&self, cache: usize, line: LineNumber) {
        let set = self.set(cache, line);
        prefetch(&raw const self.tags[set]);
        if WAYS > 8 {
            prefetch(&raw const self.tags[set + 8]);
        }
    }

    /// True if a cache has the tag, which becomes the most recently used one of its set.
    #[inline(always)]
    pub(crate) fn find(&mut self, cache: usize, tag: Tag) -> bool {
        let start = self.set(cache, line_of(tag));
        let set = &mut self.tags[start..start + WAYS];
        if set[0] == tag {
            return true;
        }
        match set.iter().position(|held| *held == tag) {
            Some(way) => {
                set[..=way].rotate_right(1);
                true
            }
            None => false,
        }
    }

    /// True if a cache has the tag. The order of the set stays.
    pub(crate) fn holds(&self, cache: usize, tag: Tag) -> bool {
        let start = self.set(cache, line_of(tag));
        self.tags[start..start + WAYS].contains(&tag)
    }

    /// Makes a tag the most recently used one. It replaces an older version of the same line, or
    /// else the least recently used tag, which is returned.
    #[inline]
    pub(crate) fn insert(&mut self, cache: usize, tag: Tag) -> Option<Tag> {
        let start = self.set(cache, line_of(tag));
        let set = &mut self.tags[start..start + WAYS];
        let same_line = set.iter().position(|held| line_of(*held) == line_of(tag));
        let way = same_line.unwrap_or(WAYS - 1);
        let victim = set[way];
        set[..=way].rotate_right(1);
        set[0] = tag;
        (same_line.is_none() && victim != 0).then_some(victim)
    }
}
