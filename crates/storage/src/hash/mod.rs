//! A hash index for point lookups of keys of one word, whose misses can be validated.
//!
//! A bucket is one line: a version latch, the address of an overflow bucket, and three entries.
//! Readers are optimistic: they compare the version before and after (the same protocol as the
//! tree's leaves). A version changes with every insertion into and removal from the bucket or its
//! overflow buckets, so the pair (bucket, version) is a [`Witness`] for the absence of a key, as a
//! leaf is in the tree.
//!
//! The number of buckets is fixed when the index is made. With [`Spread::Dense`] the caller gives a
//! perfect hash: keys map to 0, 1, 2, ... without gaps, three to a bucket, so that a lookup touches
//! one line, and neighbours share it ("flat perfect-hash index" of Bang et al., VLDB Journal 2022,
//! section 4). Otherwise keys are spread by a multiplicative hash, one of whose factors is a secret
//! of the index ([`SpreadSecret`]; decision 0076).
//!
//! Overflow buckets are never unlinked: a chain is as long as the most keys its bucket ever held.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Intent, LINE_BYTES, OutOfMemory, Platform, SharedWord, Work};

use crate::index_part::IndexPart;
use crate::latch::VersionLatch;
use crate::local::Local;
use crate::tree::{Insert, Lookup, NodeId, Witness};

mod secret;

pub use secret::SpreadSecret;

/// Entries of a bucket.
const ENTRIES: usize = 3;
/// Largest number of buckets of one index.
const BUCKETS_MAX: u64 = 1 << 32;
/// Words that hold the largest stamp of removed keys; each serves the buckets with its number
/// modulo this.
const STAMPS: usize = 64;

/// Distribution of keys over buckets.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// By a hash function; the index is sized for this many keys.
    Mixed(u64),
    /// By a perfect hash onto 0.. this many; larger results are taken modulo.
    Dense(u64, fn(u64) -> u64),
}

#[repr(C, align(64))]
struct Bucket<P: Platform> {
    latch: VersionLatch<P>,
    /// Address of the overflow bucket; 0 if there is none. Protected by the latch of the first
    /// bucket of the chain, as are the entries of all its buckets.
    overflow: P::Word,
    entries: [[P::Word; 2]; ENTRIES],
}

impl<P: Platform> Bucket<P> {
    const FITS: () = assert!(size_of::<Self>() == LINE_BYTES);

    fn empty() -> Self {
        let () = Self::FITS;
        Bucket {
            latch: VersionLatch::new(VersionLatch::<P>::INITIAL),
            overflow: P::Word::new(0),
            entries: std::array::from_fn(|_| [P::Word::new(0), P::Word::new(0)]),
        }
    }

    fn next<'a>(&self) -> Option<&'a Self> {
        let address = P::peek(&self.overflow);
        // SAFETY: overflow buckets are initialised before they are linked and live as long as the
        // index's memory.
        (address != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) })
    }

    /// The entry with this key in the chain and its value, as read now.
    #[inline(always)]
    fn find(&self, c: P::Core, key: u64) -> Option<(&[P::Word; 2], u64)> {
        let mut bucket = self;
        loop {
            if let Some(found) = bucket.find_here(c, key) {
                return Some(found);
            }
            bucket = bucket.next()?;
        }
    }

    /// Finds a key in this bucket alone; otherwise like [`Self::find`].
    #[inline(always)]
    fn find_here(&self, c: P::Core, key: u64) -> Option<(&[P::Word; 2], u64)> {
        P::touch(c, self, LINE_BYTES, Intent::Read);
        P::work(c, Work::KeyCompare, ENTRIES as u32);
        for entry in &self.entries {
            if P::peek(&entry[0]) == key {
                let value = P::peek(&entry[1]);
                if value != 0 {
                    return Some((entry, value));
                }
            }
        }
        None
    }

    /// Finds a key in this bucket, the first of its chain, and in those behind.
    ///
    /// Concurrency: optimistic; waits only while the bucket is latched.
    #[inline(always)]
    fn get(&self, c: P::Core, key: u64) -> Lookup {
        let version = self.read_begin(c);
        let here = self.find_here(c, key).map(|(_, value)| value);
        if here.is_some() && self.latch.validate(c, version) {
            return self.lookup(here, version);
        }
        self.continue_lookup(c, key, here, version)
    }

    /// Continues a lookup for which [`Self::get`] found no valid entry in the first bucket.
    #[inline(never)]
    fn continue_lookup(&self, c: P::Core, key: u64, here: Option<u64>, mut version: u64) -> Lookup {
        let value_of = |found: Option<(_, u64)>| found.map(|(_, value)| value);
        if here.is_none() {
            let value = value_of(self.next().and_then(|next| next.find(c, key)));
            if self.latch.validate(c, version) {
                return self.lookup(value, version);
            }
        }
        loop {
            version = self.read_begin(c);
            let value = value_of(self.find(c, key));
            if self.latch.validate(c, version) {
                return self.lookup(value, version);
            }
        }
    }

    #[inline(always)]
    fn read_begin(&self, c: P::Core) -> u64 {
        let Ok(version) = self.latch.read_begin(c) else { unreachable!("buckets are never unlinked") };
        version
    }

    #[inline(always)]
    fn lookup(&self, value: Option<u64>, version: u64) -> Lookup {
        let node = NodeId(std::ptr::from_ref(self).expose_provenance() as u64);
        Lookup { value, witness: Witness { node, version } }
    }
}

/// A key of a later lookup, and its bucket.
pub struct Approach<'i, P: Platform> {
    bucket: &'i Bucket<P>,
    key: u64,
}

impl<P: Platform> Approach<'_, P> {
    /// Prefetches the bucket.
    #[inline(always)]
    pub fn ask(&self, c: P::Core) {
        P::prefetch(c, self.bucket, LINE_BYTES, Intent::Read);
    }

    /// The key of the lookup.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Finds the key.
    #[inline(always)]
    pub fn get(&self, c: P::Core) -> Lookup {
        self.bucket.get(c, self.key)
    }

    /// The key's value, as the bucket shows it at this moment: a hint, which nothing validates. The
    /// row that the value names may be gone. Keys of overflow buckets have no hint: those buckets
    /// were not prefetched.
    ///
    /// Concurrency: never waits, and follows no address that it reads.
    #[inline(always)]
    pub fn glance(&self, c: P::Core) -> Option<u64> {
        self.bucket.find_here(c, self.key).map(|(_, value)| value)
    }
}

/// A hash index from keys of one word to values that are not 0.
pub struct HashIndex<P: Platform> {
    buckets: NonNull<Bucket<P>>,
    stamps: NonNull<P::Word>,
    count: u64,
    spread: Spread,
    secret: SpreadSecret,
}

// SAFETY: buckets and stamps consist of shared words; the rest is immutable.
unsafe impl<P: Platform> Send for HashIndex<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for HashIndex<P> {}

impl<P: Platform> HashIndex<P> {
    /// An empty index with a secret of its own. Its memory comes from `local` and lives as long as
    /// the database's memory.
    ///
    /// # Safety
    /// That memory outlives the index, and witnesses of it.
    pub unsafe fn new(c: P::Core, local: &mut Local<P>, spread: Spread) -> Result<Self, OutOfMemory> {
        let secret = SpreadSecret::of(P::secret(c));
        // SAFETY: passed on to the caller.
        unsafe { Self::with_secret(c, local, spread, secret) }
    }

    /// Makes an index with this secret; otherwise like [`Self::new`].
    ///
    /// # Safety
    /// As [`Self::new`].
    pub unsafe fn with_secret(
        c: P::Core,
        local: &mut Local<P>,
        spread: Spread,
        secret: SpreadSecret,
    ) -> Result<Self, OutOfMemory> {
        let count = match spread {
            // Two thirds of the entries in use: few buckets overflow.
            Spread::Mixed(keys) => (keys / 2 + 1).next_power_of_two(),
            Spread::Dense(keys, _) => keys.div_ceil(ENTRIES as u64).max(1),
        };
        let refused = || OutOfMemory {
            requested: usize::MAX,
            name: "hash index",
            reason: format!("{count} buckets are more than {BUCKETS_MAX}"),
        };
        if count > BUCKETS_MAX {
            return Err(refused());
        }
        let buckets = local.allocate_lines(c, count as usize * LINE_BYTES)?.cast::<Bucket<P>>();
        for index in 0..count as usize {
            // SAFETY: inside a fresh block that is aligned to lines.
            unsafe { buckets.add(index).write(Bucket::empty()) };
        }
        let stamps = local.allocate(c, STAMPS * 8)?;
        // SAFETY: a fresh block of this size, aligned for words.
        unsafe { crate::arena::zero_words::<P>(stamps, STAMPS) };
        Ok(HashIndex { buckets, stamps: stamps.cast(), count, spread, secret })
    }

    /// The same index once more.
    pub(crate) fn alias(&self) -> Self {
        HashIndex { ..*self }
    }

    /// The distribution of keys.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    #[inline(always)]
    fn bucket_number(&self, key: u64) -> u64 {
        match self.spread {
            Spread::Mixed(_) => self.secret.spread(key) & (self.count - 1),
            Spread::Dense(_, dense) => {
                let number = dense(key) / ENTRIES as u64;
                if number < self.count { number } else { number % self.count }
            }
        }
    }

    /// Which of `2^bits` equal parts of all keys this one belongs to, by the index's secret.
    pub(crate) fn part(&self, key: u64, bits: u32) -> usize {
        self.secret.part(key, bits) as usize
    }

    #[inline(always)]
    fn bucket(&self, key: u64) -> &Bucket<P> {
        // SAFETY: `bucket_number` is less than `count`, and `new` initialised all buckets.
        unsafe { self.buckets.add(self.bucket_number(key) as usize).as_ref() }
    }

    fn stamp(&self, key: u64) -> &P::Word {
        let slot = self.bucket_number(key) as usize % STAMPS;
        // SAFETY: `new` initialised `STAMPS` words.
        unsafe { self.stamps.add(slot).as_ref() }
    }

    /// Prefetches the key's bucket.
    #[inline(always)]
    pub fn prefetch(&self, c: P::Core, key: u64) {
        P::prefetch(c, self.bucket(key), LINE_BYTES, Intent::Read);
    }

    /// The bucket of a key.
    #[inline(always)]
    pub fn approach(&self, c: P::Core, key: u64) -> Approach<'_, P> {
        P::work(c, Work::Hash, 1);
        Approach { bucket: self.bucket(key), key }
    }

    /// Finds a key.
    #[inline(always)]
    pub fn get(&self, c: P::Core, key: u64) -> Lookup {
        P::work(c, Work::Hash, 1);
        self.bucket(key).get(c, key)
    }

    fn acquire(c: P::Core, bucket: &Bucket<P>) -> u64 {
        match bucket.latch.acquire(c) {
            Ok(version) => version,
            Err(_) => unreachable!("buckets are never unlinked"),
        }
    }

    /// Inserts a key if `allow` returns true, which is called with the bucket latched. The second
    /// result is the witness before and after the insertion.
    pub fn insert(
        &self,
        c: P::Core,
        local: &mut Local<P>,
        key: u64,
        value: u64,
        allow: impl FnOnce() -> bool,
    ) -> Result<(Insert, Option<(Witness, Witness)>), OutOfMemory> {
        assert!(value != 0, "0 is not a value");
        P::work(c, Work::Hash, 1);
        let bucket = self.bucket(key);
        let version = Self::acquire(c, bucket);
        if let Some((_, found)) = bucket.find(c, key) {
            bucket.latch.unlock_unchanged(c, version);
            let Lookup { witness, .. } = bucket.lookup(None, version);
            return Ok((Insert::Exists { value: found, witness }, None));
        }
        if !allow() {
            bucket.latch.unlock_unchanged(c, version);
            return Ok((Insert::Refused, None));
        }
        let placed = Self::place(c, local, bucket, key, value);
        if let Err(error) = placed {
            bucket.latch.unlock_unchanged(c, version);
            return Err(error);
        }
        // Acquire: pairs with the compare and swap in `remove`, which is followed by the release of
        // the latch.
        let stamp = P::load(c, self.stamp(key), Ordering::Acquire);
        let after = bucket.latch.unlock_changed(c, version);
        let change = (bucket.lookup(None, version).witness, bucket.lookup(None, after).witness);
        Ok((Insert::Inserted { stamp }, Some(change)))
    }

    /// Writes the entry into the first free place of the chain, which the caller has latched.
    fn place(
        c: P::Core,
        local: &mut Local<P>,
        first: &Bucket<P>,
        key: u64,
        value: u64,
    ) -> Result<(), OutOfMemory> {
        let mut bucket = first;
        loop {
            if let Some(entry) = bucket.entries.iter().find(|entry| P::peek(&entry[1]) == 0) {
                P::touch(c, bucket, LINE_BYTES, Intent::Write);
                P::poke(&entry[0], key);
                P::poke(&entry[1], value);
                return Ok(());
            }
            match bucket.next() {
                Some(next) => bucket = next,
                None => break,
            }
        }
        let fresh = local.allocate_lines(c, LINE_BYTES)?.cast::<Bucket<P>>();
        P::touch(c, fresh.as_ptr(), LINE_BYTES, Intent::Write);
        let filled = Bucket::empty();
        P::poke(&filled.entries[0][0], key);
        P::poke(&filled.entries[0][1], value);
        // SAFETY: a fresh block of one line.
        unsafe { fresh.write(filled) };
        P::touch(c, bucket, LINE_BYTES, Intent::Write);
        // Release: readers that follow the link see an initialised bucket.
        P::store(c, &bucket.overflow, fresh.as_ptr().expose_provenance() as u64, Ordering::Release);
        Ok(())
    }

    /// Removes a key and remembers `stamp`; returns the value that the key had.
    pub fn remove(&self, c: P::Core, key: u64, stamp: u64) -> Option<u64> {
        self.remove_if(c, key, |_| true, stamp)
    }

    /// Removes a key if `wanted` accepts its value; returns that value.
    pub(crate) fn remove_if(
        &self,
        c: P::Core,
        key: u64,
        wanted: impl Fn(u64) -> bool,
        stamp: u64,
    ) -> Option<u64> {
        let bucket = self.bucket(key);
        let version = Self::acquire(c, bucket);
        let Some((entry, value)) = bucket.find(c, key).filter(|(_, value)| wanted(*value)) else {
            bucket.latch.unlock_unchanged(c, version);
            return None;
        };
        P::touch(c, entry, 16, Intent::Write);
        P::poke(&entry[1], 0);
        let word = self.stamp(key);
        let mut known = P::load(c, word, Ordering::Relaxed);
        while known < stamp {
            // Release: pairs with the acquire in `insert`.
            match P::cas(c, word, known, stamp, Ordering::Release) {
                Ok(_) => break,
                Err(seen) => known = seen,
            }
        }
        bucket.latch.unlock_changed(c, version);
        Some(value)
    }

    /// Makes the key name another value; false if the key is not there. The bucket's version
    /// changes, as a leaf's does.
    pub fn replace(&self, c: P::Core, key: u64, value: u64) -> bool {
        assert!(value != 0, "0 is not a value");
        let bucket = self.bucket(key);
        let version = Self::acquire(c, bucket);
        let entry = bucket.find(c, key);
        let Some((entry, _)) = entry else {
            bucket.latch.unlock_unchanged(c, version);
            return false;
        };
        P::touch(c, entry, 16, Intent::Write);
        P::poke(&entry[1], value);
        bucket.latch.unlock_changed(c, version);
        true
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u64 {
        self.count
    }

    /// Appends the keys of a bucket to `keys`: those that it held at one moment of this call.
    ///
    /// Concurrency: as [`Self::get`].
    pub fn keys_of(&self, c: P::Core, number: u64, keys: &mut Vec<u64>) {
        assert!(number < self.count);
        // SAFETY: less than `count`, and `new` initialised all buckets.
        let bucket = unsafe { self.buckets.add(number as usize).as_ref() };
        let before = keys.len();
        loop {
            let Ok(version) = bucket.latch.read_begin(c) else { unreachable!("buckets are never unlinked") };
            let mut current = Some(bucket);
            while let Some(part) = current {
                P::touch(c, part, LINE_BYTES, Intent::Read);
                let there = part.entries.iter().filter(|entry| P::peek(&entry[1]) != 0);
                keys.extend(there.map(|entry| P::peek(&entry[0])));
                current = part.next();
            }
            if bucket.latch.validate(c, version) {
                return;
            }
            keys.truncate(before);
        }
    }

    /// Shows where the parts of the index lie, while no core changes it.
    pub fn visit_parts(&self, visit: &mut dyn FnMut(IndexPart, *const u8, usize)) {
        visit(IndexPart::Buckets, self.buckets.as_ptr().cast(), self.count as usize * LINE_BYTES);
        visit(IndexPart::Stamps, self.stamps.as_ptr().cast(), STAMPS * 8);
        for index in 0..self.count as usize {
            // SAFETY: less than `count`; `new` initialised all buckets.
            let mut bucket = unsafe { self.buckets.add(index).as_ref() };
            while let Some(next) = bucket.next() {
                visit(IndexPart::Buckets, std::ptr::from_ref(next).cast(), LINE_BYTES);
                bucket = next;
            }
        }
    }

    /// The number of entries, while no core changes the index; `None` if its keys are dense: the
    /// index does not grow.
    pub fn entries(&self, c: P::Core) -> Option<u64> {
        let mut entries = 0;
        match self.spread() {
            Spread::Dense(..) => return None,
            _ => self.for_each(c, &mut |_, _| entries += 1),
        }
        Some(entries)
    }

    /// Visits all entries, in no order that the caller may rely on, while no core changes the
    /// index.
    pub fn for_each(&self, c: P::Core, visit: &mut dyn FnMut(u64, u64)) {
        for index in 0..self.count as usize {
            // SAFETY: less than `count`; `new` initialised all buckets.
            let mut bucket = Some(unsafe { self.buckets.add(index).as_ref() });
            while let Some(current) = bucket {
                P::touch(c, current, LINE_BYTES, Intent::Read);
                for entry in &current.entries {
                    let value = P::peek(&entry[1]);
                    if value != 0 {
                        visit(P::peek(&entry[0]), value);
                    }
                }
                bucket = current.next();
            }
        }
    }
}

#[cfg(test)]
mod tests;
