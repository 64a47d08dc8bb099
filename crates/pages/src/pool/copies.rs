//! Copies of pages on their way to the file, while the pages stay in the pool: what checkpoints and
//! write-back are made of.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use platform::files::{Buffer, FileError, Files, Operation};
use storage::latch::VersionLatch;
use terms::Fault;

use super::frames::{Frame, FrameId, LATCH, LatchedPage, PAGE, ReadPage, WRITING};
use super::store::Store;
use crate::error::PagedError;
use crate::lsn::Lsn;

/// A copy on its way.
struct Copy {
    frame: FrameId,
    version: u64,
    number: u64,
    lsn: Lsn,
}

/// Outcome for a page that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// A copy is on its way, or there is nothing to write.
    Done,
    /// A copy of an earlier version is on its way: not now.
    WasUnderWay,
    /// Another worker has the page latched, or the log does not have its last change yet: not now.
    NotNow,
}

/// Copies that go to the file with one operation: neighbours.
struct Run<P: Files> {
    copies: Vec<Copy>,
    /// Empty once the operation is under way.
    buffers: Vec<Buffer<P>>,
}

/// Sends copies of changed pages to the file.
pub(crate) struct Copies<P: Files> {
    /// There when something was sent.
    queue: Option<P::Queue>,
    buffers: Vec<Buffer<P>>,
    /// Copies under way at a time, at most.
    most: usize,
    /// Pages of one operation, at most.
    run_max: usize,
    /// Neighbours that are gathered: their operation begins with [`Self::submit`].
    gathered: Option<Run<P>>,
    /// Runs in the order of submission.
    under_way: VecDeque<Run<P>>,
    /// Copies that are gathered or under way.
    count: usize,
}

impl<P: Files> Copies<P> {
    /// No copies in flight, and never more than `most`.
    pub(crate) fn new(most: usize) -> Self {
        Copies::in_runs(most, 1)
    }

    /// The same with runs: consecutive neighbours are sent with one operation, up to `run_max`,
    /// which the sender [submits](Self::submit) in the end.
    pub(crate) fn in_runs(most: usize, run_max: usize) -> Self {
        let under_way = VecDeque::new();
        Copies { queue: None, buffers: Vec::new(), most, run_max, gathered: None, under_way, count: 0 }
    }

    /// Returns true if nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.count == 0
    }

    /// Returns true if another copy can be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.count < self.most
    }

    /// Sends a copy of what a frame holds, if that has changed since it was written. With `waits`,
    /// also for the page's latch, and for the log to have its last change.
    ///
    /// Pre: there is room.
    pub(crate) fn send(
        &mut self,
        c: P::Core,
        store: &Store<P>,
        id: FrameId,
        waits: bool,
    ) -> Result<SendOutcome, PagedError> {
        let Some(file) = &store.file else { return Ok(SendOutcome::Done) };
        let frame = store.frame(id);
        // A frame without a page may stay latched: it is reserved for a page that has no changes
        // yet. A thread that has a page latched may have logged a change already, which is seen
        // only then. Acquire: a page whose change was logged before is seen.
        if P::load(c, &frame.header[PAGE], Ordering::Acquire) == 0 {
            return Ok(SendOutcome::Done);
        }
        let Some(held) = (if waits { latch(c, frame) } else { try_latch(c, frame) }) else {
            return Ok(SendOutcome::NotNow);
        };
        if held.number == 0 || !frame.has_changed(c, held.version) {
            held.unchanged(c);
            return Ok(SendOutcome::Done);
        }
        // Acquire: pairs with the release of the thread that has written the page before.
        if P::load(c, &frame.header[WRITING], Ordering::Acquire) != 0 {
            held.unchanged(c);
            return Ok(SendOutcome::WasUnderWay);
        }
        let lsn = held.page(1).lsn();
        if let Some(log) = store.log.as_ref().filter(|_| !store.faults.has(Fault::PagesBeforeLog))
            && log.buffer.durable(c) < lsn
        {
            let waited = match waits {
                true => log.wait(c, lsn, None),
                // A transaction may change more pages than there are frames: no other thread has
                // the log written meanwhile.
                false => Ok(log.tend(c, P::now(c)) && log.buffer.durable(c) >= lsn),
            };
            if !matches!(waited, Ok(true)) {
                held.unchanged(c);
                return waited.map(|_| SendOutcome::NotNow);
            }
        }
        let copied = self.copy(c, store, &held);
        let (version, number) = (held.version, held.number);
        if copied.is_ok() {
            // Relaxed: the latch orders it.
            P::store(c, &frame.header[WRITING], 1, Ordering::Relaxed);
        }
        held.unchanged(c);
        let mut buffer = copied?;
        file.seal(buffer.writable(c, 0, store.page_words * 8));
        buffer.set_len(store.page_words * 8);
        let is_next = |run: &Run<P>| run.copies.last().is_some_and(|last| last.number + 1 == number);
        if !self.gathered.as_ref().is_some_and(is_next) {
            self.submit(c, store);
        }
        let run = self.gathered.get_or_insert_with(|| Run { copies: Vec::new(), buffers: Vec::new() });
        run.copies.push(Copy { frame: id, version, number, lsn });
        run.buffers.push(buffer);
        // Pages that do not fill their blocks are no neighbours.
        let is_full = run.copies.len() >= self.run_max || file.stride() != store.page_words * 8;
        self.count += 1;
        if is_full {
            self.submit(c, store);
        }
        Ok(SendOutcome::Done)
    }

    /// Begins the operation of what is gathered.
    pub(crate) fn submit(&mut self, c: P::Core, store: &Store<P>) {
        let (Some(file), Some(mut run)) = (&store.file, self.gathered.take()) else { return };
        let (offset, buffers) = (file.offset(run.copies[0].number), std::mem::take(&mut run.buffers));
        let write = Operation::Write { file: file.handle(), offset, buffers };
        P::submit(c, self.queue.as_mut().expect("made for the copy"), write);
        self.under_way.push_back(run);
    }

    /// A copy of a latched page.
    fn copy(
        &mut self,
        c: P::Core,
        store: &Store<P>,
        held: &LatchedPage<'_, P>,
    ) -> Result<Buffer<P>, PagedError> {
        self.queue(c, store)?;
        let mut buffer = match self.buffers.pop() {
            Some(buffer) => buffer,
            None => Buffer::new(c, None, store.page_words * 8, "copies of pages")?,
        };
        let bytes = buffer.writable(c, 0, store.page_words * 8);
        P::read_words(c, held.frame.words, bytemuck::cast_slice_mut(bytes));
        Ok(buffer)
    }

    /// Takes back what has been written; with `waits`, waits for something first. Needs no latch of
    /// a page.
    pub(crate) fn land(&mut self, c: P::Core, store: &Store<P>, waits: bool) -> Result<(), PagedError> {
        if waits {
            self.submit(c, store);
        }
        if self.under_way.is_empty() {
            return Ok(());
        }
        let queue = self.queue.as_mut().expect("something is under way");
        if waits {
            P::wait(c, queue, None);
        }
        while let Some(completion) = P::take(c, queue) {
            self.buffers.extend(completion.buffers);
            let Some(run) = self.under_way.pop_front() else { continue };
            self.count -= run.copies.len();
            for copy in run.copies {
                let frame = store.frame(copy.frame);
                if completion.result.is_ok() {
                    store.has_written(c, copy.number, copy.lsn);
                    frame.is_filed(c, copy.version);
                }
                // Release: pairs with the acquire of the thread that writes the page next, or lets
                // it go.
                P::store(c, &frame.header[WRITING], 0, Ordering::Release);
            }
            completion.result?;
        }
        Ok(())
    }

    /// Waits until nothing is under way.
    pub(crate) fn land_all(&mut self, c: P::Core, store: &Store<P>) -> Result<(), PagedError> {
        while !self.is_idle() {
            self.land(c, store, true)?;
        }
        Ok(())
    }

    /// Makes durable what the file has been given, by whomever. After a failure nothing is known of
    /// what was given.
    pub(crate) fn flush(&mut self, c: P::Core, store: &Store<P>) -> Result<(), PagedError> {
        let Some(file) = &store.file else { return Ok(()) };
        debug_assert!(self.is_idle(), "copies are under way");
        let flush = Operation::Flush { file: file.handle() };
        Ok(P::perform(c, self.queue(c, store)?, flush).result.map(drop)?)
    }

    /// The queue, while nothing is under way.
    pub(crate) fn queue(&mut self, c: P::Core, store: &Store<P>) -> Result<&mut P::Queue, PagedError> {
        if self.queue.is_none() {
            let file = store.file.as_ref().ok_or_else(FileError::stopped)?;
            self.queue = Some(file.queue(c)?);
        }
        Ok(self.queue.as_mut().expect("made above"))
    }
}

/// Latches a frame with any page; number 0: none.
fn latch<P: Files>(c: P::Core, frame: Frame<'_, P>) -> Option<LatchedPage<'_, P>> {
    loop {
        let version = frame.latch().read_begin(c).ok()?;
        if let Some(held) = latch_at(c, frame, version) {
            return Some(held);
        }
    }
}

/// Latches a frame unless it is latched.
fn try_latch<P: Files>(c: P::Core, frame: Frame<'_, P>) -> Option<LatchedPage<'_, P>> {
    // Acquire: pairs with the release of the last holder.
    let version = P::load(c, &frame.header[LATCH], Ordering::Acquire);
    if VersionLatch::<P>::is_latched(version) { None } else { latch_at(c, frame, version) }
}

fn latch_at<P: Files>(c: P::Core, frame: Frame<'_, P>, version: u64) -> Option<LatchedPage<'_, P>> {
    // Relaxed: after the version, which is an acquire.
    let number = P::load(c, &frame.header[PAGE], Ordering::Relaxed);
    (ReadPage { frame, version, number }).latch(c)
}
