//! Events that a program may want to log, and their delivery to the listener of
//! [`Builder::on_event`](crate::Builder::on_event).
// Threads of the program share the listener; these words do not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use boundary::Recovered;
use redo_log::LogError;

/// Default of [`Builder::slow_after`](crate::Builder::slow_after).
pub const SLOW_DEFAULT: Duration = Duration::from_millis(100);

/// An event that a program may want to log. The thread that caused the event calls the listener,
/// outside of any transaction. The listener may use the database.
/// [`Builder::on_event`](crate::Builder::on_event) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An existing database was opened.
    Recovered {
        /// Rows read from the last checkpoint.
        rows: u64,
        /// Changes of rows read from the log behind the checkpoint.
        changes: u64,
        /// Bytes read of both.
        bytes: u64,
        /// Duration of the recovery.
        took: Duration,
    },
    /// A transaction took at least the time set by
    /// [`Builder::slow_after`](crate::Builder::slow_after).
    SlowTransaction {
        /// Time from begin to end, including all attempts, the closure's own work and the wait for
        /// the disk.
        took: Duration,
        /// Number of attempts.
        attempts: u32,
        /// True if the transaction committed.
        committed: bool,
    },
    /// A checkpoint has ended since a session last checked.
    Checkpoint {
        /// Checkpoints that have ended since the opening.
        ended: u64,
        /// Reason why the last checkpoint failed, if it did: recovery then uses the one before, and
        /// the log continues to grow.
        failed: Option<String>,
    },
    /// The log has stopped: no further transaction commits.
    LogStopped {
        /// The reason.
        why: String,
    },
    /// The database was closed, and all commits are on disk.
    Closed,
}

/// Listener of the program.
pub(crate) type Listener = dyn Fn(&Event) + Send + Sync;

/// Delivers events to the listener.
pub(crate) struct EventReporter {
    listener: Box<Listener>,
    slow: Duration,
    /// Number of checkpoints that were reported.
    checkpoints: AtomicU64,
    /// 1 once the stop of the log was reported.
    stopped: AtomicU64,
}

impl EventReporter {
    pub(crate) fn new(listener: Box<Listener>, slow: Duration) -> Self {
        let (checkpoints, stopped) = (AtomicU64::new(0), AtomicU64::new(0));
        EventReporter { listener, slow, checkpoints, stopped }
    }

    pub(crate) fn report(&self, event: &Event) {
        (self.listener)(event);
    }

    /// Reports a recovery.
    pub(crate) fn recovered(&self, found: &Recovered) {
        if found.existed {
            self.report(&Event::Recovered {
                rows: found.rows,
                changes: found.changes,
                bytes: found.checkpoint_bytes + found.log_bytes,
                took: Duration::from_nanos(found.nanos),
            });
        }
    }

    /// Reports, once, that the log has stopped.
    pub(crate) fn log_stopped(&self, why: &str) {
        // Relaxed: no other data depends on the word.
        if self.stopped.swap(1, Ordering::Relaxed) == 0 {
            self.report(&Event::LogStopped { why: why.to_owned() });
        }
    }

    /// Reports checkpoints that were not reported before: `ended` have ended, the last one with the
    /// result `last`.
    pub(crate) fn report_checkpoints(&self, ended: u64, last: Result<(), LogError>) {
        // Relaxed: the caller that raises the word reports the new count.
        if self.checkpoints.fetch_max(ended, Ordering::Relaxed) < ended {
            self.report(&Event::Checkpoint { ended, failed: last.err().map(|error| error.to_string()) });
        }
    }

    /// Reports a transaction, if it was slow.
    pub(crate) fn report_if_slow(&self, nanos: u64, attempts: u32, committed: bool) {
        let took = Duration::from_nanos(nanos);
        if took >= self.slow {
            self.report(&Event::SlowTransaction { took, attempts, committed });
        }
    }
}
