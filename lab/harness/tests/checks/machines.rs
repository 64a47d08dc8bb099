//! Instances on several simulated machines: global invariants hold, nothing touches another
//! machine's memory, links use the available transports, each machine has a disk, and machines come
//! back to others that have continued.

use concurrency::SchemeName;
use harness::{
    Deployment, DeploymentError, DeploymentRequest, Durability, Measurement, MemoryPlacement, Missing, Plan,
    RunError, Transport, Troubles, Workload,
};
use machine::{Description, Node, PlaceError, Placement};
use platform::{Nanos, Place};
use sim::{Config, Cut, Disk, Fall, FaultCounts, NetworkFaults, SimError};
use workloads::micro::Operation;
use workloads::tpcc::Mix;

use crate::support::{assert_holds, micro, nvme, plan, run_machine, simulate, tpcc, violations};

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
    simulate(&config, workload, plan, deployment)
}

#[test]
fn instances_on_several_machines_hold_what_one_would() {
    for (seed, scheme) in SchemeName::ALL.into_iter().enumerate() {
        let seed = seed as u64 + 1;
        // One instance for each machine, or one for each core: then links within a machine are
        // rings.
        let deployment = match seed % 2 {
            0 => deployment(6, 3, Transport::Tcp),
            _ => deployment(4, 4, Transport::Shm),
        };
        let workers = deployment.workers() as u64;
        let delay_max = Nanos(if seed.is_multiple_of(3) { 40_000 } else { 0 });
        let faults = NetworkFaults { delay_max, ..NetworkFaults::default() };
        let workload = micro(Operation::Update, workers as u16);
        let what = scheme.to_string();
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
fn workers_that_are_not_pinned_stay_on_the_machine_of_their_instance() {
    let request = DeploymentRequest {
        workers: 6,
        instances: 3,
        transport: Transport::Tcp,
        placement: Placement::Os,
        ..DeploymentRequest::default()
    };
    let deployment = on(&cluster(), &request).expect("placed");
    let run = || {
        let workload = micro(Operation::Update, 6);
        simulated(&workload, &plan(SchemeName::NoWait, 1, 50), &deployment, NetworkFaults::default())
    };
    // A worker on another machine than its instance would touch memory of that machine, which ends
    // the run.
    let measured = run().expect("it runs");
    assert!(assert_holds(&measured, 300, "os") > 0.1);
    let again = run().expect("it runs");
    assert_eq!((measured.latency, &measured.kinds), (again.latency, &again.kinds));
}

#[test]
fn a_cut_network_ends_the_run_in_an_error() {
    let faults = NetworkFaults {
        cuts: vec![Cut { machines: [0, 1], at: Nanos(400_000), until: Nanos(u64::MAX) }],
        ..NetworkFaults::default()
    };
    let deployment = deployment(4, 2, Transport::Tcp);
    let workload = micro(Operation::Update, 4);
    let failed = simulated(&workload, &plan(SchemeName::NoWait, 1, 10_000), &deployment, faults);
    let error = failed.expect_err("nobody can go on").to_string();
    assert!(error.contains("closed"), "{error}");
}

fn disks(machines: usize) -> Vec<Disk> {
    (0..machines).map(|_| nvme()).collect()
}

/// As above, with a disk for each machine and faults; returns the faults that happened.
fn on_disks(
    disks: &[Disk],
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    network: NetworkFaults,
    falls: Vec<Fall>,
) -> Result<(Measurement, FaultCounts), SimError> {
    let config = Config::of_machines(&cluster(), deployment.machines())?.with_seed(plan.seed);
    let time_limit = Some(Nanos(400_000_000));
    let disk = disks.first().cloned();
    let more_disks = disks[1..].to_vec();
    let config = Config { memory_bytes: 8 << 30, time_limit, network, falls, disk, more_disks, ..config };
    let ran = run_machine(&config.perturbed(), workload, plan, deployment)?;
    Ok((ran.value.expect("it runs"), ran.statistics.faults))
}

#[test]
fn durable_instances_on_several_machines_go_on_where_they_have_ended() {
    let runs = [
        (SchemeName::Silo, Durability::Group, deployment(4, 4, Transport::Shm)),
        (SchemeName::NoWait, Durability::Async, deployment(6, 3, Transport::Tcp)),
    ];
    for (scheme, durability, deployment) in runs {
        let (disks, workers) = (disks(deployment.machines()), deployment.workers() as u64);
        let workload = tpcc(Mix::Full, workers as u16);
        let run = |seed| {
            let plan = Plan { durability, ..plan(scheme, seed, 15) };
            on_disks(&disks, &workload, &plan, &deployment, NetworkFaults::default(), Vec::new())
                .expect("it ends")
                .0
        };
        let first = run(21);
        assert!(assert_holds(&first, 15 * workers, scheme.name()) > 0.1);
        let second = run(22);
        assert_eq!(violations(&second), Vec::<String>::new(), "{scheme}");
        assert!(second.recovered.is_some_and(|recovered| recovered.rows + recovered.records > 0));
        for (machine, disk) in disks.iter().enumerate() {
            let names: Vec<_> = disk.contents().into_keys().map(|path| path.display().to_string()).collect();
            let instances = deployment.instances.iter().enumerate();
            for (number, instance) in instances {
                let there = names.iter().any(|name| name.contains(&format!("instance-{number}/")));
                assert_eq!(there, instance.machine as usize == machine, "{number} on {machine}: {names:?}");
            }
        }
    }
}

/// If two machines crash together, the second comes back when the first runs transactions again:
/// the first does not wait for the second.
#[test]
fn machines_that_are_down_together_do_not_wait_for_each_other() {
    let (deployment, disks) = (deployment(6, 3, Transport::Tcp), disks(3));
    let troubles = Troubles { seed: 1, loses_power: true, in_turn: true, ..Troubles::default() };
    let (durability, missing) = (Durability::Group, Missing::Wait);
    let plan = Plan { durability, missing, troubles: Some(troubles), ..plan(SchemeName::Silo, 1, 40) };
    let falls = vec![Fall { crews: vec![1, 2], event: 300 }];
    let workload = micro(Operation::Update, 6);
    let ran = on_disks(&disks, &workload, &plan, &deployment, NetworkFaults::default(), falls);
    let (measured, faults) = ran.expect("nobody waits for ever");
    assert_eq!(violations(&measured), Vec::<String>::new());
    assert_eq!((faults.falls, measured.returned.len(), measured.troubles.away_max), (2, 2, 2));
}

/// The first machine crashes again before it runs transactions: the second does not wait for it,
/// either.
#[test]
fn who_comes_back_does_not_wait_for_one_that_has_crashed_again() {
    for event in [180, 220, 300, 340] {
        let (deployment, disks) = (deployment(6, 3, Transport::Tcp), disks(3));
        let troubles = Troubles { seed: 1, loses_power: true, in_turn: true, ..Troubles::default() };
        let (durability, missing) = (Durability::Group, Missing::Wait);
        let plan = Plan { durability, missing, troubles: Some(troubles), ..plan(SchemeName::Silo, 1, 40) };
        let falls = vec![Fall { crews: vec![1, 2], event: 300 }, Fall { crews: vec![1], event }];
        let workload = micro(Operation::Update, 6);
        let ran = on_disks(&disks, &workload, &plan, &deployment, NetworkFaults::default(), falls);
        let (measured, faults) = ran.expect("nobody waits for ever");
        assert_eq!(violations(&measured), Vec::<String>::new());
        assert_eq!((faults.falls, measured.returned.len()), (3, 3), "{event}");
    }
}

/// Two machines are cut off from each other for a time, and continue.
#[test]
fn machines_find_each_other_again() {
    let (deployment, disks) = (deployment(4, 2, Transport::Tcp), disks(2));
    let (durability, missing) = (Durability::Group, Missing::Wait);
    let troubles = Some(Troubles::default());
    let plan = Plan { durability, missing, troubles, ..plan(SchemeName::NoWait, 3, 40) };
    let cut = |at| Cut { machines: [1, 0], at: Nanos(at), until: Nanos(at + 300_000) };
    let cuts = vec![cut(2_000_000), cut(3_000_000), cut(300_000_000)];
    let faults = NetworkFaults { cuts, ..NetworkFaults::default() };
    let workload = micro(Operation::Update, 4);
    let (measured, faults) =
        on_disks(&disks, &workload, &plan, &deployment, faults, Vec::new()).expect("it ends");
    assert_eq!(violations(&measured), Vec::<String>::new());
    // The third would happen after the run.
    assert_eq!((faults.cuts, measured.troubles.mended), (2, 8), "{:?}", measured.elapsed_seconds);
    assert!(measured.losses > 4);
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
    let unbound = on(&cluster(), &request).expect("each instance has a machine");
    let machines: Vec<u32> = unbound.instances.iter().map(|instance| instance.machine).collect();
    assert_eq!((machines, unbound.places()), (vec![0, 1], vec![Place { thread: None }; 4]));
}
