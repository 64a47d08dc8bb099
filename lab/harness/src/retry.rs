//! The treatment of a transaction that conflicted, and a worker's buffer of such transactions.

use boundary::Pauses;
use platform::Nanos;
use serde::Serialize;
use terms::random::Random;

use crate::names::names;
use crate::requests::{Origin, Request};

/// The treatment of a transaction whose attempt conflicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// It tries again after a pause that is random and grows from attempt to attempt.
    #[default]
    Exponential,
    /// It tries again after a pause that is random, up to [`PAUSE_NANOS`], and does not grow.
    Fixed,
    /// It puts the transaction into a buffer of [`PLACES`] for a random time up to [`PAUSE_NANOS`],
    /// which does not grow, and runs others meanwhile. If the buffer is full it sleeps until the
    /// first one is ready.
    ///
    /// Like the public program of Bang, May, Petrov, Binnig, "The full story of 1000 cores", VLDB
    /// Journal 2022: DataManagementLab/DBx1000 at 0ada3f6, `thread_t::run` of `system/thread.cpp`,
    /// with `ABORT_BUFFER_SIZE` and `ABORT_PENALTY` of `variant_config/28skt/config-2optimised.h`.
    Buffer,
}

names! { Retry { Exponential = "exponential", Fixed = "fixed", Buffer = "buffer" } }

impl Retry {
    /// The pauses of a session that tries a transaction again itself.
    pub(crate) fn pauses(self) -> Pauses {
        match self {
            Retry::Exponential | Retry::Buffer => Pauses::Growing,
            Retry::Fixed => Pauses::Fixed,
        }
    }
}

/// Capacity of a worker's buffer, in transactions.
pub const PLACES: usize = 10;
/// Longest pause, in nanoseconds, if pauses do not grow.
pub const PAUSE_NANOS: u64 = boundary::FIXED_PAUSE_NANOS;

/// A transaction that waits for its next attempt.
pub(crate) struct Deferred<Q> {
    pub procedure: Q,
    /// The time at which its first attempt began.
    pub began: Nanos,
    /// Attempts so far.
    pub attempts: u32,
    /// The client that requested it.
    pub origin: Origin,
}

impl<Q> Deferred<Q> {
    /// A transaction that its worker has drawn itself, and begins at `now`.
    #[inline]
    pub(crate) fn of_worker(procedure: Q, now: Nanos) -> Self {
        Deferred { procedure, began: now, attempts: 0, origin: Origin::WORKER }
    }

    /// A transaction that a client has requested, and a worker begins at `now`.
    pub(crate) fn of_client(request: Request<Q>, now: Nanos) -> Self {
        let Request { procedure, origin, .. } = request;
        Deferred { procedure, began: now, attempts: 0, origin }
    }
}

/// The next step of a worker.
pub(crate) enum Next<Q> {
    /// Another attempt of a transaction.
    Again(Deferred<Q>),
    /// A new transaction.
    New,
    /// Nothing until this time: the buffer is full.
    Wait(Nanos),
}

/// The transactions of one worker that wait for their next attempt.
pub(crate) struct Buffer<Q> {
    places: [Option<(Nanos, Deferred<Q>)>; PLACES],
    random: Random,
}

impl<Q> Buffer<Q> {
    pub(crate) fn new(seed: u64, worker: u64) -> Self {
        Buffer { places: [const { None }; PLACES], random: Random::new(!seed, worker) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    /// The step at `now`: the first transaction of the buffer that is ready, else a new one, unless
    /// the buffer is full or `no_more` transactions begin.
    pub(crate) fn next(&mut self, now: Nanos, no_more: bool) -> Next<Q> {
        let is_ready =
            |place: &&mut Option<(Nanos, _)>| place.as_ref().is_some_and(|(ready, _)| now > *ready);
        if let Some((_, deferred)) = self.places.iter_mut().find(is_ready).and_then(Option::take) {
            return Next::Again(deferred);
        }
        let waiting = self.places.iter().flatten().map(|(ready, _)| *ready);
        match waiting.min() {
            Some(first) if no_more || self.places.iter().all(Option::is_some) => Next::Wait(first),
            _ => Next::New,
        }
    }

    /// Buffers a transaction whose attempt failed at `now`.
    ///
    /// # Panics
    /// If the buffer is full: the caller calls [`Self::next`] before each attempt.
    pub(crate) fn defer(&mut self, now: Nanos, deferred: Deferred<Q>) {
        let ready = now.plus(self.random.below(PAUSE_NANOS));
        let free = self.places.iter_mut().find(|place| place.is_none());
        *free.expect("no attempt begins without room for its transaction") = Some((ready, deferred));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deferred(procedure: u32) -> Deferred<u32> {
        Deferred { procedure, began: Nanos(0), attempts: 1, origin: Origin::WORKER }
    }

    #[test]
    fn a_full_buffer_waits_and_gives_everything_back() {
        let mut buffer = Buffer::new(1, 2);
        for number in 0..PLACES as u32 {
            assert!(matches!(buffer.next(Nanos(0), false), Next::New));
            buffer.defer(Nanos(0), deferred(number));
        }
        let Next::Wait(mut until) = buffer.next(Nanos(0), false) else { panic!("there is no room") };
        let mut seen = Vec::new();
        while !buffer.is_empty() {
            assert!(until.0 < PAUSE_NANOS, "pauses do not grow");
            match buffer.next(until.plus(1), true) {
                Next::Again(again) => seen.push(again.procedure),
                Next::Wait(first) => until = first,
                Next::New => panic!("no new ones are wanted"),
            }
        }
        assert_ne!(seen, (0..PLACES as u32).collect::<Vec<_>>(), "pauses are random");
        seen.sort_unstable();
        assert_eq!(seen, (0..PLACES as u32).collect::<Vec<_>>());
        assert!(matches!(buffer.next(until, true), Next::New), "the caller ends when the buffer is empty");
    }
}
