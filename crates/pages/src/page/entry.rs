//! Entries of a page.

use platform::Platform;
use terms::rows::TAIL_BYTES_MAX;

use crate::key::PIECE_WORDS_MAX;

/// Place of a record in its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub u64);

impl Slot {
    const GHOST: u64 = 1 << 63;
    /// Bits of the length of a tail.
    const TAIL_BITS: u32 = 21;
    const REST_AT: u32 = 32 + Self::TAIL_BITS;
    const REST_MAX: u64 = (1 << (63 - Self::REST_AT)) - 1;

    #[inline]
    pub(crate) fn new(offset: usize, words: usize, tail_bytes: usize) -> Self {
        Slot(offset as u64 | (words as u64) << 16 | (tail_bytes as u64) << 32)
    }

    /// The same record, whose last words are this many of its key.
    pub(super) fn with_rest(self, words: usize) -> Self {
        debug_assert!(words as u64 <= Self::REST_MAX, "longer than keys are");
        Slot(self.0 | (words as u64) << Self::REST_AT)
    }

    /// The same record in another place.
    #[inline]
    pub(super) fn moved_to(self, offset: usize) -> Self {
        Slot(self.0 & !0xffff | offset as u64)
    }

    /// The first word of the record.
    #[inline]
    pub(crate) fn offset(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// Words of the record, and of the rest of its key.
    #[inline]
    pub(crate) fn words(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }

    /// Bytes of the tail behind the fixed part, wherever they lie.
    #[inline]
    pub(crate) fn tail_bytes(self) -> usize {
        (self.0 >> 32 & ((1 << Self::TAIL_BITS) - 1)) as usize
    }

    /// Words of the rest of a long key, which lie behind the record.
    #[inline]
    pub(super) fn rest_words(self) -> usize {
        (self.0 >> Self::REST_AT & Self::REST_MAX) as usize
    }

    /// Words of the record without the rest of its key.
    #[inline]
    pub(crate) fn record_words(self) -> usize {
        self.words().saturating_sub(self.rest_words())
    }

    /// Returns true if the record was deleted: its key stays until no transaction depends on its
    /// place.
    #[inline]
    pub(crate) fn is_ghost(self) -> bool {
        self.0 & Self::GHOST != 0
    }

    #[inline]
    pub(crate) fn as_ghost(self, ghost: bool) -> Self {
        Slot(if ghost { self.0 | Self::GHOST } else { self.0 & !Self::GHOST })
    }
}

const _: () = assert!(TAIL_BYTES_MAX < 1 << Slot::TAIL_BITS);
const _: () = assert!(PIECE_WORDS_MAX as u64 <= Slot::REST_MAX);

/// The place of a key in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    /// Number of the entry with the key, or of the entry that the key would become.
    pub entry: usize,
    /// True if there is an entry with the key.
    pub is_there: bool,
}

/// Consecutive words of a record or of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordSpan {
    pub first: usize,
    pub count: usize,
}

/// Content of a new entry.
#[derive(Clone, Copy)]
pub(crate) enum NewEntry<'r> {
    Record(RecordParts<'r>),
    Child(u64),
}

impl NewEntry<'_> {
    /// Words of its record, in a page with long keys or without.
    pub(super) fn words(self, is_long: bool) -> usize {
        match self {
            NewEntry::Record(parts) => parts.words(),
            NewEntry::Child(_) => usize::from(is_long),
        }
    }
}

/// A record: words, the last of which may be those of a tail. A long row's record has its first
/// words, and the length of its whole tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordParts<'r> {
    pub words: &'r [u64],
    pub tail_bytes: usize,
}

impl RecordParts<'_> {
    pub(crate) fn words(self) -> usize {
        self.words.len()
    }

    pub(super) fn write<P: Platform>(self, c: P::Core, to: &[P::Word]) {
        P::write_words(c, &to[..self.words.len()], self.words);
    }
}
