//! Sizes of rows, sets of their words, ranges of keys, and the partition that a key belongs to.

/// Bytes of the longest fixed part of a row, the pointer to its tail included.
pub const FIXED_BYTES_MAX: usize = 1 << 15;

/// Bytes of the longest variable part of a row: its tail.
pub const TAIL_BYTES_MAX: usize = 1 << 20;

/// Bytes of a row that belong to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes {
    /// The first byte.
    pub from: usize,
    /// The byte behind the last one.
    pub to: usize,
    /// Bits of each byte that belong to the key: all, or the null bit of a column.
    pub mask: u8,
}

impl KeyBytes {
    /// Returns true if bytes that are written from `offset` on would change the key.
    /// `before` are the row's bytes from `offset` on, as many as are written.
    #[inline]
    pub fn are_changed(&self, offset: usize, before: &[u8], written: &[u8]) -> bool {
        let from = self.from.max(offset) - offset;
        let to = self.to.saturating_sub(offset).min(written.len());
        from < to
            && std::iter::zip(&before[from..to], &written[from..to])
                .any(|(before, written)| (before ^ written) & self.mask != 0)
    }
}

/// Bits of the leading column of a key, by which tables are partitioned.
pub const PARTITION_BITS: u32 = 16;

/// The value of the column by which tables are partitioned: the top bits of a key's first word.
#[inline(always)]
pub const fn partition_column(first_word: u64) -> u16 {
    (first_word >> (u64::BITS - PARTITION_BITS)) as u16
}

/// A key without the zeros at its end, but for the first word.
#[inline]
pub fn without_zeros(key: &[u64]) -> &[u64] {
    let words = key.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
    &key[..words.min(key.len())]
}

/// An index of a table, both by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIndex {
    /// Number of the table in the catalog.
    pub table: usize,
    /// Number of the index in the table; 0 is the primary key.
    pub index: usize,
}

/// The lowest and the highest key of a range, both included, in the words that an index compares.
#[derive(Clone, Copy, Debug)]
pub struct KeyBounds<'k> {
    /// The lowest key.
    pub low: &'k [u64],
    /// The highest key.
    pub high: &'k [u64],
}

impl<'k> KeyBounds<'k> {
    /// The range that has one key.
    #[inline(always)]
    pub fn of_key(key: &'k [u64]) -> Self {
        KeyBounds { low: key, high: key }
    }
}

/// The set of the words `first..end` of a row: bit 63 stands for the word of that number and all
/// behind.
#[inline(always)]
pub const fn word_set(first: usize, end: usize) -> u64 {
    if first >= end {
        return 0;
    }
    let last = if end > 64 { 63 } else { end as u32 - 1 };
    let first = if first > 63 { 63 } else { first as u32 };
    (u64::MAX >> (63 - last)) & (u64::MAX << first)
}

#[cfg(test)]
mod tests {
    use super::word_set;

    #[test]
    fn words_are_bits() {
        assert_eq!([word_set(0, 1), word_set(1, 4), word_set(5, 5)], [1, 0b1110, 0]);
        assert_eq!([word_set(0, 63), word_set(63, 64), word_set(0, 64)], [u64::MAX >> 1, 1 << 63, u64::MAX]);
        assert_eq!([word_set(90, 91), word_set(62, 200), word_set(0, 4096)], [1 << 63, 3 << 62, u64::MAX]);
        for word in 0..70 {
            assert_eq!(word_set(word, word + 1), 1 << word.min(63));
        }
    }
}
