//! Lists of dependencies: which transactions a worker's transaction waits for, behind a latch a
//! worker.
//!
//! Source: the public program of Bang, May, Petrov, Binnig, "The full story of 1000 cores", VLDB
//! Journal 2022 (DataManagementLab/DBx1000 at 0ada3f6):
//! `concurrency_control/dl_detect/dl_detect.cpp`; the waiting is `row_t::get_row` of
//! `storage/row.cpp`, what a transaction waits for is found by `Row_lock::lock_get` of
//! `concurrency_control/row_lock.cpp`. Values are those of
//! `variant_config/28skt/config-2optimised.h` (`DL_LOOP_DETECT`, `TIMEOUT`, `SCOPED_LATCH_T`,
//! `STATS_ENABLE`).
//!
//! A transaction that joins a row's queue notes, with the row's manager latched, the numbers of
//! those before it and of the owners, as far as they exclude it. When it has waited for 1 us it
//! adds them to its worker's list, and from then on it searches without a pause. A search goes
//! along the lists, depth first: it copies one list after the other, each with its latch held
//! ([`RowLatch`]), and reads the number of each transaction's worker to see whether the dependency
//! is out of date. The first circle that it comes to ends it: of the circle's transactions the one
//! with the fewest locks is chosen to give up, by a word that it reads while it waits. A list is
//! emptied when its transaction has ended, not when the wait has. Each search adds to two sums that
//! all workers share (`INC_GLOB_STATS`).
//!
//! Deviations: a worker has one list, and may have several transactions: the list is that of the
//! one that waited last, and the number that others note that of the one that began last; so a
//! circle through two of one worker may be overlooked, which the bound on waiting ends. The marks
//! of a search (two bytes a worker, allocated and cleared each time) are the worker's own and
//! declared as work. The source keeps the numbers that a wait notes for ever.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform, RegionBytes, Work};
use storage::Local;
use terms::{Fault, Faults};

use crate::locking::{Queued, Refusal, earlier};
use crate::row_latch::{LatchNode, RowLatch};

/// How long a transaction waits before it searches: `DL_LOOP_DETECT`.
const QUIET_NANOS: u64 = 1_000;

/// The list of a worker, and what others see of its transaction; each part on lines of its own, as
/// in the source.
#[repr(C, align(256))]
struct Slot<P: Platform> {
    list: List<P>,
    own: OwnTransaction<P>,
    verdict: Verdict<P>,
}

/// `DepThd`. Zeroed memory is an empty list.
#[repr(C, align(128))]
struct List<P: Platform> {
    latch: RowLatch<P>,
    /// The transaction that waits; 0: none. Written with the list latched, read without.
    transaction: P::Word,
    /// The following words are used with the list latched: how many locks the transaction holds,
    /// the addresses of the first and the last dependency, and how many there are.
    locks: P::Word,
    first: P::Word,
    last: P::Word,
    length: P::Word,
}

/// `txn_man::txn_id`.
#[repr(C, align(64))]
struct OwnTransaction<P: Platform> {
    transaction: P::Word,
}

/// `txn_man::lock_abort`.
#[repr(C, align(64))]
struct Verdict<P: Platform> {
    give_up: P::Word,
}

/// One dependency, a node of a list in the worker's own memory.
#[repr(C)]
struct Dependency<P: Platform> {
    next: P::Word,
    before: P::Word,
    transaction: P::Word,
}

/// The sums, in a line behind the slots.
#[repr(C, align(64))]
struct Sums<P: Platform> {
    nanos: P::Word,
    searches: P::Word,
    circles: P::Word,
}

/// The lists of all workers.
pub(super) struct Lists<P: Platform> {
    region: P::Region,
    workers: usize,
}

/// State of a worker for its waits, reused.
#[derive(Default)]
pub(super) struct Waits {
    /// Transactions that the worker has begun.
    begun: u64,
    /// The transactions that the present wait is for.
    noted: Vec<u64>,
    marks: Vec<WorkerMark>,
    /// The transactions of all lists on the path, one list after the other.
    copied: Vec<u64>,
    path: Vec<PathStep>,
}

/// The marks of a worker in a search.
#[derive(Clone, Copy, Default)]
struct WorkerMark {
    visited: bool,
    on_path: bool,
}

/// A transaction on the path of a search.
struct PathStep {
    worker: usize,
    transaction: u64,
    locks: u64,
    /// The place of its dependencies, and the next one to follow.
    copied: usize,
    next: usize,
}

/// The result of a search.
#[derive(Default)]
struct Circle {
    /// True if there is a circle, and whether the path is still on it, going back.
    found: bool,
    on_it: bool,
    /// The worker in which it closes.
    start: usize,
    /// The transaction with the fewest locks so far, and its locks.
    fewest: Option<(u64, u64)>,
}

impl<P: Platform> Lists<P> {
    pub(super) fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        let bytes = workers * size_of::<Slot<P>>() + LINE_BYTES;
        Ok(Lists { region: P::region(c, None, bytes, "lists of dependencies")?, workers })
    }

    fn slot(&self, worker: usize) -> &Slot<P> {
        assert!(worker < self.workers);
        // SAFETY: inside the zeroed region, whose first part is used as slots only, which consist
        // of words, and lives as long as `self`; regions begin with a page.
        unsafe { &*self.region.base().cast::<Slot<P>>().add(worker) }
    }

    fn sums(&self) -> &Sums<P> {
        let offset = self.workers * size_of::<Slot<P>>();
        assert!(offset + size_of::<Sums<P>>() <= self.region.bytes());
        // SAFETY: as for slots; the line behind them.
        unsafe { &*self.region.base().add(offset).cast::<Sums<P>>() }
    }

    fn worker_of(&self, transaction: u64) -> usize {
        transaction as usize % self.workers
    }

    /// The worker begins a transaction.
    pub(super) fn begin(&self, c: P::Core, worker: usize, waits: &mut Waits) {
        waits.begun += 1;
        let number = waits.begun * self.workers as u64 + worker as u64;
        // Relaxed, here and in `note`: which transactions a wait is for is a hint, as everything in
        // the lists.
        P::store(c, &self.slot(worker).own.transaction, number, Ordering::Relaxed);
    }

    /// Notes which transactions a wait is for: those that these workers run. Their entries are in
    /// the row's lists, which are latched.
    pub(super) fn note(&self, c: P::Core, waits: &mut Waits, workers: impl Iterator<Item = usize>) {
        waits.noted.clear();
        let numbers = workers.map(|worker| P::load(c, &self.slot(worker).own.transaction, Ordering::Relaxed));
        waits.noted.extend(numbers);
        P::work(c, Work::CopyWord, waits.noted.len() as u32);
    }

    /// Runs `body` with the list of a worker latched.
    ///
    /// # Safety
    /// `node` is the calling worker's, and in no queue.
    unsafe fn with<T>(
        &self,
        c: P::Core,
        worker: usize,
        node: LatchNode,
        body: impl FnOnce(&List<P>) -> T,
    ) -> T {
        let list = &self.slot(worker).list;
        // SAFETY: a zeroed line, which stays as long as the memory of the instance. No body latches
        // anything, so the worker uses its node for nothing else until the release.
        unsafe { list.latch.with(c, node, || body(list)) }
    }

    /// `add_dep`: adds what the worker's transaction waits for to its list.
    fn add(
        &self,
        c: P::Core,
        worker: usize,
        node: LatchNode,
        waits: &Waits,
        held: usize,
        local: &mut Local<P>,
    ) {
        // SAFETY: the node is the worker's own, which waits in no queue of a latch.
        unsafe {
            self.with(c, worker, node, |list| {
                let own = P::load(c, &self.slot(worker).own.transaction, Ordering::Relaxed);
                // Relaxed: dependencies are hints.
                P::store(c, &list.transaction, own, Ordering::Relaxed);
                P::store(c, &list.locks, held as u64, Ordering::Relaxed);
                for transaction in &waits.noted {
                    // What there is no memory for is left out: the bound on waiting ends a circle
                    // through it.
                    if list.push(c, local, *transaction).is_err() {
                        break;
                    }
                }
            });
        }
    }

    /// `clear_dep`: the worker's transaction has ended.
    pub(super) fn clear(&self, c: P::Core, worker: usize, node: LatchNode, local: &mut Local<P>) {
        // SAFETY: the node is the worker's own, which waits in no queue of a latch.
        unsafe {
            self.with(c, worker, node, |list| {
                list.clear(c, local);
                // Relaxed: dependencies are hints.
                P::store(c, &list.transaction, 0, Ordering::Relaxed);
                P::store(c, &list.locks, 0, Ordering::Relaxed);
            });
        }
    }

    /// Waits in the queue of a row until the transaction has an answer, or gives up.
    pub(super) fn wait(
        &self,
        worker: usize,
        waits: &mut Waits,
        queued: &Queued<'_, P>,
        local: &mut Local<P>,
        faults: Faults,
    ) -> Result<(), Refusal> {
        let Queued { c, answer, now: began, deadline, .. } = *queued;
        let give_up = &self.slot(worker).verdict.give_up;
        // Relaxed: giving up for a wait that is over does no harm.
        P::store(c, give_up, 0, Ordering::Relaxed);
        let searches = !faults.has(Fault::UnresolvedDeadlocks);
        let quiet = began.plus(QUIET_NANOS);
        let until = if searches { Some(earlier(quiet, deadline)) } else { deadline };
        if P::spin_while(c, answer, 0, until) != 0 {
            return Ok(());
        }
        let mut added = false;
        loop {
            // Acquire: pairs with the release of the thread that grants or refuses.
            if P::load(c, answer, Ordering::Acquire) != 0 {
                return Ok(());
            }
            if P::load(c, give_up, Ordering::Relaxed) != 0 {
                return Err(Refusal::Deadlock);
            }
            if deadline.is_some_and(|end| P::now(c) >= end) {
                return Err(Refusal::Held);
            }
            if !added {
                self.add(c, worker, queued.node, waits, queued.held, local);
                added = true;
            }
            self.detect(c, worker, queued.node, waits);
        }
    }

    /// `detect_cycle`: searches for a circle that the worker's transaction comes to, and makes one
    /// of its transactions to give up.
    fn detect(&self, c: P::Core, worker: usize, node: LatchNode, waits: &mut Waits) {
        let (sums, began) = (self.sums(), P::now(c));
        // Relaxed, all: nothing depends on the sums, which lose what two workers add at a time, as
        // in the source.
        let add = |sum: &P::Word, more: u64| {
            let before = P::load(c, sum, Ordering::Relaxed);
            P::store(c, sum, before.wrapping_add(more), Ordering::Relaxed);
        };
        add(&sums.searches, 1);
        waits.marks.clear();
        waits.marks.resize(self.workers, WorkerMark::default());
        P::work(c, Work::CopyWord, 2 * self.workers.div_ceil(8) as u32);
        let own = P::load(c, &self.slot(worker).own.transaction, Ordering::Relaxed);
        let circle = self.search(c, own, node, waits);
        if circle.found {
            add(&sums.circles, 1);
            if let Some((_, victim)) = circle.fewest {
                let slot = self.slot(self.worker_of(victim));
                if P::load(c, &slot.list.transaction, Ordering::Relaxed) == victim {
                    P::store(c, &slot.verdict.give_up, 1, Ordering::Relaxed);
                }
            }
        }
        add(&sums.nanos, P::now(c).0.saturating_sub(began.0));
    }

    /// `nextNode`, without recursion.
    fn search(&self, c: P::Core, own: u64, node: LatchNode, waits: &mut Waits) -> Circle {
        let mut circle = Circle::default();
        waits.copied.clear();
        waits.path.clear();
        self.step(c, own, node, waits);
        while let Some(step) = waits.path.last_mut() {
            if !circle.found && step.next < waits.copied.len() {
                let transaction = waits.copied[step.next];
                step.next += 1;
                let worker = self.worker_of(transaction);
                let mark = waits.marks[worker];
                let waits_still =
                    || P::load(c, &self.slot(worker).list.transaction, Ordering::Relaxed) == transaction;
                if mark.on_path && waits_still() {
                    circle = Circle { found: true, on_it: true, start: worker, fewest: None };
                } else if !mark.visited && waits_still() {
                    self.step(c, transaction, node, waits);
                }
                continue;
            }
            let PathStep { worker, transaction, locks, copied, .. } = *step;
            waits.path.pop();
            waits.copied.truncate(copied);
            waits.marks[worker].on_path = false;
            if circle.found && circle.on_it && circle.fewest.is_none_or(|(fewest, _)| locks < fewest) {
                circle.fewest = Some((locks, transaction));
            }
            if worker == circle.start {
                circle.on_it = false;
            }
        }
        circle
    }

    /// Copies the dependencies of a transaction, if it waits still, and continues from it.
    fn step(&self, c: P::Core, transaction: u64, node: LatchNode, waits: &mut Waits) {
        let worker = self.worker_of(transaction);
        let Waits { marks, copied, path, .. } = waits;
        marks[worker].visited = true;
        let start = copied.len();
        // SAFETY: the node is the searching worker's own, which waits in no queue of a latch.
        let locks = unsafe {
            self.with(c, worker, node, |list| {
                let locks = P::load(c, &list.locks, Ordering::Relaxed);
                let still = P::load(c, &list.transaction, Ordering::Relaxed) == transaction;
                still.then(|| {
                    list.copy(c, copied);
                    locks
                })
            })
        };
        if let Some(locks) = locks {
            marks[worker].on_path = true;
            path.push(PathStep { worker, transaction, locks, copied: start, next: start });
        }
    }
}

// What follows runs with the list latched: relaxed, all of it, since the latch orders it.
impl<P: Platform> List<P> {
    fn node<'a>(address: u64) -> &'a Dependency<P> {
        // SAFETY: addresses in lists come from `push`, and are used with the list latched; `clear`
        // frees what it has taken out.
        unsafe { &*std::ptr::with_exposed_provenance::<Dependency<P>>(address as usize) }
    }

    fn push(&self, c: P::Core, local: &mut Local<P>, transaction: u64) -> Result<(), OutOfMemory> {
        let bytes = size_of::<Dependency<P>>();
        let at = local.allocate(c, bytes)?;
        // SAFETY: a fresh block, aligned to 8, which no other core can reach.
        unsafe { storage::arena::zero_words::<P>(at, bytes / 8) };
        let address = at.as_ptr().expose_provenance() as u64;
        let (node, last) = (Self::node(address), P::load(c, &self.last, Ordering::Relaxed));
        P::store(c, &node.transaction, transaction, Ordering::Relaxed);
        P::store(c, &node.before, last, Ordering::Relaxed);
        let link = if last == 0 { &self.first } else { &Self::node(last).next };
        P::store(c, link, address, Ordering::Relaxed);
        P::store(c, &self.last, address, Ordering::Relaxed);
        let length = P::load(c, &self.length, Ordering::Relaxed);
        P::store(c, &self.length, length + 1, Ordering::Relaxed);
        Ok(())
    }

    fn copy(&self, c: P::Core, to: &mut Vec<u64>) {
        let length = P::load(c, &self.length, Ordering::Relaxed);
        let mut address = P::load(c, &self.first, Ordering::Relaxed);
        while address != 0 {
            let node = Self::node(address);
            to.push(P::load(c, &node.transaction, Ordering::Relaxed));
            address = P::load(c, &node.next, Ordering::Relaxed);
        }
        P::work(c, Work::CopyWord, length as u32);
    }

    fn clear(&self, c: P::Core, local: &mut Local<P>) {
        let mut address = P::load(c, &self.first, Ordering::Relaxed);
        while address != 0 {
            let next = P::load(c, &Self::node(address).next, Ordering::Relaxed);
            let at = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
            if let Some(at) = std::ptr::NonNull::new(at) {
                // SAFETY: allocated by `push` with this size; others reach nodes through the list,
                // with its latch.
                unsafe { local.free(c, at, size_of::<Dependency<P>>()) };
            }
            address = next;
        }
        for word in [&self.first, &self.last, &self.length] {
            P::store(c, word, 0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;
    use storage::{Epochs, Memory};

    use super::*;
    use crate::row_latch::new_node;

    type P = Hardware;

    /// Three workers, each with a transaction that has as many locks, and waits for those of the
    /// workers that follow.
    fn detected(locks: [usize; 3], waits_for: [&[usize]; 3], ended: &[usize]) -> Option<usize> {
        let c = Hardware::core();
        let memory = Memory::<P>::new(c, 1 << 30).expect("memory");
        let epochs = Epochs::<P>::new(c, 1, 0).expect("memory");
        // SAFETY: memory and epochs are declared before, so dropped after.
        let mut local = unsafe { Local::new(&memory, &epochs, 0, None) };
        let node = LatchNode::Queue(new_node(c, &mut local).expect("memory"));
        let lists = Lists::<P>::new(c, 3).expect("memory");
        let mut waits = [0, 1, 2].map(|_| Waits::default());
        for (worker, waits) in waits.iter_mut().enumerate() {
            lists.begin(c, worker, waits);
        }
        for worker in 0..3 {
            lists.note(c, &mut waits[worker], waits_for[worker].iter().copied());
            lists.add(c, worker, node, &waits[worker], locks[worker], &mut local);
        }
        for worker in ended {
            lists.clear(c, *worker, node, &mut local);
        }
        lists.detect(c, 0, node, &mut waits[0]);
        let chosen = (0..3).find(|worker| Hardware::peek(&lists.slot(*worker).verdict.give_up) != 0);
        assert_eq!(Hardware::peek(&lists.sums().searches), 1);
        assert_eq!(Hardware::peek(&lists.sums().circles), u64::from(chosen.is_some()));
        for worker in 0..3 {
            lists.clear(c, worker, node, &mut local);
            assert_eq!(Hardware::peek(&lists.slot(worker).list.length), 0);
        }
        chosen
    }

    #[test]
    fn of_a_circle_the_transaction_with_the_fewest_locks_gives_up() {
        let circle: [&[usize]; 3] = [&[1], &[2], &[0]];
        assert_eq!(detected([3, 1, 2], circle, &[]), Some(1));
        assert_eq!(detected([1, 3, 2], circle, &[]), Some(0));
        assert_eq!(detected([2, 2, 2], circle, &[]), Some(2), "the last that the search came to");
        assert_eq!(detected([0, 3, 2], [&[1], &[2], &[1]], &[]), Some(2), "a circle of others");
        assert_eq!(detected([1, 3, 2], [&[2, 1], &[2], &[]], &[]), None, "no circle");
        assert_eq!(detected([3, 1, 2], circle, &[1]), None, "a transaction that has ended");
    }
}
