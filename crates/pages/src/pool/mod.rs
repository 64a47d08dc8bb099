//! The buffer pool: frames, which pages they hold, and how pages come and go.
//!
//! - **Frames** lie in parts, one a memory node. A frame has a header of a line (version latch,
//!   number of its page, marks) and the words of its page. Frames stay where they are as long as
//!   the pool lives, so a racing reader never reads outside of one.
//! - **Translation**: a word a page, which names the frame that has the page, or none. A hit reads
//!   that word, and the frame's header; it writes nothing, unless the frame was marked to leave:
//!   then it takes the mark away.
//! - **Eviction** is second chance: a hand goes round, marks what is not marked, and takes what
//!   still is. A page that has changed is written before it leaves. Nobody waits for a latch of a
//!   page here, so whoever needs a frame may hold latches.
//! - **Cleaning**: copies of changed pages that the hand will come to are sent to the file ahead of
//!   it, several at a time.
//! - **The log comes first**: a page is written when the record of its last change is on disk. The
//!   hand passes over pages whose records are not, and waits for the log only if it finds no
//!   others.
//! - **Write-back**: who copies a page to write it without taking it out says so in the frame
//!   (`WRITING`). Until that write has ended, the page neither leaves nor is freed, so two writes
//!   of one page never overtake each other. Nobody needs a latch to say that it has: the frame
//!   remembers the version that was written (`FILED`).
//! - **Read-ahead**: scans say which leaves come next; a worker reads them into buffers of its own,
//!   several at a time (`read_ahead`, `reading`).
//! - **Bounds**: a worker that finds no frame in some rounds of the hand gets an error. No latch is
//!   held from verb to verb, so no transaction keeps pages in the pool; sessions have
//!   [`crate::FRAMES_PER_SESSION`] frames at most at one moment.
//!
//! Concurrency: whoever has a frame latched owns its header and page. The word of a page in the
//! translation is changed from none by whoever has latched the frame that it will name, by compare
//! and swap, and to none by whoever has latched the frame that it names. A reader takes the frame's
//! version before it looks whether the frame has the wanted page, and validates it after all that
//! it has read. Source of the version latch: see [`storage::latch`]; of the second chance without
//! writes at hits: Leis et al., "Virtual-Memory Assisted Buffer Management", SIGMOD 2023,
//! section 3.

mod ahead;
mod cleaning;
mod copies;
mod eviction;
mod frames;
mod lanes;
mod read_ahead;
mod reading;
mod records;
mod restored;
mod store;
mod worker;

pub(crate) use ahead::Role;
pub(crate) use copies::{Copies, Sent};
pub(crate) use frames::{FrameId, Held, Read};
pub(crate) use records::Writing;
pub(crate) use store::{FREE, IN_USE};
pub(crate) use worker::Worker;

use std::sync::atomic::Ordering;

use platform::LINE_BYTES;
use platform::files::Files;
use storage::{Latched, MemoryUse};

use crate::error::PagedError;
use crate::files::channel::PageFile;
use crate::log::Log;
use crate::options::{Broken, PagedOptions};
use frames::Frame;
use store::Store;

/// Frames and what they hold.
pub(crate) struct Pool<P: Files> {
    store: Store<P>,
    /// A word a page.
    translation: P::Region,
    /// A line each: the number of pages that were ever in use, and the hands of the parts.
    counters: P::Region,
    /// Numbers of pages that are free again.
    free_pages: Latched<P, Vec<u64>>,
    /// What sends copies of pages to the file before they leave; none where the pool is too small.
    cleaners: Vec<Latched<P, Copies<P>>>,
    sessions: usize,
}

impl<P: Files> Pool<P> {
    /// An empty pool over this file, if there is one; changes are logged if there is a log.
    pub(crate) fn new(
        c: P::Core,
        options: &PagedOptions,
        below: (Option<PageFile<P>>, Option<Log<P>>),
    ) -> Result<Self, PagedError> {
        let store = Store::new(c, options, below)?;
        let words = store.pages_max as usize + 1;
        let translation = P::region(c, None, words * 8, "frames of pages")?;
        let counters = P::region(c, None, (1 + store.parts()) * 2 * LINE_BYTES, "counters of the pool")?;
        let free_pages = Latched::new(c, "free pages", Vec::new())?;
        let cleaners = cleaning::cleaners(c, &store, options.sessions_max)?;
        Ok(Pool { store, translation, counters, free_pages, cleaners, sessions: options.sessions_max })
    }

    /// The rules that are broken.
    pub(crate) fn broken(&self) -> Broken {
        self.store.broken
    }

    /// The log, if changes are logged.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Log<P>> {
        self.store.log.as_ref()
    }

    /// Words of a page.
    #[inline]
    pub(crate) fn page_words(&self) -> usize {
        self.store.page_words
    }

    /// How much memory there is, and how much of it pages take: all that were ever used, and those
    /// in use, as far as there are frames.
    pub(crate) fn memory_use(&self, c: P::Core) -> MemoryUse {
        let page_bytes = (self.store.page_words * 8) as u64;
        let pages = P::peek(self.next_page());
        let free = self.free_pages.with(c, |free| free.len() as u64);
        let in_memory = |pages: u64| pages.min(self.store.frames() as u64) * page_bytes;
        MemoryUse { reserved: self.bytes(), touched: in_memory(pages), used: in_memory(pages - free) }
    }

    /// Bytes of frames.
    pub(crate) fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Pages that are made lie behind so many others.
    ///
    /// Pre: none was made.
    pub(crate) fn begin_behind(&self, c: P::Core, pages: u64) {
        P::store(c, self.next_page(), pages, Ordering::Relaxed);
    }

    /// Whether pages can leave.
    pub(crate) fn has_file(&self) -> bool {
        self.store.file.is_some()
    }

    /// Frames, and the file behind them.
    pub(crate) fn store(&self) -> &Store<P> {
        &self.store
    }

    #[inline]
    fn place(&self, number: u64) -> &P::Word {
        P::word_of(&self.translation, number as usize * 8)
    }

    fn next_page(&self) -> &P::Word {
        P::word_of(&self.counters, 0)
    }

    fn hand(&self, part: usize) -> &P::Word {
        P::word_of(&self.counters, (1 + part) * 2 * LINE_BYTES)
    }

    /// The frame that has the page, as far as one look tells.
    #[inline]
    fn find(&self, c: P::Core, number: u64) -> Option<Frame<'_, P>> {
        if number > self.store.pages_max {
            return None;
        }
        // Acquire: pairs with the release of whoever put the page there.
        let word = P::load(c, self.place(number), Ordering::Acquire);
        (word != 0).then(|| self.store.frame(FrameId(word - 1)))
    }
}
