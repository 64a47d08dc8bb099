//! The tasks that wait for commits of a database: [`Ticket::on_disk_by`](crate::Ticket::on_disk_by).
// The program's threads and tasks share who waits: its words are none of the engine's.
#![allow(clippy::disallowed_types)]

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use engine::Epoch;

use crate::error::Result;

/// Where a task waits.
pub(crate) struct Seat {
    pub(crate) outcome: Epoch,
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
    pub(crate) seats: Vec<Arc<Seat>>,
    /// Whether a thread waits for all of them.
    pub(crate) is_served: bool,
}

/// What is behind a lock that no panic happens under.
pub(crate) fn with<T, R>(lock: &Mutex<T>, body: impl FnOnce(&mut T) -> R) -> R {
    body(&mut lock.lock().unwrap_or_else(PoisonError::into_inner))
}
