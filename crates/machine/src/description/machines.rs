//! The machines of a cluster side by side. A description has the structure of one of them.

use terms::Node;

use super::value::Description;
use crate::cpu_set::CpuSet;
use crate::parts::{PartMemory, Parts};
use crate::raw::RawGroup;
use crate::topology::{Level, Topology};

/// Distance between memories of two machines: the firmware's value for memory that cannot be
/// reached (ACPI 6.5, table SLIT).
const UNREACHABLE: u32 = 255;

impl Description {
    /// All machines as one topology.
    ///
    /// Hardware threads and memory nodes are numbered consecutively from machine to machine.
    pub fn whole(&self) -> Topology {
        self.topology_of(self.machines)
    }

    /// The topology of the first `machines` machines, which have the same numbers as in
    /// [`Description::whole`].
    pub fn topology_of(&self, machines: usize) -> Topology {
        if machines <= 1 {
            return self.topology.clone();
        }
        let one = Parts::of(&self.topology);
        let strides = Strides::of(&one);
        let mut all = Parts {
            groups: (0..machines).map(|machine| strides.machine(&one, machine)).collect(),
            memories: Vec::new(),
            distances: one.distances.as_ref().map(|matrix| beside(matrix, machines, UNREACHABLE)),
            efficiency: std::collections::BTreeMap::new(),
        };
        for machine in 0..machines {
            all.groups.extend(one.groups.iter().map(|group| strides.group(group, machine)));
            all.memories.extend(one.memories.iter().map(|memory| strides.memory(memory, machine)));
            let shifted = |(thread, class): (&u32, &u8)| (strides.thread(*thread, machine), *class);
            all.efficiency.extend(one.efficiency.iter().map(shifted));
        }
        all.below(Level::Machines).expect("copies of a topology, which do not overlap")
    }

    /// Interconnect hops between the nodes of the first `machines` machines; `None` between nodes
    /// of different machines.
    pub fn hops_of(&self, machines: usize) -> Vec<Vec<Option<u32>>> {
        let known: Vec<Vec<_>> =
            self.hops.iter().map(|row| row.iter().copied().map(Some).collect()).collect();
        beside(&known, machines.max(1), None)
    }
}

/// A matrix of all machines, with that of one machine along the diagonal.
fn beside<T: Clone>(one: &[Vec<T>], machines: usize, between: T) -> Vec<Vec<T>> {
    let mut all = vec![vec![between; one.len() * machines]; one.len() * machines];
    for machine in 0..machines {
        for (row, values) in one.iter().enumerate() {
            let first = machine * one.len();
            all[first + row][first..first + one.len()].clone_from_slice(values);
        }
    }
    all
}

/// Differences between the numbers of two neighbouring machines.
struct Strides {
    threads: u32,
    nodes: u32,
}

impl Strides {
    fn of(one: &Parts) -> Strides {
        let threads = one.processors().iter().max().map_or(0, |last| last + 1);
        let nodes = one.memories.iter().map(|memory| memory.node.0 + 1).max().unwrap_or(0);
        Strides { threads, nodes }
    }

    fn thread(&self, number: u32, machine: usize) -> u32 {
        number + machine as u32 * self.threads
    }

    fn node(&self, number: u32, machine: usize) -> u32 {
        number + machine as u32 * self.nodes
    }

    fn set(&self, set: &CpuSet, machine: usize) -> CpuSet {
        set.iter().map(|number| self.thread(number, machine)).collect()
    }

    fn machine(&self, one: &Parts, machine: usize) -> RawGroup {
        RawGroup::plain(Level::Machine, self.set(&one.processors(), machine), None)
    }

    fn group(&self, group: &RawGroup, machine: usize) -> RawGroup {
        let os_index = match group.level {
            Level::Node => group.os_index.map(|number| self.node(number, machine)),
            _ => group.os_index,
        };
        RawGroup { processors: self.set(&group.processors, machine), os_index, ..group.clone() }
    }

    fn memory(&self, memory: &PartMemory, machine: usize) -> PartMemory {
        PartMemory {
            node: Node(self.node(memory.node.0, machine)),
            bytes: memory.bytes,
            kind: memory.kind,
            beside: self.set(&memory.beside, machine),
            processors: memory.processors.iter().map(|set| self.set(set, machine)).collect(),
        }
    }
}
