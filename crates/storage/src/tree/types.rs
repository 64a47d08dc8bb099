//! Arguments and results of the tree's operations.

use std::ops::{Bound, RangeBounds};

use platform::Intent;

/// Name of a node, given by the [`NodeStore`](super::NodeStore): what parents hold. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// The data read is out of date, or not available yet: start again from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart;

/// A leaf as it was read. While [`Tree::validate`](super::Tree::validate) accepts it, no key was
/// inserted into or removed from the part of the key space that the leaf covered. A witness means
/// something within the epoch that it was made in. Only indexes make witnesses, since a validation
/// follows the name of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Witness {
    /// The leaf.
    pub(crate) node: NodeId,
    /// Its version.
    pub(crate) version: u64,
}

/// Result of a point lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The value, if the key is there.
    pub value: Option<u64>,
    /// The leaf where the key is or would be.
    pub witness: Witness,
}

/// Result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The key is in the tree now.
    Inserted {
        /// At least the largest stamp with which this key was ever removed.
        stamp: u64,
    },
    /// The key was there; nothing changed.
    Exists {
        /// Its value.
        value: u64,
        /// Its leaf.
        witness: Witness,
    },
    /// The guard refused; nothing changed.
    Refused,
}

/// Result of the insertion of several keys: how many of the first were inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The number of keys that were inserted.
    pub inserted: usize,
    /// At least the largest stamp with which one of them was ever removed.
    pub stamp: u64,
}

/// The neighbour above a key that is about to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Value of the next larger key in the tree.
    Entry(u64),
    /// There is no larger key.
    Supremum,
}

/// Decides about an insertion when its place is known (next-key locking).
///
/// A closure `FnMut(Next) -> bool` is a guard.
pub trait Guard {
    /// True if the guard needs the neighbour. A neighbour in the following leaf costs a second
    /// descent.
    const WANTS_NEXT: bool;

    /// Returns true if the insertion may happen; called at most once a key, with the leaf latched:
    /// the guard must neither wait nor use the tree. `next` was the neighbour at a moment when the
    /// leaf was already latched. `next` is [`Next::Supremum`] if the guard does not need the
    /// neighbour.
    fn allow(&mut self, next: Next) -> bool;
}

/// A guard that allows every insertion, at no cost.
#[derive(Clone, Copy, Debug)]
pub struct NoGuard;

impl Guard for NoGuard {
    const WANTS_NEXT: bool = false;

    #[inline(always)]
    fn allow(&mut self, _: Next) -> bool {
        true
    }
}

impl<F: FnMut(Next) -> bool> Guard for F {
    const WANTS_NEXT: bool = true;

    fn allow(&mut self, next: Next) -> bool {
        self(next)
    }
}

/// The effect of one insertion or removal on one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafChange {
    /// The leaf, and its version until then.
    pub before: Witness,
    /// The leaf and its version from then on; `None` if it became empty and was unlinked.
    pub after: Option<Witness>,
    /// The new leaf that took over part of the key space of `before`, if it was split.
    pub sibling: Option<Witness>,
}

/// Words of the longest keys.
pub(super) const KEY_WORDS_MAX: usize = 8;

/// The leaf of a transaction's last insertion: valid for the next insertion while the leaf has this
/// version, within the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct InsertHint {
    /// Which tree: the address of its anchor.
    pub(super) tree: usize,
    /// The leaf after the insertion.
    pub(super) after: Witness,
    /// Place of the entry.
    pub(super) at: usize,
    /// Smallest key beyond the leaf, if it was the last entry and there is a bound.
    pub(super) high: Option<[u64; KEY_WORDS_MAX]>,
    /// Largest stamp known above the leaf.
    pub(super) stamp_above: u64,
    /// The neighbour above, if the entry was the last of its leaf and the guard needs the
    /// neighbour, and the leaf where it was read, if there is one.
    pub(super) above: Option<(Next, Option<Witness>)>,
}

impl InsertHint {
    /// Returns true if a key above the leaf's last entry still belongs to the leaf.
    pub(super) fn is_below_fence<const W: usize>(&self, key: &[u64; W]) -> bool {
        self.high.is_none_or(|high| key[..] < high[..W])
    }
}

/// Changes to leaves, in order, for a transaction that holds witnesses of leaves which it changes
/// itself; and where it inserted last, because the next key often follows.
#[derive(Clone, Debug, Default)]
pub struct LeafChanges {
    list: Vec<LeafChange>,
    hint: Option<InsertHint>,
}

impl LeafChanges {
    /// An empty list.
    pub fn new() -> Self {
        LeafChanges::default()
    }

    /// Forgets everything and keeps the memory; to be called before the transaction's epoch ends.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        self.hint = None;
    }

    pub(super) fn hint(&self) -> Option<&InsertHint> {
        self.hint.as_ref()
    }

    /// The transaction inserted behind the last insertion.
    #[inline]
    pub(super) fn move_hint(&mut self, after: Witness, at: usize) {
        if let Some(hint) = &mut self.hint {
            (hint.after, hint.at) = (after, at);
        }
    }

    #[inline]
    pub(super) fn set_hint(&mut self, hint: InsertHint) {
        self.hint = Some(hint);
    }

    /// The changes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &LeafChange> {
        self.list.iter()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, change: LeafChange) {
        self.list.push(change);
    }

    /// Updates witnesses, and clears the changes: a witness that was valid before one of these
    /// changes is valid again after it, together with the sibling. A witness that another
    /// transaction has invalidated stays invalid. A witness of a leaf that was unlinked stays
    /// invalid too: its neighbour, which covers the keys now, was not read. Removals therefore
    /// belong behind the validation (Silo, section 4.5, unhooks deleted records after the commit).
    #[inline]
    pub fn apply(&mut self, witnesses: &mut Vec<Witness>) {
        if witnesses.is_empty() {
            self.list.clear();
            return;
        }
        for change in self.list.drain(..) {
            let mut matched = false;
            for witness in witnesses.iter_mut().filter(|witness| **witness == change.before) {
                if let Some(after) = change.after {
                    *witness = after;
                    matched = true;
                }
            }
            if let (true, Some(sibling)) = (matched, change.sibling) {
                witnesses.push(sibling);
            }
        }
    }
}

/// A range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<const W: usize> {
    /// Bound of the smallest key.
    pub lower: Bound<[u64; W]>,
    /// Bound of the largest key.
    pub upper: Bound<[u64; W]>,
}

impl<const W: usize> Range<W> {
    /// The range of any of Rust's range expressions.
    pub fn new(range: impl RangeBounds<[u64; W]>) -> Self {
        Range { lower: range.start_bound().cloned(), upper: range.end_bound().cloned() }
    }
}

/// Order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// Order and purpose of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOrder {
    /// Order of the rows.
    pub direction: Direction,
    /// Use of the rows.
    pub intent: Intent,
}

/// A key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<const W: usize> {
    /// The key.
    pub key: [u64; W],
    /// The value.
    pub value: u64,
}

/// The first entry past the end of a scanned range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond<const W: usize> {
    /// Not requested, or not reached yet: more visits follow.
    Unknown,
    /// The first entry past the end, in the direction of the scan.
    Entry(Entry<W>),
    /// There is none above (forward scans).
    Supremum,
    /// There is none below (reverse scans).
    Infimum,
}

/// One visit of a scan: a consistent copy of a part of one leaf.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a, const W: usize> {
    /// Entries within the range, in the order of the scan; often none in the last visit.
    pub entries: &'a [Entry<W>],
    /// The leaf: entries and `beyond` were all read from it at this version. Several visits in a
    /// row may name one leaf.
    pub witness: Witness,
    /// At least the largest stamp with which a key was removed from the part of the key space that
    /// the visit covers.
    pub removed: u64,
    /// The entry past the end, in the last visit of a scan that requests it.
    pub beyond: Beyond<W>,
}
