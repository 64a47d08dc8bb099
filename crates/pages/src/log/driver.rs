//! Writing of the log: one group after the other, each written and flushed before the next one is
//! taken from the buffer.
//!
//! A worker that has been alone for a while writes and flushes its groups itself: no other thread
//! is woken for them. Segments are filled with zeros a step ahead of small groups, so that a flush
//! is one of data alone ([`Operation::Clear`]).

use platform::Nanos;
use platform::files::{Access, BLOCK_BYTES, Buffer, Existence, FileError, FileErrorKind, Files, Operation};
use redo_log::LogUse;

use super::buffer::LogBuffer;
use super::segments::{self, Header, SegmentPlan};
use crate::error::PagedError;
use crate::lsn::Lsn;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// After this many groups in a row with one waiting worker, that worker performs the next group
/// itself. If sessions compete for the same rows, one of them often waits for the disk alone, and a
/// session that continues sooner causes more refusals for others.
const ALONE_GROUPS: u32 = 16;

/// The next segment is made when this part of the current one is left; an attempt that was refused
/// is made again when that part of the part is used.
const AHEAD_PART: u64 = 4;

/// Longest time that a group waits for a segment that the system refuses to make; then the log
/// stops.
const REFUSED_NANOS_MAX: u64 = 3_000_000_000;

/// A segment is not made.
struct Refused {
    error: FileError,
    /// It is not tried again.
    is_final: bool,
}

impl Refused {
    fn for_good(error: FileError) -> Self {
        Refused { error, is_final: true }
    }
}

impl From<FileError> for Refused {
    fn from(error: FileError) -> Self {
        let is_final = error.kind == FileErrorKind::Stopped;
        Refused { error, is_final }
    }
}

/// A write on its way, of a group or of a part of one.
struct Flight {
    /// With it everything below is on disk; none: what is written ends without a mark, and is
    /// flushed with what ends with one.
    until: Option<u64>,
    began: Nanos,
    /// Operations that have not come back.
    left: usize,
}

/// Parameters of a worker's wait.
#[derive(Clone, Copy)]
pub(super) struct DiskWait {
    /// Until then; none: as long as it takes.
    pub deadline: Option<Nanos>,
    /// No other worker waits.
    pub is_alone: bool,
}

/// The writer of the log: one worker at a time uses it.
pub(super) struct LogDriver<P: Files> {
    queue: P::Queue,
    plan: SegmentPlan,
    /// The current segment.
    file: Option<P::File>,
    buffer: Option<Buffer<P>>,
    /// The segment behind it, once it is made.
    next: Option<(Lsn, P::File)>,
    /// Before this byte it is not tried again to make that one ahead; an attempt has left its file;
    /// since when the group that fills the current one waits for it.
    tried: u64,
    is_half_made: bool,
    refused: Option<Nanos>,
    flight: Option<Flight>,
    /// Up to here, as an LSN, the current segment has zeros or records; whether the operation is
    /// under way that makes it so.
    cleared: u64,
    clears: bool,
    /// Groups in a row for which one worker waited.
    alone: u32,
    /// First bytes of the segments that are there, ascending; the last one is the current one.
    segments: Vec<Lsn>,
    /// Everything below was fixed, and is in the log's buffer; `taken` is what has left it.
    fixed: u64,
    taken: u64,
    pub used: LogUse,
    error: Option<FileError>,
}

impl<P: Files> LogDriver<P> {
    pub(super) fn new(queue: P::Queue, plan: SegmentPlan, begins: Lsn) -> Self {
        let first = plan.first_in_segment(begins).0;
        LogDriver {
            queue,
            plan,
            file: None,
            buffer: None,
            next: None,
            tried: 0,
            is_half_made: false,
            refused: None,
            flight: None,
            cleared: first,
            clears: false,
            alone: 0,
            segments: Vec::new(),
            fixed: first,
            taken: first,
            used: LogUse::default(),
            error: None,
        }
    }

    fn perform(&mut self, c: P::Core, operation: Operation<P>) -> Result<(), FileError> {
        P::perform(c, &mut self.queue, operation).result.map(drop)
    }

    /// Returns true if the worker performs the next group itself.
    fn performs(&mut self, c: P::Core, wait: DiskWait) -> bool {
        self.alone = if wait.is_alone { self.alone.saturating_add(1) } else { 0 };
        self.alone > ALONE_GROUPS && redo_log::performs_io::<P>(c, wait.deadline)
    }

    /// Takes back the operation that clears, if it is over; `waits` for it.
    fn land_clearing(&mut self, c: P::Core, waits: bool) -> Result<(), FileError> {
        while self.clears {
            match P::take(c, &mut self.queue) {
                Some(completion) => {
                    self.clears = false;
                    completion.result?;
                }
                None if !waits => return Ok(()),
                None if P::wait(c, &mut self.queue, None) => {}
                None => return Err(FileError::stopped()),
            }
        }
        Ok(())
    }

    /// Makes the first segment, and enters it.
    pub(super) fn begin(&mut self, c: P::Core, begins: Lsn) -> Result<(), PagedError> {
        self.buffer = Some(Buffer::new(c, None, WRITE_BYTES, "log on its way")?);
        let first = self.plan.segment(begins);
        let file = self.make_segment(c, first).map_err(|Refused { error, .. }| error)?;
        self.enter(first, file);
        Ok(())
    }

    fn enter(&mut self, first: Lsn, file: P::File) {
        self.cleared = first.0 + BLOCK_BYTES as u64;
        self.file = Some(file);
        self.segments.push(first);
    }

    /// Makes a segment, and makes its name durable. No group is under way.
    fn make_segment(&mut self, c: P::Core, first: Lsn) -> Result<P::File, Refused> {
        self.land_clearing(c, true).map_err(Refused::for_good)?;
        let name = segments::name(first);
        let open = |existence| Operation::Open { name: name.clone(), existence, access: Access::Direct };
        let mut opened = P::perform(c, &mut self.queue, open(Existence::New)).into_file();
        if self.is_half_made && opened.as_ref().is_err_and(|error| error.kind == FileErrorKind::Exists) {
            // An attempt before has left it, without a header.
            self.perform(c, Operation::Remove { name: name.clone() })?;
            opened = P::perform(c, &mut self.queue, open(Existence::New)).into_file();
        }
        let file = opened?;
        self.is_half_made = true;
        if let Err(refused) = self.fill_segment(c, first, &file) {
            // What is left is an empty file, for which the next attempt, or the next opening, has a
            // use.
            _ = self.perform(c, Operation::Remove { name });
            return Err(refused);
        }
        self.is_half_made = false;
        Ok(file)
    }

    /// Gives a new segment its length, then its header.
    fn fill_segment(&mut self, c: P::Core, first: Lsn, file: &P::File) -> Result<(), Refused> {
        let SegmentPlan { bytes, names, generation, continues } = self.plan;
        let taken = self.perform(c, Operation::Preallocate { file: file.clone(), bytes });
        let size = P::perform(c, &mut self.queue, Operation::Size { file: file.clone() }).bytes()?;
        if size < bytes {
            // A file system may have no way to take space ahead; a full one has none to take.
            taken.or_else(|error| if error.kind == FileErrorKind::Full { Err(error) } else { Ok(()) })?;
            self.write_block(c, file, bytes - BLOCK_BYTES as u64, &[0; BLOCK_BYTES])?;
        }
        // A thread that finds the header finds the length.
        self.flush(c, Operation::Flush { file: file.clone() })?;
        let continues = if self.segments.is_empty() { continues } else { Lsn(0) };
        let (segment_bytes, file_bytes) = (bytes, bytes);
        let header = Header { names, generation, first, continues, segment_bytes, file_bytes };
        self.write_block(c, file, 0, &header.encode())?;
        self.flush(c, Operation::Flush { file: file.clone() })?;
        self.flush(c, Operation::FlushDirectory)
    }

    fn write_block(
        &mut self,
        c: P::Core,
        file: &P::File,
        offset: u64,
        block: &[u8; BLOCK_BYTES],
    ) -> Result<(), FileError> {
        let mut buffer = self.buffer.take().ok_or_else(FileError::stopped)?;
        buffer.set_len(0);
        buffer.append(c, block);
        let write = Operation::Write { file: file.clone(), offset, buffers: vec![buffer] };
        let completion = P::perform(c, &mut self.queue, write);
        self.buffer = completion.buffers.into_iter().next();
        completion.result?;
        self.used.written_bytes += BLOCK_BYTES as u64;
        Ok(())
    }

    /// The state of a file after a failed flush is unknown.
    fn flush(&mut self, c: P::Core, operation: Operation<P>) -> Result<(), Refused> {
        self.perform(c, operation).map_err(Refused::for_good)
    }

    /// Makes the segment behind the current one, if it is time: when most of the current one is
    /// used, and at the latest when the next group fills it (`must`). Whether the group may go.
    ///
    /// A refusal may pass: what has time is left for later, and what has none is tried again for a
    /// while.
    fn make_next(&mut self, c: P::Core, must: bool) -> Result<bool, FileError> {
        let first = self.plan.segment(Lsn(self.taken));
        let ahead = self.plan.bytes / AHEAD_PART;
        if self.next.is_some() || !must && self.taken < (first.0 + self.plan.bytes - ahead).max(self.tried) {
            return Ok(true);
        }
        self.tried = self.taken + ahead / AHEAD_PART;
        let next = Lsn(first.0 + self.plan.bytes);
        match self.make_segment(c, next) {
            Ok(file) => {
                self.next = Some((next, file));
                self.refused = None;
                Ok(true)
            }
            Err(Refused { error, is_final: true }) => Err(error),
            Err(_) if !must => Ok(true),
            Err(Refused { error, .. }) => {
                let now = P::now(c);
                let since = *self.refused.get_or_insert(now);
                if now.since(since) < REFUSED_NANOS_MAX { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Returns true if the next group waits for a refused operation.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Does all that can be done now: takes completions, and submits the buffered records; waits
    /// for operations in flight if `wait` is given. Returns true if a write has completed.
    ///
    /// # Errors
    /// The files refuse: nothing is written any more.
    pub(super) fn drive(
        &mut self,
        c: P::Core,
        log: &LogBuffer<P>,
        waits: Option<DiskWait>,
    ) -> Result<bool, FileError> {
        if self.error.is_some() {
            return Ok(false);
        }
        let result = self.try_drive(c, log, waits);
        if let Err(error) = &result {
            self.error = Some(error.clone());
        }
        result
    }

    fn try_drive(
        &mut self,
        c: P::Core,
        log: &LogBuffer<P>,
        waits: Option<DiskWait>,
    ) -> Result<bool, FileError> {
        let mut landed = self.land(c, log)?;
        if self.flight.is_none() {
            let performs = waits.is_some_and(|wait| self.performs(c, wait));
            landed |= self.send(c, log, performs)?;
            if let Some(DiskWait { deadline, .. }) = waits {
                while self.flight.is_some() && P::wait(c, &mut self.queue, deadline) {
                    landed |= self.land(c, log)?;
                }
            }
        } else if let Some(DiskWait { deadline, .. }) = waits
            && !landed
            && P::wait(c, &mut self.queue, deadline)
        {
            landed |= self.land(c, log)?;
        }
        Ok(landed)
    }

    /// Takes back what has come; whether a write has.
    fn land(&mut self, c: P::Core, log: &LogBuffer<P>) -> Result<bool, FileError> {
        self.land_clearing(c, false)?;
        if self.clears {
            return Ok(false);
        }
        let Some(flight) = &mut self.flight else { return Ok(false) };
        while flight.left > 0 {
            let Some(completion) = P::take(c, &mut self.queue) else { return Ok(false) };
            flight.left -= 1;
            if let Some(buffer) = completion.buffers.into_iter().next() {
                self.buffer = Some(buffer);
            }
            completion.result?;
        }
        self.used.group_nanos += P::now(c).since(flight.began);
        let until = flight.until;
        self.flight = None;
        if let Some(until) = until {
            self.used.groups += 1;
            self.used.flushes += 1;
            self.used.epoch += 1;
            log.set_durable(c, Lsn(until));
        }
        Ok(true)
    }

    /// Sends the next group, if there is any; a worker that waits for it `performs` it, unless the
    /// queue is not done with what comes before. Whether it is durable.
    fn send(&mut self, c: P::Core, log: &LogBuffer<P>, performs: bool) -> Result<bool, FileError> {
        if self.taken == self.fixed {
            if log.end(c).0 == self.fixed {
                return Ok(false);
            }
            self.fixed = log.fix_end(c, self.fixed);
        }
        if self.taken.is_multiple_of(self.plan.bytes) {
            // The header of the next segment lies here, and is no part of any record.
            let (first, file) = self.next.take().ok_or_else(FileError::stopped)?;
            self.enter(first, file);
            self.taken += BLOCK_BYTES as u64;
        }
        let segment_end = self.plan.end_of_segment(Lsn(self.taken));
        let marked = segment_end.min(self.fixed);
        let ends = marked.min(self.taken + WRITE_BYTES as u64);
        if !self.make_next(c, ends == segment_end)? {
            return Ok(false);
        }
        let bytes = (ends - self.taken) as usize;
        let Some(mut buffer) = self.buffer.take() else { return Err(FileError::stopped()) };
        let to = buffer.writable(c, 0, bytes);
        log.copy_out(c, self.taken, bytemuck::cast_slice_mut(to));
        buffer.set_len(bytes);
        let Some(file) = self.file.clone() else { return Err(FileError::stopped()) };
        let offset = self.taken - self.plan.segment(Lsn(self.taken)).0;
        self.taken += bytes as u64;
        log.set_taken(c, Lsn(self.taken));
        let began = P::now(c);
        let write = Operation::Write { file: file.clone(), offset, buffers: vec![buffer] };
        self.used.written_bytes += bytes as u64;
        // No thread relies on what has no mark: it could not be distinguished from what a crash
        // leaves.
        let until = (self.taken == marked).then_some(marked);
        let flush = until.map(|_| Operation::Flush { file });
        let mut flight = Flight { until, began, left: 0 };
        if performs && !self.clears {
            let completion = P::perform(c, &mut self.queue, write);
            self.buffer = completion.buffers.into_iter().next();
            completion.result?;
            flush.map_or(Ok(()), |flush| self.perform(c, flush))?;
        } else {
            flight.left = 1 + usize::from(flush.is_some());
            P::submit(c, &mut self.queue, write);
            if let Some(flush) = flush {
                P::submit(c, &mut self.queue, flush);
            }
        }
        let is_over = flight.left == 0;
        self.flight = Some(flight);
        if is_over {
            self.land(c, log)?;
            self.clear_ahead(c, bytes as u64);
        }
        Ok(is_over)
    }

    /// Fills the next step of the segment with zeros, after a group of `group_bytes` bytes, if the
    /// group is small and the step before is used up. No operation is under way.
    fn clear_ahead(&mut self, c: P::Core, group_bytes: u64) {
        let end = self.plan.end_of_segment(Lsn(self.taken));
        let Some(zeros) = redo_log::next_zeros(self.cleared, self.taken, end, group_bytes) else { return };
        let Some(file) = self.file.clone() else { return };
        self.cleared = zeros.end;
        let (offset, bytes) = (zeros.start - self.plan.segment(Lsn(zeros.start)).0, zeros.end - zeros.start);
        P::submit(c, &mut self.queue, Operation::Clear { file, offset, bytes });
        self.clears = true;
    }

    /// Removes the first segment, if nothing was written behind its header.
    pub(super) fn withdraw(&mut self, c: P::Core) {
        if let [first] = self.segments[..]
            && self.taken == first.0 + BLOCK_BYTES as u64
            && self.file.take().is_some()
        {
            self.error = Some(FileError::stopped());
            _ = self.perform(c, Operation::Remove { name: segments::name(first) });
            _ = self.perform(c, Operation::FlushDirectory);
        }
    }

    /// Removes the segments of this generation whose records all lie below `lsn`; none while a
    /// group is under way.
    pub(super) fn cut(&mut self, c: P::Core, lsn: Lsn) -> Result<(), FileError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if self.flight.is_some() {
            return Ok(());
        }
        self.land_clearing(c, true)?;
        let current = self.segments.last().copied().unwrap_or_default();
        let bytes = self.plan.bytes;
        let goes = |first: &Lsn| *first < current && first.0 + bytes <= lsn.0;
        let gone: Vec<Lsn> = self.segments.iter().copied().filter(goes).collect();
        for first in gone {
            self.perform(c, Operation::Remove { name: segments::name(first) })?;
            self.segments.retain(|other| *other != first);
        }
        Ok(())
    }
}
