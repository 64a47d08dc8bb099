//! TPC-C on the engine: all conditions hold after workers ran at the same time.
#![allow(missing_docs)]

use cc::{DlDetect, Hstore, InstanceOptions, Mvcc, NoWait, Occ, Scheme, Silo, TicToc, WaitDie};
use engine::{Bounds, Database, RowLoader, SchemaBuilder};
use platform::{Hardware, Place, Platform};
use storage::{Optimisation, Without};
use workloads::tpcc::Tpcc;
use workloads::{Outcome, Random, Workload};

type Core = <Hardware as Platform>::Core;

/// Loads, runs `count` transactions in each of `workers`, checks. Gives the nanoseconds of a transaction of one worker.
fn run<S: Scheme<Hardware>>(tpcc: &Tpcc, workers: usize, count: u64) -> u64 {
    run_without::<S>(tpcc, workers, count, Without::NOTHING)
}

/// The same without some optimisations.
fn run_without<S: Scheme<Hardware>>(tpcc: &Tpcc, workers: usize, count: u64, without: Without) -> u64 {
    let c = Hardware::core();
    let options = InstanceOptions {
        sessions_max: 16,
        memory_bytes_max: 4 << 30,
        epoch_nanos: 10_000_000,
        without,
        ..InstanceOptions::default()
    };
    let mut schema = SchemaBuilder::new();
    let tables = tpcc.create(&mut schema);
    let mut database = Database::<Hardware, S>::create(c, &options, schema, &|_| None).expect("memory");
    let load = |c: Core, part: usize| {
        let mut session = database.session(c, None, false).expect("a session");
        let mut progress = |_| {};
        let mut loader = RowLoader::new(&mut session, &mut progress);
        tpcc.load(&tables, part, &mut Random::new(1, part as u64), &mut loader).expect("the part loads");
        loader.finish();
    };
    (0..tpcc.parts()).for_each(|part| load(c, part));
    database.loaded(c).expect("memory");
    let work = |c: Core, worker: usize| {
        let mut session = database.session(c, None, false).expect("a session");
        session.seed(worker as u64);
        let mut random = Random::new(2, 1000 + worker as u64);
        let mut actions = Vec::new();
        for number in 0..count {
            let now = Hardware::now(c);
            if number % 64 == 0 {
                session.tend(now);
            }
            let mut transaction = tpcc.next(worker, &mut random, now.0);
            session.run(&tables, &mut transaction, &mut actions, &Bounds::default()).expect("it ends well");
        }
    };
    let started = Hardware::now(c);
    Hardware::parallel(c, &vec![Place { thread: None }; workers], &work, &mut |_| {});
    let nanos = Hardware::now(c).since(started) / count;
    for check in tpcc.check(&tables, &mut database.inspector(c)) {
        assert_eq!(check.result, Outcome::Ok, "{}", check.name);
    }
    nanos
}

fn small(warehouses: u16) -> Tpcc {
    Tpcc { scale: 0.02, remote_items_percent: 5.0, ..Tpcc::new(warehouses) }
}

#[test]
fn silo_keeps_all_conditions() {
    run::<Silo>(&small(2), 2, 3000);
}

#[test]
fn no_wait_keeps_all_conditions() {
    run::<NoWait>(&small(2), 2, 3000);
}

#[test]
fn silo_with_workers_that_share_a_warehouse() {
    run::<Silo>(&small(1), 4, 2000);
}

#[test]
fn no_wait_with_workers_that_share_a_warehouse() {
    run::<NoWait>(&small(1), 4, 2000);
}

/// What can be left out.
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
    let all = OPTIMISATIONS.iter().fold(Without::NOTHING, |all, one| all.and(*one));
    for one in OPTIMISATIONS {
        run_without::<Silo>(&small(1), 2, 300, Without::NOTHING.and(one));
        run_without::<NoWait>(&small(1), 2, 300, Without::NOTHING.and(one));
    }
    run_without::<Silo>(&small(1), 2, 300, all);
    run_without::<NoWait>(&small(1), 2, 300, all);
}

#[test]
fn wait_die_keeps_all_conditions() {
    run::<WaitDie>(&small(2), 2, 3000);
}

#[test]
fn wait_die_with_workers_that_share_a_warehouse() {
    run::<WaitDie>(&small(1), 4, 2000);
}

#[test]
fn dl_detect_keeps_all_conditions() {
    run::<DlDetect>(&small(2), 2, 3000);
}

#[test]
fn dl_detect_with_workers_that_share_a_warehouse() {
    run::<DlDetect>(&small(1), 4, 2000);
}

#[test]
fn tictoc_keeps_all_conditions() {
    run::<TicToc>(&small(2), 2, 3000);
}

#[test]
fn tictoc_with_workers_that_share_a_warehouse() {
    run::<TicToc>(&small(1), 4, 2000);
}

#[test]
fn occ_keeps_all_conditions() {
    run::<Occ>(&small(2), 2, 3000);
}

#[test]
fn occ_with_workers_that_share_a_warehouse() {
    run::<Occ>(&small(1), 4, 2000);
}

#[test]
fn hstore_keeps_all_conditions() {
    run::<Hstore>(&small(2), 2, 3000);
}

#[test]
fn hstore_with_workers_that_share_a_warehouse() {
    run::<Hstore>(&small(1), 4, 2000);
}

#[test]
fn mvcc_keeps_all_conditions() {
    run::<Mvcc>(&small(2), 2, 3000);
}

#[test]
fn mvcc_with_workers_that_share_a_warehouse() {
    run::<Mvcc>(&small(1), 4, 2000);
}
