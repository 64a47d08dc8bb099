//! Every workload under an executor that runs the actions of a phase in random order and passes inputs and outputs as
//! bytes, by several workers at the same time, on hardware and in the virtual machine: all checks hold.
#![allow(missing_docs)]
// What workers hand back to the test is not part of the engine.
#![allow(clippy::disallowed_types)]

use cc::{DlDetect, Hstore, InstanceOptions, Mvcc, NoWait, Occ, Scheme, Silo, TicToc, WaitDie};
use engine::testing::{Shuffle, run_shuffled};
use engine::{Bounds, Database, Ending, RowLoader, SchemaBuilder};
use platform::{Hardware, Node, Place, Platform};
use sim::{Config, Shape, VirtualMachine};
use storage::{Optimisation, Without};
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tpcc::Tpcc;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};
use workloads::{Outcome, Random, Workload};

/// Loads, runs `count` transactions in each of `workers`, and checks.
fn run<P: Platform, S: Scheme<P>, W: Workload>(c: P::Core, workload: &W, workers: usize, count: u64) {
    run_without::<P, S, W>(c, workload, workers, count, Without::NOTHING);
}

/// As [`run`], without some optimisations. The virtual machine has two memory nodes; workers and loaders alternate.
fn run_without<P: Platform, S: Scheme<P>, W: Workload>(
    c: P::Core,
    workload: &W,
    workers: usize,
    count: u64,
    without: Without,
) {
    let nodes: Vec<Node> = if P::VIRTUAL { vec![Node(0), Node(1)] } else { Vec::new() };
    let node_of = |number: usize| nodes.get(number % 2).copied();
    let options = InstanceOptions {
        sessions_max: 16,
        memory_bytes_max: 1 << 30,
        epoch_nanos: 1_000_000,
        nodes: nodes.clone(),
        without,
        ..InstanceOptions::default()
    };
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let mut database = Database::<P, S>::create(c, &options, schema, &node_of).expect("memory");
    for part in 0..workload.parts() {
        let mut session = database.session(c, node_of(part), false).expect("a session");
        let mut progress = |_| {};
        let mut loader = RowLoader::new(&mut session, &mut progress);
        workload.load(&tables, part, &mut Random::new(1, part as u64), &mut loader).expect("the part loads");
        loader.finish();
    }
    database.loaded(c).expect("memory");
    let committed = std::sync::Mutex::new(vec![0; workload.kinds().len()]);
    let work = |c: P::Core, worker: usize| {
        let mut session = database.session(c, node_of(worker), false).expect("a session");
        let mut random = Random::new(2, 1000 + worker as u64);
        let mut shuffle = Shuffle::new(worker as u64);
        let mut commits = vec![0; workload.kinds().len()];
        for _ in 0..count {
            let now = P::now(c);
            session.tend(now);
            let mut transaction = workload.next(worker, &mut random, now.0);
            let kind = W::kind(&transaction);
            let ending =
                run_shuffled(&mut session, &tables, &mut transaction, &Bounds::default(), &mut shuffle);
            let ending = ending.expect("it ends well");
            commits[kind] += u64::from(matches!(ending, Ending::Committed(..)));
        }
        let mut sum = committed.lock().expect("no panic");
        sum.iter_mut().zip(&commits).for_each(|(sum, commits)| *sum += commits);
    };
    P::parallel(c, &vec![Place { thread: None }; workers], &work, &mut |_| {});
    let committed = committed.into_inner().expect("no panic");
    assert!(committed.iter().sum::<u64>() > 0);
    for check in workload.check_committed(&tables, &mut database.inspector(c), &committed) {
        assert_eq!(check.result, Outcome::Ok, "{}", check.name);
    }
}

fn config() -> Config {
    Config::new(Shape::new(2, 2, 1)).with_seed(5).perturbed()
}

fn everywhere<W: Workload>(workload: &W) {
    let c = Hardware::core();
    run::<Hardware, Silo, W>(c, workload, 2, 400);
    run::<Hardware, TicToc, W>(c, workload, 2, 400);
    run::<Hardware, Occ, W>(c, workload, 2, 400);
    run::<Hardware, NoWait, W>(c, workload, 2, 400);
    run::<Hardware, WaitDie, W>(c, workload, 2, 400);
    run::<Hardware, DlDetect, W>(c, workload, 2, 400);
    run::<Hardware, Hstore, W>(c, workload, 2, 400);
    run::<Hardware, Mvcc, W>(c, workload, 2, 400);
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, Silo, W>(c, workload, 4, 60)).expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, TicToc, W>(c, workload, 4, 60))
        .expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, Occ, W>(c, workload, 4, 60)).expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, NoWait, W>(c, workload, 4, 60))
        .expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, WaitDie, W>(c, workload, 4, 60))
        .expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, DlDetect, W>(c, workload, 4, 60))
        .expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, Hstore, W>(c, workload, 4, 60))
        .expect("it ends");
    VirtualMachine::run(&config(), |c| run::<VirtualMachine, Mvcc, W>(c, workload, 4, 60)).expect("it ends");
}

fn tpcc() -> Tpcc {
    Tpcc { scale: 0.01, remote_items_percent: 20.0, ..Tpcc::new(2) }
}

#[test]
fn tpcc_shuffled() {
    everywhere(&tpcc());
}

#[test]
fn tpcc_without_copies_on_nodes() {
    use Optimisation::{ReadOnlySkip, Replicate, ReplicateIndex};
    for left_out in [&[Replicate][..], &[ReplicateIndex], &[Replicate, ReplicateIndex], &[ReadOnlySkip]] {
        let without = left_out.iter().fold(Without::NOTHING, |all, one| all.and(*one));
        let silo = |c| run_without::<VirtualMachine, Silo, Tpcc>(c, &tpcc(), 4, 60, without);
        VirtualMachine::run(&config(), silo).expect("it ends");
        let no_wait = |c| run_without::<VirtualMachine, NoWait, Tpcc>(c, &tpcc(), 4, 60, without);
        VirtualMachine::run(&config(), no_wait).expect("it ends");
    }
}

#[test]
fn micro_shuffled() {
    let spec = MicroSpec {
        operation: Operation::Mixed,
        sites: 4,
        rows_per_site: 100,
        multisite: 0.5,
        grouping: Grouping::ByPartition,
        ..MicroSpec::default()
    };
    everywhere(&Micro::new(spec).expect("valid"));
}

#[test]
fn ycsb_shuffled() {
    use YcsbWorkload::{A, B, C, D, E, F};
    for workload in [A, B, C, D, E, F] {
        let spec = YcsbSpec { workload, records: 400, partitions: 4, ..YcsbSpec::default() };
        everywhere(&Ycsb::new(spec).expect("valid"));
    }
}
