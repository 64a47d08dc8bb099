//! Asynchronous tasks that wait for commits of a database
//! ([`Ticket::on_disk_by`](crate::Ticket::on_disk_by)).
// The program's threads and tasks share the waiters; these words do not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crate::error::Result;

/// Position of a waiting task: its epoch, then its number. Tasks are served in this order.
pub(crate) type WaiterKey = (u64, u64);

/// A waiting task.
#[derive(Default)]
pub(crate) struct Waiter {
    pub(crate) state: Mutex<WaiterState>,
}

#[derive(Default)]
pub(crate) struct WaiterState {
    pub(crate) waker: Option<Waker>,
    pub(crate) ended: Option<Result<()>>,
}

/// All tasks that wait for commits of a database.
#[derive(Default)]
pub(crate) struct CommitWaiters {
    pub(crate) state: Mutex<WaiterRegistry>,
}

#[derive(Default)]
pub(crate) struct WaiterRegistry {
    pub(crate) waiters: BTreeMap<WaiterKey, Arc<Waiter>>,
    /// Number of waiters registered so far.
    registered: u64,
    /// True if a job of a thread waits on behalf of all tasks.
    pub(crate) has_wait_job: bool,
}

impl WaiterRegistry {
    /// Registers a task that waits for an epoch.
    pub(crate) fn register(&mut self, epoch: u64) -> (WaiterKey, Arc<Waiter>) {
        self.registered += 1;
        let (place, waiter) = ((epoch, self.registered), Arc::<Waiter>::default());
        self.waiters.insert(place, Arc::clone(&waiter));
        (place, waiter)
    }

    /// Returns the earliest epoch that a task waits for, and the number of waiters registered so
    /// far.
    pub(crate) fn earliest(&self) -> Option<(u64, u64)> {
        self.waiters.first_key_value().map(|((epoch, _), _)| (*epoch, self.registered))
    }

    /// Removes and returns the waiters of this epoch and of earlier ones, except waiters registered
    /// after the first `registered`: a flush that ends while its epoch is open does not include
    /// commits that the epoch adds later.
    pub(crate) fn take_finished(&mut self, epoch: u64, registered: u64) -> BTreeMap<WaiterKey, Arc<Waiter>> {
        let later = self.waiters.split_off(&(epoch.saturating_add(1), 0));
        let all = std::mem::replace(&mut self.waiters, later);
        let (over, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|((_, number), _)| *number <= registered);
        self.waiters.extend(left);
        over
    }
}

/// Calls `body` with the value behind a lock. No panic is possible while the lock is held.
pub(crate) fn with_lock<T, R>(lock: &Mutex<T>, body: impl FnOnce(&mut T) -> R) -> R {
    body(&mut lock.lock().unwrap_or_else(PoisonError::into_inner))
}
