//! State that all handles of a database share.
// The words that count sessions and record tables belong to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use boundary::AnyDatabase;
use concurrency::SchemeName;
use platform::{Hardware, Intent, Nanos, Platform};
use schema::TableDescription;
use terms::Faults;

use crate::error::{Error, Result};
use crate::event::EventReporter;
use crate::expiry::NextSweep;
use crate::ledger::{Counters, Ledger, Users};
use crate::nesting::{InsideTransaction, check_outside};
use crate::plans::PlanList;
use crate::process_owned::ProcessOwned;
use crate::sequence_list::SequenceList;
use crate::table_forms::{Changes, ChangingTables};
use crate::table_locks::{Presence, Presences, SharedTurn, TableLocks};
use crate::waiters::CommitWaiters;

/// Returns the next number of the sequence of this name.
pub(crate) type NextNumber = dyn Fn(&str) -> Result<i64> + Send + Sync;

/// Longest wait of a change of tables for a transaction that changes tables.
const TURN_WAIT_NANOS: u64 = 5_000_000_000;

/// State that all handles of a database share.
pub(crate) struct DatabaseShared {
    pub(crate) inner: ProcessOwned<Box<dyn AnyDatabase<Hardware>>>,
    /// State of each table and of each place for further tables.
    pub(crate) presences: Presences,
    /// The tables that a transaction which changes tables keeps from others.
    pub(crate) locks: Arc<TableLocks>,
    pub(crate) id: u64,
    pub(crate) scheme: SchemeName,
    /// Number of sessions begun so far, which seeds their backoff times.
    pub(crate) sessions: AtomicU64,
    /// Parts and tables of this instance, if it belongs to a deployment.
    pub(crate) share: Option<InstanceShare>,
    /// The directory of a durable database.
    pub(crate) path: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) reporter: Option<EventReporter>,
    /// Asynchronous tasks that wait for commits.
    pub(crate) waiting: Arc<CommitWaiters>,
    pub(crate) sequences: SequenceList,
    /// Returns the next number of a sequence, for a column of a table.
    pub(crate) numbers: OnceLock<Box<NextNumber>>,
    /// Constraints of the tables.
    pub(crate) plans: PlanList,
    /// Changes of tables that are under way.
    pub(crate) changing: ChangingTables,
    /// A planted fault in the plans.
    pub(crate) faults: Faults,
    /// When a session looks for expired rows next.
    pub(crate) next_sweep: NextSweep,
}

/// A database that was created or opened, and its configuration.
pub(crate) struct OpenedDatabase {
    pub(crate) inner: boundary::Database<Hardware>,
    pub(crate) id: u64,
    pub(crate) scheme: SchemeName,
    pub(crate) limits: Limits,
    pub(crate) faults: Faults,
}

/// Limits with which a database was opened.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) sessions: usize,
    pub(crate) spare_tables: usize,
    /// True if durations of transactions are recorded.
    pub(crate) latencies: bool,
}

impl DatabaseShared {
    /// Wraps a database that has no users yet.
    pub(crate) fn new(made: OpenedDatabase, path: Option<PathBuf>, reporter: Option<EventReporter>) -> Self {
        let OpenedDatabase { inner, id, scheme, limits, faults } = made;
        let inner = inner.into_object();
        let presences = Presences::new(inner.tables().len(), limits.spare_tables);
        let locks = TableLocks::new(presences.share());
        let (sessions, waiting) = (AtomicU64::new(0), Arc::default());
        let ledger = Arc::new(Ledger::new(limits.latencies));
        let inner = ProcessOwned::new(inner);
        DatabaseShared {
            inner,
            presences,
            locks,
            id,
            scheme,
            sessions,
            share: None,
            path,
            limits,
            ledger,
            reporter,
            waiting,
            sequences: SequenceList::default(),
            numbers: OnceLock::new(),
            plans: PlanList::default(),
            changing: ChangingTables::default(),
            next_sweep: NextSweep::default(),
            faults,
        }
    }

    /// Returns [`Error::Forked`] in a process that was forked from the process that opened the
    /// database. Such a process has a copy of all rows, and its changes would be lost.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.inner.is_of_parent() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Returns an error inside a transaction of the database, and in a process that did not open
    /// the database.
    pub(crate) fn check_outside(&self) -> Result<()> {
        self.check_process()?;
        check_outside(self.id)
    }

    /// Marks the thread as running a transaction of the database.
    pub(crate) fn enter(&self) -> Result<InsideTransaction> {
        self.check_process()?;
        InsideTransaction::enter(self.id)
    }

    /// Returns the descriptions of all tables by number, including dropped tables.
    pub(crate) fn tables(&self) -> &[TableDescription] {
        self.inner.tables()
    }

    /// Returns true if a table cannot be used as it is: it was dropped or changed, is still being
    /// filled, or a transaction has it alone.
    #[inline]
    pub(crate) fn is_absent(&self, table: usize) -> bool {
        !self.presences.is_plainly_present(table)
    }

    /// Returns true if a table was changed to other rows than those of this number.
    pub(crate) fn is_changed(&self, table: usize) -> bool {
        self.presences.get(table) == Presence::Changed
    }

    /// Returns the tables that exist, with their numbers.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &TableDescription)> {
        self.tables().iter().enumerate().filter(|(number, _)| self.presences.get(*number).is_there())
    }

    /// Begins a change of tables outside of transactions. No transaction changes tables until the
    /// turn is dropped.
    ///
    /// # Errors
    /// A transaction changes tables, and does not end in time.
    pub(crate) fn turn_to_change(&self, table: &str) -> Result<SharedTurn> {
        let until = Hardware::now(Hardware::core()).plus(TURN_WAIT_NANOS);
        self.locks.share(until).ok_or_else(|| {
            Error::not_changed(table, "a transaction changes tables: end it before".to_owned())
        })
    }

    /// Has transactions that begin from now on use plans for the present tables and these changes.
    pub(crate) fn publish_plans(&self, changes: &Changes) -> Result<()> {
        self.plans.publish(changes.plans(self.present(), self.tables(), self.faults)?)
    }

    /// Returns the number of the table of this name.
    pub(crate) fn table_number(&self, name: &str) -> Result<usize> {
        let found = self.present().find(|(_, table)| table.name() == name);
        found.map(|(number, _)| number).ok_or_else(|| self.no_table(name))
    }

    /// Returns the error for a table that is not there.
    #[cold]
    pub(crate) fn no_table(&self, name: &str) -> Error {
        let known: Vec<_> = self.present().map(|(_, table)| table.name()).collect();
        Error::NoSuchTable(format!("no table {name}: there are {}", known.join(", ")))
    }

    /// Returns the current time, if durations of transactions are recorded or reported.
    pub(crate) fn start_timer(&self) -> Option<Nanos> {
        let watched = self.reporter.is_some() || self.ledger.has_latencies();
        watched.then(|| Hardware::now(Hardware::core()))
    }

    /// Records the end of a transaction that began at `began`.
    pub(crate) fn record_end(
        &self,
        counters: &Counters,
        began: Option<Nanos>,
        attempts: u32,
        committed: bool,
    ) {
        let Some(began) = began else { return };
        let nanos = Hardware::now(Hardware::core()).since(began);
        counters.record_duration(nanos);
        if let Some(reporter) = &self.reporter {
            reporter.report_if_slow(nanos, attempts, committed);
        }
    }

    /// Reports to the listener that the log has stopped.
    #[cold]
    pub(crate) fn log_stopped(&self, why: &str) {
        if let Some(reporter) = &self.reporter {
            reporter.log_stopped(why);
        }
    }

    /// Reports to the listener checkpoints that have ended.
    pub(crate) fn report_checkpoints(&self) {
        if let Some(reporter) = &self.reporter {
            let (ended, last) = self.inner.checkpoints(Hardware::core());
            reporter.report_checkpoints(ended, last);
        }
    }

    /// Returns the users of the database other than one handle of it, given the number of handles
    /// of all kinds; and how many of them are clones.
    pub(crate) fn others(&self, handles: usize) -> (Users, usize) {
        let users = self.ledger.users();
        (users, handles.saturating_sub(1 + users.sessions + users.tickets))
    }
}

/// Parts and tables of one instance of a deployment.
pub(crate) struct InstanceShare {
    /// For each part of the data, true if this instance has it.
    pub(crate) parts: Vec<bool>,
    /// For each table, true if all instances have a copy of it.
    pub(crate) copied: Vec<bool>,
}

/// Restrictions of a step of a procedure: its part, and true if the step only reads.
#[derive(Clone, Copy)]
pub(crate) struct StepLimit {
    pub(crate) part: u16,
    pub(crate) only_reads: bool,
}

impl InstanceShare {
    /// Returns true if all instances have a copy of the table.
    pub(crate) fn is_copied(&self, table: usize) -> bool {
        self.copied.get(table).copied().unwrap_or(false)
    }

    /// Returns the reason why a key or a range of keys of a table must not be used, if there is
    /// one. `part` is the only part of the key or range, `None` if a range spans several parts.
    pub(crate) fn refusal(
        &self,
        limit: Option<StepLimit>,
        table: usize,
        part: Option<u16>,
        intent: Intent,
    ) -> Option<&'static str> {
        let writes = intent == Intent::Write;
        if self.is_copied(table) {
            return writes.then_some("a table that all instances have is only read");
        }
        if writes && limit.is_some_and(|limit| limit.only_reads) {
            return Some("a step that says that it only reads changes a row");
        }
        let here = |part: u16| self.parts.get(usize::from(part)).copied().unwrap_or(false);
        match (part, limit) {
            (Some(part), Some(limit)) if part != limit.part => {
                Some("a step uses a key of another part than its own")
            }
            (None, Some(_)) => Some("a step scans keys of several parts"),
            (Some(part), None) if !here(part) => Some(
                "this instance does not have the key's part: use a session of the one that has, or a procedure",
            ),
            _ => None,
        }
    }
}
