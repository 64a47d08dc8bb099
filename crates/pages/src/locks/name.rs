//! Names of what is locked.
//!
//! A name is a number of 64 bits that is drawn from the place. Two places that have the same name
//! by chance are locked together, which excludes more than is needed, and never less.

use terms::random::SplitMix;
/// The kind of a named place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum LockPlace {
    /// A key of an index, whether or not there is an entry with it.
    Key = 1,
    /// The gap right below a key, which may be that of an entry or a separator of leaves.
    GapBelow = 2,
    /// The gap above all keys.
    GapAtEnd = 3,
}

/// The name of a place in a tree.
#[inline]
pub(crate) fn name(tree: u32, place: LockPlace, key: &[u64]) -> u64 {
    let mut hash = mix(u64::from(tree) << 8 | place as u64);
    for word in key {
        hash = mix(hash ^ *word);
    }
    // 0 stands for no name.
    hash.max(1)
}

/// Makes neighbours unlike.
#[inline]
pub(super) fn mix(value: u64) -> u64 {
    SplitMix::new(value).next()
}
