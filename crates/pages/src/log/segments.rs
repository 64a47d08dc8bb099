//! Files of the log: segments of one length, each for the bytes of the log that its name says.
//!
//! ```text
//! name          wal-0000000004000000.log: the first byte, in hexadecimal digits
//! block 0       magic; version of the format (32 bits), zero; identity of the database; generation; its name; name of the one before; first
//!               byte of the segment; where the log before ended, if the segment is the first of its generation, else 0; bytes of a segment;
//!               those of the file; checksum (CRC-32C) of all before
//! block 1..     records
//! ```
//!
//! Each life of a database is a *generation*, which begins with a segment of its own. Its header
//! says up to where the log before counts: what lies behind that was never acknowledged, and stays
//! dead. No record crosses the end of a segment, and none lies where a mark has room at the end.
//!
//! A generation has a name that cannot be guessed, which is part of the checksums of its records:
//! no payload is one of them, nor is a record of a copy that was used independently.
//!
//! A file has its length on disk before it has a header (that of a segment; a copy ends where its
//! records do), and the segment behind it is there before its own last block is written. So a file
//! that was cut, and one that is missing behind a full one, are noticed.

use platform::files::BLOCK_BYTES;

use super::record::MARK_BYTES;
use crate::lsn::Lsn;

const MAGIC: u64 = u64::from_le_bytes(*b"islesWAL");
const FORMAT: u64 = 2;
/// Words of the header.
const WORDS: usize = 11;

/// Name of a segment that is written anew.
pub(crate) const NEW_NAME: &str = "wal.new";

const PREFIX: &str = "wal-";
const SUFFIX: &str = ".log";

/// The division of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentPlan {
    /// Bytes of a segment: whole blocks.
    pub bytes: u64,
    pub names: SegmentNames,
    pub generation: u64,
    /// The end of the log of the generation before.
    pub continues: Lsn,
}

/// Numbers that distinguish a segment from those of other databases, and of other generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentNames {
    /// Identity of the database, its copies included.
    pub identity: u64,
    /// Name of the generation.
    pub life: u64,
    /// Name of the generation before; 0: there was none.
    pub follows: u64,
}

impl SegmentPlan {
    /// The first byte of the segment that a byte of the log lies in.
    pub(crate) fn segment(&self, lsn: Lsn) -> Lsn {
        Lsn(lsn.0 - lsn.0 % self.bytes)
    }

    /// The first byte of a record in that segment.
    pub(crate) fn first_in_segment(&self, lsn: Lsn) -> Lsn {
        Lsn(self.segment(lsn).0 + BLOCK_BYTES as u64)
    }

    /// End of the segment; a segment that is about to begin has not begun.
    pub(crate) fn end_of_segment(&self, lsn: Lsn) -> u64 {
        if lsn.0.is_multiple_of(self.bytes) { lsn.0 } else { self.segment(lsn).0 + self.bytes }
    }

    /// The place of a record of `bytes` bytes that follows `end`: a mark has room behind it.
    pub(crate) fn place(&self, end: Lsn, bytes: u64) -> Lsn {
        let ends = self.end_of_segment(end);
        if end.0 + bytes + MARK_BYTES <= ends { end } else { Lsn(ends + BLOCK_BYTES as u64) }
    }

    /// Ends of segments that lie between two bytes of the log, ascending.
    pub(crate) fn ends_between(&self, begins: Lsn, ends: u64) -> impl Iterator<Item = u64> + use<> {
        let first = self.segment(begins).0 + self.bytes;
        (first..ends).step_by(self.bytes as usize)
    }
}

/// The name of the segment that begins here.
pub(crate) fn name(first: Lsn) -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", first.0)
}

/// The first byte of the segment with this name, if it is one.
pub(crate) fn parse(name: &str) -> Option<Lsn> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let first = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16)?;
    Some(Lsn(first))
}

/// Returns true if a file with this name is a segment of the log, or becomes one.
pub fn is_log_file_name(name: &str) -> bool {
    name == NEW_NAME || parse(name).is_some()
}

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub names: SegmentNames,
    pub generation: u64,
    pub first: Lsn,
    /// Not 0 in the first segment of a generation.
    pub continues: Lsn,
    pub segment_bytes: u64,
    /// The length of the file: behind it the segment has zeros.
    pub file_bytes: u64,
}

impl Header {
    /// The first byte behind the segment.
    pub(crate) fn end(&self) -> u64 {
        self.first.0 + self.segment_bytes
    }

    /// Its block.
    pub(crate) fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        let Header { names, generation, first, continues, segment_bytes, file_bytes } = *self;
        let SegmentNames { identity, life, follows } = names;
        let mut words = [MAGIC, FORMAT, identity, generation, life, follows, first.0, continues.0, 0, 0, 0];
        words[WORDS - 3..WORDS - 1].copy_from_slice(&[segment_bytes, file_bytes]);
        words[WORDS - 1] = u64::from(crc32c::crc32c(bytemuck::cast_slice(&words[..WORDS - 1])));
        block[..WORDS * 8].copy_from_slice(bytemuck::cast_slice(&words));
        block
    }

    /// Reads what [`Self::encode`] made; `None` if it is something else, or was not written as a
    /// whole.
    pub(crate) fn decode(block: &[u8]) -> Option<Header> {
        let words: [u64; WORDS] = bytemuck::pod_read_unaligned(block.get(..WORDS * 8)?);
        let sum = u64::from(crc32c::crc32c(&block[..(WORDS - 1) * 8]));
        let [MAGIC, FORMAT, identity, generation, life, follows, first, continues, rest @ ..] = words else {
            return None;
        };
        let [segment_bytes, file_bytes, found] = rest;
        let (names, first, continues) =
            (SegmentNames { identity, life, follows }, Lsn(first), Lsn(continues));
        let header = Header { names, generation, first, continues, segment_bytes, file_bytes };
        (found == sum).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written_and_nothing_else() {
        let header = Header {
            names: SegmentNames { identity: 7, life: 8, follows: 9 },
            generation: 3,
            first: Lsn(1 << 20),
            continues: Lsn(12345),
            segment_bytes: 1 << 20,
            file_bytes: 1 << 19,
        };
        let block = header.encode();
        assert_eq!(Header::decode(&block), Some(header));
        for bit in 0..WORDS * 64 {
            let mut flipped = block;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(Header::decode(&block[..20]), None);
    }

    #[test]
    fn names_have_the_beginnings_of_segments() {
        assert_eq!(parse(&name(Lsn(0x40_0000))), Some(Lsn(0x40_0000)));
        assert_eq!(parse("wal-12.log"), None);
        assert_eq!(parse("pages.data"), None);
    }

    #[test]
    fn records_stay_within_segments() {
        let plan =
            SegmentPlan { bytes: 16384, names: SegmentNames::default(), generation: 1, continues: Lsn(0) };
        assert_eq!(plan.place(Lsn(4096), 8192), Lsn(4096));
        assert_eq!(plan.place(Lsn(12288), 4080), Lsn(12288));
        assert_eq!(plan.place(Lsn(12288), 4088), Lsn(16384 + 4096), "a mark has room behind it");
        assert_eq!(plan.place(Lsn(16384), 8), Lsn(16384 + 4096), "behind the header of the next one");
        let ends = |begins, ends| plan.ends_between(Lsn(begins), ends).collect::<Vec<_>>();
        assert_eq!(ends(4096, 16384), [0; 0]);
        assert_eq!(ends(12288, 3 * 16384), [16384, 2 * 16384]);
        assert_eq!(ends(16384, 2 * 16384 + 8192), [2 * 16384]);
    }
}
