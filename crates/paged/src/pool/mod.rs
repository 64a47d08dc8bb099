//! The buffer pool: frames, which pages they hold, and how pages come and go.
//!
//! - **Frames** lie in parts, one a memory node. A frame has a header of a line (version latch, number of its page, marks) and
//!   the words of its page. Frames stay where they are as long as the pool lives, so a racing reader never reads outside of one.
//! - **Translation**: a word a page, which names the frame that has the page, or none. A hit reads that word, and
//!   the frame's header; it writes nothing, unless the frame was marked to leave: then it takes the mark away.
//! - **Eviction** is second chance: a hand goes round, marks what is not marked, and takes what still is. A page that has changed
//!   is written before it leaves. Nobody waits for a latch here, so whoever needs a frame may hold latches.
//! - **The log comes first**: a page is written when the record of its last change is on disk. The hand passes over pages whose records are
//!   not, and waits for the log only if it finds no others.
//! - **Write-back**: who copies a page to write it without taking it out says so in the frame ([`WRITING`]). Until that write has ended,
//!   the page neither leaves nor is freed, so two writes of one page never overtake each other.
//! - **Bounds**: a worker that finds no frame in [`ROUNDS`] rounds gets an error. No latch is held from verb to verb, so no
//!   transaction keeps pages in the pool; sessions have [`crate::FRAMES_PER_SESSION`] frames at most at one moment.
//!
//! Concurrency: whoever has a frame latched owns its header and page. The word of a page in the translation is changed from none by
//! whoever has latched the frame that it will name, by compare and swap, and to none by whoever has latched the frame that it names.
//! A reader takes the frame's version before it looks whether the frame has the wanted page, and validates it after all that it has
//! read. Source of the version latch: see [`storage::latch`]; of the second chance without writes at hits: Leis et al.,
//! "Virtual-Memory Assisted Buffer Management", SIGMOD 2023, section 3.

mod ahead;
mod copies;
mod records;
mod restored;

pub(crate) use ahead::Role;
pub(crate) use copies::Copies;

use std::sync::atomic::Ordering;

use platform::files::Files;
use platform::{LINE_BYTES, Node, Platform, RegionBytes};
use storage::latch::VersionLatch;
use storage::{Latched, MemoryUse};

use crate::channel::{Channel, PageFile};
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::{Broken, PagedError, PagedOptions};
use crate::page::Page;

/// Rounds that the hand goes for one frame: one to mark, one to take, and more because others take too.
const ROUNDS: usize = 6;
/// Rounds in which pages stay whose records are not on disk.
const PATIENT_ROUNDS: usize = 3;

/// What is known of a page: it is free, or in use and was not written; larger: where the record of its last change ended when it was
/// written.
const FREE: u64 = 0;
const IN_USE: u64 = 1;

const LATCH: usize = 0;
const PAGE: usize = 1;
const DIRTY: usize = 2;
const MARK: usize = 3;
/// 1 while a copy of the page is on its way to the file.
const WRITING: usize = 4;
const HEADER_WORDS: usize = LINE_BYTES / 8;

/// Frames on one node.
struct Part<P: Platform> {
    headers: P::Region,
    pages: P::Region,
}

/// Frames and what they hold.
pub(crate) struct Pool<P: Files> {
    parts: Vec<Part<P>>,
    frames_per_part: usize,
    page_words: usize,
    /// A word a page.
    translation: P::Region,
    pages_max: u64,
    /// A line each: the number of pages that were ever in use, and the hands of the parts.
    counters: P::Region,
    /// Numbers of pages that are free again.
    free_pages: Latched<P, Vec<u64>>,
    file: Option<PageFile<P>>,
    /// There with a log: a word a page, [`FREE`], [`IN_USE`], or what was written last.
    states: Option<P::Region>,
    log: Option<Log<P>>,
    broken: Broken,
}

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(u64);

impl FrameId {
    fn new(part: usize, index: usize) -> Self {
        FrameId((part as u64) << 32 | index as u64)
    }
}

/// A frame.
pub(crate) struct Frame<'p, P: Platform> {
    header: &'p [P::Word],
    words: &'p [P::Word],
    id: FrameId,
}

impl<P: Platform> Clone for Frame<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Frame<'_, P> {}

impl<'p, P: Platform> Frame<'p, P> {
    fn latch(self) -> &'p VersionLatch<P> {
        VersionLatch::from_word(&self.header[LATCH])
    }

    /// The frame's page, of a tree with keys of so many words.
    pub(crate) fn page(self, width: usize) -> Page<'p, P> {
        Page::new(self.words, width)
    }
}

/// A frame as it was found: what is read in it is valid while the frame has this version.
pub(crate) struct Read<'p, P: Platform> {
    pub frame: Frame<'p, P>,
    pub version: u64,
    pub number: u64,
}

impl<P: Platform> Clone for Read<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Read<'_, P> {}

impl<'p, P: Platform> Read<'p, P> {
    pub(crate) fn page(self, width: usize) -> Page<'p, P> {
        self.frame.page(width)
    }

    pub(crate) fn validate(self, c: P::Core) -> bool {
        self.frame.latch().validate(c, self.version)
    }

    /// Latches the page if it is as it was found.
    pub(crate) fn latch(self, c: P::Core) -> Option<Held<'p, P>> {
        let Read { frame, version, number } = self;
        frame.latch().try_upgrade(c, version).then_some(Held { frame, version, number })
    }
}

/// A latched page, or with number 0 a free frame. Whoever has it unlatches it.
#[must_use = "a latched page is unlatched"]
pub(crate) struct Held<'p, P: Platform> {
    frame: Frame<'p, P>,
    version: u64,
    pub number: u64,
}

impl<'p, P: Platform> Held<'p, P> {
    pub(crate) fn page(&self, width: usize) -> Page<'p, P> {
        self.frame.page(width)
    }

    /// The page as it was found.
    pub(crate) fn as_read(&self) -> Read<'p, P> {
        Read { frame: self.frame, version: self.version, number: self.number }
    }

    /// Unlatches a page that has changed; the page as its last holder left it.
    pub(crate) fn changed(self, c: P::Core) -> Read<'p, P> {
        let Held { frame, version, number } = self;
        // Relaxed: the latch orders it.
        P::store(c, &frame.header[DIRTY], 1, Ordering::Relaxed);
        let version = frame.latch().unlock_changed(c, version);
        Read { frame, version, number }
    }

    /// Unlatches a page in which nothing has changed, but which covers other keys now.
    pub(crate) fn unchanged_but_moved(self, c: P::Core) {
        self.frame.latch().unlock_changed(c, self.version);
    }

    /// Unlatches a page in which nothing has changed.
    pub(crate) fn unchanged(self, c: P::Core) {
        self.frame.latch().unlock_unchanged(c, self.version);
    }
}

/// What a worker has of the pool.
pub(crate) struct Worker<'p, P: Files> {
    pub c: P::Core,
    pub pool: &'p Pool<P>,
    /// Number of its window in the log.
    number: usize,
    part: usize,
    channel: Channel<P>,
    /// Free frames, latched: reserved for new pages.
    spare: Vec<Held<'p, P>>,
    /// Pages that are free again.
    free_pages: Vec<u64>,
    ahead: records::Ahead,
}

impl<P: Files> Pool<P> {
    /// An empty pool over this file, if there is one; changes are logged if there is a log.
    pub(crate) fn new(
        c: P::Core,
        options: &PagedOptions,
        (file, log): (Option<PageFile<P>>, Option<Log<P>>),
    ) -> Result<Self, PagedError> {
        options.check()?;
        let mut nodes: Vec<Option<Node>> = options.nodes.iter().copied().map(Some).collect();
        if nodes.is_empty() || options.frames() / nodes.len() < 2 {
            nodes = vec![None];
        }
        let frames_per_part = options.frames() / nodes.len();
        let part = |node: &Option<Node>| -> Result<Part<P>, PagedError> {
            let headers = P::region(c, *node, frames_per_part * LINE_BYTES, "headers of frames")?;
            let pages = P::region(c, *node, frames_per_part * options.page_bytes, "pages in frames")?;
            Ok(Part { headers, pages })
        };
        let parts = nodes.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let pages_max = options.pages_max.max(options.frames() as u64);
        let translation = P::region(c, None, (pages_max as usize + 1) * 8, "frames of pages")?;
        let counters = P::region(c, None, (1 + parts.len()) * 2 * LINE_BYTES, "counters of the pool")?;
        let states = match &log {
            Some(_) => Some(P::region(c, None, (pages_max as usize + 1) * 8, "states of pages")?),
            None => None,
        };
        let page_words = options.page_bytes / 8;
        let free_pages = Latched::new(c, "free pages", Vec::new())?;
        Ok(Pool {
            parts,
            frames_per_part,
            page_words,
            translation,
            pages_max,
            counters,
            free_pages,
            file,
            states,
            log,
            broken: options.broken,
        })
    }

    /// What a worker on this node uses the pool with.
    pub(crate) fn worker(&self, c: P::Core, number: usize) -> Worker<'_, P> {
        let part = number % self.parts.len();
        let (channel, spare, free_pages) = (Channel::new(), Vec::new(), Vec::new());
        let ahead = records::Ahead::default();
        Worker { c, pool: self, number, part, channel, spare, free_pages, ahead }
    }

    /// The rules that are broken.
    pub(crate) fn broken(&self) -> Broken {
        self.broken
    }

    /// The log, if changes are logged.
    pub(crate) fn log(&self) -> Option<&Log<P>> {
        self.log.as_ref()
    }

    /// What is known of a page.
    fn state(&self, number: u64) -> Option<&P::Word> {
        self.states.as_ref().map(|states| P::word_of(states, number as usize * 8))
    }

    /// What a page that comes from the file has been changed by, at least.
    fn oldest(&self, number: u64) -> Lsn {
        // What was written is on disk with everything that comes after; a page in no frame has no other writer.
        let state = self.state(number).map_or(FREE, P::peek);
        if state > IN_USE { Lsn(state) } else { Lsn(0) }
    }

    /// Words of a page.
    pub(crate) fn page_words(&self) -> usize {
        self.page_words
    }

    /// All frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames_per_part * self.parts.len()
    }

    /// How much memory and pages there are: what pages in use take in memory, and all that were ever used, wherever they are.
    pub(crate) fn memory_use(&self, c: P::Core) -> MemoryUse {
        let page_bytes = (self.page_words * 8) as u64;
        let pages = P::peek(self.next_page());
        let free = self.free_pages.with(c, |free| free.len() as u64);
        let used = (pages - free).min(self.frames() as u64) * page_bytes;
        MemoryUse { reserved: self.bytes(), touched: pages * page_bytes, used }
    }

    /// Bytes of frames.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| (part.pages.bytes() + part.headers.bytes()) as u64).sum()
    }

    /// A frame.
    #[inline]
    pub(crate) fn frame(&self, id: FrameId) -> Frame<'_, P> {
        let part = &self.parts[(id.0 >> 32) as usize];
        let index = (id.0 & 0xffff_ffff) as usize;
        assert!(index < self.frames_per_part, "no such frame");
        let header = P::words_of(&part.headers, index * LINE_BYTES, HEADER_WORDS);
        let words = P::words_of(&part.pages, index * self.page_words * 8, self.page_words);
        Frame { header, words, id }
    }

    fn place(&self, number: u64) -> &P::Word {
        P::word_of(&self.translation, number as usize * 8)
    }

    /// The file has a page as it is with this change.
    fn has_written(&self, c: P::Core, number: u64, lsn: Lsn) {
        if let Some(state) = self.state(number) {
            P::store(c, state, lsn.0.max(IN_USE), Ordering::Relaxed);
        }
    }

    fn next_page(&self) -> &P::Word {
        P::word_of(&self.counters, 0)
    }

    fn hand(&self, part: usize) -> &P::Word {
        P::word_of(&self.counters, (1 + part) * 2 * LINE_BYTES)
    }

    /// The frame that has the page, as far as one look tells.
    fn find(&self, c: P::Core, number: u64) -> Option<Frame<'_, P>> {
        if number > self.pages_max {
            return None;
        }
        // Acquire: pairs with the release of whoever put the page there.
        let word = P::load(c, self.place(number), Ordering::Acquire);
        (word != 0).then(|| self.frame(FrameId(word - 1)))
    }
}

impl<'p, P: Files> Worker<'p, P> {
    /// A page, which is brought into the pool if it is not there.
    ///
    /// The caller has validated where it has the number from: a page that is no page any more is an error.
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
        let Some(file) = &pool.file else {
            // Nothing leaves a pool without a file: the number is of a page that has been freed meanwhile.
            return Err(PagedError::PoolFull { frames: pool.frames() });
        };
        if number > pool.pages_max {
            return Err(PagedError::TooManyPages(pool.pages_max));
        }
        let held = self.take_frame()?;
        let name = held.frame.id.0 + 1;
        // AcqRel: publishes the latched frame.
        if P::cas(c, pool.place(number), 0, name, Ordering::AcqRel).is_err() {
            // Changed: whoever has read the page that was here must not find it valid.
            held.frame.latch().unlock_changed(c, held.version);
            return Ok(());
        }
        let read = self.channel.read(c, file, (number, pool.oldest(number)), held.frame.words);
        let Held { frame, version, .. } = held;
        // Relaxed: the latch orders them.
        let page = if read.is_ok() { number } else { 0 };
        P::store(c, &frame.header[PAGE], page, Ordering::Relaxed);
        P::store(c, &frame.header[DIRTY], 0, Ordering::Relaxed);
        P::store(c, &frame.header[MARK], 0, Ordering::Relaxed);
        if read.is_err() {
            P::store(c, pool.place(number), 0, Ordering::Release);
        }
        frame.latch().unlock_changed(c, version);
        read
    }

    /// Takes a free frame, or one whose page leaves. Frames that are reserved are not touched.
    #[cold]
    fn take_frame(&mut self) -> Result<Held<'p, P>, PagedError> {
        let (c, pool) = (self.c, self.pool);
        let parts = pool.parts.len();
        let home = self.part;
        for part in (0..parts).map(|step| (home + step) % parts) {
            for step in 0..ROUNDS * pool.frames_per_part {
                // Relaxed: only spreads who looks where.
                let turn = P::fetch_add(c, pool.hand(part), 1, Ordering::Relaxed);
                let frame = pool.frame(FrameId::new(part, turn as usize % pool.frames_per_part));
                let waits = step >= PATIENT_ROUNDS * pool.frames_per_part;
                if let Some(held) = self.try_take(frame, waits)? {
                    return Ok(held);
                }
            }
        }
        Err(PagedError::PoolFull { frames: pool.frames() })
    }

    /// Takes this frame, if its page can leave now; with `waits`, also if the log has to be written before.
    fn try_take(&mut self, frame: Frame<'p, P>, waits: bool) -> Result<Option<Held<'p, P>>, PagedError> {
        let (c, pool) = (self.c, self.pool);
        // Acquire: pairs with the release of the last holder.
        let version = P::load(c, &frame.header[LATCH], Ordering::Acquire);
        if VersionLatch::<P>::is_latched(version) {
            return Ok(None);
        }
        // Relaxed, all: guesses until the frame is latched at this version.
        let number = P::load(c, &frame.header[PAGE], Ordering::Relaxed);
        if number != 0 {
            if P::load(c, &frame.header[MARK], Ordering::Relaxed) == 0 {
                P::store(c, &frame.header[MARK], 1, Ordering::Relaxed);
                return Ok(None);
            }
            let stays = pool.file.is_none() && P::load(c, &frame.header[DIRTY], Ordering::Relaxed) != 0;
            if stays || P::load(c, &frame.header[WRITING], Ordering::Relaxed) != 0 {
                return Ok(None);
            }
        }
        let Some(held) = (Read { frame, version, number }).latch(c) else { return Ok(None) };
        if number != 0 {
            match self.write_back(&held, waits) {
                Ok(true) => {}
                Ok(false) => {
                    held.unchanged(c);
                    return Ok(None);
                }
                Err(error) => {
                    held.unchanged(c);
                    return Err(error);
                }
            }
            self.empty(&held);
        }
        Ok(Some(Held { number: 0, ..held }))
    }

    /// Has the file say what a latched page is like; false if the page has to stay for now.
    fn write_back(&mut self, held: &Held<'p, P>, waits: bool) -> Result<bool, PagedError> {
        let (c, pool, frame) = (self.c, self.pool, held.frame);
        // Relaxed, both: the latch orders them.
        if P::load(c, &frame.header[WRITING], Ordering::Relaxed) != 0 {
            return Ok(false);
        }
        if P::load(c, &frame.header[DIRTY], Ordering::Relaxed) == 0 {
            return Ok(true);
        }
        let Some(file) = &pool.file else { return Ok(false) };
        let lsn = held.page(1).lsn();
        if let Some(log) = &pool.log
            && log.buffer.durable(c) < lsn
            && !pool.broken.log_first
        {
            if !waits {
                return Ok(false);
            }
            log.wait(c, lsn, None)?;
        }
        self.channel.write(c, file, held.number, frame.words)?;
        pool.has_written(c, held.number, lsn);
        Ok(true)
    }

    /// Whether a copy of a latched page is on its way to the file: the page must not be freed.
    pub(crate) fn is_on_its_way(&self, held: &Held<'p, P>) -> bool {
        // Relaxed: the latch orders it.
        P::load(self.c, &held.frame.header[WRITING], Ordering::Relaxed) != 0
    }

    /// Forgets the page of a latched frame.
    fn empty(&self, held: &Held<'p, P>) {
        let c = self.c;
        // Relaxed: the latch orders them. Release: pairs with the acquire of whoever finds that the page is nowhere.
        P::store(c, &held.frame.header[PAGE], 0, Ordering::Relaxed);
        P::store(c, &held.frame.header[DIRTY], 0, Ordering::Relaxed);
        P::store(c, &held.frame.header[MARK], 0, Ordering::Relaxed);
        P::store(c, self.pool.place(held.number), 0, Ordering::Release);
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
        // Relaxed: only a number. Pages count from 1.
        let number = P::fetch_add(c, pool.next_page(), 1, Ordering::Relaxed) + 1;
        if number > pool.pages_max {
            return Err(PagedError::TooManyPages(pool.pages_max));
        }
        Ok(number)
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

    /// A hint of earlier: the frame has not changed since, as long as the result validates.
    pub(crate) fn hinted(&self, (id, version, number): (FrameId, u64, u64)) -> Read<'p, P> {
        Read { frame: self.pool.frame(id), version, number }
    }

    /// Where a page was found, for [`Self::hinted`].
    pub(crate) fn hint(read: &Read<'p, P>) -> (FrameId, u64, u64) {
        (read.frame.id, read.version, read.number)
    }
}

impl<P: Files> Drop for Worker<'_, P> {
    fn drop(&mut self) {
        if P::is_gone(self.c) {
            return;
        }
        for held in self.spare.drain(..) {
            held.frame.latch().unlock_changed(self.c, held.version);
        }
        let free = std::mem::take(&mut self.free_pages);
        if !free.is_empty() {
            self.pool.free_pages.with(self.c, |all| all.extend(free));
        }
    }
}
