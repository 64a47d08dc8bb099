//! Segments as they are found: read and verified by all workers that are given, each segment by one of them.
//!
//! The blocks of a segment are known without its neighbours; which of them count is decided afterwards, from the summaries
//! that are made here.

use platform::Place;
use platform::files::{Access, Buffer, Entry, Existence, Files, Operation};

use super::error::LogError;
use super::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader, Records, SegmentHeader, block};
use super::manifest::Generation;
use super::names::segment_name;
use crate::parallel_job::{Listener, ParallelJob};

/// What is noted of one block of a segment.
pub(super) struct BlockSummary {
    /// Where its payload is.
    pub from: usize,
    pub to: usize,
    /// As in its [`BlockHeader`].
    pub complete: u64,
    pub flushed_before: u64,
    pub records: u64,
    /// First and last epoch of its records; the first is larger if it has none.
    pub epochs: (u64, u64),
}

impl BlockSummary {
    /// Its records in the bytes of a file that was read once more.
    ///
    /// # Errors
    /// The block has changed since it was read first.
    pub(super) fn again<'b>(&self, name: &str, file: &'b [u8]) -> Result<Records<'b>, LogError> {
        let start = self.from - BLOCK_HEADER_BYTES;
        let found = file.get(start..).and_then(block).map(|(_, payload)| payload);
        match found.filter(|payload| payload.len() == self.to - self.from) {
            Some(payload) => Ok(Records::new(payload)),
            None => {
                let (file, offset) = (name.to_owned(), start as u64);
                Err(LogError::Damaged { file, offset, what: "a block reads differently the second time" })
            }
        }
    }
}

/// A segment as it was read.
pub(super) struct SegmentImage<P: Files> {
    pub stream: u32,
    pub sequence: u64,
    pub file_bytes: u64,
    /// The file, unless only what is noted of it was asked for.
    pub bytes: Option<Buffer<P>>,
    pub header: Option<SegmentHeader>,
    /// Its blocks, from the first one on without gaps, and later those of them that are in the generation's chain.
    pub blocks: Vec<BlockSummary>,
    /// The last epoch that counts of its generation.
    pub last: u64,
    /// Blocks before this number were durable, as any block in it says, in the chain or not.
    pub flushed_before: u64,
}

/// How segments are read.
pub(super) struct SegmentReading<'r> {
    pub places: &'r [Place],
    /// Whether their bytes stay in memory.
    pub keeps: bool,
    /// Hears of bytes.
    pub listener: Listener<'r>,
}

/// Reads all segments among the files of a directory, in the order of streams and sequences.
pub(super) fn read_segments<P: Files>(
    c: P::Core,
    directory: &P::Directory,
    segments: &[((u32, u64), &Entry)],
    reading: SegmentReading<'_>,
) -> Result<Vec<SegmentImage<P>>, LogError> {
    let SegmentReading { places, keeps, listener } = reading;
    let read =
        ParallelJob::<P>::run(c, places, listener, |c, _, job| -> Result<Vec<SegmentImage<P>>, LogError> {
            let (mut queue, mut images) = (P::queue(c, directory)?, Vec::new());
            while let Some(((stream, sequence), entry)) = segments.get(job.claim(c)) {
                let bytes = read_file(c, &mut queue, &entry.name, entry.bytes)?;
                let mut image = SegmentImage::of(&bytes, (*stream, *sequence))?;
                image.file_bytes = entry.bytes;
                image.bytes = keeps.then_some(bytes);
                images.push(image);
                job.add(c, entry.bytes);
            }
            Ok(images)
        })?;
    let mut images: Vec<_> = read.into_iter().flatten().collect();
    images.sort_by_key(|image| (image.stream, image.sequence));
    Ok(images)
}

/// A whole file.
pub(super) fn read_file<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    name: &str,
    bytes: u64,
) -> Result<Buffer<P>, LogError> {
    let open = Operation::Open { name: name.into(), existence: Existence::Old, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let buffer = Buffer::new(c, None, bytes as usize, "segment")?;
    read_at(c, queue, file, 0, buffer)
}

/// Fills a buffer from this place of a file.
pub(super) fn read_at<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    file: P::File,
    offset: u64,
    buffer: Buffer<P>,
) -> Result<Buffer<P>, LogError> {
    let mut completion = P::perform(c, queue, Operation::Read { file, offset, buffer });
    completion.bytes()?;
    match completion.buffers.pop() {
        Some(buffer) => Ok(buffer),
        None => Ok(Buffer::new(c, None, ALIGNMENT, "segment")?),
    }
}

impl<P: Files> SegmentImage<P> {
    fn of(bytes: &Buffer<P>, (stream, sequence): (u32, u64)) -> Result<Self, LogError> {
        let all = bytes.bytes();
        let header = SegmentHeader::fetch(all)?;
        let header = header.filter(|header| (header.stream, header.sequence) == (stream, sequence));
        let mut image = SegmentImage {
            stream,
            sequence,
            file_bytes: 0,
            bytes: None,
            header,
            blocks: Vec::new(),
            last: 0,
            flushed_before: 0,
        };
        if let Some(header) = header {
            image.note(all, header);
        }
        Ok(image)
    }

    /// Notes the blocks, and what any block behind them says was durable.
    fn note(&mut self, all: &[u8], segment: SegmentHeader) {
        let mut at = ALIGNMENT;
        while at < all.len() {
            let number = segment.first_block + self.blocks.len() as u64;
            let expected = (self.stream, segment.generation, number);
            let found = block(&all[at..]);
            let Some((header, payload)) =
                found.filter(|(header, _)| (header.stream, header.generation, header.number) == expected)
            else {
                break;
            };
            let BlockHeader { complete, flushed_before, .. } = header;
            let from = at + BLOCK_HEADER_BYTES;
            let mut seen = BlockSummary {
                from,
                to: from + payload.len(),
                complete,
                flushed_before,
                records: 0,
                epochs: (u64::MAX, 0),
            };
            for record in Records::new(payload) {
                seen.records += 1;
                seen.epochs = (seen.epochs.0.min(record.epoch), seen.epochs.1.max(record.epoch));
            }
            self.blocks.push(seen);
            at += header.block_bytes();
        }
        let own = self.blocks.iter().map(|seen| seen.flushed_before);
        let behind = all[at.min(all.len())..].chunks(ALIGNMENT).filter_map(BlockHeader::fetch);
        let behind = behind
            .filter(|header| (header.generation, header.stream) == (segment.generation, self.stream))
            .map(|header| header.flushed_before);
        self.flushed_before = own.chain(behind).fold(0, u64::max);
    }

    /// Whether the segment belongs to a generation, and is still needed.
    pub fn is_of(&self, generation: &Generation) -> bool {
        let start = generation.starts.get(self.stream as usize);
        let needed = start.is_some_and(|start| self.sequence >= *start);
        needed && self.header.is_some_and(|header| header.generation == generation.number)
    }

    /// Where the chain ends in this segment.
    pub fn end(&self) -> usize {
        self.blocks.last().map_or(ALIGNMENT, |seen| seen.to.next_multiple_of(ALIGNMENT))
    }

    pub fn damaged(&self, at: usize, what: &'static str) -> LogError {
        let file = segment_name(self.stream, self.sequence);
        LogError::Damaged { file, offset: at as u64, what }
    }
}
