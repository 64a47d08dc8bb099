//! One index of a table: a tree for keys of 1, 2, 4, 5 or 8 words, or a hash index, and its division into partitions.
//!
//! Each partition has lock words besides its keys, for schemes that lock gaps: one for the gap above the largest key, and,
//! in a hash index, some for absent keys.

mod walk;

use std::ops::ControlFlow;
use std::ptr::NonNull;

use platform::{Intent, LINE_BYTES, OutOfMemory, Platform};

use crate::arena::zero_words;
use crate::catalog::Listed;
use crate::hash::{HashIndex, Spread};
use crate::latch::VersionLatch;
use crate::local::Local;
use crate::part::Part;
use crate::tree::{
    Beyond, Changes, Direction, Guard, Insert, Leaf, Lookup, MemoryNodes, Next, NoGuard, Range, Tree, Witness,
};

pub use walk::Walk;

/// Lock words for absent keys of one partition of a hash index; keys share them.
const ABSENT_WORDS: usize = 64;
/// Entries of one visit of a scan are handed on in groups of at most this many.
const VISIT_VALUES: usize = 128;

/// Whether nothing was inserted into or removed from what the witness saw, at a moment within this call.
///
/// The witness comes from an index of the same platform and from the caller's current epoch.
pub fn witness_is_current<P: Platform>(c: P::Core, witness: &Witness) -> bool {
    let word = std::ptr::with_exposed_provenance::<P::Word>(witness.node.0 as usize);
    // SAFETY: a witness names a tree node in memory or a hash bucket; both begin with their version latch and stay
    // readable within the epoch that the witness comes from.
    VersionLatch::<P>::from_word(unsafe { &*word }).is_current(c, witness.version)
}

/// A gap between keys, named by what a gap lock on it is attached to.
pub enum Gap<'a, P: Platform> {
    /// The gap below this row (its bits in the index).
    Row(u64),
    /// The gap above all keys of a partition, or the gap around an absent key of a hash index.
    Word(&'a P::Word),
}

/// Decides about an insertion with the index latched: it must not wait nor use the index.
pub trait GapGuard<P: Platform> {
    /// Whether the gap is needed; finding it may cost a second descent.
    const WANTS_GAP: bool;
    /// Whether the insertion may split this gap. `None` if the gap was not wanted.
    fn allow(&mut self, gap: Option<Gap<'_, P>>) -> bool;
}

/// Hands a tree's question on to a gap guard.
struct TreeGuard<'a, P: Platform, G> {
    guard: &'a mut G,
    end: &'a P::Word,
}

impl<P: Platform, G: GapGuard<P>> Guard for TreeGuard<'_, P, G> {
    const WANTS_NEXT: bool = G::WANTS_GAP;
    fn allow(&mut self, next: Next) -> bool {
        let gap = match next {
            Next::Entry(bits) => Gap::Row(bits),
            Next::Supremum => Gap::Word(self.end),
        };
        self.guard.allow(G::WANTS_GAP.then_some(gap))
    }
}

/// One visit of a scan.
pub struct Visit<'a, P: Platform> {
    /// Values within the range, in the order of the scan.
    pub values: &'a [u64],
    /// What was read: valid while no key is inserted into or removed from it.
    pub witness: Witness,
    /// In the last visit of a forward scan that asked for it: the gap above the end of the range.
    pub gap: Option<Gap<'a, P>>,
}

enum Kind<P: Platform> {
    Tree1(Tree<P, MemoryNodes, 1>),
    Tree2(Tree<P, MemoryNodes, 2>),
    Tree4(Tree<P, MemoryNodes, 4>),
    Tree5(Tree<P, MemoryNodes, 5>),
    Tree8(Tree<P, MemoryNodes, 8>),
    Hash(HashIndex<P>),
}

/// What an index is made as.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A tree for keys of this many words: 1, 2, 4, 5 or 8.
    Tree(usize),
    /// A hash index for keys of one word.
    Hash(Spread),
}

/// Gives each value of an index what it is in a copy of the index.
pub type Rename<'r, P> = &'r mut dyn FnMut(&mut Local<P>, u64) -> Result<u64, OutOfMemory>;

/// Words of a partition that are about all its gaps; what they mean is the scheme's matter. They begin as 0.
#[repr(C)]
pub struct GapWords<P: Platform> {
    /// The lock word for the gap above all keys, or whatever else keeps insertions out.
    pub end: P::Word,
    /// Largest stamp of a transaction that removed a key, for schemes that order commits by their data.
    pub removed: P::Word,
    /// Largest stamp of a transaction that saw a key absent, for the same.
    pub absent: P::Word,
}

/// One partition of an index: a descriptor, on a line of its own.
#[repr(align(64))]
pub struct Partition<P: Platform> {
    kind: Kind<P>,
    /// One line for its [`GapWords`], then the words for absent keys.
    locks: NonNull<P::Word>,
}

// SAFETY: `locks` points to shared words; the rest is Send and Sync.
unsafe impl<P: Platform> Send for Partition<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Partition<P> {}

fn array<const W: usize>(key: &[u64]) -> &[u64; W] {
    key.try_into().expect("a key has as many words as its index")
}

impl<P: Platform> Partition<P> {
    /// An empty partition.
    ///
    /// # Safety
    /// The memory behind `local` outlives the partition; all methods are called inside an epoch of that database.
    pub unsafe fn new(c: P::Core, local: &mut Local<P>, shape: Shape) -> Result<Self, OutOfMemory> {
        // SAFETY (all of them): passed on to the caller.
        let kind = match shape {
            Shape::Hash(spread) => Kind::Hash(HashIndex::new(c, local, spread)?),
            // SAFETY: as above.
            Shape::Tree(1) => Kind::Tree1(unsafe { Tree::new(c, MemoryNodes, local)? }),
            // SAFETY: as above.
            Shape::Tree(2) => Kind::Tree2(unsafe { Tree::new(c, MemoryNodes, local)? }),
            // SAFETY: as above.
            Shape::Tree(4) => Kind::Tree4(unsafe { Tree::new(c, MemoryNodes, local)? }),
            // SAFETY: as above.
            Shape::Tree(5) => Kind::Tree5(unsafe { Tree::new(c, MemoryNodes, local)? }),
            // SAFETY: as above.
            Shape::Tree(8) => Kind::Tree8(unsafe { Tree::new(c, MemoryNodes, local)? }),
            Shape::Tree(words) => unreachable!("no tree has keys of {words} words"),
        };
        const { assert!(size_of::<Self>() == LINE_BYTES) };
        let words = LINE_BYTES / 8 + if matches!(kind, Kind::Hash(_)) { ABSENT_WORDS } else { 0 };
        let locks = local.allocate(c, words * 8)?;
        // SAFETY: a fresh block of this size, aligned for words.
        unsafe { zero_words::<P>(locks, words) };
        Ok(Partition { kind, locks: locks.cast() })
    }

    /// Declares that the descriptor is read.
    #[inline(always)]
    fn touch(&self, c: P::Core) {
        P::touch(c, self, LINE_BYTES, Intent::Read);
    }

    /// The words for all gaps of the partition.
    pub fn gap_words(&self) -> &GapWords<P> {
        const { assert!(size_of::<GapWords<P>>() <= LINE_BYTES) };
        // SAFETY: the words of the first line, initialised in `new`, live as long as the database's memory.
        unsafe { self.locks.cast().as_ref() }
    }

    /// The lock word for the gap above all keys.
    pub fn end_word(&self) -> &P::Word {
        &self.gap_words().end
    }

    /// The lock word for the absence of this key, in a hash index.
    pub fn absent_word(&self, key: u64) -> &P::Word {
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % ABSENT_WORDS;
        assert!(self.is_hash());
        // SAFETY: as `end_word`; hash indexes have `ABSENT_WORDS` words behind the first line.
        unsafe { self.locks.add(LINE_BYTES / 8 + slot).as_ref() }
    }

    /// Whether it is a hash index, which has no order.
    pub fn is_hash(&self) -> bool {
        matches!(self.kind, Kind::Hash(_))
    }

    /// Starts to bring closer what a lookup of this key reads: its bucket or leaf.
    #[inline(always)]
    pub fn prefetch(&self, c: P::Core, key: &[u64]) {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => hash.prefetch(c, key[0]),
            _ => self.prefetch_leaf(c, key),
        }
    }

    fn prefetch_leaf(&self, c: P::Core, key: &[u64]) {
        match &self.kind {
            Kind::Hash(_) => {}
            Kind::Tree1(tree) => tree.prefetch(c, array(key)),
            Kind::Tree2(tree) => tree.prefetch(c, array(key)),
            Kind::Tree4(tree) => tree.prefetch(c, array(key)),
            Kind::Tree5(tree) => tree.prefetch(c, array(key)),
            Kind::Tree8(tree) => tree.prefetch(c, array(key)),
        }
    }

    /// Looks a key up.
    #[inline(always)]
    pub fn get(&self, c: P::Core, key: &[u64]) -> Lookup {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => hash.get(c, key[0]),
            _ => self.get_from_tree(c, key),
        }
    }

    fn get_from_tree(&self, c: P::Core, key: &[u64]) -> Lookup {
        match &self.kind {
            Kind::Hash(hash) => hash.get(c, key[0]),
            Kind::Tree1(tree) => tree.get(c, array(key)),
            Kind::Tree2(tree) => tree.get(c, array(key)),
            Kind::Tree4(tree) => tree.get(c, array(key)),
            Kind::Tree5(tree) => tree.get(c, array(key)),
            Kind::Tree8(tree) => tree.get(c, array(key)),
        }
    }

    /// Inserts a key. Witnesses that were valid before are brought up to date with the caller's own insertion.
    pub fn insert<G: GapGuard<P>>(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: &[u64],
        value: u64,
        guard: &mut G,
        witnesses: &mut Witnesses,
    ) -> Result<Insert, OutOfMemory> {
        let Witnesses { list, changes } = witnesses;
        self.touch(c);
        let end = self.end_word();
        macro_rules! into_tree {
            ($tree:expr) => {{
                let result = $tree.insert(c, local, array(key), value, TreeGuard { guard, end }, changes);
                changes.apply(list);
                result
            }};
        }
        match &self.kind {
            Kind::Tree1(tree) => into_tree!(tree),
            Kind::Tree2(tree) => into_tree!(tree),
            Kind::Tree4(tree) => into_tree!(tree),
            Kind::Tree5(tree) => into_tree!(tree),
            Kind::Tree8(tree) => into_tree!(tree),
            Kind::Hash(hash) => {
                let allow = || guard.allow(G::WANTS_GAP.then(|| Gap::Word(self.absent_word(key[0]))));
                let (result, change) = hash.insert(c, local, key[0], value, allow)?;
                if let Some((before, after)) = change {
                    list.iter_mut()
                        .filter(|witness| **witness == before)
                        .for_each(|witness| *witness = after);
                }
                Ok(result)
            }
        }
    }

    /// Removes a key, remembering `stamp`; its value, if it was there.
    pub fn remove(&self, c: P::Core, local: &mut Local<P>, key: &[u64], stamp: u64) -> Option<u64> {
        self.touch(c);
        let mut changes = Changes::new();
        match &self.kind {
            Kind::Hash(hash) => hash.remove(c, key[0], stamp),
            Kind::Tree1(tree) => tree.remove(c, local, array(key), stamp, &mut changes),
            Kind::Tree2(tree) => tree.remove(c, local, array(key), stamp, &mut changes),
            Kind::Tree4(tree) => tree.remove(c, local, array(key), stamp, &mut changes),
            Kind::Tree5(tree) => tree.remove(c, local, array(key), stamp, &mut changes),
            Kind::Tree8(tree) => tree.remove(c, local, array(key), stamp, &mut changes),
        }
    }

    /// Makes a key name another value; false if it is not there.
    pub fn replace(&self, c: P::Core, key: &[u64], value: u64) -> bool {
        self.touch(c);
        match &self.kind {
            Kind::Hash(hash) => hash.replace(c, key[0], value),
            Kind::Tree1(tree) => tree.replace(c, array(key), value),
            Kind::Tree2(tree) => tree.replace(c, array(key), value),
            Kind::Tree4(tree) => tree.replace(c, array(key), value),
            Kind::Tree5(tree) => tree.replace(c, array(key), value),
            Kind::Tree8(tree) => tree.replace(c, array(key), value),
        }
    }

    /// Visits the values with keys from `low` to `high`, both included, until `visit` breaks. With `gap`, a forward scan
    /// also names the gap above the range. A hash index has no order: it panics.
    pub fn scan(
        &self,
        c: P::Core,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        gap: bool,
        visit: &mut dyn FnMut(Visit<'_, P>) -> ControlFlow<()>,
    ) {
        self.touch(c);
        match &self.kind {
            Kind::Hash(_) => panic!("a hash index cannot be scanned"),
            Kind::Tree1(tree) => self.scan_tree(c, tree, (array(low), array(high)), direction, gap, visit),
            Kind::Tree2(tree) => self.scan_tree(c, tree, (array(low), array(high)), direction, gap, visit),
            Kind::Tree4(tree) => self.scan_tree(c, tree, (array(low), array(high)), direction, gap, visit),
            Kind::Tree5(tree) => self.scan_tree(c, tree, (array(low), array(high)), direction, gap, visit),
            Kind::Tree8(tree) => self.scan_tree(c, tree, (array(low), array(high)), direction, gap, visit),
        }
    }

    fn scan_tree<const W: usize>(
        &self,
        c: P::Core,
        tree: &Tree<P, MemoryNodes, W>,
        (low, high): (&[u64; W], &[u64; W]),
        direction: Direction,
        gap: bool,
        visit: &mut dyn FnMut(Visit<'_, P>) -> ControlFlow<()>,
    ) {
        let end = self.end_word();
        let gap = gap && direction == Direction::Forward;
        tree.scan(c, &Range::new(*low..=*high), direction, gap, &mut |leaf: Leaf<'_, W>| {
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
                visit(Visit { values: &values[..group.len()], witness: leaf.witness, gap })?;
                if last {
                    return ControlFlow::Continue(());
                }
            }
        });
    }

    /// Visits the values of a hash index in no particular order, while nobody changes it.
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
        let kind = match &self.kind {
            Kind::Tree1(tree) => Kind::Tree1(tree.alias()),
            Kind::Tree2(tree) => Kind::Tree2(tree.alias()),
            Kind::Tree4(tree) => Kind::Tree4(tree.alias()),
            Kind::Tree5(tree) => Kind::Tree5(tree.alias()),
            Kind::Tree8(tree) => Kind::Tree8(tree.alias()),
            Kind::Hash(hash) => Kind::Hash(hash.alias()),
        };
        Partition { kind, locks: self.locks }
    }

    /// Whether it is the same partition, perhaps through another descriptor.
    pub fn is_same(&self, other: &Self) -> bool {
        self.locks == other.locks
    }

    fn shape(&self) -> Shape {
        match &self.kind {
            Kind::Tree1(_) => Shape::Tree(1),
            Kind::Tree2(_) => Shape::Tree(2),
            Kind::Tree4(_) => Shape::Tree(4),
            Kind::Tree5(_) => Shape::Tree(5),
            Kind::Tree8(_) => Shape::Tree(8),
            Kind::Hash(hash) => Shape::Hash(hash.spread()),
        }
    }

    /// Another partition of this shape with the same keys, each with the value that `rename` gives for its own, for tables
    /// that are not written any more. Nobody changes it meanwhile.
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
        let copy = unsafe { Self::new(c, local, self.shape())? };
        match (&self.kind, &copy.kind) {
            (Kind::Tree1(from), Kind::Tree1(to)) => copy_tree(c, local, from, to, rename)?,
            (Kind::Tree2(from), Kind::Tree2(to)) => copy_tree(c, local, from, to, rename)?,
            (Kind::Tree4(from), Kind::Tree4(to)) => copy_tree(c, local, from, to, rename)?,
            (Kind::Tree5(from), Kind::Tree5(to)) => copy_tree(c, local, from, to, rename)?,
            (Kind::Tree8(from), Kind::Tree8(to)) => copy_tree(c, local, from, to, rename)?,
            (Kind::Hash(from), Kind::Hash(to)) => {
                let mut entries = Vec::new();
                from.for_each(c, &mut |key, value| entries.push((key, value)));
                for (key, value) in entries {
                    let value = rename(local, value)?;
                    to.insert(c, local, key, value, || true)?;
                }
            }
            _ => unreachable!("a copy has the shape of its original"),
        }
        // Who sees a key absent must still come later than its removal.
        P::poke(&copy.gap_words().removed, P::peek(&self.gap_words().removed));
        Ok(copy)
    }
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
    let mut changes = Changes::new();
    for entry in entries {
        let value = rename(local, entry.value)?;
        to.insert(c, local, &entry.key, value, NoGuard, &mut changes)?;
        changes.clear();
    }
    Ok(())
}

impl<P: Platform> Partition<P> {
    /// Shows where its parts lie, while nobody changes the index.
    pub fn visit_parts(&self, c: P::Core, visit: &mut dyn FnMut(Part, *const u8, usize)) {
        let words = LINE_BYTES / 8 + if self.is_hash() { ABSENT_WORDS } else { 0 };
        visit(Part::Gaps, self.locks.as_ptr().cast(), words * 8);
        match &self.kind {
            Kind::Hash(hash) => hash.visit_parts(visit),
            Kind::Tree1(tree) => tree.visit_parts(c, visit),
            Kind::Tree2(tree) => tree.visit_parts(c, visit),
            Kind::Tree4(tree) => tree.visit_parts(c, visit),
            Kind::Tree5(tree) => tree.visit_parts(c, visit),
            Kind::Tree8(tree) => tree.visit_parts(c, visit),
        }
    }
}

/// The leaves and buckets whose contents a transaction depends on.
#[derive(Default)]
pub struct Witnesses {
    list: Vec<Witness>,
    changes: Changes,
}

impl Witnesses {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.list.clear();
        self.changes.clear();
    }

    /// Remembers one more.
    #[inline]
    pub fn push(&mut self, witness: Witness) {
        if self.list.last() != Some(&witness) {
            self.list.push(witness);
        }
    }

    /// Whether all are still current, each at a moment within this call.
    pub fn are_current<P: Platform>(&self, c: P::Core) -> bool {
        self.list.iter().all(|witness| witness_is_current::<P>(c, witness))
    }
}

/// An index of a table, divided by the leading 16 bits of its keys.
pub struct Index<P: Platform> {
    /// Its name in errors and reports.
    pub name: &'static str,
    /// Words of its keys.
    pub words: usize,
    /// Leading key column of partition 0; `None` if keys do not say which partition they belong to.
    pub first: Option<u16>,
    partitions: Listed<Partition<P>>,
}

impl<P: Platform> Index<P> {
    /// An index of these partitions, at least one; keys of partition `i` begin with `first + i`. Without `first` keys do not
    /// say where they belong, and there is one partition.
    pub fn new(
        name: &'static str,
        words: usize,
        first: Option<u16>,
        partitions: Listed<Partition<P>>,
    ) -> Self {
        assert!(partitions.len() == 1 || first.is_some() && !partitions.is_empty());
        Index { name, words, first, partitions }
    }

    /// Whether keys say which partition they belong to, even if there is only one.
    #[inline(always)]
    pub fn is_partitioned(&self) -> bool {
        self.first.is_some()
    }

    /// The number of the partition that a key belongs to.
    #[inline(always)]
    pub fn number(&self, key: &[u64]) -> usize {
        if self.partitions.len() == 1 {
            return 0;
        }
        let leading = (key[0] >> 48) as u16;
        usize::from(leading.saturating_sub(self.first.unwrap_or(0))).min(self.partitions.len() - 1)
    }

    /// The partition that a key belongs to.
    #[inline(always)]
    pub fn partition(&self, key: &[u64]) -> &Partition<P> {
        &self.partitions[self.number(key)]
    }

    /// All partitions.
    pub fn all_partitions(&self) -> &[Partition<P>] {
        &self.partitions
    }

    /// The list of all partitions, for an index of another catalog.
    ///
    /// # Safety
    /// As [`Listed::share`].
    pub unsafe fn share_partitions(&self) -> Listed<Partition<P>> {
        // SAFETY: passed on to the caller.
        unsafe { self.partitions.share() }
    }

    /// The partitions that keys from `low` to `high` belong to, in this order.
    pub fn partitions(
        &self,
        low: &[u64],
        high: &[u64],
        direction: Direction,
    ) -> impl Iterator<Item = &Partition<P>> + use<'_, P> {
        let (from, to) = (self.number(low), self.number(high));
        let count = (to + 1).saturating_sub(from);
        (0..count).map(move |step| match direction {
            Direction::Forward => &self.partitions[from + step],
            Direction::Reverse => &self.partitions[to - step],
        })
    }
}
