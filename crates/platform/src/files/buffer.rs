//! Memory that is written to files and read from them.

use crate::{Intent, Node, OutOfMemory, Platform, RegionBytes};

/// Offsets and lengths of a [direct](super::Access::Direct) file are multiples of this; buffers are
/// aligned to it.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes in a region of their own, aligned for direct access, that belong to the holder of the
/// buffer: the first [`Self::len`] of them are filled.
pub struct Buffer<P: Platform> {
    region: P::Region,
    len: usize,
}

impl<P: Platform> Buffer<P> {
    /// An empty buffer for at least `capacity` bytes on `node`; `name` is its purpose in
    /// reports.
    pub fn new(
        c: P::Core,
        node: Option<Node>,
        capacity: usize,
        name: &'static str,
    ) -> Result<Self, OutOfMemory> {
        let capacity = capacity.max(1).next_multiple_of(BLOCK_BYTES);
        Ok(Buffer { region: P::region(c, node, capacity, name)?, len: 0 })
    }

    /// Bytes that fit.
    pub fn capacity(&self) -> usize {
        self.region.bytes()
    }

    /// Bytes that are filled.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is filled.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Says how much is filled: forgets what is behind, or takes what is there. Panics beyond the
    /// capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes in a buffer for {}", self.capacity());
        self.len = len;
    }

    /// The filled bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised memory (regions start zeroed) that is reached through this buffer
        // alone, shared as it is borrowed; `len` is at most its size.
        unsafe { std::slice::from_raw_parts(self.region.base(), self.len) }
    }

    /// All bytes, filled or not. What is written there counts as filled after [`Self::set_len`].
    pub fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, exclusive as it is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.region.base(), self.region.bytes()) }
    }

    /// Bytes `from..to`, to be written by the caller, which is charged for their lines.
    #[inline]
    pub fn writable(&mut self, c: P::Core, from: usize, to: usize) -> &mut [u8] {
        let span = &mut self.all_mut()[from..to];
        P::touch(c, span.as_ptr(), span.len(), Intent::Write);
        span
    }

    /// Appends bytes; false, and nothing done, if they do not fit.
    #[inline]
    pub fn append(&mut self, c: P::Core, bytes: &[u8]) -> bool {
        let end = self.len + bytes.len();
        if end > self.capacity() {
            return false;
        }
        let start = self.len;
        self.writable(c, start, end).copy_from_slice(bytes);
        self.len = end;
        true
    }

    /// Appends zeros up to a multiple of `alignment`, which the capacity is a multiple of too.
    pub fn pad(&mut self, alignment: usize) {
        let end = self.len.next_multiple_of(alignment);
        let start = self.len;
        self.all_mut()[start..end].fill(0);
        self.len = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hardware;

    #[test]
    fn what_is_appended_is_there_and_padding_is_zero() {
        let c = Hardware::core();
        let mut buffer = Buffer::<Hardware>::new(c, None, 5000, "test").expect("memory");
        assert!(buffer.capacity() >= 8192 && buffer.is_empty());
        buffer.all_mut().fill(0xff);
        assert!(buffer.append(c, b"abc"));
        buffer.pad(512);
        assert_eq!(buffer.len(), 512);
        assert_eq!(&buffer.bytes()[..3], b"abc");
        assert!(buffer.bytes()[3..].iter().all(|byte| *byte == 0));
        let room = buffer.capacity() - buffer.len();
        assert!(!buffer.append(c, &vec![1; room + 1]));
        assert!(buffer.append(c, &vec![1; room]));
    }
}
