//! Flags of `tpcb`.

use serde::Serialize;

use super::terms::{BenchWorkload, RowCount, Split, other_instances};
use crate::arguments::{BRANCHES_MAX, BenchArguments, Flag, TextFlag};
use crate::bad_input::BadInput;
use crate::choices::RemoteRows;
use crate::errors::Failure;

/// Smallest TPC-B: a branch keeps one account.
const SCALE_MIN: f64 = 0.00001;
/// Largest TPC-B.
const SCALE_MAX: f64 = 1000.0;

/// Rows of one branch at scale 1: nearly all are its accounts.
const BRANCH_ROWS: f64 = 100_000.0;
/// Bytes of a row of them.
const ROW_BYTES: f64 = 100.0;

/// Flags of `tpcb`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tpcb {
    /// Branches, at most 65,535.
    pub branches: u32,
    /// Percent of transactions whose account is of another branch.
    #[serde(rename = "remote")]
    pub remote_percent: f64,
    /// The instances of these accounts.
    pub remote_rows: RemoteRows,
    /// Accounts of a branch relative to the standard.
    pub scale: f64,
}

impl BenchWorkload for Tpcb {
    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput> {
        let branches = arguments.tpcb.branches.value_or((cores as u64).min(BRANCHES_MAX))?;
        Ok(Tpcb {
            branches: u32::try_from(branches).expect("within BRANCHES_MAX"),
            remote_percent: arguments.tpcb.remote.value_or(15.0)?,
            remote_rows: arguments.row.remote_rows.value_or(RemoteRows::Any)?,
            scale: arguments.tpcc.scale.number(SCALE_MIN..=SCALE_MAX)?.unwrap_or(1.0),
        })
    }

    fn rows_loaded(&self, _: usize) -> RowCount {
        let branches = u64::from(self.branches);
        let rows = branches as f64 * BRANCH_ROWS * self.scale;
        RowCount { flag: "--branches", count: branches, rows, bytes: rows * ROW_BYTES }
    }

    fn describe(&self) -> String {
        let branches = if self.branches == 1 { "branch" } else { "branches" };
        let text = format!("{} {branches}, {} % remote", self.branches, self.remote_percent);
        if self.scale == 1.0 { text } else { format!("{text}, scale {}", self.scale) }
    }

    fn for_harness(&self, workers: usize, split: Split) -> Result<harness::Workload, Failure> {
        let branches = u16::try_from(self.branches)
            .map_err(|_| Failure::Failed("--branches: at most 65535".to_owned()))?;
        let workload = workloads::tpcb::Tpcb {
            remote_percent: self.remote_percent,
            other_instances: other_instances(self.remote_rows, workers, split),
            scale: self.scale,
            ..workloads::tpcb::Tpcb::new(branches)
        };
        workload.validate().map_err(Failure::Failed)?;
        Ok(harness::Workload::Tpcb(workload))
    }

    fn parts_of_other_instances(&self, _: usize) -> Option<(&'static str, usize)> {
        (self.remote_rows == RemoteRows::OtherInstance).then_some(("--branches", self.branches as usize))
    }

    fn scale(&self) -> Option<f64> {
        Some(self.scale)
    }

    fn grows(&self) -> bool {
        true
    }
}
