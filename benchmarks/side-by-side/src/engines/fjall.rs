//! fjall 3: a log-structured store of keys and values, through its transactional database with
//! optimistic concurrency control, "for multi-writer, serializable transactions" (its README,
//! "Transactional modes").
//!
//! Settings: each commit flushes the journal with `fdatasync`
//! (`WriteTransaction::durability(PersistMode::SyncData)`), or, as a group, commits leave the
//! journal to the operating system and the benchmark calls `Database::persist` with the same mode
//! once for many commits, before any of them returns. The cache holds all rows ("or more if the
//! data set fully fits into memory", `DatabaseBuilder::cache_size`). Transactions that conflict are
//! tried again immediately.

use std::path::Path;

use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode, Readable};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, ROWS_PER_LOAD, ROWS_PER_SCAN, Total, all_scanned, counter,
    digest, incremented, missing, value,
};
use crate::group_flush::{GroupFlush, Member};

/// The moment of the journal's flush.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    EachCommit,
    Group,
}

pub(super) struct Fjall {
    database: OptimisticTxDatabase,
    rows: OptimisticTxKeyspace,
    flush: Flush,
    group: GroupFlush,
}

impl Fjall {
    pub(super) fn open(directory: &Path, setup: &Setup, flush: Flush) -> Result<Self, Failure> {
        let builder = OptimisticTxDatabase::builder(directory.join("fjall"));
        let database = builder.cache_size(setup.cache_before_files()).open()?;
        let rows = database.keyspace("micro", || {
            let options = KeyspaceCreateOptions::default();
            match setup.buffer_bytes() {
                Some(bytes) => options.max_memtable_size(bytes),
                None => options,
            }
        })?;
        Ok(Fjall { database, rows, flush, group: GroupFlush::default() })
    }

    /// How a commit persists the journal.
    fn mode(&self) -> PersistMode {
        match self.flush {
            Flush::EachCommit => PersistMode::SyncData,
            Flush::Group => PersistMode::Buffer,
        }
    }

    /// One attempt; returns false if it conflicted.
    fn try_insert(&self, keys: &Keys) -> Result<bool, Failure> {
        let mut transaction = self.database.write_tx()?.durability(Some(self.mode()));
        for key in keys {
            transaction.insert(&self.rows, key.to_be_bytes(), value(*key));
        }
        Ok(transaction.commit()?.is_ok())
    }

    /// One attempt; returns false if it conflicted.
    fn try_update(&self, keys: &Keys) -> Result<bool, Failure> {
        let mut transaction = self.database.write_tx()?.durability(Some(self.mode()));
        for key in keys {
            let bytes = key.to_be_bytes();
            let old = transaction.get(&self.rows, bytes)?.ok_or_else(|| missing(*key))?;
            transaction.insert(&self.rows, bytes, incremented(&old)?);
        }
        Ok(transaction.commit()?.is_ok())
    }
}

impl Engine for Fjall {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        for first in (0..rows).step_by(ROWS_PER_LOAD as usize) {
            let mut transaction = self.database.write_tx()?;
            for key in first..rows.min(first + ROWS_PER_LOAD) {
                transaction.insert(&self.rows, key.to_be_bytes(), value(key));
            }
            transaction.commit()??;
        }
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(FjallClient { engine: self, member: self.group.join() }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let mut total = Total::default();
        for row in self.database.read_tx().iter(&self.rows) {
            total.add(counter(&row.value()?)?);
        }
        Ok(total)
    }
}

struct FjallClient<'d> {
    engine: &'d Fjall,
    member: Member<'d>,
}

impl Client for FjallClient<'_> {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let mut attempts = 1;
        while !self.engine.try_update(keys)? {
            attempts += 1;
        }
        if self.engine.flush == Flush::Group {
            self.member.wait(|| Ok(self.engine.database.persist(PersistMode::SyncData)?))?;
        }
        Ok(attempts)
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        let snapshot = self.engine.database.read_tx();
        let mut sum = 0_u64;
        for key in keys {
            let row = snapshot.get(&self.engine.rows, key.to_be_bytes())?.ok_or_else(|| missing(*key))?;
            sum = sum.wrapping_add(digest(&row));
        }
        Ok((1, sum))
    }

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let mut attempts = 1;
        while !self.engine.try_insert(keys)? {
            attempts += 1;
        }
        if self.engine.flush == Flush::Group {
            self.member.wait(|| Ok(self.engine.database.persist(PersistMode::SyncData)?))?;
        }
        Ok(attempts)
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        let snapshot = self.engine.database.read_tx();
        let (mut rows, mut sum) = (0, 0_u64);
        for row in snapshot.range(&self.engine.rows, first.to_be_bytes()..).take(ROWS_PER_SCAN) {
            rows += 1;
            sum = sum.wrapping_add(digest(&row.value()?));
        }
        all_scanned(rows, first)?;
        Ok((1, sum))
    }
}
