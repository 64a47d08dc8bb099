//! Look-ahead changes only the time of a run.

use concurrency::SchemeName;
use harness::{Deployment, Execution, Length, Measurement, Plan, Retry, Workload};
use sim::{Config, Counts, Shape};
use storage::{Optimisation, Optimisations};
use workloads::tpcc::Tpcc;

use crate::support::{run_machine, violations};

const TRANSACTIONS: u64 = 60;

/// Runs TPC-C with a warehouse for each worker.
fn run(scheme: SchemeName, workers: u16, optimisations: Optimisations, ways: Plan) -> (Measurement, Counts) {
    let workload = Workload::Tpcc(Tpcc { scale: 0.01, ..Tpcc::new(workers) });
    let plan = Plan { scheme, optimisations, epoch_nanos: 20_000, ..ways };
    let deployment = Deployment::unpinned(usize::from(workers), 1 << 30);
    let config = Config { memory_bytes: 2 << 30, ..Config::new(Shape::new(2, 2, 1)).with_seed(3) };
    let ran = run_machine(&config, &workload, &plan, &deployment).expect("no deadlock");
    let measured = ran.value.expect("it runs");
    assert_eq!(violations(&measured), Vec::<String>::new(), "{scheme}");
    (measured, ran.statistics.counts)
}

fn without() -> Optimisations {
    Optimisations::ALL.without(Optimisation::LookAhead)
}

fn plan() -> Plan {
    Plan::new(SchemeName::Silo, Length::Transactions(TRANSACTIONS))
}

/// Commits and roll-backs by kind.
fn ended(measured: &Measurement) -> Vec<(u64, u64)> {
    measured.kinds.iter().map(|(_, kind)| (kind.commits, kind.rollbacks)).collect()
}

#[test]
fn a_seed_has_the_same_transactions_under_every_scheme() {
    for scheme in SchemeName::ALL {
        let (with, costs) = run(scheme, 1, Optimisations::ALL, plan());
        let (plain, plain_costs) = run(scheme, 1, without(), plan());
        assert_eq!(ended(&with), ended(&plain), "{scheme}");
        assert_eq!(
            ended(&with).iter().map(|(commits, rollbacks)| commits + rollbacks).sum::<u64>(),
            TRANSACTIONS
        );
        assert_ne!(costs.prefetches, plain_costs.prefetches, "{scheme} looks ahead");
        let unprefetched = run(scheme, 1, Optimisations::ALL.without(Optimisation::Prefetch), plan());
        assert_eq!(unprefetched.1.prefetches, 0, "{scheme}: without prefetches nothing is asked for");
    }
}

#[test]
fn every_transaction_ends_once_however_it_is_run() {
    for retry in [Retry::Exponential, Retry::Buffer] {
        for execution in [Execution::Inline, Execution::Shuffled] {
            let ways = Plan { retry, execution, ..plan() };
            let (measured, _) = run(SchemeName::NoWait, 3, Optimisations::ALL, ways);
            let count: u64 = ended(&measured).iter().map(|(commits, rollbacks)| commits + rollbacks).sum();
            assert_eq!(count, 3 * TRANSACTIONS, "{retry:?} {execution:?}");
        }
    }
}
