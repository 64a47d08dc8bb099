//! The bytes of a log: segments, blocks, records.
//!
//! A segment is a file: one block with its [header](SegmentHeader), then blocks, each a
//! [header](BlockHeader) and a payload of whole records, filled up with zeros to a multiple of
//! [`ALIGNMENT`]. Numbers are little-endian; every header and every payload has a CRC-32C of its
//! own.
//!
//! A file may hold anything behind its blocks: payloads of blocks of a former use, values that a
//! program has made of bytes of other logs. So a header names the place where it stands
//! ([`BlockPlace`]), which begins with a number that was drawn at random for the file's writer, and
//! counts nowhere else.
//!
//! ```text
//! segment header: magic 8 | format 4 | stream 4 | database 8 | identity 8 | sequence 8 | generation 8 |
//!                 first epoch 8 | crc 4 | zeros
//! block header:   magic 4 | payload 4 | identity 8 | sequence 8 | offset 8 | number 8 | complete 8 | whole 8 |
//!                 flushed before 8 | reaches 8 | reached bytes 8 | file bytes 8 | stream 4 | payload's crc 4 | zeros 4 | crc 4
//! record:         body 4 (highest bit: late) | stamp 8 | epoch 8 if late | body
//! ```

use terms::Epoch;

use crate::error::LogError;

/// Version of everything in a database's directory.
pub const FORMAT: u32 = 8;
/// The oldest version that is read: earlier ones have other stamps.
pub const FORMAT_OLDEST: u32 = 8;
/// Blocks begin and end at multiples of this, as direct access requires.
pub const ALIGNMENT: usize = platform::files::BLOCK_BYTES;
/// Length of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 104;
/// Length of a record's header, that of a late one being 8 more.
pub const RECORD_HEADER_BYTES: usize = 12;

const SEGMENT_MAGIC: [u8; 8] = *b"ISLESLOG";
const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"BLCK");
const SEGMENT_HEADER_BYTES: usize = SEGMENT_CRC_AT + 4;
const SEGMENT_CRC_AT: usize = 56;
const BLOCK_CRC_AT: usize = BLOCK_HEADER_BYTES - 4;
const LATE: u32 = 1 << 31;
/// Checksums of growing payloads are extended by this many bytes at a time: these are in the
/// nearest cache then, and enough for the processor to work on several parts at once.
const CRC_BYTES: usize = 8 << 10;

const _: () = assert!(BLOCK_HEADER_BYTES < ALIGNMENT && SEGMENT_HEADER_BYTES < ALIGNMENT);

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Refuses what another version wrote that is not read.
pub(crate) fn check_format(found: u32) -> Result<(), LogError> {
    if (FORMAT_OLDEST..=FORMAT).contains(&found) {
        return Ok(());
    }
    Err(LogError::Format { found, known: FORMAT })
}

/// The first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Identity of its database, as in the manifest.
    pub database: u64,
    /// A number that was drawn for the opening, or the checkpoint, that wrote it: blocks have it
    /// too.
    pub identity: u64,
    /// The stream it belongs to.
    pub stream: u32,
    /// Number among the segments of the stream; a file that is used again gets a new one.
    pub sequence: u64,
    /// Which opening of the database wrote it.
    pub generation: u64,
    /// The first epoch of that opening. What the opening has written before the manifest knew of it
    /// is not later.
    pub first_epoch: u64,
}

impl SegmentHeader {
    /// Writes the header to the start of `to`, which has [`ALIGNMENT`] bytes.
    pub fn store(&self, to: &mut [u8]) {
        to[..ALIGNMENT].fill(0);
        to[..8].copy_from_slice(&SEGMENT_MAGIC);
        put32(to, 8, FORMAT);
        put32(to, 12, self.stream);
        put64(to, 16, self.database);
        put64(to, 24, self.identity);
        put64(to, 32, self.sequence);
        put64(to, 40, self.generation);
        put64(to, 48, self.first_epoch);
        let crc = crc32c::crc32c(&to[..SEGMENT_CRC_AT]);
        put32(to, SEGMENT_CRC_AT, crc);
    }

    /// Reads a header from the start of a segment; `None` if there is none, or it was never written
    /// as a whole.
    ///
    /// # Errors
    /// [`LogError::Format`] if another version wrote it.
    pub fn fetch(from: &[u8]) -> Result<Option<SegmentHeader>, LogError> {
        let Some(header) = from.get(..ALIGNMENT) else { return Ok(None) };
        if header[..8] != SEGMENT_MAGIC
            || u32_at(header, SEGMENT_CRC_AT) != crc32c::crc32c(&header[..SEGMENT_CRC_AT])
        {
            return Ok(None);
        }
        let format = u32_at(header, 8);
        check_format(format)?;
        if header[SEGMENT_HEADER_BYTES..].iter().any(|byte| *byte != 0) {
            return Ok(None);
        }
        Ok(Some(SegmentHeader {
            stream: u32_at(header, 12),
            database: u64_at(header, 16),
            identity: u64_at(header, 24),
            sequence: u64_at(header, 32),
            generation: u64_at(header, 40),
            first_epoch: u64_at(header, 48),
        }))
    }

    /// The place of the block at this offset of the segment.
    pub fn place(&self, offset: u64) -> BlockPlace {
        BlockPlace { identity: self.identity, stream: self.stream, sequence: self.sequence, offset }
    }
}

/// The place of a block: no other block that was ever written has the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockPlace {
    /// Identity of its [segment](SegmentHeader).
    pub identity: u64,
    /// The stream.
    pub stream: u32,
    /// The segment.
    pub sequence: u64,
    /// First byte of the block in the segment.
    pub offset: u64,
}

/// The header before the records of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// The place at which the block was written.
    pub place: BlockPlace,
    /// Number among the blocks that the stream wrote in this generation, from 0, without gaps.
    pub number: u64,
    /// Bytes of records behind the header.
    pub payload_bytes: u32,
    /// Their checksum.
    pub payload_crc: u32,
    /// All records of this stream with this epoch or an earlier one are in this block or before it.
    pub complete: u64,
    /// Not 0: everything that the records up to here depend on is in this block or before it, or in
    /// another stream up to the block with the same number here. All of it counts, even if its
    /// epoch is not complete.
    pub whole: u64,
    /// Blocks with smaller numbers were durable when this one was written: if one of them cannot be
    /// read and this one can, that is no torn write.
    pub flushed_before: u64,
    /// The stream's segments up to this sequence were durable, their names and headers, when this
    /// block was written.
    pub reaches: u64,
    /// The file of the last of them had this length, durably.
    pub reached_bytes: u64,
    /// The file had this length, durably, when this block was written.
    pub file_bytes: u64,
}

impl BlockHeader {
    /// Writes the header to the start of `to`.
    pub fn store(&self, to: &mut [u8]) {
        put32(to, 0, BLOCK_MAGIC);
        put32(to, 4, self.payload_bytes);
        put64(to, 8, self.place.identity);
        put64(to, 16, self.place.sequence);
        put64(to, 24, self.place.offset);
        put64(to, 32, self.number);
        put64(to, 40, self.complete);
        put64(to, 48, self.whole);
        put64(to, 56, self.flushed_before);
        put64(to, 64, self.reaches);
        put64(to, 72, self.file_bytes);
        put64(to, 80, self.reached_bytes);
        put32(to, 88, self.place.stream);
        put32(to, 92, self.payload_crc);
        put32(to, 96, 0);
        let crc = crc32c::crc32c(&to[..BLOCK_CRC_AT]);
        put32(to, BLOCK_CRC_AT, crc);
    }

    /// Reads a header; `None` if there is none.
    pub fn fetch(from: &[u8]) -> Option<BlockHeader> {
        let header = from.get(..BLOCK_HEADER_BYTES)?;
        if u32_at(header, 0) != BLOCK_MAGIC
            || u32_at(header, BLOCK_CRC_AT) != crc32c::crc32c(&header[..BLOCK_CRC_AT])
        {
            return None;
        }
        let place = BlockPlace {
            identity: u64_at(header, 8),
            stream: u32_at(header, 88),
            sequence: u64_at(header, 16),
            offset: u64_at(header, 24),
        };
        Some(BlockHeader {
            place,
            number: u64_at(header, 32),
            payload_bytes: u32_at(header, 4),
            payload_crc: u32_at(header, 92),
            complete: u64_at(header, 40),
            whole: u64_at(header, 48),
            flushed_before: u64_at(header, 56),
            reaches: u64_at(header, 64),
            reached_bytes: u64_at(header, 80),
            file_bytes: u64_at(header, 72),
        })
    }

    /// Bytes from the start of the block to the next.
    pub fn block_bytes(&self) -> usize {
        (BLOCK_HEADER_BYTES + self.payload_bytes as usize).next_multiple_of(ALIGNMENT)
    }
}

/// The changes of one transaction, or a part of them: all parts have the same stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place among the commits: of two changes of a row the one with the larger stamp is later.
    pub stamp: u64,
    /// The transaction is durable when this epoch is.
    pub epoch: u64,
    /// The encoded changes.
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns true if the record's epoch differs from that of its stamp: the record was prepared
    /// in an earlier epoch.
    fn is_late(&self) -> bool {
        Epoch(self.epoch) != Epoch::of_stamp(self.stamp)
    }

    /// Bytes that the record takes.
    pub fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + if self.is_late() { 8 } else { 0 } + self.body.len()
    }

    /// Writes the record to the start of `to`.
    pub fn store(&self, to: &mut [u8]) {
        let (late, end) = (self.is_late(), self.bytes());
        put32(to, 0, self.body.len() as u32 | if late { LATE } else { 0 });
        put64(to, 4, self.stamp);
        if late {
            put64(to, 12, self.epoch);
        }
        to[end - self.body.len()..end].copy_from_slice(self.body);
    }

    /// Reads a record from the start of `from`, and how many bytes the record takes; `None` if
    /// there is none.
    #[inline]
    fn fetch(from: &'a [u8]) -> Option<(Record<'a>, usize)> {
        if from.len() < RECORD_HEADER_BYTES {
            return None;
        }
        let (length, stamp) = (u32_at(from, 0), u64_at(from, 4));
        let late = length & LATE != 0;
        let start = RECORD_HEADER_BYTES + if late { 8 } else { 0 };
        let end = start + (length & !LATE) as usize;
        let body = from.get(start..end)?;
        let epoch = if late { u64_at(from, 12) } else { Epoch::of_stamp(stamp).0 };
        Some((Record { stamp, epoch, body }, end))
    }
}

/// The checksum of a block's payload that grows behind the room for its header.
#[derive(Default)]
pub(crate) struct GrowingCrc {
    crc: u32,
    covered: usize,
}

impl GrowingCrc {
    /// Extends the checksum if the block has grown enough.
    #[inline]
    pub(crate) fn grow(&mut self, block: &[u8]) {
        if block.len() >= BLOCK_HEADER_BYTES + self.covered + CRC_BYTES {
            self.cover(block);
        }
    }

    /// The checksum of all of it.
    pub(crate) fn finish(mut self, block: &[u8]) -> u32 {
        self.cover(block);
        self.crc
    }

    fn cover(&mut self, block: &[u8]) {
        let payload = &block[BLOCK_HEADER_BYTES..];
        self.crc = crc32c::crc32c_append(self.crc, &payload[self.covered..]);
        self.covered = payload.len();
    }
}

/// The records of a payload, up to the first that is none. What was written is known by the
/// payload's checksum, which [`block`] verifies.
#[derive(Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records of this payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Records { rest: payload }
    }

    /// Returns true if all records were read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (record, bytes) = Record::fetch(self.rest)?;
        self.rest = &self.rest[bytes..];
        Some(record)
    }
}

/// The block at the start of `from`, if it is whole: its header and its payload.
pub fn block(from: &[u8]) -> Option<(BlockHeader, &[u8])> {
    let header = BlockHeader::fetch(from)?;
    let whole = from.get(..header.block_bytes())?;
    let (payload, padding) = whole[BLOCK_HEADER_BYTES..].split_at(header.payload_bytes as usize);
    if crc32c::crc32c(payload) != header.payload_crc {
        return None;
    }
    let mut records = Records::new(payload);
    records.by_ref().for_each(drop);
    let whole = records.is_at_end() && padding.iter().all(|byte| *byte == 0);
    whole.then_some((header, payload))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment_of(bodies: &[(u64, u64, Vec<u8>)]) -> Vec<u8> {
        let records: Vec<_> =
            bodies.iter().map(|(stamp, epoch, body)| Record { stamp: *stamp, epoch: *epoch, body }).collect();
        let payload: usize = records.iter().map(Record::bytes).sum();
        let mut bytes = vec![0; (BLOCK_HEADER_BYTES + payload).next_multiple_of(ALIGNMENT)];
        let (mut at, mut crc) = (BLOCK_HEADER_BYTES, GrowingCrc::default());
        for record in &records {
            record.store(&mut bytes[at..]);
            at += record.bytes();
            crc.grow(&bytes[..at]);
        }
        let header = BlockHeader {
            place: BlockPlace { identity: 2, stream: 3, sequence: 4, offset: 4096 },
            number: 9,
            payload_bytes: payload as u32,
            payload_crc: crc.finish(&bytes[..at]),
            complete: 7,
            whole: 1,
            flushed_before: 5,
            reaches: 6,
            reached_bytes: 10,
            file_bytes: 8,
        };
        header.store(&mut bytes);
        bytes
    }

    fn bodies() -> impl Strategy<Value = Vec<(u64, u64, Vec<u8>)>> {
        let body = prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..200), 1 => prop::collection::vec(any::<u8>(), 9000)];
        prop::collection::vec((any::<u64>(), any::<u64>(), body), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_block_gives_back_its_records(bodies in bodies()) {
            let bytes = segment_of(&bodies);
            let (header, payload) = block(&bytes).expect("a block");
            prop_assert_eq!((header.number, header.block_bytes()), (9, bytes.len()));
            let read: Vec<_> =
                Records::new(payload).map(|record| (record.stamp, record.epoch, record.body.to_vec())).collect();
            prop_assert_eq!(read, bodies);
        }

        #[test]
        fn no_flipped_bit_goes_unnoticed(bodies in bodies(), place: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = segment_of(&bodies);
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            prop_assert!(block(&bytes).is_none(), "byte {}", place);
        }
    }

    #[test]
    fn segment_headers_are_known_by_every_bit() {
        let (database, identity, stream, sequence, generation) = (5, 6, 1, 2, 3);
        let header = SegmentHeader { database, identity, stream, sequence, generation, first_epoch: 4 };
        let mut bytes = vec![0xff; ALIGNMENT];
        header.store(&mut bytes);
        assert_eq!(SegmentHeader::fetch(&bytes), Ok(Some(header)));
        for place in 0..ALIGNMENT {
            bytes[place] ^= 16;
            assert_eq!(SegmentHeader::fetch(&bytes), Ok(None), "byte {place}");
            bytes[place] ^= 16;
        }
    }
}
