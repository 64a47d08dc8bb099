//! The keys of a row as a transaction keeps them: words, one key behind the other.
//!
//! ```text
//! a table without long keys: the words of all keys
//! a table with long keys:    for each index a word, the number of words of its key; then the words of all keys
//! ```
//!
//! An index has long keys if they have more than 8 words at most. A long key is named by as many of
//! its words as it needs, at least one: those that are left out are zeros.

use platform::Platform;
use terms::rows::without_zeros;

use crate::{Index, Table};

impl<P: Platform> Table<P> {
    /// Appends the keys of a row, one an index.
    #[inline(always)]
    pub fn keep_keys(&self, keys: &[&[u64]], to: &mut Vec<u64>) {
        if self.has_long_keys {
            return self.keep_long_keys(keys, to);
        }
        for word in keys.iter().copied().flatten() {
            to.push(*word);
        }
    }

    #[inline(never)]
    fn keep_long_keys(&self, keys: &[&[u64]], to: &mut Vec<u64>) {
        // The keys of other indexes have all of their words.
        let kept = |(index, key): (&Index<P>, &&'_ [u64])| -> usize {
            if index.has_long_keys() { without_zeros(key).len() } else { key.len() }
        };
        to.extend(self.indexes.iter().zip(keys).map(|pair| kept(pair) as u64));
        for (index, key) in self.indexes.iter().zip(keys) {
            to.extend_from_slice(&key[..kept((index, key))]);
        }
    }

    /// Appends zeros in place of keys that are not known yet; each has room for the longest key.
    pub fn keep_unknown_keys(&self, to: &mut Vec<u64>) {
        if self.has_long_keys {
            to.extend(self.indexes.iter().map(|index| index.words as u64));
        }
        to.resize(to.len() + self.key_words(), 0);
    }

    /// The place of the key of index number `position` in kept keys, whose word of each number
    /// `word` gives.
    #[inline(always)]
    pub fn kept_place(&self, word: impl Fn(usize) -> u64, position: usize) -> (usize, usize) {
        if self.has_long_keys {
            let words = |position: usize| word(position) as usize;
            let at = self.indexes.len() + (0..position).map(words).sum::<usize>();
            return (at, at + words(position));
        }
        let before: usize = self.indexes[..position].iter().map(|index| index.words).sum();
        (before, before + self.indexes[position].words)
    }

    /// The key of index number `position` among kept keys.
    #[inline(always)]
    pub fn kept_key<'k>(&self, kept: &'k [u64], position: usize) -> &'k [u64] {
        let (from, to) = self.kept_place(|word| kept[word], position);
        &kept[from..to]
    }

    /// The kept keys of a row, one an index.
    #[inline(always)]
    pub fn kept_keys<'k>(&self, kept: &'k [u64]) -> impl Iterator<Item = &'k [u64]> {
        let mut at = if self.has_long_keys { self.indexes.len() } else { 0 };
        self.indexes.iter().enumerate().map(move |(position, index)| {
            let words = if self.has_long_keys { kept[position] as usize } else { index.words };
            at += words;
            &kept[at - words..at]
        })
    }

    /// The number of words of kept keys, whose word of each number `word` gives.
    #[inline]
    pub fn kept_words(&self, word: impl Fn(usize) -> u64) -> usize {
        self.kept_place(word, self.indexes.len() - 1).1
    }

    /// Returns true if two keys of an index are the same.
    #[inline(always)]
    pub fn is_same_key(&self, left: &[u64], right: &[u64]) -> bool {
        left == right || self.has_long_keys && without_zeros(left) == without_zeros(right)
    }
}
