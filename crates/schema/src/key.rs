//! Keys, normalized: comparing their words as unsigned numbers, first to last, gives the order of
//! the columns, and equals comparing their bytes with memcmp. Keys of up to 64 bytes are made on
//! the stack; longer ones, see `long_key`, are not.

use std::marker::PhantomData;

use crate::text::Text;

/// Most words of a short key.
pub const SHORT_KEY_WORDS: usize = 8;
/// Most bits of a short key.
pub const SHORT_KEY_BITS: u32 = 64 * SHORT_KEY_WORDS as u32;
/// Longest key in words.
pub const KEY_WORDS_MAX: usize = 256;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = KEY_WORDS_MAX * 8;

/// Receives the columns of a normalized key, most significant first.
pub trait KeySink {
    /// Appends the low `bits` bits of `value` (1 to 64; higher bits of `value` are 0). Bits behind
    /// the end of the longest key are counted only.
    fn push(&mut self, value: u64, bits: u32);

    /// Appends zeros.
    fn skip(&mut self, bits: u32);

    /// Inverts all bits from this one on, which turns the order around.
    fn invert_from(&mut self, bits: u32);

    /// Returns the length in bits.
    fn bits(&self) -> u32;

    /// Appends bytes of any number so that keys sort by them, and no longer ones begin like shorter
    /// ones: 0 becomes 1 1, 1 becomes 1 2, and 0 is the end.
    fn push_terminated(&mut self, bytes: &[u8]) {
        // Eight bytes at a time, where none is 0 or 1.
        let (mut words, mut rest) = (bytes.as_chunks::<8>().0, bytes);
        while let [word, others @ ..] = words {
            let word = u64::from_be_bytes(*word);
            if has_escaped(word) {
                break;
            }
            self.push(word, 64);
            (words, rest) = (others, &rest[8..]);
        }
        for byte in rest {
            match byte {
                0 | 1 => self.push(0x0101 + u64::from(*byte), 16),
                byte => self.push(u64::from(*byte), 8),
            }
        }
        self.push(0, 8);
    }
}

/// Returns true if one of the eight bytes is 0 or 1.
#[inline]
const fn has_escaped(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A borrow from a byte above is there only if that byte is one of them.
    word.wrapping_sub(2 * ONES) & !word & (0x80 * ONES) != 0
}

/// A short key under construction: columns are appended, most significant first, and the rest is
/// zero. Of a longer key it has the first 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyBuffer {
    words: [u64; SHORT_KEY_WORDS],
    bits: u32,
}

impl Default for KeyBuffer {
    fn default() -> Self {
        KeyBuffer::new()
    }
}

impl KeyBuffer {
    /// Returns an empty key.
    #[inline(always)]
    pub const fn new() -> Self {
        KeyBuffer { words: [0; SHORT_KEY_WORDS], bits: 0 }
    }

    /// Returns the normalized form of `key`.
    #[inline(always)]
    pub fn of<K: Key>(key: &K) -> Self {
        let mut buffer = KeyBuffer::new();
        key.append(&mut buffer);
        buffer
    }

    /// Appends the low `bits` bits of `value` (1 to 64; higher bits of `value` are 0). Bits behind
    /// the first 64 bytes are counted only.
    #[inline(always)]
    pub fn push(&mut self, value: u64, bits: u32) {
        let (word, used) = ((self.bits / 64) as usize, self.bits % 64);
        let free = 64 - used;
        if let Some(first) = self.words.get_mut(word) {
            if bits <= free {
                *first |= value << (free - bits);
            } else {
                *first |= value >> (bits - free);
                if let Some(second) = self.words.get_mut(word + 1) {
                    *second |= value << (64 - (bits - free));
                }
            }
        }
        self.bits += bits;
    }

    /// Returns the length in bits.
    #[inline(always)]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Appends zeros.
    #[inline(always)]
    pub fn skip(&mut self, bits: u32) {
        self.bits += bits;
    }

    /// Inverts all bits from this one on, which turns the order around.
    #[inline(always)]
    pub fn invert_from(&mut self, bits: u32) {
        self.words.iter_mut().zip(0..).for_each(|(word, number)| *word ^= mask(number, bits, self.bits));
    }

    /// Returns the first `words` words.
    #[inline(always)]
    pub fn words(&self, words: usize) -> &[u64] {
        &self.words[..words]
    }
}

impl KeySink for KeyBuffer {
    #[inline(always)]
    fn push(&mut self, value: u64, bits: u32) {
        KeyBuffer::push(self, value, bits);
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        KeyBuffer::skip(self, bits);
    }

    #[inline(always)]
    fn invert_from(&mut self, bits: u32) {
        KeyBuffer::invert_from(self, bits);
    }

    #[inline(always)]
    fn bits(&self) -> u32 {
        KeyBuffer::bits(self)
    }
}

/// Returns word number `word` of a key in which the bits `from..to` are set.
#[inline(always)]
pub(crate) const fn mask(word: u32, from: u32, to: u32) -> u64 {
    const fn upto(word: u32, bits: u32) -> u64 {
        match bits.saturating_sub(word * u64::BITS) {
            0 => 0,
            64.. => u64::MAX,
            bits => u64::MAX << (u64::BITS - bits),
        }
    }
    upto(word, to) & !upto(word, from)
}

/// A short key as words, whose number depends on the key type. A key of one word, the common case,
/// is stored without the rest of the buffer.
#[derive(Clone, Copy)]
pub enum KeyOf<K> {
    /// A key of one word.
    Word([u64; 1], PhantomData<K>),
    /// A longer key.
    Words(KeyBuffer),
}

impl<K: Key> KeyOf<K> {
    /// Returns the normalized form of `key`.
    #[inline(always)]
    pub fn new(key: &K) -> Self {
        const { assert!(K::BITS <= SHORT_KEY_BITS, "a long key has another form") };
        let buffer = KeyBuffer::of(key);
        match const { key_words(K::BITS) } {
            1 => KeyOf::Word([buffer.words[0]], PhantomData),
            _ => KeyOf::Words(buffer),
        }
    }
}

impl<K: Key> AsRef<[u64]> for KeyOf<K> {
    #[inline(always)]
    fn as_ref(&self) -> &[u64] {
        match self {
            KeyOf::Word(word, _) => word,
            KeyOf::Words(buffer) => buffer.words(const { key_words(K::BITS) }),
        }
    }
}

/// A value that can be a key, or a column of a key. Tuples of keys compare column by column.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a column of a key",
    label = "not for keys",
    note = "keys are of numbers, `bool`, dates, times, intervals, UUIDs, `Text<N>`, `[u8; N]`, `String`, `Vec<u8>`, options of these, and tuples",
    note = "a struct or an enum of yours with `#[derive(Value)]` can be one with `#[row(key)]`"
)]
pub trait Key: Clone + PartialEq {
    /// Length of the normalized form in bits: of all values of the type, or of the longest that
    /// are possible if the type is variable.
    const BITS: u32;
    /// True if values of the type have forms of several lengths.
    const VARIABLE: bool = false;
    /// Appends the normalized form.
    fn append(&self, to: &mut impl KeySink);
}

macro_rules! unsigned_keys {
    ($($integer:ty),*) => { $(
        impl Key for $integer {
            const BITS: u32 = <$integer>::BITS;
            #[inline(always)]
            fn append(&self, to: &mut impl KeySink) {
                to.push(u64::from(*self), Self::BITS);
            }
        }
    )* };
}
unsigned_keys!(u8, u16, u32, u64);

macro_rules! signed_keys {
    ($($integer:ty => $unsigned:ty),*) => { $(
        impl Key for $integer {
            const BITS: u32 = <$integer>::BITS;
            #[inline(always)]
            fn append(&self, to: &mut impl KeySink) {
                // Flipping the sign bit makes the order of two's complement that of unsigned
                // numbers.
                to.push(u64::from(self.cast_unsigned() ^ (1 << (Self::BITS - 1))), Self::BITS);
            }
        }
    )* };
}
signed_keys!(i8 => u8, i16 => u16, i32 => u32, i64 => u64);

impl<const N: usize> Key for [u8; N] {
    const BITS: u32 = 8 * N as u32;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        for byte in self {
            to.push(u64::from(*byte), 8);
        }
    }
}

impl<const N: usize> Key for Text<N> {
    const BITS: u32 = 8 * N as u32;
    #[inline(always)]
    fn append(&self, to: &mut impl KeySink) {
        // Padded with zero bytes, which no text contains: shorter texts sort before their
        // continuations.
        self.padded().append(to);
    }
}

/// Length of a key with a column of variable length: the longest that is possible.
pub(crate) const VARIABLE_BITS: u32 = 8 * KEY_BYTES_MAX as u32;

impl Key for String {
    const BITS: u32 = VARIABLE_BITS;
    const VARIABLE: bool = true;
    fn append(&self, to: &mut impl KeySink) {
        to.push_terminated(self.as_bytes());
    }
}

impl Key for Vec<u8> {
    const BITS: u32 = VARIABLE_BITS;
    const VARIABLE: bool = true;
    fn append(&self, to: &mut impl KeySink) {
        to.push_terminated(self);
    }
}

macro_rules! tuple_keys {
    ($($name:ident),+) => {
        impl<$($name: Key),+> Key for ($($name,)+) {
            const BITS: u32 = if Self::VARIABLE { VARIABLE_BITS } else { 0 $(+ $name::BITS)+ };
            const VARIABLE: bool = false $(|| $name::VARIABLE)+;
            #[inline(always)]
            fn append(&self, to: &mut impl KeySink) {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                $($name.append(to);)+
            }
        }
    };
}
tuple_keys!(A);
tuple_keys!(A, B);
tuple_keys!(A, B, C);
tuple_keys!(A, B, C, D);
tuple_keys!(A, B, C, D, E);
tuple_keys!(A, B, C, D, E, F);
tuple_keys!(A, B, C, D, E, F, G);
tuple_keys!(A, B, C, D, E, F, G, H);
tuple_keys!(A, B, C, D, E, F, G, H, I);
tuple_keys!(A, B, C, D, E, F, G, H, I, J);
tuple_keys!(A, B, C, D, E, F, G, H, I, J, L);
tuple_keys!(A, B, C, D, E, F, G, H, I, J, L, M);

/// Returns the number of words that an index on keys of `bits` bits compares: 1, 2, 4, 5, 8, or, of
/// long keys, as many as the longest has, at least 10. (TPC-C's index of customers by name has 5.
/// Over pages, pieces of rows have 9: the short key of the row, and a number.)
#[inline]
pub const fn key_words(bits: u32) -> usize {
    assert!(bits > 0 && bits as usize <= KEY_BYTES_MAX * 8, "a key has 1 to 2048 bytes");
    match (bits as usize).div_ceil(64) {
        5 => 5,
        words if words <= SHORT_KEY_WORDS => words.next_power_of_two(),
        words => {
            if words > SHORT_KEY_WORDS + 2 {
                words
            } else {
                SHORT_KEY_WORDS + 2
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn normalized_order_is_column_order(a: (u16, i8, u32), b: (u16, i8, u32)) {
            prop_assert_eq!(KeyBuffer::of(&a).cmp(&KeyBuffer::of(&b)), a.cmp(&b));
        }

        #[test]
        fn long_keys_cross_words(a: ([u8; 13], i64, u8), b: ([u8; 13], i64, u8)) {
            let (left, right) = (KeyBuffer::of(&a), KeyBuffer::of(&b));
            prop_assert_eq!(left.bits(), 22 * 8);
            prop_assert_eq!(left.words(4).cmp(right.words(4)), a.cmp(&b));
        }

        #[test]
        fn texts_sort_as_texts(a in "[A-Z]{0,16}", b in "[A-Z]{0,16}") {
            let (left, right) = (Text::<16>::truncated(&a), Text::<16>::truncated(&b));
            prop_assert_eq!(KeyBuffer::of(&left).cmp(&KeyBuffer::of(&right)), a.cmp(&b));
        }
    }

    #[test]
    fn words_of_keys() {
        let words = [1, 64, 65, 128, 129, 256, 257, 320, 321, 512].map(key_words);
        assert_eq!(words, [1, 1, 2, 2, 4, 4, 5, 5, 8, 8]);
        assert_eq!([513, 640, 641, 8 * 2047, 8 * 2048].map(key_words), [10, 10, 11, 256, 256]);
    }
}
