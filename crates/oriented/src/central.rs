//! What all workers share of the state of transactions: the list of those that are active, and the lock of the map.
//!
//! Each transaction takes the lock to share it, and is in the list, from its beginning to its end. Whoever changes the map takes the lock alone,
//! which waits until no transaction is active; so a transaction sees one version of the map, wherever its actions run. The list says which transactions
//! are active and how old they are.
//!
//! Both are in *sections*. With one section all workers write the same two lines in each transaction, as PLP does with the state of Shore-MT that it
//! inherits. With one section a socket ([`Sharing::PerSocket`]; ATraPos, section IV) workers write lines of their own socket only, and whoever wants all
//! goes to each.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform};
use storage::{LatchSeat, LatchedLines};

/// Who shares the state of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All workers: PLP.
    Central,
    /// Those of a socket: ATraPos.
    PerSocket,
}

/// In the word of a lock: somebody changes the map, or wants to.
const CHANGES: u64 = 1;
/// One transaction.
const ONE: u64 = 2;

/// Beside the latch of a list: the name of its first entry; 0: it is empty.
const HEAD: usize = 0;

/// Words of a worker's entry.
const NEXT: usize = 0;
const BEFORE: usize = 8;
const AGE: usize = 16;

/// What the workers of a socket, or all, share.
struct Section<P: Platform> {
    /// A word: how many transactions are active, and whether the map changes.
    lock: P::Region,
    list: LatchedLines<P>,
}

/// The state of transactions.
pub(crate) struct Central<P: Platform> {
    sections: Vec<Section<P>>,
    /// By worker: its section.
    section_of: Vec<usize>,
    /// By worker: its entry in the list, which is on its own node. The name of an entry is the worker's number and 1.
    entries: Vec<P::Region>,
}

/// A worker's place.
pub(crate) struct Seat<P: Platform> {
    worker: usize,
    latch: LatchSeat<P>,
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
        let section = |socket: &u32| {
            let node = workers.iter().find(|(_, other)| other == socket).and_then(|(node, _)| *node);
            let lock = P::region(c, node, 2 * LINE_BYTES, "lock of the map")?;
            Ok(Section { lock, list: LatchedLines::new(c, node, 1, "list of active transactions")? })
        };
        let of =
            |(_, socket): &(Option<Node>, u32)| sockets.iter().position(|other| other == socket).unwrap_or(0);
        let entry =
            |(node, _): &(Option<Node>, u32)| P::region(c, *node, 2 * LINE_BYTES, "active transaction");
        Ok(Central {
            section_of: workers.iter().map(of).collect(),
            entries: workers.iter().map(entry).collect::<Result<_, _>>()?,
            sections: sockets.iter().map(section).collect::<Result<_, _>>()?,
        })
    }

    /// The place of a worker.
    pub(crate) fn seat(&self, c: P::Core, worker: usize, node: Option<Node>) -> Result<Seat<P>, OutOfMemory> {
        Ok(Seat { worker, latch: LatchSeat::new(c, node)? })
    }

    fn lock(&self, section: usize) -> &P::Word {
        P::word_of(&self.sections[section].lock, 0)
    }

    fn entry(&self, name: u64, word: usize) -> &P::Word {
        P::word_of(&self.entries[name as usize - 1], word)
    }

    /// A transaction of this worker begins, which has none; false if the map changes, and the worker has to try again.
    pub(crate) fn begin(&self, c: P::Core, seat: &mut Seat<P>, age: u64) -> bool {
        let section = self.section_of[seat.worker];
        // Acquire: pairs with the release of whoever has changed the map.
        if P::fetch_add(c, self.lock(section), ONE, Ordering::Acquire) & CHANGES != 0 {
            // Relaxed: nothing was done.
            P::fetch_add(c, self.lock(section), ONE.wrapping_neg(), Ordering::Relaxed);
            return false;
        }
        let name = seat.worker as u64 + 1;
        let list = &self.sections[section].list;
        list.hold(c, 0, &mut seat.latch, || {
            // Relaxed, all of them: ordered by the latch.
            let head = list.word(0, HEAD);
            let first = P::load(c, head, Ordering::Relaxed);
            P::store(c, self.entry(name, NEXT), first, Ordering::Relaxed);
            P::store(c, self.entry(name, BEFORE), 0, Ordering::Relaxed);
            P::store(c, self.entry(name, AGE), age, Ordering::Relaxed);
            if first != 0 {
                P::store(c, self.entry(first, BEFORE), name, Ordering::Relaxed);
            }
            P::store(c, head, name, Ordering::Relaxed);
        });
        true
    }

    /// The worker's transaction is over.
    pub(crate) fn end(&self, c: P::Core, seat: &mut Seat<P>) {
        let section = self.section_of[seat.worker];
        let name = seat.worker as u64 + 1;
        let list = &self.sections[section].list;
        list.hold(c, 0, &mut seat.latch, || {
            // Relaxed, all of them: ordered by the latch.
            let next = P::load(c, self.entry(name, NEXT), Ordering::Relaxed);
            let before = P::load(c, self.entry(name, BEFORE), Ordering::Relaxed);
            if next != 0 {
                P::store(c, self.entry(next, BEFORE), before, Ordering::Relaxed);
            }
            match before {
                0 => P::store(c, list.word(0, HEAD), next, Ordering::Relaxed),
                before => P::store(c, self.entry(before, NEXT), next, Ordering::Relaxed),
            }
        });
        // Release: pairs with the acquire of whoever changes the map then.
        P::fetch_add(c, self.lock(section), ONE.wrapping_neg(), Ordering::Release);
    }

    /// Begins to take the lock alone; false if somebody else has it, or wants it.
    pub(crate) fn try_claim(&self, c: P::Core) -> bool {
        for section in 0..self.sections.len() {
            let word = self.lock(section);
            let mut seen = P::load(c, word, Ordering::Relaxed);
            loop {
                if seen & CHANGES != 0 {
                    // All claim in one order: who has the first section has all.
                    assert_eq!(section, 0, "the lock of the map is claimed in the order of sections");
                    return false;
                }
                // AcqRel: no transaction begins from here on.
                match P::cas(c, word, seen, seen | CHANGES, Ordering::AcqRel) {
                    Ok(_) => break,
                    Err(other) => seen = other,
                }
            }
        }
        true
    }

    /// Whether no transaction is active. Pre: the lock is claimed.
    pub(crate) fn is_drained(&self, c: P::Core) -> bool {
        // Acquire: pairs with the release of the last transaction.
        (0..self.sections.len()).all(|section| P::load(c, self.lock(section), Ordering::Acquire) == CHANGES)
    }

    /// Gives the claimed lock back.
    pub(crate) fn unclaim(&self, c: P::Core) {
        // The first section last: whoever claims that one finds the others free.
        for section in (0..self.sections.len()).rev() {
            // Release: pairs with the acquire of the next transaction.
            P::fetch_add(c, self.lock(section), CHANGES.wrapping_neg(), Ordering::Release);
        }
    }

    /// Waits until the map may not be changing any more, but not for long.
    pub(crate) fn wait(&self, c: P::Core, seat: &Seat<P>, nanos: u64) {
        let word = self.lock(self.section_of[seat.worker]);
        let seen = P::load(c, word, Ordering::Relaxed);
        if seen & CHANGES != 0 {
            P::spin_while(c, word, seen, Some(P::now(c).plus(nanos)));
        }
    }

    /// The ages of all active transactions, by worker.
    pub(crate) fn active(&self, c: P::Core, seat: &mut Seat<P>) -> Vec<(u16, u64)> {
        let mut active = Vec::new();
        for Section { list, .. } in &self.sections {
            list.hold(c, 0, &mut seat.latch, || {
                let mut name = P::load(c, list.word(0, HEAD), Ordering::Relaxed);
                while name != 0 {
                    active.push((name as u16 - 1, P::load(c, self.entry(name, AGE), Ordering::Relaxed)));
                    name = P::load(c, self.entry(name, NEXT), Ordering::Relaxed);
                }
            });
        }
        active
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
        for sharing in [Sharing::Central, Sharing::PerSocket] {
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
            }
            assert_eq!(central.active(c, &mut seats[0]), []);
        }
    }

    #[test]
    fn whoever_has_the_lock_alone_meets_no_transaction() {
        const ROUNDS: u64 = 2_000;
        let c = Hardware::core();
        for sharing in [Sharing::Central, Sharing::PerSocket] {
            let central = central(sharing);
            let counts = Hardware::region(c, None, 3 * LINE_BYTES, "test").expect("memory");
            let word = |worker: usize| Hardware::word_of(&counts, worker * LINE_BYTES);
            let work = |c, worker: usize| {
                let mut seat = central.seat(c, worker, None).expect("memory");
                for round in 0..ROUNDS {
                    if round % 100 == worker as u64 {
                        while !central.try_claim(c) {
                            Hardware::pause(c, 100);
                        }
                        while !central.is_drained(c) {
                            Hardware::pause(c, 100);
                        }
                        assert_eq!(central.active(c, &mut seat), []);
                        (0..3).for_each(|other| {
                            assert_eq!(Hardware::load(c, word(other), Ordering::Relaxed), 0)
                        });
                        central.unclaim(c);
                    }
                    while !central.begin(c, &mut seat, round) {
                        central.wait(c, &seat, 1_000);
                    }
                    Hardware::store(c, word(worker), 1, Ordering::Relaxed);
                    Hardware::store(c, word(worker), 0, Ordering::Relaxed);
                    central.end(c, &mut seat);
                }
            };
            Hardware::parallel(c, &[Place { thread: None }; 3], &work, &mut |_| ());
        }
    }
}
