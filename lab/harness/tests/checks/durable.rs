//! Several instances that are durable, in one process: a run continues on the data of the run
//! before.

use std::path::PathBuf;

use concurrency::SchemeName;
use harness::{Control, Deployment, Durability, Length, Measurement, Plan, RunError, Transport, Workload};
use sim::{Disk, DiskFaults, DiskModel};
use workloads::tatp::Tatp;
use workloads::tpcc::Mix;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

use crate::support::{assert_holds, config, deployment, nvme, plan, simulate, tpcc, violations};

fn durable(scheme: SchemeName, durability: Durability, seed: u64) -> Plan {
    Plan { durability, ..plan(scheme, seed, 20) }
}

fn on_disk(
    disk: &Disk,
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
) -> Result<Measurement, RunError> {
    simulate(&config(deployment.workers(), plan.seed).with_disk(disk), workload, plan, deployment)
}

#[test]
fn every_scheme_goes_on_where_it_has_ended() {
    for (number, scheme) in SchemeName::ALL.into_iter().enumerate() {
        let durability = [Durability::Group, Durability::Sync, Durability::Async][number % 3];
        let sizes = [&[1, 1][..], &[2, 1]][number % 2];
        let disk = nvme();
        let deployment = deployment(sizes, Transport::Shm);
        let workload = tpcc(Mix::Full, deployment.workers() as u16);
        let transactions = 20 * deployment.workers() as u64;
        let run = |seed| on_disk(&disk, &workload, &durable(scheme, durability, seed), &deployment);
        let first = run(21).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        assert!(assert_holds(&first, transactions, scheme.name()) > 0.1);
        assert!(first.recovered.is_none() && first.log.is_some());
        let second = run(22).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        assert_eq!(violations(&second), Vec::<String>::new(), "{scheme}");
        let recovered = second.recovered.expect("it was there");
        assert!(recovered.rows + recovered.records > 0 && recovered.in_doubt == 0, "{recovered:?}");
    }
}

/// A directory belongs to one deployment, and others are refused in one line.
#[test]
fn another_deployment_is_refused() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let plan = Plan { length: Length::Transactions(2), ..durable(SchemeName::NoWait, Durability::Group, 1) };
    let workload = tpcc(Mix::Narrow, 4);
    let run = |sizes: &[usize]| on_disk(&disk, &workload, &plan, &deployment(sizes, Transport::Shm));
    run(&[2, 2]).expect("it runs");
    run(&[2, 2]).expect("it goes on");
    let refused = |sizes: &[usize]| run(sizes).expect_err("another").to_string();
    let expected = "--path database: holds a deployment of 2 instances that divides 4 parts of data otherwise \
                    (accepted: the deployment that it holds, or another directory)";
    assert_eq!(refused(&[1, 1, 1]), expected);
    assert_eq!(refused(&[3, 1]), expected);
    assert!(refused(&[2]).contains("database: not a database"));
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let run = |sizes: &[usize]| on_disk(&disk, &workload, &plan, &deployment(sizes, Transport::Shm));
    run(&[2]).expect("one instance");
    let refused = run(&[1, 1]).expect_err("another").to_string();
    assert!(refused.contains("--path database: holds no deployment of several instances"), "{refused}");
}

/// Most transactions only read, so the last one of a worker is acknowledged with an earlier epoch
/// than those before.
#[test]
fn commits_before_a_last_reader_are_counted() {
    for seed in 1..4 {
        let (deployment, disk) = (deployment(&[2], Transport::Shm), nvme());
        let plan = durable(SchemeName::Silo, Durability::Group, seed);
        let plan = Plan { length: Length::Transactions(200), ..plan };
        let workload = Workload::Tatp(Tatp::new(400, 2));
        let measured = on_disk(&disk, &workload, &plan, &deployment).expect("it runs");
        assert_holds(&measured, 400, "tatp");
    }
}

#[test]
fn files_of_this_machine_are_read_again() {
    let name = format!("several-durable-{}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (deployment, workload) = (deployment(&[1, 1], Transport::Shm), tpcc(Mix::Full, 2));
    let plan = |seed| Plan {
        path: Some(path.clone()),
        length: Length::Transactions(100),
        ..durable(SchemeName::Silo, Durability::Group, seed)
    };
    for seed in [1, 2] {
        let measured = harness::on_hardware(&workload, &plan(seed), &deployment, Control::NONE);
        let measured = measured.expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new());
        assert_eq!(measured.recovered.is_some(), seed == 2);
    }
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

/// Branches stay prepared for two groups of the log: many transactions conflict on popular rows and
/// whole partitions meanwhile.
#[test]
fn skew_aborts_few() {
    let ycsb = |workload| {
        let spec = YcsbSpec { workload, records: 2_000, partitions: 2, ..YcsbSpec::default() };
        Workload::Ycsb(Ycsb::new(spec).expect("valid"))
    };
    let mut shares = Vec::new();
    for (scheme, workload) in [
        (SchemeName::Silo, ycsb(YcsbWorkload::C)),
        (SchemeName::Silo, ycsb(YcsbWorkload::A)),
        (SchemeName::Hstore, tpcc(Mix::Full, 2)),
    ] {
        let (deployment, disk) = (deployment(&[1, 1], Transport::Shm), nvme());
        let plan = Plan {
            length: Length::Transactions(400),
            in_flight: 64,
            ..durable(scheme, Durability::Group, 5)
        };
        let measured = on_disk(&disk, &workload, &plan, &deployment).expect("it runs");
        assert!(assert_holds(&measured, 800, scheme.name()) > 0.1);
        let aborts: u64 = measured.kinds.iter().map(|(_, kind)| kind.aborts).sum();
        shares.push(aborts as f64 / (aborts + 800) as f64);
    }
    assert!(shares[0] == 0.0, "readers abort readers: {shares:?}");
    assert!(shares[1] < 0.7 && shares[2] < 0.3, "{shares:?}");
}
