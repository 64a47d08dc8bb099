//! The tasks that wait for commits of a database:
//! [`Ticket::on_disk_by`](crate::Ticket::on_disk_by).
// The program's threads and tasks share who waits: its words are none of the engine's.
#![allow(clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crate::error::Result;

/// Where a task waits: behind all that wait for earlier epochs, and for the same one before.
pub(crate) type Place = (u64, u64);

/// The state between a task and the thread that serves it.
#[derive(Default)]
pub(crate) struct Seat {
    pub(crate) state: Mutex<SeatState>,
}

#[derive(Default)]
pub(crate) struct SeatState {
    pub(crate) waker: Option<Waker>,
    pub(crate) ended: Option<Result<()>>,
}

/// The tasks that wait for commits of a database.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) state: Mutex<WaitingState>,
}

#[derive(Default)]
pub(crate) struct WaitingState {
    pub(crate) seats: BTreeMap<Place, Arc<Seat>>,
    /// Seats taken so far.
    taken: u64,
    /// True if a thread waits for all of them.
    pub(crate) is_served: bool,
}

impl WaitingState {
    /// A seat of a task that waits for an epoch.
    pub(crate) fn sit(&mut self, epoch: u64) -> (Place, Arc<Seat>) {
        self.taken += 1;
        let (place, seat) = ((epoch, self.taken), Arc::<Seat>::default());
        self.seats.insert(place, Arc::clone(&seat));
        (place, seat)
    }

    /// The earliest epoch that a task waits for, and how many seats were taken so far.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.seats.first_key_value().map(|((epoch, _), _)| (*epoch, self.taken))
    }

    /// Takes the seats of those who wait for this epoch, or for an earlier one, but for those who
    /// came after so many: what is on disk before its epoch is durable has nothing that was
    /// committed in the epoch since.
    pub(crate) fn rise(&mut self, (epoch, taken): (u64, u64)) -> BTreeMap<Place, Arc<Seat>> {
        let later = self.seats.split_off(&(epoch.saturating_add(1), 0));
        let all = std::mem::replace(&mut self.seats, later);
        let (over, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|((_, number), _)| *number <= taken);
        self.seats.extend(left);
        over
    }
}

/// Calls `body` with the value behind a lock under which no panic happens.
pub(crate) fn with<T, R>(lock: &Mutex<T>, body: impl FnOnce(&mut T) -> R) -> R {
    body(&mut lock.lock().unwrap_or_else(PoisonError::into_inner))
}
