//! Open databases, shared by cheap clones.
// Threads of the program share a database, and hold it as long as they like.
#![allow(clippy::disallowed_types)]

use std::path::PathBuf;
use std::sync::Arc;

#[doc(inline)]
pub use concurrency::SchemeName as Scheme;
use platform::Hardware;
use schema::{Row, TableDescription};

use crate::attempt::Transaction;
use crate::error::{Error, Result};
use crate::event::{Event, Watcher};
use crate::ledger::Users;
use crate::owned::OwnedTransaction;
use crate::session::Session;
use crate::shared::{Made, Shared};
use crate::table::Table;
use crate::ticket::Ticket;

/// An open database. Clones are handles of the same database, which lives as long as any of its
/// handles; clone a handle into each thread.
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
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tables: Vec<_> = self.shared.present().map(|(_, table)| table.name()).collect();
        to.debug_struct("Database").field("scheme", &self.scheme()).field("tables", &tables).finish()
    }
}

impl Database {
    /// A database that was made, perhaps in a directory.
    pub(crate) fn of(made: Made, path: Option<PathBuf>, watcher: Option<Watcher>) -> Self {
        Database { shared: Arc::new(Shared::new(made, path, watcher)) }
    }

    /// Ends the database, and notes in the directory that the database was closed, so that any
    /// later damage to the files is noticed. A database whose last handle is dropped instead loses
    /// nothing either, but commits of [`Durability::Async`](crate::Durability::Async) that were not
    /// on disk.
    ///
    /// Errors: [`Error::InUse`] if this is not its last handle: sessions, open transactions,
    /// tickets and clones keep a database open, and the error says how many of each there were.
    /// Nothing happened then but that this handle is gone. [`Error::NotDurable`] if the log has
    /// stopped. [`Error::Forked`] in a child of `fork`, where nothing happens.
    ///
    /// [`Database`] has an example.
    pub fn close(self) -> Result<()> {
        self.shared.check_process()?;
        let (users, clones) = self.shared.others(Arc::strong_count(&self.shared));
        let Some(Shared { inner, watcher, .. }) = Arc::into_inner(self.shared) else {
            let Users { sessions, transactions, tickets } = users;
            return Err(Error::InUse { sessions, transactions, tickets, clones });
        };
        let closed =
            inner.into_inner().close(Hardware::core()).map_err(|error| Error::NotDurable(error.to_string()));
        if let Some(watcher) = watcher {
            match &closed {
                Ok(()) => watcher.tell(&Event::Closed),
                Err(why) => watcher.log_stopped(&why.to_string()),
            }
        }
        closed
    }

    /// Returns when all that was committed before this call is on disk: commits of
    /// [`Durability::Async`](crate::Durability::Async) too. In memory nothing happens.
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

    /// A session, which serves one thread at a time. The thread is not pinned, and may change.
    ///
    /// Errors: [`Error::TooManySessions`].
    ///
    /// [`Database`] has an example.
    pub fn session(&self) -> Result<Session> {
        Session::new(&self.shared)
    }

    /// Begins a transaction that lives as long as the program likes, with a session of its own: see
    /// [`OwnedTransaction`].
    ///
    /// Errors: as [`Session::begin`], and [`Error::TooManySessions`].
    ///
    /// [`Database`] has an example.
    pub fn begin(&self) -> Result<OwnedTransaction> {
        self.session()?.into_transaction()
    }

    /// Runs `body` over a snapshot, in a session of its own: see [`Session::snapshot`].
    ///
    /// Errors: as [`Session::snapshot`], and [`Error::TooManySessions`].
    ///
    /// [`Database`] has an example.
    pub fn snapshot<T>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.session()?.snapshot(body)
    }

    /// Runs one transaction in a session of its own: convenient for an occasional transaction.
    /// Programs with many transactions keep a [`Session`] for each thread, which also keeps buffers
    /// and memory at hand.
    ///
    /// Errors: as [`Session::transaction`], and [`Error::TooManySessions`].
    ///
    /// [`Database`] has an example.
    pub fn transaction<T>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.session()?.transaction(body)
    }

    /// The table of this name, for code that does not have the [`Table`] which
    /// [`Builder::table`](crate::Builder::table) gave.
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

    /// The tables: names, columns with their types, indexes. [`Transaction::get_dynamic`] and its
    /// likes read and write rows by that, without a Rust type.
    ///
    /// [`Database`] has an example.
    pub fn tables(&self) -> Vec<&TableDescription> {
        self.shared.present().map(|(_, table)| table).collect()
    }

    /// The concurrency control.
    ///
    /// [`Database`] has an example.
    pub fn scheme(&self) -> Scheme {
        self.shared.scheme
    }

    /// Bytes taken from the machine for rows and indexes, at most
    /// [`Builder::memory_limit`](crate::Builder::memory_limit). Memory of deleted rows is used
    /// again, and not given back before the database ends. Some of it is taken ahead of need,
    /// between transactions.
    ///
    /// [`Database`] has an example.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.inner.memory_bytes(Hardware::core())
    }

    /// Bytes of that in which rows and indexes are; sessions that are in a transaction have told
    /// some milliseconds ago.
    ///
    /// [`Database`] has an example.
    pub fn memory_in_use(&self) -> u64 {
        self.shared.inner.memory_use(Hardware::core()).used
    }
}
