//! Deployments that follow from a machine.

use machine::{Peers, PlaceError, Placement, Topology, WorkerRequest, place_peers, place_workers};
use serde::{Serialize, Serializer};

use super::error::DeploymentError;
use super::memory::{MemoryPlacement, hops_by_distance, memory_nodes};
use super::value::{Deployment, Instance, MEMORY_BYTES_UNKNOWN, Partitioning, Transport, WorkerPlace};
use crate::names::serialize_name;

/// Share of the host's memory that rows and indexes may take.
const MEMORY_SHARE_PERCENT: u64 = 85;

/// The request that a deployment is made from. Serialises as the flags of `isles bench`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeploymentRequest {
    /// Number of hardware threads of the workers, of all instances together.
    #[serde(rename = "cores")]
    pub workers: usize,
    /// Workers of each of these hardware threads: with several, the operating system runs them in
    /// turns.
    #[serde(skip_serializing_if = "is_one")]
    pub workers_per_thread: usize,
    /// Most hardware threads used on a physical core.
    pub smt: usize,
    /// Machines among which the workers are divided evenly; `None` fills each before the next.
    pub machines: Option<usize>,
    /// Number of instances, whose numbers of workers differ by at most one.
    #[serde(rename = "deploy", serialize_with = "serialize_instances")]
    pub instances: usize,
    /// The placement of workers.
    #[serde(serialize_with = "serialize_name")]
    pub placement: Placement,
    /// The placement of rows.
    #[serde(serialize_with = "serialize_memory")]
    pub memory: MemoryPlacement,
    /// Two workers that run as peers, instead of by `placement`.
    #[serde(skip)]
    pub peers: Option<Peers>,
    /// How parts of the data are assigned to workers.
    #[serde(skip)]
    pub partitioning: Partitioning,
    /// The transport between instances on one machine.
    pub transport: Transport,
}

fn serialize_instances<S: Serializer>(instances: &usize, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{instances}isl"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(count: &usize) -> bool {
    *count == 1
}

fn serialize_memory<S: Serializer>(memory: &MemoryPlacement, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(memory)
}

impl Default for DeploymentRequest {
    /// One worker, with its rows on its own node.
    fn default() -> Self {
        DeploymentRequest {
            workers: 1,
            workers_per_thread: 1,
            smt: usize::MAX,
            machines: None,
            instances: 1,
            placement: Placement::Island,
            memory: MemoryPlacement::Local,
            peers: None,
            partitioning: Partitioning::default(),
            transport: Transport::default(),
        }
    }
}

impl DeploymentRequest {
    /// Number of workers.
    pub fn all_workers(&self) -> usize {
        self.workers * self.workers_per_thread
    }
}

impl Deployment {
    /// The deployment of `request` on this machine.
    ///
    /// # Errors
    /// [`DeploymentError`]: the machine lacks something.
    pub fn on_topology(request: &DeploymentRequest, topology: &Topology) -> Result<Self, DeploymentError> {
        Deployment::on(request, topology, &hops_by_distance(topology), topology.memory_bytes())
    }

    /// As [`Self::on_topology`], with the `hops` between the nodes of `topology`, of a cluster
    /// those of one machine, on a host with this much memory (0 if unknown), which also holds the
    /// memory of simulated machines.
    ///
    /// # Errors
    /// [`DeploymentError`]: the machine lacks something.
    pub fn on(
        request: &DeploymentRequest,
        topology: &Topology,
        hops: &[Vec<u32>],
        host_memory_bytes: u64,
    ) -> Result<Self, DeploymentError> {
        let DeploymentRequest { workers, workers_per_thread, smt, machines, instances, placement, .. } =
            *request;
        let sets = match request.peers {
            Some(peers) => peer_sets(place_peers(topology, peers)?, instances)?,
            None => place_workers(topology, &WorkerRequest { workers, smt, instances, placement, machines })?,
        };
        // The number of peers is two, that of other workers the requested one.
        let available = sets.iter().map(Vec::len).sum();
        if available < workers {
            return Err(PlaceError::TooFewThreads { wanted: workers, available }.into());
        }
        let repeated = |set: Vec<_>| -> Vec<_> {
            set.into_iter().flat_map(|thread| std::iter::repeat_n(thread, workers_per_thread)).collect()
        };
        let sets: Vec<_> = sets.into_iter().map(repeated).collect();
        let threads = sets.concat();
        let mut nodes = memory_nodes(request.memory, topology, hops, &threads)?.into_iter();
        let pinned = placement != Placement::Os;
        let mut worker = |thread| WorkerPlace {
            thread: pinned.then_some(thread),
            node: nodes.next().flatten(),
            socket: topology.socket_of(thread).unwrap_or(0),
        };
        let machine = |set: &Vec<_>| set.first().and_then(|first| topology.machine_of(*first)).unwrap_or(0);
        let mut instance = |set: Vec<_>| Instance {
            machine: machine(&set),
            workers: set.into_iter().map(&mut worker).collect(),
        };
        Ok(Deployment {
            transport: request.transport,
            partitioning: request.partitioning,
            workers_per_thread,
            memory_bytes_max: match host_memory_bytes {
                0 => MEMORY_BYTES_UNKNOWN,
                bytes => bytes / 100 * MEMORY_SHARE_PERCENT,
            },
            instances: sets.into_iter().map(&mut instance).collect(),
        })
    }
}

/// Peers in one instance, or in one each.
fn peer_sets<T: Copy>(peers: [T; 2], instances: usize) -> Result<Vec<Vec<T>>, PlaceError> {
    match instances {
        0 => Err(PlaceError::NoInstances),
        1 => Ok(vec![peers.to_vec()]),
        2 => Ok(peers.map(|peer| vec![peer]).to_vec()),
        instances => Err(PlaceError::TooManyInstances { instances, threads: 2 }),
    }
}
