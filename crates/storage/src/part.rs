//! Names of the parts of indexes.

/// A part of an index, for reports of what lies where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The word that names the root of a tree.
    Anchor,
    /// The root of a tree.
    Root,
    /// Another inner node of a tree.
    Inner,
    /// A leaf of a tree.
    Leaf,
    /// Buckets of a hash index.
    Buckets,
    /// Stamps of a hash index.
    Stamps,
    /// Words for gaps and absent keys.
    Gaps,
    /// The descriptors of the partitions.
    Descriptors,
}

impl Part {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Part::Anchor => "anchor",
            Part::Root => "root",
            Part::Inner => "inner node",
            Part::Leaf => "leaf",
            Part::Buckets => "buckets",
            Part::Stamps => "stamps",
            Part::Gaps => "gaps",
            Part::Descriptors => "descriptors",
        }
    }
}
