//! Flows are what procedures do: on the model, with transactions that roll back.

use std::collections::BTreeMap;

use boundary::{Procedure, SchemaBuilder};
use terms::random::Random;
use workloads::Workload;
use workloads::batch::Grouping;
use workloads::dependent::Dependent;
use workloads::flow::{Flow, Touch, flows};
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tatp::{KINDS, Tatp};
use workloads::tpcc::Tpcc;

use crate::model::{End, Model};

const SAMPLES: u64 = 2_000;

/// The flows, and the names of the tables by number.
fn of<W: Workload>(workload: &W) -> (Vec<Flow>, Vec<String>) {
    let (mut model, tables) = Model::load(workload, 1);
    let before = model.image();
    let (mut random, mut shuffle) = (Random::new(2, 0), Random::new(3, 0));
    let flows = flows(workload, &tables, SAMPLES, workload.parts(), &mut random, |traced| {
        assert_eq!(model.run(&tables, traced, &mut shuffle), End::RolledBack);
        Ok(())
    });
    assert_eq!(model.image(), before, "samples leave nothing");
    let flows = flows.expect("nobody interferes");
    assert_eq!(flows.len(), workload.kinds().len());
    assert_eq!(flows.iter().map(|flow| flow.samples).sum::<u64>(), SAMPLES);
    (flows, names(workload))
}

fn names<W: Workload>(workload: &W) -> Vec<String> {
    let mut schema = SchemaBuilder::new();
    let _: <W::Procedure as Procedure>::Tables = workload.create(&mut schema);
    schema.descriptions().map(|table| table.name().to_owned()).collect()
}

/// The tables of each class of actions of each phase, with `+` after those that are written.
fn drawn(flow: &Flow, names: &[String]) -> Vec<Vec<String>> {
    let table = |touch: &Touch| format!("{}{}", names[touch.table], if touch.writes { "+" } else { "" });
    let class = |touches: &[Touch]| touches.iter().map(table).collect::<Vec<_>>().join(" ");
    let phase =
        |phase: &workloads::flow::Phase| phase.actions.iter().map(|one| class(&one.touches)).collect();
    flow.phases.iter().map(phase).collect()
}

#[test]
fn tatp_has_an_action_a_table() {
    let (flows, names) = of(&Tatp::new(500, 2));
    let drawn: BTreeMap<&str, Vec<Vec<String>>> =
        KINDS.into_iter().zip(flows.iter().map(|flow| drawn(flow, &names))).collect();
    assert_eq!(drawn["GetSubscriberData"], [["subscriber"]]);
    assert_eq!(drawn["GetNewDestination"], [["special_facility", "call_forwarding"]]);
    assert_eq!(drawn["GetAccessData"], [["access_info"]]);
    assert_eq!(drawn["UpdateSubscriberData"], [["subscriber+", "special_facility+"]]);
    assert_eq!(drawn["UpdateLocation"], [["subscriber+"]]);
    assert_eq!(drawn["InsertCallForwarding"], [["subscriber"], ["special_facility"], ["call_forwarding+"]]);
    assert_eq!(drawn["DeleteCallForwarding"], [["subscriber"], ["call_forwarding+"]]);
    // A row is inserted if there is a facility of the type: 62.5 % of the time.
    let insertion = &flows[5];
    let shares: Vec<f64> = insertion.phases.iter().map(|phase| phase.share).collect();
    assert!(shares[..2] == [1.0, 1.0] && (0.4..0.85).contains(&shares[2]), "{shares:?}");
    let row = &flows[0].phases[0].actions[0];
    assert!(row.count == 1.0 && row.bytes < 16.0 && row.output_bytes > 40.0, "{row:?}");
}

#[test]
fn whole_parts_are_one_action() {
    let (flows, names) = of(&Tatp { divided: true, ..Tatp::new(500, 2) });
    let insertion = drawn(&flows[5], &names);
    assert_eq!(insertion, [["call_forwarding+ subscriber special_facility"]]);
}

#[test]
fn a_row_waits_for_the_one_that_it_depends_on() {
    let dependent =
        Dependent { sites: 2, rows_per_site: 50, multisite: 0.5, divided: false, placement: None };
    let (flows, names) = of(&dependent);
    assert!(flows.iter().all(|flow| drawn(flow, &names) == [["first"], ["second"]]));
}

#[test]
fn payments_meet_before_history_is_written() {
    let (flows, names) = of(&Tpcc { scale: 0.01, remote_payment_percent: 40.0, ..Tpcc::new(2) });
    let payment = drawn(&flows[1], &names);
    assert_eq!(payment.len(), 2);
    assert!(payment[0].iter().any(|tables| tables.starts_with("customer+")), "{payment:?}");
    assert!(payment[0].iter().any(|tables| tables.contains("warehouse+")), "{payment:?}");
    assert_eq!(payment[1], ["history+"]);
    // OrderStatus only reads, in one action.
    assert!(flows[2].phases.iter().all(|phase| phase.actions.iter().all(|one| one.count == 1.0)));
    assert!(!drawn(&flows[2], &names).concat().concat().contains('+'));
}

#[test]
fn the_microbenchmark_has_an_action_a_site() {
    let spec = MicroSpec {
        operation: Operation::Update,
        sites: 4,
        rows: 6,
        rows_per_site: 100,
        multisite: 0.5,
        grouping: Grouping::ByPartition,
        ..MicroSpec::default()
    };
    let (flows, names) = of(&Micro::new(spec).expect("valid"));
    for (flow, actions) in flows.iter().zip([1.0..1.001, 2.0..4.0]) {
        assert_eq!(drawn(flow, &names), [["micro+"]]);
        assert!(actions.contains(&flow.phases[0].actions[0].count), "{flow:?}");
    }
}
