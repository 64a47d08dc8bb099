//! TPC-C on the engine: all conditions hold after workers ran at the same time.

use concurrency::SchemeName;
use harness::{Check, Control, Deployment, Length, Plan, Workload};
use storage::{Optimisation, Optimisations};
use workloads::tpcc::Tpcc;

/// Loads, runs `count` transactions in each of `workers`, checks.
fn run(scheme: SchemeName, tpcc: &Tpcc, workers: usize, count: u64) {
    run_with(scheme, tpcc, workers, count, Optimisations::ALL);
}

/// The same without some optimisations.
fn run_with(scheme: SchemeName, tpcc: &Tpcc, workers: usize, count: u64, optimisations: Optimisations) {
    let plan = Plan {
        seed: 2,
        epoch_nanos: 10_000_000,
        optimisations,
        ..Plan::new(scheme, Length::Transactions(count))
    };
    let deployment = Deployment::unpinned(workers, 4 << 30);
    let workload = Workload::Tpcc(tpcc.clone());
    let measured = harness::on_hardware(&workload, &plan, &deployment, Control::NONE).expect("it ends well");
    let ended: u64 = measured.kinds.iter().map(|(_, kind)| kind.commits + kind.rollbacks).sum();
    assert_eq!(ended, workers as u64 * count, "{scheme}");
    assert!(!measured.checks.is_empty());
    for (name, check) in measured.checks {
        assert_eq!(check, Check::Ok, "{scheme}: {name}");
    }
}

fn small(warehouses: u16) -> Tpcc {
    Tpcc { scale: 0.02, remote_items_percent: 5.0, ..Tpcc::new(warehouses) }
}

#[test]
fn every_scheme_keeps_all_conditions() {
    for scheme in SchemeName::ALL {
        run(scheme, &small(2), 2, 1000);
    }
}

#[test]
fn every_scheme_keeps_them_with_workers_that_share_a_warehouse() {
    for scheme in SchemeName::ALL {
        run(scheme, &small(1), 4, 700);
    }
}

/// The optimisations that can be switched off.
const OPTIMISATIONS: [Optimisation; 7] = [
    Optimisation::ThreadAlloc,
    Optimisation::HashIndex,
    Optimisation::QueueLatch,
    Optimisation::Prefetch,
    Optimisation::CompiledRows,
    Optimisation::BoundedSpin,
    Optimisation::ReadOnlySkip,
];

#[test]
fn conditions_hold_without_each_optimisation_and_without_all() {
    let none = OPTIMISATIONS.iter().fold(Optimisations::ALL, |all, one| all.without(*one));
    for scheme in [SchemeName::Silo, SchemeName::NoWait] {
        for one in OPTIMISATIONS {
            run_with(scheme, &small(1), 2, 300, Optimisations::ALL.without(one));
        }
        run_with(scheme, &small(1), 2, 300, none);
    }
}
