//! The real machine: every call inlines to the plain instruction.
//!
//! Deviations from an ideal machine: x86-64 Linux only; without an invariant time stamp counter the
//! clock falls back to `clock_gettime`.

pub(crate) mod channel;
mod clock;
mod cycles;
mod files;
mod handle;
pub(crate) mod life;
pub(crate) mod links;
mod opener;
pub(crate) mod polling;
mod process;
mod region;
mod shared_memory;
pub(crate) mod shared_ring;
mod threads;
mod watch;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Address, Intent, LINE_BYTES, Nanos, OutOfMemory, Place, Platform, SharedWord, Work};
use terms::{HardwareThread, Node};

pub use files::{HardwareDirectory, HardwareFile, HardwareQueue};
pub use handle::HardwareCore;
pub use links::{KernelReceiver, KernelSender};
pub use region::HardwareRegion;
pub use shared_memory::SharedMemory;
pub use watch::KernelWatch;

/// The platform that is the machine itself.
#[derive(Clone, Copy, Debug)]
pub struct Hardware;

impl Hardware {
    /// The calling thread as a core. The thread is not pinned. Calibrates the clock on first use
    /// (some milliseconds).
    pub fn core() -> HardwareCore {
        clock::calibrate();
        HardwareCore::new()
    }

    /// Runs a chain of `100 * count` additions, each of which waits for the one before: one cycle
    /// each on every x86-64 processor, so that their time gives the clock of the core. On other
    /// processors it does nothing, and returns false.
    pub fn dependent_additions(count: u64) -> bool {
        cycles::additions(count)
    }

    /// True if the time stamp counter runs at one rate on every core, whatever their power states.
    pub fn clock_is_invariant() -> bool {
        clock::invariant()
    }
}

impl SharedWord for AtomicU64 {
    #[inline(always)]
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }
}

/// Spins this often before a spinning thread offers its processor to others: with more threads than
/// processors the awaited thread may not be running.
const SPINS_BEFORE_YIELD: u32 = 2_000;

impl Platform for Hardware {
    type Core = HardwareCore;
    type Word = AtomicU64;
    type Region = HardwareRegion;

    const VIRTUAL: bool = false;

    fn region(
        _: HardwareCore,
        node: Option<Node>,
        bytes: usize,
        name: &'static str,
    ) -> Result<HardwareRegion, OutOfMemory> {
        HardwareRegion::map(node, bytes, name)
    }

    fn secret(_: HardwareCore) -> u64 {
        // The standard library keeps random keys of a keyed hash, which it draws without waiting
        // for the system to gather randomness; each state has another key.
        RandomState::new().hash_one(0_u64)
    }

    fn populate(_: HardwareCore, at: *mut u8, bytes: usize) {
        region::populate(at, bytes);
    }

    #[inline(always)]
    fn address<T>(_: HardwareCore, object: *const T) -> Address {
        Address(object.addr() as u64)
    }

    #[inline(always)]
    fn load(_: HardwareCore, word: &AtomicU64, order: Ordering) -> u64 {
        word.load(order)
    }

    #[inline(always)]
    fn store(_: HardwareCore, word: &AtomicU64, value: u64, order: Ordering) {
        word.store(value, order);
    }

    #[inline(always)]
    fn cas(_: HardwareCore, word: &AtomicU64, current: u64, new: u64, order: Ordering) -> Result<u64, u64> {
        let failure = match order {
            Ordering::Relaxed | Ordering::Release => Ordering::Relaxed,
            Ordering::SeqCst => Ordering::SeqCst,
            _ => Ordering::Acquire,
        };
        word.compare_exchange(current, new, order, failure)
    }

    #[inline(always)]
    fn swap(_: HardwareCore, word: &AtomicU64, value: u64, order: Ordering) -> u64 {
        word.swap(value, order)
    }

    #[inline(always)]
    fn fetch_add(_: HardwareCore, word: &AtomicU64, value: u64, order: Ordering) -> u64 {
        word.fetch_add(value, order)
    }

    #[inline(always)]
    fn fence(_: HardwareCore, order: Ordering) {
        std::sync::atomic::fence(order);
    }

    #[inline(always)]
    fn read_words(_: HardwareCore, from: &[AtomicU64], to: &mut [u64]) {
        assert_eq!(from.len(), to.len());
        for (word, slot) in from.iter().zip(to) {
            // Relaxed: the caller validates with an acquire fence afterwards.
            *slot = word.load(Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn write_words(_: HardwareCore, to: &[AtomicU64], from: &[u64]) {
        assert_eq!(from.len(), to.len());
        for (word, value) in to.iter().zip(from) {
            // Relaxed: the caller holds the row exclusively and publishes with a release store
            // afterwards.
            word.store(*value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn peek(word: &AtomicU64) -> u64 {
        // Relaxed: covered by the latch or the validation of the touch it belongs to.
        word.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn poke(word: &AtomicU64, value: u64) {
        // Relaxed: published by the release of the latch that the caller holds.
        word.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn touch<T>(_: HardwareCore, _: *const T, _: usize, _: Intent) {}

    #[inline(always)]
    fn prefetch<T>(_: HardwareCore, at: *const T, bytes: usize, _: Intent) {
        let mut offset = 0;
        while offset < bytes {
            prefetch_line(at.cast::<u8>().wrapping_add(offset));
            offset += LINE_BYTES;
        }
    }

    #[inline(always)]
    fn now(_: HardwareCore) -> Nanos {
        clock::now()
    }

    #[inline(always)]
    fn timestamp(_: HardwareCore) -> u64 {
        clock::ordered_ticks()
    }

    #[inline(always)]
    fn work(_: HardwareCore, _: Work, _: u32) {}

    #[inline(always)]
    fn spin_while(_: HardwareCore, word: &AtomicU64, seen: u64, deadline: Option<Nanos>) -> u64 {
        spin(word, seen, deadline)
    }

    #[inline]
    fn pause(_: HardwareCore, nanos: u64) {
        let end = clock::now().plus(nanos);
        while clock::now() < end {
            std::hint::spin_loop();
        }
    }

    fn rest(_: HardwareCore, nanos: u64) {
        threads::rest(nanos);
    }

    fn park(_: HardwareCore, word: &AtomicU64, seen: u64, deadline: Option<Nanos>) {
        threads::park(word, seen, deadline);
    }

    fn unpark(_: HardwareCore, word: &AtomicU64, count: u32) {
        threads::unpark(word, count);
    }

    fn usable(_: HardwareCore) -> Option<Vec<HardwareThread>> {
        Hardware::allowed()
    }

    fn bind(c: HardwareCore, threads: &[HardwareThread]) -> bool {
        Hardware::confine(c, threads).is_ok()
    }

    fn parallel(
        c: HardwareCore,
        places: &[Place],
        worker: &(dyn Fn(HardwareCore, usize) + Sync),
        main: &mut dyn FnMut(HardwareCore),
    ) {
        threads::parallel(c, places, worker, main);
    }
}

/// Out of line, so that a caller that does not wait pays no registers for those that do.
#[cold]
#[inline(never)]
fn spin(word: &AtomicU64, seen: u64, deadline: Option<Nanos>) -> u64 {
    let mut spins = 0;
    loop {
        // Acquire: pairs with the release store of the thread that changes the word.
        let value = word.load(Ordering::Acquire);
        if value != seen {
            return value;
        }
        spins += 1;
        if spins % SPINS_BEFORE_YIELD == 0 {
            threads::offer_processor();
        }
        if spins % 64 == 0 && deadline.is_some_and(|end| clock::now() >= end) {
            return seen;
        }
        std::hint::spin_loop();
    }
}

#[inline(always)]
fn prefetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetch has no architectural effect; any address is allowed.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
