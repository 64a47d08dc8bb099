//! Long rows: what of a row does not fit a record lies in pieces, in the pages of another tree of
//! the table.
//!
//! A record takes a quarter of a page at most, so that leaves hold several. The record of a longer
//! row has the row's first words, and the length of its tail; the others are divided into pieces,
//! each an entry of the table's *overflow tree*. The key of a piece is the row's primary key with
//! the number of the piece behind it, so the pieces of a row lie beside each other, and each is
//! found by the row's key. PostgreSQL keeps long values in the same way (TOAST), with a number of
//! the value in place of the row's key.
//!
//! Pieces are entries like any other: their changes are logged, undone and repeated, their pages
//! are split, freed, checked and written, without a rule of their own. They are never locked: the
//! lock of a row covers its pieces.

use schema::TableDescription;

use crate::key::{KeyWords, ShortKey, is_long};
use crate::locks::{LockPlace, name};
use crate::page::{WordSpan, record_words_max};

/// The division of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Most words of a record.
    record_max: usize,
    /// Words of the fixed part of a row.
    fixed: usize,
    /// Words of all pieces of a row but the last one.
    piece: usize,
    /// Words of the longest keys of pieces.
    piece_width: usize,
}

/// Words of a row that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The number of the piece; none: in the record.
    pub piece: Option<u64>,
    /// The first of them there.
    pub first: usize,
    pub words: usize,
}

/// Returns true if a table needs an overflow tree, in pages of `page_words` words. This depends on
/// the description alone, and not on the rows, so it says which trees a directory has.
pub(crate) fn is_needed(description: &TableDescription, page_words: usize) -> bool {
    let width = schema::key_words(description.indexes()[0].key_bits);
    description.has_tail() || description.row_bytes() / 8 > record_words_max(page_words, width)
}

/// The key of a piece of the row with this primary key, in a tree with keys of `width` words at
/// most. Long keys have no fixed number of words, so that the last word says how many there are,
/// and which piece it is; it is never 0.
fn piece_key(width: usize, key: &[u64], piece: u64) -> KeyWords {
    if !is_long(width) {
        return KeyWords::Short(ShortKey::from_fn(width, |word| key.get(word).copied().unwrap_or(piece)));
    }
    let last = piece << LENGTH_BITS | (key.len() as u64 + 1);
    let words: Vec<u64> = key.iter().copied().chain(std::iter::once(last)).collect();
    KeyWords::of(&words)
}

/// Bits of the last word of a long piece's key that have the number of words.
const LENGTH_BITS: u32 = 16;

impl Division {
    /// The division of rows with fixed parts of `fixed` words, and primary keys of `width` words,
    /// in pages of `page_words` words.
    pub(crate) fn new(fixed: usize, width: usize, page_words: usize) -> Self {
        let (record_max, piece) =
            (record_words_max(page_words, width), record_words_max(page_words, width + 1));
        Division { record_max, fixed, piece: piece.max(1), piece_width: width + 1 }
    }

    /// The key of a piece of the row with this primary key.
    pub(crate) fn piece_key(&self, key: &[u64], piece: u64) -> KeyWords {
        piece_key(self.piece_width, key, piece)
    }

    /// Words of the fixed part that lie in the record, for rows with any tail.
    #[inline]
    pub(crate) fn near_fixed(&self) -> usize {
        self.fixed.min(self.record_max)
    }

    /// The number of a row's words in the record.
    pub(crate) fn near(&self, words: usize) -> usize {
        if words <= self.record_max { words } else { self.near_fixed() }
    }

    /// The number of pieces of a row of `words` words.
    pub(crate) fn pieces(&self, words: usize) -> u64 {
        (words - self.near(words)).div_ceil(self.piece) as u64
    }

    /// Words of a row with a tail of `tail_bytes` bytes.
    pub(crate) fn row_words(&self, tail_bytes: usize) -> usize {
        self.fixed + tail_bytes.div_ceil(8)
    }

    /// The pieces of a row, in their order.
    pub(crate) fn divide<'r>(&self, row: &'r [u64]) -> impl ExactSizeIterator<Item = &'r [u64]> {
        row[self.near(row.len())..].chunks(self.piece)
    }

    /// The length of a piece of a row of `words` words.
    pub(crate) fn piece_words(&self, words: usize, piece: u64) -> usize {
        (words - self.near(words) - piece as usize * self.piece).min(self.piece)
    }

    /// The places of words of a row, `near` of which are in its record.
    pub(crate) fn spans(&self, near: usize, words: WordSpan) -> impl Iterator<Item = Span> {
        let WordSpan { first, count } = words;
        let (mut at, end, piece) = (first, first + count, self.piece);
        std::iter::from_fn(move || {
            let span = match at.checked_sub(near) {
                _ if at >= end => return None,
                None => Span { piece: None, first: at, words: end.min(near) - at },
                Some(far) => {
                    let first = far % piece;
                    Span { piece: Some((far / piece) as u64), first, words: (piece - first).min(end - at) }
                }
            };
            at += span.words;
            Some(span)
        })
    }
}

/// Pieces as a check counts them: those that rows have, or those that are there. Two that are equal
/// are the same pieces, by all odds: what is added is a hash of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub count: u64,
    sum: u64,
}

impl Pieces {
    /// Adds a piece with this key, of `words` words.
    pub(crate) fn add(&mut self, key: &[u64], words: usize) {
        self.count += 1;
        // Names of locks are hashes that suit.
        self.sum = self.sum.wrapping_add(name(words as u32, LockPlace::Key, key));
    }

    /// Adds all pieces of a row.
    pub(crate) fn add_row(&mut self, division: &Division, key: &[u64], tail_bytes: usize) {
        let words = division.row_words(tail_bytes);
        for piece in 0..division.pieces(words) {
            self.add(&division.piece_key(key, piece), division.piece_words(words, piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_without_a_gap() {
        for (fixed, width, page_words) in [(3, 1, 64), (40, 2, 128), (5, 8, 64), (250, 1, 1024), (1, 1, 8192)]
        {
            let division = Division::new(fixed, width, page_words);
            for tail_words in [0, 1, 7, 60, 61, 250, 255, 256, 3000] {
                let row: Vec<u64> = (0..(fixed + tail_words) as u64).collect();
                let near = division.near(row.len());
                assert!(
                    near <= record_words_max(page_words, width) && near >= division.near_fixed().min(near)
                );
                let pieces: Vec<&[u64]> = division.divide(&row).collect();
                assert_eq!(pieces.len() as u64, division.pieces(row.len()));
                for (number, piece) in (0..).zip(&pieces) {
                    assert_eq!(piece.len(), division.piece_words(row.len(), number));
                    assert!(piece.len() <= record_words_max(page_words, width + 1));
                }
                for (first, count) in [(0, row.len()), (fixed, tail_words), (0, fixed), (fixed / 2, 1)] {
                    let spans = division.spans(near, WordSpan { first, count });
                    let found: Vec<u64> = spans
                        .flat_map(|Span { piece, first, words }| {
                            let from = piece.map_or(&row[..near], |piece| pieces[piece as usize]);
                            from[first..first + words].to_vec()
                        })
                        .collect();
                    assert_eq!(found, row[first..first + count]);
                }
            }
        }
    }

    #[test]
    fn pieces_count_as_the_same_only_if_they_are() {
        let division = Division::new(3, 1, 64);
        let mut rows = Pieces::default();
        rows.add_row(&division, &[7], 300);
        let words = division.row_words(300);
        let mut found = Pieces::default();
        for piece in (0..division.pieces(words)).rev() {
            found.add(&division.piece_key(&[7], piece), division.piece_words(words, piece));
        }
        assert_eq!(rows, found);
        let mut other = Pieces::default();
        other.add_row(&division, &[8], 300);
        assert!(rows.count == other.count && rows != other);
    }
}
