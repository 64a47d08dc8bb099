//! Copies of pages on their way to the file, while the pages stay in the pool: what checkpoints and write-back are made of.

use std::sync::atomic::Ordering;

use platform::files::{Buffer, Files, Operation};

use super::{DIRTY, Frame, FrameId, Held, PAGE, Pool, Read, WRITING};
use crate::lsn::Lsn;
use crate::options::PagedError;
use crate::page;

/// Pages on their way at a time.
pub(crate) const COPIES: usize = 16;

/// A copy on its way.
struct Copy {
    frame: FrameId,
    version: u64,
    number: u64,
    lsn: Lsn,
}

/// Sends copies of changed pages to the file.
pub(crate) struct Copies<P: Files> {
    queue: P::Queue,
    buffers: Vec<Buffer<P>>,
    /// In the order of submission.
    under_way: std::collections::VecDeque<Copy>,
}

impl<P: Files> Copies<P> {
    /// None under way.
    pub(crate) fn new(c: P::Core, pool: &Pool<P>) -> Result<Option<Self>, PagedError> {
        let Some(file) = &pool.file else { return Ok(None) };
        let queue = file.queue(c)?;
        let buffer = |_| Buffer::new(c, None, pool.page_words * 8, "copies of pages");
        let buffers = (0..COPIES).map(buffer).collect::<Result<_, _>>()?;
        Ok(Some(Copies { queue, buffers, under_way: std::collections::VecDeque::new() }))
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether another copy can be sent.
    pub(crate) fn has_room(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// Sends a copy of what a frame holds, if that has changed since it was written. The log has all of its changes already, or is written
    /// now.
    pub(crate) fn send(&mut self, c: P::Core, pool: &Pool<P>, frame: FrameId) -> Result<(), PagedError> {
        let (Some(file), Some(_)) = (&pool.file, self.buffers.last()) else { return Ok(()) };
        let found = pool.frame(frame);
        // A frame without a page may stay latched: it is reserved for a page that has no changes yet. Whoever has a page latched may have
        // logged a change already, and says only then that the page has changed.
        // Acquire: a page whose change was logged before is seen.
        let is_empty = P::load(c, &found.header[PAGE], Ordering::Acquire) == 0;
        if is_empty || found.latch().read_begin(c).is_err() {
            return Ok(());
        }
        if P::load(c, &found.header[DIRTY], Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let Some(held) = latch(c, found) else { return Ok(()) };
        // Relaxed, both: the latch orders them.
        let is_wanted = held.number != 0 && P::load(c, &found.header[DIRTY], Ordering::Relaxed) != 0;
        if !is_wanted || P::load(c, &found.header[WRITING], Ordering::Relaxed) != 0 {
            held.unchanged(c);
            return Ok(());
        }
        let lsn = held.page(1).lsn();
        if let Some(log) = pool.log.as_ref().filter(|_| !pool.broken.log_first)
            && let Err(error) = log.wait(c, lsn, None)
        {
            held.unchanged(c);
            return Err(error);
        }
        let mut buffer = self.buffers.pop().expect("looked at above");
        let bytes = buffer.writable(c, 0, pool.page_words * 8);
        P::read_words(c, found.words, bytemuck::cast_slice_mut(bytes));
        P::store(c, &found.header[WRITING], 1, Ordering::Relaxed);
        let (version, number) = (held.version, held.number);
        held.unchanged(c);
        page::seal(bytes);
        buffer.set_len(pool.page_words * 8);
        let write =
            Operation::Write { file: file.handle(), offset: file.offset(number), buffers: vec![buffer] };
        P::submit(c, &mut self.queue, write);
        self.under_way.push_back(Copy { frame, version, number, lsn });
        Ok(())
    }

    /// Takes back what has been written; with `waits`, waits for something first.
    pub(crate) fn land(&mut self, c: P::Core, pool: &Pool<P>, waits: bool) -> Result<(), PagedError> {
        if waits && !self.under_way.is_empty() {
            P::wait(c, &mut self.queue, None);
        }
        while let Some(completion) = P::take(c, &mut self.queue) {
            self.buffers.extend(completion.buffers);
            let Some(copy) = self.under_way.pop_front() else { continue };
            self.end(c, pool, &copy, completion.result.is_ok());
            completion.result?;
        }
        Ok(())
    }

    fn end(&self, c: P::Core, pool: &Pool<P>, copy: &Copy, is_written: bool) {
        let frame = pool.frame(copy.frame);
        let Some(held) = latch(c, frame) else { return };
        // Relaxed, all: the latch orders them.
        P::store(c, &frame.header[WRITING], 0, Ordering::Relaxed);
        if is_written {
            pool.has_written(c, copy.number, copy.lsn);
            if held.version == copy.version {
                P::store(c, &frame.header[DIRTY], 0, Ordering::Relaxed);
            }
        }
        held.unchanged(c);
    }

    /// Makes durable what the file has been given, by whomever. After a failure nothing is known of what was given.
    pub(crate) fn flush(&mut self, c: P::Core, pool: &Pool<P>) -> Result<(), PagedError> {
        let Some(file) = &pool.file else { return Ok(()) };
        debug_assert!(self.is_idle(), "copies are under way");
        let flush = Operation::Flush { file: file.handle() };
        Ok(P::perform(c, &mut self.queue, flush).result.map(drop)?)
    }

    /// The queue, while nothing is under way.
    pub(crate) fn queue(&mut self) -> &mut P::Queue {
        &mut self.queue
    }
}

/// Latches a frame, whatever it holds; number 0: nothing.
fn latch<P: Files>(c: P::Core, frame: Frame<'_, P>) -> Option<Held<'_, P>> {
    loop {
        let version = frame.latch().read_begin(c).ok()?;
        // Relaxed: after the version, which is an acquire.
        let number = P::load(c, &frame.header[PAGE], Ordering::Relaxed);
        if let Some(held) = (Read { frame, version, number }).latch(c) {
            return Some(held);
        }
    }
}

impl<P: Files> Pool<P> {
    /// The frame of this number, of [`Self::frames`].
    pub(crate) fn frame_id(&self, number: usize) -> FrameId {
        FrameId::new(number / self.frames_per_part, number % self.frames_per_part)
    }
}
