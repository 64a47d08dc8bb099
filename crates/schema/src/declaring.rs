//! How a workload or program declares, fills and inspects its tables, whatever executor and scheme
//! run them.

use terms::Abort;

use crate::column_set::ConstantColumns;
use crate::key::Key;
use crate::row::Row;
use crate::table::{Index, Table};

/// How an index finds its keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexKind {
    /// B+tree: point lookups and range scans.
    Ordered,
    /// Hash index: point lookups only, of keys up to 8 bytes; scans are refused.
    Hash(HashPlan),
}

/// How a hash index spreads its keys.
#[derive(Clone, Copy, Debug)]
pub enum HashPlan {
    /// By a hash function.
    Mixed,
    /// By a perfect hash: the function maps each normalized key word to a different small number,
    /// dense from 0 to the expected rows of the partition. Keys beyond are still found, more
    /// slowly.
    Dense(fn(u64) -> u64),
}

impl PartialEq for HashPlan {
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (HashPlan::Mixed, HashPlan::Mixed) | (HashPlan::Dense(_), HashPlan::Dense(_)))
    }
}

/// Division of all indexes of a table by the leading 16-bit column of their keys (a warehouse, a
/// branch, a site): one root per partition, so that partitions share no index line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// Value of the leading column in partition 0.
    pub first: u16,
    /// Number of partitions; keys outside belong to the last partition.
    pub count: u16,
}

/// Options with which a table is created.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Rows expected over all partitions: sizes hash indexes.
    pub rows: u64,
    /// `None`: one partition.
    pub partitioning: Option<Partitioning>,
    /// The kind of each index in [`Row::INDEXES`]; missing ones are ordered.
    pub kinds: Vec<IndexKind>,
    /// Never written after loading: may be replicated, and needs no concurrency control.
    pub read_only: bool,
    /// Columns that are never written after loading, and need no concurrency control. A table that
    /// has some has always the same rows after loading.
    pub constant: ConstantColumns,
}

/// A catalog under construction.
pub trait Schema {
    /// Declares a table. Panics if the name is taken or the options contradict the row type: a bug
    /// of the caller.
    fn table<R: Row>(&mut self, name: &str, options: TableOptions) -> Table<R>;
}

/// Takes rows at loading time, in batches of its own choice.
pub trait Loader {
    /// Inserts a row.
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<(), Abort>;
}

/// Reads a database in which no transaction is running: for consistency checks.
pub trait Inspector {
    /// Visits all rows with keys from `low` to `high`, both included, in ascending order of an
    /// ordered index.
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, visit: &mut dyn FnMut(&R));
    /// One row.
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R>;
}
