//! A topology split into flat lists, as in complete description files, and assembled again.

use std::collections::BTreeMap;

use terms::Node;

use crate::assemble::{Memory, Surroundings};
use crate::cpu_set::CpuSet;
use crate::raw::RawGroup;
use crate::topology::{Group, Level, MemoryKind, Topology};

/// A memory and the processors that allocate on it.
#[derive(Clone, Debug)]
pub(crate) struct PartMemory {
    pub(crate) node: Node,
    pub(crate) bytes: u64,
    /// Processors in sets, one for each nearest memory. Several sets mean that some processors must
    /// use this memory because their nearest one is not allowed.
    pub(crate) processors: Vec<CpuSet>,
    pub(crate) kind: MemoryKind,
    /// Processors next to which it is, though they allocate on another memory.
    pub(crate) beside: CpuSet,
}

/// A topology in parts: groups in lists of equal kind, and memories.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// All groups but the machine and the hardware threads, outer groups before those inside.
    pub(crate) groups: Vec<RawGroup>,
    pub(crate) memories: Vec<PartMemory>,
    /// Distances between the memories that have processors, ascending by number.
    pub(crate) distances: Option<Vec<Vec<u32>>>,
    /// Processor number and efficiency class, if cores differ.
    pub(crate) efficiency: BTreeMap<u32, u8>,
}

impl Parts {
    /// Splits a topology into parts.
    pub(crate) fn of(topology: &Topology) -> Self {
        let mut groups = Vec::new();
        collect(topology.tree(), 0, &mut groups);
        // Parts of one depth and kind are adjacent; the sort keeps fill order among them.
        groups.sort_by_key(|(depth, group)| (*depth, group.level, group.cache_bytes, group.line_bytes));
        let all = topology.nodes().iter().chain(topology.memory_only_nodes());
        let memories = all.map(|memory| {
            let mut sets: BTreeMap<u32, CpuSet> = BTreeMap::new();
            for info in topology.threads().iter().filter(|info| info.node == memory.node) {
                let set = sets.entry(info.neighbourhood).or_default();
                *set = set.union(&CpuSet::single(info.thread.0));
            }
            let processors = sets.into_values().collect();
            PartMemory {
                node: memory.node,
                bytes: memory.memory_bytes,
                processors,
                kind: memory.kind,
                beside: memory.beside.iter().map(|thread| thread.0).collect(),
            }
        });
        let hybrid = topology.threads().iter().any(|info| info.efficiency > 0);
        let classes = topology.threads().iter().filter(|_| hybrid);
        Self {
            groups: groups.into_iter().map(|(_, group)| group).collect(),
            memories: memories.collect(),
            distances: topology.distances().map(<[Vec<u32>]>::to_vec),
            efficiency: classes.map(|info| (info.thread.0, info.efficiency)).collect(),
        }
    }

    /// Processors that have a memory.
    pub(crate) fn processors(&self) -> CpuSet {
        self.memories.iter().flat_map(|memory| &memory.processors).flat_map(CpuSet::iter).collect()
    }

    /// Assembles the topology; `None` if groups overlap, or have processors without memory.
    pub(crate) fn topology(&self) -> Option<Topology> {
        self.below(Level::Machine)
    }

    /// Assembles the topology below a group of all parts, of this level.
    pub(crate) fn below(&self, root: Level) -> Option<Topology> {
        let mut homes = BTreeMap::new();
        let sets =
            self.memories.iter().flat_map(|memory| memory.processors.iter().map(|set| (memory.node, set)));
        for (number, (node, set)) in sets.enumerate() {
            homes.extend(set.iter().map(|processor| (processor, (number, node))));
        }
        let memory = |part: &PartMemory| Memory {
            node: part.node,
            bytes: part.bytes,
            kind: part.kind,
            beside: part.beside.clone(),
        };
        let memories = self.memories.iter().map(memory).collect();
        let surroundings = Surroundings { efficiency: self.efficiency.clone(), homes, memories };
        let mut topology = Topology::of_parts(root, &self.processors(), self.groups.clone(), &surroundings)?;
        topology.distances.clone_from(&self.distances);
        Some(topology)
    }
}

/// All groups below one with their depth, in fill order.
fn collect(group: &Group, depth: usize, found: &mut Vec<(usize, RawGroup)>) {
    for child in group.children.iter().filter(|child| child.level != Level::Thread) {
        let mut processors = Vec::new();
        numbers(child, &mut processors);
        let raw = RawGroup {
            level: child.level,
            processors: processors.into_iter().collect(),
            os_index: child.os_index,
            cache_bytes: child.bytes,
            line_bytes: child.line_bytes,
        };
        found.push((depth, raw));
        collect(child, depth + 1, found);
    }
}

/// The operating system's numbers of the hardware threads of a group.
fn numbers(group: &Group, found: &mut Vec<u32>) {
    if group.level == Level::Thread {
        found.extend(group.os_index);
    }
    group.children.iter().for_each(|child| numbers(child, found));
}
