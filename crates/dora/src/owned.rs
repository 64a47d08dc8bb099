//! A worker's open and waiting parts of transactions, its own and others'.

use schema::Route;

use crate::locks::{Answer, Locks};
use crate::map::Map;

/// Another worker's actions, which the executor keeps.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub deadline: Option<u64>,
    pub actions: usize,
}

/// The part of one coordinator's transaction.
struct Place {
    /// Its branch in the session.
    branch: Option<usize>,
    /// The request that runs when its locks are granted; none of the worker's own.
    waiting: Option<Request>,
    /// As what its last actions were counted, if they were.
    class: Option<usize>,
}

/// The parts of all transactions, by coordinator.
pub(crate) struct Owned {
    places: Vec<Place>,
    locks: Locks,
}

impl Owned {
    /// Nothing, of this many coordinators.
    pub(crate) fn new(workers: usize) -> Self {
        let places = (0..workers).map(|_| Place { branch: None, waiting: None, class: None }).collect();
        Owned { places, locks: Locks::default() }
    }

    /// Returns true if nothing is locked.
    #[inline]
    pub(crate) fn is_unlocked(&self) -> bool {
        self.locks.is_empty()
    }

    /// The locks.
    pub(crate) fn locks(&mut self) -> &mut Locks {
        &mut self.locks
    }

    /// The branch of a coordinator's transaction.
    #[inline]
    pub(crate) fn branch(&mut self, whose: u16) -> &mut Option<usize> {
        &mut self.places[usize::from(whose)].branch
    }

    /// As what the last actions of a coordinator's transaction were counted.
    pub(crate) fn class(&mut self, whose: u16) -> &mut Option<usize> {
        &mut self.places[usize::from(whose)].class
    }

    /// Requests the locks of a request; one that waits is kept.
    pub(crate) fn request(
        &mut self,
        whose: u16,
        age: u64,
        routes: &[Route],
        request: Option<Request>,
    ) -> (Answer, Option<Request>) {
        let answer = self.locks.request(whose, age, routes);
        if answer != Answer::Waits {
            return (answer, request);
        }
        self.places[usize::from(whose)].waiting = request;
        (answer, None)
    }

    /// The next request whose locks are granted now; none of its actions, if it is the worker's
    /// own.
    pub(crate) fn next_granted(&mut self) -> Option<(u16, Option<Request>)> {
        let whose = self.locks.grant_next()?;
        Some((whose, self.places[usize::from(whose)].waiting.take()))
    }
}

/// Routes of tables that have owners: others need no locks.
pub(crate) fn owned_routes(map: &Map, routes: &[Route]) -> Vec<Route> {
    routes.iter().filter(|route| map.is_owned(route.table)).copied().collect()
}
