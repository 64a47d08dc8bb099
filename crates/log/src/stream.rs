//! One stream of a log: its segments, and its operations in flight.
//!
//! Protocol: blocks are written one behind the other into the current segment; `segments.rs` has
//! how one segment follows the other. All operations go through one queue, which performs them in
//! order. A segment that no recovery needs any more becomes a later one: its blocks are written
//! already, which spares the file system work at each flush, and what is left of them names another
//! place than the one where it lies. A new segment is filled with zeros a step ahead of its blocks
//! for the same reason, behind groups that are small. Segments begin short and become twice as long
//! each time: a database that writes little takes little space ahead.
//!
//! The core that waits for a group performs its write and its flush itself, if the queue has
//! nothing else to do: a session that is alone pays for no switch between threads.

use std::collections::VecDeque;

use platform::Node;
use platform::files::{Access, Buffer, Completion, FileError, Files, Operation, Ticket};

use crate::ahead::next_zeros;
use crate::error::LogError;
use crate::filling::FillingBlock;
use crate::format::{ALIGNMENT, BlockHeader, SegmentHeader};
use crate::manifest::StreamStart;
use crate::names::segment_name;
use crate::segment::{Begun, NextSegment, OperationPurpose, Refusal, Segment};

/// Empty buffers that a stream keeps for its workers.
const FREE_MAX: usize = 256;
/// Buffers of one block that are there from the beginning: a segment's header, the mark at the end
/// of the one before, and the block of a group without records are never short of memory.
const SMALL_LEAST: usize = 4;
/// Segments that a stream keeps to use them again.
const USED_MAX: usize = 8;
/// The first segment is shorter than the longest by this factor, and no shorter than this.
const FIRST_PART: u64 = 64;
const FIRST_BYTES_MIN: u64 = 16 << 10;

/// The executor of a group's operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoExecutor {
    /// The queue, while the core continues.
    Queue,
    /// The core, which waits for them anyway, unless the queue has something to do before them.
    Core,
}

/// The fields of a group's last block.
#[derive(Clone, Copy)]
pub(crate) struct GroupMark {
    /// The last complete epoch before the group, and with it.
    pub before: u64,
    pub complete: u64,
    /// The number of the group if it is [whole](BlockHeader::whole), or 0.
    pub whole: u64,
}

/// A stream that is being written.
pub(crate) struct Stream<P: Files> {
    pub(crate) number: u32,
    /// The fields that the headers of its segments have in common.
    pub(crate) origin: SegmentHeader,
    queue: P::Queue,
    node: Option<Node>,
    pub(crate) segment_bytes: u64,
    pub(crate) access: Access,
    pub(crate) segment: Option<Segment<P>>,
    pub(crate) next: NextSegment<P>,
    pub(crate) next_sequence: u64,
    /// Length of the next new segment.
    pub(crate) next_bytes: u64,
    /// The last segment that is known.
    pub(crate) known: u64,
    /// The last refusal, until the operation is tried again.
    pub(crate) refusal: Refusal,
    /// Segments that were written, and their bytes.
    pub(crate) done: Vec<(u64, u64)>,
    /// Names and bytes of segments that may be written anew; the bytes of the one that is being
    /// opened.
    pub(crate) used: Vec<(String, u64)>,
    pub(crate) reused: Option<u64>,
    next_block: u64,
    /// Blocks that a flush has made durable.
    durable_blocks: u64,
    /// The last operation of the group under way, and the last of all, with those that were not
    /// taken.
    awaited: Ticket,
    submitted: Ticket,
    taken: Ticket,
    begun: VecDeque<Begun>,
    /// Empty buffers for workers.
    pub(crate) free: Vec<Buffer<P>>,
    /// Empty buffers of one block.
    small: Vec<Buffer<P>>,
    /// Bytes handed to the disk.
    pub(crate) written_bytes: u64,
    /// Flushes submitted to the disk.
    pub(crate) flushes: u64,
}

/// Parameters of a stream.
#[derive(Clone, Copy)]
pub(crate) struct StreamPlan {
    pub number: u32,
    pub origin: SegmentHeader,
    pub node: Option<Node>,
    pub segment_bytes: u64,
    pub access: Access,
    pub first_sequence: u64,
}

impl<P: Files> Stream<P> {
    /// A stream whose first segment is there.
    pub(crate) fn new(c: P::Core, queue: P::Queue, plan: StreamPlan) -> Result<Self, LogError> {
        let small = (0..SMALL_LEAST).map(|_| Buffer::new(c, plan.node, ALIGNMENT, "log marks"));
        let first_bytes = (plan.segment_bytes / FIRST_PART).max(FIRST_BYTES_MIN);
        let mut stream = Stream {
            number: plan.number,
            origin: plan.origin,
            queue,
            node: plan.node,
            segment_bytes: plan.segment_bytes,
            access: plan.access,
            segment: None,
            next: NextSegment::None,
            next_sequence: plan.first_sequence,
            next_bytes: first_bytes.next_multiple_of(ALIGNMENT as u64).min(plan.segment_bytes),
            known: 0,
            refusal: None,
            done: Vec::new(),
            used: Vec::new(),
            reused: None,
            next_block: 0,
            durable_blocks: 0,
            awaited: Ticket(0),
            submitted: Ticket(0),
            taken: Ticket(0),
            begun: VecDeque::new(),
            free: Vec::new(),
            small: small.collect::<Result<_, _>>()?,
            written_bytes: 0,
            flushes: 0,
        };
        stream.begin(c)?;
        Ok(stream)
    }

    pub(crate) fn submit(&mut self, c: P::Core, operation: Operation<P>, purpose: OperationPurpose) {
        self.submitted = P::submit(c, &mut self.queue, operation);
        self.begun.push_back((self.submitted, purpose));
        if let OperationPurpose::Group = purpose {
            self.awaited = self.submitted;
        }
    }

    /// Has an operation of a group performed.
    fn carry_out(
        &mut self,
        c: P::Core,
        operation: Operation<P>,
        executor: IoExecutor,
    ) -> Result<(), FileError> {
        if executor == IoExecutor::Queue || self.taken < self.submitted {
            self.submit(c, operation, OperationPurpose::Group);
            return Ok(());
        }
        let completion = P::perform(c, &mut self.queue, operation);
        self.submitted = completion.ticket;
        self.awaited = completion.ticket;
        self.accept(c, completion)
    }

    /// Ends the stream: names of files that are no part of the log.
    pub(crate) fn end(mut self, c: P::Core) -> Vec<String> {
        while self.taken < self.submitted && self.wait(c, None) {
            // What was written is durable; what fails now is about files that go.
            let _ = self.reap(c);
        }
        let next = match self.next {
            NextSegment::None => None,
            _ => Some(segment_name(self.number, self.next_sequence)),
        };
        self.used.into_iter().map(|(name, _)| name).chain(next).collect()
    }

    /// The name of the current segment, and where the next one would begin, if the current one has
    /// no blocks.
    pub(crate) fn unused(&self) -> Option<(String, StreamStart)> {
        let segment = self.segment.as_ref().filter(|segment| segment.is_empty())?;
        let start = StreamStart { sequence: segment.sequence + 1, block: self.next_block, file_bytes: 0 };
        Some((segment_name(self.number, segment.sequence), start))
    }

    /// How many blocks of this generation are durable.
    pub(crate) fn durable_blocks(&self) -> u64 {
        self.durable_blocks
    }

    /// Bytes of its segments.
    pub(crate) fn file_bytes(&self) -> u64 {
        let current = self.segment.iter().map(|segment| segment.grown.max(segment.offset));
        self.done.iter().map(|(_, bytes)| *bytes).chain(current).sum()
    }

    /// Takes a segment of full length that is not needed any more, to write it anew; false if there
    /// are enough of them.
    pub(crate) fn reuse(&mut self, name: &str, bytes: u64) -> bool {
        let wanted = bytes >= self.segment_bytes && self.used.len() < USED_MAX;
        if wanted {
            self.used.push((name.to_owned(), bytes));
        }
        wanted
    }

    /// Directs all blocks from now on to later segments than all blocks before. Returns where these
    /// segments begin, which is known when the stream is idle; nothing if no segment is available.
    pub(crate) fn cut(
        &mut self,
        c: P::Core,
        complete: u64,
    ) -> Result<Result<StreamStart, FileError>, LogError> {
        let is_empty = self.segment.as_ref().is_some_and(Segment::is_empty);
        if !is_empty && !self.roll(c, complete)? {
            let refusal = self.refusal.as_ref().map(|(_, error)| error.clone());
            return Ok(Err(refusal.unwrap_or_else(FileError::stopped)));
        }
        Ok(Ok(self.start()))
    }

    /// The place of the next block.
    pub(crate) fn start(&self) -> StreamStart {
        let segment = self.segment.as_ref();
        StreamStart {
            sequence: segment.map_or(self.next_sequence, |segment| segment.sequence),
            block: self.next_block,
            file_bytes: segment.map_or(0, |segment| segment.durable_bytes),
        }
    }

    /// Takes what has ended; buffers are empty again.
    pub(crate) fn reap(&mut self, c: P::Core) -> Result<(), FileError> {
        while let Some(completion) = P::take(c, &mut self.queue) {
            self.accept(c, completion)?;
        }
        Ok(())
    }

    fn accept(&mut self, c: P::Core, completion: Completion<P>) -> Result<(), FileError> {
        self.taken = completion.ticket;
        for buffer in completion.buffers {
            self.keep(buffer);
        }
        let is_begun = self.begun.front().is_some_and(|(ticket, _)| *ticket == completion.ticket);
        let begun = if is_begun { self.begun.pop_front() } else { None };
        // What the core has performed itself is a group's.
        self.settle(c, begun.map_or(OperationPurpose::Group, |(_, purpose)| purpose), completion.result)
    }

    /// Fills the next step of the segment with zeros if a group of this many bytes is small, and
    /// the step before is used up.
    fn clear_ahead(&mut self, c: P::Core, group_bytes: u64) {
        let Some(segment) = &mut self.segment else { return };
        let zeros = next_zeros(segment.cleared, segment.offset, segment.size, group_bytes);
        let Some(zeros) = zeros else { return };
        segment.cleared = zeros.end;
        let (file, bytes) = (segment.file.clone(), zeros.end - zeros.start);
        let clear = Operation::Clear { file, offset: zeros.start, bytes };
        self.submit(c, clear, OperationPurpose::Zeros);
    }

    /// Returns true if all operations that a group waits for have ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.taken >= self.awaited
    }

    /// Sleeps until something ends, or the deadline.
    pub(crate) fn wait(&mut self, c: P::Core, deadline: Option<platform::Nanos>) -> bool {
        P::wait(c, &mut self.queue, deadline)
    }

    /// The group under way is durable: [`Self::is_idle`], and nothing failed.
    pub(crate) fn flushed(&mut self) {
        self.durable_blocks = self.next_block;
        if let Some(segment) = &mut self.segment {
            segment.durable_bytes = segment.durable_bytes.max(segment.grown).max(segment.offset);
        }
    }

    pub(crate) fn small_buffer(&mut self, c: P::Core) -> Result<Buffer<P>, LogError> {
        match self.small.pop() {
            Some(buffer) => Ok(buffer),
            None => Ok(Buffer::new(c, self.node, ALIGNMENT, "log marks")?),
        }
    }

    /// Seals a block that goes to this place of the current segment.
    fn seal(&mut self, c: P::Core, block: &mut FillingBlock<P>, offset: u64, complete: u64, whole: u64) {
        let reached_bytes = match &self.next {
            NextSegment::Known(next) => next.durable_bytes,
            // The last one that is known is the current one.
            _ => 0,
        };
        let Some(segment) = &mut self.segment else { return };
        (segment.reaches, segment.reached_bytes) = (self.known, reached_bytes);
        let (sequence, file_bytes) = (segment.sequence, segment.durable_bytes);
        let header = BlockHeader {
            place: self.header(sequence).place(offset),
            number: self.next_block,
            complete,
            whole,
            flushed_before: self.durable_blocks,
            reaches: self.known,
            reached_bytes,
            file_bytes,
            ..BlockHeader::default()
        };
        block.seal(c, header);
        self.next_block += 1;
    }

    /// Begins to write a block without records, which names the segments that are known.
    pub(crate) fn write_mark(&mut self, c: P::Core, complete: u64) -> Result<(), LogError> {
        let mut block = FillingBlock::new(self.small_buffer(c)?);
        let offset = self.segment.as_ref().map_or(0, |segment| segment.offset);
        self.seal(c, &mut block, offset, complete, 0);
        self.write_batch(c, &mut vec![block.into_buffer()], IoExecutor::Queue)
    }

    /// Begins to write the blocks, and to flush; the last block describes the group. Where there
    /// are no blocks, one without records does. With [`IoExecutor::Core`] they may be durable
    /// when this returns: [`Self::is_idle`].
    pub(crate) fn write(
        &mut self,
        c: P::Core,
        mut blocks: Vec<FillingBlock<P>>,
        mark: GroupMark,
        executor: IoExecutor,
    ) -> Result<(), LogError> {
        let written_before = self.written_bytes;
        self.join(c, &mut blocks);
        if blocks.is_empty() {
            blocks.push(FillingBlock::new(self.small_buffer(c)?));
        }
        let last = blocks.len() - 1;
        let (mut batch, mut pending) = (Vec::new(), 0);
        for (number, mut block) in blocks.into_iter().enumerate() {
            let bytes = block.block_bytes() as u64;
            let places = self.segment.as_ref().map(|segment| (segment.offset, segment.size));
            let (offset, size) = places.unwrap_or((0, 0));
            // A block longer than a segment makes its segment longer.
            let is_first = offset == ALIGNMENT as u64 && pending == 0;
            if offset + pending + bytes > size && !is_first {
                self.write_batch(c, &mut batch, IoExecutor::Queue)?;
                pending = 0;
                self.roll(c, mark.before)?;
            }
            let offset = self.segment.as_ref().map_or(0, |segment| segment.offset) + pending;
            let (complete, whole) =
                if number == last { (mark.complete, mark.whole) } else { (mark.before, 0) };
            self.seal(c, &mut block, offset, complete, whole);
            batch.push(block.into_buffer());
            pending += bytes;
        }
        self.write_batch(c, &mut batch, executor)?;
        if let Some(segment) = &self.segment {
            let file = segment.file.clone();
            self.carry_out(c, Operation::Flush { file }, executor)?;
            self.flushes += 1;
        }
        self.prepare_next(c)?;
        self.clear_ahead(c, self.written_bytes - written_before);
        Ok(())
    }

    /// Joins small blocks to those before them: each takes 4096 bytes of the log otherwise, however
    /// few records it has. Records stay in their order.
    fn join(&mut self, c: P::Core, blocks: &mut Vec<FillingBlock<P>>) {
        let mut joined: Vec<FillingBlock<P>> = Vec::with_capacity(blocks.len());
        for block in blocks.drain(..) {
            if joined.last_mut().is_some_and(|last| last.absorb(c, &block)) {
                self.keep(block.into_buffer());
            } else {
                joined.push(block);
            }
        }
        *blocks = joined;
    }

    /// An empty buffer with room for `least` bytes, if there is one.
    pub(crate) fn empty_buffer(&mut self, least: usize) -> Option<Buffer<P>> {
        let place = self.free.iter().position(|buffer| buffer.capacity() >= least)?;
        Some(self.free.swap_remove(place))
    }

    /// Keeps a buffer that is not needed now.
    fn keep(&mut self, mut buffer: Buffer<P>) {
        buffer.set_len(0);
        let pool = if buffer.capacity() > ALIGNMENT { &mut self.free } else { &mut self.small };
        if pool.len() < FREE_MAX {
            pool.push(buffer);
        }
    }

    fn write_batch(
        &mut self,
        c: P::Core,
        batch: &mut Vec<Buffer<P>>,
        executor: IoExecutor,
    ) -> Result<(), LogError> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        let buffers = std::mem::take(batch);
        let bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if bytes == 0 {
            return Ok(());
        }
        let (file, offset) = (segment.file.clone(), segment.offset);
        segment.offset += bytes;
        self.written_bytes += bytes;
        Ok(self.carry_out(c, Operation::Write { file, offset, buffers }, executor)?)
    }
}
