//! News of links for running workers: a link is lost, or there is a new one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use distributed::{Connection, WorkerName};
use platform::Nanos;

use crate::host::Host;

/// A change of a worker's links.
pub(crate) enum News<P: Host> {
    /// The link to this worker is gone.
    Lost(WorkerName),
    /// There is a new link.
    Linked(Connection<P>),
}

/// News, each with the time from which it is delivered.
type Later<P> = VecDeque<(Nanos, News<P>)>;

/// Queues of news for the workers of a process, in the order of sending.
pub(crate) struct Arrivals<P: Host> {
    first: usize,
    queues: Vec<Mutex<Later<P>>>,
    /// Number of crashes after which the instance is back, and all workers have received the news.
    returned: AtomicUsize,
    /// Number of cuts between machines that are over, and whose new links all workers have
    /// received.
    mended: AtomicUsize,
    /// True if a worker has left: there will be no more news.
    closed: AtomicBool,
    /// True if workers no longer wait for missing instances.
    given_up: AtomicBool,
}

impl<P: Host> Arrivals<P> {
    /// Queues for these workers.
    pub(crate) fn new(workers: Range<usize>) -> Self {
        let queues = workers.clone().map(|_| Mutex::default()).collect();
        Arrivals {
            first: workers.start,
            queues,
            returned: AtomicUsize::new(0),
            mended: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        }
    }

    fn queue(&self, worker: usize) -> MutexGuard<'_, Later<P>> {
        self.queues[worker - self.first].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends news to a worker, to be delivered from a time on.
    pub(crate) fn send(&self, worker: usize, from: Nanos, news: News<P>) {
        self.queue(worker).push_back((from, news));
    }

    /// The next news for a worker.
    pub(crate) fn take(&self, worker: usize, now: Nanos) -> Option<News<P>> {
        let mut queue = self.queue(worker);
        let is_there = queue.front().is_some_and(|(from, _)| *from <= now);
        if is_there { queue.pop_front().map(|(_, news)| news) } else { None }
    }

    /// Discards the news for a worker.
    pub(crate) fn forget(&self, worker: usize) {
        self.queue(worker).clear();
    }

    // The flags are SeqCst: they are rarely read.

    /// Ends all waiting for missing instances.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Records that all workers have received the news of one more crash.
    pub(crate) fn count_returned(&self) {
        self.returned.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of cuts between machines that are over, and whose new links all workers have
    /// received.
    pub(crate) fn mended(&self) -> usize {
        self.mended.load(Ordering::SeqCst)
    }

    /// Records that one more cut is over.
    pub(crate) fn all_mended(&self) {
        self.mended.fetch_add(1, Ordering::SeqCst);
    }

    /// True if no fault may be injected now: a crash or a cut is not over for all workers, or a
    /// worker has left.
    pub(crate) fn is_closed(&self, c: P::Core) -> bool {
        self.closed.load(Ordering::SeqCst) || self.is_waiting(c)
    }

    /// True if an instance has crashed, or machines were cut off from each other, and not all
    /// workers have received the news of its end.
    fn is_waiting(&self, c: P::Core) -> bool {
        P::fallen_instance(c, self.returned.load(Ordering::SeqCst)).is_some()
            || P::cut(c, self.mended()).is_some()
    }

    /// Lets a worker leave, unless there are news for it; returns true if it leaves.
    pub(crate) fn close(&self, c: P::Core, worker: usize) -> bool {
        let leaves = !self.is_waiting(c) && self.queue(worker).is_empty();
        if leaves {
            self.closed.store(true, Ordering::SeqCst);
            P::cancel_faults(c);
        }
        leaves
    }
}
