//! Copies of all rows, which stand for the log before them.
//!
//! A checkpoint consists of files of blocks like those of a [segment](crate::format). The
//! generation in their headers is the number of the checkpoint, the stream is the number of the
//! file, and the identity was drawn for the checkpoint. The last block has the number of the file's
//! records in the field that has the complete epoch in blocks of a log. The files are durable
//! before the manifest names the checkpoint, and never change afterwards.

use platform::Node;
use platform::files::{Access, Buffer, Entry, Existence, Files, Operation};
use storage::Latched;

use crate::error::LogError;
use crate::filling::FillingBlock;
use crate::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader, Record, Records, SegmentHeader, block};
use crate::found::CHECKPOINT_SEQUENCE;
use crate::image::read_at;
use crate::manifest::Checkpoint;
use crate::names::checkpoint_file_name;

/// Bytes of a block.
const BLOCK_BYTES: usize = 1 << 20;
/// The value in all blocks but the last, which has the number of records.
const MORE: u64 = u64::MAX;

/// Writes one file of a checkpoint.
pub struct CheckpointFileWriter<P: Files> {
    queue: P::Queue,
    file: P::File,
    node: Option<Node>,
    header: SegmentHeader,
    filling: FillingBlock<P>,
    /// Not filled.
    spare: Option<Buffer<P>>,
    offset: u64,
    blocks: u64,
    records: u64,
}

impl<P: Files> CheckpointFileWriter<P> {
    /// A new file. Its header is durable before anything else of it: what a crash leaves of it is
    /// known to be of this database.
    pub(crate) fn new(
        c: P::Core,
        directory: &P::Directory,
        database: u64,
        identity: u64,
        checkpoint: u64,
        number: u32,
        node: Option<Node>,
    ) -> Result<Self, LogError> {
        let mut queue = P::queue(c, directory)?;
        let name = checkpoint_file_name(checkpoint, number);
        let open = Operation::Open { name, existence: Existence::New, access: Access::Direct };
        let file = P::perform(c, &mut queue, open).into_file()?;
        let mut buffer = Buffer::new(c, node, ALIGNMENT, "checkpoint")?;
        let (stream, sequence, generation) = (number, CHECKPOINT_SEQUENCE, checkpoint);
        let header = SegmentHeader { database, identity, stream, sequence, generation, first_epoch: 0 };
        header.store(buffer.writable(c, 0, ALIGNMENT));
        buffer.set_len(ALIGNMENT);
        let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
        P::perform(c, &mut queue, write).result?;
        P::perform(c, &mut queue, Operation::Flush { file: file.clone() }).result?;
        P::perform(c, &mut queue, Operation::FlushDirectory).result?;
        let filling = FillingBlock::new(Buffer::new(c, node, BLOCK_BYTES, "checkpoint")?);
        Ok(CheckpointFileWriter {
            queue,
            file,
            node,
            header,
            filling,
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
        if !self.filling.fits(bytes) {
            self.write(c, MORE, bytes)?;
        }
        self.filling.push(c, &record);
        self.records += 1;
        Ok(())
    }

    /// Seals the block, waits for the one before, and begins to write.
    fn write(&mut self, c: P::Core, complete: u64, next_bytes: usize) -> Result<(), LogError> {
        let header = BlockHeader {
            place: self.header.place(self.offset),
            number: self.blocks,
            complete,
            ..BlockHeader::default()
        };
        self.filling.seal(c, header);
        self.wait(c)?;
        let least = BLOCK_HEADER_BYTES + next_bytes;
        let next = match self.spare.take() {
            Some(buffer) if buffer.capacity() >= least => buffer,
            _ => Buffer::new(c, self.node, least.max(BLOCK_BYTES), "checkpoint")?,
        };
        let full = std::mem::replace(&mut self.filling, FillingBlock::new(next)).into_buffer();
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

    /// Writes the rest, and makes the file and its name durable; returns how many records the file
    /// has.
    pub fn finish(mut self, c: P::Core) -> Result<u64, LogError> {
        self.write(c, self.records, 0)?;
        self.wait(c)?;
        let flush = Operation::Flush { file: self.file.clone() };
        P::perform(c, &mut self.queue, flush).result?;
        P::perform(c, &mut self.queue, Operation::FlushDirectory).result?;
        Ok(self.records)
    }
}

/// Reads the rows of a checkpoint: workers take blocks in turn, and hold one each. Every byte is
/// verified.
pub struct CheckpointReader<'d, P: Files> {
    directory: &'d P::Directory,
    /// The identity of the database, number and identity of the checkpoint.
    database: u64,
    number: u64,
    identity: u64,
    /// Names and bytes of the files.
    files: Vec<(String, u64)>,
    cursor: Latched<P, Cursor>,
}

/// The next block, and what was read of the files.
#[derive(Default)]
struct Cursor {
    file: usize,
    /// 0: its header is not verified yet.
    offset: u64,
    block: u64,
    /// By file: records that were read, and those that there have to be.
    records: Vec<(u64, u64)>,
}

/// Reads blocks of a [`CheckpointReader`] for one worker.
pub struct BlockReader<'r, P: Files> {
    reader: &'r CheckpointReader<'r, P>,
    queue: P::Queue,
    /// The file that was read last, and its number.
    open: Option<(usize, P::File)>,
    /// Buffers for headers, and for blocks.
    head: Option<Buffer<P>>,
    block: Option<Buffer<P>>,
}

/// A block that is to be read: of which file, where, and how long.
struct Claim {
    file: usize,
    offset: u64,
    bytes: usize,
}

impl<'d, P: Files> CheckpointReader<'d, P> {
    pub(crate) fn new(
        c: P::Core,
        directory: &'d P::Directory,
        database: u64,
        checkpoint: &Checkpoint,
        files: &[Entry],
    ) -> Result<Self, LogError> {
        let own = (0..checkpoint.files).map(|number| {
            let name = checkpoint_file_name(checkpoint.number, number);
            let bytes = files.iter().find(|entry| entry.name == name).map_or(0, |entry| entry.bytes);
            (name, bytes)
        });
        let files: Vec<_> = own.collect();
        let cursor = Cursor { records: vec![(0, 0); files.len()], ..Cursor::default() };
        let cursor = Latched::new(c, "checkpoint", cursor)?;
        let Checkpoint { number, identity, .. } = *checkpoint;
        Ok(CheckpointReader { directory, database, number, identity, files, cursor })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A reader of blocks for one worker.
    pub fn worker(&self, c: P::Core) -> Result<BlockReader<'_, P>, LogError> {
        let queue = P::queue(c, self.directory)?;
        let head = Some(Buffer::new(c, None, ALIGNMENT, "checkpoint")?);
        Ok(BlockReader { reader: self, queue, open: None, head, block: None })
    }

    /// The number of rows, when all workers have read to the end.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if there are not as many as there have to be.
    pub fn finish(&self, c: P::Core) -> Result<u64, LogError> {
        let records = self.cursor.with(c, |cursor| cursor.records.clone());
        for (file, (read, expected)) in records.iter().enumerate() {
            if read != expected {
                return Err(self.damaged(file, 0, "records are missing, or there are too many"));
            }
        }
        Ok(records.iter().map(|(read, _)| read).sum())
    }

    fn damaged(&self, file: usize, offset: u64, what: &'static str) -> LogError {
        LogError::Damaged { file: self.files[file].0.clone(), offset, what }
    }
}

impl<P: Files> BlockReader<'_, P> {
    /// The records of another block, and its bytes; `None` if there is none left.
    ///
    /// # Errors
    /// The files refuse, or what they hold is damaged.
    pub fn next(&mut self, c: P::Core) -> Result<Option<(Records<'_>, u64)>, LogError> {
        let reader = self.reader;
        let Some(Claim { file, offset, bytes }) = reader.cursor.with(c, |cursor| self.claim(c, cursor))?
        else {
            return Ok(None);
        };
        let buffer = match self.block.take() {
            Some(buffer) if buffer.capacity() >= bytes => buffer,
            _ => Buffer::new(c, None, bytes.max(BLOCK_BYTES), "checkpoint")?,
        };
        let buffer = self.read(c, file, offset, buffer)?;
        let buffer = self.block.insert(buffer);
        let found = buffer.bytes().get(..bytes).and_then(block);
        let (_, payload) = found.ok_or_else(|| reader.damaged(file, offset, "a block cannot be read"))?;
        let records = Records::new(payload);
        let count = records.clone().count() as u64;
        reader.cursor.with(c, |cursor| cursor.records[file].0 += count);
        // The header of the file goes with its first block.
        let header = if offset == ALIGNMENT as u64 { ALIGNMENT } else { 0 };
        Ok(Some((records, (header + bytes) as u64)))
    }

    /// Finds out where the next block ends, from its header.
    fn claim(&mut self, c: P::Core, cursor: &mut Cursor) -> Result<Option<Claim>, LogError> {
        let (file, reader) = (cursor.file, self.reader);
        let Some((_, file_bytes)) = reader.files.get(file) else { return Ok(None) };
        let own = SegmentHeader {
            database: reader.database,
            identity: reader.identity,
            stream: file as u32,
            sequence: CHECKPOINT_SEQUENCE,
            generation: reader.number,
            first_epoch: 0,
        };
        if cursor.offset == 0 {
            let header = self.read_head(c, file, 0, SegmentHeader::fetch)??;
            if header != Some(own) {
                return Err(reader.damaged(file, 0, "it does not begin a file of a checkpoint"));
            }
            cursor.offset = ALIGNMENT as u64;
        }
        let offset = cursor.offset;
        let header = self.read_head(c, file, offset, BlockHeader::fetch)?;
        let header = header.ok_or_else(|| reader.damaged(file, offset, "a block cannot be read"))?;
        if (header.place, header.number) != (own.place(offset), cursor.block) {
            return Err(reader.damaged(file, offset, "a block of something else"));
        }
        let bytes = header.block_bytes();
        (cursor.offset, cursor.block) = (offset + bytes as u64, cursor.block + 1);
        if header.complete != MORE {
            if cursor.offset != *file_bytes {
                return Err(reader.damaged(file, offset, "records are missing, or there are too many"));
            }
            cursor.records[file].1 = header.complete;
            (cursor.file, cursor.offset, cursor.block) = (file + 1, 0, 0);
        }
        Ok(Some(Claim { file, offset, bytes }))
    }

    fn read_head<T>(
        &mut self,
        c: P::Core,
        file: usize,
        offset: u64,
        fetch: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, LogError> {
        let head = match self.head.take() {
            Some(head) => head,
            None => Buffer::new(c, None, ALIGNMENT, "checkpoint")?,
        };
        let head = self.read(c, file, offset, head)?;
        let fetched = fetch(head.bytes());
        self.head = Some(head);
        Ok(fetched)
    }

    /// Fills the buffer, or as much of it as the file has bytes.
    fn read(
        &mut self,
        c: P::Core,
        file: usize,
        offset: u64,
        buffer: Buffer<P>,
    ) -> Result<Buffer<P>, LogError> {
        let opened = match &self.open {
            Some((number, opened)) if *number == file => opened.clone(),
            _ => {
                let name = self.reader.files[file].0.clone();
                let open = Operation::Open { name, existence: Existence::Old, access: Access::Cached };
                let opened = P::perform(c, &mut self.queue, open).into_file()?;
                self.open = Some((file, opened.clone()));
                opened
            }
        };
        read_at(c, &mut self.queue, opened, offset, buffer)
    }
}
