//! TATP on the model and on the real engine; each check detects its corruption.

use std::collections::BTreeMap;

use concurrency::SchemeName;
use platform::Hardware;
use sim::{Config, Shape as Machine, VirtualMachine};
use terms::random::Random;
use workloads::tatp::population::Shape;
use workloads::tatp::rows::Tables;
use workloads::tatp::rows::{AccessInfo, CallForwarding, SpecialFacility, Subscriber};
use workloads::tatp::{Answer, CHECKS, Hot, KINDS, Mix, Request, Tatp, Transaction, number};
use workloads::{Outcome, Workload};

use crate::model::{End, Model};
use crate::support::{Load, assert_violated, run_inline};

const TRANSACTIONS: u64 = 3_000;
/// Percent of each transaction that commits, in the order of the kinds, as it follows from the
/// population.
const SUCCESS: [f64; KINDS.len()] = [100.0, 14.79, 62.5, 62.5, 100.0, 31.25, 31.25];

fn small() -> Tatp {
    Tatp { multisite: 0.5, ..Tatp::new(60, 3) }
}

/// The register after some transactions, and the number of commits of each kind.
fn prepared(tatp: &Tatp) -> (Model, Tables, Vec<u64>) {
    let (mut model, tables) = Model::load(tatp, 1);
    let (mut random, mut shuffle) = (Random::new(2, 0), Random::new(3, 0));
    let mut committed = vec![0; KINDS.len()];
    for number in 0..TRANSACTIONS {
        let mut transaction = tatp.next(number as usize % 4, &mut random, number);
        let expected = expected(&model, &tables, &transaction);
        let end = model.run(&tables, &mut transaction, &mut shuffle);
        let told = (end == End::Committed).then_some(&transaction.answer);
        assert_eq!(told, expected.as_ref(), "{transaction:?}");
        committed[Tatp::kind(&transaction)] += u64::from(end == End::Committed);
    }
    (model, tables, committed)
}

/// The answer that the client should get; `None`: the transaction should fail.
fn expected(model: &Model, tables: &Tables, transaction: &Transaction) -> Option<Answer> {
    let place = transaction.place;
    let facility = |wanted: u8| -> Option<SpecialFacility> {
        model.rows(tables.special_facility).find(|row: &SpecialFacility| {
            (row.part, row.s_id, row.sf_type) == (place.part, place.s_id, wanted)
        })
    };
    let forwarding = |wanted: u8| {
        model.rows(tables.call_forwarding).filter(move |row: &CallForwarding| {
            (row.part, row.s_id, row.sf_type) == (place.part, place.s_id, wanted)
        })
    };
    match transaction.request {
        Request::GetSubscriberData => {
            let mut rows = model.rows(tables.subscriber);
            rows.find(|row: &Subscriber| row.s_id == place.s_id).map(Answer::Subscriber)
        }
        Request::GetNewDestination { sf_type, start_time, end_time } => {
            facility(sf_type).filter(|row| row.is_active)?;
            let mut rows = forwarding(sf_type);
            let row = rows.find(|row| row.start_time <= start_time && end_time < row.end_time)?;
            Some(Answer::Destination(row.numberx))
        }
        Request::GetAccessData { ai_type } => {
            let mut rows = model.rows(tables.access_info);
            let row = rows.find(|row: &AccessInfo| (row.s_id, row.ai_type) == (place.s_id, ai_type))?;
            Some(Answer::Access(row.data))
        }
        Request::UpdateSubscriberData { sf_type, .. } => facility(sf_type).map(|_| Answer::Done),
        Request::UpdateLocation { .. } => Some(Answer::Done),
        Request::InsertCallForwarding { sf_type, start_time, .. } => {
            facility(sf_type)?;
            let is_there = forwarding(sf_type).any(|row| row.start_time == start_time);
            (!is_there).then_some(Answer::Done)
        }
        Request::DeleteCallForwarding { sf_type, start_time } => {
            forwarding(sf_type).find(|row| row.start_time == start_time).map(|_| Answer::Done)
        }
    }
}

#[test]
fn clients_are_told_what_is_there() {
    let (model, tables, committed) = prepared(&small());
    assert_eq!(model.count(tables.subscriber), 60);
    assert!(committed.iter().all(|commits| *commits > 0), "{committed:?}");
    let (divided, ..) = prepared(&Tatp { divided: true, ..small() });
    assert_eq!(model.image(), divided.image(), "whole parts do the same as actions of one table each");
}

#[test]
fn changes_are_of_the_rows_that_they_name() {
    let tatp = small();
    let (mut model, tables) = Model::load(&tatp, 1);
    let (mut random, mut shuffle) = (Random::new(4, 0), Random::new(5, 0));
    let mut seen = BTreeMap::new();
    for round in 0..2_000 {
        let mut transaction = tatp.next(round, &mut random, 0);
        if model.run(&tables, &mut transaction, &mut shuffle) != End::Committed {
            continue;
        }
        let place = transaction.place;
        *seen.entry(Tatp::kind(&transaction)).or_insert(0) += 1;
        let subscriber = |model: &Model| {
            let mut rows = model.rows(tables.subscriber);
            rows.find(|row: &Subscriber| row.sub_nbr == number(place.s_id)).expect("it is there")
        };
        match transaction.request {
            Request::UpdateSubscriberData { bit_1, sf_type, data_a } => {
                let mut rows = model.rows(tables.special_facility);
                let row = rows.find(|row: &SpecialFacility| (row.s_id, row.sf_type) == (place.s_id, sf_type));
                assert_eq!((subscriber(&model).bit_1, row.expect("it committed").data_a), (bit_1, data_a));
            }
            Request::UpdateLocation { vlr_location } => {
                assert_eq!(subscriber(&model).vlr_location, vlr_location);
            }
            Request::InsertCallForwarding { sf_type, start_time, end_time, numberx } => {
                let s_id = place.s_id;
                let row = CallForwarding { part: place.part, sf_type, start_time, s_id, end_time, numberx };
                assert!(model.rows(tables.call_forwarding).any(|other: CallForwarding| other == row));
            }
            Request::DeleteCallForwarding { sf_type, start_time } => {
                let key = (place.s_id, sf_type, start_time);
                let mut rows = model.rows(tables.call_forwarding);
                assert!(!rows.any(|row: CallForwarding| (row.s_id, row.sf_type, row.start_time) == key));
            }
            _ => {}
        }
    }
    assert_eq!(seen.len(), KINDS.len());
}

#[test]
fn transactions_fail_as_often_as_the_population_says() {
    let tatp = Tatp::new(20_000, 2);
    let (mut model, tables) = Model::load(&tatp, 1);
    let (mut random, mut shuffle) = (Random::new(6, 0), Random::new(7, 0));
    for (kind, mix) in [
        Mix::GetSubscriberData,
        Mix::GetNewDestination,
        Mix::GetAccessData,
        Mix::UpdateSubscriberData,
        Mix::UpdateLocation,
        Mix::InsertCallForwarding,
        Mix::DeleteCallForwarding,
    ]
    .into_iter()
    .enumerate()
    {
        let tatp = Tatp { mix, ..tatp.clone() };
        // Few enough transactions that insertions and deletions hardly change the population.
        let committed = (0..2_000).filter(|round| {
            let mut transaction = tatp.next(*round, &mut random, 0);
            model.run(&tables, &mut transaction, &mut shuffle) == End::Committed
        });
        let percent = committed.count() as f64 / 20.0;
        assert!((percent - SUCCESS[kind]).abs() < 3.0, "{}: {percent} % succeed", KINDS[kind]);
    }
}

/// Asserts that exactly these checks find the corruption, and that the message of the first
/// contains this.
fn expect(names: &[&str], says: &str, corruption: impl FnOnce(&mut Model, &Tables)) {
    let tatp = small();
    let (mut model, tables, committed) = prepared(&tatp);
    corruption(&mut model, &tables);
    let checks = tatp.check(&tables, &mut model, Some(&committed));
    assert!(checks.iter().map(|check| check.name).eq(CHECKS));
    assert_violated(&checks, names, says);
}

#[test]
fn checks_notice_corruption() {
    expect(&[], "", |_, _| {});
    // Subscriber 25 is of part 1, which has 21 to 40.
    expect(&["tatp_subscribers"], "subscriber 25 is Subscriber", |model, tables| {
        model.corrupt(tables.subscriber, &(1, 25), |row: &mut Subscriber| row.hexes[3] = 16);
    });
    expect(&["tatp_subscribers"], "subscriber 25 is there 0 times", |model, tables| {
        model.remove(tables.subscriber, &(1, 25));
    });
    expect(&["tatp_subscribers"], "subscriber 25 is Subscriber", |model, tables| {
        model.corrupt(tables.subscriber, &(1, 25), |row: &mut Subscriber| row.sub_nbr = number(99));
    });
    let shape = Shape::of(25);
    let first = |types: u8| types.trailing_zeros() as u8 + 1;
    expect(&["tatp_access_info"], "subscriber 25 has access types", |model, tables| {
        model.remove(tables.access_info, &(1, 25, first(shape.access)));
    });
    let unused = |model: &Model, tables: &Tables| {
        let mut rows = model.rows(tables.special_facility);
        rows.find(|row: &SpecialFacility| {
            !model.rows(tables.call_forwarding).any(|forwarding: CallForwarding| {
                (forwarding.s_id, forwarding.sf_type) == (row.s_id, row.sf_type)
            })
        })
    };
    expect(&["tatp_special_facilities"], "has special facilities", |model, tables| {
        let SpecialFacility { part, s_id, sf_type, .. } = unused(model, tables).expect("there is one");
        model.remove(tables.special_facility, &(part, s_id, sf_type));
    });
}

#[test]
fn checks_notice_calls_that_go_astray() {
    let first = |model: &Model, tables: &Tables| -> CallForwarding {
        model.rows(tables.call_forwarding).next().expect("there is one")
    };
    // A facility that is missing although calls use it.
    expect(
        &["tatp_special_facilities", "tatp_call_forwarding"],
        "has special facilities",
        |model, tables| {
            let CallForwarding { part, s_id, sf_type, .. } = first(model, tables);
            model.remove(tables.special_facility, &(part, s_id, sf_type));
        },
    );
    expect(&["tatp_call_forwarding"], "is not of the kind that is inserted", |model, tables| {
        let CallForwarding { part, s_id, sf_type, start_time, .. } = first(model, tables);
        let key = (part, s_id, sf_type, start_time);
        model.corrupt(tables.call_forwarding, &key, |row: &mut CallForwarding| row.end_time = start_time);
    });
    // A deletion that did not happen, or happened twice; an insertion that is lost.
    expect(&["tatp_changes"], "rows of CALL_FORWARDING where", |model, tables| {
        let CallForwarding { part, s_id, sf_type, start_time, .. } = first(model, tables);
        model.remove(tables.call_forwarding, &(part, s_id, sf_type, start_time));
    });
    let tatp = small();
    let (mut model, tables, _) = prepared(&tatp);
    let checks = tatp.check(&tables, &mut model, None);
    let reason = "what earlier runs have committed is not known".to_owned();
    assert_eq!(checks[4].result, Outcome::NotApplicable(reason));
}

fn every_scheme(tatp: &Tatp) {
    for scheme in SchemeName::ALL {
        let load = Load { workers: 3, transactions: 600, seed: 7 };
        let inline = harness::dynamic;
        let ran = run_inline::<Hardware, _>(
            Hardware::core(),
            scheme,
            tatp.clone(),
            &load,
            |_| 0,
            inline,
            |_, _| (),
        );
        ran.assert_consistent();
        let rollbacks: u64 = ran.measured.kinds.iter().map(|(_, kind)| kind.rollbacks).sum();
        assert_eq!(ran.committed.iter().sum::<u64>() + rollbacks, 1_800, "{scheme}: {ran:?}");
        assert!(rollbacks > 300, "{scheme}: {rollbacks}");
        let load = Load { transactions: 80, ..load };
        let config = Config::new(Machine::new(2, 2, 1)).with_seed(9).perturbed();
        let simulated = VirtualMachine::run(&config, |c| {
            run_inline::<VirtualMachine, _>(
                c,
                scheme,
                tatp.clone(),
                &load,
                |_| 0,
                harness::dynamic,
                |_, _| (),
            )
        });
        simulated.expect("it ends").value.assert_consistent();
    }
}

#[test]
fn every_scheme_keeps_the_register() {
    every_scheme(&small());
    // Few rows, of which some are hot.
    let hot = Some(Hot { requests: 0.9, data: 0.1 });
    every_scheme(&Tatp { hot, mix: Mix::InsertCallForwarding, ..small() });
}

#[test]
fn wrong_parameters_are_refused() {
    let refused = |tatp: Tatp| tatp.validate().expect_err("refused");
    assert!(refused(Tatp::new(2, 3)).contains("2 subscribers in 3 parts"));
    assert!(refused(Tatp::new(0, 0)).contains("0 parts"));
    assert!(refused(Tatp { multisite: 1.5, ..small() }).contains("multisite: 1.5"));
    assert!(refused(Tatp { hot: Some(Hot { requests: 0.5, data: 0.0 }), ..small() }).contains("hot: 0.5:0"));
}
