//! Several instances in one process: together they have the same effect as one instance.
//!
//! Simulated, with perturbed seeds. Global invariants are checked over the data of all instances:
//! TPC-C's conditions, updates that are counted, and pairs of rows in two instances that no two
//! transactions may change at a time.

use concurrency::SchemeName;
use harness::{CommitProtocol, Control, Deployment, Measurement, Plan, RunError, Transport, Workload};
use sim::VirtualMachine;
use terms::{Fault, Faults};
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tpcb::Tpcb;
use workloads::tpcc::Mix;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

use crate::chains::Chains;
use crate::pairs::{Pairs, TwoRounds};
use crate::support::{assert_holds, config, deployment, micro, plan, simulate, tpcc, violations};

fn simulated(workload: &Workload, plan: &Plan, deployment: &Deployment) -> Result<Measurement, RunError> {
    simulate(&config(deployment.workers(), plan.seed), workload, plan, deployment)
}

#[test]
fn updates_over_instances_are_counted() {
    for scheme in SchemeName::ALL {
        for (seed, sizes) in [(1, &[1, 1][..]), (2, &[2, 1]), (3, &[1, 1, 2])] {
            let (deployment, what) = (deployment(sizes, Transport::Shm), format!("{scheme} {sizes:?}"));
            let workers = deployment.workers() as u64;
            let operation = if seed == 2 { Operation::Mixed } else { Operation::Update };
            let workload = micro(operation, workers as u16);
            for commit in [CommitProtocol::Classic, CommitProtocol::Published] {
                let plan = Plan { commit, ..plan(scheme, seed, 40) };
                let measured = simulated(&workload, &plan, &deployment);
                let ratio = assert_holds(&measured.expect("it runs"), 40 * workers, &what);
                assert!(ratio > 0.1, "{what}: {ratio}");
            }
        }
    }
}

/// With the published protocol the own part is locked while the others are requested: transactions
/// conflict more often. Messages are the same.
#[test]
fn own_parts_that_lock_first_are_locked_for_a_round_trip() {
    let deployment = deployment(&[1, 1], Transport::Uds);
    let spec = MicroSpec {
        operation: Operation::Update,
        rows: 2,
        sites: 2,
        rows_per_site: 16,
        multisite: 1.0,
        ..MicroSpec::default()
    };
    let workload = Workload::Micro(Micro::new(spec).expect("valid"));
    let run = |commit| {
        let plan = Plan { commit, in_flight: 4, ..plan(SchemeName::NoWait, 1, 300) };
        let measured = simulated(&workload, &plan, &deployment).expect("it runs");
        assert!(assert_holds(&measured, 600, "updates") > 0.3);
        measured.kinds.iter().map(|(_, kind)| kind.aborts).sum::<u64>()
    };
    let (classic, published) = (run(CommitProtocol::Classic), run(CommitProtocol::Published));
    assert!(published > classic + classic / 5, "{classic} and {published}");
}

/// A transaction that reads in one other instance costs one round trip.
#[test]
fn reads_cost_one_round_trip() {
    let deployment = deployment(&[1, 1], Transport::Shm);
    // Its locks are shared, so no attempt fails.
    let plan = Plan { instrument: true, ..plan(SchemeName::NoWait, 1, 200) };
    let measured = simulated(&micro(Operation::Read, 2), &plan, &deployment).expect("it runs");
    assert!(assert_holds(&measured, 400, "reads") > 0.3);
    assert_eq!(measured.messages_per_distributed, Some(2.0));
    assert_eq!(measured.instances, 2);
    // Each sends the other a request, and receives the answer.
    let deployed = measured.deployment.expect("two instances");
    let all = measured.counters.messages.expect("messages are counted");
    assert_eq!(deployed.messages, [[0, all / 2], [all / 2, 0]]);
    assert_eq!(deployed.instances, deployment.instances);
    let shares = measured.breakdown.expect("measured");
    assert!(shares.communication > 0.05 && shares.useful > 0.05, "{shares:?}");
}

/// The accounts of a bank over several instances stay consistent; a decision that is applied twice
/// would create money.
#[test]
fn tpcb_holds_over_instances() {
    let tpcb = |branches: usize| {
        Workload::Tpcb(Tpcb { scale: 0.0005, remote_percent: 40.0, ..Tpcb::new(branches as u16) })
    };
    for scheme in SchemeName::ALL {
        for (seed, sizes) in [(6, &[1, 1][..]), (7, &[2, 1])] {
            let (deployment, what) = (deployment(sizes, Transport::Shm), format!("{scheme} {sizes:?}"));
            let workers = deployment.workers();
            let measured = simulated(&tpcb(workers), &plan(scheme, seed, 40), &deployment);
            let ratio = assert_holds(&measured.expect("it runs"), 40 * workers as u64, &what);
            assert!(ratio > 0.1, "{what}: {ratio}");
        }
    }
    let deployment = deployment(&[1, 1], Transport::Shm);
    let twice = Faults::of(&[Fault::DecisionSentTwice, Fault::RepeatedDecision]);
    let plan = Plan { faults: twice, ..plan(SchemeName::NoWait, 8, 40) };
    let violated = violations(&simulated(&tpcb(2), &plan, &deployment).expect("it runs"));
    assert!(violated.iter().any(|what| what.starts_with("tpcb_accounts: ")), "{violated:?}");
}

#[test]
fn tpcc_holds_over_instances() {
    for scheme in SchemeName::ALL {
        for (seed, mix, sizes) in [(4, Mix::Narrow, &[1, 1][..]), (5, Mix::Full, &[2, 1])] {
            let (deployment, what) = (deployment(sizes, Transport::Shm), format!("{scheme} {sizes:?}"));
            let workers = deployment.workers() as u64;
            let workload = tpcc(mix, workers as u16);
            let measured = simulated(&workload, &plan(scheme, seed, 25), &deployment);
            let ratio = assert_holds(&measured.expect("it runs"), 25 * workers, &what);
            assert!(ratio > 0.1, "{what}: {ratio}");
        }
    }
}

#[test]
fn every_transport_carries() {
    for transport in [Transport::Uds, Transport::Tcp] {
        let deployment = deployment(&[1, 1], transport);
        let measured = simulated(&tpcc(Mix::Narrow, 2), &plan(SchemeName::Silo, 6, 30), &deployment);
        assert!(assert_holds(&measured.expect("it runs"), 60, transport.name()) > 0.1);
    }
}

#[test]
fn several_instances_run_on_hardware() {
    for (transport, scheme) in [
        (Transport::Shm, SchemeName::Silo),
        (Transport::Uds, SchemeName::NoWait),
        (Transport::Tcp, SchemeName::Mvcc),
    ] {
        let (deployment, plan) = (deployment(&[1, 1], transport), plan(scheme, 7, 300));
        let measured = harness::on_hardware(&tpcc(Mix::Full, 2), &plan, &deployment, Control::NONE);
        assert!(assert_holds(&measured.expect("it runs"), 600, transport.name()) > 0.1);
    }
}

/// YCSB without insertions has one phase; with insertions it is refused with a reason.
#[test]
fn ycsb_is_divided_as_far_as_it_is_one_shot() {
    let run = |workload| {
        let spec = YcsbSpec { workload, records: 200, partitions: 2, requests: 4, ..YcsbSpec::default() };
        let workload = Workload::Ycsb(Ycsb::new(spec).expect("valid"));
        simulated(&workload, &plan(SchemeName::TicToc, 8, 40), &deployment(&[1, 1], Transport::Shm))
    };
    for workload in [YcsbWorkload::A, YcsbWorkload::C, YcsbWorkload::F] {
        assert!(assert_holds(&run(workload).expect("it runs"), 80, "ycsb") > 0.1);
    }
    let refused = run(YcsbWorkload::D).expect_err("not one-shot").to_string();
    assert!(refused.contains("they need one instance"), "{refused}");
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let deployment = deployment(&[1, 1, 1], Transport::Shm);
    let refused = simulated(&micro(Operation::Read, 2), &plan(SchemeName::Silo, 1, 1), &deployment);
    let expected = "2 parts of data cannot be divided over 3 instances: instance 2 would have none";
    assert_eq!(refused.expect_err("too few parts").to_string(), expected);
}

/// Runs [`Pairs`]; returns the violations.
fn pairs(scheme: SchemeName, seed: u64, sizes: &[usize], faults: Faults) -> Result<Vec<String>, RunError> {
    let deployment = deployment(sizes, Transport::Shm);
    let workload = Pairs { sites: deployment.workers() as u16 };
    let plan = Plan { faults, ..plan(scheme, seed, 40) };
    let ran = VirtualMachine::run(&config(deployment.workers(), seed), |c| {
        let inline = harness::dynamic::<VirtualMachine, _>;
        harness::run_and_inspect(c, &workload, &plan, &deployment, Control::NONE, inline, |_, _| ())
    });
    ran.expect("the machine runs").value.map(|measured| violations(&measured))
}

#[test]
fn no_two_transactions_change_a_pair_at_a_time() {
    for scheme in SchemeName::ALL {
        for seed in 0..6 {
            let sizes = if seed % 2 == 0 { &[1, 1][..] } else { &[1, 2, 1] };
            let violated = pairs(scheme, seed, sizes, Faults::NONE).expect("it runs");
            assert_eq!(violated, Vec::<String>::new(), "{scheme} seed {seed}");
        }
    }
}

/// Runs [`Chains`], and checks the history.
fn history(scheme: SchemeName, seed: u64, sizes: &[usize], faults: Faults) -> Result<f64, String> {
    let deployment = deployment(sizes, Transport::Shm);
    let workload = Chains::new(deployment.workers() as u16);
    let commit = if seed % 2 == 1 { CommitProtocol::Published } else { CommitProtocol::Classic };
    let plan = Plan { faults, commit, ..plan(scheme, seed, 30) };
    let ran = VirtualMachine::run(&config(deployment.workers(), seed), |c| {
        let inline = harness::dynamic::<VirtualMachine, _>;
        let end = |database: &boundary::Database<VirtualMachine>, table: &_| {
            workload.end(table, &mut database.inspector(c));
        };
        harness::run_and_inspect(c, &workload, &plan, &deployment, Control::NONE, inline, end)
    });
    let measured = ran.expect("the machine runs").value.map_err(|error| error.to_string())?;
    workload.judge(measured.kinds[0].1.commits)?;
    Ok(measured.distributed_ratio)
}

#[test]
fn histories_over_instances_are_serializable() {
    for scheme in SchemeName::ALL {
        for seed in 0..12 {
            let sizes = [&[1, 1][..], &[2, 1], &[1, 1, 1]][seed as usize % 3];
            let ratio = history(scheme, seed, sizes, Faults::NONE);
            let ratio = ratio.unwrap_or_else(|what| panic!("{scheme} {sizes:?} seed {seed}: {what}"));
            assert!(ratio > 0.1, "{scheme} {sizes:?} seed {seed}: {ratio}");
        }
    }
}

/// True if some seed shows that the rules are broken.
fn is_caught(seeds: std::ops::Range<u64>, mut run: impl FnMut(u64) -> Result<Vec<String>, RunError>) -> bool {
    seeds.into_iter().any(|seed| !matches!(run(seed), Ok(violated) if violated.is_empty()))
}

#[test]
fn broken_rules_are_caught() {
    let updates = |faults| {
        move |seed| {
            let deployment = deployment(&[1, 1, 1], Transport::Shm);
            let plan = Plan { faults, ..plan(SchemeName::NoWait, seed, 40) };
            simulated(&micro(Operation::Update, 3), &plan, &deployment).map(|measured| violations(&measured))
        }
    };
    assert!(is_caught(0..20, updates(Faults::of(&[Fault::IgnoredAborts]))), "commits although told to abort");
    assert!(is_caught(0..20, updates(Faults::of(&[Fault::MissingVote]))), "decides with a vote missing");
    let repeating = Faults::of(&[Fault::DecisionSentTwice]);
    assert!(is_caught(0..20, updates(repeating.and(Fault::RepeatedDecision))), "applies a decision twice");
    assert!(!is_caught(0..3, updates(repeating)), "a decision that comes twice does no harm");
    let early = Faults::of(&[Fault::EarlyReadUnlock]);
    let caught = is_caught(0..200, |seed| pairs(SchemeName::NoWait, seed, &[1, 1], early));
    assert!(caught, "lets go of what it has read at its vote");
    let judged = |faults| (0..100).any(|seed| history(SchemeName::NoWait, seed, &[1, 1, 1], faults).is_err());
    assert!(judged(early), "a history in which reads are let go too early");
    assert!(judged(Faults::of(&[Fault::MissingVote])), "a history in which votes are missing");
}

/// A later phase on another instance is refused, with the name of the transaction.
#[test]
fn later_phases_are_local() {
    let deployment = deployment(&[1, 1], Transport::Shm);
    let plan = plan(SchemeName::Silo, 1, 10);
    let ran = VirtualMachine::run(&config(2, 1), |c| {
        let inline = harness::dynamic::<VirtualMachine, _>;
        let workload = TwoRounds(Pairs { sites: 2 });
        harness::run_and_inspect(c, &workload, &plan, &deployment, Control::NONE, inline, |_, _| ())
    });
    let refused = ran.expect("the machine runs").value.expect_err("not one-shot").to_string();
    assert!(refused.contains("an action of a later phase belongs to another instance"), "{refused}");
}
