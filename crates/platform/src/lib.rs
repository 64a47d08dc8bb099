//! The port between the engine and the machine it runs on.
//!
//! All engine code is generic over [`Platform`]. There are two implementations: [`Hardware`], whose
//! calls inline to the plain instruction, and `sim::VirtualMachine`, where every atomic operation
//! and every declared touch of memory is a scheduling point with a cost in virtual time.
//!
//! # The shared-memory rule
//!
//! Every word that two cores may touch lives in a [`Platform::Region`]. Anything ordered by place
//! uses [`Platform::address`], never a pointer. Every spin is [`Platform::spin_while`] on a word,
//! so that the virtual machine can put the core to sleep until the word changes. Optimistic readers
//! copy racing words with relaxed atomics ([`Platform::read_words`], [`Platform::peek`]), never
//! with plain loads.

#![deny(unsafe_op_in_unsafe_fn)]
// This crate is the machine's side of the port: it may use what the engine may not.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod between;
pub mod files;
mod hardware;
pub mod link;
mod types;

pub use hardware::{
    Hardware, HardwareCore, HardwareDirectory, HardwareFile, HardwareQueue, HardwareRegion, KernelReceiver,
    KernelSender, KernelWatch, SharedMemory,
};
pub use terms::{HardwareThread, Intent, Node, OutOfMemory};
pub use types::{Address, Code, LINE_BYTES, Nanos, Work};

use std::sync::atomic::Ordering;

/// An 8-byte word that several cores may touch. Zeroed memory is a valid word with value 0.
pub trait SharedWord: Send + Sync + Sized + 'static {
    /// A word with this value.
    fn new(value: u64) -> Self;
}

/// Memory handed out by a platform: zeroed, aligned to at least 4 KiB, unmapped when dropped.
pub trait RegionBytes: Send + Sync {
    /// First byte. Valid for reads and writes of [`Self::bytes`] bytes while the region lives.
    fn base(&self) -> *mut u8;
    /// Length in bytes, at least the requested one.
    fn bytes(&self) -> usize;
}

/// One worker of [`Platform::parallel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The hardware thread the worker is pinned to; `None` leaves it to the operating system.
    pub thread: Option<HardwareThread>,
}

/// Cores, memory and time, real or simulated. See the crate documentation for the rules its users
/// keep.
///
/// Concurrency: unless a method says otherwise it may be called by any core at any time; orderings
/// mean what they mean for `std::sync::atomic` (the virtual machine is sequentially consistent,
/// which is stronger).
pub trait Platform: Copy + Send + Sync + 'static {
    /// The running core: the capability that every call takes. Zero-sized on hardware; not to be
    /// kept in shared memory nor handed to another core.
    type Core: Copy;
    /// An 8-byte shared word; on both platforms it has the size and alignment of a `u64`.
    type Word: SharedWord;
    /// Memory of a node.
    type Region: RegionBytes;

    /// True where time and memory are simulated: for reports only, engine code must not branch on
    /// it.
    const VIRTUAL: bool;

    // --- memory: called by arenas, indexes and shared state when they grow ---

    /// `bytes` of zeroed memory on `node` (`None`: wherever the caller runs). `name` is the
    /// structure that lives there, for reports.
    fn region(
        c: Self::Core,
        node: Option<Node>,
        bytes: usize,
        name: &'static str,
    ) -> Result<Self::Region, OutOfMemory>;

    /// Memory for what belongs to no machine of several: the words by which a driver starts,
    /// watches and ends workers on all of them. Where there is one machine it is memory like other.
    fn control_region(c: Self::Core, bytes: usize, name: &'static str) -> Result<Self::Region, OutOfMemory> {
        Self::region(c, None, bytes, name)
    }

    /// Requests of a core that belongs to no machine (the main one) that name no node, for memory
    /// and directories of files, go to the machine of this node from now on. A worker that is not
    /// pinned moves to this machine, whose operating system places it from now on. No effect where
    /// there is one machine.
    fn work_for(_: Self::Core, _: Option<Node>) {}

    /// Makes the operating system provide the memory of `bytes` bytes from `at` on now instead of
    /// at the first touch of each page. A hint: contents stay as they are. The range lies in one
    /// region.
    fn populate(c: Self::Core, at: *mut u8, bytes: usize);

    /// The word `offset` bytes into a region that is used as words only. Panics if it is not
    /// aligned or not inside.
    fn word_of(region: &Self::Region, offset: usize) -> &Self::Word {
        assert!(offset.is_multiple_of(8) && offset + 8 <= region.bytes(), "no word at {offset}");
        // SAFETY: inside the region and aligned; regions start zeroed, which makes valid words, and
        // other code that reaches into the region treats it as words too (as its use of the raw
        // base states). The region outlives the loan.
        unsafe { &*region.base().add(offset).cast::<Self::Word>() }
    }

    /// `count` words from `offset` bytes into a region on that is used as words only. Panics as
    /// [`Self::word_of`].
    fn words_of(region: &Self::Region, offset: usize, count: usize) -> &[Self::Word] {
        let end = count.checked_mul(8).and_then(|bytes| bytes.checked_add(offset));
        let is_inside = offset.is_multiple_of(8) && end.is_some_and(|end| end <= region.bytes());
        assert!(is_inside, "no {count} words at {offset}");
        // SAFETY: as in `word_of`.
        unsafe { std::slice::from_raw_parts(region.base().add(offset).cast::<Self::Word>(), count) }
    }

    /// The place of a shared object: the same in every run with the same seed, and ordered like
    /// memory.
    fn address<T>(c: Self::Core, object: *const T) -> Address;

    // --- words: called by everything that synchronizes ---

    /// Atomic load.
    fn load(c: Self::Core, word: &Self::Word, order: Ordering) -> u64;
    /// Atomic store.
    fn store(c: Self::Core, word: &Self::Word, value: u64, order: Ordering);
    /// Atomic compare and swap; `Ok(current)` if it was swapped, `Err(seen)` otherwise. Never fails
    /// spuriously. A failure loads with `Relaxed`, or `Acquire` where `order` acquires.
    fn cas(c: Self::Core, word: &Self::Word, current: u64, new: u64, order: Ordering) -> Result<u64, u64>;
    /// Atomic exchange; returns the previous value.
    fn swap(c: Self::Core, word: &Self::Word, value: u64, order: Ordering) -> u64;
    /// Atomic wrapping addition; returns the previous value.
    fn fetch_add(c: Self::Core, word: &Self::Word, value: u64, order: Ordering) -> u64;
    /// Atomic fence.
    fn fence(c: Self::Core, order: Ordering);

    // --- data: called by records and index nodes ---

    /// Copies words with relaxed atomic loads: one event a line in the virtual machine, so it may
    /// tear between lines and never within a word. The slices have equal length.
    fn read_words(c: Self::Core, from: &[Self::Word], to: &mut [u64]);
    /// Copies words with relaxed atomic stores; may tear between lines. The slices have equal
    /// length.
    fn write_words(c: Self::Core, to: &[Self::Word], from: &[u64]);
    /// Relaxed load that costs nothing in virtual time: the caller declared the line with
    /// [`Self::touch`].
    fn peek(word: &Self::Word) -> u64;
    /// Relaxed store that costs nothing in virtual time: the caller declared the line with
    /// [`Self::touch`] and [`Intent::Write`].
    fn poke(word: &Self::Word, value: u64);
    /// Declares that the next `bytes` bytes from `at` are read or written by `peek` or `poke`. All
    /// lines of one call are one overlapped miss.
    fn touch<T>(c: Self::Core, at: *const T, bytes: usize, intent: Intent);
    /// Starts to bring lines closer; the core goes on. Any address is allowed.
    fn prefetch<T>(c: Self::Core, at: *const T, bytes: usize, intent: Intent);

    // --- secrets: called by indexes when they are made ---

    /// A number that no process outside can guess, another one at each call. From the operating
    /// system's randomness on hardware; by the seed in a virtual machine, where it costs nothing
    /// and no fault depends on it.
    fn secret(c: Self::Core) -> u64;

    // --- time ---

    /// Declares computation between touches: `units` times the calibrated cost of `work`. Nothing
    /// on hardware.
    fn work(c: Self::Core, work: Work, units: u32);
    /// Declares instructions of a long code path that another program executes where this one does
    /// not, for comparisons. Nothing on hardware, and nothing for none.
    fn instructions(_: Self::Core, _: u32) {}
    /// Declares the code that the worker executes next. Nothing on hardware.
    fn code(_: Self::Core, _: Code) {}
    /// Nanoseconds since some fixed moment, the same on every core and never going back on one.
    fn now(c: Self::Core) -> Nanos;
    /// Synchronized hardware clock, in ticks of its own; strictly ordered with the memory
    /// operations around it.
    fn timestamp(c: Self::Core) -> u64;

    /// From now on (or no longer) what this core does takes no virtual time and moves no line, but
    /// for [`Self::pause`]: for loading what an experiment then measures. Nothing on hardware.
    fn untimed(_: Self::Core, _: bool) {}

    // --- waiting: the only ways to wait ---

    /// Spins while `word` has the value `seen`, until `deadline` if there is one; returns the last
    /// value seen, loaded with `Acquire`.
    fn spin_while(c: Self::Core, word: &Self::Word, seen: u64, deadline: Option<Nanos>) -> u64;
    /// Keeps the core busy for about this long, doing nothing (backoff).
    fn pause(c: Self::Core, nanos: u64);
    /// As [`Self::pause`], but gives the processor away where others may want it, and may then last
    /// longer: for threads that wait for a thread which may not be running. Simulated cores have no
    /// other thread to run.
    #[inline]
    fn rest(c: Self::Core, nanos: u64) {
        Self::pause(c, nanos);
    }
    /// Sleeps while `word` has the value `seen`, until [`Self::unpark`] or `deadline`; may return
    /// early. Gives the core to others.
    fn park(c: Self::Core, word: &Self::Word, seen: u64, deadline: Option<Nanos>);
    /// Wakes up to `count` cores parked on `word`. Call it after changing the word.
    fn unpark(c: Self::Core, word: &Self::Word, count: u32);

    // --- cores ---

    /// True while the core is being unwound because its machine has stopped: shared memory may be
    /// in any state, and nothing done to it has an effect. Destructors then leave it alone.
    #[inline(always)]
    fn is_gone(_: Self::Core) -> bool {
        false
    }

    /// The hardware threads that the caller may use now; `None`: all that there are. They may
    /// become fewer and more while the program runs. A caller that is bound to some of them gets
    /// only these.
    fn usable(_: Self::Core) -> Option<Vec<HardwareThread>> {
        None
    }

    /// Binds the caller to these hardware threads from now on. False: it may use none of them, and
    /// stays where it is. Of no threads it means nothing. In the virtual machine the caller moves
    /// to the one with the fewest workers, which take turns there.
    fn bind(_: Self::Core, _: &[HardwareThread]) -> bool {
        true
    }

    /// Runs `worker(core, index)` once for each place, all at the same time, each on its own
    /// thread, while the caller runs `main` (progress, deadlines: it occupies no simulated core).
    /// Returns when all are done. A panic of any of them is raised again here: on hardware after
    /// the others have finished, in the virtual machine at once, the others being unwound.
    fn parallel(
        c: Self::Core,
        places: &[Place],
        worker: &(dyn Fn(Self::Core, usize) + Sync),
        main: &mut dyn FnMut(Self::Core),
    );
}
