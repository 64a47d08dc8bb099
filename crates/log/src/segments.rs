//! The segment that a stream writes, and the one that comes next.
//!
//! Protocol: a segment is made ahead, under its own name. First its header is written, then header
//! and name are flushed: from then on the segment is *known*, and blocks of the segment before it
//! name it. Later, behind groups, its space is allocated a step at a time, since a file system may
//! clear it. No step is waited for while the current segment has room, and an operation that the
//! system refuses is tried again later: the current segment grows beyond its length meanwhile. The
//! current segment has durable blocks by then: if a segment is without blocks, and a later one is
//! there, the blocks were lost.

use platform::files::{Done, Existence, FileError, Files, Operation};

use crate::error::LogError;
use crate::format::{ALIGNMENT, SegmentHeader};
use crate::names::segment_name;
use crate::segment::{NextSegment, OperationPurpose, Segment};
use crate::stream::Stream;

/// Steps in which the space of a new segment is taken.
const GROWTH_STEPS: u64 = 16;
/// The next segment is made when this part of the current one is used, and takes its space from the
/// second on.
const MADE_AT: u64 = 4;
const GROWN_AT: u64 = 2;
/// A refused operation is tried again after this time.
const AGAIN_NANOS: u64 = 20_000_000;

impl<P: Files> Stream<P> {
    /// Takes what an operation gives.
    pub(crate) fn settle(
        &mut self,
        c: P::Core,
        purpose: OperationPurpose,
        result: Result<Done<P>, FileError>,
    ) -> Result<(), FileError> {
        match (purpose, result) {
            (
                OperationPurpose::Group
                | OperationPurpose::Flush
                | OperationPurpose::Name
                | OperationPurpose::Length { .. },
                Err(error),
            ) => {
                return Err(error);
            }
            (OperationPurpose::Open, Ok(Done::File(file))) => {
                self.next = NextSegment::Bare(self.opened(file))
            }
            (OperationPurpose::Open, Ok(_)) => {}
            (OperationPurpose::Open, Err(error)) => {
                self.next = NextSegment::None;
                self.refused(c, error);
            }
            (OperationPurpose::Head, Err(error)) => {
                if let NextSegment::Naming(_, failed) = &mut self.next {
                    *failed = true;
                }
                self.refused(c, error);
            }
            (OperationPurpose::Name, Ok(_)) => self.next_is_known(),
            (OperationPurpose::Length { sequence }, Ok(_)) => {
                if let Some(segment) = self.segment_mut(sequence) {
                    segment.durable_bytes = segment.durable_bytes.max(segment.grown);
                    segment.is_measured = false;
                }
            }
            (OperationPurpose::Growth { sequence, before }, Err(error)) => {
                if let Some(segment) = self.segment_mut(sequence) {
                    segment.grown = segment.grown.min(before);
                }
                self.refused(c, error);
            }
            (OperationPurpose::Zeros, Err(_)) | (_, Ok(_)) => {}
        }
        Ok(())
    }

    fn segment_mut(&mut self, sequence: u64) -> Option<&mut Segment<P>> {
        let next = match &mut self.next {
            NextSegment::Bare(next) | NextSegment::Naming(next, _) | NextSegment::Known(next) => Some(next),
            NextSegment::None | NextSegment::Opening => None,
        };
        next.into_iter().chain(self.segment.as_mut()).find(|segment| segment.sequence == sequence)
    }

    /// Records a refusal of the operating system.
    fn refused(&mut self, c: P::Core, error: FileError) {
        self.refusal = Some((P::now(c).plus(AGAIN_NANOS), error));
    }

    /// Returns true if it is too early to repeat a refused operation.
    fn rests(&self, c: P::Core) -> bool {
        self.refusal.as_ref().is_some_and(|(until, _)| P::now(c) < *until)
    }

    /// The next segment, of whose file only the length is known.
    fn opened(&mut self, file: P::File) -> Segment<P> {
        let used = self.reused.take().unwrap_or(0);
        let size = match used {
            0 => self.next_bytes,
            _ => self.segment_bytes,
        };
        let first = ALIGNMENT as u64;
        Segment {
            file,
            sequence: self.next_sequence,
            size,
            offset: first,
            grown: used.max(first),
            cleared: used.max(first),
            durable_bytes: used.max(first),
            is_measured: false,
            reaches: 0,
            reached_bytes: 0,
        }
    }

    fn next_is_known(&mut self) {
        self.next = match std::mem::replace(&mut self.next, NextSegment::None) {
            NextSegment::Naming(mut next, false) => {
                next.durable_bytes = next.grown;
                self.known = next.sequence;
                self.refusal = None;
                NextSegment::Known(next)
            }
            NextSegment::Naming(next, true) => NextSegment::Bare(next),
            other => other,
        };
    }

    /// Advances the preparation of the next segment by one step, if a step is due. With
    /// `with_space` the segment's space is allocated at once.
    pub(crate) fn make_next(&mut self, c: P::Core, with_space: bool) -> Result<(), LogError> {
        if self.rests(c) {
            return Ok(());
        }
        match std::mem::replace(&mut self.next, NextSegment::None) {
            NextSegment::None => {
                let name = segment_name(self.number, self.next_sequence);
                let used = self.used.pop();
                let existence = if used.is_some() { Existence::Old } else { Existence::New };
                self.reused = used.as_ref().map(|(_, bytes)| *bytes);
                if let Some((from, _)) = used {
                    self.submit(c, Operation::Rename { from, to: name.clone() }, OperationPurpose::Open);
                }
                let open = Operation::Open { name, existence, access: self.access };
                self.submit(c, open, OperationPurpose::Open);
                self.next = NextSegment::Opening;
            }
            NextSegment::Bare(mut next) => {
                let header = self.header(next.sequence);
                let mut buffer = self.small_buffer(c)?;
                header.store(buffer.writable(c, 0, ALIGNMENT));
                buffer.set_len(ALIGNMENT);
                let file = next.file.clone();
                let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
                self.submit(c, write, OperationPurpose::Head);
                if with_space && next.grown < next.size {
                    let purpose = OperationPurpose::Growth { sequence: next.sequence, before: next.grown };
                    next.grown = next.size;
                    self.submit(c, Operation::Preallocate { file: file.clone(), bytes: next.size }, purpose);
                }
                self.submit(c, Operation::Flush { file }, OperationPurpose::Flush);
                self.submit(c, Operation::FlushDirectory, OperationPurpose::Name);
                self.next = NextSegment::Naming(next, false);
            }
            other => self.next = other,
        }
        Ok(())
    }

    /// The header of this segment.
    pub(crate) fn header(&self, sequence: u64) -> SegmentHeader {
        SegmentHeader { stream: self.number, sequence, ..self.origin }
    }

    /// Waits until the next segment is known; false if the operating system refuses it for now.
    fn wait_for_next(&mut self, c: P::Core, with_space: bool) -> Result<bool, LogError> {
        loop {
            self.make_next(c, with_space)?;
            match self.next {
                NextSegment::Known(_) => return Ok(true),
                NextSegment::None | NextSegment::Bare(_) if self.rests(c) => return Ok(false),
                _ => {}
            }
            // The machine stops where nothing is under way: an error comes out of the next
            // operation.
            if !self.wait(c, None) {
                return Err(FileError::stopped().into());
            }
            self.reap(c)?;
        }
    }

    /// Makes the first segment, which is known when this returns.
    ///
    /// # Errors
    /// The files refuse.
    pub(crate) fn begin(&mut self, c: P::Core) -> Result<(), LogError> {
        if !self.wait_for_next(c, true)? {
            return Err(self.refusal.take().map_or_else(FileError::stopped, |(_, error)| error).into());
        }
        self.take_next(c);
        Ok(())
    }

    /// Makes the next segment, which is known, the current one.
    fn take_next(&mut self, c: P::Core) {
        match std::mem::replace(&mut self.next, NextSegment::None) {
            NextSegment::Known(mut next) => {
                if next.grown < next.size {
                    let purpose = OperationPurpose::Growth { sequence: next.sequence, before: next.grown };
                    next.grown = next.size;
                    let grow = Operation::Preallocate { file: next.file.clone(), bytes: next.size };
                    self.submit(c, grow, purpose);
                }
                if let Some(Segment { sequence, size, grown, offset, .. }) = &self.segment {
                    self.done.push((*sequence, (*size).min(*grown).max(*offset)));
                }
                self.next_sequence = next.sequence + 1;
                self.next_bytes = (self.next_bytes * 2).min(self.segment_bytes);
                self.segment = Some(next);
            }
            other => self.next = other,
        }
    }

    /// Continues in the next segment; returns false, and changes nothing, if no segment is
    /// available. The current segment names the next one. Everything in it is durable before the
    /// next segment has a block, and that block states it: a missing end is damage.
    pub(crate) fn roll(&mut self, c: P::Core, complete: u64) -> Result<bool, LogError> {
        // A group that is longer than its segment: the first block of it may not be durable yet.
        if matches!(self.next, NextSegment::None) {
            self.flush_current(c);
            self.wait_for_blocks(c)?;
        }
        if !self.wait_for_next(c, false)? {
            return Ok(false);
        }
        self.wait_for_length(c)?;
        let written = self.segment.as_ref().map(|segment| (segment.reaches, segment.reached_bytes));
        let known = match &self.next {
            NextSegment::Known(next) => (self.known, next.durable_bytes),
            _ => (self.known, 0),
        };
        if written.is_some_and(|written| written < known) {
            self.write_mark(c, complete)?;
        }
        self.flush_current(c);
        self.wait_for_blocks(c)?;
        self.take_next(c);
        Ok(true)
    }

    /// Waits until all blocks are durable, after a flush of the last of them was submitted.
    fn wait_for_blocks(&mut self, c: P::Core) -> Result<(), LogError> {
        while !self.is_idle() {
            if !self.wait(c, None) {
                return Err(FileError::stopped().into());
            }
            self.reap(c)?;
        }
        self.flushed();
        Ok(())
    }

    /// Takes the rest of the next segment's space, and waits until its length is durable; not for
    /// what is refused.
    fn wait_for_length(&mut self, c: P::Core) -> Result<(), LogError> {
        self.grow_next(c, u64::MAX);
        // To the end, also where the space was refused: the length must not be taken for that of
        // space that is requested later.
        while matches!(&self.next, NextSegment::Known(next) if next.is_measured) {
            if !self.wait(c, None) {
                return Err(FileError::stopped().into());
            }
            self.reap(c)?;
        }
        Ok(())
    }

    /// Takes space for the next segment up to this length, a step at least; its length is made
    /// durable when all is there.
    fn grow_next(&mut self, c: P::Core, bytes: u64) {
        if self.rests(c) {
            return;
        }
        let NextSegment::Known(next) = &mut self.next else { return };
        if next.is_measured || next.grown >= next.size.min(bytes) {
            return;
        }
        let step = next.size.div_ceil(GROWTH_STEPS).next_multiple_of(ALIGNMENT as u64);
        let (sequence, before) = (next.sequence, next.grown);
        next.grown = (before + step).max(bytes.min(next.size).next_multiple_of(step)).min(next.size);
        let (file, bytes, is_all) = (next.file.clone(), next.grown, next.grown == next.size);
        next.is_measured = is_all;
        let grow = Operation::Preallocate { file: file.clone(), bytes };
        self.submit(c, grow, OperationPurpose::Growth { sequence, before });
        if is_all {
            self.submit(c, Operation::Flush { file }, OperationPurpose::Length { sequence });
        }
    }

    fn flush_current(&mut self, c: P::Core) {
        if let Some(Segment { file, .. }) = &self.segment {
            let file = file.clone();
            self.submit(c, Operation::Flush { file }, OperationPurpose::Group);
        }
    }

    /// Behind a group: makes the next segment when it is time, and takes a step of its space.
    pub(crate) fn prepare_next(&mut self, c: P::Core) -> Result<(), LogError> {
        let Some((offset, size)) = self.segment.as_ref().map(|segment| (segment.offset, segment.size)) else {
            return Ok(());
        };
        if offset < size / MADE_AT {
            return Ok(());
        }
        self.make_next(c, false)?;
        // All of it is there when three quarters of the current one are used.
        let behind = offset.saturating_sub(size / GROWN_AT);
        let next_bytes = match &self.next {
            NextSegment::Known(next) => next.size,
            _ => 0,
        };
        if behind > 0 {
            self.grow_next(c, next_bytes / (size / GROWN_AT / 2).max(1) * behind);
        }
        Ok(())
    }
}
