//! Translation of addresses: the TLBs of all cores, and where the entries of page tables are.
//!
//! The hardware threads of a core share its TLBs. A level is asked if the levels before lack a
//! page's translation. A page that no level has is walked: the entry of the last table is a line
//! that is read like any other (in [`crate::cost`]); tables above it are assumed to be in the
//! caches of the page walker. A walk leaves its translation in every level. Each set has its pages
//! in the order of their last use.
//!
//! Entries of page tables are in lines behind those of the machine's memory, in one table for each
//! node: the entry of a page is on the node of the page.

use machine::{TlbArrays, TlbSize};

use crate::arena::prefetch;
use crate::line::LineNumber;
use crate::memory::HUGE_REGION_BYTES;
use crate::model::{TlbLevel, Translation};

/// A page with its size, in a form that is never 0.
type Page = u32;

/// Position of the level that had a translation; [`WALK`] if none had it.
pub(crate) type Level = usize;
/// No level has the translation.
pub(crate) const WALK: Level = usize::MAX;

/// The TLB arrays of one level and size of pages, for all cores.
struct Array {
    pages: Vec<Page>,
    /// Sets of a core's array, a power of two.
    sets: u32,
    ways: usize,
}

impl Array {
    fn new(cores: usize, size: TlbSize) -> Array {
        let sets = size.entries / size.ways;
        Array { pages: vec![0; cores * size.entries], sets: sets as u32, ways: size.ways }
    }

    /// Position of the set of a page in a core's array.
    #[inline(always)]
    fn start(&self, core: usize, page: Page) -> usize {
        // The lowest bit says which size the page has.
        let set = (page >> 1) & (self.sets - 1);
        (core * self.sets as usize + set as usize) * self.ways
    }

    /// The set of a page in a core's array.
    #[inline(always)]
    fn set(&mut self, core: usize, page: Page) -> &mut [Page] {
        let start = self.start(core, page);
        &mut self.pages[start..start + self.ways]
    }

    /// True if a core's array has the page, which becomes the most recently used one.
    #[inline(always)]
    fn find(&mut self, core: usize, page: Page) -> bool {
        let set = self.set(core, page);
        if set[0] == page {
            return true;
        }
        match set.iter().position(|held| *held == page) {
            Some(way) => {
                set[..=way].rotate_right(1);
                true
            }
            None => false,
        }
    }

    /// Inserts a page that the core's array lacks, in place of the least recently used one.
    fn insert(&mut self, core: usize, page: Page) {
        let set = self.set(core, page);
        set.rotate_right(1);
        set[0] = page;
    }
}

/// A level: its arrays for small and for huge pages.
struct LevelArrays {
    /// Without entries if the level has no translations of that size.
    arrays: [Array; 2],
    /// For each size of pages the array that has them.
    array_of: [u8; 2],
    hit_ps: u64,
}

impl LevelArrays {
    fn new(cores: usize, level: &TlbLevel) -> LevelArrays {
        let none = TlbSize { entries: 0, ways: 1 };
        let array = |size: Option<TlbSize>| Array::new(cores, size.unwrap_or(none));
        let (arrays, array_of) = match level.arrays {
            TlbArrays::Shared(size) => ([array(Some(size)), array(None)], [0, 0]),
            TlbArrays::Apart { small, huge } => ([array(small), array(huge)], [0, 1]),
        };
        LevelArrays { arrays, array_of, hit_ps: level.hit_ps }
    }

    /// The array for a page's size; `None` if the level has no translations of that size.
    #[inline(always)]
    fn array(&mut self, page: Page) -> Option<&mut Array> {
        let array = &mut self.arrays[usize::from(self.array_of[page as usize & 1] & 1)];
        (array.sets > 0).then_some(array)
    }
}

/// Translation of a page for a core.
pub(crate) struct Translated {
    /// Level that had it.
    pub(crate) level: Level,
    /// log2 of the page's lines.
    pub(crate) shift: u32,
    /// Time for which the levels behind the first were asked.
    pub(crate) lookup_ps: u64,
}

/// The TLBs of all cores, and the layout of page tables.
pub(crate) struct Translator {
    first: LevelArrays,
    farther: Vec<LevelArrays>,
    /// log2 of the lines of a small and of a huge page.
    shifts: [u32; 2],
    /// For each aligned range of the size of a huge page a bit that says if it is one.
    huge: Vec<u64>,
    huge_pages: bool,
    /// log2 of the bytes of a line and of a page's entry.
    line_shift: u32,
    entry_shift: u32,
    /// First line of the tables of the first node.
    first_line: LineNumber,
    /// Lines of a node's tables: entries of small pages, and of all pages.
    small_lines: u32,
    table_lines: u32,
}

impl Translator {
    /// TLBs of this many cores of a machine with this much memory.
    pub(crate) fn new(
        translation: &Translation,
        cores: usize,
        memory_bytes: usize,
        line_shift: u32,
    ) -> Translator {
        let (small_lines, table_lines) = translation.table_lines(memory_bytes, line_shift);
        Translator {
            first: LevelArrays::new(cores, &translation.levels[0]),
            farther: translation.levels[1..].iter().map(|level| LevelArrays::new(cores, level)).collect(),
            shifts: [translation.small_shift, translation.huge_shift].map(|shift| shift - line_shift),
            huge: vec![0; memory_bytes.div_ceil(1 << translation.huge_shift).div_ceil(64)],
            huge_pages: translation.huge_pages,
            line_shift,
            entry_shift: translation.entry_shift,
            first_line: memory_bytes.div_ceil(1 << line_shift) as LineNumber,
            small_lines: small_lines as u32,
            table_lines: table_lines as u32,
        }
    }

    /// Records new memory. A region that requests huge pages gets them where it covers them whole.
    pub(crate) fn place(&mut self, offset: usize, bytes: usize) {
        let shift = self.shifts[1] + self.line_shift;
        let requests = self.huge_pages && bytes >= HUGE_REGION_BYTES;
        let end = offset + bytes;
        for number in offset >> shift..=(end - 1) >> shift {
            let is_huge = requests && offset <= number << shift && (number + 1) << shift <= end;
            let bits = &mut self.huge[number / 64];
            *bits = *bits & !(1 << (number % 64)) | u64::from(is_huge) << (number % 64);
        }
    }

    /// A page, in a form that is never 0, which is an empty entry.
    #[inline(always)]
    fn page(&self, line: LineNumber) -> (Page, u32) {
        let huge = line >> self.shifts[1];
        let size = (self.huge[(huge / 64) as usize] >> (huge % 64) & 1) as usize;
        let shift = self.shifts[size];
        (((line >> shift) + 1) << 1 | size as Page, shift)
    }

    /// Prefetches the set of a line's page on the host.
    #[inline(always)]
    pub(crate) fn announce(&self, core: usize, line: LineNumber) {
        if (line >> self.shifts[1]) as usize / 64 >= self.huge.len() {
            return;
        }
        let (page, _) = self.page(line);
        let array = &self.first.arrays[usize::from(self.first.array_of[page as usize & 1] & 1)];
        prefetch(array.pages.as_ptr().wrapping_add(array.start(core, page)));
    }

    /// Translates the address of a line for a core. The TLBs have the translation afterwards.
    #[inline]
    pub(crate) fn translate(&mut self, core: usize, line: LineNumber) -> Translated {
        let (page, shift) = self.page(line);
        let first = self.first.array(page);
        if first.is_some_and(|array| array.find(core, page)) {
            return Translated { level: 0, shift, lookup_ps: 0 };
        }
        self.translate_farther(core, page, shift)
    }

    /// Asks the levels behind the first.
    fn translate_farther(&mut self, core: usize, page: Page, shift: u32) -> Translated {
        let mut lookup_ps = 0;
        let mut level = WALK;
        for (number, arrays) in self.farther.iter_mut().enumerate() {
            // Before a translation is found the size of the page is unknown, so every level takes
            // its time.
            lookup_ps = arrays.hit_ps;
            if arrays.array(page).is_some_and(|array| array.find(core, page)) {
                level = number + 1;
                break;
            }
        }
        let lacking = level.min(1 + self.farther.len());
        for arrays in std::iter::once(&mut self.first).chain(&mut self.farther).take(lacking) {
            if let Some(array) = arrays.array(page) {
                array.insert(core, page);
            }
        }
        Translated { level, shift, lookup_ps }
    }

    /// The line with the entry of the page of a line, which is on this node.
    pub(crate) fn entry(&self, line: LineNumber, shift: u32, node: usize) -> LineNumber {
        let first = if shift == self.shifts[1] { self.small_lines } else { 0 };
        let entry = ((u64::from(line >> shift) << self.entry_shift) >> self.line_shift) as u32;
        self.first_line + node as u32 * self.table_lines + first + entry
    }

    /// The node of a line of page tables; `None` for lines of memory.
    #[inline]
    pub(crate) fn node(&self, line: LineNumber) -> Option<usize> {
        Some((line.checked_sub(self.first_line)? / self.table_lines) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translator(huge_pages: bool) -> Translator {
        let size = |entries: usize, ways: usize| Some(TlbSize { entries, ways });
        let level = |small, huge, hit_ps| TlbLevel { arrays: TlbArrays::Apart { small, huge }, hit_ps };
        let levels = vec![level(size(4, 2), size(2, 2), 0), level(size(8, 2), None, 7)];
        let translation = Translation { small_shift: 12, huge_shift: 21, entry_shift: 3, levels, huge_pages };
        Translator::new(&translation, 2, 64 << 20, 6)
    }

    /// Levels that have the translations of these addresses, one after the other.
    fn levels(translator: &mut Translator, core: usize, addresses: &[usize]) -> Vec<Level> {
        addresses.iter().map(|at| translator.translate(core, (at >> 6) as LineNumber).level).collect()
    }

    #[test]
    fn a_level_keeps_what_was_used_last_and_cores_have_their_own() {
        let mut small = translator(false);
        small.place(0, 16 << 20);
        // Pages of one set of the first level, and of two sets of the second.
        let pages = [0, 2, 4].map(|page| page << 12);
        assert_eq!(levels(&mut small, 0, &pages), [WALK; 3]);
        assert_eq!(levels(&mut small, 0, &pages), [1, 1, 1], "three pages for two ways");
        assert_eq!(levels(&mut small, 0, &pages[1..]), [0, 0]);
        assert_eq!(levels(&mut small, 1, &pages[1..]), [WALK, WALK]);
    }

    #[test]
    fn whole_huge_pages_of_large_regions_are_huge() {
        let mut huge = translator(true);
        huge.place(2 << 20, (5 << 20) + 4096);
        assert_eq!(huge.huge[0], 0b00110);
        huge.place(2 << 20, 4096);
        assert_eq!(huge.huge[0], 0b00100, "the range was returned and used again");
        huge.place(4 << 20, 2 << 20);
        assert_eq!(levels(&mut huge, 0, &[4 << 20, 5 << 20, (6 << 20) - 1]), [WALK, 0, 0]);
        assert_eq!(levels(&mut huge, 0, &[6 << 20, (6 << 20) + 4096]), [WALK, WALK]);
    }

    #[test]
    fn all_levels_are_asked_before_a_walk_even_those_without_huge_pages() {
        let mut huge = translator(true);
        huge.place(0, 8 << 20);
        let lookups: Vec<u64> = (0..3).map(|at| huge.translate(0, at << 15).lookup_ps).collect();
        assert_eq!(lookups, [7, 7, 7]);
        assert_eq!(huge.translate(0, 2 << 15).lookup_ps, 0);
    }

    #[test]
    fn entries_of_neighbours_share_a_line_on_the_node_of_their_pages() {
        let translator = translator(true);
        let entry = |page: u32, shift: u32, node: usize| translator.entry(page << shift, shift, node);
        assert_eq!(entry(0, 6, 0), 1 << 20, "behind the memory");
        assert_eq!(entry(7, 6, 0), entry(0, 6, 0));
        assert_eq!(entry(8, 6, 0), entry(0, 6, 0) + 1);
        // Tables of 16,384 small pages, then of 32 huge ones.
        assert_eq!(entry(0, 15, 0), (1 << 20) + 2048);
        assert_eq!(entry(0, 6, 1), (1 << 20) + 2048 + 4);
        assert_eq!(translator.node(entry(31, 15, 1)), Some(1));
        assert_eq!(translator.node((1 << 20) - 1), None);
    }
}
