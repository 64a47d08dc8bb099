//! The lock table of one worker: locked routes, and requests that wait.
//!
//! Locks cover the routes of actions ([`schema::Routes`]): ranges of primary keys of a table, to
//! read or to write. They cover absent keys and gaps as well, because routes are true. All of what
//! a request touches is locked at once, before its first action runs, so no action ever waits in
//! its midst. The table is plain memory of its worker.
//!
//! **Deadlocks** are prevented by ages (wait-die: Rosenkrantz, Stearns, Lewis, TODS 1978): a
//! request waits for what is locked by younger transactions only, else it is refused, and its
//! transaction tries again with its age. Requests are served in the order of their arrival: one
//! that another waiting one excludes waits behind it, if it is older, and is refused, if it is not.
//! So every wait is that of an older transaction for a younger one, and there are no circles, over
//! whichever workers. A transaction that has locked something here already may pass an older one
//! that waits: that one has to wait for it anyway.

use std::collections::VecDeque;

use platform::{Intent, Platform, Work};
use schema::Route;

/// A transaction in its worker's eyes: the number of the worker that coordinates it.
pub(crate) type Coordinator = u16;

/// A locked route.
struct Held {
    whose: Coordinator,
    age: u64,
    route: Route,
}

/// A request that waits.
struct LockRequest {
    whose: Coordinator,
    age: u64,
    routes: Vec<Route>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All of it is locked.
    Granted,
    /// It waits.
    Waits,
    /// It conflicts with an older transaction.
    Refused,
}

/// The locks of a worker, by transaction.
#[derive(Default)]
pub(crate) struct Locks {
    held: Vec<Held>,
    waiting: VecDeque<LockRequest>,
}

/// Returns true if two routes exclude each other.
#[inline]
fn exclude(one: &Route, other: &Route) -> bool {
    one.table == other.table
        && (one.intent == Intent::Write || other.intent == Intent::Write)
        && one.keys.overlaps(&other.keys)
}

fn overlaps(some: &[Route], others: &[Route]) -> bool {
    some.iter().any(|one| others.iter().any(|other| exclude(one, other)))
}

impl Locks {
    /// Returns true if no worker holds a lock or waits for one.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Pairs of routes that a request of this many routes compares, at most.
    pub(crate) fn comparisons(&self, routes: usize) -> usize {
        routes * (self.held.len() + self.waiting.iter().map(|request| request.routes.len()).sum::<usize>())
    }

    /// Returns true if no other worker has locked, nor waits for, what excludes these routes: a
    /// transaction that ends before another one is served may use them as they are.
    pub(crate) fn is_free(&self, whose: Coordinator, routes: &[Route]) -> bool {
        let is_held =
            |held: &Held| held.whose != whose && routes.iter().any(|route| exclude(route, &held.route));
        !self.held.iter().any(is_held)
            && !self.waiting.iter().any(|request| overlaps(&request.routes, routes))
    }

    /// Returns true if no transaction has locked what excludes this route.
    pub(crate) fn is_unlocked(&self, route: &Route) -> bool {
        !self.held.iter().any(|held| exclude(route, &held.route))
    }

    /// Requests locks of these routes.
    pub(crate) fn request(&mut self, whose: Coordinator, age: u64, routes: &[Route]) -> Answer {
        let mut is_known = false;
        let (mut waits, mut conflicts_with_older) = (false, false);
        for held in &self.held {
            if held.whose == whose {
                is_known = true;
            } else if routes.iter().any(|route| exclude(route, &held.route)) {
                waits = true;
                conflicts_with_older |= held.age < age;
            }
        }
        let (mut some_older, mut some_younger) = (false, false);
        for request in self.waiting.iter().filter(|request| overlaps(&request.routes, routes)) {
            some_older |= request.age < age;
            some_younger |= request.age > age;
        }
        waits |= some_younger;
        // Behind an older one it would wait for that; in front of it, the older one waits for this
        // one, as it may.
        conflicts_with_older |= some_older && (waits || !is_known);
        match (waits, conflicts_with_older) {
            (_, true) => Answer::Refused,
            (true, false) => {
                self.waiting.push_back(LockRequest { whose, age, routes: routes.to_vec() });
                Answer::Waits
            }
            (false, false) => {
                self.hold(whose, age, routes);
                Answer::Granted
            }
        }
    }

    /// Locks what no other worker has locked.
    pub(crate) fn hold(&mut self, whose: Coordinator, age: u64, routes: &[Route]) {
        self.held.extend(routes.iter().map(|route| Held { whose, age, route: *route }));
    }

    /// Releases all locks of a transaction.
    pub(crate) fn release(&mut self, whose: Coordinator) {
        self.held.retain(|held| held.whose != whose);
    }

    /// Grants the first request that can be granted, if there is one; returns its coordinator.
    pub(crate) fn grant_next(&mut self) -> Option<Coordinator> {
        let is_free = |place: &usize| {
            let request = &self.waiting[*place];
            let is_held = |held: &Held| {
                held.whose != request.whose && request.routes.iter().any(|route| exclude(route, &held.route))
            };
            let is_before = |other: &LockRequest| overlaps(&other.routes, &request.routes);
            !self.held.iter().any(is_held) && !self.waiting.iter().take(*place).any(is_before)
        };
        let place = (0..self.waiting.len()).find(is_free)?;
        let LockRequest { whose, age, routes } = self.waiting.remove(place)?;
        self.hold(whose, age, &routes);
        Some(whose)
    }
}

/// Declares the work of comparing this many pairs of routes in the lock table.
pub(crate) fn count_comparisons<P: Platform>(c: P::Core, comparisons: usize) {
    P::work(c, Work::KeyCompare, 2 * comparisons as u32);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::KeyRange;

    use super::*;

    fn read(low: u16, high: u16) -> Vec<Route> {
        vec![Route { table: 0, keys: KeyRange::between(&low, &high), intent: Intent::Read }]
    }

    fn write(low: u16, high: u16) -> Vec<Route> {
        read(low, high).into_iter().map(|route| Route { intent: Intent::Write, ..route }).collect()
    }

    #[test]
    fn older_ones_wait_and_younger_ones_are_refused() {
        let mut locks = Locks::default();
        assert_eq!(locks.request(1, 10, &write(3, 5)), Answer::Granted);
        assert_eq!(locks.request(2, 20, &read(5, 9)), Answer::Refused);
        assert_eq!(locks.request(3, 5, &read(5, 9)), Answer::Waits);
        assert!(!locks.is_free(9, &write(9, 9)), "a transaction waits for it");
        assert!(locks.is_free(9, &write(10, 10)) && locks.is_free(9, &read(9, 9)));
        assert_eq!(locks.grant_next(), None);
        locks.release(1);
        assert_eq!(locks.grant_next(), Some(3));
        assert_eq!(locks.grant_next(), None);
        assert_eq!(locks.request(4, 30, &read(7, 7)), Answer::Granted);
        locks.release(3);
        locks.release(4);
        assert!(locks.is_empty());
    }

    #[test]
    fn only_a_holder_passes_a_request_that_waits() {
        let mut locks = Locks::default();
        assert_eq!(locks.request(1, 10, &read(1, 1)), Answer::Granted);
        assert_eq!(locks.request(2, 5, &write(1, 2)), Answer::Waits);
        assert_eq!(locks.request(3, 7, &read(1, 1)), Answer::Refused, "younger than the one that waits");
        assert_eq!(locks.request(4, 3, &read(1, 1)), Answer::Waits, "older than it: behind");
        assert_eq!(locks.request(1, 10, &read(2, 2)), Answer::Granted, "it is waited for anyway");
        locks.release(1);
        assert_eq!(locks.grant_next(), Some(2));
        assert_eq!(locks.grant_next(), None);
        locks.release(2);
        assert_eq!(locks.grant_next(), Some(4));
    }

    /// Transactions at several workers' tables, each of which requests one route after the other.
    fn run(tables: usize, steps: &[(usize, usize, u16, bool)]) -> Result<(), TestCaseError> {
        const TRANSACTIONS: usize = 5;
        let mut locks: Vec<Locks> = (0..tables).map(|_| Locks::default()).collect();
        let mut ages: Vec<u64> = (0..TRANSACTIONS as u64).collect();
        let mut waits = [None; TRANSACTIONS];
        let mut has: Vec<Vec<(usize, Route)>> = vec![Vec::new(); TRANSACTIONS];
        let mut next_age = 100;
        for (transaction, table, key, writes) in steps {
            let (transaction, table) = (transaction % TRANSACTIONS, table % tables);
            // One that waits does nothing until it is granted.
            if waits[transaction].is_none() {
                let routes = if *writes { write(*key, *key + 1) } else { read(*key, *key + 1) };
                let answer = locks[table].request(transaction as u16, ages[transaction], &routes);
                match answer {
                    Answer::Granted => has[transaction].push((table, routes[0])),
                    Answer::Waits => waits[transaction] = Some((table, routes[0])),
                    Answer::Refused => {}
                }
                if answer == Answer::Refused || (answer == Answer::Granted && has[transaction].len() == 3) {
                    has[transaction].clear();
                    if answer == Answer::Granted {
                        next_age += 1;
                        ages[transaction] = next_age;
                    }
                    for locks in &mut locks {
                        locks.release(transaction as u16);
                    }
                }
            }
            for (number, locks) in locks.iter_mut().enumerate() {
                while let Some(granted) = locks.grant_next() {
                    let (table, route) = waits[usize::from(granted)].take().expect("it waits");
                    prop_assert_eq!(table, number);
                    has[usize::from(granted)].push((table, route));
                }
            }
            for (one, mine) in has.iter().enumerate() {
                for theirs in &has[one + 1..] {
                    let excluded = mine.iter().any(|(table, route)| {
                        theirs.iter().any(|(other, others)| table == other && exclude(route, others))
                    });
                    prop_assert!(!excluded, "two have what excludes each other");
                }
            }
            prop_assert!(waits.iter().any(Option::is_none), "all wait");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_two_locks_exclude_each_other_and_one_transaction_advances(
            tables in 1usize..4,
            steps in prop::collection::vec((0usize..5, 0usize..4, 0u16..6, any::<bool>()), 1..200),
        ) {
            run(tables, &steps)?;
        }
    }
}
