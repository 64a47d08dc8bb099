//! Address translation of a described machine: sizes of its pages and its TLBs.

use machine::{TlbArrays, TlbSize};

/// Address translation of each core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// log2 of the bytes of a small page, of a huge page, and of a page's part of the page table.
    pub(crate) small_shift: u32,
    pub(crate) huge_shift: u32,
    pub(crate) entry_shift: u32,
    /// TLBs in the order in which they are asked; at least one.
    pub(crate) levels: Vec<TlbLevel>,
    /// The operating system gives huge pages to regions that request them.
    pub(crate) huge_pages: bool,
}

/// A level of TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlbLevel {
    pub(crate) arrays: TlbArrays,
    /// Time by which an access takes longer if this level has its translation.
    pub(crate) hit_ps: u64,
}

impl Translation {
    /// The same with second and further levels that have only `scale` of their entries, 0 to 1, but
    /// no fewer than the level before.
    pub(super) fn scaled(mut self, scale: f64) -> Translation {
        let shrunk = |size: TlbSize, least: usize| {
            let entries = ((size.entries as f64 * scale.clamp(0.0, 1.0)) as usize).max(least);
            let sets = entries.div_ceil(size.ways).next_power_of_two();
            TlbSize { entries: (sets * size.ways).min(size.entries), ..size }
        };
        for number in 1..self.levels.len() {
            let before = self.levels[number - 1].arrays;
            let least = |huge: bool| array(before, huge).map_or(1, |size| size.entries);
            let arrays = &mut self.levels[number].arrays;
            *arrays = match *arrays {
                TlbArrays::Shared(size) => TlbArrays::Shared(shrunk(size, least(false).max(least(true)))),
                TlbArrays::Apart { small, huge } => TlbArrays::Apart {
                    small: small.map(|size| shrunk(size, least(false))),
                    huge: huge.map(|size| shrunk(size, least(true))),
                },
            };
        }
        self
    }
}

/// The array for pages of one size.
fn array(arrays: TlbArrays, of_huge: bool) -> Option<TlbSize> {
    match arrays {
        TlbArrays::Shared(size) => Some(size),
        TlbArrays::Apart { huge, .. } if of_huge => huge,
        TlbArrays::Apart { small, .. } => small,
    }
}

impl Translation {
    /// Lines of the page tables for this much memory: those of small pages, and of all.
    pub(crate) fn table_lines(&self, memory_bytes: usize, line_shift: u32) -> (usize, usize) {
        let lines = |page_shift: u32| {
            let pages = memory_bytes.div_ceil(1 << page_shift);
            (pages << self.entry_shift).div_ceil(1 << line_shift)
        };
        let small = lines(self.small_shift);
        (small, small + lines(self.huge_shift))
    }
}
