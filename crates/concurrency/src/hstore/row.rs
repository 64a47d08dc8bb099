//! Rows of `hstore`, and where they belong.

use std::sync::atomic::Ordering;

use platform::{Platform, SharedWord};
use storage::{RecordHeader, RecordRef};

use super::sites::Site;

const DELETED: u64 = 1;

/// The site of a row, and whether the transaction that holds it has deleted the row.
#[repr(transparent)]
pub struct Home<P: Platform>(P::Word);

impl<P: Platform> RecordHeader<P> for Home<P> {
    fn inserting() -> Self {
        Home(P::Word::new(0))
    }
}

// Relaxed, all of them: the site never changes once the row is linked; the other bit is that of the
// site's holder.
impl<P: Platform> Home<P> {
    pub(super) fn site(&self, c: P::Core) -> Site {
        Site((P::load(c, &self.0, Ordering::Relaxed) >> 1) as u32)
    }

    /// The header of a new row, whose lines were declared written.
    pub(super) fn set_site(&self, Site(site): Site) {
        P::poke(&self.0, u64::from(site) << 1);
    }

    /// As [`Self::site`], of a row whose site is held, without a touch.
    pub(super) fn held_site(&self) -> Site {
        Site((P::peek(&self.0) >> 1) as u32)
    }

    pub(super) fn is_deleted(&self, c: P::Core) -> bool {
        P::load(c, &self.0, Ordering::Relaxed) & DELETED != 0
    }

    pub(super) fn set_deleted(&self, c: P::Core, deleted: bool) {
        let word = P::load(c, &self.0, Ordering::Relaxed) & !DELETED;
        P::store(c, &self.0, word | u64::from(deleted), Ordering::Relaxed);
    }
}

pub(super) type Row<P> = RecordRef<P, Home<P>>;

/// The row's last word, which points to its tail if it has one.
pub(super) fn last_word<P: Platform>(c: P::Core, row: Row<P>) -> u64 {
    row.words().last().map_or(0, |word| P::load(c, word, Ordering::Relaxed))
}

/// One row that the transaction has found: the same row again is another one.
pub(super) struct FoundRow<P: Platform> {
    pub(super) row: Row<P>,
    pub(super) table: u32,
    pub(super) read_only: bool,
}

impl<P: Platform> Clone for FoundRow<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for FoundRow<P> {}
