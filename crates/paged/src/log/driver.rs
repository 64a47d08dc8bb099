//! What goes to the disk: one group after the other, each written and flushed before the next one is taken from the buffer.

use platform::Nanos;
use platform::files::{Access, BLOCK_BYTES, Buffer, Existence, FileError, Files, Operation};
use storage::log::LogUse;

use super::buffer::LogBuffer;
use super::segments::{self, Header, SegmentPlan};
use crate::lsn::Lsn;
use crate::options::PagedError;

/// Bytes that go to the disk at once.
const GROUP_BYTES: usize = 1 << 20;

/// A group on its way.
struct Flight {
    until: u64,
    began: Nanos,
    /// Operations that have not come back.
    left: usize,
}

/// What writes the log: one worker at a time has it.
pub(super) struct Driver<P: Files> {
    queue: P::Queue,
    plan: SegmentPlan,
    /// The current segment.
    file: Option<P::File>,
    buffer: Option<Buffer<P>>,
    flight: Option<Flight>,
    /// First bytes of the segments that are there, ascending; the last one is the current one.
    segments: Vec<Lsn>,
    /// Everything below was fixed, and is in the log's buffer; `taken` is what has left it.
    fixed: u64,
    taken: u64,
    pub used: LogUse,
    error: Option<FileError>,
}

impl<P: Files> Driver<P> {
    pub(super) fn new(queue: P::Queue, plan: SegmentPlan, begins: Lsn) -> Self {
        let first = plan.first_in_segment(begins).0;
        Driver {
            queue,
            plan,
            file: None,
            buffer: None,
            flight: None,
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

    /// Makes the segment that a byte lies in, and makes its name durable. Nothing is under way.
    pub(super) fn enter_segment(&mut self, c: P::Core, lsn: Lsn) -> Result<(), PagedError> {
        let first = self.plan.segment(lsn);
        let name = segments::name(first);
        let open = Operation::Open { name, existence: Existence::New, access: Access::Direct };
        let file = P::perform(c, &mut self.queue, open).into_file()?;
        let continues = if self.segments.is_empty() { self.plan.continues } else { Lsn(0) };
        let SegmentPlan { bytes, generation, .. } = self.plan;
        let header = Header { generation, first, continues, segment_bytes: bytes };
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => Buffer::new(c, None, GROUP_BYTES, "log on its way")?,
        };
        buffer.set_len(0);
        buffer.append(c, &header.encode());
        self.perform(c, Operation::Preallocate { file: file.clone(), bytes })?;
        let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
        let completion = P::perform(c, &mut self.queue, write);
        self.buffer = completion.buffers.into_iter().next();
        completion.result?;
        self.perform(c, Operation::Flush { file: file.clone() })?;
        self.perform(c, Operation::FlushDirectory)?;
        self.used.written_bytes += BLOCK_BYTES as u64;
        self.file = Some(file);
        self.segments.push(first);
        Ok(())
    }

    /// Does what can be done now: takes back what has come, and sends what is there. With a deadline (`Some`; within it, none: as long as it
    /// takes), waits for what is under way. Whether something has become durable.
    ///
    /// # Errors
    /// The files refuse: nothing is written any more.
    pub(super) fn drive(
        &mut self,
        c: P::Core,
        log: &LogBuffer<P>,
        waits: Option<Option<Nanos>>,
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
        waits: Option<Option<Nanos>>,
    ) -> Result<bool, FileError> {
        let mut landed = self.land(c, log)?;
        if self.flight.is_none() {
            self.send(c, log)?;
            if let Some(deadline) = waits {
                while self.flight.is_some() && P::wait(c, &mut self.queue, deadline) {
                    landed |= self.land(c, log)?;
                }
            }
        } else if let Some(deadline) = waits
            && !landed
            && P::wait(c, &mut self.queue, deadline)
        {
            landed |= self.land(c, log)?;
        }
        Ok(landed)
    }

    /// Takes back what has come; whether a group has become durable.
    fn land(&mut self, c: P::Core, log: &LogBuffer<P>) -> Result<bool, FileError> {
        let Some(flight) = &mut self.flight else { return Ok(false) };
        while flight.left > 0 {
            let Some(completion) = P::take(c, &mut self.queue) else { return Ok(false) };
            flight.left -= 1;
            if let Some(buffer) = completion.buffers.into_iter().next() {
                self.buffer = Some(buffer);
            }
            completion.result?;
        }
        self.used.groups += 1;
        self.used.flushes += 1;
        self.used.epoch += 1;
        self.used.group_nanos += P::now(c).since(flight.began);
        let until = flight.until;
        self.flight = None;
        log.set_durable(c, Lsn(until));
        Ok(true)
    }

    /// Sends the next group, if there is any.
    fn send(&mut self, c: P::Core, log: &LogBuffer<P>) -> Result<(), FileError> {
        if self.taken == self.fixed {
            if log.end(c).0 == self.fixed {
                return Ok(());
            }
            self.fixed = log.fix_end(c, self.fixed);
        }
        if self.taken.is_multiple_of(self.plan.bytes) {
            // The header of the next segment lies here, and is no part of any record.
            self.enter_segment(c, Lsn(self.taken)).map_err(|error| match error {
                PagedError::File(error) => error,
                _ => FileError::stopped(),
            })?;
            self.taken += BLOCK_BYTES as u64;
        }
        let ends = self.plan.end_of_segment(Lsn(self.taken)).min(self.fixed);
        let Some(mut buffer) = self.buffer.take() else { return Err(FileError::stopped()) };
        let bytes = ((ends - self.taken) as usize).min(buffer.capacity());
        let to = buffer.writable(c, 0, bytes);
        log.copy_out(c, self.taken, bytemuck::cast_slice_mut(to));
        buffer.set_len(bytes);
        let Some(file) = self.file.clone() else { return Err(FileError::stopped()) };
        let offset = self.taken - self.plan.segment(Lsn(self.taken)).0;
        self.taken += bytes as u64;
        log.set_taken(c, Lsn(self.taken));
        let began = P::now(c);
        let write = Operation::Write { file: file.clone(), offset, buffers: vec![buffer] };
        P::submit(c, &mut self.queue, write);
        P::submit(c, &mut self.queue, Operation::Flush { file });
        self.flight = Some(Flight { until: self.taken, began, left: 2 });
        self.used.written_bytes += bytes as u64;
        Ok(())
    }

    /// Removes the segments of this life whose records all lie below `lsn`; while a group is under way, none.
    pub(super) fn cut(&mut self, c: P::Core, lsn: Lsn) -> Result<(), FileError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if self.flight.is_some() {
            return Ok(());
        }
        let current = self.segments.last().copied().unwrap_or_default();
        let bytes = self.plan.bytes;
        let goes = |first: &Lsn| *first < current && first.0 + bytes <= lsn.0;
        let gone: Vec<Lsn> = self.segments.iter().copied().filter(goes).collect();
        self.segments.retain(|first| !goes(first));
        for first in gone {
            self.perform(c, Operation::Remove { name: segments::name(first) })?;
        }
        Ok(())
    }
}
