//! Flags of `ycsb`.

use serde::Serialize;
use workloads::ycsb::{YcsbSpec, YcsbWorkload};

use super::limits::{ROWS_MAX, grouping, partitions, rows_fit};
use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{BenchArguments, Flag, TextFlag};
use crate::bad_input::BadInput;
use crate::errors::Failure;
use crate::numbers::thousands;
use harness::{Choice, serialize_name};

/// Bytes of a YCSB record.
const RECORD_BYTES: u64 = 100;

/// Flags of `ycsb`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ycsb {
    /// Core workload.
    #[serde(rename = "ycsb_workload", serialize_with = "serialize_name")]
    pub workload: YcsbWorkload,
    /// Records loaded.
    pub records: u64,
    /// Requests per transaction.
    pub rows: u64,
    /// Skew of the choice of records; 0 is uniform.
    pub zipf: f64,
}

impl BenchWorkload for Ycsb {
    fn resolve(arguments: &BenchArguments, _: usize) -> Result<Self, BadInput> {
        let flags = &arguments.row;
        let ycsb = Ycsb {
            workload: flags.ycsb_workload.value_or(YcsbWorkload::A)?,
            records: flags.records.value_or(1_000_000)?,
            rows: flags.rows.whole(1..=ROWS_MAX)?.unwrap_or(10),
            zipf: flags.zipf.value_or(0.99)?,
        };
        rows_fit(ycsb.rows, "--records", ycsb.records)?;
        Ok(ycsb)
    }

    fn rows_loaded(&self, _: usize) -> RowCount {
        let rows = self.records as f64;
        RowCount { flag: "--records", count: self.records, rows, bytes: rows * RECORD_BYTES as f64 }
    }

    fn describe(&self) -> String {
        let (workload, records) = (self.workload.name(), thousands(self.records));
        format!("{workload}, {} rows a transaction of {records} records, zipf {}", self.rows, self.zipf)
    }

    fn undivided(&self) -> Option<(&'static str, &'static str)> {
        let why = "workloads d and e touch records that follow from what they read";
        self.workload.inserts().then_some(("--workload", why))
    }

    /// One partition a worker.
    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let ycsb = workloads::ycsb::Ycsb::new(YcsbSpec {
            workload: self.workload,
            records: self.records,
            requests: u32::try_from(self.rows).unwrap_or(u32::MAX),
            zipf: self.zipf,
            partitions: partitions(workers)?,
            grouping: grouping(split),
        });
        ycsb.map(harness::Workload::Ycsb).map_err(Failure::of)
    }
}
