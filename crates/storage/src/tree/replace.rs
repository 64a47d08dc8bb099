//! A key that goes on naming another row.

use platform::{Intent, Platform};

use super::descend::{NoTrace, Target};
use super::store::NodeStore;
use super::types::Restart;
use super::{Retry, Tree};

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Makes a key name another value; false if it is not there.
    ///
    /// Concurrency: witnesses stay valid, since the set of keys stays the same. A reader sees either value; that it sees
    /// the right one is the concern of whoever replaces it (it holds the row that the old value names).
    pub fn replace(&self, c: P::Core, key: &[u64; W], value: u64) -> bool {
        assert!(value != 0, "0 is not a value");
        let mut retry = Retry::new();
        loop {
            match self.try_replace(c, key, value) {
                Ok(replaced) => return replaced,
                Err(Restart) => retry.again::<P>(c),
            }
        }
    }

    fn try_replace(&self, c: P::Core, key: &[u64; W], value: u64) -> Result<bool, Restart> {
        let leaf = self.descend(c, Target::Key(key), &mut NoTrace)?;
        let (at, existing) = self.find(c, &leaf, key);
        if !leaf.try_latch(c) {
            return Err(Restart);
        }
        if existing.is_some() {
            leaf.node.touch_value(c, at, Intent::Write);
            leaf.node.set_value(at, value);
        }
        leaf.unlock_unchanged(c);
        Ok(existing.is_some())
    }
}
