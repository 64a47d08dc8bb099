//! News of links for workers that run: a link is lost, or a new one is there.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use distributed::{Connection, WorkerName};
use platform::Nanos;

use crate::host::Host;

/// News of a worker's links.
pub(crate) enum News<P: Host> {
    /// The link to this worker is gone.
    Lost(WorkerName),
    /// There is another one.
    Met(Connection<P>),
}

/// News that is heard from a moment on.
type Later<P> = VecDeque<(Nanos, News<P>)>;

/// News for the workers of a process, for each in the order of sending.
pub(crate) struct Arrivals<P: Host> {
    first: usize,
    queues: Vec<Mutex<Later<P>>>,
    /// Instances that have fallen, come back, and of which all know.
    told: AtomicUsize,
    /// Cuts between machines that are over, and of whose links all know.
    mended: AtomicUsize,
    /// True if a worker has left: no news follow.
    closed: AtomicBool,
    /// True if no worker waits for missing instances any more.
    given_up: AtomicBool,
}

impl<P: Host> Arrivals<P> {
    /// For these workers.
    pub(crate) fn new(workers: Range<usize>) -> Self {
        let queues = workers.clone().map(|_| Mutex::default()).collect();
        Arrivals {
            first: workers.start,
            queues,
            told: AtomicUsize::new(0),
            mended: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        }
    }

    fn queue(&self, worker: usize) -> MutexGuard<'_, Later<P>> {
        self.queues[worker - self.first].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a worker, from a moment on.
    pub(crate) fn tell(&self, worker: usize, from: Nanos, news: News<P>) {
        self.queue(worker).push_back((from, news));
    }

    /// The next news of a worker.
    pub(crate) fn take(&self, worker: usize, now: Nanos) -> Option<News<P>> {
        let mut queue = self.queue(worker);
        let is_there = queue.front().is_some_and(|(from, _)| *from <= now);
        if is_there { queue.pop_front().map(|(_, news)| news) } else { None }
    }

    /// Nothing that was told to a worker is heard.
    pub(crate) fn forget(&self, worker: usize) {
        self.queue(worker).clear();
    }

    // The flags are SeqCst: looked at now and then.

    /// Waits for nobody who is missing from now on.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// All know of one more instance that has fallen.
    pub(crate) fn all_told(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }

    /// How many cuts between machines are over, and all know of their links.
    pub(crate) fn mended(&self) -> usize {
        self.mended.load(Ordering::SeqCst)
    }

    /// One more cut is over.
    pub(crate) fn all_mended(&self) {
        self.mended.fetch_add(1, Ordering::SeqCst);
    }

    /// True if nothing is to be told now: an instance is down or machines are cut off, of which not
    /// all know, or a worker has left.
    pub(crate) fn is_closed(&self, c: P::Core) -> bool {
        self.closed.load(Ordering::SeqCst) || self.is_waiting(c)
    }

    /// True if an instance has fallen, or machines were cut off from each other, and not all know
    /// that it is over.
    fn is_waiting(&self, c: P::Core) -> bool {
        P::fallen_instance(c, self.told.load(Ordering::SeqCst)).is_some()
            || P::cut(c, self.mended()).is_some()
    }

    /// A worker leaves, unless there is something left to hear.
    pub(crate) fn close(&self, c: P::Core, worker: usize) -> bool {
        let leaves = !self.is_waiting(c) && self.queue(worker).is_empty();
        if leaves {
            self.closed.store(true, Ordering::SeqCst);
            P::end_troubles(c);
        }
        leaves
    }
}
