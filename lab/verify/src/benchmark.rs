//! Benchmark workloads at a small scale, run by the harness: loaded, run by all workers, and
//! checked.
//!
//! Half of the seeds run through the executor that shuffles the actions of a phase and passes
//! values as bytes. With [`Work::Islands`] rows are divided among several instances.

use concurrency::Ways;
use harness::{
    Check, Control, Deployment, Engine, Execution, Instance, Length, Measurement, Plan, Transport,
    WorkerPlace, Workload,
};
use sim::{Disk, DiskFaults, DiskModel, SimError, VirtualMachine};
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

use crate::journal::{EventCapture, Journal};
use crate::subject::Driven;
use crate::task::{Machine, Observed, Task, Work, owners_nanos_max, transaction_nanos_max};

/// Bytes of rows and indexes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
const EPOCH_NANOS: u64 = 20_000;
/// Rows of a site: few, so that transactions conflict.
const ROWS_PER_SITE: u64 = 40;
const RECORDS: u64 = 200;
const SUBSCRIBERS_PER_WORKER: u32 = 12;
/// Cardinalities of TPC-C relative to the specification.
const TPCC_SCALE: f64 = 0.01;
/// Scale of TPC-B relative to the standard: 20 accounts a branch.
const TPCB_SCALE: f64 = 0.0002;
/// Transactions of each worker.
const TRANSACTIONS: u64 = 20;
/// Transactions of each worker on hardware, where they overlap less.
const TRANSACTIONS_ON_HARDWARE: u64 = 400;

/// Runs the benchmark that `task` names.
pub(crate) fn run(
    task: &Task<'_>,
    driven: Driven,
    ways: Ways,
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
    // Messages between instances are bytes anyway.
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
    drive(task, &workload, &plan, &deployment, journal)
}

/// Runs a benchmark whose workers own partitions. The seed chooses the workload, the execution and
/// how many transactions use several partitions.
pub(crate) fn run_owners(
    task: &Task<'_>,
    driven: Driven,
    faults: terms::Faults,
    journal: &Journal,
) -> Result<Observed, SimError> {
    let workload = match task.seed / 4 % 4 {
        0 => micro(task),
        1 => tpcb(task),
        2 => divided_tpcc(task),
        _ => tatp(task),
    };
    let is_virtual = !matches!(task.machine, Machine::Hardware);
    let count = if is_virtual { TRANSACTIONS } else { TRANSACTIONS_ON_HARDWARE };
    let plan = Plan {
        execution: owners_execution(task.seed),
        faults,
        seed: task.seed,
        engine: driven.engine,
        transaction_nanos_max: Some(owners_nanos_max(is_virtual)),
        ..Plan::new(driven.scheme, Length::Transactions(count))
    };
    let deployment = owners_deployment(task.workers);
    drive(task, &workload, &plan, &deployment, journal)
}

/// The execution of workers that own partitions, by the seed.
pub(crate) fn owners_execution(seed: u64) -> Execution {
    if (seed / 16).is_multiple_of(2) { Execution::Plp } else { Execution::Atrapos }
}

/// A deployment of these workers on two sockets.
pub(crate) fn owners_deployment(workers: usize) -> Deployment {
    let mut deployment = Deployment::unpinned(workers, MEMORY_BYTES_MAX);
    for (number, worker) in deployment.instances[0].workers.iter_mut().enumerate() {
        worker.socket = (2 * number / workers) as u32;
    }
    deployment
}

/// Runs a workload on the machine of the task.
fn drive(
    task: &Task<'_>,
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    journal: &Journal,
) -> Result<Observed, SimError> {
    let is_virtual = !matches!(task.machine, Machine::Hardware);
    let measured = if is_virtual {
        let config = task.machine.config(task);
        let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
        let config = if plan.engine == Engine::Memory { config } else { config.with_disk(&disk) };
        let outcome = VirtualMachine::run(&config, |c| {
            let _recall = EventCapture::new(c, journal);
            harness::in_virtual_machine(c, workload, plan, deployment, Control::NONE)
        });
        outcome?.value
    } else {
        harness::on_hardware(workload, plan, deployment, Control::NONE)
    };
    let Length::Transactions(count) = plan.length else {
        unreachable!("so many transactions of each worker")
    };
    Ok(match measured {
        Ok(measured) => observed(count * task.workers as u64, measured),
        Err(error) => Observed { violations: vec![error.to_string()], ..Observed::default() },
    })
}

/// The names and violations of checks that failed.
pub(crate) fn violated_checks(checks: Vec<(String, Check)>) -> Vec<String> {
    let violated = |(name, check): (String, Check)| match check {
        Check::Violated(what) => Some(format!("{name}: {what}")),
        Check::Ok | Check::NotApplicable(_) => None,
    };
    checks.into_iter().filter_map(violated).collect()
}

fn observed(transactions: u64, measured: Measurement) -> Observed {
    let mut violations = violated_checks(measured.checks);
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

/// Two instances or three, by the seed, if there are enough workers.
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

/// TPC-B with a branch for each worker; many transactions need two branches.
fn tpcb(task: &Task<'_>) -> Workload {
    let branches = u16::try_from(task.workers).unwrap_or(u16::MAX);
    Workload::Tpcb(Tpcb { scale: TPCB_SCALE, remote_percent: 40.0, ..Tpcb::new(branches) })
}

/// TPC-C with a warehouse for each worker; many transactions need two warehouses.
fn divided_tpcc(task: &Task<'_>) -> Workload {
    Workload::Tpcc(Tpcc {
        scale: TPCC_SCALE,
        remote_items_percent: 15.0,
        remote_payment_percent: 40.0,
        ..Tpcc::new(u16::try_from(task.workers).unwrap_or(u16::MAX))
    })
}

/// TATP: half of the transactions choose any subscriber, not one of their worker's.
fn tatp(task: &Task<'_>) -> Workload {
    let parts = u16::try_from(task.workers).unwrap_or(u16::MAX);
    Workload::Tatp(Tatp { multisite: 0.5, ..Tatp::new(SUBSCRIBERS_PER_WORKER * u32::from(parts), parts) })
}

/// TPC-C with a warehouse for each worker or one for all, by the seed.
fn tpcc(task: &Task<'_>) -> Workload {
    let warehouses = if task.seed % 4 < 2 { 1 } else { task.workers };
    Workload::Tpcc(Tpcc {
        scale: TPCC_SCALE,
        remote_items_percent: 10.0,
        ..Tpcc::new(u16::try_from(warehouses).unwrap_or(u16::MAX))
    })
}

/// The microbenchmark: half of the transactions use several sites.
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
