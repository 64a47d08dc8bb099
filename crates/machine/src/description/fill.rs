//! Rules that fill in the missing values of a description.
//!
//! They are those at the head of `data/machines.toml`, fixed before any database measurement: a
//! dirty line from the same socket costs 2.5 times the L3's load-to-use latency, from another
//! socket that socket's memory latency plus 10 %; a shared clean line 0.8 of the dirty one; a store
//! or atomic on a line in another cache the dirty cost plus 5 %, on an own line L1 plus 15 cycles.
//! A line that is clean but exclusive must be requested from its owner like a dirty one; there is
//! no rule for it, and it costs the same. Matrices measured from one node only are extended by
//! structure.

use super::core::{Basis, CoreCosts};
use super::fact::{Confidence, Fact, FactMatrix};
use super::facts::{Facts, NodeValues, Transfer, Transfers};
use super::shape::Sizes;
use super::value::{AccessCosts, CacheFacts, Description, Reach, SmtShare};
use crate::topology::Topology;

const RULE_DIRTY_SOCKET: &str = "rule: 2.5 x L3 load-to-use";
const RULE_DIRTY_REMOTE: &str = "rule: that socket's memory latency + 10 %";
const RULE_SHARED: &str = "rule: 0.8 of the dirty line";
const RULE_EXCLUSIVE: &str = "as the dirty line: its owner must be asked";
const RULE_WRITE: &str = "rule: dirty line + 5 %";
const RULE_OWN_WRITE: &str = "rule: L1 + 15 cycles";
const RULE_LINE: &str = "rule: 64 bytes";
const RULE_LINKS: &str = "rule: a link to each node one hop away";
const RULE_LINK: &str = "rule: 12 GB/s a link";
const RULE_CONTROLLER: &str = "rule: 20 GB/s a socket until 2012, 100 GB/s later";
const RULE_SMT: &str = "rule: two siblings 0.6 of a core each, four 0.42, eight 0.28";

/// Shares of SMT siblings by rule.
const SMT_SHARES: [(usize, f64); 4] = [(1, 1.0), (2, 0.6), (4, 0.42), (8, 0.28)];

/// Completes the facts of a file.
pub(super) fn fill(facts: Facts) -> Description {
    let line_bytes = facts.line_bytes.as_ref().map_or(64, |fact| fact.value);
    let sizes =
        Sizes { l1: facts.caches.l1_bytes, l2: facts.caches.l2_bytes, l3: facts.caches.l3_bytes, line_bytes };
    let topology =
        facts.shape.topology(facts.memory_bytes, &sizes, &over_nodes(&facts, &facts.memory_ns).values);
    complete(facts, topology)
}

/// Completes facts for a topology with as many nodes as the facts have.
pub(super) fn complete(facts: Facts, topology: Topology) -> Description {
    let memory_ns = over_nodes(&facts, &facts.memory_ns);
    let link_gbps = link_gbps(&facts);
    let memory_gbps = match &facts.memory_gbps {
        Some(values) => over_nodes(&facts, values),
        None => bandwidth_by_rule(&facts, link_gbps.value),
    };
    let costs = Costs::new(&facts, &memory_ns);
    let cache = |bytes: u64, cycles: &Fact<f64>| CacheFacts {
        bytes: Fact { value: bytes, confidence: facts.confidence, source: facts.source.clone() },
        load_ns: costs.nanoseconds(cycles),
    };
    let caches = &facts.caches;
    let (l1, l2) = (cache(caches.l1_bytes, &caches.l1_cycles), cache(caches.l2_bytes, &caches.l2_cycles));
    let l3 = caches.l3_bytes.zip(caches.l3_cycles.as_ref()).map(|(bytes, cycles)| cache(bytes, cycles));
    let (load, store, atomic) = (
        costs.load(),
        costs.write(&facts.store, None),
        costs.write(&facts.atomic, facts.own_atomic.as_ref()),
    );
    Description {
        name: facts.name.clone(),
        processor: facts.processor.clone(),
        links: facts.links.clone(),
        confidence: facts.confidence,
        machines: facts.machines,
        network: facts.network.clone(),
        clock_ghz: facts.clock_ghz.clone(),
        line_bytes: facts.line_bytes.clone().unwrap_or_else(|| Fact::estimate(64, RULE_LINE)),
        l1,
        l2,
        l3,
        hops: facts.shape.hops.clone(),
        load,
        store,
        atomic,
        memory_ns,
        memory_gbps,
        link_gbps,
        chassis_nodes: facts.shape.chassis,
        node_links: node_links(&facts),
        core: core_costs(&facts),
        translation: facts.translation.clone(),
        smt_shares: smt_shares(&facts.smt_shares, topology.smt()),
        sibling_ns: None,
        core_to_core: None,
        topology,
    }
}

/// The given number of links, or one to each node that is one hop away.
fn node_links(facts: &Facts) -> Fact<u32> {
    if let Some(given) = &facts.node_links {
        return given.clone();
    }
    let chassis = facts.shape.chassis.unwrap_or(facts.shape.hops.len());
    let inside = facts.shape.hops.first().map_or(&[][..], |row| &row[..chassis.min(row.len())]);
    let neighbours = inside.iter().filter(|hops| **hops == 1).count() as u32;
    Fact::estimate(neighbours.max(1), RULE_LINKS)
}

fn core_costs(facts: &Facts) -> CoreCosts {
    let (clock_ghz, l1) = (facts.clock_ghz.value, facts.caches.l1_cycles.value);
    let basis = Basis { clock_ghz, l1_ns: l1 / clock_ghz, year: facts.year, pause_ns: 0.0 };
    CoreCosts::complete(&facts.core, basis)
}

fn smt_shares(given: &[SmtShare], smt: usize) -> Vec<SmtShare> {
    if smt > 1 && !given.is_empty() {
        let alone = SmtShare { siblings: 1, share: Fact::estimate(1.0, RULE_SMT) };
        return std::iter::once(alone).chain(given.iter().cloned()).collect();
    }
    // One entry more than the machine needs, to interpolate odd numbers of siblings.
    let needed = SMT_SHARES.iter().position(|&(siblings, _)| siblings >= smt).unwrap_or(SMT_SHARES.len() - 1);
    let known = SMT_SHARES[..=needed].iter();
    known.map(|&(siblings, share)| SmtShare { siblings, share: Fact::estimate(share, RULE_SMT) }).collect()
}

fn over_nodes(facts: &Facts, values: &NodeValues) -> FactMatrix {
    match values {
        NodeValues::ByHops(by_hops) => spread_by_hops(&facts.shape.hops, by_hops),
        NodeValues::Full(matrix) => matrix.clone(),
        NodeValues::FromFirst(row, confidence, source) => from_first(facts, row, *confidence, source),
    }
}

/// A matrix with one value for each number of hops.
fn spread_by_hops(hops: &[Vec<u32>], by_hops: &[Fact<f64>]) -> FactMatrix {
    let pick = |row: &Vec<u32>| row.iter().map(|&hops| &by_hops[hops as usize]).collect::<Vec<_>>();
    let picked: Vec<Vec<&Fact<f64>>> = hops.iter().map(pick).collect();
    FactMatrix {
        values: picked.iter().map(|row| row.iter().map(|fact| fact.value).collect()).collect(),
        confidence: picked.iter().map(|row| row.iter().map(|fact| fact.confidence).collect()).collect(),
        source: by_hops[0].source.clone(),
    }
}

/// Extends a row measured from node 0 to all nodes.
///
/// Column 0 mirrors the row. Other pairs are alike if both are in one chassis or not, and if the
/// positions of the two sockets within their chassis are related in the same way. Each gets the
/// mean of the measured pairs like it.
fn from_first(facts: &Facts, row: &[f64], confidence: Confidence, source: &str) -> FactMatrix {
    let size = row.len();
    let chassis = facts.shape.chassis.unwrap_or(1);
    let class = |from: usize, to: usize| (from / chassis == to / chassis, (from ^ to) % chassis);
    let mean = |from: usize, to: usize| {
        let alike: Vec<f64> =
            (0..size).filter(|&other| class(0, other) == class(from, to)).map(|other| row[other]).collect();
        alike.iter().sum::<f64>() / alike.len() as f64
    };
    let value = |from: usize, to: usize| match (from, to) {
        (0, to) => row[to],
        (from, 0) => row[from],
        _ => mean(from, to),
    };
    let trust = |from: usize| if from == 0 { confidence } else { Confidence::Estimate };
    FactMatrix {
        values: (0..size).map(|from| (0..size).map(|to| value(from, to)).collect()).collect(),
        confidence: (0..size).map(|from| vec![trust(from); size]).collect(),
        source: format!("{source}; other rows by structure"),
    }
}

/// The given link bandwidth, the best measured remote one, or the rule's.
fn link_gbps(facts: &Facts) -> Fact<f64> {
    if let Some(given) = &facts.link_gbps {
        return given.clone();
    }
    let measured = match &facts.memory_gbps {
        Some(NodeValues::FromFirst(row, _, _)) => row[1..].iter().copied().reduce(f64::max),
        Some(NodeValues::Full(matrix)) => {
            let remote = |(index, row): (usize, &Vec<f64>)| {
                let others = row.iter().enumerate().filter(move |(column, _)| *column != index);
                others.map(|(_, &value)| value).reduce(f64::max)
            };
            matrix.values.iter().enumerate().filter_map(remote).reduce(f64::max)
        }
        Some(NodeValues::ByHops(_)) | None => None,
    };
    match measured {
        Some(value) => Fact::estimate(value, "best measured remote memory bandwidth"),
        None => Fact::estimate(12.0, RULE_LINK),
    }
}

fn bandwidth_by_rule(facts: &Facts, link_gbps: f64) -> FactMatrix {
    let controller = if facts.year.is_some_and(|year| year <= 2012) { 20.0 } else { 100.0 };
    let size = facts.shape.hops.len();
    let value = |from: usize, to: usize| if from == to { controller } else { link_gbps.min(controller) };
    FactMatrix {
        values: (0..size).map(|from| (0..size).map(|to| value(from, to)).collect()).collect(),
        confidence: vec![vec![Confidence::Estimate; size]; size],
        source: format!("{RULE_CONTROLLER}; {RULE_LINK}"),
    }
}

/// Computes the costs of lines in caches.
struct Costs<'a> {
    facts: &'a Facts,
    dirty: Reach,
}

impl<'a> Costs<'a> {
    fn new(facts: &'a Facts, memory_ns: &FactMatrix) -> Self {
        let own = nanoseconds(&facts.caches.l1_cycles, facts.clock_ghz.value);
        let dirty = match (&facts.load.modified, &facts.dirty_line) {
            (_, Some(matrix)) => {
                let given = facts.load.modified.as_ref();
                let node = given.map(|given| given.by_hops[0].clone()).unwrap_or_else(|| Fact {
                    value: matrix.values[0][0],
                    confidence: matrix.confidence[0][0],
                    source: matrix.source.clone(),
                });
                let domain = given.and_then(|given| given.same_domain.clone());
                reach(own, domain.unwrap_or_else(|| node.clone()), node, matrix.clone())
            }
            (Some(given), None) => given_reach(facts, own, given),
            (None, None) => dirty_by_rule(facts, own, memory_ns),
        };
        Self { facts, dirty }
    }

    fn nanoseconds(&self, cycles: &Fact<f64>) -> Fact<f64> {
        nanoseconds(cycles, self.facts.clock_ghz.value)
    }

    fn load(&self) -> AccessCosts {
        let own = self.dirty.own_core_ns.clone();
        let given = |transfer: &Option<Transfer>, factor: f64, rule: &str| match transfer {
            Some(given) => given_reach(self.facts, own.clone(), given),
            None => scaled(&self.dirty, own.clone(), factor, rule),
        };
        AccessCosts {
            modified: self.dirty.clone(),
            exclusive: given(&self.facts.load.exclusive, 1.0, RULE_EXCLUSIVE),
            shared: given(&self.facts.load.shared, 0.8, RULE_SHARED),
        }
    }

    fn write(&self, transfers: &Transfers, measured: Option<&Fact<f64>>) -> AccessCosts {
        const OWN_WRITE_CYCLES: f64 = 15.0;
        let cycles = self.facts.caches.l1_cycles.value + OWN_WRITE_CYCLES;
        let rule = || Fact::estimate(cycles / self.facts.clock_ghz.value, RULE_OWN_WRITE);
        let own = measured.cloned().unwrap_or_else(rule);
        let given = |transfer: &Option<Transfer>| match transfer {
            Some(given) => given_reach(self.facts, own.clone(), given),
            None => scaled(&self.dirty, own.clone(), 1.05, RULE_WRITE),
        };
        AccessCosts {
            modified: given(&transfers.modified),
            exclusive: given(&transfers.exclusive),
            shared: given(&transfers.shared),
        }
    }
}

fn nanoseconds(cycles: &Fact<f64>, clock_ghz: f64) -> Fact<f64> {
    Fact { value: cycles.value / clock_ghz, confidence: cycles.confidence, source: cycles.source.clone() }
}

fn reach(own: Fact<f64>, domain: Fact<f64>, node: Fact<f64>, between: FactMatrix) -> Reach {
    Reach { own_core_ns: own, same_domain_ns: domain, same_node_ns: node, between_nodes_ns: between }
}

fn given_reach(facts: &Facts, own: Fact<f64>, given: &Transfer) -> Reach {
    let node = given.by_hops[0].clone();
    let domain = given.same_domain.clone().unwrap_or_else(|| node.clone());
    reach(own, domain, node, spread_by_hops(&facts.shape.hops, &given.by_hops))
}

fn dirty_by_rule(facts: &Facts, own: Fact<f64>, memory_ns: &FactMatrix) -> Reach {
    let caches = &facts.caches;
    // Without an L3 the line comes from the other core's L2.
    let last = caches.l3_cycles.as_ref().unwrap_or(&caches.l2_cycles);
    let near = Fact::estimate(2.5 * last.value / facts.clock_ghz.value, RULE_DIRTY_SOCKET);
    let size = memory_ns.values.len();
    let value =
        |from: usize, to: usize| if from == to { near.value } else { 1.1 * memory_ns.values[from][to] };
    let between = FactMatrix {
        values: (0..size).map(|from| (0..size).map(|to| value(from, to)).collect()).collect(),
        confidence: vec![vec![Confidence::Estimate; size]; size],
        source: RULE_DIRTY_REMOTE.to_owned(),
    };
    reach(own, near.clone(), near, between)
}

/// The costs of the dirty line times a factor.
fn scaled(dirty: &Reach, own: Fact<f64>, factor: f64, rule: &str) -> Reach {
    let near = |fact: &Fact<f64>| Fact::estimate(fact.value * factor, rule);
    let rows = &dirty.between_nodes_ns.values;
    let between = FactMatrix {
        values: rows.iter().map(|row| row.iter().map(|value| value * factor).collect()).collect(),
        confidence: vec![vec![Confidence::Estimate; rows.len()]; rows.len()],
        source: rule.to_owned(),
    };
    reach(own, near(&dirty.same_domain_ns), near(&dirty.same_node_ns), between)
}
