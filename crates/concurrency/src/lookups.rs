//! Arguments of a batch of lookups.

use platform::{Intent, Platform};
use storage::Index;
use storage::hash::Approach;
use storage::tree::Lookup;

/// Bytes of the beginning of a row, its header included, that a batch of lookups prefetches.
const BEGINNING_BYTES: usize = 128;

/// The keys of a batch of lookups: normalized, of as many words as the index compares.
pub trait Keys {
    /// A key: its words.
    type Key: AsRef<[u64]>;

    /// How many there are.
    fn count(&self) -> usize;

    /// One of them, by its number from 0 on. Lookups read a key up to three times, and make no
    /// copy of it.
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

/// Keys to look up, and the buckets of those that were announced.
pub struct KeyBatch<'k, 'i, P: Platform, K> {
    /// The keys.
    pub keys: &'k K,
    /// The announced buckets of these keys, or of some of them, in the same order. Buckets of other
    /// keys may lie between them.
    pub approaches: &'k [Approach<'i, P>],
}

/// The part of each found row that a batch of lookups prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes of the row's fixed part: no more than those are prefetched.
    pub row_bytes: usize,
    /// Offset and length, in bytes, of a field that is needed as well.
    pub field: Option<(usize, usize)>,
}

impl Ahead {
    /// Prefetches these parts of a row: the row's bits in an index, and the length of
    /// its header.
    #[inline(always)]
    pub(crate) fn prefetch<P: Platform>(self, c: P::Core, bits: u64, header_bytes: usize, intent: Intent) {
        let at = |offset: usize| std::ptr::without_provenance::<u8>(bits as usize + offset);
        P::prefetch(c, at(0), (header_bytes + self.row_bytes).min(BEGINNING_BYTES), intent);
        if let Some((offset, bytes)) = self.field {
            P::prefetch(c, at(header_bytes + offset), bytes, Intent::Read);
        }
    }
}

/// Looks a key up, and prefetches what is needed of its row. `approaches`: buckets of keys that the
/// caller has announced, which are prefetched; those up to this key's are removed from the list.
#[inline(always)]
pub(crate) fn look_up<P: Platform, H>(
    c: P::Core,
    index: &Index<P>,
    approaches: &mut &[Approach<'_, P>],
    key: &[u64],
    ahead: Ahead,
    intent: Intent,
) -> Lookup {
    let lookup = match approaches.split_first() {
        Some((first, others)) if first.key() == key[0] => {
            *approaches = others;
            first.get(c)
        }
        Some(_) => look_up_later(c, index, approaches, key),
        None => index.partition(key).get(c, key),
    };
    if let Some(bits) = lookup.value {
        ahead.prefetch::<P>(c, bits, size_of::<H>(), intent);
    }
    lookup
}

/// The same of a key that is not the next one of the list.
#[inline(never)]
fn look_up_later<P: Platform>(
    c: P::Core,
    index: &Index<P>,
    approaches: &mut &[Approach<'_, P>],
    key: &[u64],
) -> Lookup {
    match approaches.iter().position(|approach| approach.key() == key[0]) {
        Some(place) => {
            let lookup = approaches[place].get(c);
            *approaches = &approaches[place + 1..];
            lookup
        }
        None => index.partition(key).get(c, key),
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
