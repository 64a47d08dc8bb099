//! A description for a discovered machine that nobody has measured yet.

use super::facts::{Caches, Facts, NodeValues, Transfer, Transfers};
use super::shape::{L3, Shape};
use super::{Confidence, Description, Fact, FactMatrix, fill};
use crate::topology::{Cache, Level, Topology};

const SOURCE: &str = "usual for a server processor; not measured on this machine";
/// Latency of local memory.
const LOCAL_NS: f64 = 100.0;
/// Remote memory is not taken for slower than this multiple of local memory, whatever firmware claims.
const REMOTE_FACTOR_MAX: f64 = 4.0;
/// A line behind another L3 of the same node travels almost as far as one from memory.
const OTHER_DOMAIN_FACTOR: f64 = 0.9;

/// Describes a topology.
pub(super) fn describe(topology: &Topology) -> Description {
    let size = topology.nodes().len();
    let first = |level: Level| topology.caches().iter().find(|cache| cache.level == level);
    let bytes = |level: Level, usual: u64| {
        first(level).map(|cache| cache.bytes).filter(|&bytes| bytes > 0).unwrap_or(usual)
    };
    let clock_ghz = Fact::estimate(2.5, SOURCE);
    let l3_bytes = first(Level::L3).map(|_| bytes(Level::L3, 32 << 20));
    let caches = Caches {
        l1_bytes: bytes(Level::L1Data, 32 << 10),
        l2_bytes: bytes(Level::L2, 1 << 20),
        l3_bytes,
        l1_cycles: Fact::estimate(4.0, SOURCE),
        l2_cycles: Fact::estimate(14.0, SOURCE),
        l3_cycles: l3_bytes.map(|_| Fact::estimate(50.0, SOURCE)),
    };
    let memory_ns = memory_ns(topology);
    let load = Transfers { modified: dirty_line(topology, &caches, clock_ghz.value), ..Transfers::default() };
    let dirty_line = load.modified.as_ref().map(|near| beyond(near, &memory_ns));
    let line_bytes = first(Level::L1Data).map(|cache: &Cache| cache.line_bytes).filter(|&bytes| bytes > 0);
    let shape = Shape {
        sockets: size,
        cores_per_socket: topology.threads().len().div_ceil(size),
        smt: topology.smt(),
        l3: L3::Socket,
        unusable_cores: 0,
        chassis: None,
        hops: hops(topology),
    };
    let facts = Facts {
        name: "native".to_owned(),
        processor: String::new(),
        links: String::new(),
        confidence: Confidence::Estimate,
        source: SOURCE.to_owned(),
        shape,
        machines: 1,
        network: None,
        year: None,
        memory_bytes: topology.memory_bytes(),
        clock_ghz,
        line_bytes: line_bytes.map(|bytes| Fact {
            value: bytes,
            confidence: Confidence::Measured,
            source: "operating system".to_owned(),
        }),
        caches,
        memory_ns: NodeValues::Full(memory_ns),
        memory_gbps: None,
        link_gbps: None,
        node_links: None,
        load,
        store: Transfers::default(),
        atomic: Transfers::default(),
        dirty_line,
    };
    fill::complete(facts, topology.clone())
}

/// Memory latencies in proportion to the firmware's distances.
fn memory_ns(topology: &Topology) -> FactMatrix {
    let nodes = topology.nodes();
    let value = |from: usize, to: usize| {
        let (from, to) = (nodes[from].node, nodes[to].node);
        let own = f64::from(topology.distance(from, from));
        LOCAL_NS * (f64::from(topology.distance(from, to)) / own).min(REMOTE_FACTOR_MAX)
    };
    let size = nodes.len();
    FactMatrix {
        values: (0..size).map(|from| (0..size).map(|to| value(from, to)).collect()).collect(),
        confidence: vec![vec![Confidence::Estimate; size]; size],
        source: SOURCE.to_owned(),
    }
}

/// Hops by rank of distance: nearer nodes are fewer hops away.
fn hops(topology: &Topology) -> Vec<Vec<u32>> {
    let nodes = topology.nodes();
    let row = |from: usize| -> Vec<u32> {
        let distance = |to: usize| topology.distance(nodes[from].node, nodes[to].node);
        let mut remote: Vec<u32> = (0..nodes.len()).filter(|&to| to != from).map(distance).collect();
        remote.sort_unstable();
        remote.dedup();
        let rank = |to: usize| remote.partition_point(|&known| known < distance(to)) as u32 + 1;
        (0..nodes.len()).map(|to| if to == from { 0 } else { rank(to) }).collect()
    };
    (0..nodes.len()).map(row).collect()
}

/// Costs within a node where it has several L3 domains; `None` where the general rule does.
fn dirty_line(topology: &Topology, caches: &Caches, clock_ghz: f64) -> Option<Transfer> {
    let first = topology.threads().first()?;
    let several =
        topology.threads().iter().any(|info| info.node == first.node && info.l3_domain != first.l3_domain);
    let l3 = caches.l3_cycles.as_ref().filter(|_| several)?;
    Some(Transfer {
        same_domain: Some(Fact::estimate(2.5 * l3.value / clock_ghz, SOURCE)),
        by_hops: vec![Fact::estimate(OTHER_DOMAIN_FACTOR * LOCAL_NS, SOURCE)],
    })
}

/// Costs between nodes next to those within one.
fn beyond(near: &Transfer, memory_ns: &FactMatrix) -> FactMatrix {
    let mut matrix = memory_ns.clone();
    for (from, row) in matrix.values.iter_mut().enumerate() {
        for (to, value) in row.iter_mut().enumerate() {
            *value = if from == to { near.by_hops[0].value } else { *value * 1.1 };
        }
    }
    matrix
}
