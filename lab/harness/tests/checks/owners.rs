//! Workers that own partitions: together they have the same effect as one worker.

use concurrency::SchemeName;
use harness::{
    Adaptation, Control, Deployment, Durability, Engine, Execution, Length, Measurement, Plan, RunError,
    Workload,
};
use platform::HardwareThread;
use sim::Config;
use workloads::dependent::{Dependent, TablePlacement};
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Mix;

use crate::support::{config, micro, nvme, plan, simulate, tpcc, violations};

const OWNING: [Execution; 2] = [Execution::Plp, Execution::Atrapos];
const TRANSACTIONS: u64 = 40;

pub(crate) fn over_pages(execution: Execution, seed: u64) -> Plan {
    let engine = Engine::Paged { pool_bytes: 32 << 20 };
    Plan { engine, execution, ..plan(SchemeName::default(), seed, TRANSACTIONS) }
}

fn in_memory(execution: Execution, seed: u64) -> Plan {
    Plan { execution, ..plan(SchemeName::Hstore, seed, TRANSACTIONS) }
}

/// A deployment of this number of workers on two sockets.
pub(crate) fn two_sockets(workers: usize) -> Deployment {
    let mut deployment = Deployment::unpinned(workers, 1 << 30);
    for (number, worker) in deployment.instances[0].workers.iter_mut().enumerate() {
        worker.socket = (2 * number / workers) as u32;
    }
    deployment
}

fn simulated(workload: &Workload, plan: &Plan, workers: usize) -> Result<Measurement, RunError> {
    simulated_by(config(workers, plan.seed), workload, plan, &two_sockets(workers))
}

pub(crate) fn simulated_by(
    config: Config,
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
) -> Result<Measurement, RunError> {
    simulate(&config.with_disk(&nvme()), workload, plan, deployment)
}

fn ended(measured: &Measurement) -> u64 {
    measured.kinds.iter().map(|(_, kind)| kind.commits + kind.rollbacks).sum()
}

fn tatp(workers: u16) -> Workload {
    Workload::Tatp(Tatp { multisite: 0.5, ..Tatp::new(20 * u32::from(workers), workers) })
}

fn tpcb(branches: u16) -> Workload {
    Workload::Tpcb(Tpcb { scale: 0.0002, remote_percent: 50.0, ..Tpcb::new(branches) })
}

fn dependent(sites: u16) -> Workload {
    let rows_per_site = 40;
    Workload::Dependent(Dependent { sites, rows_per_site, multisite: 0.5, divided: false, placement: None })
}

#[test]
fn checks_hold_whatever_belongs_to_whom() {
    for execution in OWNING {
        for (seed, workers) in [(1, 1), (2, 2), (3, 4), (4, 5)] {
            let parts = workers as u16;
            for (name, workload) in [
                ("update", micro(Operation::Update, parts)),
                ("mixed", micro(Operation::Mixed, 2 * parts)),
                ("tatp", tatp(parts)),
                ("tpcb", tpcb(parts)),
                ("tpcc", tpcc(Mix::Full, parts)),
                ("few parts", tpcc(Mix::Full, parts.div_ceil(2))),
                ("dependent", dependent(parts)),
            ] {
                let what = format!("{name} by {workers}, {execution:?}");
                let measured = simulated(&workload, &over_pages(execution, seed), workers);
                let measured = measured.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(violations(&measured), Vec::<String>::new(), "{what}");
                assert_eq!(ended(&measured), TRANSACTIONS * workers as u64, "{what}");
                let is_shared = measured.distributed_ratio > 0.0;
                assert!(
                    is_shared == (measured.counters.messages > Some(0)),
                    "{what}: {}",
                    measured.distributed_ratio
                );
                assert!(
                    is_shared || workers == 1 || name == "few parts" && parts <= 2,
                    "{what} needs nobody else"
                );
            }
        }
    }
}

#[test]
fn checks_hold_of_rows_in_memory() {
    for (execution, workers) in OWNING.into_iter().zip([4, 5]) {
        let parts = workers as u16;
        for workload in [micro(Operation::Mixed, parts), tatp(parts), tpcb(parts), tpcc(Mix::Full, parts)] {
            let plan = Plan { restless: true, ..in_memory(execution, 6) };
            let measured = simulated(&workload, &plan, workers).expect("it runs");
            assert_eq!(violations(&measured), Vec::<String>::new(), "{execution:?}");
            assert_eq!(ended(&measured), TRANSACTIONS * workers as u64);
            assert!(measured.distributed_ratio > 0.0, "others are needed");
        }
        let measured =
            harness::on_hardware(&tatp(3), &in_memory(execution, 3), &two_sockets(3), Control::NONE);
        assert_eq!(violations(&measured.expect("it runs")), Vec::<String>::new());
    }
}

/// Tables that are placed by themselves: as many partitions as half of the workers, each with
/// another owner, so that each transaction needs two workers.
#[test]
fn dependent_tables_have_owners_of_their_own() {
    for (execution, placement) in [
        (Execution::Plp, TablePlacement::EveryWorker),
        (Execution::Atrapos, TablePlacement::Oblivious(2)),
        (Execution::Atrapos, TablePlacement::Together(2)),
    ] {
        let spec = Dependent {
            sites: 4,
            rows_per_site: 40,
            multisite: 0.0,
            divided: false,
            placement: Some(placement),
        };
        let measured = simulated(&Workload::Dependent(spec), &over_pages(execution, 4), 4).expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new(), "{placement:?}");
        assert_eq!(ended(&measured), TRANSACTIONS * 4);
        let needs_others = if placement == TablePlacement::EveryWorker { 0.0 } else { 1.0 };
        assert_eq!(measured.distributed_ratio, needs_others, "{placement:?}");
    }
}

/// Workers that share hardware threads: two partitions of each core have a worker each, and workers
/// of other workloads run in turns.
#[test]
fn workers_share_hardware_threads() {
    let shared = |workers: usize| {
        let mut deployment = two_sockets(workers);
        deployment.workers_per_thread = 2;
        for (number, worker) in deployment.instances[0].workers.iter_mut().enumerate() {
            worker.thread = Some(HardwareThread(number as u32 / 2));
        }
        deployment
    };
    let placement = Some(TablePlacement::EveryThread);
    let spec = Dependent { sites: 2, rows_per_site: 40, multisite: 0.0, divided: false, placement };
    for execution in OWNING {
        let plan = Plan { partition_threads: true, ..over_pages(execution, 4) };
        let config = config(2, plan.seed);
        let workload = Workload::Dependent(spec.clone());
        let measured = simulated_by(config, &workload, &plan, &shared(4)).expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new());
        assert_eq!((ended(&measured), measured.distributed_ratio), (TRANSACTIONS * 4, 1.0));
    }
    for execution in [Execution::Inline, Execution::Plp, Execution::Atrapos] {
        let plan = in_memory(execution, 5);
        let measured = simulated_by(config(2, 5), &tpcb(4), &plan, &shared(4)).expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new(), "{execution:?}");
        assert_eq!(ended(&measured), TRANSACTIONS * 4);
    }
}

/// A transaction that touches only what its worker owns sends nothing, and locks nothing.
#[test]
fn own_partitions_need_nobody_else() {
    let spec = MicroSpec {
        sites: 4,
        rows_per_site: 60,
        rows: 4,
        operation: Operation::Update,
        ..MicroSpec::default()
    };
    let workload = Workload::Micro(Micro::new(spec).expect("valid"));
    for execution in OWNING {
        let measured = simulated(&workload, &over_pages(execution, 7), 4).expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new());
        assert_eq!((measured.counters.messages, measured.distributed_ratio), (Some(0), 0.0));
        let aborts: u64 = measured.kinds.iter().map(|(_, kind)| kind.aborts).sum();
        assert_eq!(aborts, 0, "nobody meets anybody");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    for execution in OWNING {
        let run = || simulated(&tpcc(Mix::Full, 3), &over_pages(execution, 5), 3).expect("it runs");
        assert!(run() == run(), "{execution:?}");
    }
}

#[test]
fn durable_owners_go_on_where_they_have_ended() {
    for (number, execution) in OWNING.into_iter().enumerate() {
        let (workload, disk) = (tpcb(3), nvme());
        for seed in [8, 9] {
            let durability = [Durability::Group, Durability::Sync][number];
            let plan = Plan { durability, ..over_pages(execution, seed) };
            let config = config(3, seed).with_disk(&disk);
            let measured = simulate(&config, &workload, &plan, &two_sockets(3)).expect("it runs");
            assert_eq!(violations(&measured), Vec::<String>::new(), "{seed}");
            assert_eq!((ended(&measured), measured.recovered.is_some()), (TRANSACTIONS * 3, seed == 9));
        }
    }
}

#[test]
fn checks_hold_on_hardware() {
    for execution in OWNING {
        for workload in [tpcc(Mix::Full, 3), micro(Operation::Update, 3), tatp(3)] {
            let plan = over_pages(execution, 3);
            let measured = harness::on_hardware(&workload, &plan, &two_sockets(3), Control::NONE);
            let measured = measured.expect("it runs");
            assert_eq!(violations(&measured), Vec::<String>::new());
            assert_eq!(ended(&measured), TRANSACTIONS * 3);
        }
    }
}

/// Workers provide memory between the warm-up and the measured time, and serve other workers
/// meanwhile.
#[test]
fn owners_prepare_a_run_while_they_serve_each_other() {
    for execution in OWNING {
        let adaptation = (execution == Execution::Atrapos).then(|| Adaptation::every(0.02));
        let (length, transaction_nanos_max) = (Length::Seconds(0.1), None);
        let warm_up_seconds = 0.05;
        let plan = in_memory(execution, 4);
        let plan = Plan { length, warm_up_seconds, adaptation, transaction_nanos_max, ..plan };
        let measured = harness::on_hardware(&tpcc(Mix::Full, 3), &plan, &two_sockets(3), Control::NONE);
        let measured = measured.expect("it runs");
        assert_eq!(violations(&measured), Vec::<String>::new(), "{execution:?}");
        assert!(ended(&measured) > 0 && measured.distributed_ratio > 0.0);
    }
}

#[test]
fn what_owners_cannot_do_is_refused() {
    let judged = Plan { scheme: SchemeName::Silo, ..in_memory(Execution::Plp, 1) };
    let refused = simulated(&micro(Operation::Read, 2), &judged, 2).expect_err("it is refused");
    assert_eq!(
        refused.to_string(),
        "silo: workers that own partitions of rows in memory need no locks of a scheme; take hstore, or run inline"
    );
}
