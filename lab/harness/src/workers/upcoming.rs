//! The transactions that a worker will run next: drawn early, so that their rows can be prefetched.
//!
//! In every observable respect a transaction begins at its turn. So its latency and its dates count
//! from there, and a seed gives the same sequence of transactions with and without look-ahead.

use boundary::Procedure;
use platform::Nanos;

use crate::execution::executor::{Executor, LOOK_AHEAD};
use crate::retry::Deferred;

/// The worker's current transaction and the next ones.
pub(crate) struct Upcoming<Q> {
    /// In a box, because procedures are large and stacks of simulated cores small. Procedures are
    /// not moved after they are drawn.
    places: Box<[Option<Deferred<Q>>; LOOK_AHEAD + 1]>,
    /// The position of the current transaction, or of the first one before it is drawn.
    at: usize,
    /// Number of drawn transactions from `at` on.
    drawn: usize,
    looks_ahead: bool,
}

impl<Q: Procedure> Upcoming<Q> {
    /// No transactions yet.
    pub(crate) fn new(looks_ahead: bool) -> Self {
        let places = Box::new([const { None }; LOOK_AHEAD + 1]);
        Upcoming { places, at: 0, drawn: 0, looks_ahead }
    }

    /// Begins the next transaction at `now`. At most `left` transactions are drawn, this one
    /// included.
    #[inline]
    pub(crate) fn begin<'d>(
        &mut self,
        now: Nanos,
        left: u64,
        mut draw: impl FnMut() -> Q,
        executor: &mut (dyn Executor<'d, Q> + 'd),
    ) -> &mut Option<Deferred<Q>> {
        if self.drawn > 0 {
            self.at = (self.at + 1) % self.places.len();
            self.drawn -= 1;
        }
        let kept = if self.looks_ahead { self.places.len() } else { 1 };
        while self.drawn < kept {
            let place = &mut self.places[(self.at + self.drawn) % (LOOK_AHEAD + 1)];
            let is_one_more = (self.drawn as u64) < left;
            *place = is_one_more.then(|| Deferred::of_worker(draw(), now));
            if self.looks_ahead && self.drawn > 0 {
                executor.look_ahead(place.as_ref().map(|deferred| &deferred.procedure));
            }
            self.drawn += 1;
        }
        let current = &mut self.places[self.at];
        if let Some(deferred) = current {
            deferred.began = now;
        }
        current
    }
}
