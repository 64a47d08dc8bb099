//! Benchmark workloads at a small scale, by the driver: loaded, run by all workers, and checked.
//!
//! Half of the seeds run through the executor that shuffles the actions of a phase and passes values as bytes. With
//! [`Work::Islands`] the data are divided over several instances.

use cc::Ways;
use driver::{
    Check, Control, Deployment, Execution, Instance, Length, Measurement, Plan, Transport, WorkerPlace,
    Workload,
};
use sim::{Disk, DiskModel, Faults, SimError, VirtualMachine};
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

use crate::journal::{Journal, Recall};
use crate::subject::Driven;
use crate::task::{Machine, Observed, Task, Work, transaction_nanos_max};

/// Bytes of rows and indexes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
const EPOCH_NANOS: u64 = 20_000;
/// Rows of a site: few, so that transactions meet.
const ROWS_PER_SITE: u64 = 40;
const RECORDS: u64 = 200;
/// Cardinalities of TPC-C relative to the specification.
const TPCC_SCALE: f64 = 0.01;
/// Accounts of TPC-B relative to the standard: 20 a branch.
const TPCB_SCALE: f64 = 0.0002;
/// Transactions of each worker.
const TRANSACTIONS: u64 = 20;
/// The same on hardware, where they overlap less.
const TRANSACTIONS_ON_HARDWARE: u64 = 400;

/// Runs the benchmark that `task` names.
pub(crate) fn run(
    task: &Task<'_>,
    (driven, ways): (Driven, Ways),
    journal: &Journal,
) -> Result<Observed, SimError> {
    let workload = match task.work {
        Work::Micro => micro(task),
        Work::Ycsb => ycsb(task),
        Work::Islands => divided_data(task),
        _ => tpcc(task),
    };
    let is_virtual = !matches!(task.machine, Machine::Hardware);
    let count = if is_virtual { TRANSACTIONS } else { TRANSACTIONS_ON_HARDWARE };
    let is_divided = task.work == Work::Islands;
    // Parts travel as bytes anyway.
    let shuffled = !task.seed.is_multiple_of(2) && !is_divided;
    let plan = Plan {
        in_flight: 1 + (task.seed % 4) as usize,
        execution: if shuffled { Execution::Shuffled } else { Execution::Inline },
        seed: task.seed,
        ways,
        engine: driven.engine,
        epoch_nanos: EPOCH_NANOS,
        transaction_nanos_max: Some(transaction_nanos_max(is_virtual)),
        ..Plan::new(driven.scheme, Length::Transactions(count))
    };
    let deployment = match is_divided {
        true => divided(task),
        false => Deployment::unpinned(task.workers, MEMORY_BYTES_MAX),
    };
    let measured = if is_virtual {
        let config = task.machine.config(task);
        let disk = Disk::new(DiskModel::RAM, Faults::default());
        let config = if driven.has_pages() { config.with_disk(&disk) } else { config };
        let outcome = VirtualMachine::run(&config, |c| {
            let _recall = Recall::new(c, journal);
            driver::in_virtual_machine(c, &workload, &plan, &deployment, Control::NONE)
        });
        outcome?.value
    } else {
        driver::on_hardware(&workload, &plan, &deployment, Control::NONE)
    };
    Ok(match measured {
        Ok(measured) => observed(count * task.workers as u64, measured),
        Err(error) => Observed { violations: vec![error.to_string()], ..Observed::default() },
    })
}

fn observed(transactions: u64, measured: Measurement) -> Observed {
    let violated = |(name, check): (String, Check)| match check {
        Check::Violated(what) => Some(format!("{name}: {what}")),
        Check::Ok | Check::NotApplicable(_) => None,
    };
    let mut violations: Vec<String> = measured.checks.into_iter().filter_map(violated).collect();
    if measured.messages_amiss != 0 {
        violations.push(format!("{} messages amiss", measured.messages_amiss));
    }
    Observed {
        transactions,
        aborts: measured.kinds.iter().map(|(_, kind)| kind.aborts).sum(),
        violations,
        ..Observed::default()
    }
}

/// Two instances or three, by the seed, if there are as many workers.
fn divided(task: &Task<'_>) -> Deployment {
    let instances = (2 + task.seed as usize / 2 % 2).min(task.workers);
    let transports = [Transport::Shm, Transport::Shm, Transport::Uds, Transport::Tcp, Transport::Shm];
    let transport = transports[task.seed as usize % 5];
    let mut deployment = Deployment { transport, ..Deployment::unpinned(0, MEMORY_BYTES_MAX) };
    deployment.instances = vec![Instance { machine: 0, workers: Vec::new() }; instances];
    for worker in 0..task.workers {
        deployment.instances[worker % instances].workers.push(WorkerPlace::default());
    }
    deployment
}

/// By the seed: the microbenchmark, TPC-B with a branch for each worker, or TPC-C.
fn divided_data(task: &Task<'_>) -> Workload {
    match task.seed % 3 {
        0 => micro(task),
        1 => tpcb(task),
        _ => divided_tpcc(task),
    }
}

/// TPC-B with a branch for each worker, of whose transactions many need two.
fn tpcb(task: &Task<'_>) -> Workload {
    let branches = u16::try_from(task.workers).unwrap_or(u16::MAX);
    Workload::Tpcb(Tpcb { scale: TPCB_SCALE, remote_percent: 40.0, ..Tpcb::new(branches) })
}

/// TPC-C with a warehouse for each worker, of which many transactions need two.
fn divided_tpcc(task: &Task<'_>) -> Workload {
    Workload::Tpcc(Tpcc {
        scale: TPCC_SCALE,
        remote_items_percent: 15.0,
        remote_payment_percent: 40.0,
        ..Tpcc::new(u16::try_from(task.workers).unwrap_or(u16::MAX))
    })
}

/// TPC-C: by the seed, a warehouse for each worker or one for all.
fn tpcc(task: &Task<'_>) -> Workload {
    let warehouses = if task.seed % 4 < 2 { 1 } else { task.workers };
    Workload::Tpcc(Tpcc {
        scale: TPCC_SCALE,
        remote_items_percent: 10.0,
        ..Tpcc::new(u16::try_from(warehouses).unwrap_or(u16::MAX))
    })
}

/// The microbenchmark, half of it over several sites.
fn micro(task: &Task<'_>) -> Workload {
    let spec = MicroSpec {
        operation: if task.seed % 4 < 2 { Operation::Update } else { Operation::Mixed },
        sites: u16::try_from(task.workers).unwrap_or(u16::MAX),
        rows_per_site: ROWS_PER_SITE,
        multisite: 0.5,
        grouping: Grouping::ByPartition,
        ..MicroSpec::default()
    };
    Workload::Micro(Micro::new(spec).expect("a valid specification"))
}

/// One of YCSB's core workloads.
fn ycsb(task: &Task<'_>) -> Workload {
    use YcsbWorkload::{A, B, C, D, E, F};
    let workload = [A, B, C, D, E, F][(task.seed / 2 % 6) as usize];
    let partitions = u16::try_from(task.workers).unwrap_or(u16::MAX);
    let records = RECORDS.max(u64::from(partitions));
    let spec = YcsbSpec { workload, records, partitions, ..YcsbSpec::default() };
    Workload::Ycsb(Ycsb::new(spec).expect("a valid specification"))
}
