//! What callers say of a batch of lookups.

use platform::{Intent, Platform};
use storage::Index;
use storage::hash::Approach;
use storage::tree::Lookup;

/// Bytes of the beginning of a row, its header included, that a batch of lookups brings closer.
const BEGINNING_BYTES: usize = 128;

/// The keys of a batch of lookups: normalized, of as many words as the index compares.
pub trait Keys {
    /// A key: its words.
    type Key: AsRef<[u64]>;

    /// How many there are.
    fn count(&self) -> usize;

    /// One of them, by its number from 0 on. Lookups ask for a key up to three times, and make no
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

/// What a batch of lookups brings closer of each row that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes of the row's fixed part: no more than those are brought closer.
    pub row_bytes: usize,
    /// Where a field of the row begins that is needed as well, and its length, in bytes.
    pub field: Option<(usize, usize)>,
}

impl Ahead {
    /// Starts to bring these parts of a row closer: the row's bits in an index, and the length of
    /// its header.
    #[inline(always)]
    pub(crate) fn bring<P: Platform>(self, c: P::Core, bits: u64, header_bytes: usize, intent: Intent) {
        let at = |offset: usize| std::ptr::without_provenance::<u8>(bits as usize + offset);
        P::prefetch(c, at(0), (header_bytes + self.row_bytes).min(BEGINNING_BYTES), intent);
        if let Some((offset, bytes)) = self.field {
            P::prefetch(c, at(header_bytes + offset), bytes, Intent::Read);
        }
    }
}

/// Looks a key up, and brings closer what is needed of its row. `told`: buckets of keys that were
/// told before, which have been asked for; those up to this key's are left out of it.
#[inline(always)]
pub(crate) fn look_up<P: Platform, H>(
    c: P::Core,
    index: &Index<P>,
    told: &mut &[Approach<'_, P>],
    key: &[u64],
    (ahead, intent): (Ahead, Intent),
) -> Lookup {
    let lookup = match told.split_first() {
        Some((first, others)) if first.key() == key[0] => {
            *told = others;
            first.get(c)
        }
        Some(_) => look_up_later(c, index, told, key),
        None => index.partition(key).get(c, key),
    };
    if let Some(bits) = lookup.value {
        ahead.bring::<P>(c, bits, size_of::<H>(), intent);
    }
    lookup
}

/// The same of a key that is not the next one of those that were told.
#[inline(never)]
fn look_up_later<P: Platform>(
    c: P::Core,
    index: &Index<P>,
    told: &mut &[Approach<'_, P>],
    key: &[u64],
) -> Lookup {
    match told.iter().position(|approach| approach.key() == key[0]) {
        Some(place) => {
            let lookup = told[place].get(c);
            *told = &told[place + 1..];
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
