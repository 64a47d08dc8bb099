//! Workloads that change while they run do so at their moments, in every deployment, and a seed
//! gives the same run again.

use concurrency::SchemeName;
use harness::{
    Check, Control, Deployment, Engine, Execution, Instance, Length, Measurement, Plan, WorkerPlace, Workload,
};
use sim::{Config, Shape};
use workloads::micro::{Micro, MicroSpec, Operation, Skew};
use workloads::tatp::{KINDS, Mix, Tatp};
use workloads::tpcc::{self, Tpcc};

use crate::support::{nvme, simulate};

const SECONDS: f64 = 0.002;

/// Half of the time only GetSubscriberData, then only UpdateLocation.
fn tatp(divided: bool) -> Workload {
    let of = |mix| Workload::Tatp(Tatp { mix, multisite: 0.3, divided, ..Tatp::new(400, 4) });
    let later = vec![(SECONDS / 2.0, of(Mix::UpdateLocation))];
    Workload::changing(of(Mix::GetSubscriberData), later).expect("the same data")
}

fn plan(engine: Engine) -> Plan {
    let plan = Plan::new(SchemeName::Silo, Length::Seconds(SECONDS));
    Plan { engine, epoch_nanos: 20_000, warm_up_seconds: 0.0003, seed: 4, ..plan }
}

fn simulated(workload: &Workload, plan: &Plan, deployment: &Deployment) -> Measurement {
    let config = Config { memory_bytes: 2 << 30, ..Config::new(Shape::new(2, 2, 1)).with_seed(plan.seed) };
    consistent(simulate(&config.with_disk(&nvme()), workload, plan, deployment).expect("it runs"))
}

fn consistent(measured: Measurement) -> Measurement {
    for (name, check) in &measured.checks {
        assert_eq!(*check, Check::Ok, "{name}");
    }
    measured
}

fn commits(measured: &Measurement, kind: usize) -> u64 {
    measured.kinds[kind].1.commits
}

/// Four workers in two instances.
fn two_instances() -> Deployment {
    let mut deployment = Deployment::unpinned(0, 1 << 30);
    let workers = vec![WorkerPlace::default(); 2];
    deployment.instances = vec![Instance { machine: 0, workers }; 2];
    deployment
}

#[test]
fn a_mix_changes_at_its_moment() {
    for (deployment, divided) in [(Deployment::unpinned(4, 1 << 30), false), (two_instances(), true)] {
        for execution in [Execution::Inline, Execution::Shuffled] {
            let plan = Plan { execution, ..plan(Engine::Memory) };
            let measured = simulated(&tatp(divided), &plan, &deployment);
            let [read, moved] = [0, 4].map(|kind| commits(&measured, kind));
            assert!(read > 100 && moved > 100, "{read} {moved}");
            let others = (0..KINDS.len()).filter(|kind| ![0, 4].contains(kind));
            assert_eq!(others.map(|kind| commits(&measured, kind)).sum::<u64>(), 0);
            // Commits of the first half are of the first mix, except for transactions that were
            // drawn before.
            let before: u64 = measured.bins[..measured.bins.len() / 2].iter().sum();
            assert!(before.abs_diff(read) <= 16, "{before} commits before, {read} of the first mix");
            assert!(measured == simulated(&tatp(divided), &plan, &deployment), "a seed repeats its run");
        }
    }
}

#[test]
fn rows_in_pages_hear_of_changes_as_well() {
    let plan = plan(Engine::Paged { pool_bytes: 16 << 20 });
    let deployment = Deployment::unpinned(4, 1 << 30);
    let measured = simulated(&tatp(false), &plan, &deployment);
    assert!(commits(&measured, 0) > 10 && commits(&measured, 4) > 10, "{:?}", measured.kinds);
}

#[test]
fn a_workload_changes_on_hardware() {
    let of = |mix| Workload::Tatp(Tatp { mix, ..Tatp::new(400, 2) });
    let later = vec![(0.0, of(Mix::UpdateLocation)), (3600.0, of(Mix::GetAccessData))];
    let workload = Workload::changing(of(Mix::GetSubscriberData), later).expect("the same data");
    let plan = Plan { seed: 4, ..Plan::new(SchemeName::Silo, Length::Transactions(500)) };
    let deployment = Deployment::unpinned(2, 1 << 30);
    let measured = harness::on_hardware(&workload, &plan, &deployment, Control::NONE).expect("it runs");
    let measured = consistent(measured);
    // Transactions that were drawn before the end of the warm-up are of the first mix.
    assert!(commits(&measured, 4) >= 990 && commits(&measured, 2) == 0, "{:?}", measured.kinds);
}

#[test]
fn shares_and_skews_change() {
    let spec =
        MicroSpec { operation: Operation::Update, sites: 4, rows_per_site: 500, ..MicroSpec::default() };
    let of = |spec| Workload::Micro(Micro::new(spec).expect("valid"));
    let multisite = MicroSpec { multisite: 1.0, ..spec.clone() };
    let hot = MicroSpec { skew: Skew::Hot { requests: 0.9, data: 0.01 }, ..multisite.clone() };
    let later = vec![(SECONDS / 2.0, of(multisite)), (SECONDS * 0.8, of(hot))];
    let workload = Workload::changing(of(spec), later).expect("the same data");
    let measured = simulated(&workload, &plan(Engine::Memory), &Deployment::unpinned(4, 1 << 30));
    let [local, several] = [0, 1].map(|kind| commits(&measured, kind));
    assert!(local > 50 && several > 50, "{local} {several}");
}

#[test]
fn columns_that_a_later_mix_writes_are_not_constant() {
    let of = |mix| Workload::Tpcc(Tpcc { mix, mix_changes: true, scale: 0.01, ..Tpcc::new(2) });
    let later = vec![(SECONDS / 2.0, of(tpcc::Mix::Full))];
    let workload = Workload::changing(of(tpcc::Mix::OrderStatus), later).expect("the same data");
    let measured = simulated(&workload, &plan(Engine::Memory), &Deployment::unpinned(2, 1 << 30));
    assert!((0..3).all(|kind| commits(&measured, kind) > 0), "{:?}", measured.kinds);
}

#[test]
fn only_the_same_data_can_change() {
    let tatp = |subscribers| Workload::Tatp(Tatp::new(subscribers, 2));
    let refused = |first, later| {
        let refused = Workload::changing(first, later).err().expect("refused");
        refused.to_string()
    };
    let other_data = "a workload can change to one over the same data only";
    assert_eq!(refused(tatp(10), vec![(1.0, tatp(11))]), other_data);
    assert_eq!(refused(tatp(10), vec![(1.0, Workload::Tpcc(Tpcc::new(1)))]), other_data);
    let nothing = "this workload has nothing that could change";
    assert_eq!(refused(Workload::Memory { rows: 1 }, vec![(1.0, tatp(10))]), nothing);
    let twice = vec![(2.0, tatp(10)), (1.0, tatp(10))];
    assert_eq!(refused(tatp(10), twice), "changes are listed in the order of their moments");
}
