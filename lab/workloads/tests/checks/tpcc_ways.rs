//! The other ways of TPC-C's transactions: accesses in another order, or with less protection.

use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, SchemeName, TimestampDraws};
use harness::{Check, Control, Deployment, Execution, Length, Plan, Retry};
use platform::Node;
use schema::KeyBuffer;
use sim::{Config, Shape, VirtualMachine};
use storage::{Optimisation, Optimisations};
use terms::random::Random;
use workloads::tpcc::{CONDITIONS, HotRows, Mix, Stocks, Tables, Tpcc, Transaction, Ways};
use workloads::{Outcome, Workload};

use crate::model::Model;

fn small(ways: Ways) -> Tpcc {
    Tpcc {
        scale: 0.01,
        remote_items_percent: 20.0,
        remote_payment_percent: 30.0,
        mix: Mix::Narrow,
        ways,
        ..Tpcc::new(3)
    }
}

/// The reason why a condition does not apply.
const NO_INDEX: &str = "inserted rows are in no index";

/// All ways of a published program.
const OTHER: Ways =
    Ways { hot_rows: HotRows::Early, stocks: Stocks::Drawn, index_inserts: false, unvalidated_reads: true };

/// Runs transactions in the order of their plans, and passes each to `see` with the rows that it
/// found to write.
fn watch(ways: Ways, mut see: impl FnMut(&Tables, &Transaction, &[(usize, KeyBuffer)])) {
    let tpcc = small(ways);
    let (mut model, tables) = Model::load(&tpcc, 1);
    let mut random = Random::new(3, 0);
    let mut kinds = [0; 2];
    for number in 0..300 {
        let mut transaction = tpcc.next(number % 5, &mut random, 1);
        let written = model.written_by(&tables, &mut transaction);
        kinds[Tpcc::kind(&transaction)] += 1;
        see(&tables, &transaction, &written);
    }
    assert!(kinds.iter().all(|count| *count > 50), "{kinds:?}");
}

#[test]
fn hot_rows_come_last_or_first() {
    for hot_rows in [HotRows::Late, HotRows::Early] {
        watch(Ways { hot_rows, ..Ways::default() }, |tables, transaction, written| {
            let (warehouse, district) = (tables.warehouse.number(), tables.district.number());
            let order: Vec<usize> = written.iter().map(|(table, _)| *table).collect();
            let (first, last) = (&order[..2], &order[order.len() - 2..]);
            match (transaction, hot_rows) {
                (Transaction::Payment(_), HotRows::Late) => assert_eq!(last, [district, warehouse]),
                (Transaction::Payment(_), HotRows::Early) => assert_eq!(first, [warehouse, district]),
                (_, HotRows::Late) => assert_eq!(last, [tables.stock.number(), district]),
                (_, HotRows::Early) => assert_eq!(first, [district, tables.stock.number()]),
            }
        });
    }
}

#[test]
fn stocks_are_taken_as_they_are_sorted_or_drawn() {
    let mut unsorted = 0;
    for stocks in [Stocks::Sorted, Stocks::Drawn] {
        watch(Ways { stocks, ..Ways::default() }, |tables, transaction, written| {
            let Transaction::NewOrder(order) = transaction else { return };
            let taken = written.iter().filter(|(table, _)| *table == tables.stock.number());
            let taken: Vec<KeyBuffer> = taken.map(|(_, key)| *key).collect();
            let mut wanted: Vec<_> = order.lines.iter().collect();
            if stocks == Stocks::Drawn {
                assert!(order.lines.is_sorted_by_key(|line| line.number));
            } else {
                wanted.sort_by_key(|line| (line.supply_w_id, line.i_id));
            }
            // A line of an unused item has no stock; a stock of two consecutive lines is accessed
            // once.
            wanted.retain(|line| Some(line.number) != order.unused);
            let mut wanted: Vec<KeyBuffer> =
                wanted.iter().map(|line| KeyBuffer::of(&(line.supply_w_id, line.i_id))).collect();
            wanted.dedup();
            assert_eq!(taken, wanted, "{stocks}");
            unsorted += usize::from(!taken.is_sorted());
        });
    }
    assert!(unsorted > 50, "{unsorted}");
}

#[test]
fn names_are_those_of_the_command_line() {
    assert_eq!(("early".parse(), "drawn".parse()), (Ok(HotRows::Early), Ok(Stocks::Drawn)));
    assert_eq!("soon".parse::<HotRows>().unwrap_err().to_string(), "soon: expected one of late, early");
    assert_eq!(format!("{} {}", HotRows::Late, Stocks::Sorted), "late sorted");
}

/// Runs in a virtual machine of two memory nodes, with four workers.
fn simulated(scheme: SchemeName, tpcc: &Tpcc, execution: Execution, seed: u64) {
    let plan = Plan { seed, execution, ..Plan::new(scheme, Length::Transactions(60)) };
    planned(tpcc, &plan);
}

fn planned(tpcc: &Tpcc, plan: &Plan) {
    let (scheme, seed) = (plan.scheme, plan.seed);
    let deployment = Deployment::unpinned(4, 1 << 30).with_nodes(&[Node(0), Node(1)]);
    let workload = harness::Workload::Tpcc(tpcc.clone());
    let config = Config::new(Shape::new(2, 2, 1)).with_seed(seed).perturbed();
    let run = VirtualMachine::run(&config, |c| {
        harness::in_virtual_machine(c, &workload, plan, &deployment, Control::NONE)
    });
    let measured = run.expect("it ends").value.unwrap_or_else(|error| panic!("{scheme}: {error}"));
    assert!(measured.kinds.iter().map(|(_, kind)| kind.commits).sum::<u64>() > 200, "{scheme}");
    assert_eq!(measured.checks.len(), CONDITIONS.len());
    for ((name, check), condition) in measured.checks.into_iter().zip(1..) {
        let expected = match tpcc.ways.index_inserts || matches!(condition, 1 | 12) {
            true => Check::Ok,
            false => Check::NotApplicable(NO_INDEX.to_owned()),
        };
        assert_eq!(check, expected, "{scheme} {tpcc:?}: {name}");
    }
}

#[test]
fn every_order_keeps_all_conditions_under_every_scheme() {
    let all = [HotRows::Late, HotRows::Early].into_iter();
    let all = all.flat_map(|hot_rows| [Stocks::Sorted, Stocks::Drawn].map(|stocks| (hot_rows, stocks)));
    for (seed, (hot_rows, stocks)) in (1..).zip(all) {
        let full = Tpcc { mix: Mix::Full, ..small(Ways { hot_rows, stocks, ..Ways::default() }) };
        let narrow = Tpcc { mix: Mix::Narrow, ..full.clone() };
        for scheme in SchemeName::ALL {
            // Each order is combined with each mix and each executor.
            let (shuffled, inline) = if seed % 2 == 0 { (&full, &narrow) } else { (&narrow, &full) };
            simulated(scheme, &Tpcc { warehouses: 2, ..shuffled.clone() }, Execution::Shuffled, seed);
            simulated(scheme, &Tpcc { warehouses: 1, ..inline.clone() }, Execution::Inline, seed);
        }
    }
}

#[test]
fn rows_in_no_index_are_not_found_and_not_judged() {
    let tpcc = small(Ways { index_inserts: false, ..Ways::default() });
    let (mut model, tables) = Model::load(&tpcc, 4);
    let before = model.count(tables.order_line) + model.count(tables.history);
    let (mut random, mut shuffle) = (Random::new(9, 0), Random::new(9, 1));
    for number in 0..500 {
        model.run(&tables, &mut tpcc.next(number % 3, &mut random, 1), &mut shuffle);
    }
    assert_eq!(model.count(tables.order_line) + model.count(tables.history), before);
    for (check, condition) in tpcc.check(&tables, &mut model, None).iter().zip(1..) {
        let expected = match condition {
            1 | 12 => Outcome::Ok,
            _ => Outcome::NotApplicable(NO_INDEX.to_owned()),
        };
        assert_eq!(check.result, expected, "{}", check.name);
    }
    // The two remaining conditions can fail.
    model.corrupt(tables.warehouse, &2, |row| row.totals.ytd += 1);
    model.corrupt(tables.customer, &(1, 1, 1), |row| row.account.balance += 1);
    let checks = tpcc.check(&tables, &mut model, None);
    assert!([0, 11].iter().all(|number| matches!(checks[*number].result, Outcome::Violated(_))));
}

#[test]
fn mixes_that_look_for_inserts_have_them_in_indexes() {
    for mix in Mix::ALL {
        let tpcc = Tpcc { mix, ..small(Ways { index_inserts: false, ..Ways::default() }) };
        let accepted = matches!(mix, Mix::Narrow | Mix::Payment | Mix::NewOrder);
        assert_eq!(tpcc.validate().is_ok(), accepted, "{mix}");
    }
}

#[test]
fn every_other_way_keeps_what_can_be_judged_under_every_scheme() {
    let ways = [
        OTHER,
        Ways { index_inserts: false, ..Ways::default() },
        Ways { unvalidated_reads: true, ..Ways::default() },
        Ways { index_inserts: true, ..OTHER },
    ];
    for (seed, ways) in (1..).zip(ways) {
        for scheme in SchemeName::ALL {
            let warehouses = |warehouses| Tpcc { warehouses, ..small(ways) };
            simulated(scheme, &warehouses(1 + seed as u16 % 2), Execution::Shuffled, seed);
            simulated(scheme, &warehouses(2 - seed as u16 % 2), Execution::Inline, seed + 10);
        }
    }
    // The full mix writes more columns, and those that NewOrder reads besides.
    for scheme in SchemeName::ALL {
        let ways = Ways { index_inserts: true, ..OTHER };
        let tpcc = Tpcc { mix: Mix::Full, warehouses: 1, ..small(ways) };
        simulated(scheme, &tpcc, Execution::Inline, 21);
    }
}

/// Combines the ways of the transactions with those of the engine, with and without the proofs that
/// Isles uses instead of assumptions.
#[test]
fn a_program_s_ways_keep_what_can_be_judged_under_every_scheme() {
    let ways = concurrency::Ways {
        row_lock: RowLock::Latch,
        row_copies: RowCopies::Rows,
        commit_locks: CommitLocks::NoWait,
        deadlocks: Deadlocks::Lists,
        timestamp_draws: TimestampDraws::Published,
    };
    for scheme in SchemeName::ALL {
        for seed in 1..=2 {
            let optimisations = match seed % 2 {
                0 => Optimisations::ALL.without(Optimisation::ReadOnlySkip),
                _ => Optimisations::ALL,
            };
            let retry = Retry::Buffer;
            let plan =
                Plan { seed, ways, retry, optimisations, ..Plan::new(scheme, Length::Transactions(60)) };
            planned(&Tpcc { warehouses: 1, ..small(OTHER) }, &plan);
            let full = Ways { index_inserts: true, ..OTHER };
            planned(&Tpcc { warehouses: 1, mix: Mix::Full, ..small(full) }, &plan);
        }
    }
}
