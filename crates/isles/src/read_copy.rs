//! Reading a directory that another process may have open.
//!
//! The directory is copied as a backup is ([`crate::copy_directory`]): without its lock, and
//! without a change in it. The copy is what a crash at that moment would have left: the last
//! checkpoint, and all that the log has made durable since. It is opened as a database of its own.
// The copy lies in a directory of the program.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use schema::{Row, TableDescription};

use crate::attempt::Transaction;
use crate::backup::{Backup, copy_directory};
use crate::builder::Builder;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::table::Table;

/// Number of the next copy of this process.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// A directory that is removed when this value is dropped.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays lies in a directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A consistent copy of a database that another process may have open, to be read:
/// [`Builder::read_copy`].
///
/// ```
/// use isles::{Database, Row};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// # let path = std::env::temp_dir().join(format!("isles-doc-read-copy-{}", std::process::id()));
/// let declare = || {
///     let mut builder = Database::at(&path);
///     let accounts = builder.table::<Account>("accounts");
///     (builder, accounts)
/// };
/// let (builder, accounts) = declare();
/// let database = builder.open()?; // perhaps in another process
/// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
///
/// let (builder, copied) = declare();
/// let copy = builder.read_copy(std::env::temp_dir())?;
/// database.transaction(|t| t.delete(accounts, &1))?;
/// assert_eq!(copy.read(|t| t.get(copied, &1))?, Some(Account { id: 1, balance: 5 }));
/// assert_eq!((copy.tables().len(), copy.source().pages), (1, None));
/// let by_name = copy.table::<Account>("accounts")?;
/// assert_eq!(copy.read(|t| t.scan(by_name, ..).count())?, 1);
/// # drop((database, copy));
/// # let _ = std::fs::remove_dir_all(&path);
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadCopy {
    // Closed before its directory is removed.
    database: Database,
    source: Backup,
    _scratch: Scratch,
}

impl Builder {
    /// Opens a copy of the directory for reading, while this or another process may have the
    /// directory open and change it. The copy has everything that was on disk when the call began,
    /// and perhaps later transactions, each as a whole. The directory is not changed, and its lock
    /// is not taken: the process that has it open notices nothing. If that process writes a
    /// segment of its log again meanwhile, or changes its tables, the call begins anew, up to 100
    /// times.
    ///
    /// The copy lies in a new directory in `scratch`, which has to have as much room as the
    /// database takes, and is removed when the [`ReadCopy`] is dropped.
    ///
    /// Errors: [`Error::Backup`] if the directory cannot be copied; as [`Self::open`].
    ///
    /// [`ReadCopy`] has an example.
    pub fn read_copy(mut self, scratch: impl AsRef<Path>) -> Result<ReadCopy> {
        let Some(source) = self.path.take() else {
            return Err(Error::Misuse(
                "a database in memory has no directory to copy: begin with `Database::at`",
            ));
        };
        // Relaxed: only the numbers matter.
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("isles-copy-{}-{number}", std::process::id());
        let copy = scratch.as_ref().join(name);
        let scratch = Scratch(copy.clone());
        let source = copy_directory(source, &copy)?;
        self.path = Some(copy);
        Ok(ReadCopy { database: self.open()?, source, _scratch: scratch })
    }
}

impl ReadCopy {
    /// Runs `body` over the copy. What `body` changes is undone.
    ///
    /// Errors: as [`Database::transaction`].
    ///
    /// [`ReadCopy`] has an example.
    pub fn read<T>(&self, mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut read = None;
        let ended = self.database.transaction(|t| {
            read = None;
            read = Some(body(t)?);
            Err::<(), Error>(Error::RollBack)
        });
        match (ended, read) {
            (Err(Error::RollBack), Some(value)) => Ok(value),
            (Err(error), _) => Err(error),
            (Ok(()), _) => Err(Error::RollBack),
        }
    }

    /// Returns the table of this name: see [`Database::table`].
    ///
    /// [`ReadCopy`] has an example.
    pub fn table<R: Row>(&self, name: &str) -> Result<Table<R>> {
        self.database.table(name)
    }

    /// Returns the descriptions of all tables.
    ///
    /// [`ReadCopy`] has an example.
    pub fn tables(&self) -> Vec<&TableDescription> {
        self.database.tables()
    }

    /// Returns what was copied: [`Backup::last_epoch`] is the position of the copy in the history
    /// of the database, for rows in memory.
    ///
    /// [`ReadCopy`] has an example.
    pub fn source(&self) -> Backup {
        self.source
    }
}
