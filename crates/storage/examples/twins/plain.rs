//! The twins: the same algorithms over the same layouts, written by hand on `std::sync::atomic`,
//! without `Platform`. Like the engine's, their waits are out of line.

use std::hint::{select_unpredictable, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const LATCHED: u64 = 1;
const OBSOLETE: u64 = 2;
/// Version of what was never changed.
pub const INITIAL: u64 = 4;

/// The result of a lookup, and its place.
pub struct Lookup {
    pub value: Option<u64>,
    pub witness: Witness,
}

/// A leaf or bucket, and its version.
pub struct Witness {
    #[allow(dead_code)]
    pub node: u64,
    #[allow(dead_code)]
    pub version: u64,
}

#[cold]
#[inline(never)]
fn wait(word: &AtomicU64) -> u64 {
    loop {
        let version = word.load(Ordering::Acquire);
        if version & (LATCHED | OBSOLETE) == 0 {
            return version;
        }
        spin_while(word, version);
    }
}

#[inline(always)]
fn stable(word: &AtomicU64) -> u64 {
    let version = word.load(Ordering::Acquire);
    if version & (LATCHED | OBSOLETE) == 0 { version } else { wait(word) }
}

#[inline(always)]
fn unchanged(word: &AtomicU64, version: u64) -> bool {
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == version
}

/// A version, and words that it protects, on the next line.
#[repr(C, align(64))]
pub struct Record<const WORDS: usize> {
    pub version: AtomicU64,
    pub words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Record<WORDS> {
    pub fn new(first: u64) -> Self {
        let words = std::array::from_fn(|index| AtomicU64::new(first + index as u64));
        Record { version: AtomicU64::new(INITIAL), words }
    }
}

impl Record<4> {
    /// All words as of one moment.
    #[inline(always)]
    pub fn read(&self) -> [u64; 4] {
        loop {
            let version = stable(&self.version);
            let words = [
                self.words[0].load(Ordering::Relaxed),
                self.words[1].load(Ordering::Relaxed),
                self.words[2].load(Ordering::Relaxed),
                self.words[3].load(Ordering::Relaxed),
            ];
            if unchanged(&self.version, version) {
                return words;
            }
        }
    }
}

/// Copies a row's words if it still has the version that was seen.
#[inline(always)]
pub fn copy_if(version: &AtomicU64, words: &[AtomicU64], seen: u64, out: &mut [u64]) -> bool {
    assert_eq!(words.len(), out.len());
    for (word, slot) in words.iter().zip(out) {
        *slot = word.load(Ordering::Relaxed);
    }
    unchanged(version, seen)
}

/// Words of a tree node.
const NODE_WORDS: usize = 128;
const KEYS: usize = 8;
const CAPACITY: usize = (NODE_WORDS - KEYS) / 2;
const VALUES: usize = KEYS + CAPACITY;

/// A tree that is one leaf, in the layout of the engine's.
#[repr(C, align(64))]
pub struct Leaf([AtomicU64; NODE_WORDS]);

/// The anchor of the root.
#[repr(C, align(64))]
pub struct Anchor {
    root: AtomicU64,
}

impl Leaf {
    pub const CAPACITY: usize = CAPACITY;

    pub fn new(entries: &[(u64, u64)]) -> Box<Leaf> {
        let leaf = Box::new(Leaf([const { AtomicU64::new(0) }; NODE_WORDS]));
        leaf.0[1].store(entries.len() as u64, Ordering::Relaxed);
        for (index, (key, value)) in entries.iter().enumerate() {
            leaf.0[KEYS + index].store(*key, Ordering::Relaxed);
            leaf.0[VALUES + index].store(*value, Ordering::Relaxed);
        }
        leaf
    }

    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: callers clamp indexes to the node.
        unsafe { self.0.get_unchecked(index) }
    }
}

impl Anchor {
    pub fn new(root: &Leaf) -> Self {
        Anchor { root: AtomicU64::new(std::ptr::from_ref(root).expose_provenance() as u64) }
    }

    /// The value of a key, the leaf, and its version.
    ///
    /// # Safety
    /// The leaf that the anchor was made with is alive.
    #[inline(always)]
    pub unsafe fn get(&self, key: u64) -> Lookup {
        loop {
            let root = self.root.load(Ordering::Acquire);
            if root == 0 {
                continue;
            }
            // SAFETY: the caller's promise.
            let leaf = unsafe { &*std::ptr::with_exposed_provenance::<Leaf>(root as usize) };
            let version = stable(leaf.word(0));
            if self.root.load(Ordering::Acquire) != root {
                continue;
            }
            let shape = leaf.word(1).load(Ordering::Relaxed);
            assert!((shape >> 16) & 0xff == 0, "one leaf");
            let entries = ((shape & 0xffff) as usize).min(CAPACITY);
            let (mut base, mut left) = (0, entries);
            while left > 0 {
                let half = left.div_ceil(2);
                let probe = leaf.word(KEYS + base + half - 1).load(Ordering::Relaxed);
                base = select_unpredictable(probe < key, base + half, base);
                left -= half;
            }
            let found = base < entries && leaf.word(KEYS + base).load(Ordering::Relaxed) == key;
            let value = found.then(|| leaf.word(VALUES + base).load(Ordering::Relaxed));
            if unchanged(leaf.word(0), version) {
                return Lookup { value, witness: Witness { node: root, version } };
            }
        }
    }
}

/// The global epoch, and announcements on lines of their own.
pub struct Epochs {
    lines: Vec<[AtomicU64; 8]>,
}

/// One worker's announcement.
pub struct Worker<'a> {
    epochs: &'a Epochs,
    number: usize,
    announced: u64,
}

impl Epochs {
    pub fn new(workers: usize) -> Self {
        let lines: Vec<[AtomicU64; 8]> = (0..1 + workers).map(|_| Default::default()).collect();
        lines[0][0].store(1, Ordering::Relaxed);
        Epochs { lines }
    }
}

impl<'a> Worker<'a> {
    pub fn new(epochs: &'a Epochs, number: usize) -> Self {
        Worker { epochs, number, announced: u64::MAX }
    }

    /// Announces the current epoch if it has moved.
    #[inline(always)]
    pub fn enter(&mut self) {
        let epoch = self.epochs.lines[0][0].load(Ordering::Acquire);
        if epoch != self.announced {
            self.announce(epoch);
        }
    }

    #[cold]
    fn announce(&mut self, epoch: u64) {
        self.epochs.lines[1 + self.number][0].store(epoch, Ordering::Release);
        fence(Ordering::SeqCst);
        self.announced = epoch;
    }
}

/// A bucket of the hash index.
#[repr(C, align(64))]
#[derive(Default)]
struct Bucket {
    version: AtomicU64,
    overflow: AtomicU64,
    entries: [[AtomicU64; 2]; 3],
}

/// How keys are spread over buckets.
enum Spread {
    Mixed,
    #[allow(dead_code)]
    Dense(fn(u64) -> u64),
}

/// The hash index, filled once.
pub struct Hash {
    buckets: Vec<Bucket>,
    spread: Spread,
    /// The odd factor that the engine keeps secret.
    factor: u64,
    // Overflow buckets, so that they live as long as the index, and stay in place.
    #[allow(clippy::vec_box)]
    more: Vec<Box<Bucket>>,
}

impl Hash {
    pub fn new(keys: u64, entries: &[(u64, u64)], factor: u64) -> Self {
        let count = (keys / 2 + 1).next_power_of_two();
        let buckets = (0..count).map(|_| Bucket::default()).collect();
        let mut hash = Hash { buckets, spread: Spread::Mixed, factor, more: Vec::new() };
        for (key, value) in entries {
            hash.insert(*key, *value);
        }
        hash
    }

    fn insert(&mut self, key: u64, value: u64) {
        let mut bucket = self.bucket(key);
        loop {
            if let Some(entry) = bucket.entries.iter().find(|entry| entry[1].load(Ordering::Relaxed) == 0) {
                entry[0].store(key, Ordering::Relaxed);
                entry[1].store(value, Ordering::Relaxed);
                return;
            }
            match bucket.next() {
                Some(next) => bucket = next,
                None => break,
            }
        }
        let fresh = Box::<Bucket>::default();
        fresh.entries[0][0].store(key, Ordering::Relaxed);
        fresh.entries[0][1].store(value, Ordering::Relaxed);
        let address = std::ptr::from_ref(&*fresh).expose_provenance() as u64;
        bucket.overflow.store(address, Ordering::Relaxed);
        self.more.push(fresh);
    }

    #[inline(always)]
    fn number(&self, key: u64) -> u64 {
        let count = self.buckets.len() as u64;
        match self.spread {
            Spread::Mixed => {
                let mixed = key.wrapping_mul(self.factor);
                (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32 & (count - 1)
            }
            Spread::Dense(dense) => {
                let number = dense(key) / 3;
                if number < count { number } else { number % count }
            }
        }
    }

    #[inline(always)]
    fn bucket(&self, key: u64) -> &Bucket {
        // SAFETY: `number` is less than the number of buckets.
        unsafe { self.buckets.get_unchecked(self.number(key) as usize) }
    }

    /// The value of a key, its bucket, and the version.
    #[inline(always)]
    pub fn get(&self, key: u64) -> Lookup {
        let bucket = self.bucket(key);
        loop {
            let version = stable(&bucket.version);
            let value = bucket.find(key);
            if unchanged(&bucket.version, version) {
                let node = std::ptr::from_ref(bucket).expose_provenance() as u64;
                return Lookup { value, witness: Witness { node, version } };
            }
        }
    }
}

impl Bucket {
    #[inline(always)]
    fn next<'a>(&self) -> Option<&'a Bucket> {
        let address = self.overflow.load(Ordering::Relaxed);
        // SAFETY: the index keeps its overflow buckets.
        (address != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance(address as usize) })
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<u64> {
        let mut bucket = self;
        loop {
            for entry in &bucket.entries {
                if entry[0].load(Ordering::Relaxed) == key {
                    let value = entry[1].load(Ordering::Relaxed);
                    if value != 0 {
                        return Some(value);
                    }
                }
            }
            bucket = bucket.next()?;
        }
    }
}

/// The queue lock of Mellor-Crummey and Scott.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Queue {
    tail: AtomicU64,
}

/// A place in the queue.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Place {
    next: AtomicU64,
    waiting: AtomicU64,
}

impl Place {
    #[inline(always)]
    fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    #[inline(always)]
    fn at<'a>(address: u64) -> &'a Place {
        // SAFETY: a thread that queues keeps the place until after its release.
        unsafe { &*std::ptr::with_exposed_provenance(address as usize) }
    }
}

impl Queue {
    /// # Safety
    /// The place stays where it is until it is released.
    #[inline(always)]
    pub unsafe fn acquire(&self, place: &Place) {
        place.next.store(0, Ordering::Relaxed);
        place.waiting.store(1, Ordering::Relaxed);
        let before = self.tail.swap(place.address(), Ordering::AcqRel);
        if before != 0 {
            Place::at(before).next.store(place.address(), Ordering::Release);
            spin_while(&place.waiting, 1);
        }
    }

    /// # Safety
    /// Acquired with this place.
    #[inline(always)]
    pub unsafe fn release(&self, place: &Place) {
        let mut next = place.next.load(Ordering::Acquire);
        if next == 0 {
            let free = self.tail.compare_exchange(place.address(), 0, Ordering::Release, Ordering::Relaxed);
            if free.is_ok() {
                return;
            }
            next = spin_while(&place.next, 0);
        }
        Place::at(next).waiting.store(0, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn spin_while(word: &AtomicU64, seen: u64) -> u64 {
    let mut spins = 0u32;
    loop {
        let value = word.load(Ordering::Acquire);
        if value != seen {
            return value;
        }
        spins += 1;
        if spins.is_multiple_of(2_000) {
            std::thread::yield_now();
        }
        spin_loop();
    }
}
