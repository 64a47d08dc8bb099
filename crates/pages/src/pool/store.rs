//! Storage of pages: frames, and the file behind them.

use std::sync::atomic::Ordering;

use platform::files::Files;
use platform::{LINE_BYTES, Node, Platform, RegionBytes};
use storage::Latched;
use terms::{Fault, Faults};

use super::frames::{Frame, FrameId, HEADER_WORDS};
use super::lanes::Lanes;
use crate::error::PagedError;
use crate::files::channel::PageFile;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::PagedOptions;

/// The known state of a page: free, or in use and never written; larger: the end of the record of
/// its last change when it was written.
pub(crate) const FREE: u64 = 0;
pub(crate) const IN_USE: u64 = 1;

/// Frames on one node.
struct Part<P: Platform> {
    headers: P::Region,
    /// A line a frame, which counts the readers that have latched it; there if readers latch pages.
    readers: Option<P::Region>,
    pages: P::Region,
}

/// Frames, and the file behind them.
pub(crate) struct Store<P: Files> {
    parts: Vec<Part<P>>,
    pub(super) frames_per_part: usize,
    pub(super) page_words: usize,
    pub(super) pages_max: u64,
    pub(super) file: Option<PageFile<P>>,
    /// There with a log: a word a page, [`FREE`], [`IN_USE`], or what was written last.
    states: Option<P::Region>,
    pub(super) log: Option<Log<P>>,
    /// Words that count writes of pages, each those of some: what was read before a write does not
    /// count.
    written: P::Region,
    /// Lanes for read-ahead.
    pub(super) lanes: Latched<P, Lanes<P>>,
    pub(super) faults: Faults,
}

/// Words that count writes.
const COUNTERS: usize = 1 << 12;

impl<P: Files> Store<P> {
    /// Free frames over this file, if there is one.
    pub(super) fn new(
        c: P::Core,
        options: &PagedOptions,
        file: Option<PageFile<P>>,
        log: Option<Log<P>>,
    ) -> Result<Self, PagedError> {
        options.check()?;
        let mut nodes: Vec<Option<Node>> = options.nodes.iter().copied().map(Some).collect();
        if nodes.is_empty() || options.frames() / nodes.len() < 2 {
            nodes = vec![None];
        }
        let frames_per_part = options.frames() / nodes.len();
        let part = |node: &Option<Node>| -> Result<Part<P>, PagedError> {
            let headers = P::region(c, *node, frames_per_part * LINE_BYTES, "headers of frames")?;
            let readers = options
                .has_latched_reads()
                .then(|| P::region(c, *node, frames_per_part * LINE_BYTES, "latches of readers"))
                .transpose()?;
            let pages = P::region(c, *node, frames_per_part * options.page_bytes, "pages in frames")?;
            Ok(Part { headers, readers, pages })
        };
        let parts = nodes.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let pages_max = options.pages_max.max(options.frames() as u64);
        let states = match &log {
            Some(_) => Some(P::region(c, None, (pages_max as usize + 1) * 8, "states of pages")?),
            None => None,
        };
        let page_words = options.page_bytes / 8;
        let faults = options.faults;
        let written = P::region(c, None, COUNTERS * 8, "writes of pages")?;
        let lanes = Latched::new(c, "lanes of reads", Lanes::new())?;
        Ok(Store { parts, frames_per_part, page_words, pages_max, file, states, log, written, lanes, faults })
    }

    /// The known state of a page.
    pub(super) fn state(&self, number: u64) -> Option<&P::Word> {
        self.states.as_ref().map(|states| P::word_of(states, number as usize * 8))
    }

    /// A lower bound of the last change of a page read from the file.
    pub(super) fn oldest(&self, number: u64) -> Lsn {
        // What was written is on disk with everything that comes after; a page in no frame has no
        // other writer.
        let state = self.state(number).map_or(FREE, P::peek);
        if state > IN_USE { Lsn(state) } else { Lsn(0) }
    }

    /// Nodes that have frames.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// All frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames_per_part * self.parts.len()
    }

    /// The frame of this number, of [`Self::frames`].
    pub(crate) fn frame_id(&self, number: usize) -> FrameId {
        FrameId::new(number / self.frames_per_part, number % self.frames_per_part)
    }

    /// Bytes of frames.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| (part.pages.bytes() + part.headers.bytes()) as u64).sum()
    }

    /// A frame.
    #[inline]
    pub(super) fn frame(&self, id: FrameId) -> Frame<'_, P> {
        let part = &self.parts[(id.0 >> 32) as usize];
        let index = (id.0 & 0xffff_ffff) as usize;
        assert!(index < self.frames_per_part, "no such frame");
        let header = P::words_of(&part.headers, index * LINE_BYTES, HEADER_WORDS);
        let words = P::words_of(&part.pages, index * self.page_words * 8, self.page_words);
        Frame { header, words, id }
    }

    /// The count of readers that have latched a frame; `None` if readers latch no pages.
    #[inline]
    pub(super) fn readers(&self, id: FrameId) -> Option<&P::Word> {
        let part = &self.parts[(id.0 >> 32) as usize];
        let index = (id.0 & 0xffff_ffff) as usize;
        part.readers.as_ref().map(|readers| P::word_of(readers, index * LINE_BYTES))
    }

    /// Writes of some pages, this one among them, that have ended.
    pub(super) fn writes(&self, c: P::Core, number: u64) -> u64 {
        // Acquire: what is read of the file afterwards has them.
        P::load(c, self.counter(number), Ordering::Acquire)
    }

    fn counter(&self, number: u64) -> &P::Word {
        P::word_of(&self.written, number as usize % COUNTERS * 8)
    }

    /// The file has a page as it is with this change.
    pub(super) fn has_written(&self, c: P::Core, number: u64, lsn: Lsn) {
        // Release: pairs with the acquire above.
        P::fetch_add(
            c,
            self.counter(number),
            u64::from(!self.faults.has(Fault::StaleReadAhead)),
            Ordering::Release,
        );
        if let Some(state) = self.state(number) {
            P::store(c, state, lsn.0.max(IN_USE), Ordering::Relaxed);
        }
    }
}
