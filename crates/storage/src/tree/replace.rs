//! Replacement of the row that a key names.

use platform::{Intent, Platform};

use super::descend::{NoTrace, Target};
use super::store::NodeStore;
use super::types::Restart;
use super::{Retry, Tree};

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Makes a key name another value; false if the key is not there.
    ///
    /// Concurrency: the leaf's version changes although the set of keys stays the same, because an
    /// insertion may be about to request the lock on the gap from the row that it read as its
    /// neighbour: the insertion must request it from the new row.
    pub fn replace(&self, c: P::Core, key: &[u64; W], value: u64) -> bool {
        assert!(value != 0, "0 is not a value");
        let mut retry = Retry::of(self);
        loop {
            match self.try_replace(c, key, value) {
                Ok(replaced) => return replaced,
                Err(Restart) => retry.again::<P>(c),
            }
        }
    }

    fn try_replace(&self, c: P::Core, key: &[u64; W], value: u64) -> Result<bool, Restart> {
        let leaf = self.descend(c, Target::Key(key), &mut NoTrace)?;
        let (at, existing) = self.find(c, &leaf, key)?;
        if !leaf.try_latch(c) {
            return Err(Restart);
        }
        if existing.is_none() {
            leaf.unlock_unchanged(c);
            return Ok(false);
        }
        leaf.node.touch_value(c, at, Intent::Write);
        leaf.node.set_value(at, value);
        leaf.unlock_changed(c);
        Ok(true)
    }
}
