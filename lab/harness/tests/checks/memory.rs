//! The memory figures of a run are exact, and not much more than the memory of its rows.

use concurrency::SchemeName;
use harness::{Deployment, Length, MemoryFigures, Plan, Workload};
use sim::{Config, Shape};
use workloads::tpcc::{Mix, Tpcc};

use crate::support::simulate;

/// In virtual time, because the number of versions that wait for the end of an epoch depends on
/// time.
fn run(scheme: SchemeName, mix: Mix, transactions: u64) -> MemoryFigures {
    let workload = Workload::Tpcc(Tpcc { scale: 0.01, mix, ..Tpcc::new(1) });
    let plan = Plan { epoch_nanos: 20_000, ..Plan::new(scheme, Length::Transactions(transactions)) };
    let deployment = Deployment::unpinned(1, 1 << 30);
    let config = Config { memory_bytes: 2 << 30, ..Config::new(Shape::new(1, 1, 1)).with_seed(1) };
    let measured = simulate(&config, &workload, &plan, &deployment).expect("it runs");
    measured.memory.expect("it has tables")
}

#[test]
fn a_commit_takes_little_more_than_its_rows() {
    for scheme in SchemeName::ALL {
        let memory = run(scheme, Mix::NewOrder, 800);
        let ratio = memory.fresh_per_commit / memory.rows_per_commit;
        println!("{scheme}: {ratio:.3}, {memory:?}");
        // Ten order lines, an order and a new order, with 8 bytes of header each, and 13 index
        // entries.
        assert!(memory.rows_per_commit > 850.0, "{scheme}: {memory:?}");
        // Old versions of the rows that NewOrder changes are freed, but such a short run does not
        // reuse them.
        if scheme != SchemeName::Mvcc {
            assert!(ratio > 1.0 && ratio < 1.3, "{scheme}: {ratio:.3} times its rows");
        }
        assert!(memory.used_bytes < memory.reserved_bytes, "{scheme}: {memory:?}");
        let longer = run(scheme, Mix::NewOrder, 1_600);
        let grown = (longer.used_bytes - memory.used_bytes) as f64 / 800.0;
        assert!(grown > longer.rows_per_commit * 0.9, "{scheme}: {grown} bytes of use a commit");
    }
}
