//! A description as a value, and values that follow from it. The module above makes descriptions.

use terms::{HardwareThread, Node};

use super::core::CoreCosts;
use super::fact::{Confidence, Fact, FactMatrix};
use super::measured::CoreToCore;
use super::translation::Translation;
use crate::topology::Topology;

/// A level of cache.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct CacheFacts {
    /// Capacity of one cache of this level.
    pub bytes: Fact<u64>,
    /// Load-to-use latency of a hit.
    pub load_ns: Fact<f64>,
}

/// Access of a core to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Load,
    /// A write.
    Store,
    /// A read and a write in one step.
    Atomic,
}

/// State of a line in the cache that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// Changed since it came from memory.
    Modified,
    /// Clean and in one cache only.
    Exclusive,
    /// Clean and possibly in several caches.
    Shared,
}

/// Cost of reaching a line, by its location.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Reach {
    /// In the requester's own L1 (that of its core).
    pub own_core_ns: Fact<f64>,
    /// In another core behind the same L3.
    pub same_domain_ns: Fact<f64>,
    /// In another core of the same node behind another L3 (or if every core has its own).
    pub same_node_ns: Fact<f64>,
    /// In a core of another node; the diagonal repeats `same_node_ns`.
    pub between_nodes_ns: FactMatrix,
}

/// Cost of one kind of access by state of the line.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct AccessCosts {
    /// Line modified in the holder's cache.
    pub modified: Reach,
    /// Line clean, held by one cache.
    pub exclusive: Reach,
    /// Line clean, shared.
    pub shared: Reach,
}

/// The network between the machines of a cluster.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Network {
    /// One-way latency of a small message.
    pub one_way_us: Fact<f64>,
    /// Bandwidth of a machine's port in each direction, 10^9 bytes a second; `None` if not
    /// described, and then free of charge.
    pub gbps: Option<Fact<f64>>,
    /// Bytes that the network adds to each packet.
    pub header_bytes: Fact<f64>,
    /// Largest number of a program's bytes in one packet.
    pub packet_bytes: Fact<f64>,
}

impl Network {
    /// Bytes that Ethernet adds to a packet of TCP/IP with time stamps.
    pub(super) fn header_by_rule() -> Fact<f64> {
        let source = "Ethernet's preamble, header, check and gap (IEEE 802.3: 38 bytes), IPv4 (RFC 791: 20), TCP (RFC 793: 20) with \
                      time stamps (RFC 7323: 12)";
        Fact::estimate(90.0, source)
    }

    /// Bytes of a program in Ethernet's 1500.
    pub(super) fn packet_by_rule() -> Fact<f64> {
        Fact::estimate(
            1448.0,
            "1500 bytes of Ethernet (IEEE 802.3) without the headers of IPv4 and TCP with time stamps",
        )
    }
}

/// Speed of one SMT sibling while several share a core, relative to a core on its own.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SmtShare {
    /// Busy siblings.
    pub siblings: usize,
    /// Share of each.
    pub share: Fact<f64>,
}

/// A described machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of a shipped description, or the name in the file.
    pub name: String,
    /// Processors, in prose.
    pub processor: String,
    /// Interconnect, in prose.
    pub links: String,
    /// Confidence in the machine's own numbers; derived numbers have their own.
    pub confidence: Confidence,
    /// Number of machines. Several machines are a cluster of equals connected by `network`.
    pub machines: usize,
    /// Network between machines.
    pub network: Option<Network>,
    /// Structure of one machine.
    pub topology: Topology,
    /// Core clock.
    pub clock_ghz: Fact<f64>,
    /// Cache line size.
    pub line_bytes: Fact<u32>,
    /// First-level data cache, one a core.
    pub l1: CacheFacts,
    /// Second-level cache.
    pub l2: CacheFacts,
    /// Third-level cache of one L3 domain.
    pub l3: Option<CacheFacts>,
    /// Number of interconnect hops between nodes.
    pub hops: Vec<Vec<u32>>,
    /// Latency of a load from memory.
    pub memory_ns: FactMatrix,
    /// Bandwidth with which the cores of a node read the memory of a node, 10^9 bytes a second.
    pub memory_gbps: FactMatrix,
    /// Bandwidth of one link, 10^9 bytes a second.
    pub link_gbps: Fact<f64>,
    /// Nodes of one chassis, if the machine has several.
    pub chassis_nodes: Option<usize>,
    /// Parallel links of a node inside its chassis, or inside the machine if it has none.
    pub node_links: Fact<u32>,
    /// Properties of a core: capacities, costs beside its caches, and costs of the operating
    /// system.
    pub core: CoreCosts,
    /// Address translation of a core; if not described, translation is free.
    pub translation: Option<Translation>,
    /// Loads of lines held by caches.
    pub load: AccessCosts,
    /// Stores to lines held by caches.
    pub store: AccessCosts,
    /// Atomic read-modify-writes of lines held by caches.
    pub atomic: AccessCosts,
    /// Known shares of SMT siblings, ascending by their number, beginning with one.
    pub smt_shares: Vec<SmtShare>,
    /// Time that a modified line takes between two hardware threads of one core, if measured: it
    /// does not leave the L1, but the thread that speculated on it starts over.
    pub sibling_ns: Option<Fact<f64>>,
    /// The measured times of a line between hardware threads, of which the costs of lines are
    /// medians.
    pub core_to_core: Option<CoreToCore>,
}

impl Description {
    /// Costs of one kind of access.
    pub fn costs(&self, access: Access) -> &AccessCosts {
        match access {
            Access::Load => &self.load,
            Access::Store => &self.store,
            Access::Atomic => &self.atomic,
        }
    }

    /// Cost of an access by `requester` to a line that is in state `state` in the cache of
    /// `holder`'s core.
    ///
    /// `None` if one of them is no hardware thread of this machine.
    pub fn line_ns(
        &self,
        access: Access,
        state: LineState,
        requester: HardwareThread,
        holder: HardwareThread,
    ) -> Option<f64> {
        let (from, to) = (self.topology.thread(requester)?, self.topology.thread(holder)?);
        let costs = self.costs(access);
        let reach = match state {
            LineState::Modified => &costs.modified,
            LineState::Exclusive => &costs.exclusive,
            LineState::Shared => &costs.shared,
        };
        Some(if from.core == to.core {
            let sibling = self.sibling_ns.as_ref().filter(|_| requester != holder);
            let sibling = sibling.filter(|_| state == LineState::Modified);
            sibling.map_or(reach.own_core_ns.value, |sibling| sibling.value.max(reach.own_core_ns.value))
        } else if from.l3_domain == to.l3_domain {
            reach.same_domain_ns.value
        } else {
            let (row, column) =
                (self.topology.node_position(from.node)?, self.topology.node_position(to.node)?);
            reach.between_nodes_ns.values[row][column]
        })
    }

    /// Latency of a load by a core of node `from` from the memory of node `to`.
    pub fn memory_latency_ns(&self, from: Node, to: Node) -> Option<f64> {
        Some(self.memory_ns.values[self.topology.node_position(from)?][self.topology.node_position(to)?])
    }

    /// Latency that the path from node `from` to node `to` adds to a message: half of the round
    /// trip by which a remote memory access takes longer than a local one.
    pub fn one_way_ns(&self, from: Node, to: Node) -> Option<f64> {
        let local = self.memory_latency_ns(from, from)?;
        Some(((self.memory_latency_ns(from, to)? - local) / 2.0).max(0.0))
    }

    /// Speed of each of `siblings` SMT siblings that share a core, relative to a core on its own.
    /// Numbers between known ones are interpolated; larger numbers divide the last known total.
    pub fn smt_share(&self, siblings: usize) -> f64 {
        let after = self.smt_shares.iter().position(|known| known.siblings >= siblings);
        match after {
            Some(0) => self.smt_shares[0].share.value,
            Some(position) => {
                let (low, high) = (&self.smt_shares[position - 1], &self.smt_shares[position]);
                let way = (siblings - low.siblings) as f64 / (high.siblings - low.siblings) as f64;
                low.share.value + way * (high.share.value - low.share.value)
            }
            None => {
                let last = &self.smt_shares[self.smt_shares.len() - 1];
                last.share.value * last.siblings as f64 / siblings as f64
            }
        }
    }

    /// Pairs of nodes one hop apart, each once.
    pub fn neighbours(&self) -> Vec<(usize, usize)> {
        let nodes = self.hops.len();
        let pairs = (0..nodes).flat_map(|from| (from + 1..nodes).map(move |to| (from, to)));
        pairs.filter(|&(from, to)| self.hops[from][to] == 1).collect()
    }
}
