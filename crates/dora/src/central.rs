//! Shared state of transactions: the active ones, and the lock of the map.
//!
//! Each transaction takes the lock to share it, and is known as active, from its beginning to its
//! end. A worker that changes the map takes the lock alone, which waits until no transaction is
//! active; so a transaction sees one version of the map, wherever its actions run.
//!
//! - [`Sharing::Central`]: one word counts those that share the lock, and active transactions are
//!   in one [`ActiveList`] behind one latch. All workers write these two lines, twice in each
//!   transaction, as PLP does with the state of Shore-MT that it inherits.
//! - [`Sharing::SocketLists`]: the same for each socket, whose workers write its two lines, as
//!   ATraPos (section IV) has it. A worker that takes the lock alone takes that of all sockets.
//! - [`Sharing::PerSocket`]: a worker has a line of its own that announces if a transaction may be
//!   active there, and no other worker writes it. To share the lock is to announce that, and then
//!   to read the word of the worker's socket, which is written only when the map changes. A
//!   worker that takes the lock alone writes the words of all sockets, and then reads the lines
//!   of all workers. Decision 0052 compares the costs. An announcement stays from transaction to
//!   transaction: each reads the word of the socket when it begins and when it ends, and takes
//!   the announcement back if the map changes; so does a worker that will have no transaction for a
//!   while.
//!
//! Concurrency: a worker announces and then checks if the map changes; the changer announces the
//! change and then checks for announcements. Both put a SeqCst fence between (Dekker's pattern), so
//! one of them sees the other. A worker that sees a change takes its announcement back, so a
//! changer that has seen a worker's line empty need not check it again. A transaction that relies
//! on an earlier one's announcement needs no fence: the changer waits until that is gone, whatever
//! the worker has seen of the change.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform};
use storage::LatchSeat;

use crate::active_list::{ActiveEntries, ActiveList};

/// The workers that share the state of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All workers write it: PLP.
    Central,
    /// Those of a socket share what is written when the map changes, and nothing else: ATraPos.
    PerSocket,
    /// Those of a socket write its list and its lock in each transaction: ATraPos as published.
    SocketLists,
}

/// In the word of a lock: a worker changes the map, or wants to.
const CHANGES: u64 = 1;
/// One transaction, where transactions are counted.
const ONE: u64 = 2;

/// In a worker's own line, where transactions are announced: the number of the one with which it
/// began that some may be active; 0: none is.
const ACTIVE: usize = 0;

/// The state of transactions.
pub(crate) struct Central<P: Platform> {
    /// A word each: whether the map changes, and where transactions are counted, how many are
    /// active.
    locks: Vec<P::Region>,
    /// By worker: its lock.
    lock_of: Vec<usize>,
    /// By worker: its own line, or its entry in the list; on its own node.
    entries: Vec<P::Region>,
    /// By lock, if transactions are counted; empty if they are announced.
    lists: Vec<ActiveList<P>>,
}

/// A worker's place.
pub(crate) struct Seat<P: Platform> {
    worker: usize,
    latch: LatchSeat<P>,
    /// True if the worker has announced that transactions may be active.
    is_announced: bool,
    /// Workers that have had no transaction since the lock was claimed, from the first one on.
    idle: usize,
}

impl<P: Platform> Central<P> {
    /// No transaction is active; `workers` has the node and the socket of each worker.
    pub(crate) fn new(
        c: P::Core,
        workers: &[(Option<Node>, u32)],
        sharing: Sharing,
    ) -> Result<Self, OutOfMemory> {
        let mut sockets: Vec<u32> = workers.iter().map(|(_, socket)| *socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        if sharing == Sharing::Central {
            sockets.truncate(1);
        }
        let node_of =
            |socket: &u32| workers.iter().find(|(_, other)| other == socket).and_then(|(node, _)| *node);
        let of =
            |(_, socket): &(Option<Node>, u32)| sockets.iter().position(|other| other == socket).unwrap_or(0);
        let lock = |socket: &u32| P::region(c, node_of(socket), 2 * LINE_BYTES, "lock of the map");
        let entry =
            |(node, _): &(Option<Node>, u32)| P::region(c, *node, 2 * LINE_BYTES, "active transaction");
        let listed = if sharing == Sharing::PerSocket { &[] } else { &sockets[..] };
        let lists =
            listed.iter().map(|socket| ActiveList::new(c, node_of(socket))).collect::<Result<_, _>>()?;
        Ok(Central {
            lock_of: workers.iter().map(of).collect(),
            entries: workers.iter().map(entry).collect::<Result<_, _>>()?,
            locks: sockets.iter().map(lock).collect::<Result<_, _>>()?,
            lists,
        })
    }

    /// The place of a worker.
    pub(crate) fn seat(&self, c: P::Core, worker: usize, node: Option<Node>) -> Result<Seat<P>, OutOfMemory> {
        Ok(Seat { worker, latch: LatchSeat::new(c, node)?, is_announced: false, idle: 0 })
    }

    fn lock(&self, number: usize) -> &P::Word {
        P::word_of(&self.locks[number], 0)
    }

    fn lock_of(&self, worker: usize) -> &P::Word {
        self.lock(self.lock_of[worker])
    }

    fn announcement(&self, worker: usize) -> &P::Word {
        P::word_of(&self.entries[worker], ACTIVE)
    }

    /// A transaction of this worker begins, which has none; false if the map changes, and the
    /// worker has to try again. `number`, which others can see, is not 0.
    pub(crate) fn begin(&self, c: P::Core, seat: &mut Seat<P>, number: u64) -> bool {
        let lock = self.lock_of(seat.worker);
        match self.lists.get(self.lock_of[seat.worker]) {
            Some(list) => {
                // Acquire: pairs with the release of the worker that has changed the map.
                if P::fetch_add(c, lock, ONE, Ordering::Acquire) & CHANGES != 0 {
                    // Relaxed: nothing was done.
                    P::fetch_add(c, lock, ONE.wrapping_neg(), Ordering::Relaxed);
                    return false;
                }
                list.enter(c, &mut seat.latch, &ActiveEntries(&self.entries), seat.worker, number);
            }
            None => {
                debug_assert!(number != 0, "a number that means that there is a transaction");
                if !seat.is_announced {
                    // Relaxed: the fence orders it before the check.
                    P::store(c, self.announcement(seat.worker), number, Ordering::Relaxed);
                    P::fence(c, Ordering::SeqCst);
                    seat.is_announced = true;
                }
                // Acquire: pairs with the release of the worker that has changed the map.
                if P::load(c, lock, Ordering::Acquire) & CHANGES != 0 {
                    self.leave(c, seat);
                    return false;
                }
            }
        }
        true
    }

    /// The worker's transaction is over.
    pub(crate) fn end(&self, c: P::Core, seat: &mut Seat<P>) {
        match self.lists.get(self.lock_of[seat.worker]) {
            Some(list) => {
                list.leave(c, &mut seat.latch, &ActiveEntries(&self.entries), seat.worker);
                // Release: pairs with the acquire of the worker that changes the map then.
                P::fetch_add(c, self.lock_of(seat.worker), ONE.wrapping_neg(), Ordering::Release);
            }
            None => {
                self.give_way(c, seat);
            }
        }
    }

    /// The worker, which has no transaction, may not have one for a while.
    pub(crate) fn leave(&self, c: P::Core, seat: &mut Seat<P>) {
        if std::mem::take(&mut seat.is_announced) {
            // Release: pairs with the acquire of the worker that changes the map then.
            P::store(c, self.announcement(seat.worker), 0, Ordering::Release);
        }
    }

    /// The worker, which has no transaction, retracts its announcement if the map changes.
    pub(crate) fn give_way(&self, c: P::Core, seat: &mut Seat<P>) {
        // Relaxed: if a change is not seen here, it is seen the next time.
        if seat.is_announced && P::load(c, self.lock_of(seat.worker), Ordering::Relaxed) & CHANGES != 0 {
            self.leave(c, seat);
        }
    }

    /// Begins to take the lock alone; false if another worker has it, or wants it. Pre: the worker
    /// has no transaction, and has left.
    pub(crate) fn try_claim(&self, c: P::Core, seat: &mut Seat<P>) -> bool {
        for number in 0..self.locks.len() {
            let word = self.lock(number);
            let mut seen = P::load(c, word, Ordering::Relaxed);
            loop {
                if seen & CHANGES != 0 {
                    // All claim in one order: the worker that has the first lock has all.
                    assert_eq!(number, 0, "the locks of the map are claimed in their order");
                    return false;
                }
                // AcqRel: no transaction begins from here on.
                match P::cas(c, word, seen, seen | CHANGES, Ordering::AcqRel) {
                    Ok(_) => break,
                    Err(other) => seen = other,
                }
            }
        }
        // Pairs with the fence of the worker that announces a transaction.
        P::fence(c, Ordering::SeqCst);
        seat.idle = 0;
        true
    }

    /// Returns true if no transaction is active. Pre: this worker has claimed the lock.
    pub(crate) fn is_drained(&self, c: P::Core, seat: &mut Seat<P>) -> bool {
        if !self.lists.is_empty() {
            // Acquire: pairs with the release of the last transaction of the socket.
            let is_free = |number| P::load(c, self.lock(number), Ordering::Acquire) == CHANGES;
            let is_drained = (0..self.locks.len()).all(is_free);
            if is_drained {
                for list in &self.lists {
                    let active = list.active(c, &mut seat.latch, &ActiveEntries(&self.entries));
                    assert!(active.is_empty(), "active: {active:?}");
                }
            }
            return is_drained;
        }
        while seat.idle < self.entries.len() {
            // Acquire: pairs with the release of the worker's last transaction.
            if P::load(c, self.announcement(seat.idle), Ordering::Acquire) != 0 {
                return false;
            }
            seat.idle += 1;
        }
        true
    }

    /// Gives the claimed lock back.
    pub(crate) fn unclaim(&self, c: P::Core) {
        // The first one last: a worker that claims that one finds the others free.
        for number in (0..self.locks.len()).rev() {
            // Release: pairs with the acquire of the next transaction.
            P::fetch_add(c, self.lock(number), CHANGES.wrapping_neg(), Ordering::Release);
        }
    }

    /// Waits until the map may not be changing any more, but not for long.
    pub(crate) fn wait(&self, c: P::Core, seat: &Seat<P>, nanos: u64) {
        let word = self.lock_of(seat.worker);
        let seen = P::load(c, word, Ordering::Relaxed);
        if seen & CHANGES != 0 {
            P::spin_while(c, word, seen, Some(P::now(c).plus(nanos)));
        }
    }

    /// The numbers of all active transactions, by worker; where transactions are announced, those
    /// with which workers began.
    #[cfg(test)]
    fn active(&self, c: P::Core, seat: &mut Seat<P>) -> Vec<(u16, u64)> {
        if !self.lists.is_empty() {
            let entries = ActiveEntries(&self.entries);
            return self.lists.iter().flat_map(|list| list.active(c, &mut seat.latch, &entries)).collect();
        }
        // Relaxed: nothing but the numbers is handed on.
        let number = |worker: usize| P::load(c, self.announcement(worker), Ordering::Relaxed);
        let all = (0..self.entries.len()).map(|worker| (worker as u16, number(worker)));
        all.filter(|(_, number)| *number != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Place};

    use super::*;

    fn central(sharing: Sharing) -> Central<Hardware> {
        let workers = [(None, 0), (None, 0), (None, 1)];
        Central::new(Hardware::core(), &workers, sharing).expect("memory")
    }

    #[test]
    fn active_transactions_are_in_the_list() {
        let c = Hardware::core();
        for sharing in [Sharing::Central, Sharing::PerSocket, Sharing::SocketLists] {
            let central = central(sharing);
            let mut seats: Vec<_> =
                (0..3).map(|worker| central.seat(c, worker, None).expect("memory")).collect();
            for (worker, seat) in seats.iter_mut().enumerate() {
                assert!(central.begin(c, seat, 10 + worker as u64));
            }
            let mut active = central.active(c, &mut seats[0]);
            active.sort_unstable();
            assert_eq!(active, [(0, 10), (1, 11), (2, 12)]);
            for worker in [1, 0, 2] {
                central.end(c, &mut seats[worker]);
                assert!(central.begin(c, &mut seats[worker], 20));
                central.end(c, &mut seats[worker]);
                central.leave(c, &mut seats[worker]);
            }
            assert_eq!(central.active(c, &mut seats[0]), []);
        }
    }

    #[test]
    fn a_worker_with_the_exclusive_lock_sees_no_transaction() {
        const ROUNDS: u64 = 2_000;
        let c = Hardware::core();
        for sharing in [Sharing::Central, Sharing::PerSocket, Sharing::SocketLists] {
            let central = central(sharing);
            let counts = Hardware::region(c, None, 3 * LINE_BYTES, "test").expect("memory");
            let word = |worker: usize| Hardware::word_of(&counts, worker * LINE_BYTES);
            let work = |c, worker: usize| {
                let mut seat = central.seat(c, worker, None).expect("memory");
                for round in 0..ROUNDS {
                    if round % 100 == worker as u64 {
                        central.leave(c, &mut seat);
                        while !central.try_claim(c, &mut seat) {
                            Hardware::pause(c, 100);
                        }
                        while !central.is_drained(c, &mut seat) {
                            Hardware::pause(c, 100);
                        }
                        (0..3).for_each(|other| {
                            assert_eq!(Hardware::load(c, word(other), Ordering::Relaxed), 0)
                        });
                        central.unclaim(c);
                    }
                    while !central.begin(c, &mut seat, round + 1) {
                        central.wait(c, &seat, 1_000);
                    }
                    Hardware::store(c, word(worker), 1, Ordering::Relaxed);
                    Hardware::store(c, word(worker), 0, Ordering::Relaxed);
                    central.end(c, &mut seat);
                }
                central.leave(c, &mut seat);
            };
            Hardware::parallel(c, &[Place { thread: None }; 3], &work, &mut |_| ());
        }
    }

    #[test]
    fn whoever_changes_the_map_waits_for_each_worker() {
        let c = Hardware::core();
        for sharing in [Sharing::Central, Sharing::PerSocket, Sharing::SocketLists] {
            let central = central(sharing);
            let mut seats: Vec<_> =
                (0..3).map(|worker| central.seat(c, worker, None).expect("memory")).collect();
            let [changer, near, far] = &mut seats[..] else { panic!("three workers") };
            assert!(central.begin(c, near, 1) && central.begin(c, far, 2));
            assert!(central.try_claim(c, changer));
            assert!(!central.try_claim(c, near), "{sharing:?}: one at a time");
            assert!(!central.is_drained(c, changer));
            central.end(c, near);
            assert!(!central.begin(c, near, 3) && !central.is_drained(c, changer));
            central.end(c, far);
            assert!(central.is_drained(c, changer) && !central.begin(c, far, 4));
            central.unclaim(c);
            assert!(central.begin(c, far, 5) && central.try_claim(c, changer));
            assert!(!central.is_drained(c, changer), "{sharing:?}: what was seen before is not relied on");
        }
    }
}
