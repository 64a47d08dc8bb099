//! Commits that are waited for by tasks instead of threads.
// The program's threads and tasks share who waits: its words are none of the engine's.
#![allow(clippy::disallowed_types)]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use terms::Epoch;

use crate::error::Result;
use crate::shared::Shared;
use crate::ticket::{Ticket, wait_for_epoch};
use crate::waiting::{Place, Seat, Waiting, with};

/// A job that blocks the thread it runs on until a commit is on disk. [`Ticket::on_disk_by`] has an
/// example.
pub type BlockingJob = Box<dyn FnOnce() + Send>;

/// A commit on its way to the disk, as a [`Future`]: what [`Ticket::on_disk_by`] gives.
///
/// Errors: as [`Ticket::wait`], but for [`Error::Nested`](crate::Error::Nested).
/// [`Ticket::on_disk_by`] has an example.
#[must_use = "futures do nothing unless they are polled"]
pub struct OnDisk<B> {
    ticket: Ticket,
    block: B,
    seat: Option<(Place, Arc<Seat>)>,
}

impl<B> std::fmt::Debug for OnDisk<B> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("OnDisk").field("ticket", &self.ticket).finish()
    }
}

impl Ticket {
    /// A future that is ready when the commit is on disk. The library knows no runtime, and its own
    /// threads wait for no commit: `block` is given a job that blocks, to run it where the program
    /// lets threads wait (`tokio::task::spawn_blocking`, or `std::thread::spawn`). One job at a
    /// time is under way for a database, whatever number of commits tasks wait for.
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
        OnDisk { ticket: self, block, seat: None }
    }
}

impl<B: FnMut(BlockingJob) + Unpin> Future for OnDisk<B> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let OnDisk { ticket, block, seat } = self.get_mut();
        if let Err(forked) = ticket.place().0.check_process() {
            return Poll::Ready(Err(forked));
        }
        if ticket.is_on_disk() {
            return Poll::Ready(Ok(()));
        }
        let (shared, outcome) = ticket.place();
        let (_, seat) =
            seat.get_or_insert_with(|| with(&shared.waiting.state, |waiting| waiting.sit(outcome.0)));
        let ended = with(&seat.state, |state| {
            state.waker = Some(context.waker().clone());
            state.ended.clone()
        });
        if let Some(ended) = ended {
            return Poll::Ready(ended);
        }
        // After the waker is in its place: who serves from now on finds it.
        if with(&shared.waiting.state, |waiting| !std::mem::replace(&mut waiting.is_served, true)) {
            let (waiting, database) = (Arc::clone(&shared.waiting), Arc::downgrade(shared));
            let server = Server { waiting, database, is_over: false };
            block(Box::new(move || server.serve()));
        }
        Poll::Pending
    }
}

impl<B> Drop for OnDisk<B> {
    fn drop(&mut self) {
        let (shared, _) = self.ticket.place();
        // In a child of `fork` another process's thread may hold the lock.
        if let Some((place, _)) = self.seat.take().filter(|_| shared.check_process().is_ok()) {
            with(&shared.waiting.state, |waiting| waiting.seats.remove(&place));
        }
    }
}

/// The duty to wait for all tasks of a database. A job that is dropped before it has run hands it
/// on.
struct Server {
    waiting: Arc<Waiting>,
    /// Tasks that wait keep the database open; the job alone does not.
    database: Weak<Shared>,
    is_over: bool,
}

impl Server {
    /// Waits for one commit after the other, the earliest first, until no task waits.
    fn serve(mut self) {
        loop {
            let first = with(&self.waiting.state, |state| {
                let first = state.first();
                state.is_served = first.is_some();
                first
            });
            let (Some(first), Some(database)) = (first, self.database.upgrade()) else {
                self.is_over = first.is_none();
                return;
            };
            let ended = wait_for_epoch(&database, Epoch(first.0), None).map(drop);
            drop(database);
            let until = if ended.is_err() { (u64::MAX, u64::MAX) } else { first };
            let over = with(&self.waiting.state, |state| state.rise(until));
            for seat in over.into_values() {
                let waker = with(&seat.state, |state| {
                    state.ended = Some(ended.clone());
                    state.waker.take()
                });
                waker.into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = with(&self.waiting.state, |state| {
            state.is_served = false;
            state.seats.values().cloned().collect::<Vec<_>>()
        });
        for seat in left {
            with(&seat.state, |state| state.waker.take()).into_iter().for_each(Waker::wake);
        }
    }
}
