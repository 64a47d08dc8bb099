//! The changes of rows as bytes, as far as they are understood without the type of the rows.
//!
//! ```text
//! change: number (table id * 4 + kind), then
//!   insert: the row's fixed part; if the table has tails: number of bytes, bytes
//!   update: key columns; number (changes * 2 + whether there is a new tail); each change: number (offset), number (bytes),
//!           bytes; the tail as above (changes that follow on each other are one)
//!   delete: key columns
//! ```
//!
//! [Numbers](super::wire) are LEB128. Key columns are the primary key's bytes as they lie in the
//! row, one column after the other; those of the tail have their lengths before them
//! ([`KeyColumns`]).

use boundary::directory::wire::{read_bytes, read_exactly, read_number, read_size};
use schema::{KeyColumns, KeyPlace, TableDescription};

pub const INSERT: u64 = 0;
pub const UPDATE: u64 = 1;
pub const DELETE: u64 = 2;

/// The parts of a table's description that its changes are read by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the fixed part.
    pub row_bytes: usize,
    pub has_tail: bool,
    /// Where the columns of the primary key lie.
    pub key: KeyColumns,
    /// True if some of them are in the tail: keys have several lengths.
    pub key_in_tail: bool,
    /// Their bytes in the fixed part as pieces of words, if all are there.
    pub key_pieces: Vec<Piece>,
    /// The number of these bytes.
    pub key_bytes: usize,
}

/// Some bytes of one word of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which word.
    pub word: u32,
    /// Bits below them.
    pub shift: u8,
    pub bytes: u8,
}

/// Spans as pieces of words; neighbours in a word are one piece.
fn pieces(spans: &[(usize, usize)]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (start, end) in spans {
        let mut at = *start;
        while at < *end {
            let upto = (at / 8 * 8 + 8).min(*end);
            let piece = Piece { word: (at / 8) as u32, shift: (at % 8 * 8) as u8, bytes: (upto - at) as u8 };
            match pieces.last_mut() {
                Some(last) if last.word == piece.word && last.shift + 8 * last.bytes == piece.shift => {
                    last.bytes += piece.bytes;
                }
                _ => pieces.push(piece),
            }
            at = upto;
        }
    }
    pieces
}

/// A change as far as it is understood without the row type: the key is the bytes of its columns.
pub enum UntypedChange<'a> {
    Insert { fixed: &'a [u8], tail: &'a [u8] },
    Update { key: &'a [u8], changes: ChangedBytes<'a>, tail: Option<&'a [u8]> },
    Delete { key: &'a [u8] },
}

/// Changed bytes of a row and where they lie in it, whose encoding has been checked.
#[derive(Clone, Copy)]
pub struct ChangedBytes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ChangedBytes<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((read_size(&mut self.rest)?, read_bytes(&mut self.rest)?))
    }
}

/// The id of a change's table, and its kind.
#[inline]
pub fn read_head(rest: &mut &[u8]) -> Option<(u32, u64)> {
    let head = read_number(rest)?;
    Some((u32::try_from(head >> 2).ok()?, head & 3))
}

impl Layout {
    /// How changes of rows of this table are read.
    pub fn of(table: &TableDescription) -> Layout {
        let key = KeyColumns::of(table);
        let span = |place: &KeyPlace| match *place {
            KeyPlace::Fixed(start, end) => Some((start, end)),
            KeyPlace::Tail(_) => None,
        };
        let spans: Vec<_> = key.places().iter().filter_map(span).collect();
        Layout {
            row_bytes: table.row_bytes(),
            has_tail: table.has_tail(),
            key_in_tail: key.are_in_tail(),
            key,
            key_pieces: pieces(&spans),
            key_bytes: spans.iter().map(|(start, end)| end - start).sum(),
        }
    }

    /// Takes a key off the beginning of some bytes.
    #[inline]
    pub fn take_key<'a>(&self, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        if self.key_in_tail { self.key.take(rest) } else { read_exactly(rest, self.key_bytes) }
    }

    /// Reads a change of this kind; `None` if the bytes are no such change.
    pub fn read_change<'a>(&self, kind: u64, rest: &mut &'a [u8]) -> Option<UntypedChange<'a>> {
        match kind {
            INSERT => {
                let fixed = read_exactly(rest, self.row_bytes)?;
                let tail = if self.has_tail { read_bytes(rest)? } else { &[] };
                Some(UntypedChange::Insert { fixed, tail })
            }
            UPDATE => {
                let key = self.take_key(rest)?;
                let count = read_number(rest)?;
                let before = *rest;
                for _ in 0..count >> 1 {
                    let (offset, bytes) = (read_size(rest)?, read_bytes(rest)?);
                    if offset.checked_add(bytes.len())? > self.row_bytes {
                        return None;
                    }
                }
                let changes = ChangedBytes { rest: &before[..before.len() - rest.len()] };
                let tail = match count & 1 {
                    0 => None,
                    _ if self.has_tail => Some(read_bytes(rest)?),
                    _ => return None,
                };
                Some(UntypedChange::Update { key, changes, tail })
            }
            DELETE => Some(UntypedChange::Delete { key: self.take_key(rest)? }),
            _ => None,
        }
    }

    /// Appends the key columns of a row.
    pub fn put_key(&self, fixed: &[u8], tail: &[u8], to: &mut Vec<u8>) {
        self.key.put(fixed, tail, to);
    }
}
