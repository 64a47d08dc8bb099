//! Deployments on described machines: the places of workers and of their memory.

use concurrency::SchemeName;
use harness::{
    Control, CounterGroups, Deployment, DeploymentError, DeploymentRequest, Instance, Length,
    MemoryPlacement, Partitioning, Peers, Plan, Transport, WorkerPlace, Workload,
};
use machine::{Description, HardwareThread, Node, PlaceError, Placement};
use platform::Place;

use crate::support::simulate;

fn local() -> DeploymentRequest {
    DeploymentRequest::default()
}

/// A deployment on a machine that ships with Isles.
fn on(machine: &str, request: DeploymentRequest) -> Result<Deployment, DeploymentError> {
    let description = Description::shipped(machine).expect("shipped");
    Deployment::on(&request, &description.topology, &description.hops, 0)
}

fn nodes(machine: &str, workers: usize, memory: MemoryPlacement) -> Vec<u32> {
    let deployment = on(machine, DeploymentRequest { workers, memory, ..local() }).expect("accepted");
    deployment.nodes().iter().map(|node| node.expect("several nodes").0).collect()
}

fn core_of(description: &Description, place: &Place) -> u32 {
    description.topology.thread(place.thread.expect("pinned")).expect("a thread").core
}

#[test]
fn memory_lies_where_asked() {
    use MemoryPlacement::{Central, Hops, Local, Remote};
    // Six cores a socket.
    assert_eq!(nodes("quad-socket", 7, Local), [0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(nodes("quad-socket", 7, Central), [0; 7]);
    assert_eq!(nodes("quad-socket", 7, Remote), [1, 1, 1, 1, 1, 1, 2]);
    let remote = nodes("quad-socket", 24, Remote);
    assert_eq!(remote[18..], [0; 6], "the last socket reads the first one's memory");
    assert_eq!(nodes("quad-socket", 1, Hops(0)), [0]);
    let description = Description::shipped("octo-socket").expect("shipped");
    for hops in [1, 2] {
        let nodes = nodes("octo-socket", 80, Hops(hops));
        for (worker, node) in nodes.iter().enumerate() {
            assert_eq!(description.hops[worker / 10][*node as usize], hops, "worker {worker}");
        }
    }
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let request = DeploymentRequest { memory: MemoryPlacement::Hops(3), ..local() };
    let missing = DeploymentError::NoSuchNode { from: Node(0), hops: vec![1, 2] };
    assert_eq!(on("octo-socket", request).err(), Some(missing));
    let native = machine::discover(None).expect("this machine");
    if native.nodes().len() == 1 {
        let request = DeploymentRequest { memory: MemoryPlacement::Remote, ..local() };
        let fault = Deployment::on_topology(&request, &native).err();
        assert_eq!(fault, Some(DeploymentError::OneNode));
    }
}

#[test]
fn too_many_workers_are_refused() {
    let fault = on("quad-socket", DeploymentRequest { workers: 25, ..local() }).err();
    assert_eq!(fault, Some(PlaceError::TooFewThreads { wanted: 25, available: 24 }.into()));
}

#[test]
fn spread_goes_round_the_sockets() {
    let spread = |machine, workers| {
        on(machine, DeploymentRequest { workers, placement: Placement::Spread, ..local() }).expect("accepted")
    };
    assert_eq!(spread("quad-socket", 5).sockets(), [0, 1, 2, 3, 0]);
    let island = on("quad-socket", DeploymentRequest { workers: 5, ..local() }).expect("accepted");
    assert_eq!(island.sockets(), [0; 5]);
    let description = Description::shipped("superdome-flex").expect("shipped");
    let places = spread("superdome-flex", 60).places();
    let mut cores: Vec<u32> = places.iter().map(|place| core_of(&description, place)).collect();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 60, "no two on one core while others are free");
    let unpinned = on("quad-socket", DeploymentRequest { placement: Placement::Os, ..local() });
    assert!(unpinned.expect("accepted").places()[0].thread.is_none());
}

/// Several workers of each hardware thread are neighbours, of one instance.
#[test]
fn hardware_threads_have_as_many_workers_as_asked() {
    let request = DeploymentRequest { workers: 12, workers_per_thread: 2, instances: 2, ..local() };
    let shared = on("quad-socket", request).expect("accepted");
    assert_eq!((shared.workers(), shared.instances[1].workers.len()), (24, 12));
    let threads: Vec<_> = shared.places().iter().map(|place| place.thread).collect();
    assert!(threads.chunks(2).all(|pair| pair[0] == pair[1]));
    assert!(threads.chunks(2).zip(threads.chunks(2).skip(1)).all(|(one, next)| one[0] != next[0]));
    assert_eq!(shared.check(), Ok(()));
    let text = shared.to_string();
    assert_eq!(Deployment::from_toml(&text).expect("a deployment"), shared);
    let unasked = text.replace("workers_per_thread = 2", "");
    assert!(Deployment::from_toml(&unasked).is_err(), "a hardware thread has two workers");
}

#[test]
fn peers_are_where_asked() {
    let peers = |machine, peers| {
        on(machine, DeploymentRequest { workers: 2, peers: Some(peers), ..local() }).expect("accepted")
    };
    assert_eq!(peers("quad-socket", Peers::SameSocket).sockets(), [0, 0]);
    assert_eq!(peers("quad-socket", Peers::OtherSocket).sockets(), [0, 1]);
    let description = Description::shipped("superdome-flex").expect("shipped");
    let places = peers("superdome-flex", Peers::SameSocket).places();
    let cores: Vec<u32> = places.iter().map(|place| core_of(&description, place)).collect();
    assert_ne!(cores[0], cores[1], "two cores, not two siblings");
    let native = machine::discover(None).expect("this machine");
    if native.socket_count() == 1 && native.threads().len() > 1 {
        let request = DeploymentRequest { workers: 2, peers: Some(Peers::OtherSocket), ..local() };
        let fault = Deployment::on_topology(&request, &native).err();
        assert_eq!(fault, Some(PlaceError::NoPeers("the machine has one socket").into()));
    }
}

#[test]
fn blocks_are_contiguous_and_the_larger_ones_come_first() {
    let loaders = |workers, partitioning| {
        let deployment =
            on("quad-socket", DeploymentRequest { workers, partitioning, ..local() }).expect("accepted");
        (0..10).map(|part| deployment.loader(part, 10)).collect::<Vec<_>>()
    };
    assert_eq!(loaders(4, Partitioning::Blocks), [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]);
    assert_eq!(loaders(4, Partitioning::RoundRobin), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    assert_eq!(loaders(24, Partitioning::Blocks), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn distances_rank_as_hops() {
    let description = Description::shipped("quad-socket").expect("shipped");
    // The machine reports no distances: all other nodes are one hop away.
    let deployment = |hops| {
        let request = DeploymentRequest { memory: MemoryPlacement::Hops(hops), ..local() };
        Deployment::on_topology(&request, &description.topology)
    };
    assert_eq!(deployment(1).expect("accepted").nodes(), [Some(Node(1))]);
    assert_eq!(deployment(2).err(), Some(DeploymentError::NoSuchNode { from: Node(0), hops: vec![1] }));
}

#[test]
fn several_instances_share_the_workers() {
    let request = DeploymentRequest { workers: 24, instances: 4, ..local() };
    let islands = on("quad-socket", request).expect("accepted");
    let sockets_of = |deployment: &Deployment| -> Vec<Vec<u32>> {
        let instances = deployment.instances.iter();
        instances.map(|instance| instance.workers.iter().map(|worker| worker.socket).collect()).collect()
    };
    assert_eq!(sockets_of(&islands), [[0; 6], [1; 6], [2; 6], [3; 6]]);
    assert_eq!(islands.nodes(), (0..24).map(|worker| Some(Node(worker / 6))).collect::<Vec<_>>());
    let request = DeploymentRequest { instances: 3, placement: Placement::Spread, ..request };
    let spread = on("quad-socket", request).expect("accepted");
    assert_eq!(sockets_of(&spread), [[0, 1, 2, 3, 0, 1, 2, 3]; 3]);
    let request = DeploymentRequest { workers: 2, instances: 2, peers: Some(Peers::OtherSocket), ..local() };
    assert_eq!(sockets_of(&on("quad-socket", request).expect("accepted")), [[0], [1]]);
    let request = DeploymentRequest { instances: 3, ..request };
    let fault = on("quad-socket", request).err();
    assert_eq!(fault, Some(PlaceError::TooManyInstances { instances: 3, threads: 2 }.into()));
}

#[test]
fn files_say_what_deployments_display() {
    for machine in ["quad-socket", "superdome-flex"] {
        for (workers, instances, memory) in [(1, 1, MemoryPlacement::Local), (7, 3, MemoryPlacement::Remote)]
        {
            let request = DeploymentRequest {
                workers,
                instances,
                memory,
                partitioning: Partitioning::Blocks,
                transport: Transport::Tcp,
                ..local()
            };
            let deployment = on(machine, request).expect("accepted");
            assert_eq!(Deployment::from_toml(&deployment.to_string()), Ok(deployment.clone()));
        }
    }
    let unpinned = Deployment::unpinned(3, 1 << 20).with_nodes(&[Node(1), Node(0)]);
    assert_eq!(unpinned.nodes(), [1, 0, 1].map(|node| Some(Node(node))));
    assert_eq!(Deployment::from_toml(&unpinned.to_string()), Ok(unpinned));
    assert_eq!(
        on("quad-socket", DeploymentRequest { workers: 2, ..local() }).expect("accepted").to_string(),
        "transport = \"shm\"\npartitioning = \"round-robin\"\nmemory_bytes_max = 8589934592\n\n\
         [[instances]]\nworkers = [\n    { thread = 0, node = 0, socket = 0 },\n    \
         { thread = 1, node = 0, socket = 0 },\n]\n"
    );
}

#[test]
fn files_may_leave_out_everything() {
    assert_eq!(Deployment::from_toml(""), Ok(Deployment::default()));
    assert_eq!(Deployment::default(), Deployment::unpinned(1, 8 << 30));
    let text = "[[instances]]\nworkers = [{ thread = 4 }, {}]\n[[instances]]\n";
    let deployment = Deployment::from_toml(text).expect("a deployment");
    let pinned = WorkerPlace { thread: Some(HardwareThread(4)), ..WorkerPlace::default() };
    let first = Instance { workers: vec![pinned, WorkerPlace::default()], ..Instance::default() };
    assert_eq!(deployment.instances, [first, Instance::default()]);
    assert_eq!((deployment.workers(), deployment.transport), (3, Transport::Shm));
}

#[test]
fn wrong_files_are_refused_in_one_line() {
    let refused = |text| Deployment::from_toml(text).expect_err(text).to_string();
    assert_eq!(refused("instances = []"), "a deployment without instances: at least one is needed");
    assert_eq!(
        refused("[[instances]]\n[[instances]]\nworkers = []"),
        "instance 1 has no workers: at least one is needed"
    );
    let twice = "[[instances]]\nworkers = [{ thread = 2 }]\n[[instances]]\nworkers = [{ thread = 2 }]";
    assert_eq!(refused(twice), "hardware thread 2 has two workers");
    assert_eq!(refused("memory_bytes_max = 0"), "memory_bytes_max is 0: rows and indexes need memory");
    assert_eq!(
        refused("partitioning = \"blocks\"\ncores = 3"),
        "line 2: unknown field `cores`, expected one of `transport`, `partitioning`, `workers_per_thread`, `memory_bytes_max`, `instances`"
    );
    assert!(refused("transport = \"pigeon\"").starts_with("line 1: unknown variant `pigeon`"));
    for text in
        ["[[instances]]\nworkers = [{ thread = -1 }]", "transport", "instances = 3", "memory_bytes_max = 1e3"]
    {
        let fault = refused(text);
        assert!(fault.starts_with("line ") && !fault.contains('\n'), "{fault}");
    }
}

#[test]
fn files_are_named_in_errors() {
    let path = std::env::temp_dir().join(format!("isles-deployment-{}.toml", std::process::id()));
    let deployment = Deployment::unpinned(2, 1 << 20);
    std::fs::write(&path, deployment.to_string()).expect("written");
    assert_eq!(Deployment::from_file(&path), Ok(deployment));
    std::fs::write(&path, "instances = []").expect("written");
    let fault = Deployment::from_file(&path).expect_err("refused").to_string();
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(fault, format!("{}: a deployment without instances: at least one is needed", path.display()));
    let missing = Deployment::from_file(&path).expect_err("not there").to_string();
    assert!(missing.starts_with(&path.display().to_string()) && !missing.contains('\n'), "{missing}");
}

#[test]
fn experiments_have_one_instance() {
    let mut deployment = Deployment::unpinned(1, 1 << 20);
    deployment.instances.push(Instance::default());
    let plan = Plan::new(SchemeName::ALL[0], Length::Seconds(0.001));
    let workload = Workload::Counter(CounterGroups::All);
    let refused = harness::on_hardware(&workload, &plan, &deployment, Control::NONE).expect_err("refused");
    assert_eq!(
        refused.to_string(),
        "a deployment of 2 instances: this workload has no data to divide, and needs one"
    );
    deployment.instances.clear();
    let refused = harness::on_hardware(&workload, &plan, &deployment, Control::NONE).expect_err("refused");
    assert_eq!(refused.to_string(), "a deployment without instances: at least one is needed");
}

/// Increments a second of 20 threads on two sockets, a counter for each ten of them: those with the
/// same socket, or every other one.
fn increments(apart: bool) -> f64 {
    let octo = Description::shipped("octo-socket").expect("shipped");
    let mut deployment = on("octo-socket", DeploymentRequest { workers: 20, ..local() }).expect("accepted");
    if apart {
        let workers = &mut deployment.instances[0].workers;
        *workers = (0..20).map(|worker| workers[worker % 2 * 10 + worker / 2]).collect();
    }
    let plan = Plan::new(SchemeName::ALL[0], Length::Seconds(0.0005));
    let workload = Workload::Counter(CounterGroups::Socket);
    let config = sim::Config::of(&octo).expect("a machine");
    let measured = simulate(&config, &workload, &plan, &deployment).expect("measured");
    measured.bins.iter().sum::<u64>() as f64 / measured.elapsed_seconds
}

#[test]
fn threads_share_a_counter_by_number_wherever_they_run() {
    let (together, apart) = (increments(false), increments(true));
    assert!(together > 1.5 * apart, "{together} {apart}");
}
