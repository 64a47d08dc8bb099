//! Where a workload runs: an instance's workers, their places, and the memory nodes of their rows.
//!
//! A deployment is one instance so far. Several divide the threads that are chosen here with [`machine::place`].

use std::fmt;

use machine::{HardwareThread, Node, Placement, ThreadInfo, Topology};
use platform::Place;

/// Share of the host's memory that rows and indexes may take.
const MEMORY_SHARE_PERCENT: u64 = 85;
/// Limit where the machine does not say how much memory it has.
const MEMORY_BYTES_UNKNOWN: u64 = 8 << 30;

/// Where rows live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlacement {
    /// On the node of the worker whose home they are.
    Local,
    /// All on one node: that of the first worker.
    Central,
    /// On another node than that of the worker whose home they are.
    Remote,
    /// On a node this many hops from that of the worker whose home they are.
    Hops(u32),
}

impl fmt::Display for MemoryPlacement {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryPlacement::Local => to.write_str("local"),
            MemoryPlacement::Central => to.write_str("central"),
            MemoryPlacement::Remote => to.write_str("remote"),
            MemoryPlacement::Hops(hops) => write!(to, "hops={hops}"),
        }
    }
}

/// Where the two peers of the message experiment run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// On two cores of one socket, or two threads of one core.
    SameSocket,
    /// On two sockets.
    OtherSocket,
}

/// How the parts of a workload's data are dealt to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioning {
    /// In turn.
    #[default]
    RoundRobin,
    /// In contiguous blocks.
    Blocks,
}

/// What a deployment is made from.
#[derive(Clone, Copy, Debug)]
pub struct DeploymentRequest {
    /// Number of workers.
    pub workers: usize,
    /// Most hardware threads used on a physical core.
    pub smt: usize,
    /// Where workers run.
    pub placement: Placement,
    /// Where rows live.
    pub memory: MemoryPlacement,
    /// Two workers that run as peers, wherever `placement` would have them.
    pub peers: Option<Peers>,
    /// How parts of the data are dealt to workers.
    pub partitioning: Partitioning,
}

/// What a machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeploymentError {
    /// Too few hardware threads.
    #[error("{wanted} workers: the machine has {available}")]
    TooFewThreads {
        /// Workers asked for.
        wanted: usize,
        /// Hardware threads that there are.
        available: usize,
    },
    /// No two threads for peers.
    #[error("{0}")]
    NoPeers(&'static str),
    /// One memory node, or none.
    #[error("the machine has one memory node")]
    OneNode,
    /// No memory node at the distance asked for.
    #[error("no such node seen from node {}", from.0)]
    NoSuchNode {
        /// The node of the worker.
        from: Node,
        /// Hops from there to other nodes: each number that there is, ascending.
        hops: Vec<u32>,
    },
}

/// One instance: its workers, their places and nodes.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// One place a worker.
    pub places: Vec<Place>,
    /// The memory node of each worker's rows; `None` where the machine shows one node or none.
    pub nodes: Vec<Option<Node>>,
    /// The socket of each worker.
    pub sockets: Vec<u32>,
    /// Limit for rows and indexes.
    pub memory_bytes_max: u64,
    /// How the parts of the data are dealt to workers.
    pub partitioning: Partitioning,
}

impl Deployment {
    /// Workers that run wherever the platform puts them, in one memory.
    pub fn unpinned(workers: usize, memory_bytes_max: u64) -> Self {
        Deployment {
            places: vec![Place { thread: None }; workers],
            nodes: vec![None; workers],
            sockets: vec![0; workers],
            memory_bytes_max,
            partitioning: Partitioning::default(),
        }
    }

    /// The first threads of this machine in the order in which they are filled.
    ///
    /// # Errors
    /// [`DeploymentError`]: what the machine does not have.
    pub fn on_topology(request: &DeploymentRequest, topology: &Topology) -> Result<Self, DeploymentError> {
        Deployment::on(request, topology, &hops_by_distance(topology), topology.memory_bytes())
    }

    /// As [`Self::on_topology`], with the `hops` between the nodes of `topology`, on a host with this much memory (0 where
    /// the host does not say): what is simulated lives there too.
    ///
    /// # Errors
    /// [`DeploymentError`]: what the machine does not have.
    pub fn on(
        request: &DeploymentRequest,
        topology: &Topology,
        hops: &[Vec<u32>],
        host_memory_bytes: u64,
    ) -> Result<Self, DeploymentError> {
        let threads = match (request.peers, request.placement) {
            (Some(peers), _) => peers_threads(topology, peers)?,
            (None, Placement::Spread) => spread(topology, request.workers, request.smt),
            (None, Placement::Island | Placement::Os) => topology.cores_limited(request.workers, request.smt),
        };
        if threads.len() < request.workers {
            let (wanted, available) = (request.workers, threads.len());
            return Err(DeploymentError::TooFewThreads { wanted, available });
        }
        let pinned = request.placement != Placement::Os;
        let memory_bytes_max = match host_memory_bytes {
            0 => MEMORY_BYTES_UNKNOWN,
            bytes => bytes / 100 * MEMORY_SHARE_PERCENT,
        };
        Ok(Deployment {
            places: threads.iter().map(|thread| Place { thread: pinned.then_some(*thread) }).collect(),
            nodes: memory_nodes(request.memory, topology, hops, &threads)?,
            sockets: threads.iter().map(|thread| topology.socket_of(*thread).unwrap_or(0)).collect(),
            memory_bytes_max,
            partitioning: request.partitioning,
        })
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.places.len()
    }

    /// The memory nodes of the workers' rows, each once.
    pub fn nodes_in_use(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.nodes.iter().copied().flatten().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The worker that loads part `part` of `parts`, on whose node the part then lies: the worker whose home it is, or, with
    /// [`Partitioning::Blocks`], the worker in whose block of about `parts / workers` parts it is, larger blocks first.
    pub fn loader(&self, part: usize, parts: usize) -> usize {
        let workers = self.workers();
        if self.partitioning == Partitioning::RoundRobin {
            return part % workers;
        }
        let (small, larger) = (parts / workers, parts % workers);
        let in_larger = larger * (small + 1);
        if part < in_larger { part / (small + 1) } else { larger + (part - in_larger) / small }
    }

    /// The node of part `part` of `parts`.
    pub fn home(&self, part: usize, parts: usize) -> Option<Node> {
        self.nodes[if part < parts { self.loader(part, parts) } else { part % self.workers() }]
    }
}

/// Two threads of one socket, on two cores if it has them, or the first of two sockets.
fn peers_threads(topology: &Topology, peers: Peers) -> Result<Vec<HardwareThread>, DeploymentError> {
    let threads = topology.threads();
    let Some(first) = threads.first() else {
        return Err(DeploymentError::NoPeers("the machine has no hardware thread"));
    };
    let second = match peers {
        Peers::OtherSocket => threads.iter().find(|info| info.package != first.package),
        Peers::SameSocket => {
            let here = |info: &&ThreadInfo| info.package == first.package && info.thread != first.thread;
            let other_core = threads.iter().filter(here).find(|info| info.core != first.core);
            other_core.or_else(|| threads.iter().find(here))
        }
    };
    let second = second.ok_or(DeploymentError::NoPeers(match peers {
        Peers::OtherSocket => "the machine has one socket",
        Peers::SameSocket => "every socket has one hardware thread",
    }))?;
    Ok(vec![first.thread, second.thread])
}

/// The first `count` threads when sockets are filled in turn: first one thread of each core, then their siblings.
fn spread(topology: &Topology, count: usize, smt: usize) -> Vec<HardwareThread> {
    let threads = topology.threads();
    let rank = |info: &ThreadInfo| {
        let before = threads.iter().filter(|other| other.package == info.package && other.core < info.core);
        before.filter(|other| other.sibling == 0).count()
    };
    let usable = threads.iter().filter(|info| (info.sibling as usize) < smt);
    let mut keyed: Vec<_> =
        usable.map(|info| ((info.sibling, rank(info), info.package), info.thread)).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed.into_iter().take(count).map(|(_, thread)| thread).collect()
}

/// Hops between the nodes of a real machine: the rank of the distance that its firmware reports.
fn hops_by_distance(topology: &Topology) -> Vec<Vec<u32>> {
    let nodes: Vec<Node> = topology.nodes().iter().map(|memory| memory.node).collect();
    let mut hops = Vec::with_capacity(nodes.len());
    for from in &nodes {
        let distances: Vec<u32> = nodes.iter().map(|to| topology.distance(*from, *to)).collect();
        let mut others: Vec<u32> = nodes
            .iter()
            .zip(&distances)
            .filter(|(to, _)| *to != from)
            .map(|(_, distance)| *distance)
            .collect();
        others.sort_unstable();
        others.dedup();
        let rank =
            |distance| others.iter().position(|other| *other == distance).map_or(1, |rank| rank as u32 + 1);
        let row = nodes.iter().zip(&distances);
        hops.push(row.map(|(to, distance)| if to == from { 0 } else { rank(*distance) }).collect());
    }
    hops
}

/// The memory node of each worker's rows. Of several nodes at the distance asked for, a worker takes the next one after
/// its own, so that workers of different nodes load different memories.
fn memory_nodes(
    memory: MemoryPlacement,
    topology: &Topology,
    hops: &[Vec<u32>],
    threads: &[HardwareThread],
) -> Result<Vec<Option<Node>>, DeploymentError> {
    let nodes = topology.nodes();
    let own = |thread: &HardwareThread| {
        topology.node_of(*thread).and_then(|node| topology.node_position(node)).unwrap_or(0)
    };
    let distance = |from: usize, to: usize| hops.get(from).and_then(|row| row.get(to)).copied().unwrap_or(1);
    let wanted = |from: usize| {
        let after = (1..=nodes.len()).map(|step| (from + step) % nodes.len());
        match memory {
            MemoryPlacement::Local | MemoryPlacement::Hops(0) => Some(from),
            MemoryPlacement::Central => threads.first().map(own),
            MemoryPlacement::Remote => after.into_iter().find(|to| *to != from),
            MemoryPlacement::Hops(hops) => {
                after.into_iter().find(|to| *to != from && distance(from, *to) == hops)
            }
        }
    };
    let missing = |from: usize| {
        let mut hops: Vec<u32> = (0..nodes.len()).map(|to| distance(from, to)).collect();
        hops.sort_unstable();
        hops.dedup();
        let hops = hops.into_iter().skip(1).collect();
        DeploymentError::NoSuchNode { from: nodes[from].node, hops }
    };
    let several = nodes.len() > 1;
    let here = matches!(memory, MemoryPlacement::Local | MemoryPlacement::Central | MemoryPlacement::Hops(0));
    let node_of = |thread: &HardwareThread| match (several, here) {
        (false, true) => Ok(None),
        (false, false) => Err(DeploymentError::OneNode),
        (true, _) => {
            let from = own(thread);
            let to = wanted(from).ok_or_else(|| missing(from))?;
            Ok(Some(nodes[to].node))
        }
    };
    threads.iter().map(node_of).collect()
}
