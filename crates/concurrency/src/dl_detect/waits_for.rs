//! The waits-for graph: which worker waits for which lock, and which locks it holds meanwhile.
//!
//! Each worker writes its own slot only, and only when it begins and ends to wait, so the graph has
//! no latch and nothing central. An edge is not stored but found: from a waiting worker to the
//! waiting workers that hold its lock. A worker that does not wait has no slot to read, and no
//! part in a deadlock.
//!
//! Concurrency: a slot begins with a turn, odd while its worker waits: what was read of the slot
//! belongs together if the turn has stayed the same (a sequence lock). A circle counts only if the
//! turns of all its workers are still the same once it is found: then they all waited at one
//! moment, each for a lock that the next one held.

use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform, RegionBytes};

/// Words of a slot.
const SLOT_WORDS: usize = 512;
const SLOT_BYTES: usize = SLOT_WORDS * 8;
/// Places of the words of a slot: its turn, then four of its wait: the lock, the worker that holds
/// it alone (plus 1; 0: unknown), the age of the transaction, and how many names of locks follow.
const TURN: usize = 0;
const WAIT: usize = 1;
const OWNER: usize = 2;
/// First name, on the second line.
const NAMES: usize = 8;
/// Locks of a transaction that are visible to others while it waits. A circle through others is
/// ended by the bound on waiting.
pub(super) const NAMES_MAX: usize = SLOT_WORDS - NAMES;
/// Set in the name of a lock that a transaction sleeps for: the queue of a lock word has those who
/// want the row and those who want the gap, so it waits for the holders of both.
pub(super) const ROW_OR_GAP: u64 = 2;
/// The name that stands for all locks: of a transaction that sleeps, and has more than there is
/// room for. A search that comes to it may find a circle that is none; none is overlooked.
const ANY_LOCK: u64 = 4;

/// Returns true if a transaction with locks of these names has a lock, or both of a word.
fn has_lock(names: &[u64], lock: u64) -> bool {
    let word = lock & !7;
    let names_it = |name: &u64| *name & !1 == word || *name == ANY_LOCK;
    if lock & ROW_OR_GAP == 0 { names.contains(&lock) } else { names.iter().any(names_it) }
}

/// The graph.
pub struct WaitsFor<P: Platform> {
    region: P::Region,
    workers: usize,
}

/// A wait, as the waiting worker shows it to searches.
#[derive(Clone, Copy)]
pub(super) struct ShownWait {
    /// The name of the lock.
    pub lock: u64,
    /// The worker that holds the lock alone, plus 1; 0: unknown.
    pub owner: u64,
    /// The age of the transaction that waits.
    pub age: u64,
}

/// A waiting worker, as it was seen.
#[derive(Clone, Copy)]
struct Waiter {
    worker: usize,
    turn: u64,
    lock: u64,
    owner: u64,
    age: u64,
    /// The next worker to check as a holder of the lock.
    next: usize,
}

/// Memory of a search, reused.
#[derive(Default)]
pub(super) struct Search {
    path: Vec<Waiter>,
    visited: Vec<bool>,
    names: Vec<u64>,
}

impl<P: Platform> WaitsFor<P> {
    pub(super) fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        Ok(WaitsFor { region: P::region(c, None, workers * SLOT_BYTES, "waits-for graph")?, workers })
    }

    fn words(&self, worker: usize, first: usize, count: usize) -> &[P::Word] {
        assert!(worker < self.workers && first + count <= SLOT_WORDS);
        // SAFETY: inside the zeroed region, which is used as words only and lives as long as
        // `self`.
        unsafe {
            let start = self.region.base().add(worker * SLOT_BYTES + first * 8).cast::<P::Word>();
            std::slice::from_raw_parts(start, count)
        }
    }

    fn word(&self, worker: usize, number: usize) -> &P::Word {
        &self.words(worker, number, 1)[0]
    }

    /// Shows this wait of `worker`, whose slot no other worker writes, and the names of the locks
    /// that `worker` holds.
    pub(super) fn show(
        &self,
        c: P::Core,
        worker: usize,
        ShownWait { lock, owner, age }: ShownWait,
        mut names: impl Iterator<Item = u64>,
        search: &mut Search,
    ) {
        search.names.clear();
        search.names.extend(names.by_ref().take(NAMES_MAX));
        if lock & ROW_OR_GAP != 0 && names.next().is_some() {
            search.names[0] = ANY_LOCK;
        }
        let count = search.names.len();
        // Relaxed: only the worker itself writes it.
        let turn = P::load(c, self.word(worker, TURN), Ordering::Relaxed);
        // SeqCst: a worker that still reads the slot under the turn before sees that turn change.
        P::fence(c, Ordering::SeqCst);
        P::write_words(c, self.words(worker, WAIT, 4), &[lock, owner, age, count as u64]);
        P::write_words(c, self.words(worker, NAMES, count), &search.names);
        // SeqCst: of two workers that begin to wait for each other at least one sees the other.
        P::store(c, self.word(worker, TURN), turn + 1, Ordering::SeqCst);
        P::fence(c, Ordering::SeqCst);
    }

    /// Writes down the present holders of the lock.
    pub(super) fn set_owner(&self, c: P::Core, worker: usize, owner: u64) {
        // Relaxed: a hint, which a search verifies.
        P::store(c, self.word(worker, OWNER), owner, Ordering::Relaxed);
    }

    /// `worker` waits no longer.
    pub(super) fn hide(&self, c: P::Core, worker: usize) {
        let turn = P::load(c, self.word(worker, TURN), Ordering::Relaxed);
        // Release: pairs with the acquire of searches.
        P::store(c, self.word(worker, TURN), turn + 1, Ordering::Release);
    }

    /// The worker if it waits, and, with `holding`, if it holds that lock.
    fn waiter(
        &self,
        c: P::Core,
        worker: usize,
        holding: Option<u64>,
        names: &mut Vec<u64>,
    ) -> Option<Waiter> {
        // Acquire: pairs with the store in `show`.
        let turn = P::load(c, self.word(worker, TURN), Ordering::Acquire);
        if turn % 2 == 0 {
            return None;
        }
        let mut head = [0; 4];
        P::read_words(c, self.words(worker, WAIT, 4), &mut head);
        let [lock, owner, age, count] = head;
        names.clear();
        names.resize((count as usize).min(NAMES_MAX), 0);
        if holding.is_some() {
            P::read_words(c, self.words(worker, NAMES, names.len()), names);
        }
        let same = self.still_waits(c, worker, turn);
        let holds = holding.is_none_or(|lock| has_lock(names, lock));
        (same && holds).then_some(Waiter { worker, turn, lock, owner, age, next: 0 })
    }

    fn still_waits(&self, c: P::Core, worker: usize, turn: u64) -> bool {
        // Acquire: what was read of the slot before belongs to this turn if it has not changed.
        P::fence(c, Ordering::Acquire);
        P::load(c, self.word(worker, TURN), Ordering::Relaxed) == turn
    }

    /// Returns true if `worker`, which shows that it waits, is the youngest of a circle of workers
    /// that wait for each other: `waits` says of each of them whether that is still so.
    pub(super) fn is_victim(
        &self,
        c: P::Core,
        worker: usize,
        search: &mut Search,
        waits: impl Fn(usize) -> bool,
    ) -> bool {
        let Search { path, visited, names } = search;
        visited.clear();
        visited.resize(self.workers, false);
        path.clear();
        path.extend(self.waiter(c, worker, None, names));
        while let Some(top) = path.last_mut() {
            let (lock, its_worker) = (top.lock, top.worker);
            let candidate = match top.owner {
                0 if top.next < self.workers => top.next,
                owner if owner > 0 && top.next == 0 => owner as usize - 1,
                _ => {
                    path.pop();
                    continue;
                }
            };
            top.next += 1;
            let closes = candidate == worker && its_worker != worker;
            if candidate == its_worker || candidate >= self.workers || (visited[candidate] && !closes) {
                continue;
            }
            let Some(holder) = self.waiter(c, candidate, Some(lock), names) else { continue };
            if !closes {
                visited[candidate] = true;
                path.push(holder);
                continue;
            }
            let youngest = path.iter().max_by_key(|waiter| (waiter.age, waiter.worker));
            if youngest.is_some_and(|waiter| waiter.worker == worker)
                && path.iter().all(|waiter| waits(waiter.worker))
                && path.iter().all(|waiter| self.still_waits(c, waiter.worker, waiter.turn))
            {
                return true;
            }
        }
        false
    }
}
