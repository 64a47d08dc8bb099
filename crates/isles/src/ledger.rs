//! The users of a database, and the counts of its sessions: each session writes a set of counters
//! of its own, so that counting costs a transaction next to nothing.
// Threads of the program share the ledger: its words are none of the engine's.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use terms::{Abort, Conflict};

use crate::latency::{Histogram, Latencies};
use crate::statistics::{ConflictStatistics, TransactionStatistics};

/// Counts of the sessions that used these counters, one after the other.
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
    /// `None` unless the program wants it.
    latencies: Option<Box<Histogram>>,
}

/// Counts, in counters that only the caller writes.
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

    /// A transaction took so long.
    pub(crate) fn took(&self, nanos: u64) {
        if let Some(latencies) = &self.latencies {
            latencies.count(nanos);
        }
    }

    /// A transaction ended with an error of this library.
    pub(crate) fn fail(&self) {
        count(&self.failures);
    }

    /// An attempt failed on another transaction: `verb` is what the verb said that failed, if one
    /// has.
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
    /// Those that no session has.
    idle: Vec<Arc<Counters>>,
}

/// The users of a database.
#[derive(Default)]
pub(crate) struct Ledger {
    /// True if it is counted how long transactions take.
    has_latencies: bool,
    counters: Mutex<AllCounters>,
    tickets: AtomicU64,
    /// Transactions that are objects.
    transactions: AtomicU64,
}

/// The users that keep a database open, without clones of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Users {
    pub(crate) sessions: usize,
    /// The sessions with an open transaction.
    pub(crate) transactions: usize,
    pub(crate) tickets: usize,
}

impl Ledger {
    /// Nobody uses the database yet.
    pub(crate) fn new(has_latencies: bool) -> Self {
        Ledger { has_latencies, ..Ledger::default() }
    }

    fn with<T>(&self, body: impl FnOnce(&mut AllCounters) -> T) -> T {
        // No panic is possible while the counters are locked.
        body(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A session begins.
    pub(crate) fn enter(self: &Arc<Self>) -> SessionEntry {
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

    /// There is one ticket more.
    pub(crate) fn enter_ticket(self: &Arc<Self>) -> TicketEntry {
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

    /// How long all transactions took, if that is counted.
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

    /// Counts of all sessions, also of those that have ended.
    pub(crate) fn transactions(&self) -> TransactionStatistics {
        let mut sum = TransactionStatistics::default();
        self.with(|counters| counters.all.iter().for_each(|counters| counters.add_to(&mut sum)));
        sum
    }
}

/// A session's place in the ledger.
pub(crate) struct SessionEntry {
    ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
}

impl SessionEntry {
    /// A transaction that is an object begins.
    pub(crate) fn begin_object(&self) -> ObjectEntry<'_> {
        // Relaxed: a figure.
        self.ledger.transactions.fetch_add(1, Ordering::Relaxed);
        ObjectEntry(&self.ledger)
    }
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        self.ledger.with(|counters| counters.idle.push(Arc::clone(&self.counters)));
    }
}

/// The place of a transaction that is an object.
pub(crate) struct ObjectEntry<'l>(&'l Ledger);

impl Drop for ObjectEntry<'_> {
    fn drop(&mut self) {
        // Relaxed: a figure.
        self.0.transactions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A ticket's place.
pub(crate) struct TicketEntry(Arc<Ledger>);

impl Clone for TicketEntry {
    fn clone(&self) -> Self {
        self.0.enter_ticket()
    }
}

impl Drop for TicketEntry {
    fn drop(&mut self) {
        // Relaxed: a figure.
        self.0.tickets.fetch_sub(1, Ordering::Relaxed);
    }
}
