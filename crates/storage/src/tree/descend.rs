//! The way from the root to a leaf.

use std::mem::MaybeUninit;

use platform::Platform;

use super::node::Node;
use super::store::NodeStore;
use super::types::{NodeId, Restart, Witness};
use super::{HEIGHT_MAX, Tree};

/// Which leaf to descend to.
#[derive(Clone, Copy)]
pub(super) enum Target<'a, const W: usize> {
    /// The leaf that covers the key.
    Key(&'a [u64; W]),
    /// The leaf that covers the keys right below the key.
    Below(&'a [u64; W]),
    /// The last leaf.
    Last,
}

/// A node as it was found: everything read in it is valid while it has this version.
pub(super) struct ReadNode<P: Platform, S, const W: usize> {
    pub(super) node: Node<P, S, W>,
    pub(super) id: NodeId,
    pub(super) version: u64,
}

impl<P: Platform, S, const W: usize> Clone for ReadNode<P, S, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, S, const W: usize> Copy for ReadNode<P, S, W> {}

impl<P: Platform, S: NodeStore<P>, const W: usize> ReadNode<P, S, W> {
    #[inline(always)]
    pub(super) fn validate(&self, c: P::Core) -> bool {
        self.node.latch().validate(c, self.version)
    }

    pub(super) fn try_latch(&self, c: P::Core) -> bool {
        self.node.latch().try_upgrade(c, self.version)
    }

    pub(super) fn unlock_changed(&self, c: P::Core) -> Witness {
        Witness { node: self.id, version: self.node.latch().unlock_changed(c, self.version) }
    }

    pub(super) fn unlock_unchanged(&self, c: P::Core) {
        self.node.latch().unlock_unchanged(c, self.version);
    }

    pub(super) fn unlock_obsolete(&self, c: P::Core) {
        self.node.latch().unlock_obsolete(c, self.version);
    }

    pub(super) fn witness(&self) -> Witness {
        Witness { node: self.id, version: self.version }
    }
}

/// Receives the inner nodes that a descent passes.
pub(super) trait DescentTrace<P: Platform, S, const W: usize> {
    /// The descent goes to child `index` of `found`, which has `separators` of them. Nothing is
    /// validated yet: if it turns out to be wrong, the whole descent fails.
    fn pass(&mut self, c: P::Core, found: &ReadNode<P, S, W>, index: usize, separators: usize);
}

/// Keeps nothing.
pub(super) struct NoTrace;

impl<P: Platform, S, const W: usize> DescentTrace<P, S, W> for NoTrace {
    #[inline(always)]
    fn pass(&mut self, _: P::Core, _: &ReadNode<P, S, W>, _: usize, _: usize) {}
}

/// An inner node on the path.
pub(super) struct DescentStep<P: Platform, S, const W: usize> {
    pub(super) found: ReadNode<P, S, W>,
    /// The child to which the path continues.
    pub(super) index: usize,
    pub(super) separators: usize,
}

/// Keeps the whole way, for operations that change inner nodes.
pub(super) struct Path<P: Platform, S, const W: usize> {
    /// The first `length` are initialised.
    steps: [MaybeUninit<DescentStep<P, S, W>>; HEIGHT_MAX],
    length: usize,
}

impl<P: Platform, S, const W: usize> Path<P, S, W> {
    pub(super) fn new() -> Self {
        Path { steps: [const { MaybeUninit::uninit() }; HEIGHT_MAX], length: 0 }
    }

    /// Inner nodes on the way.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Inner node number `depth`; the root is number 0.
    pub(super) fn step(&self, depth: usize) -> &DescentStep<P, S, W> {
        // SAFETY: `pass` initialised the steps up to the length.
        unsafe { self.steps[..self.length][depth].assume_init_ref() }
    }

    /// The last inner node: the leaf's parent.
    pub(super) fn last(&self) -> Option<&DescentStep<P, S, W>> {
        self.length.checked_sub(1).map(|depth| self.step(depth))
    }

    /// The steps, from the root on.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &DescentStep<P, S, W>> {
        (0..self.length).map(|depth| self.step(depth))
    }
}

impl<P: Platform, S, const W: usize> DescentTrace<P, S, W> for Path<P, S, W> {
    fn pass(&mut self, _: P::Core, found: &ReadNode<P, S, W>, index: usize, separators: usize) {
        assert!(self.length < HEIGHT_MAX, "the tree is higher than any sequence of splits can make it");
        self.steps[self.length].write(DescentStep { found: *found, index, separators });
        self.length += 1;
    }
}

/// Keeps the tightest bounds: the part of the key space that the leaf covers; and what was removed
/// from there.
pub(super) struct Fences<const W: usize> {
    /// Smallest key that may be in the leaf; `None` if there is no bound.
    pub(super) low: Option<[u64; W]>,
    /// Smallest key beyond the leaf.
    pub(super) high: Option<[u64; W]>,
    /// Largest removed stamp of the inner nodes.
    pub(super) removed: u64,
}

impl<const W: usize> Fences<W> {
    pub(super) fn new() -> Self {
        Fences { low: None, high: None, removed: 0 }
    }
}

impl<P: Platform, S: NodeStore<P>, const W: usize> DescentTrace<P, S, W> for Fences<W> {
    fn pass(&mut self, c: P::Core, found: &ReadNode<P, S, W>, index: usize, separators: usize) {
        found.node.touch_fences(c, index, separators);
        self.removed = self.removed.max(found.node.stamp());
        if index > 0 {
            self.low = Some(found.node.key(index - 1));
        }
        if index < separators {
            self.high = Some(found.node.key(index));
        }
    }
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Descends to a leaf.
    #[inline(always)]
    pub(super) fn descend(
        &self,
        c: P::Core,
        target: Target<'_, W>,
        trace: &mut impl DescentTrace<P, S, W>,
    ) -> Result<ReadNode<P, S, W>, Restart> {
        self.descend_to::<0>(c, target, trace)
    }

    /// Descends to a node that is not above this level.
    ///
    /// Concurrency: a node's version is read before the version (or the anchor's word) above it is
    /// checked again, so at the moment of that check the node was in its place and had the version.
    /// A child's name is checked before it is followed, so only nodes that were linked within the
    /// epoch are ever read.
    #[inline(always)]
    pub(super) fn descend_to<const LEVEL: u64>(
        &self,
        c: P::Core,
        target: Target<'_, W>,
        trace: &mut impl DescentTrace<P, S, W>,
    ) -> Result<ReadNode<P, S, W>, Restart> {
        let id = self.root(c);
        let node = self.resolve(c, id)?;
        let version = node.latch().read_begin(c).map_err(|_| Restart)?;
        // After the version, which is an acquire.
        if self.root(c) != id {
            return Err(Restart);
        }
        let mut found = ReadNode { node, id, version };
        while found.node.level() > LEVEL {
            let separators = found.node.separators();
            let index = match target {
                Target::Key(key) => found.node.rank::<true>(c, key, separators, found.version)?,
                Target::Below(key) => found.node.rank::<false>(c, key, separators, found.version)?,
                Target::Last => separators,
            };
            trace.pass(c, &found, index, separators);
            let id = found.node.child(c, index);
            if !found.validate(c) {
                return Err(Restart);
            }
            let node = self.resolve(c, id)?;
            if self.prefetches {
                node.prefetch(c);
            }
            let version = node.latch().read_begin(c).map_err(|_| Restart)?;
            if !found.validate(c) {
                return Err(Restart);
            }
            found = ReadNode { node, id, version };
        }
        Ok(found)
    }
}
