//! The changes of rows as bytes.
//!
//! ```text
//! change: number (table * 4 + kind), then
//!   insert: the row's fixed part; if the table has tails: number of bytes, bytes
//!   update: key columns; number (changes * 2 + whether there is a new tail); each change: number (offset), number (bytes),
//!           bytes; the tail as above (changes that follow on each other are one)
//!   delete: key columns
//! ```
//!
//! Numbers are LEB128: seven bits a byte, low ones first. Key columns are the primary key's bytes as they lie in the row.

use crate::key::{KeyBuffer, key_words};
use crate::row::Row;
use crate::transaction::with_keys;

pub(crate) const INSERT: u64 = 0;
pub(crate) const UPDATE: u64 = 1;
const DELETE: u64 = 2;

/// Numbers below are one byte long.
const ONE_BYTE: usize = 0x80;

/// Calls back with a row's keys, one slice an index.
type KeysOf = fn(&[u8], &[u8], &mut dyn FnMut(&[&[u64]]));

/// What the log knows of a row type.
#[derive(Clone)]
pub(crate) struct TableCodec {
    pub name: &'static str,
    /// Bytes of the fixed part.
    pub row_bytes: usize,
    pub has_tail: bool,
    /// Where the columns of the primary key lie: start and end.
    key_spans: Vec<(usize, usize)>,
    /// All keys of a row, from its fixed part and tail.
    pub keys_of: KeysOf,
    /// The primary key of a row of which only the key's columns are there.
    primary_of: fn(&[u8]) -> KeyBuffer,
    /// Words of the primary key.
    pub key_words: usize,
    /// Layout of the row, for comparison.
    pub layout: String,
}

impl TableCodec {
    pub(crate) fn of<R: Row>(name: &'static str) -> TableCodec {
        let column = |name: &&str| R::COLUMNS.iter().find(|column| column.name == *name);
        let keys = R::INDEXES[0].columns.iter().filter_map(column);
        let columns =
            R::COLUMNS.iter().map(|column| format!("{} {:?} at {}", column.name, column.kind, column.offset));
        let indexes = R::INDEXES
            .iter()
            .map(|index| format!("{}({}) {}", index.name, index.columns.join(" "), index.unique));
        let layout = columns.chain(indexes).collect::<Vec<_>>().join(", ");
        TableCodec {
            name,
            row_bytes: R::BYTES,
            has_tail: R::HAS_TAIL,
            key_spans: keys.map(|column| (column.offset, column.offset + column.bytes)).collect(),
            keys_of: |fixed, tail, visit| with_keys(&R::fetch(fixed, tail), visit),
            primary_of: |fixed| {
                let mut key = KeyBuffer::new();
                R::fetch(fixed, &[]).index_key(0, &mut key);
                key
            },
            key_words: key_words(R::INDEXES[0].key_bits),
            layout: format!("{}: {layout}{}", R::BYTES, if R::HAS_TAIL { ", tail" } else { "" }),
        }
    }
}

/// Makes the record of one transaction: its parts are independent of each other.
pub(crate) struct Encoder<'d> {
    codecs: &'d [TableCodec],
    bytes: Vec<u8>,
    /// Where parts end, but for the last.
    ends: Vec<usize>,
}

impl<'d> Encoder<'d> {
    pub(crate) fn new(codecs: &'d [TableCodec]) -> Self {
        Encoder { codecs, bytes: Vec::new(), ends: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The bodies of the records.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ends = self.ends.iter().copied().chain(std::iter::once(self.bytes.len()));
        starts.zip(ends).map(|(start, end)| &self.bytes[start..end]).filter(|part| !part.is_empty())
    }

    #[inline]
    fn number(&mut self, mut value: u64) {
        while value >= ONE_BYTE as u64 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    #[inline]
    fn begin(&mut self, table: usize, kind: u64) {
        if self.bytes.len() - self.ends.last().copied().unwrap_or(0) >= super::RECORD_BYTES {
            self.ends.push(self.bytes.len());
        }
        self.number((table as u64) << 2 | kind);
    }

    fn tail(&mut self, tail: &[u8]) {
        self.number(tail.len() as u64);
        self.bytes.extend_from_slice(tail);
    }

    #[inline]
    fn key(&mut self, table: usize, word: &mut impl FnMut(usize) -> u64) {
        let codecs = self.codecs;
        for (start, end) in &codecs[table].key_spans {
            let mut at = *start;
            while at < *end {
                let upto = (at / 8 * 8 + 8).min(*end);
                let bytes = word(at / 8).to_le_bytes();
                self.bytes.extend_from_slice(&bytes[at % 8..at % 8 + upto - at]);
                at = upto;
            }
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, table: usize, words: impl ExactSizeIterator<Item = u64>, tail: &[u8]) {
        self.begin(table, INSERT);
        let start = self.bytes.len();
        self.bytes.resize(start + words.len() * 8, 0);
        for (slot, word) in self.bytes[start..].chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        if self.codecs[table].has_tail {
            self.tail(tail);
        }
    }

    #[inline]
    pub(crate) fn update<'b>(
        &mut self,
        table: usize,
        word: &mut impl FnMut(usize) -> u64,
        changes: impl Iterator<Item = (usize, &'b [u8])>,
        tail: Option<&[u8]>,
    ) {
        self.begin(table, UPDATE);
        self.key(table, word);
        let count_at = self.bytes.len();
        self.bytes.push(0);
        let mut count = 0;
        // Where the length of the last change is, and where the change ends in the row.
        let mut last = None;
        for (offset, bytes) in changes {
            let end = offset + bytes.len();
            if let Some((length_at, last_end)) = last
                && last_end == offset
                && usize::from(self.bytes[length_at]) + bytes.len() < ONE_BYTE
            {
                self.bytes[length_at] += bytes.len() as u8;
                last = Some((length_at, end));
            } else {
                self.number(offset as u64);
                let length_at = self.bytes.len();
                self.number(bytes.len() as u64);
                last = (bytes.len() < ONE_BYTE).then_some((length_at, end));
                count += 1;
            }
            self.bytes.extend_from_slice(bytes);
        }
        let count = count << 1 | u64::from(tail.is_some());
        if count < ONE_BYTE as u64 {
            self.bytes[count_at] = count as u8;
        } else {
            let after = self.bytes.split_off(count_at + 1);
            self.bytes.pop();
            self.number(count);
            self.bytes.extend_from_slice(&after);
        }
        if let Some(tail) = tail {
            self.tail(tail);
        }
    }

    pub(crate) fn delete(&mut self, table: usize, word: &mut impl FnMut(usize) -> u64) {
        self.begin(table, DELETE);
        self.key(table, word);
    }
}

/// One change as read.
pub(crate) enum Change<'a> {
    Insert { fixed: &'a [u8], tail: &'a [u8] },
    Update { key: KeyBuffer, changes: ChangedBytes<'a>, tail: Option<&'a [u8]> },
    Delete { key: KeyBuffer },
}

impl Change<'_> {
    /// The primary key of the row that changes.
    pub(crate) fn key(&self, codec: &TableCodec) -> KeyBuffer {
        match self {
            Change::Insert { fixed, .. } => (codec.primary_of)(fixed),
            Change::Update { key, .. } | Change::Delete { key } => *key,
        }
    }
}

/// Changed bytes of a row and where they lie in it, whose encoding has been looked through.
#[derive(Clone, Copy)]
pub(crate) struct ChangedBytes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ChangedBytes<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let offset = take_number(&mut self.rest)? as usize;
        let bytes = take_number(&mut self.rest)? as usize;
        Some((offset, take(&mut self.rest, bytes)?))
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, others) = rest.split_at_checked(bytes)?;
    *rest = others;
    Some(taken)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads the changes of a record; `None` if they are none.
pub(crate) struct Decoder<'d, 'a> {
    codecs: &'d [TableCodec],
    rest: &'a [u8],
    /// A row of zeros with the key's columns filled in.
    image: Vec<u8>,
}

impl<'d, 'a> Decoder<'d, 'a> {
    pub(crate) fn new(codecs: &'d [TableCodec], body: &'a [u8]) -> Self {
        Decoder { codecs, rest: body, image: Vec::new() }
    }

    /// Goes on with another record.
    pub(crate) fn begin(&mut self, body: &'a [u8]) {
        self.rest = body;
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left of the record.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        take(&mut self.rest, bytes)
    }

    fn number(&mut self) -> Option<u64> {
        take_number(&mut self.rest)
    }

    fn tail(&mut self) -> Option<&'a [u8]> {
        let bytes = self.number()?;
        self.take(usize::try_from(bytes).ok()?)
    }

    fn key(&mut self, codec: &TableCodec) -> Option<KeyBuffer> {
        self.image.clear();
        self.image.resize(codec.row_bytes, 0);
        for (start, end) in &codec.key_spans {
            let bytes = self.take(end - start)?;
            self.image[*start..*end].copy_from_slice(bytes);
        }
        Some((codec.primary_of)(&self.image))
    }

    /// The next change, with the number of its table.
    pub(crate) fn next(&mut self) -> Option<(usize, Change<'a>)> {
        let head = self.number()?;
        let table = usize::try_from(head >> 2).ok()?;
        let codecs = self.codecs;
        let codec = codecs.get(table)?;
        let change = self.change(codec, head & 3)?;
        Some((table, change))
    }

    /// Passes over the next change: the number of its table, its kind, and the row's primary key.
    pub(crate) fn next_key(&mut self) -> Option<(usize, u8, KeyBuffer)> {
        let kind = *self.rest.first()? & 3;
        let (table, change) = self.next()?;
        Some((table, kind, change.key(&self.codecs[table])))
    }

    #[inline]
    fn change(&mut self, codec: &TableCodec, kind: u64) -> Option<Change<'a>> {
        Some(match kind {
            INSERT => {
                let fixed = self.take(codec.row_bytes)?;
                let tail = if codec.has_tail { self.tail()? } else { &[] };
                Change::Insert { fixed, tail }
            }
            UPDATE => {
                let key = self.key(codec)?;
                let count = self.number()?;
                let before = self.rest;
                for _ in 0..count >> 1 {
                    let (offset, bytes) = (self.number()? as usize, self.number()? as usize);
                    let bytes = self.take(bytes)?;
                    let end = offset.checked_add(bytes.len())?;
                    if end > codec.row_bytes {
                        return None;
                    }
                }
                let changes = ChangedBytes { rest: &before[..before.len() - self.rest.len()] };
                let tail = if count & 1 == 1 { Some(self.tail()?) } else { None };
                Change::Update { key, changes, tail }
            }
            DELETE => Change::Delete { key: self.key(codec)? },
            _ => return None,
        })
    }
}
