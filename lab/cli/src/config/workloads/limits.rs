//! Limits that the workloads over one table share.

use workloads::batch::Grouping;

use super::terms::Split;
use crate::bad_input::BadInput;
use crate::errors::Failure;

/// Most rows of one transaction.
pub(super) const ROWS_MAX: u64 = 1_000;

/// How requests become actions: where instances or workers share the rows, an action stays in one
/// part.
pub(super) fn grouping(split: Split) -> Grouping {
    if split == Split::Whole { Grouping::Together } else { Grouping::ByPartition }
}

/// A transaction cannot choose more rows than there are.
pub(super) fn rows_fit(rows: u64, table_flag: &str, table_rows: u64) -> Result<(), BadInput> {
    if rows <= table_rows {
        return Ok(());
    }
    let problem = format!("more rows a transaction than {table_flag} {table_rows}");
    Err(BadInput::value("--rows", &rows.to_string(), problem, format!("1 to {table_rows}")))
}

/// Parts of a worker where workers own them: as many as a partition has sub-partitions.
pub(super) const PARTS_EACH: u64 = repartitioning::DIVISIONS;

/// The number of partitions, one a worker.
pub(super) fn partitions(workers: usize) -> Result<u16, Failure> {
    u16::try_from(workers).map_err(|_| Failure::Failed("--cores: at most 65535".to_owned()))
}
