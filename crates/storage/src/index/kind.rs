//! The structure behind a partition: a tree for keys of some width, or a hash index.

use std::ops::ControlFlow;

use platform::{OutOfMemory, Platform, SharedWord};

use super::gaps::{Open, TreeGuard};
use crate::hash::{HashIndex, Spread};
use crate::local::Local;
use crate::tree::{
    Direction, LONG_KEY_WORDS_MAX, Leaf, LeafChanges, MemoryNodes, PLACE_WORDS, Range, Tree, place_of,
};

/// The structure of a new index.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A tree for keys of this many words: 1, 2, 4, 5, 8, or up to 256.
    Tree(usize),
    /// A hash index for keys of one word.
    Hash(Spread),
}

/// Gives the value that a copy of an index has in place of a value of the index.
pub type Rename<'r, P> = &'r mut dyn FnMut(&mut Local<P>, u64) -> Result<u64, OutOfMemory>;

/// A key of the width that the caller's tree has.
#[inline(always)]
pub(super) fn array<const W: usize>(key: &[u64]) -> &[u64; W] {
    key.try_into().expect("a key has as many words as its index")
}

/// A key as a tree takes it, for as long as `key` is borrowed.
#[inline(always)]
pub(super) fn tree_key<const W: usize>(key: &[u64]) -> [u64; W] {
    if W == PLACE_WORDS { place_of(key) } else { *array(key) }
}

/// Declares a variant for each width of keys, and all that has to name them; `$d` is a dollar sign.
macro_rules! widths {
    ($d:tt; $($variant:ident: $words:literal),*) => {
        /// A tree of one of the widths, or a hash index.
        pub(super) enum Kind<P: Platform> {
            $($variant(Tree<P, MemoryNodes, $words>),)*
            Hash(HashIndex<P>),
            /// A tree of long keys, and the words of a key.
            Long(Tree<P, MemoryNodes, PLACE_WORDS>, usize),
        }

        /// Chooses by the kind of an index: one expression for a hash index, one for trees, which
        /// is compiled for each width. There, the words that are named `key` are a key of the tree.
        macro_rules! by_kind {
            ($d kind:expr, $d hash:pat => $d with_hash:expr, tree $d tree:pat => $d with_tree:expr $d(,)?) => {
                match $d kind {
                    Kind::Hash($d hash) => $d with_hash,
                    $(Kind::$variant($d tree) => $d with_tree,)*
                    Kind::Long($d tree, _) => $d with_tree,
                }
            };
            ($d kind:expr, key $d key:ident, $d hash:pat => $d with_hash:expr, tree $d tree:pat => $d with_tree:expr $d(,)?) => {
                match $d kind {
                    Kind::Hash($d hash) => $d with_hash,
                    $(Kind::$variant($d tree) => {
                        let $d key = $crate::index::kind::array($d key);
                        $d with_tree
                    })*
                    Kind::Long($d tree, _) => {
                        let $d key = &$crate::tree::place_of($d key);
                        $d with_tree
                    }
                }
            };
        }

        impl<P: Platform> Kind<P> {
            /// An empty index of this shape.
            ///
            /// # Safety
            /// As [`Tree::new`].
            pub(super) unsafe fn new(c: P::Core, local: &mut Local<P>, shape: Shape) -> Result<Self, OutOfMemory> {
                Ok(match shape {
                    // SAFETY: passed on to the caller.
                    Shape::Hash(spread) => Kind::Hash(unsafe { HashIndex::new(c, local, spread)? }),
                    // SAFETY: passed on to the caller.
                    $(Shape::Tree($words) => Kind::$variant(unsafe { Tree::new(c, MemoryNodes, local)? }),)*
                    Shape::Tree(words) if words <= LONG_KEY_WORDS_MAX => {
                        // SAFETY: passed on to the caller; keys of the tree come from `place_of`.
                        Kind::Long(unsafe { Tree::new(c, MemoryNodes, local)? }, words)
                    }
                    Shape::Tree(words) => unreachable!("no tree has keys of {words} words"),
                })
            }

            pub(super) fn shape(&self) -> Shape {
                match self {
                    Kind::Hash(hash) => Shape::Hash(hash.spread()),
                    $(Kind::$variant(_) => Shape::Tree($words),)*
                    Kind::Long(_, words) => Shape::Tree(*words),
                }
            }

            /// The same index once more.
            pub(super) fn alias(&self) -> Self {
                match self {
                    Kind::Hash(hash) => Kind::Hash(hash.alias()),
                    $(Kind::$variant(tree) => Kind::$variant(tree.alias()),)*
                    Kind::Long(tree, words) => Kind::Long(tree.alias(), *words),
                }
            }

            /// Inserts the keys of another index of this shape, each with the value that `rename`
            /// gives for its own.
            pub(super) fn copy_from(
                &self,
                from: &Self,
                c: P::Core,
                local: &mut Local<P>,
                rename: Rename<'_, P>,
            ) -> Result<(), OutOfMemory> {
                match (from, self) {
                    (Kind::Hash(from), Kind::Hash(to)) => copy_hash(c, local, from, to, rename),
                    $((Kind::$variant(from), Kind::$variant(to)) => copy_tree(c, local, from, to, rename),)*
                    (Kind::Long(from, _), Kind::Long(to, _)) => copy_tree(c, local, from, to, rename),
                    _ => unreachable!("a copy has the shape of its original"),
                }
            }
        }
    };
}

widths!($; Tree1: 1, Tree2: 2, Tree4: 4, Tree5: 5, Tree8: 8);

pub(super) use by_kind;

fn copy_hash<P: Platform>(
    c: P::Core,
    local: &mut Local<P>,
    from: &HashIndex<P>,
    to: &HashIndex<P>,
    rename: Rename<'_, P>,
) -> Result<(), OutOfMemory> {
    let mut entries = Vec::new();
    from.for_each(c, &mut |key, value| entries.push((key, value)));
    for (key, value) in entries {
        let value = rename(local, value)?;
        to.insert(c, local, key, value, || true)?;
    }
    Ok(())
}

fn copy_tree<P: Platform, const W: usize>(
    c: P::Core,
    local: &mut Local<P>,
    from: &Tree<P, MemoryNodes, W>,
    to: &Tree<P, MemoryNodes, W>,
    rename: Rename<'_, P>,
) -> Result<(), OutOfMemory> {
    let mut entries = Vec::new();
    from.scan(c, &Range::new(..), Direction::Forward, false, &mut |leaf: Leaf<'_, W>| {
        entries.extend_from_slice(leaf.entries);
        ControlFlow::Continue(())
    });
    let (mut changes, nothing) = (LeafChanges::new(), P::Word::new(0));
    for entry in entries {
        let value = rename(local, entry.value)?;
        // The guard that all other insertions have, for which insertion is compiled already.
        let guard = TreeGuard::<P, false> { guard: &mut Open, end: &nothing };
        to.insert(c, local, &entry.key, value, guard, &mut changes)?;
        changes.clear();
    }
    Ok(())
}
