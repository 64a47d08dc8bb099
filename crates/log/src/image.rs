//! Segments as they are found: read and verified by all workers that are given, each segment by one
//! of them.
//!
//! The blocks of a segment are read without its neighbours; which of them count is decided
//! afterwards, from the summaries that are made here. Only a segment's blocks stay in memory. The
//! space behind them, allocated ahead or left by a former use, is read step by step, for blocks
//! that prove that some before them are damaged.

use platform::Place;
use platform::files::{Access, Buffer, Entry, Existence, Files, Operation};
use storage::{Listener, ParallelJob};

use crate::error::LogError;
use crate::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader, Records, SegmentHeader, block};
use crate::manifest::Generation;
use crate::names::segment_name;

/// Bytes that are read at first of a segment that may be almost empty, and at a time of what is
/// behind its blocks.
const STEP_BYTES: u64 = 1 << 20;
/// By how much more is read of it if all of that is blocks.
const STEP_GROWTH: u64 = 4;

/// Summary of one block of a segment.
pub(crate) struct BlockSummary {
    /// Bounds of its payload in the file.
    pub from: usize,
    pub to: usize,
    /// Copies of the fields of its [`BlockHeader`].
    pub complete: u64,
    pub whole: u64,
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
    pub(crate) fn again<'b>(&self, name: &str, file: &'b [u8]) -> Result<Records<'b>, LogError> {
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

/// Claims of a segment's blocks about other blocks, within the chain or not: the largest number of
/// each kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Claims {
    pub complete: u64,
    pub flushed_before: u64,
    /// The last segment that was known, and how long its file was.
    pub reaches: u64,
    pub reached_bytes: u64,
    pub file_bytes: u64,
}

impl Claims {
    fn add(&mut self, header: &BlockHeader) {
        let reached = (header.reaches, header.reached_bytes);
        (self.reaches, self.reached_bytes) = reached.max((self.reaches, self.reached_bytes));
        self.complete = self.complete.max(header.complete);
        self.flushed_before = self.flushed_before.max(header.flushed_before);
        self.file_bytes = self.file_bytes.max(header.file_bytes);
    }
}

/// A segment as it was read.
pub(crate) struct SegmentImage<P: Files> {
    pub stream: u32,
    pub sequence: u64,
    pub file_bytes: u64,
    /// The file up to the end of its blocks, unless only the summaries were requested.
    pub bytes: Option<Buffer<P>>,
    /// The header of its first block, even if that of another segment, and whether the file has
    /// only zeros.
    pub found: Option<SegmentHeader>,
    pub is_blank: bool,
    /// Its header, if that is of this segment.
    pub header: Option<SegmentHeader>,
    /// Number of the first block.
    pub first_block: u64,
    /// Its blocks, from the first one on without gaps, and later those of them that are in the
    /// generation's chain.
    pub blocks: Vec<BlockSummary>,
    /// The last epoch that counts of its generation, and the blocks of which everything counts.
    pub last: u64,
    pub whole_blocks: usize,
    pub claims: Claims,
}

/// Parameters of the reading of segments.
pub(crate) struct SegmentReading<'r> {
    pub places: &'r [Place],
    /// True if their blocks stay in memory.
    pub keeps: bool,
    /// Receives the number of bytes read.
    pub listener: Listener<'r>,
}

/// Reads all segments among the files of a directory, in the order of streams and sequences.
pub(crate) fn read_segments<P: Files>(
    c: P::Core,
    directory: &P::Directory,
    segments: &[((u32, u64), &Entry)],
    reading: SegmentReading<'_>,
) -> Result<Vec<SegmentImage<P>>, LogError> {
    let SegmentReading { places, keeps, listener } = reading;
    let read =
        ParallelJob::<P>::run(c, places, listener, |c, _, job| -> Result<Vec<SegmentImage<P>>, LogError> {
            let (mut queue, mut images) = (P::queue(c, directory)?, Vec::new());
            loop {
                let number = job.claim(c);
                let Some(((stream, sequence), entry)) = segments.get(number) else { return Ok(images) };
                // Those before the last one of a stream are full, mostly.
                let is_last = segments.get(number + 1).is_none_or(|((next, _), _)| next != stream);
                let step = if is_last { STEP_BYTES } else { entry.bytes };
                let mut image = SegmentImage::read(c, &mut queue, entry, *stream, *sequence, step)?;
                if !keeps {
                    image.bytes = None;
                }
                images.push(image);
                job.add(c, entry.bytes);
            }
        })?;
    let mut images: Vec<_> = read.into_iter().flatten().collect();
    images.sort_by_key(|image| (image.stream, image.sequence));
    Ok(images)
}

/// The first `bytes` bytes of a file.
pub(crate) fn read_file<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    name: &str,
    bytes: u64,
) -> Result<Buffer<P>, LogError> {
    let file = open_file::<P>(c, queue, name)?;
    let buffer = Buffer::new(c, None, bytes as usize, "segment")?;
    read_at(c, queue, file, 0, buffer)
}

fn open_file<P: Files>(c: P::Core, queue: &mut P::Queue, name: &str) -> Result<P::File, LogError> {
    let open = Operation::Open { name: name.into(), existence: Existence::Old, access: Access::Cached };
    Ok(P::perform(c, queue, open).into_file()?)
}

/// Fills a buffer from this place of a file.
pub(crate) fn read_at<P: Files>(
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
    /// Reads a segment, this many bytes at first.
    pub fn read(
        c: P::Core,
        queue: &mut P::Queue,
        entry: &Entry,
        stream: u32,
        sequence: u64,
        step: u64,
    ) -> Result<Self, LogError> {
        let file = open_file::<P>(c, queue, &entry.name)?;
        let size = |bytes: u64| bytes.clamp(ALIGNMENT as u64, entry.bytes.max(ALIGNMENT as u64)) as usize;
        let buffer = Buffer::new(c, None, size(step), "segment")?;
        let mut bytes = read_at(c, queue, file.clone(), 0, buffer)?;
        let found = SegmentHeader::fetch(bytes.bytes())?;
        let header = found.filter(|header| (header.stream, header.sequence) == (stream, sequence));
        let mut image = SegmentImage {
            stream,
            sequence,
            file_bytes: entry.bytes,
            bytes: None,
            found,
            is_blank: is_blank(bytes.bytes(), entry.bytes),
            header,
            first_block: 0,
            blocks: Vec::new(),
            last: 0,
            whole_blocks: 0,
            claims: Claims::default(),
        };
        let Some(header) = header else { return Ok(image) };
        loop {
            image.note(bytes.bytes(), header);
            let more = size(bytes.capacity() as u64 * STEP_GROWTH);
            if image.ends_within(bytes.bytes(), header) || more <= bytes.capacity() {
                break;
            }
            bytes = read_at(c, queue, file.clone(), 0, Buffer::new(c, None, more, "segment")?)?;
        }
        image.add_claims_behind(image.end() as u64, &bytes.bytes()[image.end().min(bytes.len())..], header);
        let mut at = bytes.len() as u64;
        if at < entry.bytes && at.is_multiple_of(ALIGNMENT as u64) {
            let mut buffer = Buffer::<P>::new(c, None, size(STEP_BYTES), "segment")?;
            while at < entry.bytes {
                buffer = read_at(c, queue, file.clone(), at, buffer)?;
                image.add_claims_behind(at, buffer.bytes(), header);
                if buffer.is_empty() {
                    break;
                }
                at += buffer.len() as u64;
            }
        }
        image.keep(c, bytes)?;
        Ok(image)
    }

    /// Keeps the blocks of what was read, and no more than about that.
    fn keep(&mut self, c: P::Core, bytes: Buffer<P>) -> Result<(), LogError> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        let end = self.end();
        self.bytes = if bytes.capacity() > 2 * end {
            let mut kept = Buffer::new(c, None, end, "segment")?;
            kept.all_mut()[..end].copy_from_slice(&bytes.bytes()[..end]);
            kept.set_len(end);
            Some(kept)
        } else {
            Some(bytes)
        };
        Ok(())
    }

    /// Notes the blocks that were not noted yet.
    fn note(&mut self, all: &[u8], segment: SegmentHeader) {
        while let Some((header, payload)) = all.get(self.end()..).and_then(block) {
            let at = self.end();
            if self.blocks.is_empty() {
                self.first_block = header.number;
            }
            let number = self.first_block + self.blocks.len() as u64;
            if (header.place, header.number) != (segment.place(at as u64), number) {
                break;
            }
            self.claims.add(&header);
            let from = at + BLOCK_HEADER_BYTES;
            let mut seen = BlockSummary {
                from,
                to: from + payload.len(),
                complete: header.complete,
                whole: header.whole,
                flushed_before: header.flushed_before,
                records: 0,
                epochs: (u64::MAX, 0),
            };
            for record in Records::new(payload) {
                seen.records += 1;
                seen.epochs = (seen.epochs.0.min(record.epoch), seen.epochs.1.max(record.epoch));
            }
            self.blocks.push(seen);
        }
    }

    /// Returns true if no block of the file's beginning extends beyond these bytes.
    fn ends_within(&self, read: &[u8], segment: SegmentHeader) -> bool {
        let at = self.end();
        match read.get(at..) {
            None | Some([]) => false,
            Some(rest) => BlockHeader::fetch(rest).is_none_or(|header| {
                header.place != segment.place(at as u64) || at + header.block_bytes() <= read.len()
            }),
        }
    }

    /// Collects the claims of this segment's blocks that lie in these bytes, behind its chain.
    fn add_claims_behind(&mut self, offset: u64, bytes: &[u8], segment: SegmentHeader) {
        for (number, part) in bytes.chunks(ALIGNMENT).enumerate() {
            let place = segment.place(offset + (number * ALIGNMENT) as u64);
            if let Some(header) = BlockHeader::fetch(part).filter(|header| header.place == place) {
                self.claims.add(&header);
            }
        }
    }

    /// Returns true if the segment belongs to a generation, and is still needed.
    pub fn is_of(&self, generation: &Generation) -> bool {
        let start = generation.starts.get(self.stream as usize);
        let needed = start.is_some_and(|start| self.sequence >= start.sequence);
        needed
            && self.header.is_some_and(|header| {
                (header.generation, header.identity) == (generation.number, generation.identity)
            })
    }

    /// Its name.
    pub fn name(&self) -> String {
        segment_name(self.stream, self.sequence)
    }

    /// End of the chain in this segment.
    pub fn end(&self) -> usize {
        self.blocks.last().map_or(ALIGNMENT, |seen| seen.to.next_multiple_of(ALIGNMENT))
    }

    pub fn damaged(&self, at: usize, what: &'static str) -> LogError {
        LogError::Damaged { file: self.name(), offset: at as u64, what }
    }
}

/// Returns true if a file of `file_bytes` bytes, which begins with `first`, has only zeros and is
/// no longer than a header: the file is empty.
pub(crate) fn is_blank(first: &[u8], file_bytes: u64) -> bool {
    file_bytes <= ALIGNMENT as u64 && first.iter().all(|byte| *byte == 0)
}
