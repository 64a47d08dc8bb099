//! The scheme's name as a type, and what all its workers share.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};

/// The method of `tictoc`.
pub struct TicTocMethod;

/// State that all workers share: one word, 1 once there was a participant of a transaction over
/// several databases.
pub struct Participants<P: Platform>(P::Region);

impl<P: Platform> Participants<P> {
    pub(super) fn new(c: P::Core) -> Result<Self, OutOfMemory> {
        P::region(c, None, LINE_BYTES, "participants").map(Participants)
    }

    /// Returns true if commits must keep the order of real time.
    ///
    /// Concurrency: a transaction that locks rows and then sees no participant has locked them
    /// before any participant reads its first row.
    #[inline]
    pub(super) fn seen(&self, c: P::Core) -> bool {
        // SeqCst: pairs with `note`; ordered after the locking.
        P::load(c, P::word_of(&self.0, 0), Ordering::SeqCst) != 0
    }

    pub(super) fn note(&self, c: P::Core) {
        if !self.seen(c) {
            P::store(c, P::word_of(&self.0, 0), 1, Ordering::SeqCst);
        }
        // SeqCst: what the participant reads is ordered after the store.
        P::fence(c, Ordering::SeqCst);
    }
}
