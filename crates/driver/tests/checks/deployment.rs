//! Deployments on described machines: the places of workers and of their memory.

use driver::{Deployment, DeploymentError, DeploymentRequest, MemoryPlacement, Partitioning, Peers};
use machine::{Description, Node, Placement};
use platform::Place;

const LOCAL: DeploymentRequest = DeploymentRequest {
    workers: 1,
    smt: usize::MAX,
    placement: Placement::Island,
    memory: MemoryPlacement::Local,
    peers: None,
    partitioning: Partitioning::RoundRobin,
};

/// A deployment on a machine that ships with Isles.
fn on(machine: &str, request: DeploymentRequest) -> Result<Deployment, DeploymentError> {
    let description = Description::shipped(machine).expect("shipped");
    Deployment::on(&request, &description.topology, &description.hops, 0)
}

fn nodes(machine: &str, workers: usize, memory: MemoryPlacement) -> Vec<u32> {
    let deployment = on(machine, DeploymentRequest { workers, memory, ..LOCAL }).expect("accepted");
    deployment.nodes.iter().map(|node| node.expect("several nodes").0).collect()
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
    let request = DeploymentRequest { memory: MemoryPlacement::Hops(3), ..LOCAL };
    let missing = DeploymentError::NoSuchNode { from: Node(0), hops: vec![1, 2] };
    assert_eq!(on("octo-socket", request).err(), Some(missing));
    let native = machine::discover(None).expect("this machine");
    if native.nodes().len() == 1 {
        let request = DeploymentRequest { memory: MemoryPlacement::Remote, ..LOCAL };
        let fault = Deployment::on_topology(&request, &native).err();
        assert_eq!(fault, Some(DeploymentError::OneNode));
    }
}

#[test]
fn too_many_workers_are_refused() {
    let fault = on("quad-socket", DeploymentRequest { workers: 25, ..LOCAL }).err();
    assert_eq!(fault, Some(DeploymentError::TooFewThreads { wanted: 25, available: 24 }));
}

#[test]
fn spread_goes_round_the_sockets() {
    let spread = |machine, workers| {
        on(machine, DeploymentRequest { workers, placement: Placement::Spread, ..LOCAL }).expect("accepted")
    };
    assert_eq!(spread("quad-socket", 5).sockets, [0, 1, 2, 3, 0]);
    let island = on("quad-socket", DeploymentRequest { workers: 5, ..LOCAL }).expect("accepted");
    assert_eq!(island.sockets, [0; 5]);
    let description = Description::shipped("superdome-flex").expect("shipped");
    let places = spread("superdome-flex", 60).places;
    let mut cores: Vec<u32> = places.iter().map(|place| core_of(&description, place)).collect();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 60, "no two on one core while others are free");
    let unpinned = on("quad-socket", DeploymentRequest { placement: Placement::Os, ..LOCAL });
    assert!(unpinned.expect("accepted").places[0].thread.is_none());
}

#[test]
fn peers_are_where_asked() {
    let peers = |machine, peers| {
        on(machine, DeploymentRequest { workers: 2, peers: Some(peers), ..LOCAL }).expect("accepted")
    };
    assert_eq!(peers("quad-socket", Peers::SameSocket).sockets, [0, 0]);
    assert_eq!(peers("quad-socket", Peers::OtherSocket).sockets, [0, 1]);
    let description = Description::shipped("superdome-flex").expect("shipped");
    let places = peers("superdome-flex", Peers::SameSocket).places;
    let cores: Vec<u32> = places.iter().map(|place| core_of(&description, place)).collect();
    assert_ne!(cores[0], cores[1], "two cores, not two siblings");
    let native = machine::discover(None).expect("this machine");
    if native.socket_count() == 1 && native.threads().len() > 1 {
        let request = DeploymentRequest { workers: 2, peers: Some(Peers::OtherSocket), ..LOCAL };
        let fault = Deployment::on_topology(&request, &native).err();
        assert_eq!(fault, Some(DeploymentError::NoPeers("the machine has one socket")));
    }
}

#[test]
fn blocks_are_contiguous_and_the_larger_ones_come_first() {
    let loaders = |workers, partitioning| {
        let deployment =
            on("quad-socket", DeploymentRequest { workers, partitioning, ..LOCAL }).expect("accepted");
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
        let request = DeploymentRequest { memory: MemoryPlacement::Hops(hops), ..LOCAL };
        Deployment::on_topology(&request, &description.topology)
    };
    assert_eq!(deployment(1).expect("accepted").nodes, [Some(Node(1))]);
    assert_eq!(deployment(2).err(), Some(DeploymentError::NoSuchNode { from: Node(0), hops: vec![1] }));
}
