//! Names of the parts of indexes.

/// A part of an index, for reports of what lies where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPart {
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

impl IndexPart {
    /// The name of the part in reports.
    pub fn name(self) -> &'static str {
        match self {
            IndexPart::Anchor => "anchor",
            IndexPart::Root => "root",
            IndexPart::Inner => "inner node",
            IndexPart::Leaf => "leaf",
            IndexPart::Buckets => "buckets",
            IndexPart::Stamps => "stamps",
            IndexPart::Gaps => "gaps",
            IndexPart::Descriptors => "descriptors",
        }
    }
}
