//! Images: the content of a page as words: header, entries, heap, without the free space between
//! them. The log keeps pages as images, and merges move them to another page.

use platform::{Intent, Platform};

use super::{HEADER, Page, SHAPE, Shape, Slot};

/// An image, taken apart.
struct Image<'i> {
    shape: Shape,
    /// The header, and the entries behind it.
    entries: &'i [u64],
    records: &'i [u64],
    /// Place of the first record in the page.
    heap: usize,
    /// Words of a key in its entry.
    width: usize,
    /// True if entries have records.
    has_records: bool,
}

impl<'i> Image<'i> {
    /// An image of a page as large as `page`, and with keys like those; `None` if the words are
    /// none.
    fn of<P: Platform>(words: &'i [u64], page: Page<'_, P>) -> Option<Self> {
        let shape = Shape::unpack(*words.get(SHAPE)?);
        let (page_words, width) = (page.words.len(), page.width);
        if shape.width != page.width_mark() || words.len() > page_words {
            return None;
        }
        let (entries, records) = words.split_at_checked(HEADER + shape.count * (width + 1))?;
        let (heap, has_records) = (page_words - records.len(), shape.level == 0 || page.is_long);
        Some(Image { shape, entries, records, heap, width, has_records })
    }

    /// Keys, and the words behind them.
    fn entries(&self) -> impl Iterator<Item = (&'i [u64], u64)> {
        let width = self.width;
        self.entries[HEADER..].chunks_exact(width + 1).map(move |entry| (&entry[..width], entry[width]))
    }

    /// The record of an entry.
    fn record(&self, slot: Slot) -> Option<&'i [u64]> {
        let at = slot.offset().checked_sub(self.heap)?;
        self.records.get(at..at + slot.words())
    }

    /// The record of a leaf's entry; that of an inner page's has none.
    fn record_of(&self, word: u64) -> Option<&'i [u64]> {
        if self.has_records { self.record(Slot(word)) } else { Some(&[]) }
    }
}

/// The level of the page that an image shows, if it is one.
pub(crate) fn level_of(image: &[u64]) -> Option<usize> {
    image.get(SHAPE).map(|shape| Shape::unpack(*shape).level)
}

impl<P: Platform> Page<'_, P> {
    /// Appends the page's image.
    ///
    /// Pre: the page is latched.
    pub(crate) fn append_image(self, c: P::Core, to: &mut Vec<u64>) {
        let end = self.entry_at(self.count());
        let heap = if self.has_records() { self.heap() } else { self.words.len() };
        let from = to.len();
        to.resize(from + end + self.words.len() - heap, 0);
        let (entries, records) = to[from..].split_at_mut(end);
        P::read_words(c, &self.words[..end], entries);
        P::read_words(c, &self.words[heap..], records);
    }

    /// Makes the page what it was when [`Self::append_image`] was called; false if that was no page
    /// of this size.
    ///
    /// Pre: the page is latched.
    #[must_use]
    pub(crate) fn restore(self, c: P::Core, image: &[u64]) -> bool {
        let Some(Image { entries, records, heap, .. }) = Image::of(image, self) else { return false };
        P::touch(c, self.words.as_ptr(), entries.len() * 8, Intent::Write);
        P::write_words(c, &self.words[..entries.len()], entries);
        P::write_words(c, &self.words[heap..], records);
        true
    }

    /// Appends all entries of another page of the same level, of which this is the image, and whose
    /// keys are larger; false, and nothing is done, if they do not fit.
    ///
    /// Pre: the page is latched.
    #[must_use]
    pub(crate) fn absorb(self, c: P::Core, image: &[u64]) -> bool {
        let image = Image::of(image, self).filter(|image| image.shape.level == self.level());
        let Some(image) = image else { return false };
        let records: Option<usize> =
            image.entries().map(|(_, word)| image.record_of(word).map(<[u64]>::len)).sum();
        let entries = image.entries.len() - HEADER;
        let Some(needed) = records.map(|records| entries + records) else { return false };
        if self.used() + needed > self.room() {
            return false;
        }
        if self.gap() < needed {
            self.compact(c);
        }
        let mut shape = self.shape();
        shape.heap = self.heap();
        self.touch_header(c, Intent::Write);
        for (key, word) in image.entries() {
            let record = image.record_of(word).unwrap_or_default();
            let at = self.entry_at(shape.count);
            let mut word = word;
            if image.has_records {
                let slot = Slot(word);
                shape.heap -= record.len();
                P::write_words(c, &self.words[shape.heap..][..record.len()], record);
                word = slot.moved_to(shape.heap).0;
            }
            P::write_words(c, &self.words[at..][..self.width], key);
            P::write_words(c, &self.words[at + self.width..][..1], &[word]);
            shape.count += 1;
        }
        self.set_shape(shape);
        true
    }

    /// Makes a root, of this number and tree, what its only child was, of which this is the image;
    /// false if it is none.
    ///
    /// Pre: the page is latched.
    #[must_use]
    pub(crate) fn become_child(self, c: P::Core, number: u64, tree: u32, image: &[u64]) -> bool {
        let (Some(level), lsn) = (level_of(image), self.lsn()) else { return false };
        self.format(c, number, tree, level);
        self.set_lsn(lsn);
        self.absorb(c, image)
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;
    use crate::page::{NewEntry, RecordParts};

    const WORDS: usize = 64;

    /// Pages that lie one behind the other.
    fn pages(region: &<Hardware as Platform>::Region, number: usize) -> Page<'_, Hardware> {
        let page = Page::new(Hardware::words_of(region, number * WORDS * 8, WORDS), 1);
        page.format(Hardware::core(), number as u64 + 1, 3, 0);
        page
    }

    /// The content of a leaf: keys, records, and which are ghosts.
    fn content(page: Page<'_, Hardware>) -> Vec<(u64, Vec<u64>, usize, bool)> {
        let c = Hardware::core();
        let entry = |at: usize| {
            let slot = page.slot(c, at);
            let mut words = vec![0; slot.words()];
            Hardware::read_words(c, page.record(slot, 0, slot.words()).expect("a record"), &mut words);
            (page.key(c, at)[0], words, slot.tail_bytes(), slot.is_ghost())
        };
        (0..page.count()).map(entry).collect()
    }

    /// Fills a leaf with entries from `first` on, and takes some away again, so that there is room
    /// between records.
    fn fill(page: Page<'_, Hardware>, first: u64, records: &[usize]) {
        let c = Hardware::core();
        for (number, words) in records.iter().enumerate() {
            let words = vec![first + number as u64; *words];
            let entry = NewEntry::Record(RecordParts { words: &words, tail_bytes: number });
            page.insert(c, page.count(), &[first + number as u64], entry);
        }
        page.remove(c, 1);
        page.set_ghost(c, 0, true);
    }

    #[test]
    fn a_page_that_has_absorbed_another_has_all_of_both() {
        let c = Hardware::core();
        let region = Hardware::region(c, None, 4 * WORDS * 8, "pages").expect("memory");
        let [left, right, copy, empty] = [0, 1, 2, 3].map(|number| pages(&region, number));
        // The room that is left lies between records: they have to be moved together.
        fill(left, 10, &[4, 28, 5, 1]);
        fill(right, 20, &[6, 7, 3]);
        let all = [content(left), content(right)].concat();
        let mut image = Vec::new();
        right.append_image(c, &mut image);
        assert!(copy.restore(c, &image) && content(copy) == content(right));
        assert!(left.has_room_for(right) && left.gap() < right.used());
        assert!(left.absorb(c, &image));
        assert_eq!(content(left), all);
        assert_eq!(left.used(), all.iter().map(|(_, words, ..)| 2 + words.len()).sum::<usize>());
        let mut nothing = Vec::new();
        empty.append_image(c, &mut nothing);
        assert!(left.absorb(c, &nothing) && content(left) == all);
        assert!(empty.absorb(c, &image) && content(empty) == content(right));
    }

    #[test]
    fn what_does_not_fit_or_is_no_image_is_not_absorbed() {
        let c = Hardware::core();
        let region = Hardware::region(c, None, 2 * WORDS * 8, "pages").expect("memory");
        let [left, right] = [0, 1].map(|number| pages(&region, number));
        fill(left, 10, &[20, 4, 8]);
        fill(right, 20, &[12, 8, 10]);
        assert!(!left.has_room_for(right));
        let before = content(left);
        let mut image = Vec::new();
        right.append_image(c, &mut image);
        assert!(!left.absorb(c, &image) && content(left) == before);
        right.format(c, 2, 3, 0);
        for bit in 0..image.len() * 64 {
            let mut flipped = image.clone();
            flipped[bit / 64] ^= 1 << (bit % 64);
            // Nonsense damages only its own page.
            let _ = right.absorb(c, &flipped);
            right.format(c, 2, 3, 0);
        }
        assert!((0..image.len()).all(|words| !right.absorb(c, &image[..words])));
    }
}
