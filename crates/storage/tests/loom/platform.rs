//! The third platform, for tests only: words are loom's atomics, so that a model explores the
//! interleavings and the weak memory that neither the virtual machine nor an x86 shows.
//!
//! A shared word is eight bytes on every platform, a loom atomic is not. So a word's bytes hold its
//! initial value until it is first touched, and from then on the number of a loom atomic in a table
//! of the current execution.
//!
//! Limits:
//! - loom wants an atomic to be made before other threads know it. A model makes its words in its
//!   first thread, with [`declare`], before it spawns others; a word that two threads first touch
//!   without order fails as "causality violation".
//! - loom takes SeqCst operations for AcqRel ones. Here a SeqCst operation is a SeqCst fence, which
//!   loom knows, and then the AcqRel operation. That is at least as strong where both sides of a
//!   pattern have it.
//! - loom remembers only the last access to an atomic when it searches orders to explore, so that
//!   a load hides the conflicts of the loads before it (loom's issues 166 and 392). Every operation
//!   here is preceded by a relaxed store to a second atomic that no thread reads: stores always
//!   conflict, and order nothing.
//! - A load never sees a store that comes later in loom's order, so load buffering is not explored.
//!
//! [`LoomPlatform`] has a parameter that [weakens](Weakening) one kind of operation everywhere:
//! mutants that a model must catch, or it proves nothing.

#![allow(dead_code)]
// A platform is the machine's side of the port: it may use what the engine may not.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use loom::sync::atomic::AtomicU64;
use platform::{
    Address, Intent, LINE_BYTES, Nanos, Node, OutOfMemory, Place, Platform, RegionBytes, SharedWord, Work,
};

/// The ordering that a mutant omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakened {
    Nothing,
    AcquireFences,
    ReleaseFences,
    SeqCstFences,
    /// SeqCst operations are AcqRel.
    SeqCstOperations,
    AcquireLoads,
    ReleaseStores,
    /// Compare and swap, exchange and addition are Relaxed.
    Exchanges,
}

/// Chooses what a platform leaves out.
pub trait Weakening: Copy + Send + Sync + 'static {
    const WHAT: Weakened;
}

macro_rules! weakenings {
    ($($(#[$doc:meta])* $name:ident = $what:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;
        impl Weakening for $name {
            const WHAT: Weakened = Weakened::$what;
        }
    )* };
}

weakenings! {
    /// The orderings that the code under test names.
    AsWritten = Nothing;
    WithoutAcquireFences = AcquireFences;
    WithoutReleaseFences = ReleaseFences;
    WithoutSeqCstFences = SeqCstFences;
    WithoutSeqCstOperations = SeqCstOperations;
    WithRelaxedLoads = AcquireLoads;
    WithRelaxedStores = ReleaseStores;
    WithRelaxedExchanges = Exchanges;
}

/// High bits of a word that holds the number of an atomic: no value in any model equals it.
const NUMBERED: u64 = 0x100f << 48;
const EXECUTION_SHIFT: u32 = 24;

/// A word's atomic, and the one that makes all operations on it conflict.
struct Pair {
    value: AtomicU64,
    conflict: AtomicU64,
}

/// The atomics and regions of the current execution of the model on this host thread.
#[derive(Default)]
struct Table {
    execution: u64,
    atomics: Vec<Rc<Pair>>,
    regions: Vec<(*mut u8, usize)>,
    parked: Option<Rc<Parked>>,
}

/// Where all threads of an execution park: a thread that parks reads the word, and a thread that
/// unparks wakes, under one lock, as the kernel's futex does. A wake-up that is lost is a deadlock,
/// which loom reports.
#[derive(Default)]
struct Parked {
    lock: loom::sync::Mutex<()>,
    sleepers: loom::sync::Condvar,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// An 8-byte word: see the module's text.
pub struct LoomWord(std::sync::atomic::AtomicU64);

impl SharedWord for LoomWord {
    fn new(value: u64) -> Self {
        LoomWord(std::sync::atomic::AtomicU64::new(value))
    }
}

impl LoomWord {
    /// The word's atomic, about to be used.
    fn atomic(&self) -> impl std::ops::Deref<Target = AtomicU64> {
        struct Value(Rc<Pair>);
        impl std::ops::Deref for Value {
            type Target = AtomicU64;
            fn deref(&self) -> &AtomicU64 {
                &self.0.value
            }
        }
        let pair = self.pair();
        // Relaxed: see the module's text.
        pair.conflict.store(0, Ordering::Relaxed);
        Value(pair)
    }

    fn pair(&self) -> Rc<Pair> {
        // Relaxed: all threads of a model run on one host thread.
        let bits = self.0.load(Ordering::Relaxed);
        TABLE.with_borrow_mut(|table| {
            let execution = table.execution << EXECUTION_SHIFT;
            if bits & (0xffff << 48) == NUMBERED {
                let number = bits & ((1 << EXECUTION_SHIFT) - 1);
                assert_eq!(bits, NUMBERED | execution | number, "a word outlived its execution");
                return table.atomics[number as usize].clone();
            }
            let pair = Rc::new(Pair { value: AtomicU64::new(bits), conflict: AtomicU64::new(0) });
            self.0.store(NUMBERED | execution | table.atomics.len() as u64, Ordering::Relaxed);
            table.atomics.push(pair.clone());
            pair
        })
    }
}

/// Zeroed memory.
pub struct LoomRegion {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: all threads of a model run on one host thread.
unsafe impl Send for LoomRegion {}
// SAFETY: as above.
unsafe impl Sync for LoomRegion {}

impl RegionBytes for LoomRegion {
    fn base(&self) -> *mut u8 {
        self.base
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for LoomRegion {
    fn drop(&mut self) {
        // SAFETY: allocated by `region` with this layout.
        unsafe { std::alloc::dealloc(self.base, self.layout) };
    }
}

/// The right to touch shared memory.
#[derive(Clone, Copy)]
pub struct LoomCore {
    _private: (),
}

/// The platform on loom, with one kind of operation weakened.
#[derive(Clone, Copy)]
pub struct LoomPlatform<O = AsWritten>(PhantomData<O>);

/// Begins an execution of a model; its first thread as a core.
pub fn begin() -> LoomCore {
    TABLE.with_borrow_mut(|table| {
        let parked = Some(Rc::default());
        *table = Table { execution: (table.execution + 1) & 0xff_ffff, parked, ..Table::default() };
    });
    LoomCore { _private: () }
}

fn parked() -> Rc<Parked> {
    TABLE.with_borrow(|table| table.parked.clone()).expect("the execution has begun")
}

/// Makes the atomics of the first `bytes` bytes of each region. To be called before other threads
/// are spawned.
pub fn declare(bytes: usize) {
    let regions = TABLE.with_borrow(|table| table.regions.clone());
    for (base, length) in regions {
        for offset in (0..bytes.min(length)).step_by(8) {
            // SAFETY: inside the region, which lives until the end of the model; its memory was
            // zeroed, and is words.
            unsafe { &*base.add(offset).cast::<LoomWord>() }.pair();
        }
    }
}

impl<O: Weakening> LoomPlatform<O> {
    fn exchange(order: Ordering) -> Ordering {
        match order {
            _ if O::WHAT == Weakened::Exchanges => Ordering::Relaxed,
            Ordering::SeqCst => {
                Self::before_seq_cst();
                Ordering::AcqRel
            }
            other => other,
        }
    }

    fn before_seq_cst() {
        if O::WHAT != Weakened::SeqCstOperations {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    fn acquire() -> Ordering {
        if O::WHAT == Weakened::AcquireLoads { Ordering::Relaxed } else { Ordering::Acquire }
    }
}

impl<O: Weakening> Platform for LoomPlatform<O> {
    type Core = LoomCore;
    type Word = LoomWord;
    type Region = LoomRegion;

    const VIRTUAL: bool = false;

    fn region(
        _: LoomCore,
        _: Option<Node>,
        bytes: usize,
        _: &'static str,
    ) -> Result<LoomRegion, OutOfMemory> {
        let bytes = bytes.max(1).next_multiple_of(LINE_BYTES);
        let layout = Layout::from_size_align(bytes, 4096).expect("a model's regions are small");
        // SAFETY: the layout's size is not 0.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        assert!(!base.is_null(), "a model's regions are small");
        TABLE.with_borrow_mut(|table| table.regions.push((base, bytes)));
        Ok(LoomRegion { base, layout })
    }

    fn populate(_: LoomCore, _: *mut u8, _: usize) {}

    fn secret(_: LoomCore) -> u64 {
        0x9e37_79b9_7f4a_7c15
    }

    fn address<T>(_: LoomCore, object: *const T) -> Address {
        Address(object.addr() as u64)
    }

    fn load(_: LoomCore, word: &LoomWord, order: Ordering) -> u64 {
        let order = match order {
            Ordering::Acquire => Self::acquire(),
            Ordering::SeqCst => {
                Self::before_seq_cst();
                Ordering::Acquire
            }
            other => other,
        };
        word.atomic().load(order)
    }

    fn store(_: LoomCore, word: &LoomWord, value: u64, order: Ordering) {
        let order = match order {
            Ordering::Release if O::WHAT == Weakened::ReleaseStores => Ordering::Relaxed,
            Ordering::SeqCst => {
                Self::before_seq_cst();
                Ordering::Release
            }
            other => other,
        };
        word.atomic().store(value, order);
    }

    fn cas(_: LoomCore, word: &LoomWord, current: u64, new: u64, order: Ordering) -> Result<u64, u64> {
        let order = Self::exchange(order);
        let failure = match order {
            Ordering::Relaxed | Ordering::Release => Ordering::Relaxed,
            _ => Ordering::Acquire,
        };
        word.atomic().compare_exchange(current, new, order, failure)
    }

    fn swap(_: LoomCore, word: &LoomWord, value: u64, order: Ordering) -> u64 {
        word.atomic().swap(value, Self::exchange(order))
    }

    fn fetch_add(_: LoomCore, word: &LoomWord, value: u64, order: Ordering) -> u64 {
        word.atomic().fetch_add(value, Self::exchange(order))
    }

    fn fence(_: LoomCore, order: Ordering) {
        let left_out = match order {
            Ordering::Acquire => O::WHAT == Weakened::AcquireFences,
            Ordering::Release => O::WHAT == Weakened::ReleaseFences,
            _ => O::WHAT == Weakened::SeqCstFences,
        };
        if !left_out {
            loom::sync::atomic::fence(order);
        }
    }

    fn read_words(_: LoomCore, from: &[LoomWord], to: &mut [u64]) {
        assert_eq!(from.len(), to.len());
        for (word, slot) in from.iter().zip(to) {
            *slot = Self::peek(word);
        }
    }

    fn write_words(_: LoomCore, to: &[LoomWord], from: &[u64]) {
        assert_eq!(from.len(), to.len());
        for (word, value) in to.iter().zip(from) {
            Self::poke(word, *value);
        }
    }

    fn peek(word: &LoomWord) -> u64 {
        word.atomic().load(Ordering::Relaxed)
    }

    fn poke(word: &LoomWord, value: u64) {
        word.atomic().store(value, Ordering::Relaxed);
    }

    fn touch<T>(_: LoomCore, _: *const T, _: usize, _: Intent) {}

    fn prefetch<T>(_: LoomCore, _: *const T, _: usize, _: Intent) {}

    fn work(_: LoomCore, _: Work, _: u32) {}

    fn now(_: LoomCore) -> Nanos {
        Nanos(0)
    }

    fn timestamp(_: LoomCore) -> u64 {
        0
    }

    /// A deadline has always passed: a word that others wait for may change later.
    fn spin_while(_: LoomCore, word: &LoomWord, seen: u64, deadline: Option<Nanos>) -> u64 {
        loop {
            let value = word.atomic().load(Self::acquire());
            if value != seen || deadline.is_some() {
                return value;
            }
            loom::thread::yield_now();
        }
    }

    fn pause(_: LoomCore, _: u64) {
        loom::thread::yield_now();
    }

    fn park(_: LoomCore, word: &LoomWord, seen: u64, _: Option<Nanos>) {
        let parked = parked();
        let guard = parked.lock.lock().expect("no panic under the lock");
        // Relaxed: the kernel orders the read by its own lock.
        if word.atomic().load(Ordering::Relaxed) == seen {
            drop(parked.sleepers.wait(guard).expect("no panic under the lock"));
        }
    }

    fn unpark(_: LoomCore, _: &LoomWord, _: u32) {
        let parked = parked();
        let _guard = parked.lock.lock().expect("no panic under the lock");
        parked.sleepers.notify_all();
    }

    fn parallel(_: LoomCore, _: &[Place], _: &(dyn Fn(LoomCore, usize) + Sync), _: &mut dyn FnMut(LoomCore)) {
        unimplemented!("models spawn loom's threads")
    }
}

/// Steps of one execution after which a thread is taken to spin for ever.
const BRANCHES_MAX: usize = 2_000;

/// A counter that all threads of a model, which are one host thread, may share.
struct Counted(Rc<Cell<u64>>);

// SAFETY: see above.
unsafe impl Send for Counted {}
// SAFETY: see above.
unsafe impl Sync for Counted {}

impl Counted {
    fn add(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Explores a model. A larger `LOOM_MAX_PREEMPTIONS` in the environment replaces the bound.
pub fn explore(preemptions_max: usize, model: impl Fn(LoomCore) + Send + Sync + 'static) {
    let asked = loom::model::Builder::new().preemption_bound.unwrap_or(0);
    explore_within(asked.max(preemptions_max), model);
}

/// Explores a model with this bound whatever the environment is: where two threads spin, loom
/// lets them yield to each other for ever, and only a small bound keeps that from being found.
pub fn explore_within(preemptions_max: usize, model: impl Fn(LoomCore) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.max_branches = BRANCHES_MAX;
    let executions = Rc::new(Cell::new(0u64));
    let counted = Counted(Rc::clone(&executions));
    let (started, limit) = (Instant::now(), builder.max_duration);
    builder.check(move || {
        counted.add();
        model(begin());
    });
    let cut = if limit.is_some_and(|limit| started.elapsed() >= limit) {
        ", cut off by the time limit"
    } else {
        ""
    };
    println!("{} executions with at most {preemptions_max} preemptions{cut}", executions.get());
}

/// The message of loom on a thread that spins for ever.
pub const HANGS: &str = "exceeded maximum number of branches";

/// The message of loom on a parked thread that is never woken.
pub const SLEEPS: &str = "deadlock";

/// Explores a model that must fail with a message that contains `message`.
pub fn expect_caught(
    message: &str,
    preemptions_max: usize,
    model: impl Fn(LoomCore) + Send + Sync + std::panic::UnwindSafe + 'static,
) {
    let Err(panic) = std::panic::catch_unwind(|| explore(preemptions_max, model)) else {
        panic!("the mutant was not caught")
    };
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("");
    assert!(text.contains(message), "the mutant failed with another message: {text}");
}
