//! Events for the log of a program: the listener of [`Builder::on_event`](crate::Builder::on_event)
//! receives them.
// Threads of the program share the listener; its words are none of the engine's.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use boundary::Recovered;
use redo_log::LogError;

/// How long a transaction takes that is slow, unless told otherwise.
pub const SLOW_DEFAULT: Duration = Duration::from_millis(100);

/// Something to write down. The listener is called by the thread that it happened to, outside of
/// any transaction, and may use the database. [`Builder::on_event`](crate::Builder::on_event) has
/// an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The database was opened, and its directory held one already.
    Recovered {
        /// Rows that were read from the last copy of all rows.
        rows: u64,
        /// Changes of rows that the log had since.
        changes: u64,
        /// Bytes that were read of both.
        bytes: u64,
        /// How long that took.
        took: Duration,
    },
    /// A transaction took at least as long as [`Builder::slow_after`](crate::Builder::slow_after)
    /// says.
    SlowTransaction {
        /// From its beginning to its end: all attempts, what the closure did meanwhile, and the
        /// wait for the disk.
        took: Duration,
        /// How often it was tried.
        attempts: u32,
        /// True if it has committed.
        committed: bool,
    },
    /// A copy of all rows has ended since a session last looked.
    Checkpoint {
        /// How many have ended since the opening.
        ended: u64,
        /// Why the last one has failed, if it has: the one before counts, and the log goes on
        /// growing.
        failed: Option<String>,
    },
    /// The log has stopped: nothing commits any more.
    LogStopped {
        /// Why.
        why: String,
    },
    /// The database was closed, and what was committed is on disk.
    Closed,
}

/// A program's listener of events.
pub(crate) type Listener = dyn Fn(&Event) + Send + Sync;

/// The listener, and the events that it receives.
pub(crate) struct Watcher {
    listener: Box<Listener>,
    slow: Duration,
    /// Checkpoints that the listener has heard of.
    checkpoints: AtomicU64,
    /// Whether the listener has heard that the log has stopped.
    stopped: AtomicU64,
}

impl Watcher {
    pub(crate) fn new(listener: Box<Listener>, slow: Duration) -> Self {
        let (checkpoints, stopped) = (AtomicU64::new(0), AtomicU64::new(0));
        Watcher { listener, slow, checkpoints, stopped }
    }

    pub(crate) fn tell(&self, event: &Event) {
        (self.listener)(event);
    }

    /// Tells what an opening has found.
    pub(crate) fn recovered(&self, found: &Recovered) {
        if found.existed {
            self.tell(&Event::Recovered {
                rows: found.rows,
                changes: found.changes,
                bytes: found.checkpoint_bytes + found.log_bytes,
                took: Duration::from_nanos(found.nanos),
            });
        }
    }

    /// Tells that the log has stopped, once.
    pub(crate) fn log_stopped(&self, why: &str) {
        // Relaxed: no other data depends on the word.
        if self.stopped.swap(1, Ordering::Relaxed) == 0 {
            self.tell(&Event::LogStopped { why: why.to_owned() });
        }
    }

    /// Tells of checkpoints that nobody was told of: so many have ended, the last one like this.
    pub(crate) fn look_at_checkpoints(&self, (ended, last): (u64, Result<(), LogError>)) {
        // Relaxed: the caller who raises the word tells of what was counted.
        if self.checkpoints.fetch_max(ended, Ordering::Relaxed) < ended {
            self.tell(&Event::Checkpoint { ended, failed: last.err().map(|error| error.to_string()) });
        }
    }

    /// Tells of a transaction, if it was slow.
    pub(crate) fn look_at(&self, nanos: u64, attempts: u32, committed: bool) {
        let took = Duration::from_nanos(nanos);
        if took >= self.slow {
            self.tell(&Event::SlowTransaction { took, attempts, committed });
        }
    }
}
