//! Flags of `memory`.

use serde::Serialize;

use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{BenchArguments, TABLE_ROWS_MAX, TextFlag};
use crate::bad_input::BadInput;
use crate::errors::Failure;
use crate::numbers::thousands;

/// Flags of `memory`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Rows of each worker.
    pub rows: u64,
}

impl BenchWorkload for Memory {
    const HAS_DATABASE: bool = false;
    const COUNTS: &'static str = "reads";

    fn resolve(arguments: &BenchArguments, _: usize) -> Result<Self, BadInput> {
        let rows = arguments.row.rows.whole(1..=TABLE_ROWS_MAX)?;
        Ok(Memory { rows: rows.unwrap_or(1_000_000) })
    }

    fn rows_loaded(&self, cores: usize) -> RowCount {
        let rows = self.rows as f64 * cores as f64;
        RowCount { flag: "--rows", count: self.rows, rows, bytes: rows * platform::LINE_BYTES as f64 }
    }

    fn describe(&self) -> String {
        format!("{} rows of 64 bytes a worker", thousands(self.rows))
    }

    fn for_harness(&self, _: usize, _: Split) -> Result<harness::Workload, Failure> {
        Ok(harness::Workload::Memory { rows: self.rows })
    }
}
