//! A block of the log, or of a checkpoint, while records are pushed into it.

use platform::Platform;
use platform::files::Buffer;

use crate::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader, GrowingCrc, Record};

/// A buffer with room for the header of a block and whole records behind it, and the checksum of
/// these.
pub(crate) struct FillingBlock<P: Platform> {
    buffer: Buffer<P>,
    crc: GrowingCrc,
}

impl<P: Platform> FillingBlock<P> {
    /// A block without records; what the buffer held is overwritten.
    pub(crate) fn new(mut buffer: Buffer<P>) -> Self {
        buffer.set_len(BLOCK_HEADER_BYTES);
        FillingBlock { buffer, crc: GrowingCrc::default() }
    }

    /// Returns true if a record of this many bytes fits.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.buffer.len() + bytes <= self.buffer.capacity()
    }

    /// Adds a record that fits.
    pub(crate) fn push(&mut self, c: P::Core, record: &Record<'_>) {
        let start = self.buffer.len();
        let end = start + record.bytes();
        record.store(self.buffer.writable(c, start, end));
        self.buffer.set_len(end);
        self.crc.grow(self.buffer.bytes());
    }

    /// Takes over the records of a block that comes next, if it is a small one and they fit;
    /// whether it did.
    pub(crate) fn absorb(&mut self, c: P::Core, next: &FillingBlock<P>) -> bool {
        let records = &next.buffer.bytes()[BLOCK_HEADER_BYTES..];
        let absorbs = next.buffer.len() <= ALIGNMENT && self.buffer.append(c, records);
        if absorbs {
            self.crc.grow(self.buffer.bytes());
        }
        absorbs
    }

    /// Bytes that the block takes once it is sealed.
    pub(crate) fn block_bytes(&self) -> usize {
        self.buffer.len().next_multiple_of(ALIGNMENT)
    }

    /// Ends the block with this header, of which the payload's length and checksum are filled in
    /// here, and with padding.
    pub(crate) fn seal(&mut self, c: P::Core, header: BlockHeader) {
        let header = BlockHeader {
            payload_bytes: (self.buffer.len() - BLOCK_HEADER_BYTES) as u32,
            payload_crc: std::mem::take(&mut self.crc).finish(self.buffer.bytes()),
            ..header
        };
        header.store(self.buffer.writable(c, 0, BLOCK_HEADER_BYTES));
        self.buffer.pad(ALIGNMENT);
    }

    /// The bytes of a sealed block.
    pub(crate) fn into_buffer(self) -> Buffer<P> {
        self.buffer
    }
}
