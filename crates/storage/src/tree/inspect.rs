//! The shape of a tree at rest, for reports and tests.

use platform::Platform;

use super::descend::Fences;
use super::long;
use super::node::Node;
use super::store::NodeStore;
use super::types::NodeId;
use super::{HEIGHT_MAX, Tree};
use crate::latch::VersionLatch;

/// Size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Nodes from the root to a leaf.
    pub height: usize,
    /// Inner nodes.
    pub inner_nodes: usize,
    /// Leaves.
    pub leaves: usize,
    /// Entries in all leaves.
    pub entries: usize,
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Counts nodes and entries, and panics if the structure is broken. No core writes meanwhile.
    pub fn inspect(&self, c: P::Core) -> Figures {
        let mut figures = Figures::default();
        let root = self.root(c);
        let level = self.inspect_node(c, root, &Fences::new(), &mut figures, true);
        figures.height = level as usize + 1;
        figures
    }

    /// Counts the entries. No core writes meanwhile.
    pub fn entries(&self, c: P::Core) -> u64 {
        let mut open = vec![self.root(c)];
        let mut entries = 0;
        while let Some(id) = open.pop() {
            let node = self.settle(c, id);
            if node.is_leaf() {
                entries += node.entries() as u64;
            } else {
                open.extend((0..=node.separators()).map(|index| node.child(c, index)));
            }
        }
        entries
    }

    fn inspect_node(
        &self,
        c: P::Core,
        id: NodeId,
        fences: &Fences<W>,
        figures: &mut Figures,
        is_root: bool,
    ) -> u64 {
        let node = self.settle(c, id);
        let level = node.level();
        assert!((level as usize) < HEIGHT_MAX);
        let count = if node.is_leaf() { node.entries() } else { node.separators() };
        for index in 0..count {
            let key = node.key(index);
            let is_less = |left: &[u64; W], right: &[u64; W]| long::is_less::<P, W>(c, left, right);
            assert!(index == 0 || is_less(&node.key(index - 1), &key), "keys ascend");
            assert!(fences.low.is_none_or(|low| !is_less(&key, &low)), "keys lie above the lower fence");
            assert!(fences.high.is_none_or(|high| is_less(&key, &high)), "keys lie below the upper fence");
        }
        if node.is_leaf() {
            assert!(is_root || count > 0, "no leaf but a root is empty");
            assert!((0..count).all(|index| node.value(c, index) != 0));
            figures.leaves += 1;
            figures.entries += count;
            return level;
        }
        assert!(!is_root || count > 0, "an inner root has two children");
        figures.inner_nodes += 1;
        for index in 0..=count {
            let low = if index > 0 { Some(node.key(index - 1)) } else { fences.low };
            let high = if index < count { Some(node.key(index)) } else { fences.high };
            let below =
                self.inspect_node(c, node.child(c, index), &Fences { low, high, removed: 0 }, figures, false);
            assert_eq!(below + 1, level, "all leaves are at one level");
        }
        level
    }

    /// The node, once the store has loaded it.
    fn settle(&self, c: P::Core, id: NodeId) -> Node<P, S, W> {
        loop {
            if let Ok(node) = self.resolve(c, id)
                && let Ok(version) = node.latch().read_begin(c)
            {
                assert!(!VersionLatch::<P>::is_latched(version));
                return node;
            }
        }
    }
}
