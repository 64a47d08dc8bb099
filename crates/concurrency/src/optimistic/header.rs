//! The version word in front of each row.

use platform::{Platform, SharedWord};
use storage::RecordHeader;

use crate::access::Access;

pub(crate) const LOCKED: u64 = 1;
pub(crate) const ABSENT: u64 = 2;
pub(crate) const FLAGS: u64 = LOCKED | ABSENT;

/// In place of the version of a row that was found and not read yet: the first read waits for the
/// row's line, and not the lookup, so that the misses of many lookups overlap. A version that was
/// read is never like this: the lock bit is set.
pub(crate) const UNSEEN: u64 = u64::MAX;

/// A header with a version word.
pub trait VersionHeader<P: Platform>: RecordHeader<P> {
    /// The word.
    fn word(&self) -> &P::Word;
}

/// The version word of a row, and nothing else.
#[repr(transparent)]
pub struct Version<P: Platform>(P::Word);

impl<P: Platform> RecordHeader<P> for Version<P> {
    fn inserting() -> Self {
        Version(P::Word::new(LOCKED | ABSENT))
    }
}

impl<P: Platform> VersionHeader<P> for Version<P> {
    #[inline(always)]
    fn word(&self) -> &P::Word {
        &self.0
    }
}

impl<P: Platform, H: VersionHeader<P>> Access<P, H> {
    /// The row's version word.
    #[inline(always)]
    pub(crate) fn word(&self) -> &P::Word {
        self.row.header().word()
    }
}
