//! RocksDB: a log-structured store of keys and values, through its `OptimisticTransactionDB`. A
//! transaction that changes rows reads them with `GetForUpdate`, so that its commit fails if any
//! row has changed ("Transactions", wiki of RocksDB); it is tried again immediately. Read-only
//! transactions read a snapshot.
//!
//! Settings: `WriteOptions::sync`, with which waiting writers share flushes of the log; a block
//! cache of the configured size, with a Bloom filter of 10 bits a key; no compression, because
//! payloads do not compress. Compiled with the crate's feature `rocksdb`: its C++ takes ten
//! minutes, and needs libclang.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, Direction, ErrorKind, IteratorMode, OptimisticTransactionDB,
    OptimisticTransactionOptions, Options, WriteOptions,
};

use super::setup::Setup;
use crate::engine::{
    Client, Engine, Failure, Keys, Operation, ROWS_PER_LOAD, ROWS_PER_SCAN, Total, all_scanned, counter,
    digest, incremented, missing, value,
};

const BLOOM_BITS_PER_KEY: f64 = 10.0;

pub(super) struct Rocksdb {
    database: OptimisticTransactionDB,
}

impl Rocksdb {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Result<Self, Failure> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(usize::try_from(setup.cache_before_files())?));
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&blocks);
        if let Some(bytes) = setup.buffer_bytes() {
            options.set_write_buffer_size(usize::try_from(bytes)?);
        }
        Ok(Rocksdb { database: OptimisticTransactionDB::open(&options, directory.join("rocksdb"))? })
    }

    /// One attempt; returns false if it conflicted.
    fn attempt(
        &self,
        keys: &Keys,
        fresh: impl Fn(Option<Vec<u8>>, u64) -> Result<[u8; crate::engine::VALUE_BYTES], Failure>,
        reads: bool,
    ) -> Result<bool, Failure> {
        let mut write = WriteOptions::default();
        write.set_sync(true);
        let transaction = self.database.transaction_opt(&write, &OptimisticTransactionOptions::default());
        for key in keys {
            let bytes = key.to_be_bytes();
            let old = if reads { transaction.get_for_update(bytes, true)? } else { None };
            transaction.put(bytes, fresh(old, *key)?)?;
        }
        match transaction.commit() {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Engine for Rocksdb {
    fn load(&self, rows: u64) -> Result<(), Failure> {
        for first in (0..rows).step_by(ROWS_PER_LOAD as usize) {
            let transaction = self.database.transaction();
            for key in first..rows.min(first + ROWS_PER_LOAD) {
                transaction.put(key.to_be_bytes(), value(key))?;
            }
            transaction.commit()?;
        }
        Ok(self.database.flush_wal(true)?)
    }

    fn client(&self, _: Operation) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(RocksdbClient { engine: self }))
    }

    fn total(&self) -> Result<Total, Failure> {
        let mut total = Total::default();
        for row in self.database.iterator(IteratorMode::Start) {
            total.add(counter(&row?.1)?);
        }
        Ok(total)
    }
}

struct RocksdbClient<'d> {
    engine: &'d Rocksdb,
}

impl Client for RocksdbClient<'_> {
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let fresh = |old: Option<Vec<u8>>, key| incremented(&old.ok_or_else(|| missing(key))?);
        let mut attempts = 1;
        while !self.engine.attempt(keys, fresh, true)? {
            attempts += 1;
        }
        Ok(attempts)
    }

    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure> {
        let snapshot = self.engine.database.snapshot();
        let mut sum = 0_u64;
        for key in keys {
            let row = snapshot.get_pinned(key.to_be_bytes())?.ok_or_else(|| missing(*key))?;
            sum = sum.wrapping_add(digest(&row));
        }
        Ok((1, sum))
    }

    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure> {
        let mut attempts = 1;
        while !self.engine.attempt(keys, |_, key| Ok(value(key)), false)? {
            attempts += 1;
        }
        Ok(attempts)
    }

    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure> {
        let snapshot = self.engine.database.snapshot();
        let (mut rows, mut sum) = (0, 0_u64);
        let from = first.to_be_bytes();
        for row in snapshot.iterator(IteratorMode::From(&from, Direction::Forward)).take(ROWS_PER_SCAN) {
            rows += 1;
            sum = sum.wrapping_add(digest(&row?.1));
        }
        all_scanned(rows, first)?;
        Ok((1, sum))
    }
}
