//! Frames and their headers.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Platform};
use storage::latch::VersionLatch;

use crate::page::Page;

/// Words of a header.
pub(super) const LATCH: usize = 0;
pub(super) const PAGE: usize = 1;
/// The version, plus 1, with which the file has the page; 0: none. A page of another version has
/// changed since.
pub(super) const FILED: usize = 2;
pub(super) const MARK: usize = 3;
/// 1 while a copy of the page is on its way to the file.
pub(super) const WRITING: usize = 4;
/// Readers that have pinned the page, where readers latch pages. Nothing waits for them: versions
/// protect what they read.
pub(super) const PINS: usize = 5;
pub(super) const HEADER_WORDS: usize = LINE_BYTES / 8;

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(pub(super) u64);

impl FrameId {
    pub(super) fn new(part: usize, index: usize) -> Self {
        FrameId((part as u64) << 32 | index as u64)
    }
}

/// A frame.
pub(crate) struct Frame<'p, P: Platform> {
    pub(super) header: &'p [P::Word],
    pub(super) words: &'p [P::Word],
    pub(super) id: FrameId,
}

impl<P: Platform> Clone for Frame<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Frame<'_, P> {}

impl<'p, P: Platform> Frame<'p, P> {
    #[inline]
    pub(super) fn latch(self) -> &'p VersionLatch<P> {
        VersionLatch::from_word(&self.header[LATCH])
    }

    /// Returns true if the file does not have the page in this version.
    pub(super) fn has_changed(self, c: P::Core, version: u64) -> bool {
        // Acquire: pairs with the release of the thread that has written the page: what is known of
        // it is up to date.
        P::load(c, &self.header[FILED], Ordering::Acquire) != version + 1
    }

    /// The file has the page as it was at this version.
    pub(super) fn is_filed(self, c: P::Core, version: u64) {
        // Release: pairs with the acquire above.
        P::store(c, &self.header[FILED], version + 1, Ordering::Release);
    }

    /// Marks the page for eviction. Every use of the page removes the mark; a page that still has
    /// it may be evicted.
    pub(super) fn mark(self, c: P::Core) {
        // Relaxed, all: guesses. Read before, so that a line which all workers read is not written
        // for nothing.
        let has_page = P::load(c, &self.header[PAGE], Ordering::Relaxed) != 0;
        if has_page && P::load(c, &self.header[MARK], Ordering::Relaxed) == 0 {
            P::store(c, &self.header[MARK], 1, Ordering::Relaxed);
        }
    }

    /// The frame's page, of a tree with keys of `width` words.
    #[inline]
    pub(crate) fn page(self, width: usize) -> Page<'p, P> {
        Page::new(self.words, width)
    }
}

/// A page and the frame that had it, at a version of the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHint {
    pub(super) frame: FrameId,
    pub(super) version: u64,
    pub(super) number: u64,
}

/// A frame as it was found: what is read in it is valid while the frame has this version.
pub(crate) struct ReadPage<'p, P: Platform> {
    pub frame: Frame<'p, P>,
    pub version: u64,
    pub number: u64,
}

impl<P: Platform> Clone for ReadPage<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for ReadPage<'_, P> {}

impl<'p, P: Platform> ReadPage<'p, P> {
    #[inline]
    pub(crate) fn page(self, width: usize) -> Page<'p, P> {
        self.frame.page(width)
    }

    /// All words of the page.
    pub(crate) fn words(self) -> &'p [P::Word] {
        self.frame.words
    }

    #[inline]
    pub(crate) fn validate(self, c: P::Core) -> bool {
        self.frame.latch().validate(c, self.version)
    }

    /// Latches the page if it is as it was found.
    #[inline]
    pub(crate) fn latch(self, c: P::Core) -> Option<LatchedPage<'p, P>> {
        let ReadPage { frame, version, number } = self;
        frame.latch().try_upgrade(c, version).then_some(LatchedPage { frame, version, number })
    }
}

/// A latched page, or with number 0 a free frame. Its holder unlatches it.
#[must_use = "a latched page is unlatched"]
pub(crate) struct LatchedPage<'p, P: Platform> {
    pub(super) frame: Frame<'p, P>,
    pub(super) version: u64,
    pub number: u64,
}

impl<'p, P: Platform> LatchedPage<'p, P> {
    #[inline]
    pub(crate) fn page(&self, width: usize) -> Page<'p, P> {
        self.frame.page(width)
    }

    /// Unlatches a page that has changed; the page as its last holder left it.
    #[inline]
    pub(crate) fn changed(self, c: P::Core) -> ReadPage<'p, P> {
        let LatchedPage { frame, version, number } = self;
        let version = frame.latch().unlock_changed(c, version);
        ReadPage { frame, version, number }
    }

    /// Unlatches a page in which nothing has changed.
    #[inline]
    pub(crate) fn unchanged(self, c: P::Core) {
        self.frame.latch().unlock_unchanged(c, self.version);
    }
}
