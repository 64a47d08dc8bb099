//! Throughput of the microbenchmark and of YCSB on this machine, without the command line around it:
//!
//! ```text
//! cargo run --release -p workloads --example throughput -- [ycsb-a .. ycsb-f | micro-read | micro-update]
//! ```

use cc::{InstanceOptions, Silo};
use engine::{Bounds, Database, Procedure, RowLoader, SchemaBuilder};
use platform::{Hardware, HardwareThread, Place, Platform};
use storage::{LatchSeat, LatchedWord};
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};
use workloads::{Random, Workload};

const WORKERS: u16 = 2;
const SECONDS: u64 = 3;

fn run<W: Workload>(name: &str, workload: &W) {
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let options = InstanceOptions {
        sessions_max: 64,
        memory_bytes_max: 8 << 30,
        epoch_nanos: 10_000_000,
        ..InstanceOptions::default()
    };
    let mut database = Database::<Hardware, Silo>::create(c, &options, schema, &|_| None).expect("memory");
    let places: Vec<Place> =
        (0..u32::from(WORKERS)).map(|thread| Place { thread: Some(HardwareThread(thread)) }).collect();
    let load = |c, part| {
        let mut session = database.session(c, None, false).expect("a session");
        let mut progress = |_| ();
        let mut loader = RowLoader::new(&mut session, &mut progress);
        workload.load(&tables, part, &mut Random::new(1, part as u64), &mut loader).expect("loaded");
        loader.finish();
    };
    Hardware::parallel(c, &places, &load, &mut |_| ());
    database.loaded(c).expect("memory");
    let commits = LatchedWord::<Hardware>::new(c, None).expect("memory");
    let end = Hardware::now(c).plus(SECONDS * 1_000_000_000);
    let work = |c, number: usize| {
        let mut session = database.session(c, None, false).expect("a session");
        let mut random = Random::new(2, number as u64);
        let mut actions: Vec<<W::Procedure as Procedure>::Action> = Vec::new();
        loop {
            let now = Hardware::now(c);
            if now >= end {
                break;
            }
            session.tend(now);
            let mut procedure = workload.next(number, &mut random, now.0);
            session.run(&tables, &mut procedure, &mut actions, &Bounds::default()).expect("it commits");
        }
        let mut seat = LatchSeat::new(c, None).expect("memory");
        commits.add(c, &mut seat, session.stats().commits);
    };
    Hardware::parallel(c, &places, &work, &mut |_| ());
    println!("{name}: {:.0} commits/s with {WORKERS} workers", commits.value() as f64 / SECONDS as f64);
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|argument| argument == name);
    for (name, workload) in [
        ("ycsb-a", YcsbWorkload::A),
        ("ycsb-b", YcsbWorkload::B),
        ("ycsb-c", YcsbWorkload::C),
        ("ycsb-d", YcsbWorkload::D),
        ("ycsb-e", YcsbWorkload::E),
        ("ycsb-f", YcsbWorkload::F),
    ] {
        let grouping = Grouping::Together;
        let spec = YcsbSpec { workload, partitions: WORKERS, grouping, ..YcsbSpec::default() };
        if wanted(name) {
            run(name, &Ycsb::new(spec).expect("valid"));
        }
    }
    for (name, operation) in [("micro-read", Operation::Read), ("micro-update", Operation::Update)] {
        let spec = MicroSpec { operation, sites: WORKERS, ..MicroSpec::default() };
        if wanted(name) {
            run(name, &Micro::new(spec).expect("valid"));
        }
    }
}
