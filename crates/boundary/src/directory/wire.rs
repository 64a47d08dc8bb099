//! Numbers and texts as bytes: what log, checkpoints and descriptions of tables are made of.
//!
//! Numbers are LEB128: seven bits a byte, low ones first. Reading checks every byte: bytes that are
//! no number, or too few bytes, give `None`, and no value that was read is larger than the bytes
//! that it was read from.

/// Numbers below are one byte long.
pub const ONE_BYTE: usize = 0x80;

/// A record is not what this version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Most bytes of a number.
pub const NUMBER_BYTES: usize = 10;

/// Bytes that grow by a few at a time, most of them fixed numbers of bytes: room for a word stays
/// behind the end, so that whole words are written and the end is moved by less.
#[derive(Default)]
pub struct Bytes {
    bytes: Vec<u8>,
    end: usize,
}

/// Room behind the end.
const SLACK: usize = size_of::<u64>();

impl Bytes {
    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.end = 0;
    }

    /// Number of bytes.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "no caller needs to know")]
    pub fn len(&self) -> usize {
        self.end
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// Makes room for this many more bytes; the caller makes room before it puts bytes.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize) {
        if self.end + bytes + SLACK > self.bytes.len() {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let least = self.end + bytes + SLACK;
        self.bytes.resize(least.max(2 * self.bytes.len()), 0);
    }

    /// The byte at this place, before the end.
    #[inline(always)]
    pub fn at(&mut self, place: usize) -> &mut u8 {
        &mut self.bytes[place]
    }

    #[inline(always)]
    /// Appends a byte.
    pub fn put_byte(&mut self, byte: u8) {
        self.bytes[self.end] = byte;
        self.end += 1;
    }

    /// Puts a number, which needs room for [`NUMBER_BYTES`] at most.
    #[inline(always)]
    pub fn put_number(&mut self, mut value: u64) {
        while value >= ONE_BYTE as u64 {
            self.put_byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_byte(value as u8);
    }

    /// Puts the low bytes of a word, this many, at most 8.
    #[inline(always)]
    pub fn put_word(&mut self, word: u64, bytes: usize) {
        self.bytes[self.end..self.end + 8].copy_from_slice(&word.to_le_bytes());
        self.end += bytes;
    }

    /// Puts bytes; short ones of usual lengths without a call.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        let to = &mut self.bytes[self.end..self.end + bytes.len()];
        match bytes.len() {
            1 => to.copy_from_slice(&bytes[..1]),
            2 => to.copy_from_slice(&bytes[..2]),
            4 => to.copy_from_slice(&bytes[..4]),
            8 => to.copy_from_slice(&bytes[..8]),
            16 => to.copy_from_slice(&bytes[..16]),
            _ => to.copy_from_slice(bytes),
        }
        self.end += bytes.len();
    }

    /// Makes room for a number, and puts it.
    pub fn append_number(&mut self, value: u64) {
        self.room(NUMBER_BYTES);
        self.put_number(value);
    }

    /// Makes room for bytes, and puts them, their number first.
    pub fn append_counted(&mut self, bytes: &[u8]) {
        self.room(NUMBER_BYTES + bytes.len());
        self.put_number(bytes.len() as u64);
        self.put(bytes);
    }

    /// Cuts off the bytes behind this place, and gives them.
    pub fn split_off(&mut self, place: usize) -> Vec<u8> {
        let after = self.bytes[place..self.end].to_vec();
        self.end = place;
        after
    }

    /// The bytes as a vector.
    pub fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }
}

/// Reads this many bytes.
#[inline]
pub fn read_exactly<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (read, others) = rest.split_at_checked(bytes)?;
    *rest = others;
    Some(read)
}

/// Reads a number.
#[inline]
pub fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *read_exactly(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if usize::from(byte) < ONE_BYTE {
            return Some(value);
        }
    }
    None
}

/// Reads a number that is a size in memory.
#[inline]
pub fn read_size(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(read_number(rest)?).ok()
}

/// Reads what [`Bytes::append_counted`] wrote.
#[inline]
pub fn read_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = read_size(rest)?;
    read_exactly(rest, bytes)
}

/// Reads a list, its length first.
pub fn read_list<T>(rest: &mut &[u8], mut item: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = read_number(rest)?;
    // No room is made ahead for what may not be there.
    (0..count).map(|_| item(rest)).collect()
}

/// Reads a text.
pub fn read_text(rest: &mut &[u8]) -> Option<String> {
    Some(std::str::from_utf8(read_bytes(rest)?).ok()?.to_owned())
}
