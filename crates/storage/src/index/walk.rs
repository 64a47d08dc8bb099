//! All keys of a partition, some at a time, while others change it: for those who copy its rows.

use std::ops::{Bound, ControlFlow};

use platform::Platform;

use super::{Kind, Partition, array};
use crate::tree::{Direction, Leaf, MemoryNodes, Range, Tree};

/// How far a partition's keys were walked.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// The last key of a tree that was met.
    last: Vec<u64>,
    /// The next bucket of a hash index.
    bucket: u64,
}

fn walk_tree<P: Platform, const W: usize>(
    c: P::Core,
    tree: &Tree<P, MemoryNodes, W>,
    walk: &mut Walk,
    most: usize,
    keys: &mut Vec<u64>,
) -> bool {
    let lower = match walk.last.is_empty() {
        true => Bound::Unbounded,
        false => Bound::Excluded(*array(&walk.last)),
    };
    let before = keys.len();
    let mut more = false;
    tree.scan(c, &Range { lower, upper: Bound::Unbounded }, Direction::Forward, false, &mut |leaf: Leaf<
        '_,
        W,
    >| {
        leaf.entries.iter().for_each(|entry| keys.extend_from_slice(&entry.key));
        more = keys.len() - before >= most * W;
        if more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(last) = keys[before..].chunks_exact(W).last() {
        walk.last.clear();
        walk.last.extend_from_slice(last);
    }
    more
}

impl<P: Platform> Partition<P> {
    /// Appends some keys to `keys`, word by word, and moves `walk` on, by about `most` keys; false if it has come to the end. A
    /// walk meets every key that is there from its beginning to its end.
    pub fn walk(&self, c: P::Core, walk: &mut Walk, most: usize, keys: &mut Vec<u64>) -> bool {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => {
                let enough = keys.len() + most;
                let end = hash.buckets().min(walk.bucket + 4 * most as u64);
                while walk.bucket < end && keys.len() < enough {
                    hash.keys_of(c, walk.bucket, keys);
                    walk.bucket += 1;
                }
                walk.bucket < hash.buckets()
            }
            Kind::Tree1(tree) => walk_tree(c, tree, walk, most, keys),
            Kind::Tree2(tree) => walk_tree(c, tree, walk, most, keys),
            Kind::Tree4(tree) => walk_tree(c, tree, walk, most, keys),
            Kind::Tree5(tree) => walk_tree(c, tree, walk, most, keys),
            Kind::Tree8(tree) => walk_tree(c, tree, walk, most, keys),
        }
    }
}
