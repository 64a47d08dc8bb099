//! Flags of `dependent`.

use serde::Serialize;

use super::limits::partitions;
use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{BenchArguments, Flag, TextFlag};
use crate::bad_input::BadInput;
use crate::config::asked::{Asked, Change};
use crate::errors::Failure;
use crate::numbers::thousands;

/// Most rows of a site.
const ROWS_MAX: u64 = 1 << 31;
/// Bytes of a row.
const ROW_BYTES: f64 = 80.0;

/// Flags of `dependent`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dependent {
    /// Rows of each site in each table; there is one site per worker.
    pub rows_per_site: u64,
    /// Share of transactions that may be of any site.
    pub multisite: f64,
}

impl BenchWorkload for Dependent {
    fn resolve(arguments: &BenchArguments, _: usize) -> Result<Self, BadInput> {
        let rows = arguments.row.rows_per_site.whole(1..=ROWS_MAX)?;
        let multisite = arguments.row.multisite.value_or(0.0)?;
        Ok(Dependent { rows_per_site: rows.unwrap_or(10_000), multisite })
    }

    fn rows_loaded(&self, cores: usize) -> RowCount {
        let rows = 2.0 * self.rows_per_site as f64 * cores as f64;
        RowCount { flag: "--rows-per-site", count: self.rows_per_site, rows, bytes: rows * ROW_BYTES }
    }

    fn describe(&self) -> String {
        let text = format!("{} rows a site in each of two tables", thousands(self.rows_per_site));
        if self.multisite == 0.0 { text } else { format!("{text}, multisite {}", self.multisite) }
    }

    /// One site a worker.
    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let rows_per_site = u32::try_from(self.rows_per_site)
            .map_err(|_| Failure::Failed(format!("--rows-per-site: at most {ROWS_MAX}")))?;
        let (sites, multisite) = (partitions(workers)?, self.multisite);
        let workload = workloads::dependent::Dependent {
            sites,
            rows_per_site,
            multisite,
            divided: matches!(split, Split::Instances(_)),
        };
        workload.validate().map_err(Failure::Failed)?;
        Ok(harness::Workload::Dependent(workload))
    }

    fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
        match asked.change {
            Change::Multisite(multisite) => Ok(Dependent { multisite, ..self.clone() }),
            Change::Mix(_) | Change::Hot(_) => Err(asked.refused("multisite=F")),
        }
    }
}
