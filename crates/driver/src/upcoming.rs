//! The transactions that a worker will run next: drawn early, so that the worker can look ahead for them.
//!
//! While a worker runs transaction `n`, the lines of `n + 1` are on their way into its caches, and so are the index entries of
//! `n + 2`. Nothing else happens early: a transaction begins, in every respect that can be seen, at its turn. So its latency
//! and its dates count from there, and the sequence of transactions of a seed is the same with and without look-ahead.

use engine::{Distance, Procedure};
use platform::Nanos;

use crate::executor::Executor;
use crate::retry::Deferred;

/// How many transactions before its own one a transaction's index entries are asked for.
const FAR: usize = 2;
/// How many before its own one its rows are asked for.
const NEAR: usize = 1;

/// The worker's current transaction and the next ones.
pub(crate) struct Upcoming<Q> {
    /// In a box, because procedures are long and stacks of simulated cores small. Procedures stay where they are drawn.
    places: Box<[Option<Deferred<Q>>; FAR + 1]>,
    /// The place of the current transaction, or where the next one will be.
    at: usize,
    /// Drawn transactions from `at` on.
    drawn: usize,
    /// Transactions that are drawn ahead, as a rule.
    depth: usize,
}

impl<Q: Procedure> Upcoming<Q> {
    /// None yet.
    pub(crate) fn new(looks_ahead: bool) -> Self {
        let depth = if looks_ahead { FAR } else { 0 };
        Upcoming { places: Box::new([const { None }; FAR + 1]), at: 0, drawn: 0, depth }
    }

    /// The next transaction begins at `now`. `left` transactions are to begin, this one included: no more are drawn.
    #[inline]
    pub(crate) fn begin<'d>(
        &mut self,
        (now, left): (Nanos, u64),
        mut draw: impl FnMut() -> Q,
        executor: &mut (dyn Executor<'d, Q> + 'd),
    ) -> &mut Option<Deferred<Q>> {
        if self.drawn > 0 {
            self.at = (self.at + 1) % self.places.len();
            self.drawn -= 1;
        }
        while self.drawn <= self.depth && (self.drawn as u64) < left {
            let place = &mut self.places[(self.at + self.drawn) % (FAR + 1)];
            let deferred = place.insert(Deferred { procedure: draw(), began: now, attempts: 0 });
            if self.drawn > 0 {
                executor.look_ahead(&deferred.procedure, Distance::Far);
            }
            self.drawn += 1;
        }
        if self.drawn > NEAR
            && let Some(deferred) = &self.places[(self.at + NEAR) % (FAR + 1)]
        {
            executor.look_ahead(&deferred.procedure, Distance::Near);
        }
        let current = &mut self.places[self.at];
        if let Some(deferred) = current {
            deferred.began = now;
        }
        current
    }
}
