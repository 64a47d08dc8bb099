//! A worker's operations on pages: it reads them, makes new ones, and frees them.

use std::sync::atomic::Ordering;

use concurrency::Meter;
use platform::Node;
use platform::files::Files;
use storage::latch::VersionLatch;

use super::Pool;
use super::frames::{Frame, LATCH, LatchedPage, MARK, PAGE, PINS, PageHint, ReadPage};
use super::read_ahead::ReadAhead;
use super::records::Ahead;
use crate::error::PagedError;
use crate::files::channel::{Channel, WantedPage};

/// Numbers of free pages that a worker keeps to itself: those of a split of the root.
const FREE_PAGES_KEPT: usize = 2;

/// A worker that waits for a latched frame checks after this time whether the page has moved.
const LATCHED_NANOS: u64 = 20_000;

/// Frames of a part ahead of its hand that were cleaned.
#[derive(Clone, Copy, Default)]
pub(super) struct CleanedFrames {
    pub part: usize,
    /// The turn of the hand that comes to the first frame behind them.
    pub until: u64,
}

/// A worker's access to the pool.
pub(crate) struct PoolWorker<'p, P: Files> {
    pub c: P::Core,
    pub pool: &'p Pool<P>,
    pub(super) number: usize,
    pub(super) part: usize,
    /// The frames that the worker has last cleaned.
    pub(super) cleaned: CleanedFrames,
    pub(super) channel: Channel<P>,
    pub(super) reads: ReadAhead<P>,
    /// Free frames, latched: reserved for new pages.
    spare: Vec<LatchedPage<'p, P>>,
    /// Pages that are free again.
    free_pages: Vec<u64>,
    pub(super) ahead: Ahead,
    /// The page that the worker has last latched to read it, where readers latch pages.
    latched: Option<Frame<'p, P>>,
    /// The breakdown of the time of the worker's session.
    pub meter: Meter,
}

impl<P: Files> Pool<P> {
    /// The page in the frame where it was found, once that is not latched; `None`: it may be
    /// elsewhere.
    ///
    /// A frame that was found may have been taken for a new page meanwhile
    /// ([`PoolWorker::reserve`]): then it is latched until that is made, and the worker that took
    /// it may keep it for any time. So a worker that waits for a latch checks repeatedly where the
    /// page is.
    #[inline]
    fn read_in<'p>(&self, c: P::Core, frame: Frame<'p, P>, number: u64) -> Option<ReadPage<'p, P>> {
        // Acquire: pairs with the release of the last holder: the page is at least as new as the
        // version.
        let mut version = P::load(c, &frame.header[LATCH], Ordering::Acquire);
        if VersionLatch::<P>::is_latched(version) {
            version = P::spin_while(c, &frame.header[LATCH], version, Some(P::now(c).plus(LATCHED_NANOS)));
        }
        // Relaxed: after the version, which is an acquire.
        let is_there = !VersionLatch::<P>::is_latched(version)
            && P::load(c, &frame.header[PAGE], Ordering::Relaxed) == number;
        is_there.then_some(ReadPage { frame, version, number })
    }

    /// The access of a worker.
    pub(crate) fn worker(&self, c: P::Core, number: usize) -> PoolWorker<'_, P> {
        self.worker_on(c, number, None)
    }

    /// The access of a worker on this node.
    pub(crate) fn worker_on(&self, c: P::Core, number: usize, node: Option<Node>) -> PoolWorker<'_, P> {
        let part = number % self.store.parts();
        let (channel, spare, free_pages) = (Channel::new(), Vec::new(), Vec::new());
        let reads = ReadAhead::new(&self.store, self.sessions);
        let writer = self.store.log.as_ref().map(|log| log.buffer.writer(number, node));
        let ahead = Ahead { writer: writer.unwrap_or_default(), ..Ahead::default() };
        let (cleaned, meter) = (CleanedFrames::default(), Meter::new(false));
        PoolWorker {
            c,
            pool: self,
            number,
            part,
            cleaned,
            channel,
            reads,
            spare,
            free_pages,
            ahead,
            latched: None,
            meter,
        }
    }
}

impl<'p, P: Files> PoolWorker<'p, P> {
    /// A page, which is loaded if it is not in the pool.
    ///
    /// The caller has validated where it has the number from: a page that is no page any more is an
    /// error.
    #[inline]
    pub(crate) fn read(&mut self, number: u64) -> Result<ReadPage<'p, P>, PagedError> {
        let (c, pool) = (self.c, self.pool);
        loop {
            let Some(frame) = pool.find(c, number) else {
                self.load(number)?;
                continue;
            };
            if let Some(read) = pool.read_in(c, frame, number) {
                // Relaxed: a mark that is lost or stays costs or saves a round of the hand.
                if P::load(c, &frame.header[MARK], Ordering::Relaxed) != 0 {
                    P::store(c, &frame.header[MARK], 0, Ordering::Relaxed);
                }
                self.fix(frame);
                return Ok(read);
            }
        }
    }

    /// Declares the fix of a page as another storage manager does it: the page is pinned and
    /// latched, and then the page before it is unlatched and unpinned (latch coupling).
    #[inline]
    fn fix(&mut self, frame: Frame<'p, P>) {
        let (c, pool) = (self.c, self.pool);
        P::instructions(c, pool.paths.page);
        if !pool.latches_reads {
            return;
        }
        if let Some(readers) = pool.store.readers(frame.id) {
            P::instructions(c, pool.paths.latch);
            P::fetch_add(c, &frame.header[PINS], 1, Ordering::AcqRel);
            P::fetch_add(c, readers, 1, Ordering::AcqRel);
            self.unlatch_read();
            self.latched = Some(frame);
        }
    }

    /// Unlatches the page that was last latched to read it.
    #[inline]
    pub(crate) fn unlatch_read(&mut self) {
        let Some(before) = self.latched.take() else { return };
        if let Some(readers) = self.pool.store.readers(before.id) {
            P::fetch_add(self.c, readers, u64::MAX, Ordering::AcqRel);
            P::fetch_add(self.c, &before.header[PINS], u64::MAX, Ordering::AcqRel);
        }
    }

    /// Loads a page into a free frame, unless another worker does.
    #[cold]
    fn load(&mut self, number: u64) -> Result<(), PagedError> {
        let (c, pool) = (self.c, self.pool);
        let Some(file) = &pool.store.file else {
            // Nothing leaves a pool without a file: the number is of a page that has been freed
            // meanwhile.
            return Err(PagedError::PoolFull { frames: pool.store.frames() });
        };
        if number > pool.store.pages_max {
            return Err(PagedError::TooManyPages(pool.store.pages_max));
        }
        let held = self.take_frame()?;
        let name = held.frame.id.0 + 1;
        // AcqRel: publishes the latched frame.
        if P::cas(c, pool.place(number), 0, name, Ordering::AcqRel).is_err() {
            // Changed: a thread that has read the page that was here must not find it valid.
            held.frame.latch().unlock_changed(c, held.version);
            return Ok(());
        }
        let (wanted, words) = (WantedPage { number, oldest: pool.store.oldest(number) }, held.frame.words);
        let is_ahead = |bytes: &[u8]| file.fill(c, wanted, bytes, words).is_ok();
        let read = match self.reads.take(c, &pool.store, number, is_ahead) {
            true => Ok(()),
            false => self.channel.read(c, file, wanted, words),
        };
        let LatchedPage { frame, version, .. } = held;
        // Relaxed: the latch orders them.
        let page = if read.is_ok() { number } else { 0 };
        P::store(c, &frame.header[PAGE], page, Ordering::Relaxed);
        P::store(c, &frame.header[MARK], 0, Ordering::Relaxed);
        if read.is_err() {
            P::store(c, pool.place(number), 0, Ordering::Release);
        }
        let version = frame.latch().unlock_changed(c, version);
        if read.is_ok() {
            frame.is_filed(c, version);
        }
        read
    }

    /// Takes the frames that [`Self::new_page`] will need, so that it needs no file while pages are
    /// latched.
    pub(crate) fn reserve(&mut self, pages: usize) -> Result<(), PagedError> {
        while self.spare.len() < pages {
            let held = self.take_frame()?;
            self.spare.push(held);
        }
        while self.free_pages.len() < pages {
            let number = self.new_number()?;
            self.free_pages.push(number);
        }
        Ok(())
    }

    fn new_number(&self) -> Result<u64, PagedError> {
        let (c, pool) = (self.c, self.pool);
        if let Some(number) = pool.free_pages.with(c, Vec::pop) {
            return Ok(number);
        }
        // Relaxed, all: only a number. Pages count from 1.
        let mut last = P::load(c, pool.next_page(), Ordering::Relaxed);
        while last < pool.store.pages_max {
            match P::cas(c, pool.next_page(), last, last + 1, Ordering::Relaxed) {
                Ok(_) => return Ok(last + 1),
                Err(now) => last = now,
            }
        }
        Err(PagedError::TooManyPages(pool.store.pages_max))
    }

    /// A new page, latched, with nothing in it.
    ///
    /// Pre: [`Self::reserve`] has reserved its frame.
    pub(crate) fn new_page(&mut self) -> LatchedPage<'p, P> {
        let (c, pool) = (self.c, self.pool);
        let number = self.free_pages.pop().expect("reserved");
        loop {
            if let Some(held) = self.spare.pop() {
                let name = held.frame.id.0 + 1;
                // AcqRel: publishes the latched frame.
                if P::cas(c, pool.place(number), 0, name, Ordering::AcqRel).is_ok() {
                    P::store(c, &held.frame.header[PAGE], number, Ordering::Relaxed);
                    return LatchedPage { number, ..held };
                }
                self.spare.push(held);
            }
            // A thread that had the number from before brings the old page in: that frame does as
            // well, once the page has come.
            if let Some(frame) = pool.find(c, number)
                && let Some(held) = pool.read_in(c, frame, number).and_then(|read| read.latch(c))
            {
                return held;
            }
        }
    }

    /// Frees a latched page that nothing leads to any more, and no copy of which is on its way.
    pub(crate) fn free_page(&mut self, held: LatchedPage<'p, P>) {
        self.empty(&held);
        self.free_pages.push(held.number);
        held.frame.latch().unlock_changed(self.c, held.version);
    }

    /// Gives numbers of free pages to all workers, but for those that a split needs.
    pub(crate) fn share_free_pages(&mut self) {
        if self.free_pages.len() > FREE_PAGES_KEPT {
            let others = self.free_pages.split_off(FREE_PAGES_KEPT);
            self.pool.free_pages.with(self.c, |all| all.extend(others));
        }
    }

    /// A hint of earlier: the frame has not changed since, as long as the result validates.
    #[inline]
    pub(crate) fn hinted(&self, hint: PageHint) -> ReadPage<'p, P> {
        let PageHint { frame, version, number } = hint;
        ReadPage { frame: self.pool.store.frame(frame), version, number }
    }

    /// The place of a page, for [`Self::hinted`].
    #[inline]
    pub(crate) fn hint(read: &ReadPage<'p, P>) -> PageHint {
        PageHint { frame: read.frame.id, version: read.version, number: read.number }
    }
}

impl<P: Files> Drop for PoolWorker<'_, P> {
    fn drop(&mut self) {
        if P::is_gone(self.c) {
            return;
        }
        self.unlatch_read();
        self.reads.end_scan(self.c, &self.pool.store);
        for held in self.spare.drain(..) {
            held.frame.latch().unlock_changed(self.c, held.version);
        }
        let free = std::mem::take(&mut self.free_pages);
        if !free.is_empty() {
            self.pool.free_pages.with(self.c, |all| all.extend(free));
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::{Nanos, Place, Platform};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;
    use crate::options::PagedOptions;

    /// A worker has found a page in a frame that another one takes for a new page before the first
    /// has read it, and then does not use. No worker waits for that frame.
    #[test]
    fn no_worker_waits_for_a_reserved_frame() {
        const NUMBER: u64 = 7;
        let places = [Place { thread: None }; 2];
        let config = Config { time_limit: Some(Nanos(1_000_000_000)), ..Config::new(Shape::new(1, 2, 1)) };
        let ran = VirtualMachine::run(&config, |c| {
            let options = PagedOptions::with_pool(8 << 20);
            let pool = Pool::<VirtualMachine>::new(c, &options, None, None).expect("a pool");
            let worker = |c, number: usize| {
                let mut worker = pool.worker(c, number);
                if number == 0 {
                    worker.reserve(1).expect("a frame");
                    let name = worker.spare[0].frame.id.0 + 1;
                    VirtualMachine::store(c, pool.place(NUMBER), name, Ordering::Release);
                    VirtualMachine::pause(c, 5 * LATCHED_NANOS);
                    VirtualMachine::store(c, pool.place(NUMBER), 0, Ordering::Release);
                    // Until the other one is through, which the end of this one would let go.
                    while VirtualMachine::load(c, pool.place(NUMBER + 1), Ordering::Acquire) == 0 {
                        VirtualMachine::pause(c, LATCHED_NANOS);
                    }
                } else {
                    VirtualMachine::pause(c, LATCHED_NANOS);
                    // A pool without a file cannot bring it in.
                    assert!(matches!(worker.read(NUMBER), Err(PagedError::PoolFull { .. })));
                    VirtualMachine::store(c, pool.place(NUMBER + 1), 1, Ordering::Release);
                }
            };
            VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
        });
        ran.expect("it ends");
    }
}
