//! What callers say of a batch of lookups.

use platform::{Intent, LINE_BYTES, Platform};

/// Bytes of the beginning of a row, its header included, that a batch of lookups brings closer, if it is not told what is needed.
const BEGINNING_BYTES: usize = 128;
/// The same if it is: what rows begin with is wanted most.
const FIRST_BYTES: usize = LINE_BYTES;

/// The keys of a batch of lookups: normalized, of as many words as the index compares.
pub trait Keys {
    /// A key: its words.
    type Key: AsRef<[u64]>;

    /// How many there are.
    fn count(&self) -> usize;

    /// One of them, by its number from 0 on. Lookups ask for a key up to three times, and make no copy of it.
    fn key(&self, number: usize) -> Self::Key;
}

/// Keys one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct KeyList<'k> {
    /// The words of all keys.
    pub words: &'k [u64],
    /// Words of each key, at least one.
    pub width: usize,
}

impl<'k> Keys for KeyList<'k> {
    type Key = &'k [u64];

    fn count(&self) -> usize {
        self.words.len() / self.width
    }

    fn key(&self, number: usize) -> &'k [u64] {
        &self.words[number * self.width..][..self.width]
    }
}

/// What a batch of lookups brings closer of each row that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes of the row's fixed part: no more than those are brought closer.
    pub row_bytes: usize,
    /// Where a field of the row begins that is needed besides the row's first line, and its length, in bytes.
    pub field: Option<(usize, usize)>,
}

impl Ahead {
    /// Starts to bring these parts of a row closer: the row's bits in an index, and the length of its header.
    #[inline(always)]
    pub(crate) fn bring<P: Platform>(self, c: P::Core, bits: u64, header_bytes: usize, intent: Intent) {
        let at = |offset: usize| std::ptr::without_provenance::<u8>(bits as usize + offset);
        let beginning = if self.field.is_some() { FIRST_BYTES } else { BEGINNING_BYTES };
        P::prefetch(c, at(0), (header_bytes + self.row_bytes).min(beginning), intent);
        if let Some((offset, bytes)) = self.field {
            P::prefetch(c, at(header_bytes + offset), bytes, Intent::Read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_whole_keys() {
        let keys = KeyList { words: &[1, 2, 3, 4, 5, 6], width: 2 };
        assert_eq!(keys.count(), 3);
        assert_eq!(keys.key(2), [5, 6]);
        assert_eq!(KeyList { words: &[], width: 2 }.count(), 0);
    }
}
