//! The trait of the workloads of `isles bench`.

use harness::{Partitioning, Peers};
use workloads::equal_instances::EqualInstances;

use crate::arguments::BenchArguments;
use crate::bad_input::BadInput;
use crate::choices::RemoteRows;
use crate::config::asked::Asked;
use crate::errors::Failure;

/// Bytes of a row's key, and of what says where it lies in its page.
const ENTRY_BYTES: f64 = 16.0;
/// Bytes of pages for a byte of rows with their entries, at most: leaves that several workers load
/// are half full, and columns take whole words.
pub const PAGE_BYTES_PER_BYTE: f64 = 2.5;

/// The rows that are loaded.
pub struct RowCount {
    /// The flag that decides how many there are.
    pub flag: &'static str,
    /// Its value.
    pub count: u64,
    /// Rows, roughly.
    pub rows: f64,
    /// Bytes of the bare rows.
    pub bytes: f64,
}

impl RowCount {
    /// Bytes of the pages that they are loaded to, at most.
    pub fn page_bytes(&self) -> f64 {
        PAGE_BYTES_PER_BYTE * (self.bytes + ENTRY_BYTES * self.rows)
    }
}

/// Among whom the data are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// No division: each worker has all of them.
    Whole,
    /// Workers of one instance, who own partitions.
    Workers,
    /// This many instances.
    Instances(usize),
}

/// The instances, of equal size, if remote rows are in others than the transaction's.
pub fn other_instances(rows: RemoteRows, workers: usize, split: Split) -> Option<EqualInstances> {
    match (rows, split) {
        (RemoteRows::OtherInstance, Split::Instances(instances)) => {
            Some(EqualInstances { workers: workers as u64, size: (workers / instances) as u64 })
        }
        _ => None,
    }
}

/// A workload with its flags, resolved.
pub trait BenchWorkload: Sized {
    /// True if transactions run in a database.
    const HAS_DATABASE: bool = true;
    /// The name of what the workload counts.
    const COUNTS: &'static str = "commits";

    /// Resolves the flags with `cores` workers.
    ///
    /// # Errors
    /// The first fault.
    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput>;

    /// The rows that `cores` workers load.
    fn rows_loaded(&self, cores: usize) -> RowCount;

    /// The flags in words.
    fn describe(&self) -> String;

    /// The workload of the driver for this many workers, whose data are split so.
    ///
    /// # Errors
    /// The flags do not fit the engine.
    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure>;

    /// The workload after a change while it runs.
    ///
    /// # Errors
    /// It does not change in this way.
    fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
        Err(asked.refused("no --at"))
    }

    /// Bytes of a copy of the tables that are never written, roughly.
    fn read_only_bytes(&self) -> f64 {
        0.0
    }

    /// True if tables grow while transactions run.
    fn grows(&self) -> bool {
        false
    }

    /// The flag, and why transactions cannot run over several instances, if they cannot.
    fn undivided(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// How large the data are beside those of the workload's specification, if that can be chosen.
    fn scale(&self) -> Option<f64> {
        None
    }

    /// Where two workers run as peers, if they do.
    fn peers(&self) -> Option<Peers> {
        None
    }

    /// The flag and the number of parts of the data, where remote rows are all in other instances.
    fn parts_of_other_instances(&self, _workers: usize) -> Option<(&'static str, usize)> {
        None
    }

    /// How parts of the data are dealt to workers.
    fn partitioning(&self) -> Partitioning {
        Partitioning::RoundRobin
    }
}
