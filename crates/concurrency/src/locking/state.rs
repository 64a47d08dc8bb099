//! The state of rows and transactions under the schemes that lock.

use platform::{Platform, SharedWord};
use storage::index::Mark;
use storage::{RecordHeader, RecordRef};
use terms::{Abort, Conflict, Mode};

use super::gap_set::{Gaps, name_of};
use crate::access::{Accesses, HELD, INSERTED};
use crate::lock_word::LockWord;

/// The row is held exclusively (`HELD` without it: shared).
pub(super) const EXCLUSIVE: u8 = 128;

/// Lock and stamp of a row.
#[repr(C)]
pub struct LockHeader<P: Platform> {
    pub(super) lock: LockWord<P>,
    /// Stamp of the last writer. Written and read under the lock only.
    pub(super) stamp: P::Word,
}

// SAFETY-free: both fields are shared words.
impl<P: Platform> RecordHeader<P> for LockHeader<P> {
    fn inserting() -> Self {
        LockHeader { lock: LockWord::inserting(), stamp: P::Word::new(0) }
    }
}

pub(crate) struct LockingState<P: Platform> {
    pub(super) rows: Accesses<P, LockHeader<P>>,
    pub(super) gaps: Gaps,
    /// Scans that are under way, one in the visitor of the other: the witnesses serve all of them.
    pub(super) scans: u32,
    /// The tag that the transaction leaves in the locks that it takes.
    pub(super) tag: u64,
    pub(super) mode: Mode,
    /// After how many nanoseconds the transaction gives up waiting, if it does.
    pub(super) waits: Option<u64>,
    /// True if the transaction conflicted and has to give up.
    pub(super) conflicted: bool,
}

pub(super) type Row<P> = RecordRef<P, LockHeader<P>>;

impl<P: Platform> LockingState<P> {
    pub(super) fn new() -> Self {
        let rows = Accesses::new();
        let mode = Mode::Single;
        LockingState { rows, gaps: Gaps::default(), scans: 0, tag: 0, mode, waits: None, conflicted: false }
    }

    /// Names of the locks that the transaction holds: those of gaps are odd.
    pub(crate) fn names(&self) -> impl Iterator<Item = u64> {
        let held = self.rows.list.iter().filter(|access| access.flags & (HELD | INSERTED) != 0);
        let rows = held.map(|access| name_of(&access.row.header().lock));
        rows.chain(self.gaps.names().map(|name| name | 1))
    }

    /// A number that no other transaction under way has.
    pub(super) fn identity(&self) -> u64 {
        // The state lies in a box, which the transaction keeps until it ends.
        std::ptr::from_ref(self).addr() as u64
    }

    /// The transaction conflicted: the reason why it aborts.
    #[cold]
    pub(super) fn conflict(&mut self, conflict: Conflict) -> Abort {
        self.conflicted = true;
        Abort::Conflict(conflict)
    }

    /// Lets go of what was needed until the gaps were locked: the witnesses from the mark on, if a
    /// scan is under way that needs those before.
    pub(super) fn forget_witnesses(&mut self, mark: Mark) {
        if self.scans == 0 {
            self.rows.witnesses.clear();
        } else {
            self.rows.witnesses.forget_from(mark);
        }
    }

    /// Returns true if the witnesses from the mark on are current.
    pub(super) fn is_unchanged_from(&self, c: P::Core, mark: Mark) -> bool {
        // SAFETY: all come from indexes of this database, and from the epoch of the transaction,
        // which has not ended.
        unsafe { self.rows.witnesses.are_current_from::<P>(c, mark) }
    }
}
