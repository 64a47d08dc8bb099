//! Limits of a database of pages.

/// Most owners of locks, which are sessions and prepared parts: the count of each lock mode holds
/// this many.
pub(crate) const OWNERS_MAX: usize = (1 << 12) - 1;

/// Frames that a session may use exclusively at one moment: for a split of the root, for the page
/// that it reads, and for the page that it evicts.
pub const FRAMES_PER_SESSION: usize = 8;

/// Most pages' worth of room that a log record takes: images of three pages, the content of two new
/// ones, and the description of the change.
pub(crate) const RECORD_PAGES_MAX: u64 = 6;
