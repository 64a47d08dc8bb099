//! Gaps between keys, as schemes lock them.

use platform::Platform;

use crate::tree::{Guard, Next};

/// A gap between keys, named by what a gap lock on it is attached to.
pub enum Gap<'a, P: Platform> {
    /// The gap below this row (its bits in the index).
    Row(u64),
    /// The gap above all keys of a partition, or the gap around an absent key of a hash index.
    Word(&'a P::Word),
}

/// Decides about an insertion with the index latched: the guard must neither wait nor use the index.
pub trait GapGuard<P: Platform> {
    /// Whether the gap is needed; finding it may cost a second descent.
    const WANTS_GAP: bool;
    /// Whether the insertion may split this gap. `None` if the gap was not wanted.
    fn allow(&mut self, gap: Option<Gap<'_, P>>) -> bool;
}

/// Hands a tree's question on to a gap guard.
pub(super) struct TreeGuard<'a, P: Platform, G> {
    pub(super) guard: &'a mut G,
    pub(super) end: &'a P::Word,
}

impl<P: Platform, G: GapGuard<P>> Guard for TreeGuard<'_, P, G> {
    const WANTS_NEXT: bool = G::WANTS_GAP;
    fn allow(&mut self, next: Next) -> bool {
        let gap = match next {
            Next::Entry(bits) => Gap::Row(bits),
            Next::Supremum => Gap::Word(self.end),
        };
        self.guard.allow(G::WANTS_GAP.then_some(gap))
    }
}

/// Words of a partition that are about all its gaps; what they mean is the scheme's matter. They begin as 0.
#[repr(C)]
pub struct GapWords<P: Platform> {
    /// The lock word for the gap above all keys, or whatever else keeps insertions out.
    pub end: P::Word,
    /// Largest stamp of a transaction that removed a key, for schemes that order commits by their data.
    pub removed: P::Word,
    /// Largest stamp of a transaction that saw a key absent, for the same.
    pub absent: P::Word,
}
