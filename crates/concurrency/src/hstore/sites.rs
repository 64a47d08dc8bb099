//! Locks of sites: one word a partition, with a queue of waiting workers.
//!
//! The queue is that of K42 (Scott, "Shared-Memory Synchronization", 2013, section 4.3), a
//! variation of the lock of Mellor-Crummey and Scott: a waiting worker has a node of its own to
//! spin on, the holder has none, so that another worker may release the lock. Deviation: a worker
//! that has waited too long walks away, and leaves its node to the worker that hands the lock on.
//!
//! Nodes and locks are named by the number of their line in one region.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};

/// Sites with locks of their own; further partitions share them.
const SITES: usize = 2048;
/// Sites of tables that are not partitioned; further tables share them.
const TABLES: usize = 64;
/// Lines before those of nodes.
pub(super) const LOCKS: usize = SITES + TABLES;
/// Nodes of a worker: one to wait with, others for those it walked away from.
const NODES: usize = 4;

/// In `tail`: free, and held without waiting workers. Any other value is the line of the last node
/// in the queue.
const FREE: u64 = 0;
const HELD: u64 = 1;

/// States of nodes.
const UNUSED: u64 = 0;
const WAITING: u64 = 1;
const GRANTED: u64 = 2;
const ABANDONED: u64 = 3;

/// Words of a lock's line.
const TAIL: usize = 0;
const FIRST: usize = 1;
const STAMP: usize = 2;
/// Words of a node's line.
const NEXT: usize = 0;
const STATE: usize = 1;

/// The unit of locking: the partitions with one number, of all tables, or one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site(pub u32);

impl Site {
    /// The site of partition number `partition`.
    #[inline(always)]
    pub(super) fn of(partition: usize) -> Site {
        Site((partition % SITES) as u32)
    }

    /// The site of a table that is not partitioned: behind all others, so that a transaction that
    /// holds partitions may wait for it.
    #[inline(always)]
    pub(super) fn of_table(table: usize) -> Site {
        Site((SITES + table % TABLES) as u32)
    }
}

/// All locks of a database, and the nodes of its workers.
pub struct Sites<P: Platform> {
    region: P::Region,
}

impl<P: Platform> Sites<P> {
    pub(super) fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        let lines = LOCKS + workers * NODES;
        Ok(Sites { region: P::region(c, None, lines * LINE_BYTES, "partition locks")? })
    }

    #[inline(always)]
    fn word(&self, line: u64, slot: usize) -> &P::Word {
        P::word_of(&self.region, line as usize * LINE_BYTES + slot * 8)
    }

    fn lock(&self, Site(site): Site, slot: usize) -> &P::Word {
        self.word(u64::from(site), slot)
    }

    /// Stamp of the last transaction that held the site, which the caller holds.
    #[inline]
    pub(super) fn stamp(&self, c: P::Core, site: Site) -> u64 {
        // Relaxed: ordered by the lock.
        P::load(c, self.lock(site, STAMP), Ordering::Relaxed)
    }

    /// Leaves word of the caller's stamp with a site that it holds.
    #[inline]
    pub(super) fn set_stamp(&self, c: P::Core, site: Site, stamp: u64) {
        // Relaxed: published by the release of the lock.
        P::store(c, self.lock(site, STAMP), stamp, Ordering::Relaxed);
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(super) fn try_acquire(&self, c: P::Core, site: Site) -> bool {
        // Acquire: pairs with the release of the holder before.
        P::cas(c, self.lock(site, TAIL), FREE, HELD, Ordering::Acquire).is_ok()
    }

    /// Waits for the lock, behind the workers that came before; false after `nanos`.
    ///
    /// Concurrency: the compare and swap of `tail` orders the waiters. Only the holder changes
    /// `first`, except that the first waiter sets it when it is 0 because the queue was empty.
    #[cold]
    pub(super) fn acquire(&self, c: P::Core, site: Site, worker: usize, nanos: u64) -> bool {
        let tail = self.lock(site, TAIL);
        let nodes = (LOCKS + worker * NODES) as u64;
        // Acquire: pairs with the release of the worker that passed an abandoned node.
        let unused = |node: &u64| P::load(c, self.word(*node, STATE), Ordering::Acquire) == UNUSED;
        let Some(node) = (nodes..nodes + NODES as u64).find(unused) else { return self.try_acquire(c, site) };
        // Relaxed, both: published by the compare and swap.
        P::store(c, self.word(node, NEXT), 0, Ordering::Relaxed);
        P::store(c, self.word(node, STATE), WAITING, Ordering::Relaxed);
        // Relaxed: only a guess.
        let mut before = P::load(c, tail, Ordering::Relaxed);
        loop {
            let wanted = if before == FREE { HELD } else { node };
            // AcqRel: as in `try_acquire`, and publishes the node.
            match P::cas(c, tail, before, wanted, Ordering::AcqRel) {
                Ok(_) => break,
                Err(other) => before = other,
            }
        }
        if before == FREE {
            // Relaxed: no other worker knows the node.
            P::store(c, self.word(node, STATE), UNUSED, Ordering::Relaxed);
            return true;
        }
        let link = if before == HELD { self.lock(site, FIRST) } else { self.word(before, NEXT) };
        // Release: pairs with the acquire of the worker that hands the lock on.
        P::store(c, link, node, Ordering::Release);
        self.wait(c, node, nanos)
    }

    /// Waits until the lock is handed to the node.
    fn wait(&self, c: P::Core, node: u64, nanos: u64) -> bool {
        let state = self.word(node, STATE);
        let deadline = P::now(c).plus(nanos);
        let granted = P::spin_while(c, state, WAITING, Some(deadline)) == GRANTED
            // Acquire: pairs with the release of the holder before, if it comes first.
            || P::cas(c, state, WAITING, ABANDONED, Ordering::Acquire).is_err();
        if granted {
            // Relaxed: the node is out of the queue.
            P::store(c, state, UNUSED, Ordering::Relaxed);
        }
        granted
    }

    /// Releases the site: to the first worker that still waits.
    #[inline]
    pub(super) fn release(&self, c: P::Core, site: Site) {
        // Acquire: pairs with the release of the waiter that linked itself.
        let first = P::load(c, self.lock(site, FIRST), Ordering::Acquire);
        // Release: pairs with the acquire of the next holder.
        if first != 0 || P::cas(c, self.lock(site, TAIL), HELD, FREE, Ordering::Release).is_err() {
            self.hand_on(c, site);
        }
    }

    #[cold]
    fn hand_on(&self, c: P::Core, site: Site) {
        let (tail, first) = (self.lock(site, TAIL), self.lock(site, FIRST));
        loop {
            // Release: as in `release`. Relaxed on failure: a waiter is about to link itself.
            if P::load(c, first, Ordering::Acquire) == 0
                && P::cas(c, tail, HELD, FREE, Ordering::Release).is_ok()
            {
                return;
            }
            let node = self.linked(c, first);
            // Acquire: pairs with the release of the waiter behind.
            let mut next = P::load(c, self.word(node, NEXT), Ordering::Acquire);
            // Relaxed: the next holder reads it after the hand-over; a waiter that links itself
            // there saw `tail` change below.
            P::store(c, first, next, Ordering::Relaxed);
            // Release: a waiter that finds the queue empty writes `first` after the store above.
            if next == 0 && P::cas(c, tail, node, HELD, Ordering::AcqRel).is_err() {
                next = self.linked(c, self.word(node, NEXT));
                P::store(c, first, next, Ordering::Relaxed);
            }
            // AcqRel: hands on what the holder did.
            if P::cas(c, self.word(node, STATE), WAITING, GRANTED, Ordering::AcqRel).is_ok() {
                return;
            }
            // Release: the node is out of the queue and may be used again.
            P::store(c, self.word(node, STATE), UNUSED, Ordering::Release);
        }
    }

    /// The link that a waiter that has entered the queue is about to write to `word`.
    fn linked(&self, c: P::Core, word: &P::Word) -> u64 {
        let node = P::load(c, word, Ordering::Acquire);
        if node != 0 { node } else { P::spin_while(c, word, 0, None) }
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Place};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;
    use crate::options::WAIT_NANOS_MAX;

    fn excludes<P: Platform>(c: P::Core, workers: usize, rounds: u64) {
        let sites = Sites::<P>::new(c, workers).expect("memory");
        let count = P::region(c, None, LINE_BYTES, "test").expect("memory");
        let word = P::word_of(&count, 0);
        let worker = |c, number: usize| {
            for round in 0..rounds {
                while !sites.acquire(c, Site(7), number, WAIT_NANOS_MAX) {}
                let seen = P::load(c, word, Ordering::Relaxed);
                P::pause(c, round % 3 * 100);
                P::store(c, word, seen + 1, Ordering::Relaxed);
                sites.release(c, Site(7));
            }
        };
        P::parallel(c, &vec![Place { thread: None }; workers], &worker, &mut |_| ());
        assert_eq!(P::load(c, word, Ordering::Relaxed), workers as u64 * rounds);
        assert!(sites.try_acquire(c, Site(7)) && !sites.try_acquire(c, Site(7)));
    }

    #[test]
    fn one_holds_a_site() {
        excludes::<Hardware>(Hardware::core(), 3, 2_000);
        for seed in 0..40 {
            let config = Config::new(Shape::new(2, 2, 1)).with_seed(seed).perturbed();
            VirtualMachine::run(&config, |c| excludes::<VirtualMachine>(c, 4, 20)).expect("it ends");
        }
    }

    /// Some workers walk away while a prepared transaction holds the site; those that stay get the
    /// site in the end.
    #[test]
    fn waiters_may_walk_away() {
        for seed in 0..20 {
            let config = Config::new(Shape::new(2, 2, 1)).with_seed(seed).perturbed();
            let program = |c| {
                let sites = Sites::<VirtualMachine>::new(c, 4).expect("memory");
                assert!(sites.try_acquire(c, Site::of_table(0)));
                let worker = |c, number: usize| {
                    if number == 0 {
                        VirtualMachine::pause(c, WAIT_NANOS_MAX * 5 / 2);
                        sites.release(c, Site::of_table(0));
                        return;
                    }
                    let mut attempts = 1;
                    while !sites.acquire(c, Site::of_table(0), number, WAIT_NANOS_MAX) {
                        VirtualMachine::pause(c, number as u64 * 1_000);
                        attempts += 1;
                    }
                    assert_eq!(attempts, 3);
                    sites.release(c, Site::of_table(0));
                };
                VirtualMachine::parallel(c, &[Place { thread: None }; 4], &worker, &mut |_| ());
                assert!(sites.try_acquire(c, Site::of_table(0)));
            };
            VirtualMachine::run(&config, program).expect("it ends");
        }
    }
}
