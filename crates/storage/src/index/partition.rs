//! A partition of an index: lookups, changes and scans.

use std::ops::ControlFlow;
use std::ptr::NonNull;

use platform::{Code, Intent, LINE_BYTES, OutOfMemory, Platform};
use terms::rows::KeyBounds;

use super::gaps::{ErasedGapGuard, Gap, GapGuard, GapWords, TreeGuard};
use super::kind::{Kind, Rename, Shape, by_kind, tree_key};
use super::witnesses::Witnesses;
use crate::arena::zero_words;
use crate::hash::Approach;
use crate::index_part::IndexPart;
use crate::local::Local;
use crate::tree::{
    Beyond, Direction, Guard, Insert, Leaf, LeafChanges, Lookup, MemoryNodes, PLACE_WORDS, Range, Run, Tree,
    Witness,
};

/// Lock words for absent keys of one partition of a hash index, as a power of two; keys share them.
const ABSENT_BITS: u32 = 6;
const ABSENT_WORDS: usize = 1 << ABSENT_BITS;
/// Entries of one visit of a scan are handed on in groups of at most this many.
const VISIT_VALUES: usize = 128;

/// One visit of a scan.
pub struct Visit<'a, P: Platform> {
    /// Values within the range, in the order of the scan.
    pub values: &'a [u64],
    /// Witness of the leaf that was read: valid while no key is inserted into or removed from it.
    pub witness: Witness,
    /// At least the largest stamp with which a key was removed from there.
    pub removed: u64,
    /// The gap above the end of the range, in the last visit of a forward scan that requests it.
    pub gap: Option<Gap<'a, P>>,
}

/// A partition of an index: a descriptor, on a line of its own.
#[repr(align(64))]
pub struct Partition<P: Platform> {
    pub(super) kind: Kind<P>,
    /// The [`GapWords`] on their line, then the words for absent keys.
    locks: NonNull<P::Word>,
}

// SAFETY: `locks` points to shared words; the rest is Send and Sync.
unsafe impl<P: Platform> Send for Partition<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Partition<P> {}

/// Inserts a run of keys into a tree; none of long keys.
#[inline(always)]
fn insert_run<P: Platform, G: Guard, const W: usize>(
    c: P::Core,
    tree: &Tree<P, MemoryNodes, W>,
    keys: &[u64],
    values: &[u64],
    guard: G,
    changes: &mut LeafChanges,
) -> Run {
    if W == PLACE_WORDS {
        return Run::default();
    }
    tree.insert_run(c, keys.as_chunks().0, values, guard, changes)
}

impl<P: Platform> Partition<P> {
    /// An empty partition.
    ///
    /// # Safety
    /// The memory behind `local` outlives the partition; all methods are called inside an epoch of
    /// that database.
    pub unsafe fn new(c: P::Core, local: &mut Local<P>, shape: Shape) -> Result<Self, OutOfMemory> {
        const { assert!(size_of::<Self>() == LINE_BYTES) };
        // SAFETY: passed on to the caller.
        let kind = unsafe { Kind::new(c, local, shape)? };
        let words = LINE_BYTES / 8 + if matches!(kind, Kind::Hash(_)) { ABSENT_WORDS } else { 0 };
        let locks = local.allocate(c, words * 8)?;
        // SAFETY: a fresh block of this size, aligned for words.
        unsafe { zero_words::<P>(locks, words) };
        Ok(Partition { kind, locks: locks.cast() })
    }

    /// Declares that the descriptor is read.
    #[inline(always)]
    pub(super) fn touch(&self, c: P::Core) {
        P::touch(c, self, LINE_BYTES, Intent::Read);
    }

    /// The words for all gaps of the partition.
    pub fn gap_words(&self) -> &GapWords<P> {
        const { assert!(size_of::<GapWords<P>>() <= LINE_BYTES) };
        // SAFETY: the words of the first line, initialised in `new`, live as long as the database's
        // memory.
        unsafe { self.locks.cast().as_ref() }
    }

    /// The lock word for the gap above all keys.
    pub fn end_word(&self) -> &P::Word {
        &self.gap_words().end
    }

    /// The lock word for the absence of this key, in a hash index.
    pub fn absent_word(&self, key: u64) -> &P::Word {
        let Kind::Hash(hash) = &self.kind else { panic!("trees have gaps") };
        let slot = hash.part(key, ABSENT_BITS);
        // SAFETY: as `end_word`; the slot is below `ABSENT_WORDS`, and hash indexes have
        // `ABSENT_WORDS` words behind the first line.
        unsafe { self.locks.add(LINE_BYTES / 8 + slot).as_ref() }
    }

    /// Returns true if it is a hash index, which has no order.
    pub fn is_hash(&self) -> bool {
        matches!(self.kind, Kind::Hash(_))
    }

    /// Prefetches the bucket or leaf that a lookup of this key reads.
    #[inline(always)]
    pub fn prefetch(&self, c: P::Core, key: &[u64]) {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => hash.prefetch(c, key[0]),
            _ => self.prefetch_leaf(c, key),
        }
    }

    fn prefetch_leaf(&self, c: P::Core, key: &[u64]) {
        by_kind!(&self.kind, key key, _ => {}, tree tree => tree.prefetch(c, key));
    }

    /// The bucket of a key of a later lookup; `None` in a tree, which has to be descended.
    #[inline(always)]
    pub fn approach(&self, c: P::Core, key: &[u64]) -> Option<Approach<'_, P>> {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => Some(hash.approach(c, key[0])),
            _ => None,
        }
    }

    /// Finds a key.
    #[inline(always)]
    pub fn get(&self, c: P::Core, key: &[u64]) -> Lookup {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => hash.get(c, key[0]),
            _ => self.get_from_tree(c, key),
        }
    }

    fn get_from_tree(&self, c: P::Core, key: &[u64]) -> Lookup {
        by_kind!(&self.kind, key key, hash => hash.get(c, key[0]), tree tree => tree.get(c, key))
    }

    /// Inserts a key. Witnesses that were valid before are updated with the caller's own insertion.
    ///
    /// # Safety
    /// The value is the name of a row of the index's table, since all that find it take it for one,
    /// and the row is not given back before the key is removed or names another.
    #[inline(always)]
    pub unsafe fn insert<G: GapGuard<P>>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64],
        value: u64,
        guard: &mut G,
        witnesses: &mut Witnesses,
    ) -> Result<Insert, OutOfMemory> {
        if G::WANTS_GAP {
            self.insert_guarded::<true>(c, local, key, value, guard, witnesses)
        } else {
            self.insert_guarded::<false>(c, local, key, value, guard, witnesses)
        }
    }

    /// Inserts with a guard that needs the gap or not; otherwise like [`Self::insert`].
    fn insert_guarded<const GAP: bool>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64],
        value: u64,
        guard: &mut dyn ErasedGapGuard<P>,
        witnesses: &mut Witnesses,
    ) -> Result<Insert, OutOfMemory> {
        self.touch(c);
        P::code(c, if self.is_hash() { Code::InsertHash } else { Code::InsertTree });
        let end = self.end_word();
        by_kind!(&self.kind, key key,
            hash => {
                let allow = || guard.ask(GAP.then(|| Gap::Word(self.absent_word(key[0]))));
                let (result, change) = hash.insert(c, local, key[0], value, allow)?;
                if let Some((before, after)) = change {
                    let changed = witnesses.list.iter_mut().filter(|witness| **witness == before);
                    changed.for_each(|witness| *witness = after);
                }
                Ok(result)
            },
            tree tree => {
                let guard = TreeGuard::<P, GAP> { guard, end };
                let result = tree.insert(c, local, key, value, guard, &mut witnesses.changes);
                witnesses.apply_changes();
                result
            },
        )
    }

    /// Inserts the first of these keys, one behind the other in `keys`, as many as follow right
    /// behind the caller's last insertion where that went; none in a hash index. The caller inserts
    /// the next one by [`Self::insert`], and comes back with those behind.
    ///
    /// # Safety
    /// As [`Self::insert`], for each value.
    pub unsafe fn insert_run<G: GapGuard<P>>(
        &self,
        c: P::Core,
        keys: &[u64],
        values: &[u64],
        guard: &mut G,
        witnesses: &mut Witnesses,
    ) -> Run {
        if G::WANTS_GAP {
            self.insert_run_guarded::<true>(c, keys, values, guard, witnesses)
        } else {
            self.insert_run_guarded::<false>(c, keys, values, guard, witnesses)
        }
    }

    fn insert_run_guarded<const GAP: bool>(
        &self,
        c: P::Core,
        keys: &[u64],
        values: &[u64],
        guard: &mut dyn ErasedGapGuard<P>,
        witnesses: &mut Witnesses,
    ) -> Run {
        self.touch(c);
        let end = self.end_word();
        by_kind!(&self.kind,
            _ => Run::default(),
            tree tree => {
                let guard = TreeGuard::<P, GAP> { guard, end };
                let run = insert_run(c, tree, keys, values, guard, &mut witnesses.changes);
                witnesses.apply_changes();
                run
            },
        )
    }

    /// Removes a key that has this value, and remembers `stamp`; false if the key is not there or
    /// has another value.
    pub fn remove(&self, c: P::Core, local: &mut Local<P>, key: &[u64], value: u64, stamp: u64) -> bool {
        self.touch(c);
        P::code(c, Code::Remove);
        let mut changes = LeafChanges::new();
        let wanted = |found| found == value;
        let removed = by_kind!(&self.kind, key key,
            hash => hash.remove_if(c, key[0], wanted, stamp),
            tree tree => tree.remove_if(c, local, key, wanted, stamp, &mut changes),
        );
        removed.is_some()
    }

    /// Makes a key name another value; false if the key is not there.
    ///
    /// # Safety
    /// As [`Self::insert`].
    pub unsafe fn replace(&self, c: P::Core, key: &[u64], value: u64) -> bool {
        self.touch(c);
        by_kind!(&self.kind, key key,
            hash => hash.replace(c, key[0], value),
            tree tree => tree.replace(c, key, value),
        )
    }

    /// Visits the values with keys in `range` until `visit` breaks. With `gap`, a forward scan also
    /// names the gap above the range. A hash index has no order: it panics.
    pub fn scan(
        &self,
        c: P::Core,
        range: KeyBounds<'_>,
        direction: Direction,
        gap: bool,
        visit: &mut dyn FnMut(Visit<'_, P>) -> ControlFlow<()>,
    ) {
        self.touch(c);
        by_kind!(&self.kind,
            _ => panic!("a hash index cannot be scanned"),
            tree tree => self.scan_tree(c, tree, range, direction, gap, visit),
        );
    }

    fn scan_tree<const W: usize>(
        &self,
        c: P::Core,
        tree: &Tree<P, MemoryNodes, W>,
        range: KeyBounds<'_>,
        direction: Direction,
        gap: bool,
        visit: &mut dyn FnMut(Visit<'_, P>) -> ControlFlow<()>,
    ) {
        let end = self.end_word();
        let gap = gap && direction == Direction::Forward;
        let range = Range::new(tree_key(range.low)..=tree_key(range.high));
        tree.scan(c, &range, direction, gap, &mut |leaf: Leaf<'_, W>| {
            let mut values = [0; VISIT_VALUES];
            let mut groups = leaf.entries.chunks(VISIT_VALUES).peekable();
            loop {
                let group = groups.next().unwrap_or(&[]);
                for (slot, entry) in values.iter_mut().zip(group) {
                    *slot = entry.value;
                }
                let last = groups.peek().is_none();
                let gap = match leaf.beyond {
                    Beyond::Entry(entry) if last => Some(Gap::Row(entry.value)),
                    Beyond::Supremum if last => Some(Gap::Word(end)),
                    _ => None,
                };
                let (witness, removed) = (leaf.witness, leaf.removed);
                visit(Visit { values: &values[..group.len()], witness, removed, gap })?;
                if last {
                    return ControlFlow::Continue(());
                }
            }
        });
    }

    /// Visits the values of a hash index in no particular order, while no core changes it.
    pub fn for_each(&self, c: P::Core, visit: &mut dyn FnMut(u64)) {
        match &self.kind {
            Kind::Hash(hash) => hash.for_each(c, &mut |_, value| visit(value)),
            _ => panic!("trees are scanned"),
        }
    }
}

impl<P: Platform> Partition<P> {
    /// Another descriptor of the same partition.
    ///
    /// # Safety
    /// As [`Self::new`].
    pub unsafe fn alias(&self) -> Self {
        Partition { kind: self.kind.alias(), locks: self.locks }
    }

    /// Returns true if it is the same partition, perhaps through another descriptor.
    pub fn is_same(&self, other: &Self) -> bool {
        self.locks == other.locks
    }

    /// Another partition of this shape with the same keys, each with the value that `rename` gives
    /// for its own, for tables that are not written any more. No core changes this partition
    /// meanwhile.
    ///
    /// # Safety
    /// As [`Self::new`].
    pub unsafe fn copy(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        rename: Rename<'_, P>,
    ) -> Result<Self, OutOfMemory> {
        // SAFETY: passed on to the caller.
        let copy = unsafe { Self::new(c, local, self.kind.shape())? };
        copy.kind.copy_from(&self.kind, c, local, rename)?;
        // A transaction that sees a key absent must still come later than the removal of the key.
        P::poke(&copy.gap_words().removed, P::peek(&self.gap_words().removed));
        Ok(copy)
    }

    /// The number of keys, while no core changes the partition; `None` if the partition has room
    /// for all keys that it will ever have.
    pub fn entries(&self, c: P::Core) -> Option<u64> {
        by_kind!(&self.kind, hash => hash.entries(c), tree tree => Some(tree.entries(c)))
    }

    /// Shows where the parts of the partition lie. What other cores change meanwhile is shown as it
    /// was or as it is.
    pub fn visit_parts(&self, c: P::Core, visit: &mut dyn FnMut(IndexPart, *const u8, usize)) {
        let words = LINE_BYTES / 8 + if self.is_hash() { ABSENT_WORDS } else { 0 };
        visit(IndexPart::Gaps, self.locks.as_ptr().cast(), words * 8);
        by_kind!(&self.kind, hash => hash.visit_parts(visit), tree tree => tree.visit_parts(c, visit));
    }
}
