//! Measurements of a machine, and the costs that a description derives from them.
//!
//! The time a line takes between two hardware threads depends on where they are; a description has
//! one cost for each relation. It is the median of the measured pairs in that relation: hardware
//! threads of one core, cores behind one L3, cores of one node behind different L3s, and each pair
//! of nodes. A median excludes the few pairs that an interrupt disturbed, and hides differences
//! within a class (near and far ends of a ring or mesh). Within a node behind different L3s the
//! median of the fastest node counts: a tool passes one line, and the node of its memory shows the
//! cost of a line that is used near its home.

use super::fact::{Confidence, Fact, FactMatrix};
use crate::topology::{ThreadInfo, Topology};

/// A square matrix of measured values in which entries may be missing.
pub type Measured = Vec<Vec<Option<f64>>>;

/// Measured values of a machine. Missing values follow from the rules and are estimates.
///
/// Impossible values (zero, negative, infinite, NaN) and entries beyond the end of a matrix count
/// as missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Name of the machine.
    pub name: String,
    /// Processors, in prose; may be empty.
    pub processor: String,
    /// Confidence in the measured values.
    pub confidence: Confidence,
    /// Source of the values, for readers.
    pub source: String,
    /// Core clock while measuring.
    pub clock_ghz: Option<f64>,
    /// Load-to-use latency of a hit in the first-level cache.
    pub l1_ns: Option<f64>,
    /// In the second-level cache.
    pub l2_ns: Option<f64>,
    /// In the third-level cache.
    pub l3_ns: Option<f64>,
    /// Latency of a load from memory over [`Topology::nodes`], row = node of the core.
    pub memory_ns: Option<Measured>,
    /// Bandwidth of reading memory over [`Topology::nodes`], row = node of the cores, 10^9 bytes a
    /// second.
    pub memory_gbps: Option<Measured>,
    /// Time that a modified line takes from one hardware thread to another, in the order of
    /// [`Topology::threads`]; half of a round trip. If both directions are given, their mean
    /// counts.
    pub core_to_core_ns: Option<Measured>,
    /// An atomic operation on a line in the core's own L1.
    pub atomic_ns: Option<f64>,
    /// Reading the clock.
    pub clock_ns: Option<f64>,
    /// One pause of a spin loop.
    pub pause_ns: Option<f64>,
    /// Speed of each of two SMT siblings that share a core, as a share of a core on its own.
    pub smt_share: Option<f64>,
}

impl Default for Measurements {
    fn default() -> Self {
        Self {
            name: "native".to_owned(),
            processor: String::new(),
            confidence: Confidence::Measured,
            source: "measured on this machine".to_owned(),
            clock_ghz: None,
            l1_ns: None,
            l2_ns: None,
            l3_ns: None,
            memory_ns: None,
            memory_gbps: None,
            core_to_core_ns: None,
            atomic_ns: None,
            clock_ns: None,
            pause_ns: None,
            smt_share: None,
        }
    }
}

/// Measured times of a line between hardware threads.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct CoreToCore {
    /// Row i has the times between thread i and the i threads before it, in the order of
    /// [`Topology::threads`].
    pub below_ns: Measured,
    /// Source of the times.
    pub source: String,
}

impl CoreToCore {
    /// Makes a value of a whole matrix, or of its half below or above the diagonal; `None` without
    /// any usable entry.
    pub(super) fn of(matrix: &Measured, size: usize, source: &str) -> Option<Self> {
        let pair = |row: usize, column: usize| match (entry(matrix, row, column), entry(matrix, column, row))
        {
            (Some(there), Some(back)) => Some((there + back) / 2.0),
            (there, back) => there.or(back),
        };
        let below_ns: Measured =
            (0..size).map(|row| (0..row).map(|column| pair(row, column)).collect()).collect();
        let found = below_ns.iter().flatten().any(Option::is_some);
        found.then(|| Self { below_ns, source: source.to_owned() })
    }

    /// The time between the threads at two positions of fill order.
    pub fn between(&self, one: usize, other: usize) -> Option<f64> {
        *self.below_ns.get(one.max(other))?.get(one.min(other))?
    }
}

/// A usable entry of a matrix.
pub(super) fn entry(matrix: &Measured, row: usize, column: usize) -> Option<f64> {
    usable(*matrix.get(row)?.get(column)?)
}

/// Returns the value if a machine can have it.
pub(super) fn usable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

/// Medians of measured line transfers by relation of the two hardware threads.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Between threads of one core.
    pub(super) sibling: Option<f64>,
    /// Within one L3 domain.
    pub(super) same_domain: Option<f64>,
    /// Within one node, behind different L3s, on the node where that is fastest.
    pub(super) same_node: Option<f64>,
    /// Between each pair of nodes.
    pub(super) between_nodes: Vec<Vec<Option<f64>>>,
}

impl Classes {
    pub(super) fn of(topology: &Topology, measured: Option<&CoreToCore>) -> Self {
        let size = topology.nodes().len();
        let (mut sibling, mut domain, mut node) = (Vec::new(), Vec::new(), vec![Vec::new(); size]);
        let mut between = vec![vec![Vec::new(); size]; size];
        let position = |info: &ThreadInfo| topology.node_position(info.node).unwrap_or(0);
        let homes: Vec<usize> = topology.threads().iter().map(position).collect();
        for (row, from) in topology.threads().iter().enumerate() {
            for (column, to) in topology.threads()[..row].iter().enumerate() {
                let Some(value) = measured.and_then(|measured| measured.between(row, column)) else {
                    continue;
                };
                if from.core == to.core {
                    sibling.push(value);
                } else if from.l3_domain == to.l3_domain {
                    domain.push(value);
                } else if homes[row] == homes[column] {
                    node[homes[row]].push(value);
                } else {
                    between[homes[row]][homes[column]].push(value);
                    between[homes[column]][homes[row]].push(value);
                }
            }
        }
        let medians = |row: Vec<Vec<f64>>| row.into_iter().map(median).collect();
        Self {
            sibling: median(sibling),
            same_domain: median(domain),
            same_node: node.into_iter().filter_map(median).reduce(f64::min),
            between_nodes: between.into_iter().map(medians).collect(),
        }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// A measured value, or else the value of a rule.
pub(super) fn fact(measured: Option<f64>, by: &Measurements, rule: f64, rule_source: &str) -> Fact<f64> {
    match usable(measured) {
        Some(value) => Fact { value, confidence: by.confidence, source: by.source.clone() },
        None => Fact::estimate(rule, rule_source),
    }
}

/// A matrix of measured values; missing ones are those of a rule.
pub(super) fn matrix(
    size: usize,
    by: &Measurements,
    measured: impl Fn(usize, usize) -> Option<f64>,
    rule: impl Fn(usize, usize) -> f64,
    rule_source: &str,
) -> FactMatrix {
    let mut matrix = FactMatrix {
        values: vec![vec![0.0; size]; size],
        confidence: vec![vec![Confidence::Estimate; size]; size],
        source: String::new(),
    };
    let mut known = 0;
    for row in 0..size {
        for column in 0..size {
            let given = usable(measured(row, column));
            matrix.values[row][column] = given.unwrap_or_else(|| rule(row, column));
            if given.is_some() {
                matrix.confidence[row][column] = by.confidence;
                known += 1;
            }
        }
    }
    matrix.source = match known {
        0 => rule_source.to_owned(),
        all if all == size * size => by.source.clone(),
        _ => format!("{}; elsewhere: {rule_source}", by.source),
    };
    matrix
}
