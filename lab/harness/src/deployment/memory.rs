//! The memory nodes of rows.

use std::fmt;

use machine::{HardwareThread, Node, Topology};

use super::error::DeploymentError;

/// The placement of rows in memory nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlacement {
    /// On the node of the worker for which they are home.
    Local,
    /// All on one node: that of the first worker.
    Central,
    /// On another node than that of the worker for which they are home.
    Remote,
    /// On a node at this many hops from that of the worker for which they are home.
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

/// Hops between the nodes of a real machine: the rank of the distance that its firmware reports.
pub(crate) fn hops_by_distance(topology: &Topology) -> Vec<Vec<u32>> {
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

/// The memory node of each worker's rows, which is on the worker's machine. If several nodes are at
/// the requested distance, a worker uses the next one after its own, so that workers of different
/// nodes load different memories.
pub(crate) fn memory_nodes(
    memory: MemoryPlacement,
    topology: &Topology,
    hops: &[Vec<u32>],
    threads: &[HardwareThread],
) -> Result<Vec<Option<Node>>, DeploymentError> {
    let nodes = topology.nodes();
    let own = |thread: &HardwareThread| {
        topology.node_of(*thread).and_then(|node| topology.node_position(node)).unwrap_or(0)
    };
    // All machines are equal, and the nodes of a machine have consecutive numbers.
    let inside = (nodes.len() / topology.machine_count().max(1)).max(1);
    let distance = |from: usize, to: usize| {
        hops.get(from % inside).and_then(|row| row.get(to % inside)).copied().unwrap_or(1)
    };
    let wanted = |from: usize| {
        let first = from / inside * inside;
        let after = (1..=inside).map(|step| first + (from - first + step) % inside);
        match memory {
            MemoryPlacement::Local | MemoryPlacement::Hops(0) => Some(from),
            MemoryPlacement::Central => threads.iter().map(own).find(|node| node / inside == from / inside),
            MemoryPlacement::Remote => after.into_iter().find(|to| *to != from),
            MemoryPlacement::Hops(hops) => {
                after.into_iter().find(|to| *to != from && distance(from, *to) == hops)
            }
        }
    };
    let missing = |from: usize| {
        let mut hops: Vec<u32> = (0..inside).map(|to| distance(from, to)).collect();
        hops.sort_unstable();
        hops.dedup();
        let hops = hops.into_iter().skip(1).collect();
        DeploymentError::NoSuchNode { from: nodes[from].node, hops }
    };
    let here = matches!(memory, MemoryPlacement::Local | MemoryPlacement::Central | MemoryPlacement::Hops(0));
    // The rows of a machine's workers are on its own nodes, even if it has one.
    let several = inside > 1 || (here && nodes.len() > 1);
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
