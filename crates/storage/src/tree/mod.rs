//! A concurrent B+tree with optimistic lock coupling.
//!
//! # Protocol
//!
//! Each node begins with a [`VersionLatch`]. Readers write nothing:
//! they read a node's version, read in the node, read the child's version, and then check that the
//! node's version is still the same, before they rely on anything read in it (Leis, Haubenschild,
//! Neumann, "Optimistic Lock Coupling: A Scalable and Efficient General-Purpose Synchronization
//! Method", IEEE Data Eng. Bull. 2019). Writers descend in the same way, and latch only what they
//! change, by an upgrade that fails if the version has changed. No core waits while it holds a
//! latch, so there is no deadlock; an operation that fails starts again from the root, and fails
//! only because another one succeeded.
//!
//! - A full leaf is split under its own and its parent's latch. A full parent is split first, in a
//!   step of its own.
//! - A leaf that becomes empty is unlinked at once, under the latches of the leaf, of those parents
//!   that have no other child, and of the first ancestor that has one ("free at empty": Johnson and
//!   Shasha, "B-trees with inserts and deletes: why free-at-empty is better than merge-at-half",
//!   JCSS 1993). No leaf but a root is ever empty.
//! - An inner root with a single child is replaced by the child.
//! - There are no sibling pointers: scans continue by descending with the fence key of the leaf
//!   they come from. A leaf's part of the key space shrinks only when the leaf itself is split, and
//!   grows when an empty neighbour is unlinked; so a fence seen on the way down remains a valid
//!   place to continue from, and there is no gap between two visits.
//!
//! # What concurrency control builds on
//!
//! A leaf's version changes with every insertion, removal and split in it, so that a [`Witness`]
//! proves that a key is still absent, or a scanned range still the same (Silo, SOSP 2013, section
//! 4.6). Updates of rows do not touch the tree. When a key names another row from now on
//! (`replace`), the version changes too, although the set of keys stays the same: an insertion that
//! has read the leaf requests the lock on its gap from a row, which must be the new one.
//!
//! A leaf remembers the largest stamp of the keys removed from it; when a leaf is unlinked, the
//! ancestor that loses it remembers that stamp. An insertion learns the largest stamp on its path,
//! and must commit later than that.
//!
//! # Deviations
//!
//! LeanStore keeps fences and hints in each node and merges at low fill; here fences come from the
//! path, and only empty nodes go. Where insertions ascend, a node is split at the place of
//! insertion, see `split`.

mod descend;
mod get;
mod insert;
mod inspect;
mod long;
mod node;
mod remove;
mod replace;
mod scan;
mod split;
mod store;
mod types;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform, SharedWord};

use crate::Local;
use crate::index_part::IndexPart;
use crate::latch::VersionLatch;
use crate::optimisations::Optimisation;
use node::Node;

pub use inspect::Figures;
pub use long::{LONG_KEY_WORDS_MAX, PLACE_WORDS};
pub(crate) use long::{append_words, place_of};
pub use store::{MemoryNodes, NodeStore};
pub use types::{
    Beyond, Direction, Entry, Guard, Insert, Leaf, LeafChange, LeafChanges, Lookup, Next, NoGuard, NodeId,
    Range, Restart, Run, ScanOrder, Witness,
};

/// Highest tree. A level more needs a full root, and two splits of a node take at least its
/// capacity in insertions into it: a tree of this height would have had more insertions than a word
/// can count, even with removals between them.
const HEIGHT_MAX: usize = 40;

/// Attempts before a restarting operation pauses.
const ATTEMPTS_WITHOUT_PAUSE: u32 = 4;
/// Longest pause is 2 to this power, in nanoseconds.
const PAUSE_EXPONENT_MAX: u32 = 10;

/// The name of the root, on a line of its own.
#[repr(C, align(64))]
struct Anchor<P: Platform> {
    /// Latched by a core that replaces the root. The version means nothing: readers compare `root`.
    latch: VersionLatch<P>,
    /// Name of the root. A root that became a child and then the root again is the root, so that
    /// comparing is enough.
    root: P::Word,
    /// Largest removed stamp of the roots that were replaced by their only child.
    stamp: P::Word,
}

/// Unique keys of `W` words, in lexicographic order, each with a value that is not 0 (the place of
/// a row).
///
/// Concurrency: all methods may be called by any core at any time, within the epoch that
/// [`Self::new`] demands.
pub struct Tree<P: Platform, S: NodeStore<P>, const W: usize> {
    anchor: NonNull<Anchor<P>>,
    store: S,
    /// True if nodes are prefetched before they are searched.
    prefetches: bool,
    /// True if an operation pauses before it starts again.
    backs_off: bool,
}

// SAFETY: the anchor consists of shared words and lives as long as the tree (see `Tree::new`); a
// store is Send.
unsafe impl<P: Platform, S: NodeStore<P>, const W: usize> Send for Tree<P, S, W> {}
// SAFETY: as above; a store is Sync.
unsafe impl<P: Platform, S: NodeStore<P>, const W: usize> Sync for Tree<P, S, W> {}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// An empty tree. Its nodes are never given back as a whole: they end with the memory they lie
    /// in.
    ///
    /// # Safety
    /// - The memory behind `local` outlives the tree.
    /// - Every method is called between [`Local::enter`] and [`Local::leave`] of a worker with the
    ///   same memory and the same epochs, and the `Local` that a method gets is that worker's.
    /// - A [`Witness`] is used within the epoch, and with the tree, that it came from.
    /// - In a tree of long keys (of [`PLACE_WORDS`] words) the last word of each key that a method
    ///   gets is 0, or a reference that `place_of` has made or the tree has given in the same
    ///   epoch, and that names words which are there.
    pub unsafe fn new(c: P::Core, store: S, local: &mut Local<P>) -> Result<Self, OutOfMemory> {
        let anchor = local.allocate_lines(c, LINE_BYTES)?.cast::<Anchor<P>>();
        let (root, frame) = match store.allocate(c, local) {
            Ok(allocated) => allocated,
            Err(error) => {
                // SAFETY: allocated above, and no other core knows it.
                unsafe { local.free(c, anchor.cast(), LINE_BYTES) };
                return Err(error);
            }
        };
        // SAFETY: the frame was allocated above.
        let node = unsafe { Node::<P, S, W>::new(frame) };
        node.initialise(c, 0, 0);
        node.release_new(c);
        let latch = VersionLatch::new(VersionLatch::<P>::INITIAL);
        // SAFETY: a block of one line, aligned to it, that no other core knows.
        unsafe { anchor.write(Anchor { latch, root: P::Word::new(root.0), stamp: P::Word::new(0) }) };
        let optimisations = local.optimisations();
        let prefetches = optimisations.has(Optimisation::Prefetch);
        Ok(Tree { anchor, store, prefetches, backs_off: optimisations.has(Optimisation::QueueLatch) })
    }

    /// The same tree once more; its user keeps the promises of [`Self::new`].
    pub(crate) fn alias(&self) -> Self
    where
        S: Copy,
    {
        Tree { ..*self }
    }

    /// The store of the nodes.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Entries that fit into one leaf.
    pub const fn leaf_capacity() -> usize {
        Node::<P, S, W>::LEAF_CAPACITY
    }

    #[inline(always)]
    fn anchor(&self) -> &Anchor<P> {
        // SAFETY: written by `new`, whose contract keeps it alive.
        unsafe { self.anchor.as_ref() }
    }

    /// The node of this name.
    #[inline(always)]
    fn resolve(&self, c: P::Core, id: NodeId) -> Result<Node<P, S, W>, Restart> {
        let frame = self.store.resolve(c, id)?;
        // SAFETY: got from the store right now, within the epoch that `new` demands.
        Ok(unsafe { Node::new(frame) })
    }

    /// A new node that no other core can reach.
    fn allocate(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        level: u64,
        stamp: u64,
    ) -> Result<(NodeId, Node<P, S, W>), OutOfMemory> {
        let (id, frame) = self.store.allocate(c, local)?;
        // SAFETY: got from the store right now.
        let node = unsafe { Node::new(frame) };
        node.initialise(c, level, stamp);
        Ok((id, node))
    }

    /// Shows where the parts of the tree lie. What other cores change meanwhile is shown as it was
    /// or as it is.
    pub fn visit_parts(&self, c: P::Core, visit: &mut dyn FnMut(IndexPart, *const u8, usize)) {
        visit(IndexPart::Anchor, self.anchor.as_ptr().cast(), LINE_BYTES);
        let root = self.root(c);
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let Ok(frame) = self.store.resolve(c, id) else { continue };
            // SAFETY: got from the store right now, within the epoch that `new` demands.
            let node = unsafe { Node::<P, S, W>::new(frame) };
            // An obsolete node is no part of the tree any more.
            let Ok(version) = node.latch().read_begin(c) else { continue };
            let is_leaf = node.is_leaf();
            let known = open.len();
            if !is_leaf {
                open.extend((0..=node.separators()).map(|index| node.child(c, index)));
            }
            if !node.latch().validate(c, version) {
                open.truncate(known);
                open.push(id);
                continue;
            }
            let part = match (id == root, is_leaf) {
                (true, _) => IndexPart::Root,
                (false, true) => IndexPart::Leaf,
                (false, false) => IndexPart::Inner,
            };
            visit(part, frame.as_ptr().cast(), S::NODE_BYTES);
        }
    }

    /// Name of the root.
    #[inline(always)]
    fn root(&self, c: P::Core) -> NodeId {
        // Acquire: pairs with the release in `replace_root`: the root's contents are at least that
        // old.
        NodeId(P::load(c, &self.anchor().root, Ordering::Acquire))
    }

    /// Latches the anchor if `root` is still the root.
    fn latch_root(&self, c: P::Core, root: NodeId) -> Option<u64> {
        let latch = &self.anchor().latch;
        let version = latch.read_begin(c).ok()?;
        if self.root(c) != root || !latch.try_upgrade(c, version) {
            return None;
        }
        if self.root(c) != root {
            latch.unlock_unchanged(c, version);
            return None;
        }
        Some(version)
    }

    /// Makes `root` the root; the caller holds the anchor's latch.
    fn replace_root(&self, c: P::Core, root: NodeId) {
        // Release: pairs with the acquire in `root`.
        P::store(c, &self.anchor().root, root.0, Ordering::Release);
    }
}

/// Counts the restarts of an operation, and pauses when they become many.
struct Retry {
    attempts: u32,
    pauses: bool,
}

impl Retry {
    fn of<P: Platform, S: NodeStore<P>, const W: usize>(tree: &Tree<P, S, W>) -> Self {
        Retry { attempts: 0, pauses: tree.backs_off }
    }

    /// Before starting again.
    #[cold]
    fn again<P: Platform>(&mut self, c: P::Core) {
        self.attempts = self.attempts.saturating_add(1);
        if self.pauses && self.attempts > ATTEMPTS_WITHOUT_PAUSE {
            P::pause(c, 1 << self.attempts.min(PAUSE_EXPONENT_MAX));
        }
    }
}
