//! The catalog: descriptors of tables, of their indexes, and of the partitions of these.
//!
//! Every lookup goes through the descriptor of a partition, which has the address of its root or
//! buckets. Descriptors never change, so that each memory node can have a catalog of its own, whose
//! partitions are the same trees and buckets ("index pointers replicated per socket": Bang et al.,
//! VLDB Journal 2022, section 4). The descriptor of a partition is a line of its own, and each use
//! of the descriptor is a touch of that line. The descriptors of tables and indexes are few, and
//! always in the caches of cores that run transactions: the virtual machine does not see them.

use platform::Platform;
use terms::rows::{KeyBytes, word_set};

use crate::index::Index;
use crate::listed::Listed;

/// A table: the length of its rows and its indexes.
pub struct Table<P: Platform> {
    /// Words of a row, the pointer to its tail included.
    pub row_words: u32,
    /// True if the last word points to a tail.
    pub has_tail: bool,
    /// True if the table is not written any more, and so needs no concurrency control.
    pub read_only: bool,
    /// The words of rows that are not written any more, as [`word_set`] names them, and so need no
    /// concurrency control. A table that has such words has always the same rows.
    pub constant: u64,
    /// True if the set of rows is fixed: the table is read-only, or some of its words are not
    /// written any more.
    pub closed: bool,
    /// Bytes of a row that belong to keys. An empty list leaves it to the writers of rows to keep
    /// their keys.
    pub key_bytes: Listed<KeyBytes>,
    /// Columns of the tail that belong to keys, by their numbers in its directory.
    pub key_tail: Listed<usize>,
    /// True if columns of the primary key are among them.
    pub key_in_tail: bool,
    /// True if an index has long keys: see `kept_keys`.
    pub has_long_keys: bool,
    /// Index 0 is the primary key.
    pub indexes: Listed<Index<P>>,
}

impl<P: Platform> Table<P> {
    /// Returns true if some of the bytes `offset..offset + bytes` of rows are not written any more.
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
