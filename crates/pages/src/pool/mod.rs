//! The buffer pool: frames, translation of page numbers to frames, and eviction.
//!
//! - **Frames** lie in parts, one a memory node. A frame has a header of a line (version latch,
//!   number of its page, marks) and the words of its page. Frames do not move while the pool lives,
//!   so a racing reader never reads outside of one.
//! - **Translation**: a word a page, which names the frame that has the page, or none. A hit reads
//!   that word, and the frame's header; it writes nothing, unless the frame was marked for
//!   eviction: then it removes the mark.
//! - **Eviction** is second chance: a hand goes round, marks unmarked frames, and evicts the pages
//!   of frames that are still marked. A page that has changed is written before it is evicted.
//!   Eviction waits for no latch of a page, so a worker that needs a frame may hold latches.
//! - **Cleaning**: copies of changed pages ahead of the hand are sent to the file, several at a
//!   time.
//! - **Write-ahead**: a page is written when the record of its last change is on disk. The hand
//!   passes over pages whose records are not, and waits for the log only if it finds no others.
//! - **Write-back**: a worker that copies a page to write it without evicting it marks the frame
//!   (`WRITING`). Until that write has ended, the page is neither evicted nor freed, so two writes
//!   of one page never overtake each other. The end of a write needs no latch: the frame has the
//!   version that was written (`FILED`).
//! - **Read-ahead**: scans name the leaves that come next; a worker reads them into buffers of its
//!   own, several at a time (`read_ahead`, `reading`).
//! - **Bounds**: a worker that finds no frame in some rounds of the hand gets an error. No latch is
//!   held from verb to verb, so no transaction keeps pages in the pool; sessions have
//!   [`crate::FRAMES_PER_SESSION`] frames at most at one moment.
//!
//! Concurrency: the worker that has a frame latched owns its header and page. The word of a page in
//! the translation is changed from none with the frame latched that it will name, by compare and
//! swap, and to none with the frame latched that it names. A reader takes the frame's version
//! before it checks that the frame has the requested page, and validates it after all its reads.
//! Source of the version latch: see [`storage::latch`]; of the second chance without writes at
//! hits: Leis et al., "Virtual-Memory Assisted Buffer Management", SIGMOD 2023, section 3.

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
pub(crate) use copies::{Copies, SendOutcome};
pub(crate) use frames::{FrameId, LatchedPage, PageHint, ReadPage};
pub(crate) use records::Writing;
pub(crate) use store::{FREE, IN_USE};
pub(crate) use worker::PoolWorker;

use std::sync::atomic::Ordering;

use platform::LINE_BYTES;
use platform::files::Files;
use storage::{Latched, MemoryUse};

use crate::error::PagedError;
use crate::files::channel::PageFile;
use crate::log::Log;
use crate::options::PagedOptions;
use crate::paths::PathLengths;
use frames::Frame;
use store::Store;
use terms::Faults;

/// Frames and what they hold.
pub(crate) struct Pool<P: Files> {
    store: Store<P>,
    /// A word a page.
    translation: P::Region,
    /// A line each: the number of pages that were ever in use, and the hands of the parts.
    counters: P::Region,
    /// Numbers of pages that are free again.
    free_pages: Latched<P, Vec<u64>>,
    /// Cleaners, which send copies of pages to the file before the pages are evicted; none where
    /// the pool is too small.
    cleaners: Vec<Latched<P, Copies<P>>>,
    sessions: usize,
    paths: PathLengths,
    /// True if readers latch pages. Each read of a page checks it.
    latches_reads: bool,
}

impl<P: Files> Pool<P> {
    /// An empty pool over this file, if there is one; changes are logged if there is a log.
    pub(crate) fn new(
        c: P::Core,
        options: &PagedOptions,
        file: Option<PageFile<P>>,
        log: Option<Log<P>>,
    ) -> Result<Self, PagedError> {
        let store = Store::new(c, options, file, log)?;
        let words = store.pages_max as usize + 1;
        let translation = P::region(c, None, words * 8, "frames of pages")?;
        let counters = P::region(c, None, (1 + store.parts()) * 2 * LINE_BYTES, "counters of the pool")?;
        let free_pages = Latched::new(c, "free pages", Vec::new())?;
        let cleaners = cleaning::cleaners(c, &store, options.sessions_max)?;
        Ok(Pool {
            store,
            translation,
            counters,
            free_pages,
            cleaners,
            sessions: options.sessions_max,
            paths: options.paths,
            latches_reads: options.has_latched_reads(),
        })
    }

    /// Path lengths of another storage manager.
    #[inline]
    pub(crate) fn paths(&self) -> &PathLengths {
        &self.paths
    }

    /// The rules that are faults.
    pub(crate) fn faults(&self) -> Faults {
        self.store.faults
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

    /// Memory of the pool, and bytes of pages in it: all that were ever used, and those in use,
    /// limited to the frames.
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

    /// Numbers new pages from behind the first `pages`.
    ///
    /// Pre: none was made.
    pub(crate) fn begin_behind(&self, c: P::Core, pages: u64) {
        P::store(c, self.next_page(), pages, Ordering::Relaxed);
    }

    /// Returns true if pages can be evicted.
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

    /// The frame that has the page, at this moment.
    #[inline]
    fn find(&self, c: P::Core, number: u64) -> Option<Frame<'_, P>> {
        if number > self.store.pages_max {
            return None;
        }
        // Acquire: pairs with the release of the thread that put the page there.
        let word = P::load(c, self.place(number), Ordering::Acquire);
        (word != 0).then(|| self.store.frame(FrameId(word - 1)))
    }
}
