//! Locks of sites as managers of partitions, to compare with the public program of Bang et al.,
//! "The full story of 1000 cores" (DataManagementLab/DBx1000 at 0ada3f6, `PartMan` and `Plock` of
//! `concurrency_control/plock.cpp`).
//!
//! A manager has a latch, an owner, and a list of waiting transactions, the oldest first. A
//! transaction has the timestamp of its attempt. It requests all sites that it knows of, waits for
//! those that older transactions own, and aborts at one that a younger transaction owns. It runs
//! when it owns all of them. A release passes the site to the oldest waiting transaction.
//!
//! Deviations:
//! - Owners and waiting transactions are workers. A worker with a prepared transaction shows the
//!   timestamp of its latest one: requests of others are refused that might have waited.
//! - The end of the bound on waiting makes a transaction leave the list.
//! - A manager also has the stamp of its last owner, which stamps of commits need here.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform, RegionBytes};
use storage::Optimisation;

use super::sites::{LOCKS, Site};
use crate::options::InstanceOptions;
use crate::row_latch::{LatchNode, RowLatch};
use crate::timestamps::{Timestamp, TimestampWorker, Timestamps};

/// Words of a manager's line.
const LATCH: usize = 0;
const OWNER: usize = 1;
const STAMP: usize = 2;
const WAITERS: usize = 3;
/// Words of a worker's line.
const TIME: usize = 0;
/// Sites that the worker still waits for.
const MISSING: usize = 1;
/// Lines of a worker: its words, and its node for latches.
const LINES: usize = 2;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    Waits,
    Refused,
}

/// The managers of all sites of a database.
pub(super) struct Managers<P: Platform> {
    /// Lines of managers, then of workers.
    region: P::Region,
    /// For each site a word for each worker: numbers of waiting workers.
    waiters: P::Region,
    workers: usize,
    has_queues: bool,
    timestamps: Timestamps<P>,
}

impl<P: Platform> Managers<P> {
    pub(super) fn new(c: P::Core, workers: usize, options: &InstanceOptions) -> Result<Self, OutOfMemory> {
        let lines = LOCKS + workers * LINES;
        Ok(Managers {
            region: P::region(c, None, lines * LINE_BYTES, "partition locks")?,
            waiters: P::region(c, None, LOCKS * workers * 8, "transactions waiting for partitions")?,
            workers,
            has_queues: options.optimisations.has(Optimisation::QueueLatch),
            timestamps: Timestamps::new(c, options.timestamps, workers)?,
        })
    }

    #[inline]
    fn word(&self, line: usize, slot: usize) -> &P::Word {
        P::word_of(&self.region, line * LINE_BYTES + slot * 8)
    }

    fn of_site(&self, Site(site): Site, slot: usize) -> &P::Word {
        self.word(site as usize, slot)
    }

    fn of_worker(&self, worker: usize, slot: usize) -> &P::Word {
        self.word(LOCKS + worker * LINES, slot)
    }

    // Relaxed, all four: the latches of managers order them.
    fn get(&self, c: P::Core, Site(site): Site, slot: usize) -> u64 {
        P::load(c, self.word(site as usize, slot), Ordering::Relaxed)
    }

    fn set(&self, c: P::Core, Site(site): Site, slot: usize, value: u64) {
        P::store(c, self.word(site as usize, slot), value, Ordering::Relaxed);
    }

    fn waiter(&self, c: P::Core, Site(site): Site, place: u64) -> u64 {
        P::load(
            c,
            P::word_of(&self.waiters, (site as usize * self.workers + place as usize) * 8),
            Ordering::Relaxed,
        )
    }

    fn set_waiter(&self, c: P::Core, Site(site): Site, place: u64, worker: u64) {
        let at = (site as usize * self.workers + place as usize) * 8;
        P::store(c, P::word_of(&self.waiters, at), worker, Ordering::Relaxed);
    }

    fn time(&self, c: P::Core, worker: u64) -> u64 {
        // Relaxed: it is that of the worker's latest transaction at least.
        P::load(c, self.of_worker(worker as usize, TIME), Ordering::Relaxed)
    }

    /// Runs `body` with the site's manager latched.
    fn latched<R>(&self, c: P::Core, site: Site, worker: usize, body: impl FnOnce() -> R) -> R {
        let word = self.of_site(site, LATCH);
        // SAFETY: a latch is a word and nothing else.
        let latch = unsafe { &*std::ptr::from_ref(word).cast::<RowLatch<P>>() };
        let node = if self.has_queues {
            let line = LOCKS + worker * LINES + 1;
            assert!((line + 1) * LINE_BYTES <= self.region.bytes(), "a node for each worker");
            // SAFETY: inside the region.
            LatchNode::Queue(unsafe { self.region.base().add(line * LINE_BYTES) }.expose_provenance() as u64)
        } else {
            LatchNode::Mutex
        };
        // SAFETY: a zeroed line of the region, which stays, of a worker that latches one manager at
        // a time.
        unsafe { latch.with(c, node, body) }
    }

    /// An attempt begins.
    pub(super) fn begin(&self, c: P::Core, worker: usize, timestamps: &mut TimestampWorker) {
        let Timestamp(time) = self.timestamps.next(c, timestamps);
        // Relaxed: published by the latch of the first manager.
        P::store(c, self.of_worker(worker, TIME), time, Ordering::Relaxed);
    }

    /// Requests a site, which the worker's transaction does not own.
    pub(super) fn request(&self, c: P::Core, site: Site, worker: usize) -> Answer {
        self.latched(c, site, worker, || {
            let owner = self.get(c, site, OWNER);
            if owner == 0 {
                self.set(c, site, OWNER, worker as u64 + 1);
                return Answer::Granted;
            }
            let time = self.time(c, worker as u64);
            if self.time(c, owner - 1) >= time {
                return Answer::Refused;
            }
            let mut place = self.get(c, site, WAITERS);
            self.set(c, site, WAITERS, place + 1);
            while place > 0 {
                let before = self.waiter(c, site, place - 1);
                if time > self.time(c, before) {
                    break;
                }
                self.set_waiter(c, site, place, before);
                place -= 1;
            }
            self.set_waiter(c, site, place, worker as u64);
            // Relaxed: owners take from it with the manager latched.
            P::fetch_add(c, self.of_worker(worker, MISSING), 1, Ordering::Relaxed);
            Answer::Waits
        })
    }

    /// Waits until the worker's transaction owns all sites that it has requested; false if that
    /// takes longer.
    pub(super) fn wait(&self, c: P::Core, worker: usize, deadline: Option<Nanos>) -> bool {
        let missing = self.of_worker(worker, MISSING);
        loop {
            // Acquire: pairs with the release of an owner that passes a site on.
            let seen = P::load(c, missing, Ordering::Acquire);
            if seen == 0 {
                return true;
            }
            if P::spin_while(c, missing, seen, deadline) == seen {
                return false;
            }
        }
    }

    /// Leaves the list of a site, which the worker's transaction has requested and waited for; if
    /// it owns the site already, the site is passed on.
    pub(super) fn leave(&self, c: P::Core, site: Site, worker: usize) {
        self.latched(c, site, worker, || {
            let count = self.get(c, site, WAITERS);
            match (0..count).find(|place| self.waiter(c, site, *place) == worker as u64) {
                Some(place) => {
                    self.remove_waiter(c, site, place, count);
                    P::fetch_add(c, self.of_worker(worker, MISSING), u64::MAX, Ordering::Relaxed);
                }
                None => self.pass_on(c, site),
            }
        });
    }

    /// Releases a site; `worker` is the calling one.
    pub(super) fn release(&self, c: P::Core, site: Site, worker: usize) {
        self.latched(c, site, worker, || self.pass_on(c, site));
    }

    fn pass_on(&self, c: P::Core, site: Site) {
        let count = self.get(c, site, WAITERS);
        if count == 0 {
            self.set(c, site, OWNER, 0);
            return;
        }
        let next = self.waiter(c, site, 0);
        self.set(c, site, OWNER, next + 1);
        self.remove_waiter(c, site, 0, count);
        // Release: pairs with the acquire of the wait.
        P::fetch_add(c, self.of_worker(next as usize, MISSING), u64::MAX, Ordering::Release);
    }

    fn remove_waiter(&self, c: P::Core, site: Site, place: u64, count: u64) {
        for place in place..count - 1 {
            self.set_waiter(c, site, place, self.waiter(c, site, place + 1));
        }
        self.set(c, site, WAITERS, count - 1);
    }

    /// Stamp of the last transaction that owned the site, which the caller owns.
    pub(super) fn stamp(&self, c: P::Core, site: Site) -> u64 {
        self.get(c, site, STAMP)
    }

    /// Leaves word of the caller's stamp with a site that it owns.
    pub(super) fn set_stamp(&self, c: P::Core, site: Site, stamp: u64) {
        self.set(c, site, STAMP, stamp);
    }
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, Place};
    use sim::{Config, Shape, VirtualMachine};
    use storage::Optimisations;

    use super::*;

    type Workers<const N: usize> = [TimestampWorker; N];

    fn managers<P: Platform>(c: P::Core, workers: usize, has_queues: bool) -> Managers<P> {
        let mut options = InstanceOptions::default();
        if !has_queues {
            options.optimisations = Optimisations::ALL.without(Optimisation::QueueLatch);
        }
        Managers::new(c, workers, &options).expect("memory")
    }

    #[test]
    fn younger_transactions_wait_in_the_order_of_age_and_older_ones_are_refused() {
        let c = Hardware::core();
        let managers = managers::<Hardware>(c, 4, true);
        let mut workers: Workers<4> = std::array::from_fn(TimestampWorker::new);
        for number in [0, 1, 2, 3] {
            managers.begin(c, number, &mut workers[number]);
        }
        let (site, other) = (Site(7), Site(8));
        assert_eq!(managers.request(c, site, 1), Answer::Granted);
        assert_eq!(managers.request(c, site, 0), Answer::Refused);
        assert_eq!(managers.request(c, site, 3), Answer::Waits);
        assert_eq!(managers.request(c, site, 2), Answer::Waits);
        assert_eq!(managers.request(c, other, 3), Answer::Granted);
        let owner = || managers.get(c, site, OWNER);
        managers.release(c, site, 1);
        assert_eq!(owner(), 3, "the older one comes first");
        assert!(managers.wait(c, 2, None));
        assert_eq!(managers.request(c, site, 1), Answer::Refused, "its attempt is older than the owner's");
        managers.leave(c, site, 3);
        assert!(managers.wait(c, 3, None));
        managers.release(c, site, 2);
        assert_eq!(owner(), 0);
    }

    fn excludes(c: <VirtualMachine as Platform>::Core, has_queues: bool) {
        type P = VirtualMachine;
        let managers = managers::<P>(c, 4, has_queues);
        let count = P::region(c, None, LINE_BYTES, "test").expect("memory");
        let word = P::word_of(&count, 0);
        let sites = [Site(1), Site(2)];
        let worker = |c, number: usize| {
            let mut timestamps = TimestampWorker::new(number);
            let mut done = 0;
            while done < 20 {
                managers.begin(c, number, &mut timestamps);
                let mut asked = Vec::new();
                let mut refused = false;
                // Half of them in another order.
                for at in 0..2 {
                    let site = sites[(at + number) % 2];
                    match managers.request(c, site, number) {
                        Answer::Refused => refused = true,
                        Answer::Granted | Answer::Waits => asked.push(site),
                    }
                    if refused {
                        break;
                    }
                }
                let deadline = (done % 3 == 0).then(|| P::now(c).plus(200));
                if refused || !managers.wait(c, number, deadline) {
                    asked.iter().for_each(|site| managers.leave(c, *site, number));
                    P::pause(c, number as u64 * 50);
                    continue;
                }
                let seen = P::load(c, word, Ordering::Relaxed);
                P::pause(c, done % 3 * 100);
                P::store(c, word, seen + 1, Ordering::Relaxed);
                sites.iter().for_each(|site| managers.release(c, *site, number));
                done += 1;
            }
        };
        P::parallel(c, &[Place { thread: None }; 4], &worker, &mut |_| ());
        assert_eq!(P::load(c, word, Ordering::Relaxed), 80);
        assert!(
            sites.iter().all(|site| managers.get(c, *site, OWNER) + managers.get(c, *site, WAITERS) == 0)
        );
    }

    #[test]
    fn one_owns_all_sites_that_it_has_requested() {
        for seed in 0..40 {
            let config = Config::new(Shape::new(2, 2, 1)).with_seed(seed).perturbed();
            VirtualMachine::run(&config, |c| excludes(c, seed % 2 == 0)).expect("it ends");
        }
    }
}
