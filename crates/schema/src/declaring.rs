//! Traits by which a workload or program declares, fills and inspects its tables, independent of
//! executor and scheme.

use terms::Abort;

use crate::column_set::ConstantColumns;
use crate::constraints::Constraints;
use crate::key::Key;
use crate::row::Row;
use crate::table::{Index, Table};

/// Kind of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexKind {
    /// B+tree: point lookups and range scans.
    Ordered,
    /// Hash index: point lookups only, of keys up to 8 bytes; scans are refused.
    Hash(HashPlan),
}

/// Hash function of a hash index.
#[derive(Clone, Copy, Debug)]
pub enum HashPlan {
    /// A general hash function.
    Mixed,
    /// A perfect hash: the function maps each normalized key word to a distinct small number, dense
    /// from 0 to the expected rows of the partition. Keys beyond that are found more slowly.
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

/// Options of a new table.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Rows expected in all partitions together, which determines the size of hash indexes.
    pub rows: u64,
    /// `None`: one partition.
    pub partitioning: Option<Partitioning>,
    /// The kind of each index in [`Row::INDEXES`]; missing ones are ordered.
    pub kinds: Vec<IndexKind>,
    /// Never written after loading: may be replicated, and needs no concurrency control.
    pub read_only: bool,
    /// Columns that are never written after loading, and need no concurrency control. The set of
    /// rows of a table with constant columns does not change after loading.
    pub constant: ConstantColumns,
    /// Constraints; those of a description that has some stay.
    pub constraints: Constraints,
}

/// A catalog under construction.
pub trait Schema {
    /// Declares a table. Panics if the name is taken or the options contradict the row type: a bug
    /// of the caller.
    fn table<R: Row>(&mut self, name: &str, options: TableOptions) -> Table<R>;
}

/// Loads rows, in batches of its own choice.
pub trait Loader {
    /// Inserts a row.
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<(), Abort>;
}

/// Reads a database in which no transaction is running: for consistency checks.
pub trait Inspector {
    /// Visits all rows with keys from `low` to `high`, both included, in ascending order of an
    /// ordered index.
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, visit: &mut dyn FnMut(&R));
    /// Returns the row with this key.
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R>;
}
