//! Keys of more than 64 bytes, and keys of which only the program's run tells how long they are.

use terms::rows::without_zeros;

use crate::key::{
    KEY_BYTES_MAX, KEY_WORDS_MAX, Key, KeyBuffer, KeySink, SHORT_KEY_BITS, SHORT_KEY_WORDS, key_words, mask,
};

/// Words that a key has in place.
const INLINE_WORDS: usize = 10;

/// A key of up to 2 KiB under construction: columns are appended, most significant first, and the
/// rest is zero. A key of up to 72 bytes needs no memory of its own.
#[derive(Clone, Debug)]
pub struct LongKey {
    inline: [u64; INLINE_WORDS],
    /// All words, if there are more.
    spilled: Vec<u64>,
    bits: u32,
}

impl Default for LongKey {
    fn default() -> Self {
        LongKey::new()
    }
}

impl LongKey {
    /// Returns an empty key.
    #[inline]
    pub const fn new() -> Self {
        LongKey { inline: [0; INLINE_WORDS], spilled: Vec::new(), bits: 0 }
    }

    /// Returns the normalized form of `key`.
    #[inline]
    pub fn of<K: Key>(key: &K) -> Self {
        let mut long = LongKey::new();
        key.append(&mut long);
        long
    }

    fn all_words(&self) -> &[u64] {
        if self.spilled.is_empty() { &self.inline } else { &self.spilled }
    }

    /// Returns the words without the zeros at the end, but for the first word: the words that name
    /// the key in an index.
    #[inline]
    pub fn words(&self) -> &[u64] {
        let used = (self.bits as usize).div_ceil(64).clamp(1, KEY_WORDS_MAX);
        without_zeros(&self.all_words()[..used.min(self.all_words().len())])
    }

    /// Returns the length in bits.
    #[inline]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns true if the key has more than 2 KiB, of which only the first are there. No row has
    /// such a key, and none has a key that begins with these bytes, since the form of each column
    /// says where the column ends. So a search finds nothing, and ranges are as they should be.
    #[inline]
    pub fn is_too_long(&self) -> bool {
        self.bits as usize > 8 * KEY_BYTES_MAX
    }

    /// The words from this one on that there is room for, after making room for two.
    #[inline]
    fn room(&mut self, word: usize) -> &mut [u64] {
        if self.spilled.is_empty() && word + 2 <= INLINE_WORDS {
            return &mut self.inline[word..];
        }
        self.spill(word)
    }

    #[cold]
    fn spill(&mut self, word: usize) -> &mut [u64] {
        if self.spilled.is_empty() {
            self.spilled.reserve(4 * INLINE_WORDS);
            self.spilled.extend_from_slice(&self.inline);
        }
        let words = (word + 2).min(KEY_WORDS_MAX);
        if self.spilled.len() < words {
            self.spilled.resize(words, 0);
        }
        self.spilled.get_mut(word..).unwrap_or_default()
    }
}

impl PartialEq for LongKey {
    fn eq(&self, other: &Self) -> bool {
        (self.words(), self.bits) == (other.words(), other.bits)
    }
}

impl Eq for LongKey {}

impl PartialOrd for LongKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LongKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.words(), self.bits).cmp(&(other.words(), other.bits))
    }
}

impl KeySink for LongKey {
    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        let (word, used) = ((self.bits / 64) as usize, self.bits % 64);
        let free = 64 - used;
        self.bits = self.bits.saturating_add(bits);
        if word >= KEY_WORDS_MAX {
            return;
        }
        let room = self.room(word);
        room[0] |= if bits <= free { value << (free - bits) } else { value >> (bits - free) };
        if let Some(second) = room.get_mut(1).filter(|_| bits > free) {
            *second |= value << (64 - (bits - free));
        }
    }

    fn skip(&mut self, bits: u32) {
        self.bits = self.bits.saturating_add(bits);
        let last = (self.bits as usize).div_ceil(64).min(KEY_WORDS_MAX);
        if last > INLINE_WORDS {
            self.spill(last - 1);
        }
    }

    fn invert_from(&mut self, bits: u32) {
        let (first, end) = ((bits / 64) as usize, self.bits);
        let words = if self.spilled.is_empty() { &mut self.inline[..] } else { &mut self.spilled[..] };
        for (number, word) in words.iter_mut().enumerate().skip(first) {
            match mask(number as u32, bits, end) {
                0 => return,
                mask => *word ^= mask,
            }
        }
    }

    fn bits(&self) -> u32 {
        self.bits
    }
}

/// Runs `body` with the words that name a key in an index.
#[inline(always)]
pub fn with_words<K: Key, T>(key: &K, body: impl FnOnce(&[u64]) -> T) -> T {
    let words = const { key_words(K::BITS) };
    if const { K::BITS <= SHORT_KEY_BITS } {
        body(KeyBuffer::of(key).words(words))
    } else {
        body(LongKey::of(key).words())
    }
}

/// A key of an index, short or long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnyKey {
    /// A key of an index whose longest key is short.
    Short(KeyBuffer),
    /// A key of another index.
    Long(LongKey),
}

impl AnyKey {
    /// Returns an empty key of an index whose longest key has this many bits.
    #[inline]
    pub fn new(bits: u32) -> Self {
        if bits <= SHORT_KEY_BITS { AnyKey::Short(KeyBuffer::new()) } else { AnyKey::Long(LongKey::new()) }
    }

    /// Returns the normalized form of `key`.
    #[inline]
    pub fn of<K: Key>(key: &K) -> Self {
        if const { K::BITS <= SHORT_KEY_BITS } {
            AnyKey::Short(KeyBuffer::of(key))
        } else {
            AnyKey::Long(LongKey::of(key))
        }
    }

    /// Returns the words that name the key in an index over keys of type `K`.
    #[inline]
    pub fn words_of<K: Key>(&self) -> &[u64] {
        self.words(const { key_words(K::BITS) })
    }

    /// Returns the words that name the key in an index with keys of `words` words at most: as many
    /// of a short key, and as many as it needs of a long one.
    #[inline]
    pub fn words(&self, words: usize) -> &[u64] {
        match self {
            AnyKey::Short(key) => key.words(words),
            AnyKey::Long(key) => key.words(),
        }
    }

    /// Appends `words` words of the key.
    pub fn append_words(&self, words: usize, to: &mut Vec<u64>) {
        let end = to.len() + words;
        to.extend_from_slice(self.words(words));
        to.resize(end, 0);
    }

    /// Returns the words without the zeros at the end.
    pub fn significant_words(&self) -> &[u64] {
        let words = match self {
            AnyKey::Short(key) => key.words(SHORT_KEY_WORDS),
            AnyKey::Long(key) => key.words(),
        };
        &words[..words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1)]
    }

    /// Returns the length in bits.
    #[inline]
    pub fn bits(&self) -> u32 {
        match self {
            AnyKey::Short(key) => key.bits(),
            AnyKey::Long(key) => key.bits(),
        }
    }

    /// As [`LongKey::is_too_long`].
    #[inline]
    pub fn is_too_long(&self) -> bool {
        matches!(self, AnyKey::Long(key) if key.is_too_long())
    }
}

impl KeySink for AnyKey {
    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        match self {
            AnyKey::Short(key) => key.push(value, bits),
            AnyKey::Long(key) => key.push(value, bits),
        }
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        match self {
            AnyKey::Short(key) => key.skip(bits),
            AnyKey::Long(key) => key.skip(bits),
        }
    }

    #[inline]
    fn invert_from(&mut self, bits: u32) {
        match self {
            AnyKey::Short(key) => key.invert_from(bits),
            AnyKey::Long(key) => key.invert_from(bits),
        }
    }

    #[inline]
    fn bits(&self) -> u32 {
        AnyKey::bits(self)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        /// Where a short key has room, a long one has the same words.
        #[test]
        fn long_keys_have_the_words_of_short_ones(key: (u8, i64, [u8; 9], Option<u32>)) {
            for (short, long) in [
                (KeyBuffer::of(&key), LongKey::of(&key)),
                (KeyBuffer::of(&(1_u8, Reverse(key))), LongKey::of(&(1_u8, Reverse(key)))),
            ] {
                prop_assert_eq!((without_zeros(short.words(8)), short.bits()), (long.words(), long.bits()));
            }
        }

        #[test]
        fn long_keys_sort_as_their_columns(
            a in (".{0,90}", any::<Option<i32>>(), prop::collection::vec(any::<u8>(), 0..200)),
            b in (".{0,90}", any::<Option<i32>>(), prop::collection::vec(any::<u8>(), 0..200)),
        ) {
            let key = |(text, number, bytes): (String, Option<i32>, Vec<u8>)| {
                AnyKey::of(&(Reverse(text), number.unwrap_or(-1), bytes))
            };
            let (left, right) = (key(a.clone()), key(b.clone()));
            let expected = b.0.cmp(&a.0)
                .then(a.1.unwrap_or(-1).cmp(&b.1.unwrap_or(-1)))
                .then(a.2.cmp(&b.2));
            prop_assert_eq!(left.words(KEY_WORDS_MAX).cmp(right.words(KEY_WORDS_MAX)), expected);
        }
    }

    /// Bytes with many of the two that are escaped.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]
        #[test]
        fn variable_keys_sort_by_their_bytes(a in (bytes(), bytes(), any::<u16>()), b in (bytes(), bytes(), any::<u16>())) {
            let (left, right) = (LongKey::of(&a), LongKey::of(&b));
            prop_assert_eq!(left.words().cmp(right.words()), a.cmp(&b));
            let texts = [&a.0, &b.0].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let [left, right] = [0, 1].map(|number| LongKey::of(&texts[number]));
            prop_assert_eq!(left.words().cmp(right.words()), texts[0].cmp(&texts[1]));
            // A short key has the first bytes of a long one.
            let short = KeyBuffer::of(&a);
            let long = AnyKey::Long(LongKey::of(&a));
            let mut words = Vec::new();
            long.append_words(KEY_WORDS_MAX, &mut words);
            prop_assert_eq!((short.words(8), short.bits()), (&words[..8], long.bits()));
        }
    }

    #[test]
    fn longer_keys_than_possible_are_counted() {
        let key = |bytes: usize| AnyKey::of(&"x".repeat(bytes));
        assert!(!key(KEY_BYTES_MAX - 1).is_too_long() && key(KEY_BYTES_MAX).is_too_long());
        assert_eq!(key(5000).bits(), 8 * 5001);
        assert_eq!(key(5000).words(KEY_WORDS_MAX).len(), KEY_WORDS_MAX);
        assert!(key(5000).words(KEY_WORDS_MAX).iter().all(|word| *word == u64::from_ne_bytes([b'x'; 8])));
        assert_eq!(key(3).words_of::<String>(), [u64::from_be_bytes(*b"xxx\0\0\0\0\0")]);
        assert_eq!([0, 120, 127, 200].map(|bytes| key(bytes).words_of::<String>().len()), [1, 15, 16, 25]);
    }
}
