//! Where the workers of a run are and where their memory lies.

use machine::{Node, Topology};
use platform::Place;

use crate::choices::Placement;
use crate::config::Config;
use crate::errors::Failure;

/// Share of the host's memory that rows and indexes may take.
const MEMORY_SHARE_PERCENT: u64 = 85;
/// Limit where the machine does not say how much memory it has.
const MEMORY_BYTES_UNKNOWN: u64 = 8 << 30;

/// Workers, their places and nodes.
pub(crate) struct Setting {
    /// One place a worker.
    pub places: Vec<Place>,
    /// The memory node of each worker; `None` where the machine shows none.
    pub nodes: Vec<Option<Node>>,
    /// The socket of each worker.
    pub sockets: Vec<u32>,
    /// Limit for rows and indexes.
    pub memory_bytes_max: u64,
}

impl Setting {
    /// The first threads of the machine in the order in which they are filled.
    pub(crate) fn of_topology(config: &Config, topology: &Topology) -> Result<Setting, Failure> {
        Setting::of_threads(config, topology, topology.memory_bytes())
    }

    /// As [`Self::of_topology`], on a host with this much memory (0 where it does not say): what is simulated lives there
    /// too.
    pub(crate) fn of_threads(
        config: &Config,
        topology: &Topology,
        host_memory_bytes: u64,
    ) -> Result<Setting, Failure> {
        let threads = topology.cores_limited(config.cores, config.smt);
        if threads.len() < config.cores {
            let (wanted, there) = (config.cores, threads.len());
            return Err(Failure::Failed(format!("--cores {wanted}: the machine has {there}")));
        }
        let pinned = config.placement != Placement::Os;
        let places = threads.iter().map(|thread| Place { thread: pinned.then_some(*thread) }).collect();
        let several = topology.nodes().len() > 1;
        let nodes = threads.iter().map(|thread| topology.node_of(*thread).filter(|_| several)).collect();
        let sockets = threads.iter().map(|thread| topology.socket_of(*thread).unwrap_or(0)).collect();
        let memory = match host_memory_bytes {
            0 => MEMORY_BYTES_UNKNOWN,
            bytes => bytes / 100 * MEMORY_SHARE_PERCENT,
        };
        Ok(Setting { places, nodes, sockets, memory_bytes_max: memory })
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.places.len()
    }
}
