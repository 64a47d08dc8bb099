//! All keys of a partition, some at a time, while other cores change it: for copies of its rows.

use std::ops::{Bound, ControlFlow};

use platform::Platform;

use super::Partition;
use super::kind::{Kind, Shape, array, by_kind, tree_key};
use crate::tree::{Direction, Leaf, Lookup, MemoryNodes, PLACE_WORDS, Range, Tree, append_words, place_of};

/// Progress of a walk over a partition's keys.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// The last key of a tree that was delivered.
    last: Vec<u64>,
    /// The next bucket of a hash index.
    bucket: u64,
}

fn walk_tree<P: Platform, const W: usize>(
    c: P::Core,
    tree: &Tree<P, MemoryNodes, W>,
    words: usize,
    walk: &mut Walk,
    most: usize,
    keys: &mut Vec<u64>,
) -> bool {
    let lower = match walk.last.is_empty() {
        true => Bound::Unbounded,
        false => Bound::Excluded(tree_key(&walk.last)),
    };
    let before = keys.len();
    let mut more = false;
    tree.scan(c, &Range { lower, upper: Bound::Unbounded }, Direction::Forward, false, &mut |leaf: Leaf<
        '_,
        W,
    >| {
        for entry in leaf.entries {
            match W {
                // SAFETY: a key of the tree, whose rest stays until the end of the epoch.
                PLACE_WORDS => unsafe { append_words(&entry.key, words, keys) },
                _ => keys.extend_from_slice(&entry.key),
            }
        }
        more = keys.len() - before >= most * words;
        if more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(last) = keys[before..].chunks_exact(words).last() {
        walk.last.clear();
        walk.last.extend_from_slice(last);
    }
    more
}

/// Finds keys, each larger than the one before, with one descent for each leaf instead of each key.
fn look_up_tree<P: Platform, const W: usize>(
    c: P::Core,
    tree: &Tree<P, MemoryNodes, W>,
    words: usize,
    keys: &[u64],
    lookups: &mut Vec<Lookup>,
) {
    if W == PLACE_WORDS {
        lookups.extend(keys.chunks_exact(words).map(|key| tree.get(c, &place_of(key))));
        return;
    }
    let mut keys = keys.chunks_exact(W).map(array::<W>).peekable();
    let (Some(first), Some(last)) = (keys.peek().copied(), keys.clone().last()) else { return };
    let range = Range { lower: Bound::Included(*first), upper: Bound::Included(*last) };
    tree.scan(c, &range, Direction::Forward, false, &mut |leaf: Leaf<'_, W>| {
        for entry in leaf.entries {
            while let Some(key) = keys.next_if(|key| **key <= entry.key) {
                // A missing key may belong to another leaf.
                let found = Lookup { value: Some(entry.value), witness: leaf.witness };
                lookups.push(if *key == entry.key { found } else { tree.get(c, key) });
            }
        }
        ControlFlow::Continue(())
    });
    keys.for_each(|key| lookups.push(tree.get(c, key)));
}

impl<P: Platform> Partition<P> {
    /// Words of a key.
    fn key_words(&self) -> usize {
        match self.kind.shape() {
            Shape::Tree(words) => words,
            Shape::Hash(_) => 1,
        }
    }

    /// Finds several keys, word by word one after the other; in a tree each larger than the one
    /// before.
    pub fn get_ascending(&self, c: P::Core, keys: &[u64], lookups: &mut Vec<Lookup>) {
        self.touch(c);
        by_kind!(&self.kind,
            hash => lookups.extend(keys.iter().map(|key| hash.get(c, *key))),
            tree tree => look_up_tree(c, tree, self.key_words(), keys, lookups),
        );
    }

    /// Appends some keys to `keys`, word by word, and advances `walk`, by about `most` keys; false
    /// if the walk has come to the end. A walk delivers every key that is there from its beginning
    /// to its end.
    pub fn walk(&self, c: P::Core, walk: &mut Walk, most: usize, keys: &mut Vec<u64>) -> bool {
        self.touch(c);
        by_kind!(&self.kind,
            hash => {
                let enough = keys.len() + most;
                let end = hash.buckets().min(walk.bucket + 4 * most as u64);
                while walk.bucket < end && keys.len() < enough {
                    hash.keys_of(c, walk.bucket, keys);
                    walk.bucket += 1;
                }
                walk.bucket < hash.buckets()
            },
            tree tree => walk_tree(c, tree, self.key_words(), walk, most, keys),
        )
    }
}
