//! Measures how long a database takes to open: first from a log of TPC-C without a checkpoint, then
//! from a checkpoint without a log.
//!
//!     cargo run --release -p isles-verify --example recover -- DIRECTORY 200000 2
//!
//! commits 200,000 transactions of the standard mix into a new directory, opens it, makes a
//! checkpoint, opens it again, all with 2 workers, and prints a line of JSON for each of the two
//! openings. A directory that exists already is only opened, once.
#![allow(missing_docs)]

use std::path::Path;
use std::process::ExitCode;

use boundary::{Bounds, Database, DurableOptions, Progress, Recovered, RowLoader, SchemaBuilder};
use concurrency::{InstanceOptions, SchemeName};
use harness::Host;
use platform::{Hardware, Place, Platform};
use terms::random::Random;
use workloads::{Workload, tpcc};

const USAGE: &str = "usage: recover DIRECTORY TRANSACTIONS WORKERS";

type P = Hardware;
type Opened = Database<P>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, transactions, workers] = &arguments[..] else { return usage() };
    let (Ok(transactions), Ok(workers)) = (transactions.parse(), workers.parse()) else { return usage() };
    match run(Path::new(directory), transactions, workers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn run(directory: &Path, transactions: u64, workers: usize) -> Result<(), Box<dyn std::error::Error>> {
    let c = P::core();
    let workload = tpcc::Tpcc::new(workers as u16);
    let is_new = !directory.exists();
    let (database, tables, recovered) = open(c, directory, &workload, workers)?;
    if !is_new {
        print("as found", workers, &recovered);
        return Ok(database.close(c)?);
    }
    let each = transactions / workers as u64;
    let places = vec![Place { thread: None }; workers];
    P::parallel(c, &places, &|c, worker| load(c, &database, &workload, &tables, worker), &mut |_| ());
    let work = |c, worker| transact(c, &database, &workload, &tables, worker, each);
    P::parallel(c, &places, &work, &mut |_| ());
    database.close(c)?;
    let (database, _, recovered) = open(c, directory, &workload, workers)?;
    print("log", workers, &recovered);
    database.session(c, None, false)?.checkpoint()?;
    database.close(c)?;
    let (database, _, recovered) = open(c, directory, &workload, workers)?;
    print("checkpoint", workers, &recovered);
    Ok(database.close(c)?)
}

type Tables = <<tpcc::Tpcc as Workload>::Procedure as boundary::Procedure>::Tables;

/// Opens the database, which makes no checkpoints by itself.
fn open(
    c: <P as Platform>::Core,
    directory: &Path,
    workload: &tpcc::Tpcc,
    workers: usize,
) -> Result<(Opened, Tables, Recovered), Box<dyn std::error::Error>> {
    let options = InstanceOptions {
        sessions_max: workers + 2,
        memory_bytes_max: 64 << 30,
        epoch_nanos: 10_000_000,
        ..InstanceOptions::default()
    };
    let durable = DurableOptions {
        checkpoint_bytes: u64::MAX,
        places: vec![Place { thread: None }; workers],
        ..DurableOptions::new(directory.into())
    };
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let mut stages = Vec::new();
    let began = P::now(c);
    let mut listener = |progress: Progress| {
        let seconds = P::now(c).since(began) as f64 / 1e9;
        stages.retain(|(stage, _)| *stage != progress.stage);
        stages.push((progress.stage, seconds));
    };
    let listening = Some(&mut listener as &mut dyn FnMut(Progress));
    let (database, recovered) =
        P::OPEN(SchemeName::Silo, c, &options, schema, &|_| None, &durable, listening)?;
    for (stage, seconds) in stages {
        eprintln!("{stage:?} ended after {seconds:.3} s");
    }
    Ok((database, tables, recovered))
}

fn load(c: <P as Platform>::Core, database: &Opened, workload: &tpcc::Tpcc, tables: &Tables, worker: usize) {
    for part in (worker..workload.parts()).step_by(usize::from(workload.warehouses)) {
        let mut session = database.session(c, None, false).expect("a session");
        let mut progress = |_| {};
        let mut loader = RowLoader::new(session.object(), &mut progress);
        workload.load(tables, part, &mut Random::new(1, part as u64), &mut loader).expect("the part loads");
        loader.finish();
    }
}

fn transact(
    c: <P as Platform>::Core,
    database: &Opened,
    workload: &tpcc::Tpcc,
    tables: &Tables,
    worker: usize,
    count: u64,
) {
    let mut session = database.session(c, None, false).expect("a session");
    session.seed(worker as u64);
    let mut random = Random::new(2, worker as u64);
    let mut actions = Vec::new();
    for _ in 0..count {
        let now = P::now(c);
        session.tend(now);
        let mut transaction = workload.next(worker, &mut random, now.0);
        session.run(tables, &mut transaction, &mut actions, &Bounds::default()).expect("a transaction");
    }
}

/// Prints one line of JSON: what was recovered, and how fast.
fn print(what: &str, workers: usize, recovered: &Recovered) {
    let Recovered { rows, checkpoint_bytes, records, changes, log_bytes, nanos, .. } = *recovered;
    let seconds = nanos as f64 / 1e9;
    let rate = |count: u64| (count as f64 / seconds / workers as f64) as u64;
    println!(
        "{{\"what\":\"{what}\",\"workers\":{workers},\"seconds\":{seconds:.3},\"records\":{records},\
         \"changes\":{changes},\"log_bytes\":{log_bytes},\"rows\":{rows},\"checkpoint_bytes\":{checkpoint_bytes},\
         \"records_per_second_and_core\":{},\"changes_per_second_and_core\":{},\
         \"rows_per_second_and_core\":{},\"bytes_per_second_and_core\":{}}}",
        rate(records),
        rate(changes),
        rate(rows),
        rate(log_bytes + checkpoint_bytes),
    );
}
