//! Insertion of one key, or of several that follow the last one in its leaf.

use std::sync::atomic::Ordering;

use platform::{Intent, OutOfMemory, Platform};

use super::descend::{Path, ReadNode, Target};
use super::long::{self, PLACE_WORDS};
use super::node::Node;
use super::store::NodeStore;
use super::types::{
    Guard, Insert, InsertHint, KEY_WORDS_MAX, LeafChange, LeafChanges, Next, Restart, Run, Witness,
};
use super::{Retry, Tree};
use crate::Local;

/// The reason why an attempt ended without a result.
pub(super) enum AttemptEnd {
    /// Start again.
    Restart,
    /// Give up.
    Memory(OutOfMemory),
}

impl From<Restart> for AttemptEnd {
    fn from(_: Restart) -> Self {
        AttemptEnd::Restart
    }
}

impl From<OutOfMemory> for AttemptEnd {
    fn from(error: OutOfMemory) -> Self {
        AttemptEnd::Memory(error)
    }
}

/// The key above the one to insert, as it was read without a latch.
pub(super) struct Neighbour<P: Platform, S, const W: usize> {
    pub(super) next: Next,
    /// The leaf where it was read, if that is another one.
    leaf: Option<ReadNode<P, S, W>>,
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Neighbour<P, S, W> {
    /// Returns true if it is still the neighbour; the caller holds the latch of the leaf of
    /// insertion.
    pub(super) fn holds(&self, c: P::Core) -> bool {
        self.leaf.as_ref().is_none_or(|leaf| leaf.validate(c))
    }
}

/// The entry that an attempt is about to insert, and its position.
pub(super) struct InsertPosition<'a, P: Platform, S, const W: usize> {
    pub(super) path: &'a Path<P, S, W>,
    pub(super) leaf: ReadNode<P, S, W>,
    pub(super) at: usize,
    pub(super) key: &'a [u64; W],
    pub(super) value: u64,
    pub(super) neighbour: Neighbour<P, S, W>,
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Inserts a key unless it exists or the guard refuses.
    ///
    /// Concurrency: the guard and the insertion happen under the leaf's latch, so no other
    /// insertion into or removal from the leaf comes between. If the neighbour above lies in the
    /// following leaf, that leaf was unchanged at a moment when this leaf was latched; afterwards
    /// others may insert between the two. A scan that takes locks must therefore validate the
    /// witness of a leaf again after it has locked the entry above the leaf's last one.
    pub fn insert<G: Guard>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        value: u64,
        mut guard: G,
        changes: &mut LeafChanges,
    ) -> Result<Insert, OutOfMemory> {
        assert!(value != 0, "0 is not a value");
        if W == PLACE_WORDS {
            return self.insert_long(c, local, key, value, &mut guard, changes);
        }
        let (keys, values) = (std::slice::from_ref(key), std::slice::from_ref(&value));
        match self.insert_after_last(c, keys, values, &mut guard, changes) {
            Some(Run { inserted: 1.., stamp }) => return Ok(Insert::Inserted { stamp }),
            Some(_) => return Ok(Insert::Refused),
            None => {}
        }
        let mut retry = Retry::of(self);
        loop {
            match self.try_insert(c, local, key, value, &mut guard, changes) {
                Ok(insert) => return Ok(insert),
                Err(AttemptEnd::Memory(error)) => return Err(error),
                Err(AttemptEnd::Restart) => retry.again::<P>(c),
            }
        }
    }

    /// Inserts a long key, which the tree copies.
    #[inline(always)]
    fn insert_long<G: Guard>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        value: u64,
        guard: &mut G,
        changes: &mut LeafChanges,
    ) -> Result<Insert, OutOfMemory> {
        let own = long::own(c, local, key)?;
        let mut retry = Retry::of(self);
        let result = loop {
            match self.try_insert(c, local, &own, value, guard, changes) {
                Ok(insert) => break Ok(insert),
                Err(AttemptEnd::Memory(error)) => break Err(error),
                Err(AttemptEnd::Restart) => retry.again::<P>(c),
            }
        };
        if !matches!(result, Ok(Insert::Inserted { .. })) {
            long::disown(c, local, &own);
        }
        result
    }

    fn try_insert<G: Guard>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        value: u64,
        guard: &mut G,
        changes: &mut LeafChanges,
    ) -> Result<Insert, AttemptEnd> {
        let mut path = Path::new();
        let leaf = self.descend(c, Target::Key(key), &mut path)?;
        let (at, existing) = match leaf.node.place_after_last(c, key) {
            Some(at) => (at, None),
            None => self.find(c, &leaf, key)?,
        };
        if let Some(value) = existing {
            let exists = Insert::Exists { value, witness: leaf.witness() };
            return if leaf.validate(c) { Ok(exists) } else { Err(AttemptEnd::Restart) };
        }
        let neighbour = if G::WANTS_NEXT {
            self.neighbour(c, &path, &leaf, at)?
        } else {
            Neighbour { next: Next::Supremum, leaf: None }
        };
        let place = InsertPosition { path: &path, leaf, at, key, value, neighbour };
        if leaf.node.entries() == Node::<P, S, W>::LEAF_CAPACITY {
            return self.insert_into_full(c, local, &place, guard, changes);
        }
        if !leaf.try_latch(c) {
            return Err(AttemptEnd::Restart);
        }
        if !place.neighbour.holds(c) {
            leaf.unlock_unchanged(c);
            return Err(AttemptEnd::Restart);
        }
        if !guard.allow(place.neighbour.next) {
            leaf.unlock_unchanged(c);
            return Ok(Insert::Refused);
        }
        let stamp_above = self.stamp_above(c, &place);
        let stamp = stamp_above.max(leaf.node.stamp());
        let is_last = at == leaf.node.entries();
        leaf.node.insert_entry(c, at, key, value);
        let after = leaf.unlock_changed(c);
        changes.push(LeafChange { before: leaf.witness(), after: Some(after), sibling: None });
        if W == PLACE_WORDS {
            // Comparing long keys may fail: the next one is searched for.
            return Ok(Insert::Inserted { stamp });
        }
        let high = if is_last { self.upper_fence(c, &path) } else { Some(None) };
        if let Some(high) = high {
            let leaf_above = place.neighbour.leaf.as_ref().map(ReadNode::witness);
            let above = (G::WANTS_NEXT && is_last).then_some((place.neighbour.next, leaf_above));
            changes.set_hint(InsertHint {
                tree: self.anchor.addr().get(),
                after,
                at,
                high,
                stamp_above,
                above,
            });
        }
        Ok(Insert::Inserted { stamp })
    }

    /// Inserts the first of these keys right behind the transaction's last insertion, as many as
    /// ascend, belong into that leaf and fit there, until the guard refuses one.
    ///
    /// Concurrency: as [`Self::insert`], under one latch for all of them.
    pub(crate) fn insert_run<G: Guard>(
        &self,
        c: P::Core,
        keys: &[[u64; W]],
        values: &[u64],
        mut guard: G,
        changes: &mut LeafChanges,
    ) -> Run {
        assert!(keys.len() == values.len() && values.iter().all(|value| *value != 0), "0 is not a value");
        self.insert_after_last(c, keys, values, &mut guard, changes).unwrap_or_default()
    }

    /// Inserts a run of ascending keys (the lines of an order) with one descent; otherwise like
    /// [`Self::insert_run`]. `None`: the first key does not belong there, or the leaf has changed;
    /// nothing happened. None inserted: the guard has refused the first key.
    ///
    /// Concurrency: while the leaf has the version that the last insertion gave it, the leaf covers
    /// at least the keys that it covered then, and no key was removed from it; the latch is taken
    /// by comparing with that version.
    #[inline(always)]
    fn insert_after_last<G: Guard>(
        &self,
        c: P::Core,
        keys: &[[u64; W]],
        values: &[u64],
        guard: &mut G,
        changes: &mut LeafChanges,
    ) -> Option<Run> {
        if W == PLACE_WORDS {
            return None;
        }
        let hint = changes.hint()?;
        if hint.tree != self.anchor.addr().get() {
            return None;
        }
        let node = self.resolve(c, hint.after.node).ok()?;
        let (at, entries) = (hint.at + 1, node.entries());
        if entries == Node::<P, S, W>::LEAF_CAPACITY || at > entries {
            return None;
        }
        let is_last = at == entries;
        node.touch(c, hint.at, if is_last { at } else { at + 1 }, Intent::Read);
        let mut before = node.key(hint.at);
        let mut count = 0;
        for key in keys.iter().take(Node::<P, S, W>::LEAF_CAPACITY - entries) {
            let is_below = if is_last { hint.is_below_fence(key) } else { *key < node.key(at) };
            if before >= *key || !is_below {
                break;
            }
            before = *key;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        let (next, leaf_above) = match (G::WANTS_NEXT, is_last) {
            (false, _) => (Next::Supremum, None),
            (true, false) => (Next::Entry(node.value(c, at)), None),
            (true, true) => hint.above?,
        };
        let stamp_above = hint.stamp_above;
        let leaf = ReadNode { node, id: hint.after.node, version: hint.after.version };
        if !leaf.try_latch(c) {
            return None;
        }
        if !leaf_above.is_none_or(|above| self.is_unchanged(c, &above)) {
            leaf.unlock_unchanged(c);
            return None;
        }
        let inserted = (0..count).take_while(|_| guard.allow(next)).count();
        if inserted == 0 {
            leaf.unlock_unchanged(c);
            return Some(Run::default());
        }
        let stamp = stamp_above.max(node.stamp());
        node.insert_entries(c, at, &keys[..inserted], &values[..inserted]);
        let after = leaf.unlock_changed(c);
        changes.push(LeafChange { before: leaf.witness(), after: Some(after), sibling: None });
        changes.move_hint(after, at + inserted - 1);
        Some(Run { inserted, stamp })
    }

    /// Returns true if a leaf is unchanged since it was read.
    fn is_unchanged(&self, c: P::Core, witness: &Witness) -> bool {
        self.resolve(c, witness.node).is_ok_and(|node| node.latch().validate(c, witness.version))
    }

    /// The smallest key beyond the leaf at the end of the path; `Some(None)` if there is no bound,
    /// `None` if the path is out of date.
    fn upper_fence(&self, c: P::Core, path: &Path<P, S, W>) -> Option<Option<[u64; KEY_WORDS_MAX]>> {
        let Some(step) = path.iter().rev().find(|step| step.index < step.separators) else {
            return Some(None);
        };
        step.found.node.touch(c, step.index, step.index + 1, Intent::Read);
        let mut fence = [0; KEY_WORDS_MAX];
        fence[..W].copy_from_slice(&step.found.node.key(step.index));
        step.found.validate(c).then_some(Some(fence))
    }

    /// Largest stamp of a key that was removed where the insertion takes place.
    pub(super) fn removed_stamp(&self, c: P::Core, place: &InsertPosition<'_, P, S, W>) -> u64 {
        self.stamp_above(c, place).max(place.leaf.node.stamp())
    }

    /// The part of the removed stamp that nodes above the leaf have.
    ///
    /// Concurrency: a stamp moves upwards, and then the version of the ancestor that got it moves
    /// too: an insertion whose path is older finds the leaf obsolete.
    fn stamp_above(&self, c: P::Core, place: &InsertPosition<'_, P, S, W>) -> u64 {
        // Relaxed: raised before the root was replaced, whose name was read with acquire.
        let replaced = P::load(c, &self.anchor().stamp, Ordering::Relaxed);
        place.path.iter().map(|step| step.found.node.stamp()).fold(replaced, u64::max)
    }

    /// The smallest key above place `at` of `leaf`.
    fn neighbour(
        &self,
        c: P::Core,
        path: &Path<P, S, W>,
        leaf: &ReadNode<P, S, W>,
        at: usize,
    ) -> Result<Neighbour<P, S, W>, Restart> {
        if at < leaf.node.entries() {
            return Ok(Neighbour { next: Next::Entry(leaf.node.value(c, at)), leaf: None });
        }
        let Some(step) = path.iter().rev().find(|step| step.index < step.separators) else {
            return Ok(Neighbour { next: Next::Supremum, leaf: None });
        };
        step.found.node.touch(c, step.index, step.index + 1, Intent::Read);
        let mut fence = step.found.node.key(step.index);
        if !step.found.validate(c) {
            return Err(Restart);
        }
        loop {
            let mut above = Path::new();
            let found = self.descend(c, Target::Key(&fence), &mut above)?;
            let entries = found.node.entries();
            let at = found.node.rank::<false>(c, &fence, entries, found.version)?;
            if at < entries {
                let next = Next::Entry(found.node.value(c, at));
                return Ok(Neighbour { next, leaf: Some(found) });
            }
            // Only the leaf itself can have taken over the keys above its fence without having any
            // of them.
            if found.id != leaf.id {
                return Err(Restart);
            }
            let Some(step) = above.iter().rev().find(|step| step.index < step.separators) else {
                return Ok(Neighbour { next: Next::Supremum, leaf: None });
            };
            fence = step.found.node.key(step.index);
            if !step.found.validate(c) {
                return Err(Restart);
            }
        }
    }
}
