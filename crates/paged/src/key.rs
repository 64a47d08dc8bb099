//! Keys: normalized words, compared word by word.

use std::ops::Deref;

/// Words of the longest keys: pieces of long rows have a word behind the row's key.
pub(crate) const KEY_WORDS_MAX: usize = engine::key::KEY_WORDS_MAX + 1;

/// A key, or the name of a place between two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyWords {
    words: [u64; KEY_WORDS_MAX],
    width: usize,
}

impl KeyWords {
    /// A key of so many words.
    pub(crate) fn from_fn(width: usize, word: impl Fn(usize) -> u64) -> Self {
        let mut words = [0; KEY_WORDS_MAX];
        for (number, place) in words[..width].iter_mut().enumerate() {
            *place = word(number);
        }
        KeyWords { words, width }
    }

    /// A copy of these words.
    pub(crate) fn of(words: &[u64]) -> Self {
        KeyWords::from_fn(words.len(), |number| words[number])
    }
}

impl Deref for KeyWords {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.words[..self.width]
    }
}
