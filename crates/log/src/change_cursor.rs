//! Commits in the order of their stamps, read from the segments of a log that is being written.
//!
//! A cursor delivers the commits of an epoch when the epoch is durable, never before, so that no
//! crash takes back what it has delivered. It reads the blocks of all streams, beginning with the
//! one that is the furthest behind, and holds the records of epochs that are not complete in what
//! was read; these are few, since each block names the last complete epoch. The records of the
//! complete epochs are sorted by their stamps. A former generation ends with the epoch that the
//! manifest names: later records were never acknowledged, or the next generation has them again,
//! with the same stamps.
//!
//! A position is never larger than the log on disk knows: epochs that advanced without a record
//! are forgotten by a crash, and then given to other commits.
//!
//! No gap goes unnoticed: the blocks of a stream have numbers without gaps, the last one that has
//! to be there is known (from the log for the generation under way, from the last complete epoch
//! for earlier ones), and a block is known by its place and its checksum.

use std::collections::VecDeque;

use platform::Nanos;
use platform::files::{Access, Buffer, Existence, FileErrorKind, Files, Operation};
use storage::Epochs;
use terms::Epoch;

use crate::Log;
use crate::driving::Reach;
use crate::error::LogError;
use crate::format::{ALIGNMENT, BlockHeader, Records, SegmentHeader, block};
use crate::goal::Target;
use crate::image::read_at;
use crate::manifest::{Generation, StreamStart};
use crate::names::segment_name;
use crate::retention::LogPosition;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// A reader that waits looks for commits that no session makes durable after this time.
const IDLE_NANOS: u64 = 5_000_000;
/// A reader says how far it is after this time.
const TELL_NANOS: u64 = 100_000_000;
/// Attempts to read a durable block, and the pause between them: a cache may be behind the disk.
const ATTEMPTS: usize = 50;
const ATTEMPT_NANOS: u64 = 1_000_000;

/// Where a stream of changes begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangesFrom {
    /// Behind all commits so far.
    Now,
    /// With the oldest commit that is there.
    Oldest,
    /// Behind this position.
    Position(LogPosition),
    /// Behind what a registered reader has acknowledged.
    Reader(String),
}

/// Why changes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangesError {
    /// Changes behind the position are gone.
    #[error(
        "changes behind this position are gone, by a checkpoint or the bound on kept changes: take a position anew, copy the rows, \
         and go on from that position"
    )]
    Lost,
    /// No reader of this name is registered.
    #[error("no reader of changes {0:?} is registered: register it, copy the rows, and read on from there")]
    NoSuchReader(String),
    /// The position is of another database.
    #[error("the position is of another database, or of a copy that went on for itself: take one here")]
    OtherDatabase,
    /// There are as many readers as there may be, or the name is too long.
    #[error(
        "a directory has at most {} readers of changes, with names of 1 to {} bytes: forget one, or shorten the name",
        crate::retention::READERS_MAX,
        crate::retention::READER_NAME_BYTES_MAX
    )]
    TooManyReaders,
    /// The database has no log that changes are read from.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The files cannot be read, or the log has stopped.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The records of one commit; under `tictoc` of several that share no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommit {
    /// The position behind it.
    pub position: LogPosition,
    /// False if it was delivered before: it is read again for records that later ones refer to.
    pub is_new: bool,
    /// The bodies of its records.
    pub bodies: Vec<Vec<u8>>,
}

/// A record that was read.
struct ReadRecord {
    stamp: u64,
    epoch: u64,
    /// Number of records that were read before.
    number: u64,
    body: Vec<u8>,
}

/// The segment that is being read, and the place of the next block in it.
struct ReadSegment<P: Files> {
    file: P::File,
    header: SegmentHeader,
    offset: u64,
}

/// One stream of a generation.
struct StreamReader<P: Files> {
    number: u32,
    segment: ReadSegment<P>,
    next_block: u64,
    /// The last epoch that the blocks so far call complete.
    complete: u64,
    /// The last epoch that the blocks so far name, which no later generation uses again.
    newest: u64,
    /// True if a former generation has no more blocks here.
    is_over: bool,
}

impl<P: Files> StreamReader<P> {
    fn damaged(&self, what: &'static str) -> LogError {
        let ReadSegment { header, offset, .. } = &self.segment;
        let file = segment_name(self.number, header.sequence);
        LogError::Damaged { file, offset: *offset, what }
    }
}

/// A stream of commits. It is bound to one log, and holds the log's directory.
pub struct ChangeCursor<P: Files> {
    queue: P::Queue,
    access: Access,
    pub(crate) reader: u64,
    /// All commits up to here were handed out, or are not newer than the beginning.
    position: LogPosition,
    /// Up to here commits were read.
    read_to: LogPosition,
    /// The generations from the one that is being read.
    generations: VecDeque<Generation>,
    streams: Vec<StreamReader<P>>,
    pending: Vec<ReadRecord>,
    records: u64,
    ready: VecDeque<LoggedCommit>,
    told: u64,
    told_at: Nanos,
}

/// The place at which a cursor begins.
pub(crate) struct CursorStart {
    pub position: LogPosition,
    /// The generations to read, the first of them from its starts on.
    pub generations: VecDeque<Generation>,
    pub reader: u64,
    pub access: Access,
}

impl<P: Files> ChangeCursor<P> {
    pub(crate) fn new(c: P::Core, queue: P::Queue, start: CursorStart) -> Result<Self, ChangesError> {
        let CursorStart { position, generations, reader, access } = start;
        let mut cursor = ChangeCursor {
            queue,
            access,
            reader,
            position,
            read_to: position,
            generations,
            streams: Vec::new(),
            pending: Vec::new(),
            records: 0,
            ready: VecDeque::new(),
            told: position.stamp,
            told_at: P::now(c),
        };
        cursor.begin_generation(c)?;
        Ok(cursor)
    }

    /// The position behind all commits that were handed out.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    fn begin_generation(&mut self, c: P::Core) -> Result<(), LogError> {
        let Some(generation) = self.generations.front() else { return Ok(()) };
        let generation = generation.clone();
        self.streams.clear();
        for (number, StreamStart { sequence, block, .. }) in (0..).zip(&generation.starts) {
            let Some(segment) = self.open_segment(c, &generation, number, *sequence)? else {
                let is_passed = |last: u64| Epoch(last).last_stamp() <= self.position.stamp;
                // A segment without blocks goes when the log is closed.
                if generation.last_epoch.is_some_and(is_passed) {
                    continue;
                }
                return Err(missing(number, *sequence));
            };
            let complete = generation.first_epoch - 1;
            let (next_block, newest) = (*block, complete);
            let reader = StreamReader { number, segment, next_block, complete, newest, is_over: false };
            self.streams.push(reader);
        }
        Ok(())
    }

    /// Opens a segment of a generation; `None` if there is none.
    fn open_segment(
        &mut self,
        c: P::Core,
        generation: &Generation,
        stream: u32,
        sequence: u64,
    ) -> Result<Option<ReadSegment<P>>, LogError> {
        let (name, access) = (segment_name(stream, sequence), self.access);
        let open = Operation::Open { name, existence: Existence::Old, access };
        let file = match P::perform(c, &mut self.queue, open).into_file() {
            Ok(file) => file,
            Err(error) if error.kind == FileErrorKind::Missing => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let buffer = Buffer::new(c, None, ALIGNMENT, "changes")?;
        let bytes = read_at::<P>(c, &mut self.queue, file.clone(), 0, buffer)?;
        let header = SegmentHeader::fetch(bytes.bytes())?.filter(|header| {
            (header.stream, header.sequence) == (stream, sequence) && header.identity == generation.identity
        });
        Ok(header.map(|header| ReadSegment { file, header, offset: ALIGNMENT as u64 }))
    }

    /// Reads blocks of one stream, none from number `limit` on; false if there are none.
    fn read_stream(&mut self, c: P::Core, stream: usize, limit: u64) -> Result<bool, LogError> {
        let mut bytes = CHUNK_BYTES;
        loop {
            let ReadSegment { file, offset, .. } = &self.streams[stream].segment;
            let (file, offset) = (file.clone(), *offset);
            let buffer = Buffer::new(c, None, bytes, "changes")?;
            let buffer = read_at::<P>(c, &mut self.queue, file, offset, buffer)?;
            let found = self.take_blocks(stream, buffer.bytes(), limit);
            // A block may be longer than what was read.
            let StreamReader { segment, next_block, .. } = &self.streams[stream];
            let longer = BlockHeader::fetch(buffer.bytes()).filter(|header| {
                header.place == segment.header.place(offset) && header.number == *next_block
            });
            match longer.map(|header| header.block_bytes()).filter(|longer| *longer > bytes && !found) {
                Some(longer) => bytes = longer,
                None => return Ok(found),
            }
        }
    }

    /// Takes the blocks that follow; true if there is one.
    fn take_blocks(&mut self, stream: usize, bytes: &[u8], limit: u64) -> bool {
        let ChangeCursor { streams, pending, records, .. } = self;
        let reader = &mut streams[stream];
        let mut rest = bytes;
        while let Some((header, payload)) = block(rest) {
            let place = reader.segment.header.place(reader.segment.offset);
            let is_next = header.place == place && header.number == reader.next_block;
            if !is_next || header.number >= limit {
                break;
            }
            for record in Records::new(payload) {
                let (stamp, epoch, body) = (record.stamp, record.epoch, record.body.to_vec());
                reader.newest = reader.newest.max(epoch);
                pending.push(ReadRecord { stamp, epoch, number: *records, body });
                *records += 1;
            }
            reader.complete = reader.complete.max(header.complete);
            reader.newest = reader.newest.max(header.complete);
            reader.next_block += 1;
            reader.segment.offset += header.block_bytes() as u64;
            rest = &rest[header.block_bytes()..];
        }
        rest.len() < bytes.len()
    }

    /// Reads on in a stream, in its next segment if this one has no more; false if there is none.
    fn read_on(
        &mut self,
        c: P::Core,
        generation: &Generation,
        stream: usize,
        limit: u64,
    ) -> Result<bool, LogError> {
        if self.read_stream(c, stream, limit)? {
            return Ok(true);
        }
        let StreamReader { number, segment, .. } = &self.streams[stream];
        let (number, next) = (*number, segment.header.sequence + 1);
        let Some(segment) = self.open_segment(c, generation, number, next)? else { return Ok(false) };
        let before = std::mem::replace(&mut self.streams[stream].segment, segment);
        let found = self.read_stream(c, stream, limit)?;
        if !found {
            self.streams[stream].segment = before;
        }
        Ok(found)
    }

    /// Reads some blocks of a former generation, or ends it.
    fn read_former(&mut self, c: P::Core, generation: &Generation, last: u64) -> Result<(), LogError> {
        let behind = (0..self.streams.len()).filter(|stream| !self.streams[*stream].is_over);
        match behind.min_by_key(|stream| self.streams[*stream].complete) {
            Some(stream) => {
                if !self.read_on(c, generation, stream, u64::MAX)? {
                    self.streams[stream].is_over = true;
                }
                let complete =
                    self.streams.iter().filter(|stream| !stream.is_over).map(|stream| stream.complete);
                if let Some(complete) = complete.min() {
                    self.make_ready(complete.min(last), generation);
                }
            }
            None => {
                if let Some(short) = self.streams.iter().find(|stream| stream.complete < last)
                    && Epoch(last).last_stamp() > self.position.stamp
                {
                    return Err(short.damaged("epochs that were durable are missing"));
                }
                self.make_ready(last, generation);
                self.pending.clear();
                self.generations.pop_front();
                self.begin_generation(c)?;
            }
        }
        Ok(())
    }

    /// Reads some blocks of the generation under way; false if all durable ones were read.
    fn read_current(&mut self, c: P::Core, generation: &Generation, reach: &Reach) -> Result<bool, LogError> {
        let limit = |stream: &StreamReader<P>| reach.blocks.get(stream.number as usize).copied().unwrap_or(0);
        let behind = |stream: &usize| self.streams[*stream].next_block < limit(&self.streams[*stream]);
        let behind =
            (0..self.streams.len()).filter(behind).min_by_key(|stream| self.streams[*stream].complete);
        let Some(stream) = behind else {
            self.make_ready(reach.durable, generation);
            return Ok(false);
        };
        let (mut attempts, bound) = (0, limit(&self.streams[stream]));
        while !self.read_on(c, generation, stream, bound)? {
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(self.streams[stream].damaged("a durable block cannot be read"));
            }
            P::rest(c, ATTEMPT_NANOS);
        }
        let is_behind = |stream: &&StreamReader<P>| stream.next_block < limit(stream);
        let complete = self.streams.iter().filter(is_behind).map(|stream| stream.complete).min();
        self.make_ready(complete.unwrap_or(u64::MAX).min(reach.durable), generation);
        Ok(true)
    }

    /// Orders the commits of all epochs up to this one, all of whose records were read.
    fn make_ready(&mut self, epoch: u64, generation: &Generation) {
        // Records that the generation has written once more are of its first epoch. Their stamps
        // are smaller than those of the epochs before: no position may pass these.
        if epoch < generation.first_epoch {
            return;
        }
        let generation = generation.identity;
        let named = self.streams.iter().map(|stream| stream.newest).max().unwrap_or(0);
        let end = LogPosition { generation, stamp: Epoch(epoch.min(named)).last_stamp(), ..self.read_to };
        let mut complete: Vec<_> = self.pending.extract_if(.., |record| record.epoch <= epoch).collect();
        complete.sort_unstable_by_key(|record| (record.stamp, record.number));
        for commit in complete.chunk_by_mut(|one, other| one.stamp == other.stamp) {
            let stamp = commit[0].stamp;
            // Commits that the generation before had already were written once more.
            let is_new = stamp > self.read_to.stamp;
            if is_new {
                self.read_to = LogPosition { generation, stamp, ..self.read_to };
            }
            let bodies = commit.iter_mut().map(|record| std::mem::take(&mut record.body)).collect();
            self.ready.push_back(LoggedCommit { position: self.read_to, is_new, bodies });
        }
        if end.stamp > self.read_to.stamp {
            self.read_to = end;
            // Behind the last commit there is nothing else up to the end.
            if let Some(last) = self.ready.back_mut() {
                last.position = end;
            }
        }
    }
}

fn missing(stream: u32, sequence: u64) -> LogError {
    let (file, what) = (segment_name(stream, sequence), "a segment is missing");
    LogError::Damaged { file, offset: 0, what }
}

impl<P: Files> Log<P> {
    /// The next commit behind those that the cursor has handed out; `None` if there is none by the
    /// deadline. With a deadline that has passed only what is durable already is read, and what is
    /// not is sent on its way to the disk. No session of the caller is inside an epoch.
    ///
    /// # Errors
    /// [`ChangesError`]: changes were given up for which the cursor was too late; or the log has
    /// stopped.
    pub fn next_commit(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        cursor: &mut ChangeCursor<P>,
        deadline: Option<Nanos>,
    ) -> Result<Option<LoggedCommit>, ChangesError> {
        loop {
            if let Some(commit) = cursor.ready.pop_front() {
                cursor.position = commit.position.max_stamp(cursor.position);
                return Ok(Some(commit));
            }
            cursor.position = cursor.read_to;
            self.note_progress(c, cursor)?;
            let (seen, reach) = (self.completions(c), self.reach(c));
            let Some(generation) = cursor.generations.front().cloned() else {
                return Err(LogError::Damaged {
                    file: crate::MANIFEST.into(),
                    offset: 0,
                    what: "no generation is under way",
                }
                .into());
            };
            let read = match generation.last_epoch {
                Some(last) => cursor.read_former(c, &generation, last).map(|()| true),
                None => cursor.read_current(c, &generation, &reach),
            };
            let has_more = read.map_err(|error| self.lost_or(c, cursor.position, error))?;
            if has_more || !cursor.ready.is_empty() {
                continue;
            }
            if let Some(error) = self.stopped(c) {
                return Err(error.into());
            }
            let now = P::now(c);
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.send_on(c, epochs);
                return Ok(None);
            }
            // Moves commits on that no session makes durable itself.
            let until = deadline.map_or(now.plus(IDLE_NANOS), |deadline| deadline.min(now.plus(IDLE_NANOS)));
            let target = Target { deadline: Some(until), ..Target::durable(epochs.current(c).0) };
            self.wait(c, epochs, target)?;
            if self.reach(c).blocks == reach.blocks && cursor.pending.is_empty() {
                P::park(c, self.completions_word(), seen, Some(until));
            }
        }
    }

    /// Has the log write what is complete, without waiting.
    fn send_on(&self, c: P::Core, epochs: &Epochs<P>) {
        let committed = epochs.current(c).0;
        while storage::last_complete(epochs.current(c)).0 < committed && epochs.draw(c) {}
        self.try_drive(c, epochs, crate::goal::DriveGoal::Advance);
    }

    /// Notes now and then the position that a cursor has reached.
    fn note_progress(&self, c: P::Core, cursor: &mut ChangeCursor<P>) -> Result<(), ChangesError> {
        let now = P::now(c);
        if cursor.position.stamp > cursor.told && now.since(cursor.told_at) >= TELL_NANOS {
            (cursor.told, cursor.told_at) = (cursor.position.stamp, now);
            self.advance_reader(c, cursor.reader, cursor.position.stamp)?;
        }
        Ok(())
    }
}

impl LogPosition {
    /// This position, or the other if that has a larger stamp.
    fn max_stamp(self, other: LogPosition) -> LogPosition {
        if other.stamp > self.stamp { other } else { self }
    }
}
