//! Memory controllers and link ports: how long a line waits until it is served.
//!
//! A port serves one line at a time. Requests come with start times that are nearly, not quite, in
//! order, so that a single "free from" would make early ones wait for late ones. Time is cut into
//! buckets instead: each bucket has as much capacity as it is long, and a line takes the first
//! bucket with room from its own moment on.

use crate::model::Model;

/// log2 of a bucket's length in picoseconds: 262 ns.
const BUCKET_SHIFT: u32 = 18;
const BUCKET_PS: u64 = 1 << BUCKET_SHIFT;
/// Buckets that are kept: 134 us. A wait is never longer.
const BUCKETS: u64 = 512;

/// Kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// The memory controller of a node.
    Memory,
    /// A link of a node inside its chassis, or inside the machine where there are none.
    Link(u32),
    /// The link of a node to everything outside its chassis.
    Outside,
    /// Sending side of a machine's network port. The machine is named by its first node.
    NetworkOut,
    /// Receiving side of a machine's network port. The machine is named by its first node.
    NetworkIn,
}

impl std::fmt::Display for PortKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortKind::Memory => formatter.write_str("memory"),
            PortKind::Link(lane) => write!(formatter, "link {lane}"),
            PortKind::Outside => formatter.write_str("link outside"),
            PortKind::NetworkOut => formatter.write_str("network out"),
            PortKind::NetworkIn => formatter.write_str("network in"),
        }
    }
}

/// One port.
#[derive(Clone)]
struct Port {
    node: usize,
    kind: PortKind,
    /// Number of the bucket in each slot, and its occupied picoseconds.
    buckets: Vec<(u32, u32)>,
    /// All buckets from the first number up to the second, which is excluded, are full.
    full: (u64, u64),
    bytes: u64,
    busy_ps: u64,
    waited_ps: u64,
}

impl Port {
    fn new(node: usize, kind: PortKind) -> Port {
        let buckets = vec![(0, 0); BUCKETS as usize];
        Port { node, kind, buckets, full: (0, 0), bytes: 0, busy_ps: 0, waited_ps: 0 }
    }

    /// Returns how long a line that is there at `now_ps` waits before it is served for
    /// `service_ps`.
    fn wait(&mut self, now_ps: u64, service_ps: u64, bytes: u64) -> u64 {
        self.bytes += bytes;
        self.busy_ps += service_ps;
        let first = now_ps >> BUCKET_SHIFT;
        let known = (self.full.0..=self.full.1).contains(&first);
        let mut bucket = if known { self.full.1 } else { first };
        while bucket < first + BUCKETS {
            let (number, used) = &mut self.buckets[(bucket % BUCKETS) as usize];
            if *number != bucket as u32 {
                (*number, *used) = (bucket as u32, 0);
            }
            if u64::from(*used) < BUCKET_PS {
                *used += service_ps as u32;
                let end_ps = (bucket << BUCKET_SHIFT) + u64::from(*used);
                self.remember(known, first, bucket);
                let waited_ps = end_ps.saturating_sub(now_ps + service_ps);
                self.waited_ps += waited_ps;
                return waited_ps;
            }
            // A service longer than the rest of a bucket continues in the next one.
            let beyond = u64::from(*used) - BUCKET_PS;
            *used = BUCKET_PS as u32;
            bucket += 1;
            self.carry(bucket, beyond as u32);
        }
        self.remember(known, first, bucket);
        BUCKETS << BUCKET_SHIFT
    }

    /// Adds service that did not fit into the bucket before.
    fn carry(&mut self, bucket: u64, service_ps: u32) {
        let (number, used) = &mut self.buckets[(bucket % BUCKETS) as usize];
        if *number != bucket as u32 {
            (*number, *used) = (bucket as u32, 0);
        }
        *used += service_ps;
    }

    fn remember(&mut self, known: bool, first: u64, bucket: u64) {
        if known {
            self.full.1 = bucket;
        } else if bucket > first {
            self.full = (first, bucket);
        }
    }
}

/// Traffic of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortTraffic {
    pub(crate) node: usize,
    pub(crate) kind: PortKind,
    pub(crate) bytes: u64,
    pub(crate) busy_ps: u64,
    pub(crate) waited_ps: u64,
}

/// All ports of a machine.
pub(crate) struct Ports {
    /// Memory controllers by node, then links.
    ports: Vec<Port>,
    /// For a pair of nodes: the first node's port towards the second.
    towards: Vec<u32>,
    /// Picoseconds that a line occupies the ports between two nodes, or the memory of one.
    service_ps: Vec<u64>,
    nodes: usize,
    line_bytes: u64,
    /// Bytes between nodes.
    crossed: u64,
}

impl Ports {
    pub(crate) fn new(model: &Model) -> Ports {
        let nodes = model.nodes.len();
        let mut ports: Vec<Port> = (0..nodes).map(|node| Port::new(node, PortKind::Memory)).collect();
        let mut towards = vec![0; nodes * nodes];
        for from in 0..nodes {
            let near = |to: &usize| model.near_nodes[from * nodes + to];
            let mut inside: Vec<usize> = (0..nodes).filter(|to| *to != from && near(to)).collect();
            // The nearest nodes are direct neighbours, each behind a link of its own; farther nodes
            // are reached through them.
            inside.sort_by_key(|to| (model.memory(from, *to), *to));
            let lanes = (model.lanes as usize).min(inside.len());
            let first = ports.len();
            ports.extend((0..lanes).map(|lane| Port::new(from, PortKind::Link(lane as u32))));
            for (rank, to) in inside.iter().enumerate() {
                towards[from * nodes + to] = (first + rank % lanes) as u32;
            }
            let same_machine = |to: &usize| model.node_machines[*to] == model.node_machines[from];
            let others: Vec<usize> = (0..nodes).filter(|to| same_machine(to) && !near(to)).collect();
            if !others.is_empty() {
                let outside = ports.len() as u32;
                ports.push(Port::new(from, PortKind::Outside));
                others.into_iter().for_each(|to| towards[from * nodes + to] = outside);
            }
        }
        let service_ps = (0..nodes * nodes).map(|pair| model.occupancy(pair / nodes, pair % nodes)).collect();
        Ports { ports, towards, service_ps, nodes, line_bytes: model.line_bytes() as u64, crossed: 0 }
    }

    /// Serves a line at the memory controller of a node. Returns how long the line waits.
    pub(crate) fn memory(&mut self, node: usize, now_ps: u64) -> u64 {
        let service_ps = self.service_ps[node * self.nodes + node];
        self.ports[node].wait(now_ps, service_ps, self.line_bytes)
    }

    /// Sends a line from one node to another, which may be the same. Returns how long the line
    /// waits.
    #[inline]
    pub(crate) fn cross(&mut self, to: usize, from: usize, now_ps: u64) -> u64 {
        if to == from { 0 } else { self.cross_nodes(to, from, now_ps) }
    }

    fn cross_nodes(&mut self, to: usize, from: usize, now_ps: u64) -> u64 {
        self.crossed += self.line_bytes;
        let service_ps = self.service_ps[to * self.nodes + from];
        let [there, back] = [to * self.nodes + from, from * self.nodes + to].map(|pair| self.towards[pair]);
        let waited = self.ports[back as usize].wait(now_ps, service_ps, self.line_bytes);
        waited.max(self.ports[there as usize].wait(now_ps, service_ps, self.line_bytes))
    }

    /// Bytes that went from one node to another.
    pub(crate) fn crossed_bytes(&self) -> u64 {
        self.crossed
    }

    /// Traffic of each port.
    pub(crate) fn traffic(&self) -> impl Iterator<Item = PortTraffic> + '_ {
        self.ports.iter().map(|port| PortTraffic {
            node: port.node,
            kind: port.kind,
            bytes: port.bytes,
            busy_ps: port.busy_ps,
            waited_ps: port.waited_ps,
        })
    }

    /// Restarts the counters; requests under way stay.
    pub(crate) fn reset(&mut self) {
        self.crossed = 0;
        for port in &mut self.ports {
            (port.bytes, port.busy_ps, port.waited_ps) = (0, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Port {
        Port::new(0, PortKind::Memory)
    }

    #[test]
    fn a_saturated_port_serves_at_its_rate() {
        let mut port = port();
        let (service, count) = (5_000, 10_000);
        let last = (0..count).map(|_| port.wait(0, service, 64)).max();
        let end = last.expect("some") + service;
        assert!(end.abs_diff(service * count) < BUCKET_PS, "{end}");
        assert_eq!((port.bytes, port.busy_ps), (640_000, service * count));
    }

    #[test]
    fn an_idle_port_does_not_delay() {
        let mut port = port();
        for request in 0..1_000 {
            assert_eq!(port.wait(request * 10_000, 5_000, 64), 0);
        }
    }

    #[test]
    fn early_requests_do_not_wait_for_late_ones() {
        let mut port = port();
        (0..100).for_each(|_| _ = port.wait(100 * BUCKET_PS, 5_000, 64));
        assert_eq!(port.wait(50 * BUCKET_PS, 5_000, 64), 0);
        assert!(port.wait(100 * BUCKET_PS, 5_000, 64) > 0);
    }

    #[test]
    fn a_backlog_beyond_the_horizon_is_bounded() {
        let mut port = port();
        let waits = (0..100_000).map(|_| port.wait(0, 5_000, 64));
        assert_eq!(waits.max(), Some(BUCKETS << BUCKET_SHIFT));
        assert_eq!(port.wait(2 * BUCKETS * BUCKET_PS, 5_000, 64), 0, "later there is room again");
    }
}
