//! Sockets, cores and links of a described machine.

use super::keys::{DescriptionError, Keys};
use crate::cpu_set::CpuSet;
use crate::raw::{RawGroup, RawMachine, RawNode};
use crate::topology::{Level, Topology};

/// Cores that share an L3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum L3 {
    /// All cores of a socket.
    Socket,
    /// Each core has its own.
    Core,
    /// This many cores share one.
    Complex(usize),
}

impl L3 {
    /// The key of the size of one of them.
    pub(super) fn key(self) -> &'static str {
        match self {
            L3::Socket => "l3_shared",
            L3::Core => "l3_per_core",
            L3::Complex(_) => "l3_per_complex",
        }
    }
}

/// Structure of a machine with one memory node a socket.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) sockets: usize,
    pub(super) cores_per_socket: usize,
    pub(super) smt: usize,
    pub(super) l3: L3,
    /// Cores that are not available, one on each of the last sockets.
    pub(super) unusable_cores: usize,
    /// Sockets of one chassis, a power of two that divides `sockets`.
    pub(super) chassis: Option<usize>,
    pub(super) hops: Vec<Vec<u32>>,
}

/// Largest number of hardware threads of a described machine, or cluster.
const THREADS_MAX: usize = 1 << 16;

/// Reads the shape of a description.
pub(super) fn read(keys: &Keys) -> Result<Shape, DescriptionError> {
    let sockets = keys.required_count("sockets")?;
    let cores_per_socket = keys.required_count("cores_per_socket")?;
    let smt = keys.count("smt")?.unwrap_or(1);
    if sockets.saturating_mul(cores_per_socket).saturating_mul(smt) > THREADS_MAX {
        let found = format!("{sockets} x {cores_per_socket} cores with {smt} hardware threads");
        return Err(keys.invalid("sockets", found, "at most 65536 hardware threads in all"));
    }
    let l3 = match (keys.has("l3_per_core"), keys.has("l3_per_complex")) {
        (true, _) => L3::Core,
        (false, true) => L3::Complex(keys.required_count("cores_per_complex")?),
        (false, false) => L3::Socket,
    };
    if let L3::Complex(cores) = l3
        && !cores_per_socket.is_multiple_of(cores)
    {
        return Err(keys.invalid("cores_per_complex", cores, "a divisor of cores_per_socket"));
    }
    let chassis = keys.count("sockets_per_chassis")?;
    if let Some(chassis) = chassis.filter(|&size| !size.is_power_of_two() || !sockets.is_multiple_of(size)) {
        let expected = "a power of two that divides the sockets";
        return Err(keys.invalid("sockets_per_chassis", chassis, expected));
    }
    let unusable_cores = keys.count("unusable_cores")?.unwrap_or(0);
    if unusable_cores > sockets || (unusable_cores > 0 && cores_per_socket == 1) {
        return Err(keys.invalid("unusable_cores", unusable_cores, "at most one core of each socket"));
    }
    let hops = hops(keys, sockets, chassis)?;
    Ok(Shape { sockets, cores_per_socket, smt, l3, unusable_cores, chassis, hops })
}

/// The number of machines, each with `threads` hardware threads.
pub(super) fn machines(keys: &Keys, threads: usize) -> Result<usize, DescriptionError> {
    let machines = keys.count("machines")?.unwrap_or(1);
    if machines.saturating_mul(threads) > THREADS_MAX {
        let found = format!("{machines} with {threads} hardware threads each");
        return Err(keys.invalid("machines", found, "at most 65536 hardware threads in all"));
    }
    Ok(machines)
}

fn hops(keys: &Keys, sockets: usize, chassis: Option<usize>) -> Result<Vec<Vec<u32>>, DescriptionError> {
    if let Some(links) = keys.pairs("adjacency", sockets)? {
        return shortest_paths(sockets, &links)
            .ok_or_else(|| keys.invalid("adjacency", "not connected", "links that connect all sockets"));
    }
    let Some(chassis) = chassis else {
        return Ok(matrix(sockets, |from, to| u32::from(from != to)));
    };
    let inside: Vec<u32> = match keys.hops("hops_in_chassis", chassis)? {
        Some(inside) => inside,
        None => (0..chassis).map(|offset| u32::from(offset != 0)).collect(),
    };
    let between = keys.count("hops_between_chassis")?.unwrap_or(2) as u32;
    Ok(matrix(
        sockets,
        |from, to| if from / chassis == to / chassis { inside[(from ^ to) % chassis] } else { between },
    ))
}

fn matrix(size: usize, value: impl Fn(usize, usize) -> u32) -> Vec<Vec<u32>> {
    (0..size).map(|from| (0..size).map(|to| value(from, to)).collect()).collect()
}

/// Hops between all pairs by breadth-first search; `None` if some cannot reach each other.
fn shortest_paths(sockets: usize, links: &[(usize, usize)]) -> Option<Vec<Vec<u32>>> {
    let mut hops = vec![vec![None; sockets]; sockets];
    for (start, row) in hops.iter_mut().enumerate() {
        row[start] = Some(0);
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(here) = queue.pop_front() {
            let next = row[here].map(|hops: u32| hops + 1);
            for &(from, to) in links {
                let neighbour = match (from == here, to == here) {
                    (true, _) => to,
                    (_, true) => from,
                    _ => continue,
                };
                if row[neighbour].is_none() {
                    row[neighbour] = next;
                    queue.push_back(neighbour);
                }
            }
        }
    }
    hops.into_iter().map(|row| row.into_iter().collect()).collect()
}

impl Shape {
    /// Longest path between two sockets, in hops.
    pub(super) fn most_hops(&self) -> usize {
        self.hops.iter().flatten().copied().max().unwrap_or(0) as usize
    }

    /// The topology: hardware threads numbered in fill order, and distances in the firmware's unit,
    /// the latency of a memory in tenths of the local one.
    pub(super) fn topology(&self, memory_bytes: u64, sizes: &Sizes, memory_ns: &[Vec<f64>]) -> Topology {
        let mut raw = RawMachine::default();
        let mut next = 0_u32;
        for socket in 0..self.sockets {
            let missing = usize::from(socket + self.unusable_cores >= self.sockets);
            let cores = self.cores_per_socket - missing;
            let first = next;
            for _ in 0..cores {
                let threads: CpuSet = (next..next + self.smt as u32).collect();
                next += self.smt as u32;
                raw.groups.push(RawGroup::plain(Level::Core, threads.clone(), None));
                raw.groups.push(sizes.cache(Level::L1Data, sizes.l1, threads.clone()));
                raw.groups.push(sizes.cache(Level::L2, sizes.l2, threads));
            }
            let all: CpuSet = (first..next).collect();
            raw.groups.push(RawGroup::plain(Level::Package, all.clone(), Some(socket as u32)));
            let sharers = match self.l3 {
                L3::Socket => cores,
                L3::Core => 1,
                L3::Complex(cores) => cores,
            };
            let numbers: Vec<u32> = all.iter().collect();
            if let Some(bytes) = sizes.l3 {
                let domains = numbers.chunks(sharers * self.smt);
                raw.groups.extend(
                    domains.map(|domain| sizes.cache(Level::L3, bytes, domain.iter().copied().collect())),
                );
            }
            let memory_bytes = memory_bytes / self.sockets as u64;
            raw.nodes.push(RawNode::plain(socket as u32, all, memory_bytes));
        }
        raw.online = (0..next).collect();
        raw.allowed = raw.online.clone();
        let distance = |from: usize, to: usize| (10.0 * memory_ns[from][to] / memory_ns[from][from]).round();
        raw.distances = Some(matrix(self.sockets, |from, to| distance(from, to) as u32));
        Topology::assemble(&raw).expect("a shape has at least one core")
    }
}

/// Capacities of caches in bytes, and the line size.
pub(super) struct Sizes {
    pub(super) l1: u64,
    pub(super) l2: u64,
    pub(super) l3: Option<u64>,
    pub(super) line_bytes: u32,
}

impl Sizes {
    fn cache(&self, level: Level, bytes: u64, processors: CpuSet) -> RawGroup {
        RawGroup { level, processors, os_index: None, cache_bytes: bytes, line_bytes: self.line_bytes }
    }
}
