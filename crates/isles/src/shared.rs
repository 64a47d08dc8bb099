//! State that all handles of a database share.
// The number of sessions, and which tables are there, are no shared words of the engine.
#![allow(clippy::disallowed_types)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use boundary::AnyDatabase;
use concurrency::SchemeName;
use platform::{Hardware, Intent, Nanos, Platform};
use schema::TableDescription;

use crate::error::{Error, Result};
use crate::event::Watcher;
use crate::ledger::{Counters, Ledger, Users};
use crate::nesting::{Inside, check_outside};
use crate::own::Own;
use crate::waiting::Waiting;

/// State that all handles of a database share.
pub(crate) struct Shared {
    pub(crate) inner: Own<Box<dyn AnyDatabase<Hardware>>>,
    /// By table, those that may be added included: whether it is there ([`Presence`]).
    presence: Box<[AtomicU8]>,
    pub(crate) id: u64,
    pub(crate) scheme: SchemeName,
    /// Sessions begun so far: seeds of their backoff times.
    pub(crate) sessions: AtomicU64,
    /// Its share of the data, if it is one of several instances.
    pub(crate) share: Option<Share>,
    /// Its directory, if it is durable.
    pub(crate) path: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) watcher: Option<Watcher>,
    /// Tasks that wait for commits.
    pub(crate) waiting: Arc<Waiting>,
}

/// A database that was made, and what it was made by.
pub(crate) struct Made {
    pub(crate) inner: boundary::Database<Hardware>,
    pub(crate) id: u64,
    pub(crate) scheme: SchemeName,
    pub(crate) limits: Limits,
}

/// The presence of a table for transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Presence {
    There,
    Dropped,
    /// Its name is that of a table with other rows.
    Changed,
    /// It is filled, and has no name yet.
    Coming,
}

/// The limits that a database was opened with.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) sessions: usize,
    pub(crate) spare_tables: usize,
    /// True if it is counted how long transactions take.
    pub(crate) latencies: bool,
}

impl Shared {
    /// A database that was made, which nobody has used yet.
    pub(crate) fn new(made: Made, path: Option<PathBuf>, watcher: Option<Watcher>) -> Self {
        let Made { inner, id, scheme, limits } = made;
        let inner = inner.into_object();
        let presence =
            (0..inner.tables().len() + limits.spare_tables).map(|_| AtomicU8::new(Presence::There as u8));
        let presence = presence.collect();
        let (sessions, waiting) = (AtomicU64::new(0), Arc::default());
        let ledger = Arc::new(Ledger::new(limits.latencies));
        let inner = Own::new(inner);
        Shared { inner, presence, id, scheme, sessions, share: None, path, limits, ledger, watcher, waiting }
    }

    /// Refuses a process that was forked from the one that opened the database: it has a copy of
    /// all rows, and what it did with them would be lost with it.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.inner.is_of_parent() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Refuses what cannot be done inside a transaction of the database, or in another process than
    /// its own.
    pub(crate) fn check_outside(&self) -> Result<()> {
        self.check_process()?;
        check_outside(self.id)
    }

    /// Begins what is the only transaction of the thread.
    pub(crate) fn enter(&self) -> Result<Inside> {
        self.check_process()?;
        Inside::enter(self.id)
    }

    /// Descriptions of its tables by their numbers, also of dropped ones.
    pub(crate) fn tables(&self) -> &[TableDescription] {
        self.inner.tables()
    }

    /// True if a table cannot be used: it was dropped, or has another form, or comes to be one.
    #[inline]
    pub(crate) fn is_absent(&self, table: usize) -> bool {
        // Relaxed: who has heard of the change has heard of this; for others the transaction began
        // before.
        self.presence
            .get(table)
            .is_some_and(|presence| presence.load(Ordering::Relaxed) != Presence::There as u8)
    }

    /// True if a table has other rows by now than those that its number stands for.
    pub(crate) fn is_changed(&self, table: usize) -> bool {
        let presence = self.presence.get(table);
        presence.is_some_and(|presence| presence.load(Ordering::Relaxed) == Presence::Changed as u8)
    }

    /// Says of a table whether transactions that begin from now on can use it.
    pub(crate) fn set_presence(&self, table: usize, presence: Presence) {
        if let Some(now) = self.presence.get(table) {
            // Release: before the epoch is read after which no transaction uses the table
            // otherwise; a transaction of a later epoch has read that, with acquire.
            now.store(presence as u8, Ordering::Release);
        }
    }

    /// As [`Self::set_presence`], if it was so before; whether it was.
    pub(crate) fn move_presence(&self, table: usize, from: Presence, to: Presence) -> bool {
        let Some(now) = self.presence.get(table) else { return false };
        // Release: as there. Relaxed if it fails: nothing follows from it.
        now.compare_exchange(from as u8, to as u8, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The tables that there are, with their numbers.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &TableDescription)> {
        self.tables().iter().enumerate().filter(|(number, _)| !self.is_absent(*number))
    }

    /// The number of the table of this name.
    pub(crate) fn table_number(&self, name: &str) -> Result<usize> {
        let found = self.present().find(|(_, table)| table.name() == name);
        found.map(|(number, _)| number).ok_or_else(|| {
            let known: Vec<_> = self.present().map(|(_, table)| table.name()).collect();
            Error::NoSuchTable(format!("no table {name}: there are {}", known.join(", ")))
        })
    }
    /// The moment at which a transaction begins, if somebody wants to know how long it takes.
    pub(crate) fn begin_watch(&self) -> Option<Nanos> {
        let watched = self.watcher.is_some() || self.ledger.has_latencies();
        watched.then(|| Hardware::now(Hardware::core()))
    }

    /// A transaction has ended that began then, after so many attempts.
    pub(crate) fn end_watch(
        &self,
        counters: &Counters,
        began: Option<Nanos>,
        (attempts, committed): (u32, bool),
    ) {
        let Some(began) = began else { return };
        let nanos = Hardware::now(Hardware::core()).since(began);
        counters.took(nanos);
        if let Some(watcher) = &self.watcher {
            watcher.look_at(nanos, attempts, committed);
        }
    }

    /// Tells who listens that the log has stopped.
    #[cold]
    pub(crate) fn log_stopped(&self, why: &str) {
        if let Some(watcher) = &self.watcher {
            watcher.log_stopped(why);
        }
    }

    /// Tells who listens of checkpoints that have ended.
    pub(crate) fn look_at_checkpoints(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.look_at_checkpoints(self.inner.checkpoints(Hardware::core()));
        }
    }

    /// The users of the database beside one handle of it, if there are `handles` of all kinds, and
    /// the number of clones among them.
    pub(crate) fn others(&self, handles: usize) -> (Users, usize) {
        let users = self.ledger.users();
        (users, handles.saturating_sub(1 + users.sessions + users.tickets))
    }
}

/// The share of one of several instances.
pub(crate) struct Share {
    /// By part of the data: whether it is here.
    pub(crate) parts: Vec<bool>,
    /// By number of the table: whether all instances have all of it.
    pub(crate) copied: Vec<bool>,
}

/// The keys that a step of a procedure may use: one part, only to read or also to write.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) part: u16,
    pub(crate) only_reads: bool,
}

impl Share {
    /// True if all instances have all rows of a table.
    pub(crate) fn is_copied(&self, table: usize) -> bool {
        self.copied.get(table).copied().unwrap_or(false)
    }

    /// The fault of the use of a key of a table, or of a range of keys; `part` is its part, if it
    /// has one.
    pub(crate) fn refuses(
        &self,
        limit: Option<Limit>,
        (table, part, intent): (usize, Option<u16>, Intent),
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
