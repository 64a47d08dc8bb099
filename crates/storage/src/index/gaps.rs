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

/// Decides about an insertion with the index latched: the guard must neither wait nor use the
/// index.
pub trait GapGuard<P: Platform> {
    /// True if the guard needs the gap; finding it may cost a second descent.
    const WANTS_GAP: bool;
    /// Returns true if the insertion may split this gap. `None` if the guard does not need the gap.
    fn allow(&mut self, gap: Option<Gap<'_, P>>) -> bool;
}

/// A guard that allows every insertion.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl<P: Platform> GapGuard<P> for Open {
    const WANTS_GAP: bool = false;

    #[inline(always)]
    fn allow(&mut self, _: Option<Gap<'_, P>>) -> bool {
        true
    }
}

/// A gap guard behind an object. Insertion is compiled twice, for guards that need the gap and for
/// those that do not, and not for each guard: the call costs about ten instructions an insertion.
/// Compiled once, insertion would cost sixty more where the gap is not needed.
pub(super) trait ErasedGapGuard<P: Platform> {
    /// The same as [`GapGuard::allow`], as an object's method.
    fn ask(&mut self, gap: Option<Gap<'_, P>>) -> bool;
}

impl<P: Platform, G: GapGuard<P>> ErasedGapGuard<P> for G {
    #[inline]
    fn ask(&mut self, gap: Option<Gap<'_, P>>) -> bool {
        self.allow(gap)
    }
}

/// Passes a tree's question to a gap guard, which needs the gap or not.
pub(super) struct TreeGuard<'a, 'g, P: Platform, const GAP: bool> {
    pub(super) guard: &'g mut dyn ErasedGapGuard<P>,
    pub(super) end: &'a P::Word,
}

impl<P: Platform, const GAP: bool> Guard for TreeGuard<'_, '_, P, GAP> {
    const WANTS_NEXT: bool = GAP;

    #[inline(always)]
    fn allow(&mut self, next: Next) -> bool {
        let gap = match next {
            Next::Entry(bits) => Gap::Row(bits),
            Next::Supremum => Gap::Word(self.end),
        };
        self.guard.ask(GAP.then_some(gap))
    }
}

/// Words of a partition that are about all its gaps; what they mean is the scheme's matter. They
/// begin as 0.
#[repr(C)]
pub struct GapWords<P: Platform> {
    /// The lock word for the gap above all keys, or for another reason to keep insertions out.
    pub end: P::Word,
    /// Largest stamp of a transaction that removed a key, for schemes that order commits by their
    /// data.
    pub removed: P::Word,
    /// Largest stamp of a transaction that saw a key absent, for the same.
    pub absent: P::Word,
}
