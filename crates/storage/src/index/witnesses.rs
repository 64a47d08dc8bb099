//! The leaves and buckets whose content a transaction depends on.

use platform::Platform;

use crate::latch::VersionLatch;
use crate::tree::{LeafChanges, Witness};

/// Returns true if nothing was inserted into or removed from the witness's node, at a moment within
/// this call.
///
/// # Safety
/// The witness comes from an index of the same platform, whose memory is still there, and from the
/// epoch that the caller is inside of.
pub unsafe fn witness_is_current<P: Platform>(c: P::Core, witness: &Witness) -> bool {
    let word = std::ptr::with_exposed_provenance::<P::Word>(witness.node.0 as usize);
    // SAFETY: a witness names a tree node in memory or a hash bucket, since only this crate makes
    // any; both begin with their version latch and stay readable within the epoch that the witness
    // comes from.
    VersionLatch::<P>::from_word(unsafe { &*word }).is_current(c, witness.version)
}

/// Witnesses, kept up to date with what the transaction inserts itself.
#[derive(Default)]
pub struct Witnesses {
    pub(super) list: Vec<Witness>,
    pub(super) changes: LeafChanges,
    /// Witnesses that insertions have added.
    added: u64,
}

/// A place in a list of witnesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    length: usize,
    added: u64,
}

impl Witnesses {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.list.clear();
        self.changes.clear();
    }

    /// Remembers a witness, unless the last one is the same.
    #[inline]
    pub fn push(&mut self, witness: Witness) {
        if self.list.last() != Some(&witness) {
            self.list.push(witness);
        }
    }

    /// Remembers a witness behind all marks; returns its place.
    #[inline]
    pub fn append(&mut self, witness: Witness) -> Mark {
        let mark = self.mark();
        self.list.push(witness);
        mark
    }

    /// The end of the list: witnesses that are remembered from now on come behind it.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { length: self.list.len(), added: self.added }
    }

    /// Forgets the witnesses before the mark, which nothing depends on any more; returns where the
    /// mark is then.
    #[inline]
    pub fn forget_before(&mut self, mark: Mark) -> Mark {
        self.list.drain(..mark.length.min(self.list.len()));
        Mark { length: 0, ..mark }
    }

    /// Forgets the witnesses from the mark on, which nothing depends on any more. If the
    /// transaction has split what a witness saw since then, all stay: a witness behind the mark may
    /// stand for a part of what a witness before the mark saw.
    #[inline]
    pub fn forget_from(&mut self, mark: Mark) {
        if self.added == mark.added {
            self.list.truncate(mark.length);
        }
    }

    /// Updates all witnesses with the changes that the transaction has made.
    pub(super) fn apply_changes(&mut self) {
        let before = self.list.len();
        self.changes.apply(&mut self.list);
        self.added += (self.list.len() - before) as u64;
    }

    /// Returns true if all are still current, each at a moment within this call.
    ///
    /// # Safety
    /// As [`witness_is_current`], for all of them.
    pub unsafe fn are_current<P: Platform>(&self, c: P::Core) -> bool {
        // SAFETY: passed on to the caller.
        self.list.iter().all(|witness| unsafe { witness_is_current::<P>(c, witness) })
    }

    /// Returns true if the witnesses from the mark on are still current.
    ///
    /// # Safety
    /// As [`witness_is_current`], for all of them.
    #[inline]
    pub unsafe fn are_current_from<P: Platform>(&self, c: P::Core, mark: Mark) -> bool {
        let behind = self.list.get(mark.length..).unwrap_or(&[]);
        // SAFETY: passed on to the caller.
        behind.iter().all(|witness| unsafe { witness_is_current::<P>(c, witness) })
    }
}
