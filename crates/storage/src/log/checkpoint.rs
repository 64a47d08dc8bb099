//! Copies of all rows, which stand for the log before them.
//!
//! A part is a file of blocks like those of a [segment](super::format), whose generation is the checkpoint's number and whose
//! stream is the part's; the last block says, where others say what is complete, how many records there are. A part is
//! durable before the manifest names its checkpoint, and never changes afterwards.

use platform::Node;
use platform::files::{Access, Buffer, Existence, Files, Operation};

use super::error::LogError;
use super::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader, Record, Records, SegmentHeader, block};

/// Bytes of a block.
const BLOCK_BYTES: usize = 1 << 20;
/// The number of records is said by the last block only.
const MORE: u64 = u64::MAX;

/// The name of a part.
pub fn part_name(checkpoint: u64, part: u32) -> String {
    format!("checkpoint-{checkpoint:010}-{part:03}")
}

/// Checkpoint and part of a part's name.
pub fn parse_part_name(name: &str) -> Option<(u64, u32)> {
    let (checkpoint, part) = name.strip_prefix("checkpoint-")?.split_once('-')?;
    let parsed = (checkpoint.parse().ok()?, part.parse().ok()?);
    (part_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// Writes one part.
pub struct PartWriter<P: Files> {
    queue: P::Queue,
    file: P::File,
    node: Option<Node>,
    number: u64,
    part: u32,
    buffer: Buffer<P>,
    /// Not filled.
    spare: Option<Buffer<P>>,
    offset: u64,
    blocks: u64,
    records: u64,
}

impl<P: Files> PartWriter<P> {
    /// A new part, whose name may be that of one that was never finished.
    pub(super) fn new(
        c: P::Core,
        directory: &P::Directory,
        (number, part): (u64, u32),
        node: Option<Node>,
    ) -> Result<Self, LogError> {
        let mut queue = P::queue(c, directory)?;
        let name = part_name(number, part);
        // Mostly there is nothing.
        let _ = P::perform(c, &mut queue, Operation::Remove { name: name.clone() });
        let open = Operation::Open { name, existence: Existence::New, access: Access::Direct };
        let file = P::perform(c, &mut queue, open).into_file()?;
        let mut buffer = Buffer::new(c, node, ALIGNMENT, "checkpoint")?;
        let header = SegmentHeader { stream: part, sequence: 0, generation: number, first_block: 0 };
        header.store(buffer.writable(c, 0, ALIGNMENT));
        buffer.set_len(ALIGNMENT);
        let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
        P::perform(c, &mut queue, write).result?;
        let mut buffer = Buffer::new(c, node, BLOCK_BYTES, "checkpoint")?;
        buffer.set_len(BLOCK_HEADER_BYTES);
        Ok(PartWriter {
            queue,
            file,
            node,
            number,
            part,
            buffer,
            spare: None,
            offset: ALIGNMENT as u64,
            blocks: 0,
            records: 0,
        })
    }

    /// Adds a copy of a row.
    pub fn push(&mut self, c: P::Core, body: &[u8]) -> Result<(), LogError> {
        let record = Record { stamp: 0, epoch: 0, body };
        let bytes = record.bytes();
        if self.buffer.len() + bytes > self.buffer.capacity() {
            self.write(c, MORE, bytes)?;
        }
        let start = self.buffer.len();
        record.store(self.buffer.writable(c, start, start + bytes));
        self.buffer.set_len(start + bytes);
        self.records += 1;
        Ok(())
    }

    /// Begins to write the block, when the one before is written.
    fn write(&mut self, c: P::Core, complete: u64, next_bytes: usize) -> Result<(), LogError> {
        let header = BlockHeader {
            stream: self.part,
            generation: self.number,
            number: self.blocks,
            payload_bytes: (self.buffer.len() - BLOCK_HEADER_BYTES) as u32,
            complete,
            flushed_before: 0,
        };
        header.store(self.buffer.writable(c, 0, BLOCK_HEADER_BYTES));
        self.buffer.pad(ALIGNMENT);
        self.wait(c)?;
        let least = BLOCK_HEADER_BYTES + next_bytes;
        let next = match self.spare.take() {
            Some(buffer) if buffer.capacity() >= least => buffer,
            _ => Buffer::new(c, self.node, least.max(BLOCK_BYTES), "checkpoint")?,
        };
        let full = std::mem::replace(&mut self.buffer, next);
        self.buffer.set_len(BLOCK_HEADER_BYTES);
        let (file, offset) = (self.file.clone(), self.offset);
        self.offset += full.len() as u64;
        self.blocks += 1;
        P::submit(c, &mut self.queue, Operation::Write { file, offset, buffers: vec![full] });
        Ok(())
    }

    /// Waits for what is under way.
    fn wait(&mut self, c: P::Core) -> Result<(), LogError> {
        while P::wait(c, &mut self.queue, None) {
            if let Some(completion) = P::take(c, &mut self.queue) {
                self.spare = completion.buffers.into_iter().next();
                completion.result?;
            }
        }
        Ok(())
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Writes the rest, and makes the part durable, with its name: before the manifest's. How many records it has.
    pub fn finish(mut self, c: P::Core) -> Result<u64, LogError> {
        self.write(c, self.records, 0)?;
        self.wait(c)?;
        let flush = Operation::Flush { file: self.file.clone() };
        P::perform(c, &mut self.queue, flush).result?;
        P::perform(c, &mut self.queue, Operation::FlushDirectory).result?;
        Ok(self.records)
    }
}

/// The payloads of a part, from where to where in its bytes.
pub(super) fn follow(
    bytes: &[u8],
    name: &str,
    (number, part): (u64, u32),
) -> Result<Vec<(usize, usize)>, LogError> {
    let damaged = |offset: usize, what| LogError::Damaged { file: name.into(), offset: offset as u64, what };
    let header = SegmentHeader::fetch(bytes)?;
    if header.is_none_or(|header| (header.generation, header.stream) != (number, part)) {
        return Err(damaged(0, "it does not begin a checkpoint's part"));
    }
    let (mut payloads, mut at, mut records) = (Vec::new(), ALIGNMENT, 0);
    loop {
        let (header, payload) =
            bytes.get(at..).and_then(block).ok_or_else(|| damaged(at, "a block cannot be read"))?;
        if (header.generation, header.stream, header.number) != (number, part, payloads.len() as u64) {
            return Err(damaged(at, "a block of something else"));
        }
        let start = at + BLOCK_HEADER_BYTES;
        payloads.push((start, start + payload.len()));
        records += Records::new(payload).count() as u64;
        at += header.block_bytes();
        if header.complete == MORE {
            continue;
        }
        if header.complete != records || at != bytes.len() {
            return Err(damaged(at, "records are missing, or there are too many"));
        }
        return Ok(payloads);
    }
}
