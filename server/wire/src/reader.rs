//! Bytes of a message, read from their beginning.

use crate::ProtocolError;

/// Bytes that were not read.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    fn short() -> ProtocolError {
        ProtocolError("insufficient data left in message".to_owned())
    }

    /// Reads this many bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ProtocolError> {
        let (first, rest) = self.0.split_at_checked(count).ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(first)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, ProtocolError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads an integer of 2 bytes.
    pub fn i16(&mut self) -> Result<i16, ProtocolError> {
        self.array().map(i16::from_be_bytes)
    }

    /// Reads an integer of 4 bytes.
    pub fn i32(&mut self) -> Result<i32, ProtocolError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a count of 2 bytes, of things that have at least `bytes` bytes each.
    pub fn count(&mut self, bytes: usize) -> Result<usize, ProtocolError> {
        let count = usize::from(self.array().map(u16::from_be_bytes)?);
        if count * bytes > self.0.len() {
            return Err(Self::short());
        }
        Ok(count)
    }

    /// Reads a text with a zero behind it.
    pub fn text(&mut self) -> Result<String, ProtocolError> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| ProtocolError("invalid string in message".to_owned()))?;
        let text = std::str::from_utf8(&self.0[..end]);
        let text =
            text.map_err(|_| ProtocolError("invalid byte sequence for encoding \"UTF8\"".to_owned()))?;
        self.0 = &self.0[end + 1..];
        Ok(text.to_owned())
    }

    /// Reads all that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Fails if something is left.
    pub fn end(&self) -> Result<(), ProtocolError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(ProtocolError("invalid message format".to_owned())),
        }
    }
}
