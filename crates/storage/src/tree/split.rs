//! Splits: room for one more.
//!
//! A node is split in the middle, unless insertions lately came in ascending order: then it is
//! split at the place of insertion, so that the part below stays as full as it is and the run
//! continues in free space (InnoDB does so too). Keys that ascend at many places of the tree at
//! once, such as order lines at the end of each district, thus leave full nodes behind everywhere,
//! and not at the right edge only.

use platform::{OutOfMemory, Platform};

use super::Tree;
use super::descend::{Path, ReadNode};
use super::insert::{AttemptEnd, InsertPosition};
use super::long::{self, PLACE_WORDS};
use super::node::Node;
use super::store::NodeStore;
use super::types::{Guard, Insert, LeafChange, LeafChanges, NodeId, Restart, Witness};
use crate::Local;
use crate::latch::VersionLatch;

/// The node into which the new sibling of a node will be linked; latched.
enum SplitParent<P: Platform, S, const W: usize> {
    /// The node is the root: a new root comes above.
    Anchor { version: u64 },
    /// The node is child `index` of an inner node with room.
    Inner { found: ReadNode<P, S, W>, index: usize },
}

/// Nodes that a split needs, allocated before anything is latched.
struct Spares<P: Platform, S, const W: usize> {
    sibling: (NodeId, Node<P, S, W>),
    root: Option<(NodeId, Node<P, S, W>)>,
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Inserts into a full leaf by splitting it; if its parent is full, splits that instead and
    /// starts again.
    pub(super) fn insert_into_full<G: Guard>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        place: &InsertPosition<'_, P, S, W>,
        guard: &mut G,
        changes: &mut LeafChanges,
    ) -> Result<Insert, AttemptEnd> {
        let (path, leaf) = (place.path, &place.leaf);
        if path.last().is_some_and(|parent| parent.separators == Node::<P, S, W>::INNER_CAPACITY) {
            self.split_full_ancestor(c, local, path)?;
            return Err(AttemptEnd::Restart);
        }
        // In a tree of long keys a separator may need memory.
        let mut long_separator = [0; W];
        if W == PLACE_WORDS {
            let from = self.split_from(&leaf.node, place.at);
            long_separator = self.long_separator(c, local, leaf, (from, place.at), place.key)?;
        }
        let spares = match self.spares(c, local, 0, path.length() == 0) {
            Ok(spares) => spares,
            Err(error) => {
                long::disown(c, local, &long_separator);
                return Err(error.into());
            }
        };
        let Ok(parent) = self.latch_with_parent(c, path, path.length(), leaf) else {
            long::disown(c, local, &long_separator);
            self.free_spares(c, local, spares);
            return Err(AttemptEnd::Restart);
        };
        let holds = place.neighbour.holds(c);
        if !holds || !guard.allow(place.neighbour.next) {
            leaf.unlock_unchanged(c);
            self.unlock_parent(c, &parent);
            long::disown(c, local, &long_separator);
            self.free_spares(c, local, spares);
            return if holds { Ok(Insert::Refused) } else { Err(AttemptEnd::Restart) };
        }
        let stamp = self.removed_stamp(c, place);
        self.split_leaf(c, place, &spares.sibling.1);
        let before = leaf.witness();
        let sibling = Witness { node: spares.sibling.0, version: VersionLatch::<P>::INITIAL };
        let separator = if W == PLACE_WORDS { long_separator } else { spares.sibling.1.key(0) };
        self.link(c, parent, leaf, &separator, spares);
        let after = leaf.unlock_changed(c);
        changes.push(LeafChange { before, after: Some(after), sibling: Some(sibling) });
        Ok(Insert::Inserted { stamp })
    }

    /// The number of entries that stay in a full leaf.
    #[inline(always)]
    fn split_from(&self, leaf: &Node<P, S, W>, at: usize) -> usize {
        if leaf.is_ascending(at) { at } else { Node::<P, S, W>::LEAF_CAPACITY / 2 }
    }

    /// The separator of a full leaf that is about to be split at `from` for a key at `at`: the
    /// words of the smallest key above it up to the first that differs from the largest key below.
    /// Most separators so have no rest. The rest belongs to the caller.
    fn long_separator(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        leaf: &ReadNode<P, S, W>,
        (from, at): (usize, usize),
        key: &[u64; W],
    ) -> Result<[u64; W], AttemptEnd> {
        let is_behind_all = from == leaf.node.entries();
        let above = if is_behind_all { *key } else { leaf.node.key(from) };
        let below = if at == from && !is_behind_all { *key } else { leaf.node.key(from - 1) };
        if !leaf.validate(c) {
            return Err(AttemptEnd::Restart);
        }
        if let Some(differs) = (0..W - 1).find(|word| above[*word] != below[*word]) {
            let mut separator = [0; W];
            separator[..=differs].copy_from_slice(&above[..=differs]);
            return Ok(separator);
        }
        Ok(long::own(c, local, &above)?)
    }

    /// Moves the upper part of a full, latched leaf to `sibling` and inserts the entry where it
    /// belongs.
    fn split_leaf(&self, c: P::Core, place: &InsertPosition<'_, P, S, W>, sibling: &Node<P, S, W>) {
        let (leaf, at) = (&place.leaf.node, place.at);
        let capacity = Node::<P, S, W>::LEAF_CAPACITY;
        let score = leaf.score();
        let from = self.split_from(leaf, at);
        sibling.raise_stamp(leaf.stamp());
        leaf.move_entries(c, from, sibling);
        if from == capacity {
            leaf.set_score(0);
            sibling.set_score(score);
        }
        if at > from || from == capacity {
            sibling.insert_entry(c, at - from, place.key, place.value);
        } else {
            leaf.insert_entry(c, at, place.key, place.value);
        }
    }

    /// Splits the highest of the full inner nodes that lie right above the leaf.
    fn split_full_ancestor(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        path: &Path<P, S, W>,
    ) -> Result<(), AttemptEnd> {
        let capacity = Node::<P, S, W>::INNER_CAPACITY;
        let full = path.iter().rev().take_while(|step| step.separators == capacity).count();
        let depth = path.length() - full;
        let step = path.step(depth);
        let level = (path.length() - depth) as u64;
        let spares = self.spares(c, local, level, depth == 0)?;
        let Ok(parent) = self.latch_with_parent(c, path, depth, &step.found) else {
            self.free_spares(c, local, spares);
            return Err(AttemptEnd::Restart);
        };
        let (node, sibling) = (&step.found.node, &spares.sibling.1);
        let score = node.score();
        let last = step.index == capacity;
        let middle = match node.is_ascending(step.index) {
            true if last => capacity - 1,
            true => step.index,
            false => capacity / 2,
        };
        sibling.raise_stamp(node.stamp());
        let ascending = node.is_ascending(step.index);
        let separator = node.move_children(c, middle, sibling);
        if ascending && last {
            node.set_score(0);
            sibling.set_score(score);
        }
        self.link(c, parent, &step.found, &separator, spares);
        step.found.unlock_changed(c);
        Ok(())
    }

    fn spares(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        level: u64,
        wants_root: bool,
    ) -> Result<Spares<P, S, W>, OutOfMemory> {
        let sibling = self.allocate(c, local, level, 0)?;
        let root = match wants_root.then(|| self.allocate(c, local, level + 1, 0)).transpose() {
            Ok(root) => root,
            Err(error) => {
                self.free_spares(c, local, Spares { sibling, root: None });
                return Err(error);
            }
        };
        Ok(Spares { sibling, root })
    }

    fn free_spares(&self, c: P::Core, local: &mut Local<P>, spares: Spares<P, S, W>) {
        for (id, _) in spares.root.into_iter().chain([spares.sibling]) {
            // SAFETY: allocated by `spares` and linked nowhere.
            unsafe { self.store.free(c, local, id) };
        }
    }

    /// Latches the node found at `depth` of the path, and before it what names it.
    fn latch_with_parent(
        &self,
        c: P::Core,
        path: &Path<P, S, W>,
        depth: usize,
        node: &ReadNode<P, S, W>,
    ) -> Result<SplitParent<P, S, W>, Restart> {
        let parent = match depth.checked_sub(1) {
            None => SplitParent::Anchor { version: self.latch_root(c, node.id).ok_or(Restart)? },
            Some(above) => {
                let step = path.step(above);
                if !step.found.try_latch(c) {
                    return Err(Restart);
                }
                SplitParent::Inner { found: step.found, index: step.index }
            }
        };
        if node.try_latch(c) {
            return Ok(parent);
        }
        self.unlock_parent(c, &parent);
        Err(Restart)
    }

    fn unlock_parent(&self, c: P::Core, parent: &SplitParent<P, S, W>) {
        match parent {
            SplitParent::Anchor { version } => self.anchor().latch.unlock_unchanged(c, *version),
            SplitParent::Inner { found, .. } => found.unlock_unchanged(c),
        }
    }

    /// Publishes the sibling of `node`, and unlatches the parent.
    ///
    /// Concurrency: `node` stays latched until this has returned. If a root were free before its
    /// successor is in place, it would still pass for the root, and keys of its sibling would be
    /// searched, and inserted, in it.
    fn link(
        &self,
        c: P::Core,
        parent: SplitParent<P, S, W>,
        node: &ReadNode<P, S, W>,
        separator: &[u64; W],
        spares: Spares<P, S, W>,
    ) {
        spares.sibling.1.release_new(c);
        match parent {
            SplitParent::Anchor { version } => {
                let (root, inner) = spares.root.expect("allocated for the split of a root");
                inner.set_first_child(c, node.id);
                inner.insert_child(c, 0, separator, spares.sibling.0);
                inner.release_new(c);
                self.replace_root(c, root);
                self.anchor().latch.unlock_unchanged(c, version);
            }
            SplitParent::Inner { found, index } => {
                found.node.insert_child(c, index, separator, spares.sibling.0);
                found.unlock_changed(c);
            }
        }
    }
}
