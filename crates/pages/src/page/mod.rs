//! Layout of a page, and search and changes within it.
//!
//! ```text
//! word 0        checksum of all that follows (32 bits), version of the format (8)
//! word 1        number of the page: one that was written elsewhere is noticed
//! word 2        where the record of the last change ends in the log; 0: there was none
//! word 3        shape: entries (16 bits), level (8), words of a key (8), begin of the heap (16), place of the last insertion (16)
//! word 4        words of the heap that nothing uses (16 bits), score of ascending insertions (16), tree (32)
//! words 5..8    zero; the header fills one line
//! words 8..     entries, ascending: the words of the key, then one word
//! then          free space
//! then          the heap, which grows towards the entries: records of a leaf
//! ```
//!
//! The word of a leaf's entry has the place of the record ([`Slot`]), that of an inner page's entry
//! is the number of a child. Pages with long keys are different, see `long`.
//!
//! Child `i` covers the keys from key `i` (inclusive) to key `i + 1`
//! (exclusive); the first covers those below its key, too. Pages hold no fences and no numbers of
//! siblings: a descent has both.
//!
//! Concurrency: pages are read by `peek` while others may write them, or put another page in their
//! frame. Everything read is a guess until the frame's version has been validated; counts and
//! places are clamped, so that a guess stays within the page. Methods that write need the frame's
//! latch.

mod applied;
mod change;
mod entry;
mod filed;
mod image;
mod long;
mod moving;

pub(crate) use change::Change;
pub(crate) use entry::{KeyPlace, NewEntry, RecordParts, Slot, WordSpan};
pub use filed::PageFault;
pub(crate) use filed::{seal, verify};
pub(crate) use image::level_of;

use std::cmp::Ordering as Order;
use std::hint::select_unpredictable;

use platform::{Intent, Platform, Work};

use crate::key::{FIRST_WORDS, KeyWords, ShortKey, is_long};

const CHECKSUM: usize = 0;
const NUMBER: usize = 1;
const LSN: usize = 2;
const SHAPE: usize = 3;
const HEAP: usize = 4;
/// Words of the header.
pub(crate) const HEADER: usize = 8;
/// Version of the format.
const FORMAT: u64 = 1;

/// Score from which a full leaf is split at the place of insertion.
const ASCENDING_SCORE: u64 = 3;
const SCORE_MAX: u64 = 15;
/// The next insertion counts as a neighbour of the last one within this distance.
const NEAR: usize = 3;

/// Bytes of a page that are prefetched before it is searched: the header, and as many keys as
/// leaves with short keys have in the first half.
const AHEAD_BYTES: usize = 512;

/// Words of entries that make room together.
const MOVED_TOGETHER: usize = 8;

/// Steps in which the fill of a page is counted.
const FILL_STEPS: usize = 8;
/// A page of at most this many steps is thin: it is merged with a neighbour, if possible.
pub(crate) const THIN_FILL: usize = 4;
/// Steps that two pages fill that have become one, at most.
const MERGED_FILL: usize = 6;

/// Entries that an inner page must hold at least, and records that a leaf must.
const ENTRIES_MIN: usize = 4;
/// The same of pages with long keys, which have fewer entries where keys are as long as possible.
const LONG_ENTRIES_MIN: usize = 3;

/// Smallest and largest page.
pub(crate) const PAGE_BYTES: std::ops::RangeInclusive<usize> = 512..=64 << 10;

/// Most words of a record that a page of `words` words takes beside its key.
pub(crate) fn record_words_max(words: usize, width: usize) -> usize {
    entry_words_max(words, width).saturating_sub(width + 1)
}

/// Most words of an entry with its record, in a page of `words` words.
fn entry_words_max(words: usize, width: usize) -> usize {
    (words - HEADER) / if is_long(width) { LONG_ENTRIES_MIN } else { ENTRIES_MIN }
}

/// Returns true if a page of `words` words takes an entry with this key and a record of `record`
/// words, in a tree with keys of `width` words at most.
pub(crate) fn takes_entry(words: usize, width: usize, key: &[u64], record: usize) -> bool {
    let in_entry = if is_long(width) { FIRST_WORDS } else { width };
    let rest = key.len().saturating_sub(in_entry);
    in_entry + 1 + rest + record <= entry_words_max(words, width)
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    count: usize,
    level: usize,
    width: usize,
    heap: usize,
    last: usize,
}

impl Shape {
    #[inline]
    fn unpack(word: u64) -> Self {
        Shape {
            count: (word & 0xffff) as usize,
            level: (word >> 16 & 0xff) as usize,
            width: (word >> 24 & 0xff) as usize,
            heap: (word >> 32 & 0xffff) as usize,
            last: (word >> 48) as usize,
        }
    }

    #[inline]
    fn pack(self) -> u64 {
        self.count as u64
            | (self.level as u64) << 16
            | (self.width as u64) << 24
            | (self.heap as u64) << 32
            | (self.last as u64) << 48
    }
}

/// The words of a page in its frame.
pub(crate) struct Page<'p, P: Platform> {
    words: &'p [P::Word],
    /// Words of a key in its entry.
    width: usize,
    is_long: bool,
}

impl<P: Platform> Clone for Page<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Page<'_, P> {}

impl<'p, P: Platform> Page<'p, P> {
    /// The page of a tree with keys of `width` words.
    #[inline]
    pub(crate) fn new(words: &'p [P::Word], width: usize) -> Self {
        debug_assert!(width > 0);
        let is_long = is_long(width);
        Page { words, width: if is_long { FIRST_WORDS } else { width }, is_long }
    }

    #[inline]
    fn stride(self) -> usize {
        self.width + 1
    }

    #[inline]
    fn shape(self) -> Shape {
        Shape::unpack(P::peek(&self.words[SHAPE]))
    }

    #[inline]
    fn set_shape(self, shape: Shape) {
        P::poke(&self.words[SHAPE], shape.pack());
    }

    /// Entries; none, if the page has no room for that many: it is changing, and validation will
    /// fail.
    #[inline]
    pub(crate) fn count(self) -> usize {
        let count = self.shape().count;
        // No division: it takes as long as several steps of a search.
        if self.entry_at(count) <= self.words.len() { count } else { 0 }
    }

    /// 0 in leaves.
    #[inline]
    pub(crate) fn level(self) -> usize {
        self.shape().level
    }

    /// Declares that header and keys of the page will be read.
    #[inline]
    pub(crate) fn touch_header(self, c: P::Core, intent: Intent) {
        P::touch(c, &raw const self.words[0], HEADER * 8, intent);
    }

    #[inline]
    fn entry_at(self, entry: usize) -> usize {
        HEADER + entry * self.stride()
    }

    /// Prefetches the lines that a search for a key reads first.
    #[inline]
    pub(crate) fn prefetch(self, c: P::Core) {
        P::prefetch(c, self.words.as_ptr(), AHEAD_BYTES.min(self.words.len() * 8), Intent::Read);
    }

    /// Prefetches words of a record.
    #[inline]
    pub(crate) fn prefetch_record(self, c: P::Core, slot: Slot, words: WordSpan) {
        let WordSpan { first, count } = words;
        if let Some(words) = self.record(slot, first, count.min(slot.words().saturating_sub(first))) {
            P::prefetch(c, words.as_ptr(), words.len() * 8, Intent::Read);
        }
    }

    /// The words of a key in the entry, which the page has room for.
    #[inline(always)]
    fn key_words(self, c: P::Core, entry: usize) -> ShortKey {
        let at = self.entry_at(entry);
        let words = &self.words[at..at + self.width];
        P::touch(c, words.as_ptr(), self.width * 8, Intent::Read);
        ShortKey::from_fn(self.width, |word| P::peek(&words[word]))
    }

    /// The key of an entry that the page has room for.
    #[inline]
    pub(crate) fn key(self, c: P::Core, entry: usize) -> KeyWords {
        if self.is_long {
            return self.long_key(c, entry);
        }
        KeyWords::Short(self.key_words(c, entry))
    }

    /// The word behind the key of an entry.
    #[inline]
    pub(crate) fn word(self, c: P::Core, entry: usize) -> u64 {
        let word = &self.words[self.entry_at(entry) + self.width];
        P::touch(c, std::ptr::from_ref(word), 8, Intent::Read);
        P::peek(word)
    }

    #[inline]
    fn set_word(self, c: P::Core, entry: usize, value: u64) {
        let word = &self.words[self.entry_at(entry) + self.width];
        P::touch(c, std::ptr::from_ref(word), 8, Intent::Write);
        P::poke(word, value);
    }

    /// Place of the record of a leaf's entry.
    #[inline]
    pub(crate) fn slot(self, c: P::Core, entry: usize) -> Slot {
        Slot(self.word(c, entry))
    }

    /// The number of entries with smaller keys; with `up_to`, with the key itself too.
    #[inline]
    fn search(self, c: P::Core, key: &[u64], up_to: bool) -> usize {
        let (stride, count) = (self.stride(), self.count());
        let entries = &self.words[HEADER..HEADER + count * stride];
        if let ([wanted], 2) = (key, stride) {
            // Most keys are one word.
            let is_before = |entry: usize| {
                let word = &entries[entry * 2];
                P::touch(c, word, 8, Intent::Read);
                let found = P::peek(word);
                (found < *wanted) | (up_to & (found == *wanted))
            };
            return Self::partition(c, count, is_before);
        }
        let is_before = |entry: usize| match self.order(c, entry, key) {
            Order::Less => true,
            Order::Equal => up_to,
            Order::Greater => false,
        };
        Self::partition(c, count, is_before)
    }

    /// The number of entries, the first ones, of which this is true. No branch depends on a
    /// comparison: half of them would be predicted wrongly.
    #[inline(always)]
    fn partition(c: P::Core, count: usize, is_before: impl Fn(usize) -> bool) -> usize {
        let (mut base, mut size, mut steps) = (0, count, u32::from(count > 0));
        while size > 1 {
            let half = size / 2;
            base = select_unpredictable(is_before(base + half - 1), base + half, base);
            size -= half;
            steps += 1;
        }
        P::work(c, Work::KeyCompare, steps);
        base + usize::from(size > 0 && is_before(base))
    }

    /// The order of the key of an entry and this key.
    #[inline]
    fn order(self, c: P::Core, entry: usize, key: &[u64]) -> Order {
        let from = self.entry_at(entry);
        if self.is_long {
            return self.order_long(c, entry, key);
        }
        Self::compare(c, &self.words[from..from + self.width], key)
    }

    #[inline]
    fn compare(c: P::Core, words: &[P::Word], key: &[u64]) -> Order {
        P::touch(c, words.as_ptr(), words.len() * 8, Intent::Read);
        for (word, wanted) in words.iter().zip(key) {
            match P::peek(word).cmp(wanted) {
                Order::Equal => {}
                other => return other,
            }
        }
        Order::Equal
    }

    /// The place of a key in a leaf.
    #[inline]
    pub(crate) fn find(self, c: P::Core, key: &[u64]) -> KeyPlace {
        let (entry, count) = (self.search(c, key, false), self.count());
        let is_there = entry < count && self.order(c, entry, key) == Order::Equal;
        KeyPlace { entry, is_there }
    }

    /// Returns true if a key comes right behind that of an entry, before that of the next one.
    #[inline]
    pub(crate) fn comes_behind(self, c: P::Core, key: &[u64], entry: usize) -> bool {
        let order = |entry: usize| self.order(c, entry, key);
        entry + 1 < self.count() && order(entry) == Order::Less && order(entry + 1) == Order::Greater
    }

    /// The number of entries with keys up to this one, itself included.
    #[inline]
    pub(crate) fn count_up_to(self, c: P::Core, key: &[u64]) -> usize {
        self.search(c, key, true)
    }

    /// The entry of an inner page whose child covers the key; with `below`, the keys right below
    /// it.
    #[inline]
    pub(crate) fn child_for(self, c: P::Core, key: &[u64], below: bool) -> usize {
        self.search(c, key, !below).saturating_sub(1)
    }

    /// The words of a record, or those from number `first` on; `None` where a racing change has
    /// left nonsense.
    #[inline]
    pub(crate) fn record(self, slot: Slot, first: usize, count: usize) -> Option<&'p [P::Word]> {
        let at = slot.offset() + first;
        (first + count <= slot.words()).then(|| self.words.get(at..at + count)).flatten()
    }

    /// Makes an empty page.
    pub(crate) fn format(self, c: P::Core, number: u64, tree: u32, level: usize) {
        self.touch_header(c, Intent::Write);
        for word in &self.words[..HEADER] {
            P::poke(word, 0);
        }
        P::poke(&self.words[NUMBER], number);
        P::poke(&self.words[HEAP], u64::from(tree) << 32);
        let heap = self.words.len() & 0xffff;
        self.set_shape(Shape { count: 0, level, width: self.width_mark(), heap, last: 0 });
    }

    /// The number that the page bears.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        P::peek(&self.words[NUMBER])
    }

    /// The tree that the page belongs to.
    pub(crate) fn tree(self) -> u32 {
        (P::peek(&self.words[HEAP]) >> 32) as u32
    }

    /// First word of the heap.
    #[inline]
    fn heap(self) -> usize {
        // A page of 64 KiB has 8192 words: an empty heap begins at its end.
        self.shape().heap.min(self.words.len())
    }

    #[inline]
    fn garbage(self) -> usize {
        (P::peek(&self.words[HEAP]) & 0xffff) as usize
    }

    fn add_garbage(self, words: usize) {
        let word = &self.words[HEAP];
        P::poke(word, P::peek(word) + words as u64);
    }

    /// Words between entries and heap.
    #[inline]
    fn gap(self) -> usize {
        self.heap().saturating_sub(self.entry_at(self.count()))
    }

    /// Words that a page has for entries and records.
    fn room(self) -> usize {
        self.words.len() - HEADER
    }

    /// Words that entries and records take.
    fn used(self) -> usize {
        let records = (self.words.len() - self.heap()).saturating_sub(self.garbage());
        self.entry_at(self.count()) - HEADER + records
    }

    /// Fill of the page, in [`FILL_STEPS`], rounded up: 0 if it is empty.
    pub(crate) fn fill(self) -> usize {
        (self.used() * FILL_STEPS).div_ceil(self.room())
    }

    /// Returns true if all entries of another page of the same level fit with some room to spare,
    /// so that the next insertion does not split the page.
    pub(crate) fn has_room_for(self, other: Self) -> bool {
        (self.used() + other.used()) * FILL_STEPS <= self.room() * MERGED_FILL
    }

    /// Returns true if an entry with this key and a record of `record` words fits; space of removed
    /// records is reclaimed by [`Self::compact`].
    #[inline]
    pub(crate) fn fits(self, key: &[u64], record: usize) -> bool {
        self.gap() + self.garbage() >= self.stride() + record + self.rest_of(key).len()
    }

    /// Returns true if an entry for a child with this key fits.
    #[inline]
    pub(crate) fn fits_child(self, key: &[u64]) -> bool {
        self.fits(key, usize::from(self.is_long))
    }

    /// Returns true if a record of `record` words fits in place of that of the entry of this key.
    #[inline]
    pub(crate) fn fits_instead(self, slot: Slot, key: &[u64], record: usize) -> bool {
        let record = record + self.rest_of(key).len();
        record <= slot.words() || self.gap() + self.garbage() + slot.words() >= record
    }

    /// Inserts an entry. An inner page's has no record: `record` is `Err` with the child.
    ///
    /// Pre: the page is latched, the entry fits and the key is not there.
    pub(crate) fn insert(self, c: P::Core, at: usize, key: &[u64], value: NewEntry<'_>) {
        let rest = self.rest_of(key);
        let record = value.words(self.is_long) + rest.len();
        if self.gap() < self.stride() + record {
            self.compact(c);
        }
        let (count, stride) = (self.count(), self.stride());
        let (from, end) = (self.entry_at(at), self.entry_at(count));
        assert!(at <= count && self.gap() >= stride + record, "no room for an entry");
        self.touch_header(c, Intent::Write);
        P::touch(c, &raw const self.words[from], (end - from + stride) * 8, Intent::Write);
        // From the end, several words at a time.
        let (moved, mut left) = (&self.words[from..end + stride], end - from);
        while left >= MOVED_TOGETHER {
            left -= MOVED_TOGETHER;
            let from = &moved[left..][..MOVED_TOGETHER];
            let words: [u64; MOVED_TOGETHER] = std::array::from_fn(|word| P::peek(&from[word]));
            let to = &moved[left + stride..][..MOVED_TOGETHER];
            to.iter().zip(words).for_each(|(to, word)| P::poke(to, word));
        }
        for word in (0..left).rev() {
            P::poke(&moved[word + stride], P::peek(&moved[word]));
        }
        for (word, value) in self.words[from..from + self.width].iter().zip(key) {
            P::poke(word, *value);
        }
        // Only a long key can be shorter.
        for word in &self.words[from + key.len().min(self.width)..from + self.width] {
            P::poke(word, 0);
        }
        let mut shape = self.shape();
        shape.heap = self.heap() - record;
        let word = match value {
            NewEntry::Child(child) if self.is_long => {
                let parts = RecordParts { words: &[child], tail_bytes: 0 };
                self.write_record(c, shape.heap, parts, rest)
            }
            NewEntry::Child(child) => child,
            NewEntry::Record(parts) => self.write_record(c, shape.heap, parts, rest),
        };
        P::poke(&self.words[from + self.width], word);
        self.note_insertion(at, shape.last);
        self.set_shape(Shape { count: count + 1, last: at, ..shape });
        P::work(c, Work::CopyWord, (end - from + stride) as u32);
    }

    /// Counts insertions that came shortly above the one before.
    fn note_insertion(self, at: usize, last: usize) {
        let word = P::peek(&self.words[HEAP]);
        let score = word >> 16 & 0xffff;
        let score = match () {
            () if at > last && at - last <= NEAR => (score + 1).min(SCORE_MAX),
            () if last.abs_diff(at) < NEAR => score,
            () => 0,
        };
        P::poke(&self.words[HEAP], word & !0xffff_0000 | score << 16);
    }

    /// Writes a record here, with the rest of its key, if keys are long; the word of its entry.
    #[inline]
    fn write_record(self, c: P::Core, at: usize, parts: RecordParts<'_>, rest: &[u64]) -> u64 {
        let words = parts.words();
        parts.write::<P>(c, &self.words[at..]);
        if !self.is_long {
            return Slot::new(at, words, parts.tail_bytes).0;
        }
        P::write_words(c, &self.words[at + words..][..rest.len()], rest);
        Slot::new(at, words + rest.len(), parts.tail_bytes).with_rest(rest.len()).0
    }

    /// Puts a record in place of that of the entry of this key, which fits; it is no ghost.
    ///
    /// Pre: the page is latched.
    pub(crate) fn replace(self, c: P::Core, at: usize, key: &[u64], parts: RecordParts<'_>) {
        let rest = self.rest_of(key);
        let (slot, words) = (self.slot(c, at), parts.words() + rest.len());
        self.touch_header(c, Intent::Write);
        if words <= slot.words() {
            self.add_garbage(slot.words() - words);
            let word = self.write_record(c, slot.offset(), parts, rest);
            return self.set_word(c, at, word);
        }
        // Nothing of the old record is needed: its room may be part of the new one's.
        self.add_garbage(slot.words());
        self.set_word(c, at, Slot::new(self.words.len(), 0, 0).0);
        if self.gap() < words {
            self.compact(c);
        }
        let shape = self.shape();
        let heap = self.heap() - words;
        let word = self.write_record(c, heap, parts, rest);
        self.set_shape(Shape { heap, ..shape });
        self.set_word(c, at, word);
    }

    /// Marks a record as deleted, or as there again.
    ///
    /// Pre: the page is latched.
    pub(crate) fn set_ghost(self, c: P::Core, at: usize, ghost: bool) {
        let slot = self.slot(c, at);
        self.set_word(c, at, slot.as_ghost(ghost).0);
    }

    /// Removes an entry.
    ///
    /// Pre: the page is latched.
    pub(crate) fn remove(self, c: P::Core, at: usize) {
        let mut shape = self.shape();
        let (stride, count) = (self.stride(), self.count());
        let record_words = self.has_records().then(|| self.slot(c, at).words());
        let (from, end) = (self.entry_at(at), self.entry_at(count));
        self.touch_header(c, Intent::Write);
        record_words.into_iter().for_each(|words| self.add_garbage(words));
        P::touch(c, &raw const self.words[from], (end - from) * 8, Intent::Write);
        for word in from..end - stride {
            P::poke(&self.words[word], P::peek(&self.words[word + stride]));
        }
        shape.count = count - 1;
        shape.last = shape.last.saturating_sub(usize::from(shape.last > at));
        self.set_shape(shape);
    }
}
