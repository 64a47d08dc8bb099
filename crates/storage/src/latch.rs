//! Latches: the version word of optimistic readers, and the queue lock.
//!
//! [`VersionLatch`] is the latch of optimistic lock coupling (Leis, Scheibner, Kemper, Neumann,
//! "The ART of practical synchronization", DaMoN 2016): writers exclude each other by a bit of a
//! word that also counts changes; readers write nothing, and compare the word before and after. Bit
//! 0 means latched, bit 1 that the protected object was unlinked and never changes again, the
//! bits above count.
//!
//! [`QueueLatch`] is the queue lock of Mellor-Crummey and Scott ("Algorithms for scalable
//! synchronization on shared-memory multiprocessors", ACM TOCS 1991, algorithm 5): each waiter
//! spins on a line of its own, in order of arrival. The engine uses this latch wherever several
//! cores may wait.

use std::sync::atomic::Ordering;

use platform::{Platform, SharedWord};

const LATCHED: u64 = 1;
const OBSOLETE: u64 = 2;
/// The increment of the version for one change of the protected object.
const STEP: u64 = 4;

/// The object was unlinked: start again from where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obsolete;

/// A version word: zeroed memory is an unlatched one.
///
/// Concurrency: data is read with relaxed loads between [`Self::read_begin`] and
/// [`Self::validate`], and written with relaxed stores between [`Self::try_upgrade`] and one of the
/// `unlock`s. A reader that saw any of those stores sees in `validate` that the word has changed,
/// because both sides have a fence between word and data.
#[repr(transparent)]
pub struct VersionLatch<P: Platform> {
    word: P::Word,
}

impl<P: Platform> VersionLatch<P> {
    /// Version of an object that was never changed.
    pub const INITIAL: u64 = STEP;

    /// The word of an object with this version that is latched by its creator.
    #[inline(always)]
    pub const fn latched(version: u64) -> u64 {
        version | LATCHED
    }

    /// An unlatched word with this version.
    pub fn new(version: u64) -> Self {
        VersionLatch { word: P::Word::new(version) }
    }

    /// The word as version latch.
    #[inline(always)]
    pub fn from_word(word: &P::Word) -> &Self {
        // SAFETY: `repr(transparent)` over the word, with the same lifetime.
        unsafe { &*std::ptr::from_ref(word).cast::<Self>() }
    }

    /// The word itself.
    #[inline(always)]
    pub fn word(&self) -> &P::Word {
        &self.word
    }

    /// Returns true if `version` is that of a latched object.
    #[inline(always)]
    pub fn is_latched(version: u64) -> bool {
        version & LATCHED != 0
    }

    /// Returns true if `version` is that of an unlinked object.
    #[inline(always)]
    pub fn is_obsolete(version: u64) -> bool {
        version & OBSOLETE != 0
    }

    /// The version, once the latch is free.
    #[inline(always)]
    pub fn read_begin(&self, c: P::Core) -> Result<u64, Obsolete> {
        // Acquire: pairs with the release of `unlock_changed`: the data is at least as new as the
        // version.
        let version = P::load(c, &self.word, Ordering::Acquire);
        if version & (LATCHED | OBSOLETE) == 0 {
            return Ok(version);
        }
        self.wait(c, version)
    }

    #[cold]
    fn wait(&self, c: P::Core, mut version: u64) -> Result<u64, Obsolete> {
        while Self::is_latched(version) {
            version = P::spin_while(c, &self.word, version, None);
        }
        if Self::is_obsolete(version) { Err(Obsolete) } else { Ok(version) }
    }

    /// Returns true if all data read since [`Self::read_begin`] returned `version` is consistent.
    #[inline(always)]
    pub fn validate(&self, c: P::Core, version: u64) -> bool {
        // Acquire: pairs with the release fence in `try_upgrade`: a reader of new data sees the
        // latched word.
        P::fence(c, Ordering::Acquire);
        // Relaxed: ordered by the fence before.
        P::load(c, &self.word, Ordering::Relaxed) == version
    }

    /// Returns true if the version is still `version` at a moment within this call that all cores
    /// agree on: two transactions that both change something and then check what the other changed
    /// cannot both succeed.
    #[inline]
    pub fn is_current(&self, c: P::Core, version: u64) -> bool {
        P::load(c, &self.word, Ordering::SeqCst) == version
    }

    /// Returns true if the object was unlinked.
    pub fn is_obsolete_now(&self, c: P::Core) -> bool {
        // Relaxed: the bit is never taken back.
        Self::is_obsolete(P::load(c, &self.word, Ordering::Relaxed))
    }

    /// Latches the object if its version is still this one, which came from [`Self::read_begin`];
    /// whether it was. Never waits.
    #[inline(always)]
    pub fn try_upgrade(&self, c: P::Core, version: u64) -> bool {
        debug_assert!(version & (LATCHED | OBSOLETE) == 0);
        // SeqCst: see `is_current`.
        let latched = P::cas(c, &self.word, version, version | LATCHED, Ordering::SeqCst).is_ok();
        // Release: pairs with the acquire fence in `validate`.
        P::fence(c, Ordering::Release);
        latched
    }

    /// Waits for the latch; the version to unlock with.
    pub fn acquire(&self, c: P::Core) -> Result<u64, Obsolete> {
        loop {
            let version = self.read_begin(c)?;
            if self.try_upgrade(c, version) {
                return Ok(version);
            }
        }
    }

    /// Unlatches a changed object that was latched at `version`; the new version.
    #[inline(always)]
    pub fn unlock_changed(&self, c: P::Core, version: u64) -> u64 {
        let changed = version.wrapping_add(STEP);
        // Release: pairs with the acquire in `read_begin`.
        P::store(c, &self.word, changed, Ordering::Release);
        changed
    }

    /// Unlatches an object in which nothing changed that readers may depend on.
    #[inline(always)]
    pub fn unlock_unchanged(&self, c: P::Core, version: u64) {
        // Release: pairs with the compare and swap of the next holder, for fields that only holders
        // read.
        P::store(c, &self.word, version, Ordering::Release);
    }

    /// Unlatches an object that was unlinked while latched at `version`: all later users start
    /// again.
    #[inline(always)]
    pub fn unlock_obsolete(&self, c: P::Core, version: u64) {
        // Release: pairs with the acquire in `read_begin`: a reader that starts again sees what the
        // object was unlinked from.
        P::store(c, &self.word, version.wrapping_add(STEP) | OBSOLETE, Ordering::Release);
    }
}

/// A waiter's place in the queue of a [`QueueLatch`]. The node lies in region memory, on a line of
/// its own; zeroed memory is a free node. A core may use a node for one latch after the other, but
/// not for two at a time.
#[repr(C, align(64))]
pub struct QueueNode<P: Platform> {
    /// Address of the node behind this one; 0 until the waiter behind has linked itself.
    next: P::Word,
    /// 1 until the holder before hands the latch over. Without this word a waiter would spin on a
    /// word of another core.
    waiting: P::Word,
}

/// Mutual exclusion in order of arrival. Zeroed memory is a free latch.
#[repr(transparent)]
pub struct QueueLatch<P: Platform> {
    /// Address of the last node in the queue; 0 when free.
    tail: P::Word,
}

impl<P: Platform> QueueNode<P> {
    fn at<'a>(address: u64) -> &'a Self {
        // SAFETY: addresses in the queue came from `expose`, and `acquire` demands that the node
        // stays valid until its `release`, which waits for the node behind it.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) }
    }

    fn expose(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }
}

impl<P: Platform> QueueLatch<P> {
    /// The word as a queue latch.
    #[inline(always)]
    pub fn from_word(word: &P::Word) -> &Self {
        // SAFETY: `repr(transparent)` over the word, with the same lifetime.
        unsafe { &*std::ptr::from_ref(word).cast::<Self>() }
    }

    /// Waits for the latch.
    ///
    /// Concurrency: the exchange orders the waiters; each waiter links its node behind the one
    /// before and then spins on its own node.
    ///
    /// # Safety
    /// `node` stays in place, and is used for nothing else, until [`Self::release`] with it has
    /// returned.
    pub unsafe fn acquire(&self, c: P::Core, node: &QueueNode<P>) {
        // Relaxed, twice: published by the exchange.
        P::store(c, &node.next, 0, Ordering::Relaxed);
        P::store(c, &node.waiting, 1, Ordering::Relaxed);
        // AcqRel: publishes this node to the waiter behind, and takes over from a holder that
        // released an empty queue.
        let before = P::swap(c, &self.tail, node.expose(), Ordering::AcqRel);
        if before == 0 {
            return;
        }
        // Release: pairs with the acquire in `release` of the node before.
        P::store(c, &QueueNode::<P>::at(before).next, node.expose(), Ordering::Release);
        P::spin_while(c, &node.waiting, 1, None);
    }

    /// Takes the latch if it is free; whether it was.
    ///
    /// # Safety
    /// As [`Self::acquire`], if it returns true.
    pub unsafe fn try_acquire(&self, c: P::Core, node: &QueueNode<P>) -> bool {
        // Relaxed: published by the compare and swap.
        P::store(c, &node.next, 0, Ordering::Relaxed);
        // AcqRel: as in `acquire`.
        P::cas(c, &self.tail, 0, node.expose(), Ordering::AcqRel).is_ok()
    }

    /// Hands the latch to the next waiter.
    ///
    /// # Safety
    /// The caller holds the latch with this node.
    pub unsafe fn release(&self, c: P::Core, node: &QueueNode<P>) {
        // Acquire: pairs with the release store of the node behind: its fields are initialised.
        let mut next = P::load(c, &node.next, Ordering::Acquire);
        if next == 0 {
            // Release: pairs with the exchange of the next holder.
            if P::cas(c, &self.tail, node.expose(), 0, Ordering::Release).is_ok() {
                return;
            }
            // The next waiter is between its exchange and its link.
            next = P::spin_while(c, &node.next, 0, None);
        }
        // Release: pairs with the acquire of the waiter's spin.
        P::store(c, &QueueNode::<P>::at(next).waiting, 0, Ordering::Release);
    }

    /// Returns true if the latch is held, for assertions and reports.
    pub fn is_held(&self, c: P::Core) -> bool {
        // Relaxed: orders nothing.
        P::load(c, &self.tail, Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, LINE_BYTES, Place, RegionBytes};

    use super::*;

    const ROUNDS: u64 = if cfg!(miri) { 30 } else { 20_000 };

    struct Shared {
        region: <Hardware as Platform>::Region,
    }

    impl Shared {
        fn new() -> Self {
            Shared { region: Hardware::region(Hardware::core(), None, 4096, "test").expect("memory") }
        }

        fn at<T>(&self, line: usize) -> &T {
            assert!(size_of::<T>() <= LINE_BYTES && line < 64);
            // SAFETY: the test asks for types made of words only; the zeroed page holds 64 lines.
            unsafe { &*self.region.base().add(line * LINE_BYTES).cast::<T>() }
        }
    }

    #[test]
    fn queue_latch_excludes() {
        let shared = Shared::new();
        let latch = shared.at::<QueueLatch<Hardware>>(0);
        let count = shared.at::<<Hardware as Platform>::Word>(1);
        let worker = |c, index: usize| {
            let node = shared.at::<QueueNode<Hardware>>(2 + index);
            for round in 0..ROUNDS {
                // SAFETY: the node is this worker's own and in use for this latch only.
                unsafe {
                    if round % 3 != 0 || !latch.try_acquire(c, node) {
                        latch.acquire(c, node);
                    }
                    let seen = Hardware::peek(count);
                    Hardware::poke(count, seen + 1);
                    latch.release(c, node);
                }
            }
        };
        let c = Hardware::core();
        Hardware::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
        assert_eq!(Hardware::peek(count), 3 * ROUNDS);
        assert!(!latch.is_held(c));
        let (first, second) = (shared.at::<QueueNode<Hardware>>(8), shared.at::<QueueNode<Hardware>>(9));
        // SAFETY: nodes of this test only, in order.
        unsafe {
            assert!(latch.try_acquire(c, first));
            assert!(latch.is_held(c) && !latch.try_acquire(c, second));
            latch.release(c, first);
            assert!(latch.try_acquire(c, second));
            latch.release(c, second);
        }
    }

    #[test]
    fn version_latch_readers_see_whole_changes() {
        let shared = Shared::new();
        let latch = shared.at::<VersionLatch<Hardware>>(0);
        let data: [&<Hardware as Platform>::Word; 2] = [shared.at(1), shared.at(2)];
        let worker = |c, index: usize| {
            for _ in 0..ROUNDS {
                let version = latch.read_begin(c).expect("not obsolete");
                let (first, second) = (Hardware::peek(data[0]), Hardware::peek(data[1]));
                if latch.validate(c, version) {
                    assert_eq!(first, second);
                }
                if index < 2 && latch.try_upgrade(c, version) {
                    assert_eq!((first, second), (Hardware::peek(data[0]), Hardware::peek(data[1])));
                    Hardware::poke(data[0], first + 1);
                    Hardware::poke(data[1], first + 1);
                    assert!(latch.unlock_changed(c, version) > version);
                }
            }
        };
        Hardware::parallel(Hardware::core(), &[Place { thread: None }; 3], &worker, &mut |_| ());
    }

    #[test]
    fn version_latch_transitions() {
        let c = Hardware::core();
        let latch = VersionLatch::<Hardware>::new(VersionLatch::<Hardware>::INITIAL);
        let version = latch.read_begin(c).expect("not obsolete");
        assert!(latch.try_upgrade(c, version) && !latch.try_upgrade(c, version));
        assert!(!latch.validate(c, version) && !latch.is_current(c, version));
        latch.unlock_unchanged(c, version);
        assert!(latch.validate(c, version) && latch.is_current(c, version));
        let version = latch.acquire(c).expect("not obsolete");
        let changed = latch.unlock_changed(c, version);
        assert!(!latch.validate(c, version) && latch.validate(c, changed));
        assert!(latch.try_upgrade(c, changed));
        latch.unlock_obsolete(c, changed);
        assert_eq!(latch.read_begin(c), Err(Obsolete));
        assert!(!latch.is_current(c, changed));
    }
}
