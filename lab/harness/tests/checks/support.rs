//! Workloads and their runs in virtual machines.

use concurrency::SchemeName;
use harness::{Check, Control, Deployment, Instance, Length, Measurement, Plan, RunError, Transport};
use harness::{WorkerPlace, Workload};
use platform::Nanos;
use sim::{Config, Disk, DiskFaults, DiskModel, Outcome, Shape, SimError, VirtualMachine};
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tpcc::{Mix, Tpcc};

const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// A bound on the length of every run.
const SECONDS_MAX: u64 = 2;
/// A bound on the wait of every transaction.
const NANOS_MAX: u64 = 1_000_000_000;

/// Instances with these numbers of workers.
pub fn deployment(sizes: &[usize], transport: Transport) -> Deployment {
    let instance = |workers: &usize| Instance { machine: 0, workers: vec![WorkerPlace::default(); *workers] };
    let instances = sizes.iter().map(instance).collect();
    Deployment { instances, transport, memory_bytes_max: MEMORY_BYTES_MAX, ..Deployment::default() }
}

pub fn plan(scheme: SchemeName, seed: u64, transactions: u64) -> Plan {
    Plan {
        seed,
        epoch_nanos: 20_000,
        transaction_nanos_max: Some(NANOS_MAX),
        in_flight: 1 + seed as usize % 3,
        ..Plan::new(scheme, Length::Transactions(transactions))
    }
}

pub fn config(workers: usize, seed: u64) -> Config {
    let config = Config::new(Shape::new(2, workers.div_ceil(2), 1));
    let time_limit = Some(Nanos(SECONDS_MAX * 1_000_000_000));
    // Intervals of a millisecond stand for those of a tenth of a second.
    Config { memory_bytes: 8 << 30, time_limit, slice_divisor: 100, ..config }.with_seed(seed).perturbed()
}

/// Runs a workload in a virtual machine. Returns the outcome of the machine, too.
pub fn run_machine(
    config: &Config,
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
) -> Result<Outcome<Result<Measurement, RunError>>, SimError> {
    VirtualMachine::run(config, |c| harness::in_virtual_machine(c, workload, plan, deployment, Control::NONE))
}

/// Runs a workload in a virtual machine, which runs to its end.
pub fn simulate(
    config: &Config,
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
) -> Result<Measurement, RunError> {
    run_machine(config, workload, plan, deployment).expect("the machine runs").value
}

/// An empty disk.
pub fn nvme() -> Disk {
    Disk::new(DiskModel::NVME, DiskFaults::default())
}

pub fn violations(measured: &Measurement) -> Vec<String> {
    assert!(!measured.checks.is_empty());
    let violated = |(name, check): &(String, Check)| match check {
        Check::Violated(what) => Some(format!("{name}: {what}")),
        Check::Ok | Check::NotApplicable(_) => None,
    };
    measured.checks.iter().filter_map(violated).collect()
}

/// Asserts the conditions of every run with transactions over several instances; returns the number
/// of these transactions.
pub fn assert_holds(measured: &Measurement, transactions: u64, what: &str) -> f64 {
    assert_eq!(violations(measured), Vec::<String>::new(), "{what}");
    let ended: u64 = measured.kinds.iter().map(|(_, kind)| kind.commits + kind.rollbacks).sum();
    assert_eq!(ended, transactions, "{what}");
    assert_eq!(measured.messages_amiss, 0, "{what}: messages are those of the protocol");
    measured.distributed_ratio
}

pub fn micro(operation: Operation, sites: u16) -> Workload {
    let spec =
        MicroSpec { operation, sites, rows_per_site: 60, multisite: 0.5, rows: 4, ..MicroSpec::default() };
    Workload::Micro(Micro::new(spec).expect("valid"))
}

/// TPC-C with many transactions over two warehouses.
pub fn tpcc(mix: Mix, warehouses: u16) -> Workload {
    let tpcc = Tpcc { remote_items_percent: 20.0, remote_payment_percent: 40.0, ..Tpcc::new(warehouses) };
    Workload::Tpcc(Tpcc { mix, scale: 0.01, ..tpcc })
}
