//! Instances on several simulated machines: global invariants hold, nothing touches another machine's memory, and the transports are
//! those that there are.

use cc::SchemeName;
use driver::{
    Control, Deployment, DeploymentError, DeploymentRequest, Measurement, MemoryPlacement, Plan, RunError,
    Transport, Workload,
};
use machine::{Description, Node, PlaceError, Placement};
use platform::Nanos;
use sim::{Config, Cut, NetworkFaults, VirtualMachine};
use workloads::micro::Operation;
use workloads::tpcc::Mix;

use crate::several::{assert_holds, micro, plan, tpcc};

/// Three machines of two sockets with a core each.
fn cluster() -> Description {
    let text = "sockets = 2\ncores_per_socket = 1\nclock_ghz = 2.0\nmemory_gib = 4\nl1d = 32\nl2 = 256\n\
                l3_shared = 1024\nload_to_use_cycles = { l1 = 4, l2 = 12, l3 = 40 }\n\
                memory_ns = { local = 80, one_hop = 130 }\nmachines = 3\nnetwork_one_way_us = 25\nnetwork_gbps = 1.25\n";
    Description::from_toml(text).expect("a description")
}

fn on(description: &Description, request: &DeploymentRequest) -> Result<Deployment, DeploymentError> {
    Deployment::on(request, &description.whole(), &description.hops, 2 << 30)
}

fn deployment(workers: usize, instances: usize, transport: Transport) -> Deployment {
    let request = DeploymentRequest { workers, instances, transport, ..DeploymentRequest::default() };
    on(&cluster(), &request).expect("placed")
}

fn simulated(
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    faults: NetworkFaults,
) -> Result<Measurement, RunError> {
    let config =
        Config::of_machines(&cluster(), deployment.machines()).expect("machines").with_seed(plan.seed);
    let time_limit = Some(Nanos(2_000_000_000));
    let config = Config { memory_bytes: 8 << 30, time_limit, network: faults, ..config }.perturbed();
    let ran = VirtualMachine::run(&config, |c| {
        driver::in_virtual_machine(c, workload, plan, deployment, Control::NONE)
    });
    ran.expect("no core touches another machine").value
}

#[test]
fn instances_on_several_machines_hold_what_one_would() {
    for (seed, scheme) in SchemeName::ALL.into_iter().enumerate() {
        let seed = seed as u64 + 1;
        // An instance a machine, or one a core: then links within a machine are rings.
        let deployment = match seed % 2 {
            0 => deployment(6, 3, Transport::Tcp),
            _ => deployment(4, 4, Transport::Shm),
        };
        let workers = deployment.workers() as u64;
        let delay_max = Nanos(if seed.is_multiple_of(3) { 40_000 } else { 0 });
        let faults = NetworkFaults { delay_max, ..NetworkFaults::default() };
        let (workload, what) = (micro(Operation::Update, workers as u16), scheme.to_string());
        let run = || simulated(&workload, &plan(scheme, seed, 25), &deployment, faults.clone());
        let measured = run().expect("it runs");
        assert!(assert_holds(&measured, 25 * workers, &what) > 0.1, "{what}");
        // No distributed commit is faster than a request and its answer.
        let slowest = measured.latency.p99.expect("there are commits");
        assert!(slowest > 50.0, "{what}: {slowest}");
        if seed < 3 {
            let again = run().expect("it runs");
            assert_eq!((measured.latency, &measured.kinds), (again.latency, &again.kinds), "{what}");
        }
    }
    let measured = simulated(
        &tpcc(Mix::Full, 4),
        &plan(SchemeName::Silo, 9, 25),
        &deployment(4, 2, Transport::Tcp),
        NetworkFaults::default(),
    );
    assert!(assert_holds(&measured.expect("it runs"), 100, "tpcc") > 0.1);
}

#[test]
fn a_cut_network_ends_the_run_in_an_error() {
    let faults = NetworkFaults {
        cuts: vec![Cut { machines: [0, 1], at: Nanos(400_000) }],
        ..NetworkFaults::default()
    };
    let deployment = deployment(4, 2, Transport::Tcp);
    let workload = micro(Operation::Update, 4);
    let failed = simulated(&workload, &plan(SchemeName::NoWait, 1, 10_000), &deployment, faults);
    let error = failed.expect_err("nobody can go on").to_string();
    assert!(error.contains("closed"), "{error}");
}

#[test]
fn deployments_know_machines() {
    let two = deployment(4, 4, Transport::Uds);
    let machines: Vec<u32> = two.instances.iter().map(|instance| instance.machine).collect();
    assert_eq!((machines, two.machines()), (vec![0, 0, 1, 1], 2));
    assert_eq!((two.transport_between(0, 1), two.transport_between(1, 2)), (Transport::Uds, Transport::Tcp));
    assert_eq!(Deployment::from_toml(&two.to_string()), Ok(two));
    let placed = |memory, workers, instances| {
        let request = DeploymentRequest { workers, instances, memory, ..DeploymentRequest::default() };
        let nodes = on(&cluster(), &request)?.nodes();
        Ok::<_, DeploymentError>(
            nodes.into_iter().map(|node| node.map_or(99, |Node(node)| node)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(placed(MemoryPlacement::Local, 6, 3), Ok(vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(placed(MemoryPlacement::Central, 6, 3), Ok(vec![0, 0, 2, 2, 4, 4]));
    assert_eq!(placed(MemoryPlacement::Remote, 6, 3), Ok(vec![1, 0, 3, 2, 5, 4]));
    assert_eq!(placed(MemoryPlacement::Hops(1), 4, 2), Ok(vec![1, 0, 3, 2]));
    assert!(matches!(placed(MemoryPlacement::Hops(2), 4, 2), Err(DeploymentError::NoSuchNode { .. })));
    assert!(matches!(
        placed(MemoryPlacement::Local, 6, 1),
        Err(DeploymentError::Place(PlaceError::SpansMachines { .. }))
    ));
    let request = DeploymentRequest {
        workers: 4,
        instances: 2,
        placement: Placement::Os,
        ..DeploymentRequest::default()
    };
    assert_eq!(on(&cluster(), &request), Err(PlaceError::NoOneSystem.into()));
}
