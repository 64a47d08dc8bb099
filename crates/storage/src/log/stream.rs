//! One stream of a log: its segments, and what is under way to the disk.
//!
//! Protocol: blocks are written one behind the other into the current segment. A segment is made ahead under the name
//! `spare-…`, with its space, and gets its header and its name when the one before is full; the flush of a group then
//! covers both files and the name. The space of a segment is taken a step at a time, behind groups, since a file system may
//! clear it. All operations go through one queue, which performs them in order. A segment that no recovery needs any more
//! becomes the next spare: its blocks are written already, which spares the file system work at each flush, and what is
//! left of them has smaller numbers than what is read there later. A new segment is filled with zeros a step ahead of its
//! blocks for the same reason, behind groups that are small.
//!
//! The core that waits for a group performs its write and its flush itself, if the queue has nothing else to do: a session
//! that is alone pays for no switch between threads.

use platform::Node;
use platform::files::{Access, Buffer, Completion, Done, Existence, FileError, Files, Operation, Ticket};

use super::ahead::next_zeros;
use super::error::LogError;
use super::filling::FillingBlock;
use super::format::{ALIGNMENT, BlockHeader, SegmentHeader};
use super::names::{segment_name, spare_name};

/// Empty buffers that a stream keeps for its workers.
const FREE_MAX: usize = 256;
/// Segments that a stream keeps to use them again.
const USED_MAX: usize = 8;
/// Steps in which the space of a new segment is taken.
const SPARE_STEPS: u64 = 16;

struct Segment<P: Files> {
    file: P::File,
    /// Where the next block goes.
    offset: u64,
    /// Up to here the file was written before, with zeros or blocks of another use.
    cleared: u64,
}

enum Spare<P: Files> {
    None,
    /// The spare is being made.
    Opening {
        /// Whether the file was a segment before, and so has its space.
        used: bool,
    },
    /// The spare has this many bytes of its space.
    Growing(P::File, u64),
    /// The spare is complete when all submitted operations have ended. Up to here it was written before.
    Ready(P::File, u64),
}

/// Who performs the operations of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The queue, while the core goes on.
    Queue,
    /// The core, which waits for them anyway, unless the queue has something to do before them.
    Core,
}

/// One stream.
pub(super) struct Stream<P: Files> {
    number: u32,
    generation: u64,
    queue: P::Queue,
    node: Option<Node>,
    segment_bytes: u64,
    access: Access,
    segment: Option<Segment<P>>,
    next_sequence: u64,
    spare: Spare<P>,
    /// Names of segments that may be written anew.
    used: Vec<String>,
    next_block: u64,
    /// Blocks that a flush has made durable.
    durable_blocks: u64,
    /// The last operation of the group under way, and the last of all.
    awaited: Ticket,
    submitted: Ticket,
    taken: Ticket,
    /// Empty buffers for workers.
    pub(super) free: Vec<Buffer<P>>,
    /// Empty buffers of one block.
    small: Vec<Buffer<P>>,
    /// Bytes handed to the disk.
    pub(super) written_bytes: u64,
    /// Flushes asked of the disk.
    pub(super) flushes: u64,
}

/// Where and how a stream writes.
#[derive(Clone, Copy)]
pub(super) struct StreamPlan {
    pub number: u32,
    pub generation: u64,
    pub node: Option<Node>,
    pub segment_bytes: u64,
    pub access: Access,
    pub first_sequence: u64,
}

impl<P: Files> Stream<P> {
    pub(super) fn new(queue: P::Queue, plan: StreamPlan) -> Self {
        Stream {
            number: plan.number,
            generation: plan.generation,
            queue,
            node: plan.node,
            segment_bytes: plan.segment_bytes,
            access: plan.access,
            segment: None,
            next_sequence: plan.first_sequence,
            spare: Spare::None,
            used: Vec::new(),
            next_block: 0,
            durable_blocks: 0,
            awaited: Ticket(0),
            submitted: Ticket(0),
            taken: Ticket(0),
            free: Vec::new(),
            small: Vec::new(),
            written_bytes: 0,
            flushes: 0,
        }
    }

    fn submit(&mut self, c: P::Core, operation: Operation<P>) {
        self.submit_aside(c, operation);
        self.awaited = self.submitted;
    }

    /// Begins an operation that no group waits for.
    fn submit_aside(&mut self, c: P::Core, operation: Operation<P>) {
        self.submitted = P::submit(c, &mut self.queue, operation);
    }

    /// Has an operation of a group performed.
    fn carry_out(&mut self, c: P::Core, operation: Operation<P>, by: By) -> Result<(), FileError> {
        if by == By::Queue || self.taken < self.submitted {
            self.submit(c, operation);
            return Ok(());
        }
        let completion = P::perform(c, &mut self.queue, operation);
        self.submitted = completion.ticket;
        self.awaited = completion.ticket;
        self.accept(completion)
    }

    /// Ends the stream: names of files that were kept for later.
    pub(super) fn end(mut self, c: P::Core) -> Vec<String> {
        while self.taken < self.submitted && self.wait(c, None) {
            // What was written is durable; what fails now is about files that go.
            let _ = self.reap(c);
        }
        if let Spare::Ready(..) | Spare::Growing(..) = self.spare {
            self.used.push(spare_name(self.number));
        }
        self.used
    }

    /// Begins to make the next segment.
    pub(super) fn prepare_spare(&mut self, c: P::Core) {
        if let Spare::None = self.spare {
            let (name, access) = (spare_name(self.number), self.access);
            let used = self.used.pop();
            self.spare = Spare::Opening { used: used.is_some() };
            let existence = if used.is_some() { Existence::Old } else { Existence::New };
            if let Some(from) = used {
                self.submit(c, Operation::Rename { from, to: name.clone() });
            }
            self.submit(c, Operation::Open { name, existence, access });
        }
    }

    /// Takes a segment of full length that is not needed any more, to write it anew; false if there are enough of them.
    pub(super) fn reuse(&mut self, name: &str) -> bool {
        let wanted = self.used.len() < USED_MAX;
        if wanted {
            self.used.push(name.to_owned());
        }
        wanted
    }

    /// Lets all blocks that are written from now on go to later segments than all blocks before. Returns the sequence of
    /// the first of these segments, whose name is final when the stream is idle.
    pub(super) fn cut(&mut self, c: P::Core) -> Result<u64, LogError> {
        match &self.segment {
            None => return Ok(self.next_sequence),
            Some(segment) if segment.offset == ALIGNMENT as u64 => {}
            Some(_) => self.roll(c)?,
        }
        if let Some(Segment { file, .. }) = &self.segment {
            let file = file.clone();
            self.submit(c, Operation::Flush { file });
        }
        Ok(self.next_sequence - 1)
    }

    /// Takes what has ended; buffers are empty again.
    pub(super) fn reap(&mut self, c: P::Core) -> Result<(), FileError> {
        while let Some(completion) = P::take(c, &mut self.queue) {
            self.accept(completion)?;
        }
        Ok(())
    }

    fn accept(&mut self, completion: Completion<P>) -> Result<(), FileError> {
        self.taken = completion.ticket;
        for buffer in completion.buffers {
            self.keep(buffer);
        }
        if let Done::File(file) = completion.result? {
            self.spare = match self.spare {
                Spare::Opening { used: true } => Spare::Ready(file, self.segment_bytes),
                _ => Spare::Growing(file, 0),
            };
        }
        Ok(())
    }

    /// Takes the next step of space for the next segment.
    fn grow_spare(&mut self, c: P::Core) {
        match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::Growing(file, bytes) if bytes < self.segment_bytes => {
                let step = self.segment_bytes.div_ceil(SPARE_STEPS).next_multiple_of(ALIGNMENT as u64);
                let bytes = (bytes + step).min(self.segment_bytes);
                self.submit_aside(c, Operation::Preallocate { file: file.clone(), bytes });
                self.spare = Spare::Growing(file, bytes);
            }
            Spare::Growing(file, _) => {
                self.submit_aside(c, Operation::Flush { file: file.clone() });
                self.spare = Spare::Ready(file, ALIGNMENT as u64);
            }
            other => self.spare = other,
        }
    }

    /// Fills the next step of the segment with zeros if a group of so many bytes is small, and the step before is used up.
    fn clear_ahead(&mut self, c: P::Core, group_bytes: u64) {
        let Some(segment) = &mut self.segment else { return };
        let places = (segment.cleared, segment.offset, self.segment_bytes);
        let Some(zeros) = next_zeros(places, group_bytes) else { return };
        segment.cleared = zeros.end;
        let (file, bytes) = (segment.file.clone(), zeros.end - zeros.start);
        let clear = Operation::Clear { file, offset: zeros.start, bytes };
        self.submit_aside(c, clear);
    }

    /// Whether everything has ended that a group waits for.
    pub(super) fn is_idle(&self) -> bool {
        self.taken >= self.awaited
    }

    /// Sleeps until something ends, or the deadline.
    pub(super) fn wait(&mut self, c: P::Core, deadline: Option<platform::Nanos>) -> bool {
        P::wait(c, &mut self.queue, deadline)
    }

    /// The group under way is durable: [`Self::is_idle`], and nothing failed.
    pub(super) fn flushed(&mut self) {
        self.durable_blocks = self.next_block;
    }

    fn small_buffer(&mut self, c: P::Core) -> Result<Buffer<P>, LogError> {
        match self.small.pop() {
            Some(buffer) => Ok(buffer),
            None => Ok(Buffer::new(c, self.node, ALIGNMENT, "log marks")?),
        }
    }

    /// Begins the next segment.
    fn roll(&mut self, c: P::Core) -> Result<(), LogError> {
        if let Some(Segment { file, .. }) = self.segment.take() {
            self.submit(c, Operation::Flush { file });
        }
        self.prepare_spare(c);
        let (file, cleared) = loop {
            while let Spare::Growing(..) = self.spare {
                self.grow_spare(c);
            }
            match std::mem::replace(&mut self.spare, Spare::None) {
                Spare::Ready(file, written) => break (file, written),
                other => self.spare = other,
            }
            // The machine stops where nothing is under way: an error comes out of the next operation.
            if !self.wait(c, None) {
                return Err(FileError::stopped().into());
            }
            self.reap(c)?;
        };
        let header = SegmentHeader {
            stream: self.number,
            sequence: self.next_sequence,
            generation: self.generation,
            first_block: self.next_block,
        };
        let mut buffer = self.small_buffer(c)?;
        header.store(buffer.writable(c, 0, ALIGNMENT));
        buffer.set_len(ALIGNMENT);
        self.submit(c, Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] });
        let to = segment_name(self.number, self.next_sequence);
        self.submit(c, Operation::Rename { from: spare_name(self.number), to });
        self.submit(c, Operation::FlushDirectory);
        self.next_sequence += 1;
        self.segment = Some(Segment { file, offset: ALIGNMENT as u64, cleared });
        self.prepare_spare(c);
        Ok(())
    }

    /// Begins to write the blocks, and to flush; the last block says that `complete` is complete. Where there are no blocks, one
    /// without records says so. With [`By::Core`] they may be durable when this returns: [`Self::is_idle`].
    pub(super) fn write(
        &mut self,
        c: P::Core,
        mut blocks: Vec<FillingBlock<P>>,
        (before, complete): (u64, u64),
        by: By,
    ) -> Result<(), LogError> {
        let written_before = self.written_bytes;
        self.join(c, &mut blocks);
        if blocks.is_empty() {
            blocks.push(FillingBlock::new(self.small_buffer(c)?));
        }
        let last = blocks.len() - 1;
        let mut batch = Vec::new();
        for (number, mut block) in blocks.into_iter().enumerate() {
            let header = BlockHeader {
                stream: self.number,
                generation: self.generation,
                number: self.next_block,
                complete: if number == last { complete } else { before },
                flushed_before: self.durable_blocks,
                ..BlockHeader::default()
            };
            block.seal(c, header);
            let buffer = block.into_buffer();
            let pending: u64 = batch.iter().map(|buffer: &Buffer<P>| buffer.len() as u64).sum();
            let offset = self.segment.as_ref().map_or(u64::MAX, |segment| segment.offset);
            let end = offset.saturating_add(pending + buffer.len() as u64);
            // A block longer than a segment makes its segment longer.
            let is_first = offset == ALIGNMENT as u64 && pending == 0;
            if end > self.segment_bytes && !is_first {
                self.write_batch(c, &mut batch, By::Queue)?;
                self.roll(c)?;
            }
            self.next_block += 1;
            batch.push(buffer);
        }
        self.write_batch(c, &mut batch, by)?;
        if let Some(segment) = &self.segment {
            let file = segment.file.clone();
            self.carry_out(c, Operation::Flush { file }, by)?;
            self.flushes += 1;
        }
        self.grow_spare(c);
        self.clear_ahead(c, self.written_bytes - written_before);
        Ok(())
    }

    /// Joins small blocks to those before them: each takes 4096 bytes of the log otherwise, whatever few records it has. Records stay in their order.
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

    /// Keeps a buffer that is not needed now.
    fn keep(&mut self, mut buffer: Buffer<P>) {
        buffer.set_len(0);
        let pool = if buffer.capacity() > ALIGNMENT { &mut self.free } else { &mut self.small };
        if pool.len() < FREE_MAX {
            pool.push(buffer);
        }
    }

    fn write_batch(&mut self, c: P::Core, batch: &mut Vec<Buffer<P>>, by: By) -> Result<(), LogError> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        let buffers = std::mem::take(batch);
        let bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if bytes == 0 {
            return Ok(());
        }
        let (file, offset) = (segment.file.clone(), segment.offset);
        segment.offset += bytes;
        self.written_bytes += bytes;
        Ok(self.carry_out(c, Operation::Write { file, offset, buffers }, by)?)
    }
}
