//! Keys: normalized words, compared word by word; and words of which few need no memory of their
//! own.

use std::ops::{Deref, DerefMut};

/// Words of the longest keys: pieces of long rows have a word behind the row's key.
pub(crate) const KEY_WORDS_MAX: usize = schema::key::KEY_WORDS_MAX + 1;

/// A key, or the name of a place between two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyWords {
    words: [u64; KEY_WORDS_MAX],
    width: usize,
}

impl KeyWords {
    /// A key of `width` words.
    #[inline]
    pub(crate) fn from_fn(width: usize, word: impl Fn(usize) -> u64) -> Self {
        let mut words = [0; KEY_WORDS_MAX];
        for (number, place) in words[..width].iter_mut().enumerate() {
            *place = word(number);
        }
        KeyWords { words, width }
    }

    /// A copy of these words.
    #[inline]
    pub(crate) fn of(key: &[u64]) -> Self {
        Self::from_fn(key.len(), |word| key[word])
    }
}

impl Deref for KeyWords {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        &self.words[..self.width]
    }
}

/// Words that need no memory of their own.
const FEW_WORDS: usize = 16;

/// Some words for a moment.
pub(crate) enum Words {
    Few([u64; FEW_WORDS], usize),
    Many(Vec<u64>),
}

impl Words {
    /// `count` zeros.
    #[inline]
    pub(crate) fn zero(count: usize) -> Self {
        if count <= FEW_WORDS { Words::Few([0; FEW_WORDS], count) } else { Words::Many(vec![0; count]) }
    }
}

impl Deref for Words {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        match self {
            Words::Few(words, count) => &words[..*count],
            Words::Many(words) => words,
        }
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        match self {
            Words::Few(words, count) => &mut words[..*count],
            Words::Many(words) => words,
        }
    }
}
