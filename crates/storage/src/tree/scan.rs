//! Range scans, leaf by leaf.
//!
//! A scan holds no latch and no position in a leaf between two visits: it continues by descending
//! to the fence of the leaf it comes from, or to the last key it delivered if the leaf did not fit
//! into one visit.

use std::mem::MaybeUninit;
use std::ops::{Bound, ControlFlow};

use platform::{Intent, Platform};

use super::descend::{Fences, ReadNode, Target};
use super::long::{PLACE_WORDS, is_less};
use super::store::NodeStore;
use super::types::{Beyond, Direction, Entry, Leaf, Range, Restart};
use super::{Retry, Tree};

/// Entries of one visit at most.
const VISIT_ENTRIES_MAX: usize = 64;

/// Copies of one visit's entries.
struct Scratch<const W: usize> {
    /// The first `length` are initialised.
    entries: [MaybeUninit<Entry<W>>; VISIT_ENTRIES_MAX],
    length: usize,
}

impl<const W: usize> Scratch<W> {
    fn new() -> Self {
        Scratch { entries: [const { MaybeUninit::uninit() }; VISIT_ENTRIES_MAX], length: 0 }
    }

    fn push(&mut self, entry: Entry<W>) {
        self.entries[self.length].write(entry);
        self.length += 1;
    }

    fn as_slice(&self) -> &[Entry<W>] {
        // SAFETY: `push` initialised the first `length` entries.
        unsafe { std::slice::from_raw_parts(self.entries.as_ptr().cast::<Entry<W>>(), self.length) }
    }
}

/// The key at which a scan continues, or the end of the scan.
enum ScanContinuation<const W: usize> {
    /// The bound on the side where the scan is.
    From(Bound<[u64; W]>),
    End,
}

/// The content of a leaf in one reading.
struct LeafVisit<P: Platform, S, const W: usize> {
    leaf: ReadNode<P, S, W>,
    /// The same as [`Leaf::removed`].
    removed: u64,
    beyond: Beyond<W>,
    onward: ScanContinuation<W>,
}

/// Starts again if a leaf has a key outside of the fences of the way to it.
///
/// Concurrency: a leaf that takes over the keys of a neighbour keeps its version, and so may its
/// parent, if the neighbour's was unlinked too. Fences read higher up are older than the leaf then,
/// and the scan, which continues at the fence, would deliver the key once more.
fn is_within(within: bool) -> Result<(), Restart> {
    if within { Ok(()) } else { Err(Restart) }
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Tree<P, S, W> {
    /// Visits the part of every leaf that covers keys of the range, in the order of the direction,
    /// until the visitor breaks. With `beyond`, the last visit has the entry past the end of the
    /// range, from a further leaf if necessary. A range whose lower bound is above its upper bound
    /// ends where it begins.
    ///
    /// Concurrency: each visit is consistent in itself and has a witness; the parts of the key
    /// space that the visited leaves cover touch each other. While all witnesses are valid nothing
    /// was inserted into or removed from the range, nor between its end and what lies beyond. The
    /// visitor may take as long as it likes and may use the tree.
    pub fn scan(
        &self,
        c: P::Core,
        range: &Range<W>,
        direction: Direction,
        beyond: bool,
        visit: &mut dyn FnMut(Leaf<'_, W>) -> ControlFlow<()>,
    ) {
        let mut rest = *range;
        loop {
            let mut scratch = Scratch::new();
            let found = self.read_visit(c, &rest, direction, beyond, &mut scratch);
            let entries = scratch.as_slice();
            let (witness, removed) = (found.leaf.witness(), found.removed);
            let flow = visit(Leaf { entries, witness, removed, beyond: found.beyond });
            match (flow, found.onward, direction) {
                (ControlFlow::Break(()), _, _) | (_, ScanContinuation::End, _) => return,
                (_, ScanContinuation::From(bound), Direction::Forward) => rest.lower = bound,
                (_, ScanContinuation::From(bound), Direction::Reverse) => rest.upper = bound,
            }
        }
    }

    fn read_visit(
        &self,
        c: P::Core,
        range: &Range<W>,
        direction: Direction,
        beyond: bool,
        scratch: &mut Scratch<W>,
    ) -> LeafVisit<P, S, W> {
        let mut retry = Retry::of(self);
        loop {
            scratch.length = 0;
            let attempt = match direction {
                Direction::Forward => self.read_forward(c, range, beyond, scratch),
                Direction::Reverse => self.read_reverse(c, range, beyond, scratch),
            };
            match attempt {
                Ok(visit) if visit.leaf.validate(c) => return visit,
                _ => retry.again::<P>(c),
            }
        }
    }

    fn read_forward(
        &self,
        c: P::Core,
        range: &Range<W>,
        wants_beyond: bool,
        scratch: &mut Scratch<W>,
    ) -> Result<LeafVisit<P, S, W>, Restart> {
        let start = match &range.lower {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[0; W],
        };
        let mut fences = Fences::new();
        let leaf = self.descend(c, Target::Key(start), &mut fences)?;
        let removed = self.removed_from(&leaf, &fences);
        let entries = leaf.node.entries();
        if let (Some(fence), Some(last)) = (&fences.high, entries.checked_sub(1)) {
            is_within(self.is_read_less(c, &leaf, last, fence)?)?;
        }
        let from = self.place_of_lower(c, &leaf, &range.lower, entries)?;
        let to = self.place_of_upper(c, &leaf, &range.upper, entries)?.max(from);
        let taken = (to - from).min(VISIT_ENTRIES_MAX);
        let with_beyond = usize::from(wants_beyond && to < entries);
        leaf.node.touch(c, from, from + taken + with_beyond, Intent::Read);
        for index in from..from + taken {
            scratch.push(leaf.node.entry(index));
        }
        if from + taken < to {
            let onward = ScanContinuation::From(Bound::Excluded(leaf.node.key(from + taken - 1)));
            return Ok(LeafVisit { leaf, removed, beyond: Beyond::Unknown, onward });
        }
        let (beyond, onward) = match fences.high {
            _ if to < entries && wants_beyond => (Beyond::Entry(leaf.node.entry(to)), ScanContinuation::End),
            _ if to < entries => (Beyond::Unknown, ScanContinuation::End),
            None if wants_beyond => (Beyond::Supremum, ScanContinuation::End),
            None => (Beyond::Unknown, ScanContinuation::End),
            Some(fence) => {
                let ended = match &range.upper {
                    Bound::Included(key) => is_less::<P, W>(c, key, &fence),
                    Bound::Excluded(key) => !is_less::<P, W>(c, &fence, key),
                    Bound::Unbounded => false,
                };
                let onward = ScanContinuation::From(Bound::Included(fence));
                (Beyond::Unknown, if ended && !wants_beyond { ScanContinuation::End } else { onward })
            }
        };
        Ok(LeafVisit { leaf, removed, beyond, onward })
    }

    fn read_reverse(
        &self,
        c: P::Core,
        range: &Range<W>,
        wants_beyond: bool,
        scratch: &mut Scratch<W>,
    ) -> Result<LeafVisit<P, S, W>, Restart> {
        let target = match &range.upper {
            Bound::Included(key) => Target::Key(key),
            Bound::Excluded(key) => Target::Below(key),
            Bound::Unbounded => Target::Last,
        };
        let mut fences = Fences::new();
        let leaf = self.descend(c, target, &mut fences)?;
        let removed = self.removed_from(&leaf, &fences);
        let entries = leaf.node.entries();
        if let (Some(fence), true) = (&fences.low, entries > 0) {
            is_within(!self.is_read_less(c, &leaf, 0, fence)?)?;
        }
        let to = self.place_of_upper(c, &leaf, &range.upper, entries)?;
        let from = self.place_of_lower(c, &leaf, &range.lower, entries)?.min(to);
        let taken = (to - from).min(VISIT_ENTRIES_MAX);
        let with_beyond = usize::from(wants_beyond && from > 0);
        leaf.node.touch(c, to - taken - with_beyond, to, Intent::Read);
        for index in (to - taken..to).rev() {
            scratch.push(leaf.node.entry(index));
        }
        if from < to - taken {
            let onward = ScanContinuation::From(Bound::Excluded(leaf.node.key(to - taken)));
            return Ok(LeafVisit { leaf, removed, beyond: Beyond::Unknown, onward });
        }
        let (beyond, onward) = match fences.low {
            _ if from > 0 && wants_beyond => {
                (Beyond::Entry(leaf.node.entry(from - 1)), ScanContinuation::End)
            }
            _ if from > 0 => (Beyond::Unknown, ScanContinuation::End),
            None if wants_beyond => (Beyond::Infimum, ScanContinuation::End),
            None => (Beyond::Unknown, ScanContinuation::End),
            Some(fence) => {
                let ended = match &range.lower {
                    Bound::Included(key) | Bound::Excluded(key) => !is_less::<P, W>(c, key, &fence),
                    Bound::Unbounded => false,
                };
                let onward = ScanContinuation::From(Bound::Excluded(fence));
                (Beyond::Unknown, if ended && !wants_beyond { ScanContinuation::End } else { onward })
            }
        };
        Ok(LeafVisit { leaf, removed, beyond, onward })
    }

    /// The value of [`Leaf::removed`], once the leaf is validated.
    ///
    /// Concurrency: the stamp of a node belongs to its version, and moves to an ancestor with the
    /// ancestor's version. So a leaf that covers keys of one that was unlinked is reached through
    /// an ancestor that was read with the stamp.
    fn removed_from(&self, leaf: &ReadNode<P, S, W>, fences: &Fences<W>) -> u64 {
        // The line was declared, and read with acquire, by the load of the root's name; raised
        // before the root is replaced.
        P::peek(&self.anchor().stamp).max(fences.removed).max(leaf.node.stamp())
    }

    /// Returns true if a key of a leaf that is not validated yet is less than a fence that is.
    #[inline(always)]
    fn is_read_less(
        &self,
        c: P::Core,
        leaf: &ReadNode<P, S, W>,
        index: usize,
        fence: &[u64; W],
    ) -> Result<bool, Restart> {
        let key = leaf.node.touched_key(c, index);
        if W == PLACE_WORDS && !leaf.validate(c) {
            return Err(Restart);
        }
        Ok(is_less::<P, W>(c, &key, fence))
    }

    /// Entries below the range.
    #[inline]
    fn place_of_lower(
        &self,
        c: P::Core,
        leaf: &ReadNode<P, S, W>,
        bound: &Bound<[u64; W]>,
        entries: usize,
    ) -> Result<usize, Restart> {
        match bound {
            Bound::Included(key) => leaf.node.rank::<false>(c, key, entries, leaf.version),
            Bound::Excluded(key) => leaf.node.rank::<true>(c, key, entries, leaf.version),
            Bound::Unbounded => Ok(0),
        }
    }

    /// Entries below the end of the range.
    #[inline]
    fn place_of_upper(
        &self,
        c: P::Core,
        leaf: &ReadNode<P, S, W>,
        bound: &Bound<[u64; W]>,
        entries: usize,
    ) -> Result<usize, Restart> {
        match bound {
            Bound::Included(key) => leaf.node.rank::<true>(c, key, entries, leaf.version),
            Bound::Excluded(key) => leaf.node.rank::<false>(c, key, entries, leaf.version),
            Bound::Unbounded => Ok(entries),
        }
    }
}
