//! Long keys in pages: keys of an index of which the longest has more words than an entry has.
//!
//! An entry has the first words of the key, and a place of a record, in inner pages too. The
//! record of a leaf's entry has the row or the primary key, that of an inner page the number of the
//! child; the rest of the key lies behind, and the entry's word says how many words that is. So the
//! rest of a key moves with its record, and pages are split, merged, repeated and checked like
//! those with short keys. Keys have no zeros at their ends.

use std::cmp::Ordering as Order;

use platform::{Intent, Platform};

use super::{Page, WordSpan};
use crate::key::{KEY_WORDS_MAX, KeyWords, ShortKey, significant};

/// In place of the number of words in the shape of a page with long keys.
const LONG: usize = 0xff;
const _: () = assert!(KEY_WORDS_MAX < LONG);

impl<'p, P: Platform> Page<'p, P> {
    /// The words of a key, as the shape has them.
    pub(super) fn width_mark(self) -> usize {
        if self.is_long { LONG } else { self.width }
    }

    /// Returns true if entries have records.
    #[inline]
    pub(super) fn has_records(self) -> bool {
        self.is_long || self.level() == 0
    }

    /// Returns true if the page can have a key of this length.
    pub(super) fn takes(self, key: &[u64]) -> bool {
        self.is_long || key.len() == self.width
    }

    /// The words of a key that lie behind its record.
    #[inline]
    pub(super) fn rest_of(self, key: &[u64]) -> &[u64] {
        if self.is_long { key.get(self.width..).unwrap_or_default() } else { &[] }
    }

    /// The number of the child of an inner page's entry.
    #[inline]
    pub(crate) fn child(self, c: P::Core, entry: usize) -> u64 {
        if !self.is_long {
            return self.word(c, entry);
        }
        match self.record(self.slot(c, entry), 0, 1) {
            Some([word]) => {
                P::touch(c, std::ptr::from_ref(word), 8, Intent::Read);
                P::peek(word)
            }
            // The page is changing.
            _ => 0,
        }
    }

    /// The words behind those that an entry has of its key.
    fn rest(self, c: P::Core, entry: usize) -> &'p [P::Word] {
        let slot = self.slot(c, entry);
        let rest = WordSpan { first: slot.record_words(), count: slot.rest_words() };
        let words = self.record(slot, rest.first, rest.count).unwrap_or_default();
        if let Some(first) = words.first() {
            P::touch(c, std::ptr::from_ref(first), words.len() * 8, Intent::Read);
        }
        words
    }

    /// The key of an entry.
    #[inline(never)]
    pub(super) fn long_key(self, c: P::Core, entry: usize) -> KeyWords {
        let first = self.key_words(c, entry);
        match self.rest(c, entry) {
            [] => KeyWords::of(significant(&first)),
            rest => {
                let words: Vec<u64> = first.iter().copied().chain(rest.iter().map(P::peek)).collect();
                KeyWords::of(&words)
            }
        }
    }

    /// The order of the key of an entry and this key.
    pub(super) fn order_long(self, c: P::Core, entry: usize, key: &[u64]) -> Order {
        let own = self.key_words(c, entry);
        let (first, rest) = key.split_at(key.len().min(self.width));
        let wanted = ShortKey::from_fn(self.width, |word| first.get(word).copied().unwrap_or(0));
        match own[..].cmp(&wanted[..]) {
            Order::Equal => self.rest(c, entry).iter().map(P::peek).cmp(rest.iter().copied()),
            different => different,
        }
    }
}
