//! A database's memory for one test, a store whose nodes move, and random numbers.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Hardware, HardwareCore, OutOfMemory, Place, Platform, RegionBytes};
use storage::latch::VersionLatch;
use storage::tree::{
    Beyond, Direction, Entry, Insert, Leaf, LeafChanges, MemoryNodes, NoGuard, NodeId, NodeStore, Range,
    Restart, Tree, Witness,
};
use storage::{Epochs, Local, Memory};
use terms::random::SplitMix;

type Word = <Hardware as Platform>::Word;

/// `small` under Miri, `normal` otherwise.
pub const fn sized(normal: u64, small: u64) -> u64 {
    if cfg!(miri) { small } else { normal }
}

/// Numbers from a seed.
#[derive(Clone)]
pub struct Random(SplitMix);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Memory and epochs of one test.
pub struct World {
    pub memory: Memory<Hardware>,
    pub epochs: Epochs<Hardware>,
}

impl World {
    pub fn new(workers: usize) -> Self {
        let c = Hardware::core();
        World {
            memory: Memory::new(c, 8 << 30).expect("memory"),
            epochs: Epochs::new(c, workers, 0).expect("memory"),
        }
    }

    /// Worker `worker`, inside an epoch.
    pub fn local(&self, worker: usize) -> Local<Hardware> {
        // SAFETY: every test declares the world before its workers, and gives each number to one
        // worker at a time.
        let mut local = unsafe { Local::new(&self.memory, &self.epochs, worker, None) };
        local.enter(Hardware::core());
        local
    }

    pub fn tree<S: TestStore, const W: usize>(&self, local: &mut Local<Hardware>) -> Tree<Hardware, S, W> {
        // SAFETY: every test declares the world before the tree, uses it inside epochs, and
        // witnesses within theirs.
        unsafe { Tree::new(Hardware::core(), S::new(), local) }.expect("memory")
    }

    /// Leaves the epoch, lets it pass, and enters again.
    pub fn refresh(&self, c: HardwareCore, local: &mut Local<Hardware>) {
        self.epochs.try_advance(c);
        local.enter(c);
    }
}

/// Runs `count` workers, each with its own `Local`.
pub fn parallel(
    world: &World,
    count: usize,
    worker: &(dyn Fn(HardwareCore, usize, &mut Local<Hardware>) + Sync),
) {
    Hardware::parallel(
        Hardware::core(),
        &vec![Place { thread: None }; count],
        &|c, index| {
            let mut local = world.local(index);
            worker(c, index, &mut local);
            local.leave(c);
        },
        &mut |_| (),
    );
}

/// A store that tests can shake.
pub trait TestStore: NodeStore<Hardware> {
    fn new() -> Self;

    /// Moves or evicts some nodes.
    fn shake(&self, c: HardwareCore, local: &mut Local<Hardware>, random: &mut Random);
}

impl<const BYTES: usize> TestStore for MemoryNodes<BYTES> {
    fn new() -> Self {
        MemoryNodes
    }

    fn shake(&self, _: HardwareCore, _: &mut Local<Hardware>, _: &mut Random) {}
}

const TABLE_WORDS: usize = sized(1 << 21, 1 << 11) as usize;
/// Set in the table for a node whose frame stands for a page on disk: the first to ask brings it
/// back.
const EVICTED: u64 = 1;

/// Nodes that move from frame to frame: word `id` of a table holds the frame of node `id`. Word 0
/// counts names.
pub struct MovingNodes<const BYTES: usize> {
    table: <Hardware as Platform>::Region,
}

impl<const BYTES: usize> MovingNodes<BYTES> {
    fn slot(&self, id: u64) -> &Word {
        assert!((id as usize) < TABLE_WORDS, "a test needs more names than planned");
        // SAFETY: inside the zeroed region, which makes valid words.
        unsafe { &*self.table.base().cast::<Word>().add(id as usize) }
    }

    fn frame(bits: u64) -> Option<NonNull<Word>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut((bits & !EVICTED) as usize))
    }

    /// Moves a node if no core has it latched; `flag` is [`EVICTED`] or 0.
    fn relocate(&self, c: HardwareCore, local: &mut Local<Hardware>, id: u64, flag: u64) {
        let bits = Hardware::load(c, self.slot(id), Ordering::Acquire);
        let Some(old) = Self::frame(bits) else { return };
        // SAFETY: words 0.. of a frame in the table are valid within this epoch.
        let word = |frame: NonNull<Word>, index: usize| unsafe { frame.add(index).as_ref() };
        let latch = VersionLatch::<Hardware>::from_word(word(old, 0));
        let version = Hardware::load(c, latch.word(), Ordering::Acquire);
        if !version.is_multiple_of(4) || !latch.try_upgrade(c, version) {
            return;
        }
        if Hardware::load(c, self.slot(id), Ordering::Acquire) & !EVICTED != bits & !EVICTED {
            latch.unlock_unchanged(c, version);
            return;
        }
        let new = local.allocate(c, BYTES).expect("memory").cast::<Word>();
        Hardware::poke(word(new, 0), version);
        for index in 1..BYTES / 8 {
            Hardware::poke(word(new, index), Hardware::peek(word(old, index)));
        }
        let moved = new.as_ptr().expose_provenance() as u64 | flag;
        Hardware::store(c, self.slot(id), moved, Ordering::Release);
        latch.unlock_obsolete(c, version);
        // SAFETY: the table does not name the old frame any more; the holder of its latch retires
        // it.
        unsafe { local.retire(c, old.cast(), BYTES) };
    }
}

// SAFETY: frames are words from `Local`, moved under their latch and reused after the epochs of
// their readers; names are never reused.
unsafe impl<const BYTES: usize> NodeStore<Hardware> for MovingNodes<BYTES> {
    const NODE_BYTES: usize = BYTES;

    fn resolve(&self, c: HardwareCore, node: NodeId) -> Result<NonNull<Word>, Restart> {
        if node.0 as usize >= TABLE_WORDS {
            return Err(Restart);
        }
        let slot = self.slot(node.0);
        let bits = Hardware::load(c, slot, Ordering::Acquire);
        if bits & EVICTED != 0 {
            let _ = Hardware::cas(c, slot, bits, bits & !EVICTED, Ordering::AcqRel);
            return Err(Restart);
        }
        Self::frame(bits).ok_or(Restart)
    }

    fn allocate(
        &self,
        c: HardwareCore,
        local: &mut Local<Hardware>,
    ) -> Result<(NodeId, NonNull<Word>), OutOfMemory> {
        let frame = local.allocate(c, BYTES)?.cast::<Word>();
        let id = Hardware::fetch_add(c, self.slot(0), 1, Ordering::Relaxed) + 1;
        // A node that no core knows yet is not to be moved: the node is latched until the tree
        // initialises it. SAFETY: a fresh block of words.
        Hardware::store(c, unsafe { frame.as_ref() }, 1, Ordering::Release);
        Hardware::store(c, self.slot(id), frame.as_ptr().expose_provenance() as u64, Ordering::Release);
        Ok((NodeId(id), frame))
    }

    unsafe fn retire(&self, c: HardwareCore, local: &mut Local<Hardware>, node: NodeId) {
        let bits = Hardware::swap(c, self.slot(node.0), 0, Ordering::AcqRel);
        let frame = Self::frame(bits).expect("retired once");
        // SAFETY: passed on to the caller.
        unsafe { local.retire(c, frame.cast(), BYTES) };
    }

    unsafe fn free(&self, c: HardwareCore, local: &mut Local<Hardware>, node: NodeId) {
        // SAFETY: passed on to the caller. `shake` may read the frame, so it waits like a
        // retired one.
        unsafe { self.retire(c, local, node) };
    }
}

impl<const BYTES: usize> TestStore for MovingNodes<BYTES> {
    fn new() -> Self {
        let table =
            Hardware::region(Hardware::core(), None, TABLE_WORDS * 8, "names of nodes").expect("memory");
        MovingNodes { table }
    }

    fn shake(&self, c: HardwareCore, local: &mut Local<Hardware>, random: &mut Random) {
        let names = Hardware::load(c, self.slot(0), Ordering::Relaxed);
        for _ in 0..4 {
            let id = 1 + random.below(names);
            self.relocate(c, local, id, random.below(2) * EVICTED);
        }
    }
}

/// The tree with one core's view of it.
pub struct Handle<'a, S: TestStore, const W: usize> {
    pub c: HardwareCore,
    pub tree: &'a Tree<Hardware, S, W>,
    pub local: &'a mut Local<Hardware>,
    pub changes: LeafChanges,
}

impl<'a, S: TestStore, const W: usize> Handle<'a, S, W> {
    pub fn new(c: HardwareCore, tree: &'a Tree<Hardware, S, W>, local: &'a mut Local<Hardware>) -> Self {
        Handle { c, tree, local, changes: LeafChanges::new() }
    }

    pub fn insert(&mut self, key: &[u64; W], value: u64) -> Insert {
        self.changes.clear();
        self.tree.insert(self.c, self.local, key, value, NoGuard, &mut self.changes).expect("memory")
    }

    pub fn remove(&mut self, key: &[u64; W], stamp: u64) -> Option<u64> {
        self.changes.clear();
        self.tree.remove(self.c, self.local, key, stamp, &mut self.changes)
    }

    pub fn get(&self, key: &[u64; W]) -> Option<u64> {
        self.tree.get(self.c, key).value
    }

    /// Everything that a scan delivers.
    pub fn scan(&self, range: &Range<W>, direction: Direction, beyond: bool) -> Scanned<W> {
        let mut scanned =
            Scanned { entries: Vec::new(), beyond: Beyond::Unknown, witnesses: Vec::new(), removed: 0 };
        self.tree.scan(self.c, range, direction, beyond, &mut |leaf: Leaf<'_, W>| {
            assert_eq!(scanned.beyond, Beyond::Unknown, "nothing follows what lies beyond");
            scanned.entries.extend_from_slice(leaf.entries);
            scanned.beyond = leaf.beyond;
            scanned.removed = scanned.removed.max(leaf.removed);
            if scanned.witnesses.last() != Some(&leaf.witness) {
                scanned.witnesses.push(leaf.witness);
            }
            std::ops::ControlFlow::Continue(())
        });
        scanned
    }
}

pub struct Scanned<const W: usize> {
    pub entries: Vec<Entry<W>>,
    pub beyond: Beyond<W>,
    pub witnesses: Vec<Witness>,
    /// The largest of the stamps that the visits say keys were removed with.
    pub removed: u64,
}

/// Runs a generic test for all key widths and both stores, with nodes so small that the trees
/// become deep.
#[macro_export]
macro_rules! for_all_stores {
    ($($name:ident)*) => { $(
        mod $name {
            use $crate::support::MovingNodes;
            use storage::tree::MemoryNodes;

            #[test]
            fn one_word_in_memory() { super::$name::<MemoryNodes<128>, 1>(); }
            #[test]
            fn two_words_in_memory() { super::$name::<MemoryNodes<192>, 2>(); }
            #[test]
            fn eight_words_in_memory() { super::$name::<MemoryNodes<320>, 8>(); }
            #[test]
            fn one_word_moving() { super::$name::<MovingNodes<128>, 1>(); }
            #[test]
            fn two_words_moving() { super::$name::<MovingNodes<192>, 2>(); }
            #[test]
            fn eight_words_moving() { super::$name::<MovingNodes<320>, 8>(); }
        }
    )* };
}

/// A key for each number, in the same order, with small, middle and largest words.
pub fn key_of<const W: usize>(number: u64) -> [u64; W] {
    const BITS: usize = 24;
    assert!(number < 1 << BITS);
    let bits = BITS.div_ceil(W);
    std::array::from_fn(|word| {
        let shift = (W - 1 - word) * bits;
        let part = if shift >= 64 { 0 } else { (number >> shift) & ((1 << bits) - 1) };
        if part == (1 << bits) - 1 { u64::MAX } else { part }
    })
}
