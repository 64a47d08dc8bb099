//! SQLite through rusqlite, with its bundled SQLite: a B-tree with a write-ahead log and one writer
//! at a time; transactions are serializable, those that write begin with `BEGIN IMMEDIATE`.
//!
//! Settings: `journal_mode = WAL` with `synchronous = FULL`, which "syncs the WAL on every
//! transaction commit" (sqlite.org/wal.html, "Performance considerations"; with `NORMAL` a commit
//! may be lost). It has no group commit. There is a connection for each client, with statements
//! prepared once, and a cache and a memory map (`mmap_size`) that hold all rows. Writers wait for
//! each other on a mutex of the benchmark, because SQLite's busy handler sleeps from 1 to 100 ms;
//! the handler remains for other waits.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, ROWS_PER_SCAN, Total, all_scanned, digest, missing, payload,
};

const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
const KIB: u64 = 1024;

pub(super) struct Rusqlite {
    path: PathBuf,
    cache_bytes: u64,
    /// Bytes of the file that are mapped: 0 if the cache does not hold all rows.
    mapped_bytes: u64,
    writer: Mutex<()>,
}

impl Rusqlite {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Result<Self, Failure> {
        let path = directory.join("micro.sqlite");
        // Each connection has a cache of its own.
        let connections = setup.clients_max as u64 + 1;
        let cache_bytes = match setup.memory {
            Some(_) => setup.cache_before_files() / connections,
            None => setup.space_bytes(),
        };
        let mapped_bytes = if setup.memory.is_some() { 0 } else { setup.space_bytes() };
        let engine = Rusqlite { path, cache_bytes, mapped_bytes, writer: Mutex::new(()) };
        engine.connect()?.execute_batch(
            "CREATE TABLE IF NOT EXISTS micro (id INTEGER PRIMARY KEY, counter INTEGER NOT NULL, payload BLOB NOT NULL)",
        )?;
        Ok(engine)
    }

    fn connect(&self) -> Result<Connection, Failure> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("its journal is {mode}, and not a write-ahead log").into());
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        // A negative number is in KiB. The cache grows only as far as there are rows.
        connection.pragma_update(None, "cache_size", -i64::try_from(self.cache_bytes / KIB)?)?;
        let _: i64 =
            connection
                .query_row(&format!("PRAGMA mmap_size = {}", self.mapped_bytes), [], |row| row.get(0))?;
        Ok(connection)
    }
}

impl Engine for Rusqlite {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        let mut connection = self.connect()?;
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare("INSERT INTO micro VALUES (?1, 0, ?2)")?;
            for key in 0..rows {
                insert.execute(params![i64::try_from(key)?, payload(key)])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(RusqliteClient { connection: self.connect()?, writer: &self.writer }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let connection = self.connect()?;
        let (rows, counters): (i64, i64) =
            connection.query_row("SELECT count(*), coalesce(sum(counter), 0) FROM micro", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        Ok(Total { rows: rows.try_into()?, counters: counters.try_into()? })
    }
}

struct RusqliteClient<'d> {
    connection: Connection,
    writer: &'d Mutex<()>,
}

impl RusqliteClient<'_> {
    /// Runs `body` between `begin` and a commit.
    fn transact<T>(
        &self,
        begin: &str,
        body: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.connection.prepare_cached(begin)?.execute([])?;
        let value = body(&self.connection)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(value)
    }
}

impl Client for RusqliteClient<'_> {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.transact("BEGIN IMMEDIATE", |connection| {
            let mut update =
                connection.prepare_cached("UPDATE micro SET counter = counter + 1 WHERE id = ?1")?;
            for key in keys {
                if update.execute([i64::try_from(*key)?])? != 1 {
                    return Err(missing(*key));
                }
            }
            Ok(1)
        })
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        self.transact("BEGIN", |connection| {
            let mut select = connection.prepare_cached("SELECT counter, payload FROM micro WHERE id = ?1")?;
            let mut sum = 0_u64;
            for key in keys {
                let row = select
                    .query_row([i64::try_from(*key)?], |row| {
                        let counter: i64 = row.get(0)?;
                        Ok(digest(row.get_ref(1)?.as_blob()?) ^ counter.cast_unsigned())
                    })
                    .optional()?;
                sum = sum.wrapping_add(row.ok_or_else(|| missing(*key))?);
            }
            Ok((1, sum))
        })
    }

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.transact("BEGIN IMMEDIATE", |connection| {
            let mut insert = connection.prepare_cached("INSERT INTO micro VALUES (?1, 0, ?2)")?;
            for key in keys {
                insert.execute(params![i64::try_from(*key)?, payload(*key)])?;
            }
            Ok(1)
        })
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        self.transact("BEGIN", |connection| {
            let mut select = connection
                .prepare_cached("SELECT counter, payload FROM micro WHERE id >= ?1 ORDER BY id LIMIT ?2")?;
            let mut rows = select.query(params![i64::try_from(first)?, i64::try_from(ROWS_PER_SCAN)?])?;
            let (mut found, mut sum) = (0, 0_u64);
            while let Some(row) = rows.next()? {
                let counter: i64 = row.get(0)?;
                found += 1;
                sum = sum.wrapping_add(digest(row.get_ref(1)?.as_blob()?) ^ counter.cast_unsigned());
            }
            all_scanned(found, first)?;
            Ok((1, sum))
        })
    }
}
