//! Every workload under an executor that runs the actions of a phase in random order and passes
//! inputs and outputs as bytes, by several workers at the same time, on hardware and in the virtual
//! machine: all checks hold.

use concurrency::SchemeName;
use harness::{Check, Control, Deployment, Execution, Length, Measurement, Plan, RunError, Workload};
use platform::Node;
use sim::{Config, Shape, VirtualMachine};
use storage::{Optimisation, Optimisations};
use workloads::batch::Grouping;
use workloads::dependent::Dependent;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

fn plan(scheme: SchemeName, count: u64) -> Plan {
    Plan { seed: 2, execution: Execution::Shuffled, ..Plan::new(scheme, Length::Transactions(count)) }
}

fn assert_consistent(scheme: SchemeName, measured: Result<Measurement, RunError>) {
    let measured = measured.unwrap_or_else(|error| panic!("{scheme}: {error}"));
    assert!(measured.kinds.iter().map(|(_, kind)| kind.commits).sum::<u64>() > 0);
    for (name, check) in measured.checks {
        assert_eq!(check, Check::Ok, "{scheme}: {name}");
    }
}

fn on_hardware(scheme: SchemeName, workload: &Workload) {
    let deployment = Deployment::unpinned(2, 1 << 30);
    assert_consistent(scheme, harness::on_hardware(workload, &plan(scheme, 400), &deployment, Control::NONE));
}

/// Runs in a virtual machine of two memory nodes, whose workers and parts alternate, without some
/// optimisations.
fn simulated(scheme: SchemeName, workload: &Workload, optimisations: Optimisations) {
    let deployment = Deployment::unpinned(4, 1 << 30).with_nodes(&[Node(0), Node(1)]);
    let plan = Plan { optimisations, ..plan(scheme, 60) };
    let run = VirtualMachine::run(&config(), |c| {
        harness::in_virtual_machine(c, workload, &plan, &deployment, Control::NONE)
    });
    assert_consistent(scheme, run.expect("it ends").value);
}

fn config() -> Config {
    Config::new(Shape::new(2, 2, 1)).with_seed(5).perturbed()
}

fn everywhere(workload: &Workload) {
    for scheme in SchemeName::ALL {
        on_hardware(scheme, workload);
        simulated(scheme, workload, Optimisations::ALL);
    }
}

fn tpcc() -> Workload {
    Workload::Tpcc(Tpcc { scale: 0.01, remote_items_percent: 20.0, ..Tpcc::new(2) })
}

#[test]
fn tpcc_shuffled() {
    everywhere(&tpcc());
}

#[test]
fn tpcc_without_copies_on_nodes() {
    use Optimisation::{ReadOnlySkip, Replicate, ReplicateIndex};
    for left_out in [&[Replicate][..], &[ReplicateIndex], &[Replicate, ReplicateIndex], &[ReadOnlySkip]] {
        let optimisations = left_out.iter().fold(Optimisations::ALL, |all, one| all.without(*one));
        for scheme in [SchemeName::Silo, SchemeName::NoWait] {
            simulated(scheme, &tpcc(), optimisations);
        }
    }
}

#[test]
fn tpcb_shuffled() {
    everywhere(&Workload::Tpcb(Tpcb { scale: 0.0002, remote_percent: 50.0, ..Tpcb::new(2) }));
}

#[test]
fn tatp_shuffled() {
    for divided in [false, true] {
        everywhere(&Workload::Tatp(Tatp { multisite: 0.5, divided, ..Tatp::new(40, 4) }));
    }
}

#[test]
fn dependent_shuffled() {
    for divided in [false, true] {
        let dependent = Dependent { sites: 4, rows_per_site: 50, multisite: 0.5, divided, placement: None };
        everywhere(&Workload::Dependent(dependent));
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
    everywhere(&Workload::Micro(Micro::new(spec).expect("valid")));
}

#[test]
fn ycsb_shuffled() {
    use YcsbWorkload::{A, B, C, D, E, F};
    for workload in [A, B, C, D, E, F] {
        let spec = YcsbSpec { workload, records: 400, partitions: 4, ..YcsbSpec::default() };
        everywhere(&Workload::Ycsb(Ycsb::new(spec).expect("valid")));
    }
}
