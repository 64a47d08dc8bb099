//! LMDB through heed: a copy-on-write B-tree in a memory map with one writer at a time, so that
//! write transactions are serial; reads are of a snapshot, without a copy.
//!
//! Settings: LMDB's defaults: a commit flushes data with `fdatasync` and then writes the meta page
//! through a descriptor that is opened with `O_DSYNC` (`lmdb.h`, `MDB_NOSYNC` and `MDB_NOMETASYNC`
//! are not set). It has no group commit. Read transactions keep their reader slot in thread-local
//! storage ("often faster", heed's `read_txn_with_tls`). The map has room for all rows and their
//! former versions.

use std::path::Path;

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, ROWS_PER_LOAD, ROWS_PER_SCAN, Total, all_scanned, counter,
    digest, incremented, missing, value,
};

type Rows = Database<'static, U64<BigEndian>, Bytes>;

pub(super) struct Heed {
    /// `None` only while it is dropped.
    environment: Option<Env<WithTls>>,
    rows: Rows,
}

impl Heed {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Result<Self, Failure> {
        let path = directory.join("lmdb");
        std::fs::create_dir_all(&path)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(usize::try_from(setup.space_bytes().next_multiple_of(1 << 20))?);
        options.max_readers(u32::try_from(setup.clients_max)? + 8);
        if setup.memory.is_some() {
            // "It may be helpful for random read performance when the DB is larger than RAM"
            // (`lmdb.h`, `MDB_NORDAHEAD`). SAFETY: the flag neither omits locks nor flushes.
            unsafe { options.flags(EnvFlags::NO_READ_AHEAD) };
        }
        // SAFETY: the directory is the benchmark's own; nothing else maps or changes its files.
        let environment = unsafe { options.open(&path)? };
        let transaction = environment.write_txn()?;
        let made = environment.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        let rows = made.commit().ok_or("the table was not made")?;
        Ok(Heed { environment: Some(environment), rows })
    }

    fn environment(&self) -> Result<&Env<WithTls>, Failure> {
        self.environment.as_ref().ok_or_else(|| "the environment is closed".into())
    }
}

impl Drop for Heed {
    fn drop(&mut self) {
        if let Some(environment) = self.environment.take() {
            environment.prepare_for_closing().wait();
        }
    }
}

impl Engine for Heed {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        for first in (0..rows).step_by(ROWS_PER_LOAD as usize) {
            let mut transaction = self.environment()?.write_txn()?;
            for key in first..rows.min(first + ROWS_PER_LOAD) {
                self.rows.put(&mut transaction, &key, &value(key))?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(HeedClient { environment: self.environment()?, rows: self.rows }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let transaction = self.environment()?.read_txn()?;
        let mut total = Total::default();
        for row in self.rows.iter(&transaction)? {
            total.add(counter(row?.1)?);
        }
        Ok(total)
    }
}

struct HeedClient<'d> {
    environment: &'d Env<WithTls>,
    rows: Rows,
}

impl Client for HeedClient<'_> {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let mut transaction = self.environment.write_txn()?;
        for key in keys {
            let old = self.rows.get(&transaction, key)?.ok_or_else(|| missing(*key))?;
            let fresh = incremented(old)?;
            self.rows.put(&mut transaction, key, &fresh)?;
        }
        transaction.commit()?;
        Ok(1)
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        let transaction = self.environment.read_txn()?;
        let mut sum = 0_u64;
        for key in keys {
            let row = self.rows.get(&transaction, key)?.ok_or_else(|| missing(*key))?;
            sum = sum.wrapping_add(digest(row));
        }
        Ok((1, sum))
    }

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let mut transaction = self.environment.write_txn()?;
        for key in keys {
            self.rows.put(&mut transaction, key, &value(*key))?;
        }
        transaction.commit()?;
        Ok(1)
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        let transaction = self.environment.read_txn()?;
        let (mut rows, mut sum) = (0, 0_u64);
        for row in self.rows.range(&transaction, &(first..))?.take(ROWS_PER_SCAN) {
            rows += 1;
            sum = sum.wrapping_add(digest(row?.1));
        }
        all_scanned(rows, first)?;
        Ok((1, sum))
    }
}
