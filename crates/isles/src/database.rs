//! Handles of open databases.
// Threads of the program share a database, and hold it as long as they like.
#![allow(clippy::disallowed_types)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[doc(inline)]
pub use concurrency::SchemeName as Scheme;
use platform::{Hardware, Nanos, Platform};
use schema::{Row, TableDescription};

use crate::attempt::Transaction;
use crate::durable_wait::nanos;
use crate::error::{Error, Result};
use crate::event::{Event, EventReporter};
use crate::ledger::Users;
use crate::owned::OwnedTransaction;
use crate::session::Session;
use crate::shared::{DatabaseShared, OpenedDatabase};
use crate::table::Table;
use crate::ticket::Ticket;

/// Time for which calls that run one transaction wait for a session.
pub(crate) const PLACE_WAIT: Duration = Duration::from_secs(5);

/// A handle of an open database. Clones are handles of the same database, which stays open as long
/// as any handle exists. Clone a handle into each thread.
///
/// ```
/// use isles::{Database, Row};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// # let path = std::env::temp_dir().join(format!("isles-doc-database-{}", std::process::id()));
/// let mut builder = Database::at(&path);
/// builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// // For code that does not have the table at hand.
/// let accounts = database.table::<Account>("accounts")?;
/// assert_eq!(database.tables()[0].name(), "accounts");
///
/// // One transaction, in a session of its own; a session for more; an object.
/// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
/// let mut session = database.clone().session()?;
/// session.transaction(|t| t.update_field(accounts, &1, Account::BALANCE, |balance| *balance += 1).map(drop))?;
/// let mut open = database.begin()?;
/// open.insert(accounts, &Account { id: 2, balance: 0 })?;
/// open.commit()?;
///
/// database.flush()?; // commits that did not wait for the disk
/// assert!(database.memory_in_use() <= database.memory_bytes());
/// drop(session);
/// database.close()?;
/// # let _ = std::fs::remove_dir_all(&path);
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<DatabaseShared>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tables: Vec<_> = self.shared.present().map(|(_, table)| table.name()).collect();
        to.debug_struct("Database").field("scheme", &self.scheme()).field("tables", &tables).finish()
    }
}

impl Database {
    /// Wraps a database that was created or opened.
    pub(crate) fn of(made: OpenedDatabase, path: Option<PathBuf>, reporter: Option<EventReporter>) -> Self {
        Database { shared: Arc::new(DatabaseShared::new(made, path, reporter)) }
    }

    /// Closes the database and records in the directory that it was closed, so that a later opening
    /// detects any damage to the files. Dropping the last handle instead loses nothing except
    /// commits of [`Durability::Async`](crate::Durability::Async) that are not on disk yet.
    ///
    /// Errors: [`Error::InUse`] if this is not the last handle: sessions, open transactions,
    /// tickets and clones keep a database open, and the error counts each kind. The database then
    /// stays open, and only this handle is dropped. [`Error::NotDurable`] if the log has stopped.
    /// [`Error::Forked`] in a child of `fork`, where the call does nothing.
    ///
    /// [`Database`] has an example.
    pub fn close(self) -> Result<()> {
        self.shared.check_process()?;
        let (users, clones) = self.shared.others(Arc::strong_count(&self.shared));
        let Some(DatabaseShared { inner, reporter, .. }) = Arc::into_inner(self.shared) else {
            let Users { sessions, transactions, tickets } = users;
            return Err(Error::InUse { sessions, transactions, tickets, clones });
        };
        let closed =
            inner.into_inner().close(Hardware::core()).map_err(|error| Error::NotDurable(error.to_string()));
        if let Some(reporter) = reporter {
            match &closed {
                Ok(()) => reporter.report(&Event::Closed),
                Err(why) => reporter.log_stopped(&why.to_string()),
            }
        }
        closed
    }

    /// Waits until all transactions that committed before this call are on disk, including commits
    /// of [`Durability::Async`](crate::Durability::Async). In memory the call does nothing.
    ///
    /// Errors: [`Error::NotDurable`] if the log has stopped; [`Error::Nested`] inside a
    /// transaction.
    ///
    /// [`Database`] has an example.
    pub fn flush(&self) -> Result<()> {
        self.shared.check_process()?;
        let c = Hardware::core();
        match self.shared.inner.durable_with(c) {
            None => Ok(()),
            Some(outcome) => Ticket::new(Arc::clone(&self.shared), outcome).wait(),
        }
    }

    /// Opens a session, which serves one thread at a time. The library does not pin the thread, and
    /// the session may move to another thread.
    ///
    /// Errors: [`Error::TooManySessions`].
    ///
    /// [`Database`] has an example.
    pub fn session(&self) -> Result<Session> {
        Session::new(&self.shared)
    }

    /// Opens a session as [`Self::session`] does, and waits for a place if all sessions are in use:
    /// for a pool of as many threads as you like.
    ///
    /// Errors: [`Error::TooManySessions`] if no session ended within this time; [`Error::Nested`]
    /// inside a transaction.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use isles::{Database, Error};
    /// let database = Database::in_memory().sessions(1).open()?;
    /// let first = database.session()?;
    /// assert_eq!(database.session().err(), Some(Error::TooManySessions { limit: 1 }));
    /// std::thread::scope(|scope| {
    ///     let second = scope.spawn(|| database.session_within(Duration::from_secs(10)).map(drop));
    ///     drop(first);
    ///     second.join().expect("no panic")
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn session_within(&self, wait: Duration) -> Result<Session> {
        self.shared.check_outside()?;
        let now = Hardware::now(Hardware::core());
        let until = Nanos(now.0.saturating_add(nanos(wait)));
        self.shared.ledger.wait_for_place(until, || Session::new(&self.shared))
    }

    /// Begins a transaction object with a session of its own: see [`OwnedTransaction`].
    ///
    /// Errors: as [`Session::begin`], and [`Error::TooManySessions`].
    ///
    /// [`Database`] has an example.
    pub fn begin(&self) -> Result<OwnedTransaction> {
        self.session()?.into_transaction()
    }

    /// Runs `body` over a snapshot, in a session of its own: see [`Session::snapshot`].
    ///
    /// Errors: as [`Session::snapshot`], and [`Error::TooManySessions`] after 5 s.
    ///
    /// [`Database`] has an example.
    pub fn snapshot<T>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.session_within(PLACE_WAIT)?.snapshot(body)
    }

    /// Runs one transaction in a session of its own: convenient for an occasional transaction.
    /// Programs with many transactions keep a [`Session`] for each thread, which also keeps buffers
    /// and memory at hand.
    ///
    /// Errors: as [`Session::transaction`], and [`Error::TooManySessions`] if all sessions are in
    /// use for 5 s.
    ///
    /// [`Database`] has an example.
    pub fn transaction<T>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.session_within(PLACE_WAIT)?.transaction(body)
    }

    /// As [`Self::transaction`], for bodies with an error type of their own, which the call returns
    /// unchanged: see [`Session::try_transaction`].
    ///
    /// Errors: as [`Session::try_transaction`], and [`Error::TooManySessions`] after 5 s.
    ///
    /// [`Database`] has an example.
    pub fn try_transaction<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.session_within(PLACE_WAIT)?.try_transaction(body)
    }

    /// Returns the table of this name, for code that does not have the [`Table`] returned by
    /// [`Builder::table`](crate::Builder::table).
    ///
    /// Errors: [`Error::NoSuchTable`] if there is no such table, or if its rows are of another type
    /// than `R`.
    ///
    /// [`Database`] has an example.
    pub fn table<R: Row>(&self, name: &str) -> Result<Table<R>> {
        let number = self.shared.table_number(name)?;
        let view = schema::Table::view(number, &self.shared.tables()[number]);
        let inner = view.map_err(|error| Error::NoSuchTable(error.to_string()))?;
        Ok(Table { inner, database: self.shared.id })
    }

    /// Returns the descriptions of all tables: names, columns with their types, indexes.
    /// [`Transaction::get_dynamic`] and related verbs read and write rows by these descriptions,
    /// without a Rust type.
    ///
    /// [`Database`] has an example.
    pub fn tables(&self) -> Vec<&TableDescription> {
        self.shared.present().map(|(_, table)| table).collect()
    }

    /// Returns the concurrency control.
    ///
    /// [`Database`] has an example.
    pub fn scheme(&self) -> Scheme {
        self.shared.scheme
    }

    /// Returns the bytes reserved from the operating system for rows and indexes, at most
    /// [`Builder::memory_limit`](crate::Builder::memory_limit). Sessions reserve some memory ahead
    /// of need, between transactions. The database reuses the memory of deleted rows, and returns
    /// it to the operating system only when the database ends.
    ///
    /// [`Database`] has an example.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.inner.memory_bytes(Hardware::core())
    }

    /// Returns the part of [`Self::memory_bytes`] that rows and indexes occupy. The figure may be a
    /// few milliseconds old for sessions that are inside a transaction.
    ///
    /// [`Database`] has an example.
    pub fn memory_in_use(&self) -> u64 {
        self.shared.inner.memory_use(Hardware::core()).used
    }
}
