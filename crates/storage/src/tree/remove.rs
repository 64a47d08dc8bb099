//! Removal of one key, and of the nodes that become empty by it.

use std::sync::atomic::Ordering;

use platform::Platform;

use super::descend::{Path, ReadNode, Target};
use super::long::{self, PLACE_WORDS};
use super::store::NodeStore;
use super::types::{LeafChange, LeafChanges, Restart};
use super::{Retry, Tree};
use crate::Local;

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Removes a key; returns the value that it had. An insertion of the same key learns a stamp of
    /// at least `stamp`.
    pub fn remove(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        stamp: u64,
        changes: &mut LeafChanges,
    ) -> Option<u64> {
        self.remove_if(c, local, key, |_| true, stamp, changes)
    }

    /// Removes a key if `wanted` accepts its value; returns that value.
    pub(crate) fn remove_if(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        wanted: impl Fn(u64) -> bool,
        stamp: u64,
        changes: &mut LeafChanges,
    ) -> Option<u64> {
        let mut retry = Retry::of(self);
        loop {
            match self.try_remove(c, local, key, &wanted, stamp, changes) {
                Ok(removed) => return removed,
                Err(Restart) => retry.again::<P>(c),
            }
        }
    }

    fn try_remove(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        wanted: impl Fn(u64) -> bool,
        stamp: u64,
        changes: &mut LeafChanges,
    ) -> Result<Option<u64>, Restart> {
        let mut path = Path::new();
        let leaf = self.descend(c, Target::Key(key), &mut path)?;
        let (at, existing) = self.find(c, &leaf, key)?;
        if !existing.is_some_and(wanted) {
            return if leaf.validate(c) { Ok(None) } else { Err(Restart) };
        }
        if leaf.node.entries() == 1 && path.length() > 0 {
            self.unlink(c, local, &path, &leaf, stamp)?;
            changes.push(LeafChange { before: leaf.witness(), after: None, sibling: None });
            return Ok(existing);
        }
        if !leaf.try_latch(c) {
            return Err(Restart);
        }
        leaf.node.raise_stamp(stamp);
        let removed = if W == PLACE_WORDS { leaf.node.key(at) } else { [0; W] };
        leaf.node.remove_entry(c, at);
        let after = Some(leaf.unlock_changed(c));
        long::retire(c, local, &removed);
        changes.push(LeafChange { before: leaf.witness(), after, sibling: None });
        Ok(existing)
    }

    /// Unlinks a leaf with its last entry, and those nodes above it that have no other child.
    ///
    /// Concurrency: the neighbour that takes over the keys is not touched, so its version stays;
    /// what it covers only grows. An operation on the way to the leaf finds the leaf obsolete and
    /// starts again.
    fn unlink(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        path: &Path<P, S, W>,
        leaf: &ReadNode<P, S, W>,
        stamp: u64,
    ) -> Result<(), Restart> {
        let Some(depth) = (0..path.length()).rev().find(|depth| path.step(*depth).separators > 0) else {
            // Another core is about to replace the root by its only child.
            self.collapse_root(c, local);
            return Err(Restart);
        };
        let ancestor = path.step(depth);
        let doomed = || path.iter().skip(depth + 1).map(|step| &step.found).chain([leaf]);
        if !ancestor.found.try_latch(c) {
            return Err(Restart);
        }
        let latched = doomed().take_while(|found| found.try_latch(c)).count();
        if latched < doomed().count() {
            doomed().take(latched).for_each(|found| found.unlock_unchanged(c));
            ancestor.found.unlock_unchanged(c);
            return Err(Restart);
        }
        let stamp = doomed().map(|found| found.node.stamp()).fold(stamp, u64::max);
        ancestor.found.node.raise_stamp(stamp);
        let removed = ancestor.found.node.remove_child(c, ancestor.index);
        doomed().for_each(|found| found.unlock_obsolete(c));
        ancestor.found.unlock_changed(c);
        long::retire(c, local, &removed);
        if W == PLACE_WORDS {
            // No core writes an obsolete node.
            long::retire(c, local, &leaf.node.key(0));
        }
        for found in doomed() {
            // SAFETY: the ancestor's latch was held when the node's only name was removed, and the
            // node is obsolete, so no other core retires it; the caller is inside an epoch (see
            // `Tree::new`).
            unsafe { self.store.retire(c, local, found.id) };
        }
        if depth == 0 && ancestor.separators == 1 {
            self.collapse_root(c, local);
        }
        Ok(())
    }

    /// Replaces the root by its child while the root has only one.
    fn collapse_root(&self, c: P::Core, local: &mut Local<P>) {
        let mut retry = Retry::of(self);
        loop {
            match self.try_collapse_root(c, local) {
                Ok(true) => {}
                Ok(false) => return,
                Err(Restart) => retry.again::<P>(c),
            }
        }
    }

    /// True if the root was replaced, false if there is nothing to do.
    fn try_collapse_root(&self, c: P::Core, local: &mut Local<P>) -> Result<bool, Restart> {
        let id = self.root(c);
        let node = self.resolve(c, id)?;
        let version = node.latch().read_begin(c).map_err(|_| Restart)?;
        let root = ReadNode { node, id, version };
        let only_child = !node.is_leaf() && node.separators() == 0;
        if !root.validate(c) {
            return Err(Restart);
        }
        if !only_child {
            return Ok(false);
        }
        let anchor_version = self.latch_root(c, id).ok_or(Restart)?;
        let anchor = self.anchor();
        if !root.try_latch(c) {
            anchor.latch.unlock_unchanged(c, anchor_version);
            return Err(Restart);
        }
        // Relaxed, both: only holders of the latch write, and the replacement of the root
        // publishes.
        let stamp = P::load(c, &anchor.stamp, Ordering::Relaxed).max(node.stamp());
        P::store(c, &anchor.stamp, stamp, Ordering::Relaxed);
        self.replace_root(c, node.child(c, 0));
        root.unlock_obsolete(c);
        anchor.latch.unlock_unchanged(c, anchor_version);
        // SAFETY: the anchor's latch was held when the root's only name was replaced, and the root
        // is obsolete, so no other core retires it; the caller is inside an epoch (see
        // `Tree::new`).
        unsafe { self.store.retire(c, local, id) };
        Ok(true)
    }
}
