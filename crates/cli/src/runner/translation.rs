//! Workloads as the configuration describes them.

use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation, RowIndex, Skew};
use workloads::tpcc::{Tpcc, UnknownName};
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

use crate::choices::{self, Switch};
use crate::config;
use crate::errors::Failure;

/// Names of the choices agree on both sides.
fn by_name(error: UnknownName) -> Failure {
    Failure::of(error)
}

fn partitions(workers: usize) -> Result<u16, Failure> {
    u16::try_from(workers).map_err(|_| Failure::Failed("--cores: at most 65535".to_owned()))
}

/// TPC-C.
pub(super) fn tpcc(options: &config::Tpcc) -> Result<Tpcc, Failure> {
    let warehouses = u16::try_from(options.warehouses)
        .map_err(|_| Failure::Failed("--warehouses: at most 65535".to_owned()))?;
    let workload = Tpcc {
        mix: options.mix.name().parse().map_err(by_name)?,
        schema: options.schema.name().parse().map_err(by_name)?,
        scale: options.scale,
        remote_payment_percent: options.remote_payment_percent,
        remote_items_percent: options.remote_items_percent,
        inserts: options.inserts == Switch::On,
        ..Tpcc::new(warehouses)
    };
    workload.validate().map_err(Failure::Failed)?;
    Ok(workload)
}

/// The microbenchmark, with one site a worker.
pub(super) fn micro(options: &config::Micro, workers: usize) -> Result<Micro, Failure> {
    let skew = match (options.zipf, options.hot) {
        (Some(exponent), _) => Skew::Zipf(exponent),
        (None, Some(hot)) => Skew::Hot { requests: hot.requests, data: hot.data },
        (None, None) => Skew::None,
    };
    Micro::new(MicroSpec {
        operation: match options.op {
            choices::Operation::Read => Operation::Read,
            choices::Operation::Update => Operation::Update,
            choices::Operation::Mixed => Operation::Mixed,
        },
        rows: u32::try_from(options.rows).unwrap_or(u32::MAX),
        row_bytes: usize::try_from(options.row_bytes).unwrap_or(usize::MAX),
        sites: partitions(workers)?,
        rows_per_site: options.rows_per_site,
        multisite: options.multisite,
        skew,
        index: RowIndex::Hash,
        grouping: Grouping::Together,
    })
    .map_err(Failure::of)
}

/// YCSB, with one partition a worker.
pub(super) fn ycsb(options: &config::Ycsb, workers: usize) -> Result<Ycsb, Failure> {
    Ycsb::new(YcsbSpec {
        workload: match options.workload {
            choices::YcsbWorkload::A => YcsbWorkload::A,
            choices::YcsbWorkload::B => YcsbWorkload::B,
            choices::YcsbWorkload::C => YcsbWorkload::C,
            choices::YcsbWorkload::D => YcsbWorkload::D,
            choices::YcsbWorkload::E => YcsbWorkload::E,
            choices::YcsbWorkload::F => YcsbWorkload::F,
        },
        records: options.records,
        requests: u32::try_from(options.rows).unwrap_or(u32::MAX),
        zipf: options.zipf,
        partitions: partitions(workers)?,
        grouping: Grouping::Together,
    })
    .map_err(Failure::of)
}
