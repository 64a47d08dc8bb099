//! The homes that procedures report are those of their first phase, and can be divided over
//! instances.

use std::collections::BTreeSet;

use boundary::{Plan, Procedure, SchemaBuilder};
use schema::Routes;
use terms::random::Random;
use workloads::Workload;
use workloads::batch::Grouping;
use workloads::dependent::Dependent;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::{Mix, Tpcc};
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

/// Transactions of each workload.
const TRANSACTIONS: usize = 2_000;
const PARTS: u16 = 5;

/// Compares the homes that procedures report with the routes of their actions; returns the number
/// of procedures that touch several parts.
fn several<W: Workload>(workload: &W) -> usize {
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let divisions = schema.divisions();
    let mut random = Random::new(1, 2);
    let (mut several, mut actions) = (0, Vec::new());
    for number in 0..TRANSACTIONS {
        let mut procedure = workload.next(number % usize::from(PARTS), &mut random, 1);
        let (mut said, mut planned) = (BTreeSet::new(), BTreeSet::new());
        let says = procedure.homes(&mut |column| {
            said.insert(column);
        });
        assert!(says);
        actions.clear();
        assert_eq!(procedure.plan(0, &mut actions), Plan::Run);
        for action in &actions {
            let mut routes = Routes::new();
            W::Procedure::route(&tables, action, &mut routes);
            let home = routes.home().expect("an action belongs somewhere");
            assert!(!divisions[home.table].read_only, "nobody is at home in a table that is only read");
            planned.insert(home.keys.partition_columns().0);
            for route in routes.entries().iter().filter(|route| !divisions[route.table].read_only) {
                assert_eq!(route.keys.partition_columns(), home.keys.partition_columns(), "{action:?}");
            }
        }
        assert_eq!(said, planned);
        several += usize::from(said.len() > 1);
    }
    several
}

#[test]
fn procedures_say_where_they_belong() {
    for mix in [Mix::Full, Mix::Narrow, Mix::OrderStatus, Mix::Delivery, Mix::StockLevel] {
        let tpcc = Tpcc { mix, scale: 0.01, remote_items_percent: 5.0, ..Tpcc::new(PARTS) };
        assert_eq!(several(&tpcc) > 0, matches!(mix, Mix::Full | Mix::Narrow));
        assert_eq!(tpcc.undivided(), None);
    }
    let crossing = several(&Tpcb { scale: 0.01, ..Tpcb::new(PARTS) });
    assert!(crossing > TRANSACTIONS / 10 && crossing < TRANSACTIONS / 5, "{crossing}");
    let spec =
        MicroSpec { operation: Operation::Mixed, sites: PARTS, multisite: 0.3, ..MicroSpec::default() };
    let crossing = several(&Micro::new(spec).expect("valid"));
    assert!(crossing > TRANSACTIONS / 5 && crossing < TRANSACTIONS / 2, "{crossing}");
    // A subscriber is of one part, and so are two rows that depend on each other.
    let dependent =
        Dependent { sites: PARTS, rows_per_site: 50, multisite: 0.5, divided: true, placement: None };
    assert_eq!(several(&dependent), 0);
    assert_eq!(several(&Tatp { multisite: 0.5, divided: true, ..Tatp::new(100, PARTS) }), 0);
    for workload in [YcsbWorkload::A, YcsbWorkload::B, YcsbWorkload::C, YcsbWorkload::F] {
        let grouping = Grouping::ByPartition;
        let spec = YcsbSpec { workload, records: 1_000, partitions: PARTS, grouping, ..YcsbSpec::default() };
        let ycsb = Ycsb::new(spec).expect("valid");
        assert!(several(&ycsb) > 0 && ycsb.undivided().is_none());
    }
    for workload in [YcsbWorkload::D, YcsbWorkload::E] {
        let spec = YcsbSpec { workload, records: 1_000, partitions: PARTS, ..YcsbSpec::default() };
        assert!(Ycsb::new(spec).expect("valid").undivided().is_some());
    }
}
