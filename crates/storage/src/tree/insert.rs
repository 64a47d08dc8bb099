//! Insertion of one key.

use std::sync::atomic::Ordering;

use platform::{Intent, OutOfMemory, Platform};

use super::descend::{Found, Path, Target};
use super::node::Node;
use super::store::NodeStore;
use super::types::{Change, Changes, Guard, Insert, Next, Restart};
use super::{Retry, Tree};
use crate::Local;

/// Why an attempt ended without a result.
pub(super) enum Stop {
    /// Start again.
    Restart,
    /// Give up.
    Memory(OutOfMemory),
}

impl From<Restart> for Stop {
    fn from(_: Restart) -> Self {
        Stop::Restart
    }
}

impl From<OutOfMemory> for Stop {
    fn from(error: OutOfMemory) -> Self {
        Stop::Memory(error)
    }
}

/// The key above the one to insert, as it was read without a latch.
pub(super) struct Neighbour<P: Platform, S, const W: usize> {
    pub(super) next: Next,
    /// The leaf where it was read, if that is another one.
    leaf: Option<Found<P, S, W>>,
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Neighbour<P, S, W> {
    /// Whether it is still the neighbour; the caller holds the latch of the leaf of insertion.
    pub(super) fn holds(&self, c: P::Core) -> bool {
        self.leaf.as_ref().is_none_or(|leaf| leaf.validate(c))
    }
}

/// What an attempt is about to insert, and where.
pub(super) struct Place<'a, P: Platform, S, const W: usize> {
    pub(super) path: &'a Path<P, S, W>,
    pub(super) leaf: Found<P, S, W>,
    pub(super) at: usize,
    pub(super) key: &'a [u64; W],
    pub(super) value: u64,
    pub(super) neighbour: Neighbour<P, S, W>,
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Inserts a key unless it exists or the guard refuses.
    ///
    /// Concurrency: the guard and the insertion happen under the leaf's latch, so no other insertion into or removal from
    /// the leaf comes between. If the neighbour above lies in the following leaf, that leaf was unchanged at a moment when
    /// this leaf was latched; afterwards others may insert between the two. A scan that takes locks must therefore
    /// validate the witness of a leaf again after it has locked the entry above the leaf's last one.
    pub fn insert<G: Guard>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        value: u64,
        mut guard: G,
        changes: &mut Changes,
    ) -> Result<Insert, OutOfMemory> {
        assert!(value != 0, "0 is not a value");
        let mut retry = Retry::new();
        loop {
            match self.try_insert(c, local, key, value, &mut guard, changes) {
                Ok(insert) => return Ok(insert),
                Err(Stop::Memory(error)) => return Err(error),
                Err(Stop::Restart) => retry.again::<P>(c),
            }
        }
    }

    fn try_insert<G: Guard>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64; W],
        value: u64,
        guard: &mut G,
        changes: &mut Changes,
    ) -> Result<Insert, Stop> {
        let mut path = Path::new();
        let leaf = self.descend(c, Target::Key(key), &mut path)?;
        let (at, existing) = self.find(c, &leaf, key);
        if let Some(value) = existing {
            let exists = Insert::Exists { value, witness: leaf.witness() };
            return if leaf.validate(c) { Ok(exists) } else { Err(Stop::Restart) };
        }
        let neighbour = if G::WANTS_NEXT {
            self.neighbour(c, &path, &leaf, at)?
        } else {
            Neighbour { next: Next::Supremum, leaf: None }
        };
        let place = Place { path: &path, leaf, at, key, value, neighbour };
        if leaf.node.entries() == Node::<P, S, W>::LEAF_CAPACITY {
            return self.insert_into_full(c, local, &place, guard, changes);
        }
        if !leaf.try_latch(c) {
            return Err(Stop::Restart);
        }
        if !place.neighbour.holds(c) {
            leaf.unlock_unchanged(c);
            return Err(Stop::Restart);
        }
        if !guard.allow(place.neighbour.next) {
            leaf.unlock_unchanged(c);
            return Ok(Insert::Refused);
        }
        let stamp = self.removed_stamp(c, &place);
        leaf.node.insert_entry(c, at, key, value);
        let after = Some(leaf.unlock_changed(c));
        changes.push(Change { before: leaf.witness(), after, sibling: None });
        Ok(Insert::Inserted { stamp })
    }

    /// Largest stamp of a key that was removed where the insertion takes place.
    ///
    /// Concurrency: a stamp moves upwards, and then the version of the ancestor that got it moves too: an insertion whose
    /// path is older finds the leaf obsolete.
    pub(super) fn removed_stamp(&self, c: P::Core, place: &Place<'_, P, S, W>) -> u64 {
        // Relaxed: raised before the root was replaced, whose name was read with acquire.
        let replaced = P::load(c, &self.anchor().stamp, Ordering::Relaxed);
        let above = place.path.iter().map(|step| step.found.node.stamp());
        above.fold(replaced.max(place.leaf.node.stamp()), u64::max)
    }

    /// The smallest key above place `at` of `leaf`.
    fn neighbour(
        &self,
        c: P::Core,
        path: &Path<P, S, W>,
        leaf: &Found<P, S, W>,
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
            let at = found.node.rank::<false>(c, &fence, entries);
            if at < entries {
                let next = Next::Entry(found.node.value(c, at));
                return Ok(Neighbour { next, leaf: Some(found) });
            }
            // Only the leaf itself can have taken over the keys above its fence without having any of them.
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
