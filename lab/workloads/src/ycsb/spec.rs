//! Parameters of YCSB.

use crate::batch::Grouping;

/// The core workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum YcsbWorkload {
    /// Update heavy.
    #[default]
    A,
    /// Read mostly.
    B,
    /// Read only.
    C,
    /// Read latest.
    D,
    /// Short ranges.
    E,
    /// Read-modify-write.
    F,
}

impl YcsbWorkload {
    /// True if transactions insert records.
    pub fn inserts(self) -> bool {
        matches!(self, YcsbWorkload::D | YcsbWorkload::E)
    }
}

/// Parameters of YCSB.
#[derive(Clone, Debug, PartialEq)]
pub struct YcsbSpec {
    /// One of the core workloads.
    pub workload: YcsbWorkload,
    /// Records loaded.
    pub records: u64,
    /// Requests of a transaction.
    pub requests: u32,
    /// Exponent of the Zipfian choice; 0 is uniform.
    pub zipf: f64,
    /// Number of partitions, one a worker.
    pub partitions: u16,
    /// The grouping of requests into actions.
    pub grouping: Grouping,
}

impl Default for YcsbSpec {
    /// The command line's defaults, for one worker.
    fn default() -> Self {
        YcsbSpec {
            workload: YcsbWorkload::A,
            records: 1_000_000,
            requests: 10,
            zipf: 0.99,
            partitions: 1,
            grouping: Grouping::ByPartition,
        }
    }
}

/// A problem of a [`YcsbSpec`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum YcsbError {
    /// No records, no requests, no partitions, or partitions without records.
    #[error("YCSB has at least one record a partition, and one request a transaction")]
    Empty,
    /// A record's number has 48 bits, with room for insertions.
    #[error("{0} records are too many: at most 2^47")]
    TooManyRecords(u64),
    /// The exponent is out of range.
    #[error("the exponent {0} is not a number from 0 to 10")]
    Exponent(f64),
}
