//! Flags of `micro`.

use serde::Serialize;
use workloads::micro::{MicroSpec, Operation, RowIndex, Skew};

use super::limits::{PARTS_EACH, ROWS_MAX, grouping, partitions, rows_fit};
use super::terms::{BenchWorkload, RowCount, Split, other_instances};
use crate::arguments::{BenchArguments, Flag, TABLE_ROWS_MAX, TextFlag};
use crate::bad_input::BadInput;
use crate::choices::RemoteRows;
use crate::config::asked::{Asked, Change};
use crate::errors::Failure;
use crate::hot::Hot;
use crate::numbers::thousands;
use harness::{Choice, Partitioning, serialize_name};

/// Flags of `micro`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Micro {
    /// The operation of a transaction on its rows.
    #[serde(serialize_with = "serialize_name")]
    pub op: Operation,
    /// Rows per transaction, all different.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Rows of each site; there is one site per worker.
    pub rows_per_site: u64,
    /// Share of transactions over several sites.
    pub multisite: f64,
    /// The instances of the other rows of a multisite transaction.
    pub remote_rows: RemoteRows,
    /// Skew over all rows; `None` chooses uniformly, local transactions from the worker's own site.
    pub zipf: Option<f64>,
    /// Hot spot, if any.
    pub hot: Option<Hot>,
}

impl BenchWorkload for Micro {
    fn resolve(arguments: &BenchArguments, _: usize) -> Result<Self, BadInput> {
        let flags = &arguments.row;
        let rows = flags.rows.whole(1..=ROWS_MAX)?.unwrap_or(10);
        let row_bytes = flags.row_bytes.value_or(250)?;
        let rows_per_site = flags.rows_per_site.whole(1..=TABLE_ROWS_MAX)?.unwrap_or(10_000);
        let micro = Micro {
            op: flags.op.value_or(Operation::Read)?,
            rows,
            row_bytes,
            rows_per_site,
            multisite: flags.multisite.value_or(0.0)?,
            remote_rows: flags.remote_rows.value_or(RemoteRows::Any)?,
            zipf: flags.zipf.value()?,
            hot: flags.hot.value()?,
        };
        if micro.hot.is_some() && micro.zipf.is_some() {
            return Err(BadInput::new(
                "--hot with --zipf",
                "each gives the skew of the choice of rows",
                "one of the two",
            ));
        }
        if micro.remote_rows == RemoteRows::OtherInstance && (micro.hot.is_some() || micro.zipf.is_some()) {
            let problem = "the skew chooses among all rows";
            return Err(BadInput::value("--remote-rows", "other-instance", problem, "no --zipf, no --hot"));
        }
        rows_fit(rows, "--rows-per-site", micro.rows_per_site)?;
        Ok(micro)
    }

    fn rows_loaded(&self, cores: usize) -> RowCount {
        let rows = self.rows_per_site as f64 * cores as f64;
        let bytes = rows * self.row_bytes as f64;
        RowCount { flag: "--rows-per-site", count: self.rows_per_site, rows, bytes }
    }

    fn describe(&self) -> String {
        let (op, rows) = (self.op.name(), thousands(self.rows_per_site));
        let mut text = format!("{op} {} of {rows} rows a site", self.rows);
        if self.multisite > 0.0 {
            text += &format!(", multisite {}", self.multisite);
        }
        if let Some(zipf) = self.zipf {
            text += &format!(", zipf {zipf}");
        }
        if let Some(hot) = self.hot {
            text += &format!(", hot {}:{}", hot.requests, hot.data);
        }
        text
    }

    fn changed(&self, asked: &Asked<'_>) -> Result<Self, BadInput> {
        match asked.change {
            Change::Hot(_) if self.remote_rows == RemoteRows::OtherInstance => {
                Err(asked.refused("multisite=F"))
            }
            Change::Hot(hot) => Ok(Micro { hot: Some(hot), zipf: None, ..self.clone() }),
            Change::Multisite(multisite) => Ok(Micro { multisite, ..self.clone() }),
            Change::Mix(_) => Err(asked.refused("hot=F:F, multisite=F")),
        }
    }

    fn parts_of_other_instances(&self, workers: usize) -> Option<(&'static str, usize)> {
        (self.remote_rows == RemoteRows::OtherInstance).then_some(("--cores", workers))
    }

    /// The parts of a site follow each other.
    fn partitioning(&self) -> Partitioning {
        Partitioning::Blocks
    }

    /// One site a worker; where workers own them, of several parts that can be moved, if they can
    /// have equally many rows.
    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let skew = match (self.zipf, self.hot) {
            (Some(exponent), _) => Skew::Zipf(exponent),
            (None, Some(hot)) => Skew::Hot { requests: hot.requests, data: hot.data },
            (None, None) => Skew::None,
        };
        let are_equal = |parts: &u64| self.rows_per_site.is_multiple_of(*parts);
        let parts = match split {
            Split::Workers => (1..=PARTS_EACH).rev().find(are_equal).unwrap_or(1),
            Split::Whole | Split::Instances(_) => 1,
        };
        // Fails if there are too many.
        partitions(workers * parts as usize)?;
        let micro = workloads::micro::Micro::new(MicroSpec {
            operation: self.op,
            rows: u32::try_from(self.rows).unwrap_or(u32::MAX),
            row_bytes: usize::try_from(self.row_bytes).unwrap_or(usize::MAX),
            sites: partitions(workers)?,
            rows_per_site: self.rows_per_site,
            parts_per_site: parts as u16,
            multisite: self.multisite,
            other_instances: other_instances(self.remote_rows, workers, split),
            skew,
            index: RowIndex::Hash,
            grouping: grouping(split),
        });
        micro.map(harness::Workload::Micro).map_err(Failure::of)
    }
}
