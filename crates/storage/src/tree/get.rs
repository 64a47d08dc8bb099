//! Point lookups.

use platform::Platform;

use super::descend::{NoTrace, ReadNode, Target};
use super::store::NodeStore;
use super::types::{Lookup, Restart, Witness};
use super::{Retry, Tree};

/// A validation repeats its search for a node that is being moved this many times.
const MOVES_MAX: u32 = 8;

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// The value of a key, and the leaf where the key is or would be.
    #[inline]
    pub fn get(&self, c: P::Core, key: &[u64; W]) -> Lookup {
        let mut retry = Retry::of(self);
        loop {
            match self.try_get(c, key) {
                Ok(lookup) => return lookup,
                Err(Restart) => retry.again::<P>(c),
            }
        }
    }

    #[inline(always)]
    fn try_get(&self, c: P::Core, key: &[u64; W]) -> Result<Lookup, Restart> {
        let leaf = self.descend(c, Target::Key(key), &mut NoTrace)?;
        let (_, value) = self.find(c, &leaf, key)?;
        if !leaf.validate(c) {
            return Err(Restart);
        }
        Ok(Lookup { value, witness: leaf.witness() })
    }

    /// Place of a key in its leaf, and its value; the caller validates.
    #[inline(always)]
    pub(super) fn find(
        &self,
        c: P::Core,
        leaf: &ReadNode<P, S, W>,
        key: &[u64; W],
    ) -> Result<(usize, Option<u64>), Restart> {
        let entries = leaf.node.entries();
        let at = leaf.node.rank::<false>(c, key, entries, leaf.version)?;
        if at < entries && leaf.node.has_key(c, at, key, leaf.version)? {
            Ok((at, Some(leaf.node.value(c, at))))
        } else {
            Ok((at, None))
        }
    }

    /// Prefetches the leaf of a key, and does not wait for it: lookups of several keys then overlap
    /// their misses.
    pub fn prefetch(&self, c: P::Core, key: &[u64; W]) {
        // A restart is not worth another attempt: this was only a hint.
        let Ok(parent) = self.descend_to::<1>(c, Target::Key(key), &mut NoTrace) else { return };
        if parent.node.is_leaf() {
            return;
        }
        let separators = parent.node.separators();
        let Ok(index) = parent.node.rank::<true>(c, key, separators, parent.version) else { return };
        let leaf = parent.node.child(c, index);
        if parent.validate(c)
            && let Ok(leaf) = self.resolve(c, leaf)
        {
            leaf.prefetch(c);
        }
    }

    /// Returns true if a leaf is unchanged since the witness was taken, and not latched.
    ///
    /// Concurrency: if two transactions each insert or remove a key and then validate a witness of
    /// the leaf that the other one changed, at least one of them sees the other's change or latch.
    #[inline]
    pub fn validate(&self, c: P::Core, witness: &Witness) -> bool {
        for _ in 0..MOVES_MAX {
            let Ok(node) = self.resolve(c, witness.node) else { continue };
            if node.latch().is_current(c, witness.version) {
                return true;
            }
            // An obsolete frame may be one that the store has moved the node away from.
            if !node.latch().is_obsolete_now(c) {
                return false;
            }
        }
        false
    }
}
