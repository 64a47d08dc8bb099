//! Translation of addresses: the TLBs of a core, and the entries of page tables behind them.
//!
//! Optional facts, for which there is no rule: on a machine without them translation is free. Files
//! have them in the table `tlb` of `core`.

use super::fact::Fact;

/// Address translation of a core. Its hardware threads share it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Translation {
    /// Sizes of pages and of what page tables have for each.
    pub pages: Fact<PageSizes>,
    /// TLBs in the order in which they are asked.
    pub levels: Vec<TlbLevel>,
}

/// Sizes in bytes, powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PageSizes {
    /// A page by default.
    pub small: u64,
    /// A page of memory for which a program requests huge ones.
    pub huge: u64,
    /// The part of a page table that a page has for itself: an entry of a radix tree, or a group of
    /// entries of a hashed table, in which neighbours are not together.
    pub entry: u64,
}

/// One level of TLB.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TlbLevel {
    /// Its arrays.
    pub arrays: Fact<TlbArrays>,
    /// Time by which an access takes longer if this level has its translation and those before have
    /// not; `None` for the first level.
    pub hit_ns: Option<Fact<f64>>,
}

/// Arrays of a level, by the size of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TlbArrays {
    /// One for all sizes.
    Shared(TlbSize),
    /// One for each size; `None` if the level has no translations of that size.
    Apart {
        /// For small pages.
        small: Option<TlbSize>,
        /// For huge pages.
        huge: Option<TlbSize>,
    },
}

/// Size of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TlbSize {
    /// Translations in it.
    pub entries: usize,
    /// Translations in a set.
    pub ways: usize,
}

impl TlbArrays {
    /// The arrays with the keys that files have for them.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, TlbSize)> {
        let all = match *self {
            TlbArrays::Shared(size) => [("shared", Some(size)), ("", None)],
            TlbArrays::Apart { small, huge } => [("small", small), ("huge", huge)],
        };
        all.into_iter().filter_map(|(name, size)| Some((name, size?)))
    }
}
