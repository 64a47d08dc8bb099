//! Entries that move: to another page when a page is split, and within a page to make room.

use platform::{Intent, Platform};

use super::{ASCENDING_SCORE, HEAP, Page, Shape, Slot};

impl<P: Platform> Page<'_, P> {
    /// The number of entries that stay when a full page is split for an entry at `at`.
    pub(crate) fn split_at(self, c: P::Core, at: usize) -> usize {
        let count = self.count();
        let ascends = P::peek(&self.words[HEAP]) >> 16 & 0xffff >= ASCENDING_SCORE;
        // The entry before the new one begins the new page, and names the gap between the two pages
        // as before.
        if (ascends && at > self.shape().last && at > count / 2) || at == count {
            return (at - 1).clamp(1, count - 1);
        }
        if !self.has_records() {
            return count / 2;
        }
        // Half of the words that are in use.
        let used = |entry: usize| self.stride() + self.slot(c, entry).words();
        let half = (0..count).map(used).sum::<usize>() / 2;
        let mut sum = 0;
        let stays = (0..count).take_while(|entry| {
            sum += used(*entry);
            sum <= half
        });
        stays.count().clamp(1, count - 1)
    }

    /// Appends entries to another page, which has room for them.
    ///
    /// Pre: both pages are latched.
    pub(crate) fn copy_to(self, c: P::Core, from: usize, end: usize, to: Page<'_, P>) {
        let has_records = self.has_records();
        let mut shape = to.shape();
        shape.heap = to.heap();
        let mut record = Vec::new();
        to.touch_header(c, Intent::Write);
        for entry in from..end {
            let key = self.key_words(c, entry);
            let mut word = self.word(c, entry);
            if has_records {
                let slot = Slot(word);
                record.resize(slot.words(), 0);
                P::read_words(c, &self.words[slot.offset()..slot.offset() + slot.words()], &mut record);
                shape.heap -= slot.words();
                P::write_words(c, &to.words[shape.heap..shape.heap + slot.words()], &record);
                word = slot.moved_to(shape.heap).0;
            }
            let at = to.entry_at(shape.count);
            P::touch(c, &raw const to.words[at], to.stride() * 8, Intent::Write);
            for (word, value) in to.words[at..].iter().zip(&key[..]) {
                P::poke(word, *value);
            }
            P::poke(&to.words[at + self.width], word);
            shape.count += 1;
        }
        shape.last = shape.count;
        to.set_shape(shape);
    }

    /// Moves the records together, so that all free words lie between entries and heap.
    ///
    /// Pre: the page is latched.
    pub(super) fn compact(self, c: P::Core) {
        if !self.has_records() {
            return;
        }
        let mut image = vec![0; self.words.len()];
        P::read_words(c, self.words, &mut image);
        let mut heap = self.words.len();
        for entry in 0..self.count() {
            let slot = self.slot(c, entry);
            let (from, words) = (slot.offset(), slot.words());
            heap -= words;
            P::write_words(
                c,
                &self.words[heap..heap + words],
                &image[from.min(image.len() - words)..][..words],
            );
            self.set_word(c, entry, slot.moved_to(heap).0);
        }
        self.touch_header(c, Intent::Write);
        self.set_shape(Shape { heap, ..self.shape() });
        let word = &self.words[HEAP];
        P::poke(word, P::peek(word) & !0xffff);
    }
}
