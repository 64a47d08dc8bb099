//! Benchmark workloads at a small scale: loaded, run by all workers, and checked.
//!
//! Half of the seeds run through the executor that shuffles the actions of a phase and passes values as bytes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cc::{InstanceOptions, Scheme};
use engine::testing::{Shuffle, run_shuffled};
use engine::{Database, Ending, Procedure, RowLoader, SchemaBuilder};
use platform::{Place, Platform};
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tpcc::Tpcc;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};
use workloads::{Outcome, Random, Workload};

use crate::trial::{Observed, Trial, bounds};

/// Bytes of rows and indexes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
const EPOCH_NANOS: u64 = 20_000;
/// Rows of a site: few, so that transactions meet.
const ROWS_PER_SITE: u64 = 40;
const RECORDS: u64 = 200;
/// Cardinalities of TPC-C relative to the specification.
const TPCC_SCALE: f64 = 0.01;
/// Transactions of each worker.
const TRANSACTIONS: u64 = 20;
/// The same on hardware, where they overlap less.
const TRANSACTIONS_ON_HARDWARE: u64 = 400;

/// TPC-C: by the seed, a warehouse for each worker or one for all.
pub(crate) fn tpcc<P: Platform, S: Scheme<P>>(c: P::Core, trial: &Trial<'_>) -> Observed {
    let workers = trial.workers();
    let warehouses = if trial.seed % 4 < 2 { 1 } else { workers };
    let workload = Tpcc {
        scale: TPCC_SCALE,
        remote_items_percent: 10.0,
        ..Tpcc::new(u16::try_from(warehouses).unwrap_or(u16::MAX))
    };
    run::<P, S, _>(c, trial, &workload)
}

/// The microbenchmark, half of it over several sites.
pub(crate) fn micro<P: Platform, S: Scheme<P>>(c: P::Core, trial: &Trial<'_>) -> Observed {
    let spec = MicroSpec {
        operation: if trial.seed % 4 < 2 { Operation::Update } else { Operation::Mixed },
        sites: u16::try_from(trial.workers()).unwrap_or(u16::MAX),
        rows_per_site: ROWS_PER_SITE,
        multisite: 0.5,
        grouping: Grouping::ByPartition,
        ..MicroSpec::default()
    };
    run::<P, S, _>(c, trial, &Micro::new(spec).expect("a valid specification"))
}

/// One of YCSB's core workloads.
pub(crate) fn ycsb<P: Platform, S: Scheme<P>>(c: P::Core, trial: &Trial<'_>) -> Observed {
    use YcsbWorkload::{A, B, C, D, E, F};
    let workload = [A, B, C, D, E, F][(trial.seed / 2 % 6) as usize];
    let partitions = u16::try_from(trial.workers()).unwrap_or(u16::MAX);
    let records = RECORDS.max(u64::from(partitions));
    let spec = YcsbSpec { workload, records, partitions, ..YcsbSpec::default() };
    run::<P, S, _>(c, trial, &Ycsb::new(spec).expect("a valid specification"))
}

fn run<P: Platform, S: Scheme<P>, W: Workload>(c: P::Core, trial: &Trial<'_>, workload: &W) -> Observed {
    let workers = trial.workers();
    let count = if P::VIRTUAL { TRANSACTIONS } else { TRANSACTIONS_ON_HARDWARE };
    let options = InstanceOptions {
        sessions_max: workers + 2,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let mut database = Database::<P, S>::create(c, &options, schema, &|_| None).expect("memory");
    load(c, &database, workload, &tables, trial.seed);
    database.loaded(c).expect("memory");
    let committed = Mutex::new(vec![0; workload.kinds().len()]);
    let aborts = AtomicU64::new(0);
    let work = |c: P::Core, worker: usize| {
        let mut session = database.session(c, None, false).expect("sessions for all workers");
        session.seed(trial.seed ^ worker as u64);
        let mut random = Random::new(trial.seed, worker as u64);
        let mut shuffle = Shuffle::new(trial.seed ^ worker as u64);
        let mut actions = Vec::new();
        let mut commits = vec![0; workload.kinds().len()];
        for _ in 0..count {
            let now = P::now(c);
            session.tend(now);
            let mut transaction = workload.next(worker, &mut random, now.0);
            let bounds = bounds::<P>(c);
            let ending = if trial.seed.is_multiple_of(2) {
                session.run(&tables, &mut transaction, &mut actions, &bounds)
            } else {
                run_shuffled(&mut session, &tables, &mut transaction, &bounds, &mut shuffle)
            };
            match ending {
                Ok(Ending::Committed(..)) => commits[W::kind(&transaction)] += 1,
                Ok(Ending::RolledBack(_)) => {}
                Err(abort) => panic!("a transaction failed: {abort}"),
            }
        }
        aborts.fetch_add(session.stats().aborts, Ordering::Relaxed);
        let mut sum = committed.lock().expect("no worker panics while it adds");
        sum.iter_mut().zip(&commits).for_each(|(sum, commits)| *sum += commits);
    };
    P::parallel(c, &vec![Place { thread: None }; workers], &work, &mut |_| {});
    let committed: Vec<u64> = committed.into_inner().expect("no worker panics while it adds");
    let checks = workload.check_committed(&tables, &mut database.inspector(c), &committed);
    let violated = |check: workloads::Check| match check.result {
        Outcome::Violated(what) => Some(format!("{}: {what}", check.name)),
        Outcome::Ok | Outcome::NotApplicable(_) => None,
    };
    Observed {
        transactions: count * workers as u64,
        aborts: aborts.into_inner(),
        history: None,
        violations: checks.into_iter().filter_map(violated).collect(),
    }
}

fn load<P: Platform, S: Scheme<P>, W: Workload>(
    c: P::Core,
    database: &Database<P, S>,
    workload: &W,
    tables: &<W::Procedure as Procedure>::Tables,
    seed: u64,
) {
    for part in 0..workload.parts() {
        let mut session = database.session(c, None, false).expect("a session");
        let mut progress = |_| {};
        let mut loader = RowLoader::new(&mut session, &mut progress);
        let mut random = Random::new(seed, 1_000_000 + part as u64);
        workload.load(tables, part, &mut random, &mut loader).expect("the part loads");
        loader.finish();
    }
}
