//! Clients that request data of an instance, or all data: the effect of their requests is that of
//! transactions which workers draw, and requests go where their rows are.

use concurrency::SchemeName;
use harness::{Clients, Durability, Engine, Execution, Length, Measurement, Plan, Transport, Workload};
use workloads::micro::{Micro, MicroSpec, Operation, Skew};
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Mix;

use crate::support::{config, deployment, nvme, plan, simulate, tpcc, violations};

/// A run of this many instances of two workers each.
fn of_instances(workload: &Workload, instances: usize, plan: &Plan) -> Measurement {
    let deployment = deployment(&vec![2; instances], Transport::Shm);
    let measured = simulate(&config(deployment.workers(), plan.seed), workload, plan, &deployment);
    let measured = measured.expect("it runs");
    assert_eq!(violations(&measured), [""; 0]);
    measured
}

fn for_milliseconds(scheme: SchemeName, clients: Clients, seed: u64) -> Plan {
    Plan { length: Length::Seconds(0.0005), clients, instrument: true, ..plan(scheme, seed, 1) }
}

fn commits(measured: &Measurement) -> u64 {
    measured.kinds.iter().map(|(_, kind)| kind.commits).sum()
}

fn skewed(sites: u16) -> Workload {
    let spec = MicroSpec {
        operation: Operation::Update,
        rows: 3,
        sites,
        rows_per_site: 200,
        skew: Skew::Zipf(0.9),
        ..MicroSpec::default()
    };
    Workload::Micro(Micro::new(spec).expect("valid"))
}

/// Transactions of one site never cross instances, however skewed their rows are.
#[test]
fn requests_for_one_site_stay_in_its_instance() {
    let run = |clients| of_instances(&skewed(6), 3, &for_milliseconds(SchemeName::NoWait, clients, 1));
    let (drawn, own, handed) = (run(Clients::Worker), run(Clients::Instance), run(Clients::Global));
    assert!(drawn.distributed_ratio > 0.3, "{}", drawn.distributed_ratio);
    assert!(drawn.requests.is_none() && own.requests.is_none());
    assert_eq!((own.distributed_ratio, handed.distributed_ratio), (0.0, 0.0));
    assert!(commits(&own) > 100 && commits(&handed) > 100);
    // The first site has the popular rows: its instance has work when others have none.
    let requests = handed.requests.expect("clients handed requests over");
    assert_eq!((requests.clients, requests.open_max), (6, 20));
    assert!((0.1..0.9).contains(&requests.idle), "{requests:?}");
    assert!(requests.queued_us.p50 > Some(1.0), "{requests:?}");
}

/// Requests that touch several instances, roll back, conflict and wait for the log end, too.
#[test]
fn conditions_hold_under_all_clients() {
    for clients in [Clients::Instance, Clients::Global] {
        for (seed, scheme) in (1..).zip(SchemeName::ALL) {
            let plan = for_milliseconds(scheme, clients, seed);
            let measured = of_instances(&tpcc(Mix::Full, 4), 2, &plan);
            assert!(commits(&measured) > 20, "{scheme}: {}", commits(&measured));
            let tpcb = Tpcb { scale: 0.0005, remote_percent: 30.0, ..Tpcb::new(4) };
            let measured = of_instances(&Workload::Tpcb(tpcb), 2, &plan);
            assert!(measured.distributed_ratio > 0.1, "{scheme}");
        }
    }
}

/// All workers of an instance run transactions of all of its branches.
#[test]
fn workers_of_an_instance_meet_at_its_branches() {
    let tpcb = Tpcb { scale: 0.0005, remote_percent: 0.0, ..Tpcb::new(4) };
    let run = |clients| {
        let plan = for_milliseconds(SchemeName::NoWait, clients, 3);
        let measured = of_instances(&Workload::Tpcb(tpcb.clone()), 2, &plan);
        measured.kinds.iter().map(|(_, kind)| kind.aborts).sum::<u64>()
    };
    assert_eq!(run(Clients::Worker), 0);
    assert!(run(Clients::Instance) > 10);
}

/// Where workers own partitions, requests go to owners, and wait there.
#[test]
fn owners_receive_requests_for_their_partitions() {
    let deployment = deployment(&[4], Transport::Shm);
    for (seed, execution) in [(1, Execution::Plp), (2, Execution::Atrapos)] {
        for durability in [Durability::None, Durability::Group] {
            let engine = Engine::Paged { pool_bytes: 64 << 20 };
            let plan = for_milliseconds(SchemeName::NoWait, Clients::Global, seed);
            let plan = Plan { engine, execution, durability, ..plan };
            let workload = Workload::Tatp(Tatp::new(400, 4));
            let machine = config(4, seed).with_disk(&nvme());
            let measured = simulate(&machine, &workload, &plan, &deployment).expect("it runs");
            assert_eq!(violations(&measured), [""; 0]);
            assert!(commits(&measured) > 100, "{execution:?} {durability:?}: {}", commits(&measured));
            assert!(measured.requests.is_some());
        }
    }
}

#[test]
fn clients_that_cannot_be_had_are_refused() {
    let deployment = deployment(&[1, 1], Transport::Shm);
    let plan = Plan { clients: Clients::Global, ..plan(SchemeName::Silo, 1, 10) };
    let refused = simulate(&config(2, 1), &skewed(2), &plan, &deployment).expect_err("refused");
    assert!(refused.to_string().contains("different numbers of transactions"), "{refused}");
}
