//! A description of a machine of known structure: measured values, and estimates for the others.

use super::core::{CoreCost, CoreFacts};
use super::fact::{Confidence, Fact, FactMatrix};
use super::facts::{Caches, Facts, NodeValues, Transfer, Transfers};
use super::fill;
use super::measured::{Classes, CoreToCore, Measurements, entry, fact, matrix, usable};
use super::shape::{L3, Shape};
use super::value::Description;
use crate::topology::{Level, Topology};

const SOURCE: &str = "usual for a server processor; not measured on this machine";
const SOURCE_SYSTEM: &str = "operating system";
const SOURCE_DISTANCES: &str = "usual local latency, in proportion to the firmware's distances";
const SOURCE_FROM_LINES: &str = "usual local latency, and what a line takes longer from there";
const SOURCE_LINE_NEAR: &str = "rule: 2.5 x L3 load-to-use";
const SOURCE_LINE_DOMAIN: &str = "0.9 of the usual local memory latency: almost as far";
const SOURCE_LINE_FAR: &str = "rule: that socket's memory latency + 10 %";
/// Latency of local memory.
const LOCAL_NS: f64 = 100.0;
/// Remote memory is never assumed slower than this multiple of local memory, whatever firmware
/// reports.
const REMOTE_FACTOR_MAX: f64 = 4.0;
/// A line behind another L3 of the same node travels almost as far as one from memory.
const OTHER_DOMAIN_FACTOR: f64 = 0.9;
/// Rule: a dirty line from another socket costs that socket's memory latency and a tenth.
const FAR_LINE_FACTOR: f64 = 1.1;
/// Clock of a typical server processor.
const CLOCK_GHZ: f64 = 2.5;

/// Describes a topology.
pub(super) fn describe(topology: &Topology, measured: &Measurements) -> Description {
    let lines = measured
        .core_to_core_ns
        .as_ref()
        .and_then(|values| CoreToCore::of(values, topology.threads().len(), &measured.source));
    let classes = Classes::of(topology, lines.as_ref());
    let clock_ghz = fact(measured.clock_ghz, measured, CLOCK_GHZ, SOURCE);
    let caches = caches(topology, measured, clock_ghz.value);
    let near = near(topology, measured, &classes, &caches, clock_ghz.value);
    let memory_ns = memory_ns(topology, measured, &classes, &near);
    let between = between_nodes(measured, &classes, &near, &memory_ns);
    let given_gbps = |row, column| measured.memory_gbps.as_ref().and_then(|gbps| entry(gbps, row, column));
    let facts = Facts {
        name: measured.name.clone(),
        processor: measured.processor.clone(),
        links: String::new(),
        confidence: if lines.is_some() || measured.memory_ns.is_some() {
            measured.confidence
        } else {
            Confidence::Estimate
        },
        source: SOURCE.to_owned(),
        shape: shape(topology),
        machines: 1,
        network: None,
        year: None,
        memory_bytes: topology.memory_bytes(),
        clock_ghz,
        line_bytes: size_of(topology, Level::L1Data, |cache| u64::from(cache.line_bytes))
            .map(|bytes| system(bytes as u32)),
        caches,
        memory_ns: NodeValues::Full(memory_ns),
        memory_gbps: None,
        link_gbps: None,
        node_links: None,
        load: Transfers { modified: Some(near), ..Transfers::default() },
        store: Transfers::default(),
        atomic: Transfers::default(),
        dirty_line: Some(between),
        core: core(measured),
        translation: None,
        own_atomic: usable(measured.atomic_ns).map(|value| fact(Some(value), measured, value, SOURCE)),
        smt_shares: Vec::new(),
    };
    let mut described = fill::complete(facts, topology.clone());
    let rule = described.memory_gbps.clone();
    let size = rule.values.len();
    described.memory_gbps =
        matrix(size, measured, given_gbps, |row, column| rule.values[row][column], &rule.source);
    if let Some(share) = usable(measured.smt_share)
        && let Some(two) = described.smt_shares.iter_mut().find(|known| known.siblings == 2)
    {
        two.share = fact(Some(share), measured, share, SOURCE);
    }
    exact(&mut described, topology, measured);
    described.sibling_ns = usable(classes.sibling).map(|value| fact(Some(value), measured, value, SOURCE));
    described.core_to_core = lines;
    described
}

/// Measured properties of a core.
fn core(measured: &Measurements) -> CoreFacts {
    let mut given = CoreFacts::default();
    for (cost, value) in [(CoreCost::ClockNs, measured.clock_ns), (CoreCost::PauseNs, measured.pause_ns)] {
        given[cost as usize] = usable(value).map(|value| fact(Some(value), measured, value, SOURCE));
    }
    given
}

fn system<T>(value: T) -> Fact<T> {
    Fact { value, confidence: Confidence::Measured, source: SOURCE_SYSTEM.to_owned() }
}

/// A property of the first cache of a level, if it is known.
fn size_of(topology: &Topology, level: Level, size: fn(&crate::Cache) -> u64) -> Option<u64> {
    topology.caches().iter().find(|cache| cache.level == level).map(size).filter(|&size| size > 0)
}

fn caches(topology: &Topology, measured: &Measurements, clock_ghz: f64) -> Caches {
    let bytes = |level: Level, usual: u64| size_of(topology, level, |cache| cache.bytes).unwrap_or(usual);
    let cycles =
        |ns: Option<f64>, usual: f64| fact(usable(ns).map(|ns| ns * clock_ghz), measured, usual, SOURCE);
    let has_l3 = topology.caches().iter().any(|cache| cache.level == Level::L3);
    let l3_bytes = has_l3.then(|| bytes(Level::L3, 32 << 20));
    Caches {
        l1_bytes: bytes(Level::L1Data, 32 << 10),
        l2_bytes: bytes(Level::L2, 1 << 20),
        l3_bytes,
        l1_cycles: cycles(measured.l1_ns, 4.0),
        l2_cycles: cycles(measured.l2_ns, 14.0),
        l3_cycles: l3_bytes.map(|_| cycles(measured.l3_ns, 50.0)),
    }
}

fn shape(topology: &Topology) -> Shape {
    let size = topology.nodes().len();
    Shape {
        sockets: size,
        cores_per_socket: topology.threads().len().div_ceil(size),
        smt: topology.smt(),
        l3: L3::Socket,
        unusable_cores: 0,
        chassis: None,
        hops: hops(topology),
    }
}

/// Costs of a dirty line within a node.
fn near(
    topology: &Topology,
    measured: &Measurements,
    classes: &Classes,
    caches: &Caches,
    clock_ghz: f64,
) -> Transfer {
    // Without an L3 the line comes from the other core's L2.
    let last = caches.l3_cycles.as_ref().unwrap_or(&caches.l2_cycles);
    let domain = fact(classes.same_domain, measured, 2.5 * last.value / clock_ghz, SOURCE_LINE_NEAR);
    let several = topology.threads().first().is_some_and(|first| {
        topology.threads().iter().any(|info| info.node == first.node && info.l3_domain != first.l3_domain)
    });
    let node = match usable(classes.same_node) {
        None if !several => domain.clone(),
        known => {
            let rule = (OTHER_DOMAIN_FACTOR * LOCAL_NS).max(domain.value);
            fact(known, measured, rule, SOURCE_LINE_DOMAIN)
        }
    };
    Transfer { same_domain: Some(domain), by_hops: vec![node] }
}

/// Costs of a dirty line between nodes; the diagonal repeats that within a node.
fn between_nodes(
    measured: &Measurements,
    classes: &Classes,
    near: &Transfer,
    memory_ns: &FactMatrix,
) -> FactMatrix {
    let node = &near.by_hops[0];
    let given = |row: usize, column: usize| match row == column {
        true => Some(node.value).filter(|_| node.confidence != Confidence::Estimate),
        false => classes.between_nodes[row][column],
    };
    let rule = |row: usize, column: usize| match row == column {
        true => node.value,
        false => FAR_LINE_FACTOR * memory_ns.values[row][column],
    };
    matrix(memory_ns.values.len(), measured, given, rule, SOURCE_LINE_FAR)
}

/// Memory latencies as measured, else in proportion to the firmware's distances, else from the
/// measured line transfers.
fn memory_ns(topology: &Topology, measured: &Measurements, classes: &Classes, near: &Transfer) -> FactMatrix {
    let nodes = topology.nodes();
    let given = |row, column| measured.memory_ns.as_ref().and_then(|known| entry(known, row, column));
    let local = |node: usize| given(node, node).unwrap_or(LOCAL_NS);
    let longer = |row: usize, column: usize| {
        let far = classes.between_nodes[row][column].filter(|_| topology.distances().is_none())?;
        Some((far - near.by_hops[0].value).max(0.0))
    };
    let value = |row: usize, column: usize| {
        if row == column {
            return local(row);
        }
        let (from, to) = (nodes[row].node, nodes[column].node);
        let own = f64::from(topology.distance(from, from));
        let factor = (f64::from(topology.distance(from, to)) / own).min(REMOTE_FACTOR_MAX);
        longer(row, column).map_or(local(row) * factor, |longer| local(row) + longer)
    };
    let by_lines = (0..nodes.len())
        .any(|row| (0..nodes.len()).any(|column| row != column && longer(row, column).is_some()));
    let rule_source = match (by_lines, topology.distances().is_some()) {
        (true, _) => SOURCE_FROM_LINES,
        (false, true) => SOURCE_DISTANCES,
        (false, false) => SOURCE,
    };
    matrix(nodes.len(), measured, given, value, rule_source)
}

/// Restores values that the facts of a file cannot hold: the source of each size, and exact
/// latencies.
fn exact(described: &mut Description, topology: &Topology, measured: &Measurements) {
    let (l1, l2) = (&mut described.l1, &mut described.l2);
    let levels = [(Level::L1Data, Some(l1), measured.l1_ns), (Level::L2, Some(l2), measured.l2_ns)];
    let l3 = [(Level::L3, described.l3.as_mut(), measured.l3_ns)];
    for (level, cache, latency) in levels.into_iter().chain(l3) {
        let Some(cache) = cache else { continue };
        cache.bytes = match size_of(topology, level, |cache| cache.bytes) {
            Some(bytes) => system(bytes),
            None => Fact::estimate(cache.bytes.value, SOURCE),
        };
        cache.load_ns.value = usable(latency).unwrap_or(cache.load_ns.value);
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
