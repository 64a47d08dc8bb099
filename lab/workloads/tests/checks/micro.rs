//! The microbenchmark on the real engine: on this machine and on the virtual one, under all
//! schemes.

use boundary::{Database, Verbs};
use concurrency::SchemeName;
use platform::{Hardware, Intent, Platform};
use schema::Inspector;
use sim::{Config, Shape, VirtualMachine};
use workloads::batch::{Grouping, key};
use workloads::micro::rows::{CountedRow, MicroTables};
use workloads::micro::{Micro, MicroError, MicroSpec, MicroTransaction, Operation, RowIndex, Skew};
use workloads::{Outcome, Workload};

use crate::support::{Load, Ran, run};

fn updates(procedure: &MicroTransaction) -> u64 {
    procedure.requests().filter(|request| request.update).count() as u64
}

fn spec(operation: Operation, sites: u16) -> MicroSpec {
    MicroSpec { operation, sites, rows_per_site: 200, multisite: 0.3, ..MicroSpec::default() }
}

fn hardware(scheme: SchemeName, spec: MicroSpec) -> Ran {
    let micro = Micro::new(spec).expect("valid");
    let load = Load { workers: 2, transactions: 2000, seed: 7 };
    run::<Hardware, _>(Hardware::core(), scheme, micro, &load, updates, |_, _| ())
}

fn simulated(scheme: SchemeName, spec: MicroSpec) -> Ran {
    let micro = Micro::new(spec).expect("valid");
    let config = Config::new(Shape::new(2, 2, 1)).with_seed(3).perturbed();
    let load = Load { workers: 4, transactions: 150, seed: 7 };
    let outcome = VirtualMachine::run(&config, |c| {
        run::<VirtualMachine, _>(c, scheme, micro.clone(), &load, updates, |_, _| ())
    });
    outcome.expect("the run ends").value
}

#[test]
fn updates_are_counted_on_hardware() {
    for operation in [Operation::Read, Operation::Update, Operation::Mixed] {
        let silo = hardware(SchemeName::Silo, spec(operation, 2));
        silo.assert_consistent();
        assert!(
            silo.committed.iter().all(|count| *count > 500) && silo.committed.iter().sum::<u64>() == 4000
        );
        assert_eq!(silo.counted > 0, operation != Operation::Read);
        SchemeName::ALL
            .into_iter()
            .for_each(|scheme| hardware(scheme, spec(operation, 2)).assert_consistent());
    }
}

#[test]
fn updates_are_counted_in_the_virtual_machine() {
    for operation in [Operation::Read, Operation::Update, Operation::Mixed] {
        let silo = simulated(SchemeName::Silo, spec(operation, 4));
        silo.assert_consistent();
        assert_eq!(silo.aborts > 0, operation != Operation::Read, "{silo:?}");
        assert_eq!(silo, simulated(SchemeName::Silo, spec(operation, 4)));
        SchemeName::ALL
            .into_iter()
            .for_each(|scheme| simulated(scheme, spec(operation, 4)).assert_consistent());
    }
}

#[test]
fn every_layout_index_skew_and_grouping_runs() {
    for (row_bytes, index, skew, grouping) in [
        (80, RowIndex::Ordered, Skew::Zipf(1.0), Grouping::Together),
        (250, RowIndex::Ordered, Skew::Hot { requests: 0.8, data: 0.2 }, Grouping::ByPartition),
        (1500, RowIndex::Hash, Skew::Zipf(0.5), Grouping::Together),
        (100, RowIndex::Hash, Skew::Hot { requests: 0.5, data: 1.0 }, Grouping::Together),
        (1, RowIndex::Hash, Skew::Zipf(0.0), Grouping::ByPartition),
    ] {
        let spec = MicroSpec { row_bytes, index, skew, grouping, rows: 20, ..spec(Operation::Mixed, 3) };
        hardware(SchemeName::Silo, spec.clone()).assert_consistent();
        simulated(SchemeName::NoWait, spec).assert_consistent();
    }
}

/// The checks detect an update that no transaction committed, and a lost row.
#[test]
fn damage_is_noticed() {
    let spec = MicroSpec { multisite: 0.0, ..spec(Operation::Update, 2) };
    let micro = Micro::new(spec).expect("valid");
    let load = Load { workers: 1, transactions: 10, seed: 1 };
    let c = Hardware::core();
    let damage = |database: &Database<Hardware>, tables: &MicroTables| {
        let MicroTables::Usual(table) = tables else { panic!("250 bytes have a layout of their own") };
        let committed = [10, 0];
        let results = || -> Vec<bool> {
            let checks = micro.check(tables, &mut database.inspector(c), Some(&committed));
            checks.into_iter().map(|check| check.result == Outcome::Ok).collect()
        };
        let counter = database.inspector(c).row(table.primary(), &key(1, 5)).expect("loaded").counter();
        change(c, database, |transaction| {
            let row = transaction.find(table.primary(), &key(1, 5), Intent::Write)?.expect("loaded");
            transaction.put(row, CountedRow::COUNTER, &(counter + 1))
        });
        assert_eq!(results(), [true, false]);
        change(c, database, |transaction| {
            let row = transaction.find(table.primary(), &key(1, 5), Intent::Write)?.expect("loaded");
            transaction.delete(row)
        });
        assert!(!results()[0]);
    };
    run::<Hardware, _>(c, SchemeName::Silo, micro.clone(), &load, updates, damage).assert_consistent();
}

fn change<P: Platform>(
    c: P::Core,
    database: &Database<P>,
    body: impl FnMut(&mut boundary::Transaction<'_>) -> Result<(), terms::Abort>,
) {
    let mut session = database.session(c, None, false).expect("a session");
    session.transact(&boundary::Bounds::default(), body).expect("it commits");
}

#[test]
fn wrong_parameters_are_refused() {
    let refused = |spec| Micro::new(spec).expect_err("refused");
    assert_eq!(refused(MicroSpec { rows: 0, ..MicroSpec::default() }), MicroError::Empty);
    assert_eq!(
        refused(MicroSpec { rows_per_site: 9, ..MicroSpec::default() }),
        MicroError::TooFewRows { rows: 10, available: 9 }
    );
    assert!(matches!(
        refused(MicroSpec { multisite: 1.5, ..MicroSpec::default() }),
        MicroError::OutOfRange(_)
    ));
    assert!(matches!(
        refused(MicroSpec { skew: Skew::Zipf(f64::NAN), ..MicroSpec::default() }),
        MicroError::OutOfRange(_)
    ));
}
