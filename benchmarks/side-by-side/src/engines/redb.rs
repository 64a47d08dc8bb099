//! redb 4: a copy-on-write B-tree with one writer at a time, so that write transactions are serial;
//! reads are of a snapshot.
//!
//! Settings: each commit is `Durability::Immediate`, the default: "guaranteed to be persistent as
//! soon as `WriteTransaction::commit` returns". As a group, commits are `Durability::None`, "not
//! persisted to disk unless followed by a commit with `Durability::Immediate`", and the benchmark
//! makes an empty commit of that kind once for many, before any of them returns. Commits have one
//! phase (the default); the cache holds all rows.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, ROWS_PER_SCAN, Total, VALUE_BYTES, all_scanned, counter,
    digest, incremented, missing, value,
};
use crate::group_flush::{GroupFlush, Member};

const ROWS: TableDefinition<u64, &[u8; VALUE_BYTES]> = TableDefinition::new("micro");

/// The durability of commits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    EachCommit,
    Group,
}

pub(super) struct Redb {
    database: Database,
    flush: Flush,
    group: GroupFlush,
}

impl Redb {
    pub(super) fn open(directory: &Path, setup: &Setup, flush: Flush) -> Result<Self, Failure> {
        let mut builder = Database::builder();
        builder.set_cache_size(usize::try_from(setup.cache_before_files())?);
        let database = builder.create(directory.join("micro.redb"))?;
        Ok(Redb { database, flush, group: GroupFlush::default() })
    }

    fn begin_write(&self) -> Result<WriteTransaction, Failure> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(match self.flush {
            Flush::EachCommit => Durability::Immediate,
            Flush::Group => Durability::None,
        })?;
        Ok(transaction)
    }

    fn flush(&self) -> Result<(), Failure> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        Ok(transaction.commit()?)
    }
}

impl Engine for Redb {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(ROWS)?;
            for key in 0..rows {
                table.insert(key, &value(key))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(RedbClient { engine: self, member: self.group.join() }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let mut total = Total::default();
        for row in self.database.begin_read()?.open_table(ROWS)?.iter()? {
            total.add(counter(row?.1.value())?);
        }
        Ok(total)
    }
}

struct RedbClient<'d> {
    engine: &'d Redb,
    member: Member<'d>,
}

impl RedbClient<'_> {
    /// Commits, and returns the number of attempts when the commit is durable.
    fn commit(&mut self, transaction: WriteTransaction) -> Result<u32, Failure> {
        transaction.commit()?;
        if self.engine.flush == Flush::Group {
            self.member.wait(|| self.engine.flush())?;
        }
        Ok(1)
    }
}

impl Client for RedbClient<'_> {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let transaction = self.engine.begin_write()?;
        {
            let mut table = transaction.open_table(ROWS)?;
            for key in keys {
                let mut row = table.get_mut(key)?.ok_or_else(|| missing(*key))?;
                let fresh = incremented(row.value())?;
                row.insert(&fresh)?;
            }
        }
        self.commit(transaction)
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        let table = self.engine.database.begin_read()?.open_table(ROWS)?;
        let mut sum = 0_u64;
        for key in keys {
            let row = table.get(key)?.ok_or_else(|| missing(*key))?;
            sum = sum.wrapping_add(digest(row.value()));
        }
        Ok((1, sum))
    }

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let transaction = self.engine.begin_write()?;
        {
            let mut table = transaction.open_table(ROWS)?;
            for key in keys {
                table.insert(key, &value(*key))?;
            }
        }
        self.commit(transaction)
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        let table = self.engine.database.begin_read()?.open_table(ROWS)?;
        let (mut rows, mut sum) = (0, 0_u64);
        for row in table.range(first..)?.take(ROWS_PER_SCAN) {
            rows += 1;
            sum = sum.wrapping_add(digest(row?.1.value()));
        }
        all_scanned(rows, first)?;
        Ok((1, sum))
    }
}
