//! YCSB on the real engine: on this machine and on the virtual one, under all schemes.

use boundary::Database;
use concurrency::SchemeName;
use harness::Host;
use platform::{Hardware, Platform};
use schema::Inspector;
use sim::{Config, Shape, VirtualMachine};
use workloads::batch::Grouping;
use workloads::ycsb::procedure::Verb;
use workloads::ycsb::rows::{Record, YcsbTables};
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbTransaction, YcsbWorkload};

use crate::support::{Load, Ran, run};

const ALL: [YcsbWorkload; 6] =
    [YcsbWorkload::A, YcsbWorkload::B, YcsbWorkload::C, YcsbWorkload::D, YcsbWorkload::E, YcsbWorkload::F];

fn count(procedure: &YcsbTransaction, verb: Verb) -> u64 {
    procedure.requests().filter(|request| request.verb == verb).count() as u64
}

/// Insertions in the high half, read-modify-writes in the low half.
fn effects(procedure: &YcsbTransaction) -> u64 {
    count(procedure, Verb::Insert) << 32 | count(procedure, Verb::Modify)
}

/// Records, and the sum of all stamps.
fn contents<P: Platform>(c: P::Core, database: &Database<P>, tables: &YcsbTables) -> (u64, u64) {
    let (mut records, mut stamps) = (0, 0);
    database.inspector(c).scan(tables.records.primary(), &0, &u64::MAX, &mut |row: &Record| {
        records += 1;
        stamps += row.content.stamps();
    });
    (records, stamps)
}

/// Runs, and checks that exactly the committed insertions and read-modify-writes have had an
/// effect.
fn checked<P: Host>(c: P::Core, scheme: SchemeName, spec: &YcsbSpec, load: &Load) -> Ran {
    let ycsb = Ycsb::new(spec.clone()).expect("valid");
    let (mut records, mut stamps) = (0, 0);
    let ran = run::<P, _>(c, scheme, ycsb, load, effects, |database, tables| {
        (records, stamps) = contents(c, database, tables);
    });
    ran.assert_consistent();
    assert_eq!(records, spec.records + (ran.counted >> 32));
    match spec.workload {
        YcsbWorkload::F => assert_eq!(stamps, ran.counted & 0xffff_ffff),
        YcsbWorkload::A | YcsbWorkload::B => assert!(stamps > 0),
        _ => assert_eq!(stamps, 0),
    }
    ran
}

fn hardware(scheme: SchemeName, spec: &YcsbSpec) -> Ran {
    let load = Load { workers: 2, transactions: 200, seed: 5 };
    checked::<Hardware>(Hardware::core(), scheme, spec, &load)
}

fn simulated(scheme: SchemeName, spec: &YcsbSpec) -> Ran {
    let config = Config::new(Shape::new(2, 2, 1)).with_seed(9).perturbed();
    let load = Load { workers: 4, transactions: 60, seed: 5 };
    let outcome = VirtualMachine::run(&config, |c| checked::<VirtualMachine>(c, scheme, spec, &load));
    outcome.expect("the run ends").value
}

fn spec(workload: YcsbWorkload, partitions: u16, grouping: Grouping) -> YcsbSpec {
    YcsbSpec { workload, records: 1500, partitions, grouping, ..YcsbSpec::default() }
}

/// All schemes, each with both groupings in turn.
fn groupings(workload: YcsbWorkload) -> impl Iterator<Item = (SchemeName, Grouping)> {
    let groupings = [Grouping::Together, Grouping::ByPartition].into_iter().cycle();
    SchemeName::ALL.into_iter().zip(groupings.skip(workload as usize % 2))
}

#[test]
fn all_workloads_hold_on_hardware() {
    for workload in ALL {
        let ran = hardware(SchemeName::Silo, &spec(workload, 2, Grouping::Together));
        let inserts = matches!(workload, YcsbWorkload::D | YcsbWorkload::E);
        assert_eq!(ran.counted >> 32 > 0, inserts);
        for (scheme, grouping) in groupings(workload) {
            hardware(scheme, &self::spec(workload, 2, grouping));
        }
    }
}

#[test]
fn all_workloads_hold_in_the_virtual_machine() {
    for workload in ALL {
        let spec = spec(workload, 4, Grouping::ByPartition);
        let ran = simulated(SchemeName::Silo, &spec);
        assert_eq!(ran, simulated(SchemeName::Silo, &spec), "the same seed gives the same run");
        for (scheme, grouping) in groupings(workload) {
            simulated(scheme, &YcsbSpec { grouping, ..spec.clone() });
        }
    }
}

#[test]
fn contention_is_real_and_loses_nothing() {
    let spec = YcsbSpec { records: 20, ..spec(YcsbWorkload::F, 1, Grouping::Together) };
    let silo = simulated(SchemeName::Silo, &spec);
    let locking = simulated(SchemeName::NoWait, &spec);
    assert!(silo.aborts > 0 && locking.aborts > 0, "{silo:?} {locking:?}");
    assert!(simulated(SchemeName::TicToc, &spec).aborts > 0 && simulated(SchemeName::Occ, &spec).aborts > 0);
}

#[test]
fn reading_is_faster_than_updating_hot_records() {
    let read = simulated(SchemeName::Silo, &spec(YcsbWorkload::C, 4, Grouping::Together));
    let update =
        simulated(SchemeName::Silo, &YcsbSpec { zipf: 1.2, ..spec(YcsbWorkload::A, 4, Grouping::Together) });
    assert!(read.throughput() > 1.2 * update.throughput(), "{} {}", read.throughput(), update.throughput());
}
