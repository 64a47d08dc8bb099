//! Transactions that conflict: nothing is lost, and nothing counted twice.

use concurrency::{SchemeName, Ways};
use harness::{Deployment, Execution, Length, Measurement, Plan, Retry, Workload};
use sim::{Config, Shape};
use workloads::tpcc::Tpcc;

use crate::support::{simulate, violations};

const WORKERS: usize = 8;
const TRANSACTIONS: u64 = 30;

/// Runs TPC-C with one warehouse for all, so that transactions conflict.
fn run(scheme: SchemeName, retry: Retry, execution: Execution, length: Length) -> Measurement {
    let workload = Workload::Tpcc(Tpcc { scale: 0.01, ..Tpcc::new(1) });
    let plan =
        Plan { retry, execution, epoch_nanos: 20_000, ways: Ways::default(), ..Plan::new(scheme, length) };
    let deployment = Deployment::unpinned(WORKERS, 1 << 30);
    let config = Config { memory_bytes: 2 << 30, ..Config::new(Shape::new(2, 4, 1)).with_seed(1) };
    let measured = simulate(&config, &workload, &plan, &deployment).expect("it runs");
    assert_eq!(violations(&measured), Vec::<String>::new(), "{scheme} {retry:?}");
    measured
}

fn sum(measured: &Measurement, count: impl Fn(&harness::Kind) -> u64) -> u64 {
    measured.kinds.iter().map(|(_, kind)| count(kind)).sum()
}

#[test]
fn every_transaction_ends_once() {
    for scheme in [SchemeName::NoWait, SchemeName::Silo, SchemeName::WaitDie, SchemeName::Hstore] {
        for execution in [Execution::Inline, Execution::Shuffled] {
            for retry in [Retry::Exponential, Retry::Fixed, Retry::Buffer] {
                let measured = run(scheme, retry, execution, Length::Transactions(TRANSACTIONS));
                let ended = sum(&measured, |kind| kind.commits + kind.rollbacks);
                assert_eq!(ended, WORKERS as u64 * TRANSACTIONS, "{scheme} {retry:?}");
                let aborts = sum(&measured, |kind| kind.aborts);
                if scheme != SchemeName::Hstore {
                    assert!(aborts > 0, "{scheme} {retry:?}: transactions meet");
                }
                // A pause may be as long as ten transactions, and a transaction's latency includes
                // all its pauses.
                if retry == Retry::Buffer && aborts > 50 {
                    let slowest = measured.kinds.iter().filter_map(|(_, kind)| kind.latency_us.p999);
                    assert!(slowest.fold(0.0, f64::max) > 50.0, "{scheme}: latencies have no pauses");
                }
            }
        }
    }
}

/// A run that ends by time leaves transactions in the buffers, which have changed nothing: the
/// checks agree with the counts.
#[test]
fn transactions_in_buffers_are_nowhere_when_the_time_is_over() {
    for scheme in [SchemeName::NoWait, SchemeName::Silo, SchemeName::DlDetect] {
        let measured = run(scheme, Retry::Buffer, Execution::Inline, Length::Seconds(0.002));
        assert!(sum(&measured, |kind| kind.commits) > 0);
        assert!(sum(&measured, |kind| kind.aborts) > 0);
    }
}
