//! What a worker does with pages: it reads them, makes new ones, and frees them.

use std::sync::atomic::Ordering;

use platform::files::Files;

use super::Pool;
use super::frames::{FrameId, Held, MARK, PAGE, Read};
use super::read_ahead::ReadAhead;
use super::records::Ahead;
use crate::channel::Channel;
use crate::options::PagedError;

/// Numbers of free pages that a worker keeps to itself: those of a split of the root.
const FREE_PAGES_KEPT: usize = 2;

/// What a worker has of the pool.
pub(crate) struct Worker<'p, P: Files> {
    pub c: P::Core,
    pub pool: &'p Pool<P>,
    /// Number of its window in the log.
    pub(super) number: usize,
    pub(super) part: usize,
    /// Frames of which part were cleaned up to which turn of the hand.
    pub(super) looked: (usize, u64),
    pub(super) channel: Channel<P>,
    pub(super) reads: ReadAhead<P>,
    /// Free frames, latched: reserved for new pages.
    spare: Vec<Held<'p, P>>,
    /// Pages that are free again.
    free_pages: Vec<u64>,
    pub(super) ahead: Ahead,
}

impl<P: Files> Pool<P> {
    /// What a worker on this node uses the pool with.
    pub(crate) fn worker(&self, c: P::Core, number: usize) -> Worker<'_, P> {
        let part = number % self.store.parts();
        let (channel, spare, free_pages) = (Channel::new(), Vec::new(), Vec::new());
        let (ahead, reads) = (Ahead::default(), ReadAhead::new(&self.store, self.sessions));
        Worker { c, pool: self, number, part, looked: (0, 0), channel, reads, spare, free_pages, ahead }
    }
}

impl<'p, P: Files> Worker<'p, P> {
    /// A page, which is brought into the pool if it is not there.
    ///
    /// The caller has validated where it has the number from: a page that is no page any more is an error.
    #[inline]
    pub(crate) fn read(&mut self, number: u64) -> Result<Read<'p, P>, PagedError> {
        let (c, pool) = (self.c, self.pool);
        loop {
            let Some(frame) = pool.find(c, number) else {
                self.load(number)?;
                continue;
            };
            let Ok(version) = frame.latch().read_begin(c) else {
                unreachable!("frames are never unlinked");
            };
            // Relaxed: after the version, which is an acquire.
            if P::load(c, &frame.header[PAGE], Ordering::Relaxed) == number {
                // Relaxed: a mark that is lost or stays costs or saves a round of the hand.
                if P::load(c, &frame.header[MARK], Ordering::Relaxed) != 0 {
                    P::store(c, &frame.header[MARK], 0, Ordering::Relaxed);
                }
                return Ok(Read { frame, version, number });
            }
        }
    }

    /// Brings a page into a free frame, unless somebody else does.
    #[cold]
    fn load(&mut self, number: u64) -> Result<(), PagedError> {
        let (c, pool) = (self.c, self.pool);
        let Some(file) = &pool.store.file else {
            // Nothing leaves a pool without a file: the number is of a page that has been freed meanwhile.
            return Err(PagedError::PoolFull { frames: pool.store.frames() });
        };
        if number > pool.store.pages_max {
            return Err(PagedError::TooManyPages(pool.store.pages_max));
        }
        let held = self.take_frame()?;
        let name = held.frame.id.0 + 1;
        // AcqRel: publishes the latched frame.
        if P::cas(c, pool.place(number), 0, name, Ordering::AcqRel).is_err() {
            // Changed: whoever has read the page that was here must not find it valid.
            held.frame.latch().unlock_changed(c, held.version);
            return Ok(());
        }
        let (wanted, words) = ((number, pool.store.oldest(number)), held.frame.words);
        let is_ahead = |bytes: &[u8]| file.fill(c, wanted, (bytes, words)).is_ok();
        let read = match self.reads.take(c, &pool.store, number, is_ahead) {
            true => Ok(()),
            false => self.channel.read(c, file, wanted, words),
        };
        let Held { frame, version, .. } = held;
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

    /// Takes the frames that [`Self::new_page`] will need, so that it needs no file while pages are latched.
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
    /// Pre: [`Self::reserve`] was asked for it.
    pub(crate) fn new_page(&mut self) -> Held<'p, P> {
        let (c, pool) = (self.c, self.pool);
        let number = self.free_pages.pop().expect("reserved");
        loop {
            if let Some(held) = self.spare.pop() {
                let name = held.frame.id.0 + 1;
                // AcqRel: publishes the latched frame.
                if P::cas(c, pool.place(number), 0, name, Ordering::AcqRel).is_ok() {
                    P::store(c, &held.frame.header[PAGE], number, Ordering::Relaxed);
                    return Held { number, ..held };
                }
                self.spare.push(held);
            }
            // Somebody who had the number from before brings the old page in: that frame does as well, once the page has come.
            if let Some(frame) = pool.find(c, number)
                && let Ok(version) = frame.latch().read_begin(c)
                && P::load(c, &frame.header[PAGE], Ordering::Relaxed) == number
                && let Some(held) = (Read { frame, version, number }).latch(c)
            {
                return held;
            }
        }
    }

    /// Frees a latched page that nothing leads to any more, and no copy of which is on its way.
    pub(crate) fn free_page(&mut self, held: Held<'p, P>) {
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
    pub(crate) fn hinted(&self, (id, version, number): (FrameId, u64, u64)) -> Read<'p, P> {
        Read { frame: self.pool.store.frame(id), version, number }
    }

    /// Where a page was found, for [`Self::hinted`].
    #[inline]
    pub(crate) fn hint(read: &Read<'p, P>) -> (FrameId, u64, u64) {
        (read.frame.id, read.version, read.number)
    }
}

impl<P: Files> Drop for Worker<'_, P> {
    fn drop(&mut self) {
        if P::is_gone(self.c) {
            return;
        }
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
