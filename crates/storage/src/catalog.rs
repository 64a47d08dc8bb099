//! The catalog: descriptors of tables, of their indexes, and of the partitions of these.
//!
//! Every lookup goes through the descriptor of a partition, which says where its root or buckets are. Descriptors never
//! change, so that each memory node can have a catalog of its own, whose partitions are the same trees and buckets ("index
//! pointers replicated per socket": Bang et al., VLDB Journal 2022, section 4). The descriptor of a partition is a line of
//! its own, and each use of the descriptor is a touch of that line. The descriptors of tables and indexes are few, and
//! always in the caches of cores that run transactions: the virtual machine does not see them.

use platform::Platform;

use crate::index::Index;
use crate::listed::Listed;

/// A table: the length of its rows and its indexes.
pub struct Table<P: Platform> {
    /// Words of a row, the pointer to its tail included.
    pub row_words: u32,
    /// Whether the last word points to a tail.
    pub has_tail: bool,
    /// Whether the table is not written any more, and so needs no concurrency control.
    pub read_only: bool,
    /// The words of rows that are not written any more, as [`word_set`] names them, and so need no concurrency control. A table
    /// that has such words has always the same rows.
    pub constant: u64,
    /// Whether the table has always the same rows: whether it is read-only, or has words that are not written any more.
    pub closed: bool,
    /// Bytes of a row that belong to keys: where each column begins, and where it ends. An empty list leaves it to the
    /// writers of rows to keep their keys.
    pub key_bytes: Listed<(usize, usize)>,
    /// Index 0 is the primary key.
    pub indexes: Listed<Index<P>>,
}

/// The set of the words `first..end` of a row: bit 63 stands for the word of that number and all behind.
#[inline(always)]
pub const fn word_set(first: usize, end: usize) -> u64 {
    if first >= end {
        return 0;
    }
    let last = if end > 64 { 63 } else { end as u32 - 1 };
    let first = if first > 63 { 63 } else { first as u32 };
    (u64::MAX >> (63 - last)) & (u64::MAX << first)
}

impl<P: Platform> Table<P> {
    /// Whether bytes `offset..offset + bytes` of rows, or some of them, are not written any more.
    #[inline(always)]
    pub fn has_constant(&self, offset: usize, bytes: usize) -> bool {
        self.constant != 0 && self.constant & word_set(offset / 8, (offset + bytes).div_ceil(8)) != 0
    }

    /// Words of all keys of a row.
    #[inline]
    pub fn key_words(&self) -> usize {
        self.indexes.iter().map(|index| index.words).sum()
    }

    /// The keys of a row, one an index, which lie one behind the other.
    #[inline]
    pub fn split_keys<'k>(&self, mut keys: &'k [u64]) -> impl Iterator<Item = &'k [u64]> {
        self.indexes.iter().map(move |index| {
            let (key, others) = keys.split_at(index.words);
            keys = others;
            key
        })
    }

    /// Bytes of the rows' fixed part: without the pointer to the tail.
    #[inline(always)]
    pub fn fixed_bytes(&self) -> usize {
        (self.row_words as usize - usize::from(self.has_tail)) * 8
    }
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
