//! The tree: a lookup against the split of its leaf.

use std::sync::Arc;

use loom::thread;
use storage::tree::{Insert, LeafChanges, MemoryNodes, NoGuard, Tree};

use crate::platform::*;
use crate::{Mark, World};

/// A leaf of three entries.
const NODE_BYTES: usize = 128;
/// Bytes of the first chunk that the models use: the anchor and a few nodes.
const USED_BYTES: usize = 1024;

type Index<O> = Tree<LoomPlatform<O>, MemoryNodes<NODE_BYTES>, 1>;

fn insert<O: Weakening>(c: LoomCore, tree: &Index<O>, local: &mut storage::Local<LoomPlatform<O>>, key: u64) {
    let mut changes = LeafChanges::new();
    let inserted = tree.insert(c, local, &[key], key + 100, NoGuard, &mut changes).expect("memory");
    assert!(matches!(inserted, Insert::Inserted { .. }));
}

/// The root is full and is split by an insertion; a lookup finds what was there throughout, and
/// what comes or not.
fn lookups_against_a_split<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    let world = World::<O>::new(c, 2);
    let mut local = world.local(0);
    local.enter(c);
    // SAFETY: the world outlives the tree; both workers are inside an epoch while they use it.
    let tree: Index<O> = unsafe { Tree::new(c, MemoryNodes, &mut local) }.expect("memory");
    let capacity = Index::<O>::leaf_capacity() as u64;
    for key in 0..capacity {
        insert(c, &tree, &mut local, 10 * key);
    }
    declare(USED_BYTES);
    let tree = Arc::new(tree);
    let writer = {
        let (world, tree) = (Arc::clone(&world), Arc::clone(&tree));
        thread::spawn(move || {
            let mut local = world.local(1);
            local.enter(c);
            insert(c, &tree, &mut local, 15);
            local.leave(c);
        })
    };
    let last = 10 * (capacity - 1);
    assert_eq!(tree.get(c, &[last]).value, Some(last + 100), "a key was lost in the split");
    let fresh = tree.get(c, &[15]).value;
    assert!(matches!(fresh, None | Some(115)), "a value that was never inserted");
    marks[usize::from(fresh.is_some())].hit();
    writer.join().expect("the writer");
    assert_eq!(tree.inspect(c).entries as u64, capacity + 1);
}

#[test]
fn tree_lookups_against_a_split() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(2, move |c| lookups_against_a_split::<AsWritten>(c, &inside));
    marks[0].assert_reached("the lookup came before the insertion");
    marks[1].assert_reached("the lookup came after the insertion");
}

#[test]
fn mutant_tree_lookups_without_the_acquire_fence() {
    expect_caught("never inserted", 2, |c| {
        lookups_against_a_split::<WithoutAcquireFences>(c, &Default::default());
    });
}
