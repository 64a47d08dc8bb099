//! Workloads over pages: their checks hold, also when data are larger than the pool.

use concurrency::SchemeName;
use harness::{Control, Durability, Engine, Measurement, Plan, RunError, Transport, Workload};
use sim::Disk;
use workloads::micro::Operation;
use workloads::tpcc::Mix;

use crate::support::{config, deployment, micro, nvme, plan, simulate, tpcc, violations};

fn over_pages(pool_bytes: u64, seed: u64) -> Plan {
    Plan { engine: Engine::Paged { pool_bytes }, ..plan(SchemeName::default(), seed, 25) }
}

/// Runs a workload on instances with these numbers of workers.
fn on_disk(disk: &Disk, workload: &Workload, plan: &Plan, sizes: &[usize]) -> Result<Measurement, RunError> {
    let deployment = deployment(sizes, Transport::Shm);
    simulate(&config(deployment.workers(), plan.seed).with_disk(disk), workload, plan, &deployment)
}

fn simulated(workload: &Workload, plan: &Plan, workers: usize) -> Result<Measurement, RunError> {
    on_disk(&nvme(), workload, plan, &[workers])
}

fn commits(measured: &Measurement) -> u64 {
    measured.kinds.iter().map(|(_, kind)| kind.commits + kind.rollbacks).sum()
}

#[test]
fn checks_hold_in_the_virtual_machine() {
    for (seed, pool_bytes) in [(1, 256 << 10), (2, 32 << 20)] {
        for workload in [tpcc(Mix::Full, 2), micro(Operation::Mixed, 2)] {
            let measured = simulated(&workload, &over_pages(pool_bytes, seed), 2).expect("it runs");
            assert_eq!(violations(&measured), Vec::<String>::new(), "{pool_bytes}");
            assert_eq!(commits(&measured), 50);
        }
    }
}

#[test]
fn durable_pages_go_on_where_they_have_ended() {
    let (workload, disk) = (tpcc(Mix::Full, 2), nvme());
    for seed in [5, 6] {
        let plan = Plan { durability: Durability::Group, ..over_pages(1 << 20, seed) };
        let measured = on_disk(&disk, &workload, &plan, &[2]).expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new(), "{seed}");
        assert_eq!((commits(&measured), measured.recovered.is_some()), (50, seed == 6));
    }
}

#[test]
fn checks_hold_on_hardware() {
    let (plan, deployment) = (over_pages(256 << 10, 3), deployment(&[2], Transport::Shm));
    let measured =
        harness::on_hardware(&tpcc(Mix::Full, 2), &plan, &deployment, Control::NONE).expect("it runs");
    assert_eq!(violations(&measured), Vec::<String>::new());
    assert_eq!(commits(&measured), 50);
}

#[test]
fn several_instances_have_pages() {
    let workload = tpcc(Mix::Full, 2);
    for (seed, durability) in [(7, Durability::None), (8, Durability::Group)] {
        let disk = nvme();
        let plan = Plan { durability, ..over_pages(1 << 20, seed) };
        let measured = on_disk(&disk, &workload, &plan, &[1, 1]).expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new(), "{seed}");
        assert_eq!(commits(&measured), 50);
        assert!(measured.distributed_ratio > 0.0, "{seed}");
    }
}

#[test]
fn a_pool_that_is_too_small_is_refused() {
    let refused =
        simulated(&micro(Operation::Read, 2), &over_pages(64 << 10, 4), 2).expect_err("it is too small");
    assert_eq!(
        refused.to_string(),
        "a pool of 65536 bytes is too small for 3 sessions: make it 196608 bytes at least"
    );
}
