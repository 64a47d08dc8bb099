//! Keys: normalized words, compared word by word; and words of which few need no memory of their
//! own.
//!
//! A key of an index with long keys (more than [`KEY_WORDS_MAX`] words at most) is a slice of as
//! many words as it needs: it has no zeros at its end, so that equal keys are equal slices.

use std::ops::{Deref, DerefMut};

/// Words of the longest short keys: pieces of long rows have a word behind the row's key.
pub(crate) const KEY_WORDS_MAX: usize = schema::key::SHORT_KEY_WORDS + 1;
/// Words of the longest key of a piece of a row.
pub(crate) const PIECE_WORDS_MAX: usize = schema::key::KEY_WORDS_MAX + 1;
/// Words of a long key that lie in its entry.
pub(crate) const FIRST_WORDS: usize = 6;

/// Returns true if an index with keys of `width` words at most has long keys.
#[inline]
pub(crate) fn is_long(width: usize) -> bool {
    width > KEY_WORDS_MAX
}

/// A key without the zeros at its end.
pub(crate) fn significant(key: &[u64]) -> &[u64] {
    &key[..key.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1)]
}

/// A key, or the name of a place between two keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyWords {
    Short(ShortKey),
    Long(Box<[u64]>),
}

impl KeyWords {
    /// A copy of these words.
    #[inline]
    pub(crate) fn of(key: &[u64]) -> Self {
        if key.len() <= KEY_WORDS_MAX {
            KeyWords::Short(ShortKey::of(key))
        } else {
            KeyWords::Long(key.into())
        }
    }
}

impl Deref for KeyWords {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        match self {
            KeyWords::Short(key) => key,
            KeyWords::Long(key) => key,
        }
    }
}

/// A key of few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortKey {
    words: [u64; KEY_WORDS_MAX],
    width: usize,
}

impl ShortKey {
    /// A key of `width` words.
    #[inline(always)]
    pub(crate) fn from_fn(width: usize, word: impl Fn(usize) -> u64) -> Self {
        let mut words = [0; KEY_WORDS_MAX];
        for (number, place) in words[..width].iter_mut().enumerate() {
            *place = word(number);
        }
        ShortKey { words, width }
    }

    /// A copy of these words.
    #[inline]
    pub(crate) fn of(key: &[u64]) -> Self {
        Self::from_fn(key.len(), |word| key[word])
    }
}

impl Deref for ShortKey {
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
