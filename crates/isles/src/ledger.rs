//! Users of a database (sessions, transaction objects, tickets) and the counters of its sessions.
//! Each session has counters of its own that no other session writes, so that counting costs a
//! transaction almost nothing.
// Threads of the program share the ledger; these words do not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::{Hardware, Nanos, Platform};
use terms::{Abort, Conflict};

use crate::error::{Error, Result};
use crate::latency::{Histogram, Latencies};
use crate::statistics::{ConflictStatistics, TransactionStatistics};

/// Counters of one session at a time. A later session reuses them and continues to count.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    commits: AtomicU64,
    rollbacks: AtomicU64,
    failures: AtomicU64,
    read_changed: AtomicU64,
    phantom: AtomicU64,
    locked: AtomicU64,
    key_in_use: AtomicU64,
    deadlock: AtomicU64,
    at_commit: AtomicU64,
    /// `None` unless the program enables it.
    latencies: Option<Box<Histogram>>,
}

/// Adds one to a counter that only the caller writes.
fn count(word: &AtomicU64) {
    // Relaxed: a figure.
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn commit(&self) {
        count(&self.commits);
    }

    pub(crate) fn roll_back(&self) {
        count(&self.rollbacks);
    }

    /// Records the duration of a transaction.
    pub(crate) fn record_duration(&self, nanos: u64) {
        if let Some(latencies) = &self.latencies {
            latencies.count(nanos);
        }
    }

    /// Counts a transaction that ended with an error of this library.
    pub(crate) fn fail(&self) {
        count(&self.failures);
    }

    /// Counts an attempt that conflicted: `verb` is the abort of the verb that failed, if one did.
    pub(crate) fn conflict(&self, verb: Option<&Abort>) {
        count(match verb {
            Some(Abort::Conflict(Conflict::ReadChanged)) => &self.read_changed,
            Some(Abort::Conflict(Conflict::Phantom)) => &self.phantom,
            Some(Abort::Conflict(Conflict::Locked)) => &self.locked,
            Some(Abort::Conflict(Conflict::KeyInUse)) => &self.key_in_use,
            Some(Abort::Conflict(Conflict::Deadlock)) => &self.deadlock,
            _ => &self.at_commit,
        });
    }

    fn add_to(&self, sum: &mut TransactionStatistics) {
        // Relaxed: figures, which need not be of one moment.
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        sum.commits += read(&self.commits);
        sum.rollbacks += read(&self.rollbacks);
        sum.failures += read(&self.failures);
        let ConflictStatistics { read_changed, phantom, locked, key_in_use, deadlock, at_commit } =
            &mut sum.conflicts;
        *read_changed += read(&self.read_changed);
        *phantom += read(&self.phantom);
        *locked += read(&self.locked);
        *key_in_use += read(&self.key_in_use);
        *deadlock += read(&self.deadlock);
        *at_commit += read(&self.at_commit);
    }
}

#[derive(Default)]
struct AllCounters {
    all: Vec<Arc<Counters>>,
    /// Counters that no session uses now.
    idle: Vec<Arc<Counters>>,
    /// Number of sessions that have ended.
    ended: u64,
}

/// Users and counters of a database.
#[derive(Default)]
pub(crate) struct Ledger {
    /// True if durations of transactions are recorded.
    has_latencies: bool,
    counters: Mutex<AllCounters>,
    /// Signalled when a session ends.
    end: Condvar,
    tickets: AtomicU64,
    /// Open transaction objects.
    transactions: AtomicU64,
}

/// Handles that keep a database open, except its clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Users {
    pub(crate) sessions: usize,
    /// Sessions with an open transaction object.
    pub(crate) transactions: usize,
    pub(crate) tickets: usize,
}

impl Ledger {
    /// Returns the ledger of a database without users.
    pub(crate) fn new(has_latencies: bool) -> Self {
        Ledger { has_latencies, ..Ledger::default() }
    }

    fn lock(&self) -> MutexGuard<'_, AllCounters> {
        // No panic is possible while the counters are locked.
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, body: impl FnOnce(&mut AllCounters) -> T) -> T {
        body(&mut self.lock())
    }

    /// Registers a session.
    pub(crate) fn register_session(self: &Arc<Self>) -> SessionEntry {
        let counters = self.with(|counters| {
            counters.idle.pop().unwrap_or_else(|| {
                let latencies = self.has_latencies.then(|| Box::new(Histogram::new()));
                let new = Arc::new(Counters { latencies, ..Counters::default() });
                counters.all.push(Arc::clone(&new));
                new
            })
        });
        SessionEntry { ledger: Arc::clone(self), counters }
    }

    /// Calls `open` until it returns something other than [`Error::TooManySessions`]: again
    /// whenever a session has ended, until this moment.
    pub(crate) fn wait_for_place<T>(&self, until: Nanos, open: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            // Read before the call: a session that ends during it is not missed.
            let before = self.lock().ended;
            let full = match open() {
                Err(full @ Error::TooManySessions { .. }) => full,
                opened => return opened,
            };
            let mut counters = self.lock();
            while counters.ended == before {
                let left = until.since(Hardware::now(Hardware::core()));
                if left == 0 {
                    return Err(full);
                }
                // No panic is possible while the counters are locked.
                let waited = self
                    .end
                    .wait_timeout(counters, Duration::from_nanos(left))
                    .unwrap_or_else(PoisonError::into_inner);
                counters = waited.0;
            }
        }
    }

    /// Registers a ticket.
    pub(crate) fn register_ticket(self: &Arc<Self>) -> TicketEntry {
        // Relaxed: a figure.
        self.tickets.fetch_add(1, Ordering::Relaxed);
        TicketEntry(Arc::clone(self))
    }

    pub(crate) fn users(&self) -> Users {
        let sessions = self.with(|counters| counters.all.len() - counters.idle.len());
        // Relaxed: figures.
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed) as usize;
        Users { sessions, transactions: read(&self.transactions), tickets: read(&self.tickets) }
    }

    /// Returns the durations of all transactions, if they are recorded.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        self.has_latencies.then(|| {
            let mut sum = Latencies::none();
            let add = |counters: &Arc<Counters>| {
                counters.latencies.iter().for_each(|latencies| latencies.add_to(&mut sum));
            };
            self.with(|counters| counters.all.iter().for_each(add));
            sum
        })
    }

    pub(crate) fn has_latencies(&self) -> bool {
        self.has_latencies
    }

    /// Returns the sum over all sessions, including those that have ended.
    pub(crate) fn transactions(&self) -> TransactionStatistics {
        let mut sum = TransactionStatistics::default();
        self.with(|counters| counters.all.iter().for_each(|counters| counters.add_to(&mut sum)));
        sum
    }
}

/// Registration of a session.
pub(crate) struct SessionEntry {
    ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
}

impl SessionEntry {
    /// Registers a transaction object.
    pub(crate) fn register_object(&self) -> ObjectEntry<'_> {
        // Relaxed: a figure.
        self.ledger.transactions.fetch_add(1, Ordering::Relaxed);
        ObjectEntry(&self.ledger)
    }
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        // The session has left its place: see the order of fields of `Session`.
        self.ledger.with(|counters| {
            counters.idle.push(Arc::clone(&self.counters));
            counters.ended += 1;
        });
        self.ledger.end.notify_all();
    }
}

/// Registration of a transaction object.
pub(crate) struct ObjectEntry<'l>(&'l Ledger);

impl Drop for ObjectEntry<'_> {
    fn drop(&mut self) {
        // Relaxed: a figure.
        self.0.transactions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Registration of a ticket.
pub(crate) struct TicketEntry(Arc<Ledger>);

impl Clone for TicketEntry {
    fn clone(&self) -> Self {
        self.0.register_ticket()
    }
}

impl Drop for TicketEntry {
    fn drop(&mut self) {
        // Relaxed: a figure.
        self.0.tickets.fetch_sub(1, Ordering::Relaxed);
    }
}
