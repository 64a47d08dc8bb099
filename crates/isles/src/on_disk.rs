//! Futures for commits: asynchronous tasks wait instead of threads.
// The program's threads and tasks share the waiters; these words do not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use terms::Epoch;

use crate::error::Result;
use crate::shared::DatabaseShared;
use crate::ticket::{Ticket, wait_for_epoch};
use crate::waiters::{CommitWaiters, Waiter, WaiterKey, with_lock};

/// A job that blocks its thread until a commit is on disk. [`Ticket::on_disk_by`] has an example.
pub type BlockingJob = Box<dyn FnOnce() + Send>;

/// A [`Future`] that is ready when a commit is on disk, returned by [`Ticket::on_disk_by`].
///
/// Errors: as [`Ticket::wait`], but for [`Error::Nested`](crate::Error::Nested).
/// [`Ticket::on_disk_by`] has an example.
#[must_use = "futures do nothing unless they are polled"]
pub struct OnDisk<B> {
    ticket: Ticket,
    block: B,
    waiter: Option<(WaiterKey, Arc<Waiter>)>,
}

impl<B> std::fmt::Debug for OnDisk<B> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("OnDisk").field("ticket", &self.ticket).finish()
    }
}

impl Ticket {
    /// Returns a future that is ready when the commit is on disk. The library depends on no
    /// runtime, and its own threads wait for no commit. Instead it passes a blocking job to
    /// `block`, which runs the job on a thread that may block (`tokio::task::spawn_blocking` or
    /// `std::thread::spawn`). A database has at most one such job at a time, for any number of
    /// waiting tasks.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-future-{}", std::process::id()));
    /// let mut builder = Database::at(&path);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// let mut session = database.session()?;
    /// let ((), ticket) = session.transaction_async(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// let acknowledged = async {
    ///     // With tokio: ticket.on_disk_by(|job| drop(tokio::task::spawn_blocking(job))).await
    ///     ticket.on_disk_by(|job| drop(std::thread::spawn(job))).await
    /// };
    /// # let mut acknowledged = std::pin::pin!(acknowledged);
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while std::future::Future::poll(acknowledged.as_mut(), &mut context).is_pending() {}
    /// # drop((session, database));
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn on_disk_by<B: FnMut(BlockingJob) + Unpin>(self, block: B) -> OnDisk<B> {
        OnDisk { ticket: self, block, waiter: None }
    }
}

impl<B: FnMut(BlockingJob) + Unpin> Future for OnDisk<B> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let OnDisk { ticket, block, waiter } = self.get_mut();
        if let Err(forked) = ticket.place().0.check_process() {
            return Poll::Ready(Err(forked));
        }
        if ticket.is_on_disk() {
            return Poll::Ready(Ok(()));
        }
        let (shared, outcome) = ticket.place();
        let (_, waiter) = waiter
            .get_or_insert_with(|| with_lock(&shared.waiting.state, |waiting| waiting.register(outcome.0)));
        let ended = with_lock(&waiter.state, |state| {
            state.waker = Some(context.waker().clone());
            state.ended.clone()
        });
        if let Some(ended) = ended {
            return Poll::Ready(ended);
        }
        // The waker is stored before this check, so a job that runs from now on finds it.
        if with_lock(&shared.waiting.state, |waiting| !std::mem::replace(&mut waiting.has_wait_job, true)) {
            let (waiting, database) = (Arc::clone(&shared.waiting), Arc::downgrade(shared));
            let job = WaitJob { waiting, database, is_done: false };
            block(Box::new(move || job.run()));
        }
        Poll::Pending
    }
}

impl<B> Drop for OnDisk<B> {
    fn drop(&mut self) {
        let (shared, _) = self.ticket.place();
        // In a child of `fork` another process's thread may hold the lock.
        if let Some((place, _)) = self.waiter.take().filter(|_| shared.check_process().is_ok()) {
            with_lock(&shared.waiting.state, |waiting| waiting.waiters.remove(&place));
        }
    }
}

/// A job that waits for the disk on behalf of all tasks of a database. If the job is dropped before
/// it is done, it wakes the tasks, and one of them requests a new job.
struct WaitJob {
    waiting: Arc<CommitWaiters>,
    /// Waiting tasks keep the database open; the job alone does not.
    database: Weak<DatabaseShared>,
    is_done: bool,
}

impl WaitJob {
    /// Waits for one commit after the other, the earliest first, until no task waits.
    fn run(mut self) {
        loop {
            let first = with_lock(&self.waiting.state, |state| {
                let first = state.earliest();
                state.has_wait_job = first.is_some();
                first
            });
            let (Some(first), Some(database)) = (first, self.database.upgrade()) else {
                self.is_done = first.is_none();
                return;
            };
            let ended = wait_for_epoch(&database, Epoch(first.0), None).map(drop);
            drop(database);
            let (epoch, registered) = if ended.is_err() { (u64::MAX, u64::MAX) } else { first };
            let over = with_lock(&self.waiting.state, |state| state.take_finished(epoch, registered));
            for waiter in over.into_values() {
                let waker = with_lock(&waiter.state, |state| {
                    state.ended = Some(ended.clone());
                    state.waker.take()
                });
                waker.into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Drop for WaitJob {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let left = with_lock(&self.waiting.state, |state| {
            state.has_wait_job = false;
            state.waiters.values().cloned().collect::<Vec<_>>()
        });
        for waiter in left {
            with_lock(&waiter.state, |state| state.waker.take()).into_iter().for_each(Waker::wake);
        }
    }
}
