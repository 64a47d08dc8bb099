//! From raw groups to a consistent topology.
//!
//! Groups are inserted from large to small into a tree ordered by containment. A group that
//! overlaps another without being inside it is a firmware error and is dropped, as in hwloc. The
//! leaves of the tree, taken depth first with the lowest processor number first, are the fill
//! order.

use std::collections::BTreeMap;

use terms::{HardwareThread, Node};

use crate::cpu_set::CpuSet;
use crate::raw::{RawGroup, RawMachine, RawNode};
use crate::topology::{Cache, Counts, Group, Level, MemoryKind, MemoryNode, ThreadInfo, Topology};

/// A node of the tree while groups are inserted.
struct Branch {
    group: RawGroup,
    children: Vec<Branch>,
    /// The child with each processor, as children were inserted.
    owners: BTreeMap<u32, usize>,
}

impl Branch {
    fn new(group: RawGroup) -> Self {
        Branch { group, children: Vec::new(), owners: BTreeMap::new() }
    }

    /// Inserts a group that is not larger than any group already inserted. Returns false if it
    /// overlaps another group.
    fn insert(&mut self, group: RawGroup) -> bool {
        let owner = group.processors.iter().find_map(|processor| self.owners.get(&processor));
        if let Some(&owner) = owner {
            let child = &mut self.children[owner];
            return group.processors.is_subset(&child.group.processors) && child.insert(group);
        }
        let number = self.children.len();
        self.owners.extend(group.processors.iter().map(|processor| (processor, number)));
        self.children.push(Branch::new(group));
        true
    }

    fn sort(&mut self) {
        self.children.sort_by_key(|child| child.group.processors.first());
        self.children.iter_mut().for_each(Branch::sort);
    }

    fn leaves(&self, order: &mut Vec<u32>) {
        if self.group.level == Level::Thread {
            order.extend(self.group.processors.first());
        }
        self.children.iter().for_each(|child| child.leaves(order));
    }
}

/// Accepted groups of each level in fill order, and the group of each processor.
#[derive(Default)]
struct Levels {
    groups: BTreeMap<Level, Vec<RawGroup>>,
    position: BTreeMap<(Level, u32), usize>,
}

impl Levels {
    /// Adds a group and returns its number.
    fn add(&mut self, group: &RawGroup) -> u32 {
        let known = self.groups.entry(group.level).or_default();
        let members = group.processors.iter();
        self.position.extend(members.map(|processor| ((group.level, processor), known.len())));
        known.push(group.clone());
        known.len() as u32 - 1
    }

    /// The group of the first of `candidates` that contains the processor.
    fn group_of(&self, candidates: &[Level], processor: u32) -> GroupKey {
        let found = candidates
            .iter()
            .find_map(|&level| Some(GroupKey { level, position: *self.position.get(&(level, processor))? }));
        found.unwrap_or(GroupKey { level: Level::Thread, position: processor as usize })
    }
}

/// The level of a group, and its position among the groups of that level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    level: Level,
    position: usize,
}

/// Properties of hardware threads and memories that are not in the tree.
pub(crate) struct Surroundings {
    /// Processor number and efficiency class, if cores differ.
    pub(crate) efficiency: BTreeMap<u32, u8>,
    /// For each processor the number of the nearest node, as a key only, and the node that it
    /// allocates on.
    pub(crate) homes: BTreeMap<u32, (usize, Node)>,
    /// Allowed memories, ascending by number.
    pub(crate) memories: Vec<Memory>,
}

/// A memory with its processors.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) node: Node,
    pub(crate) bytes: u64,
    pub(crate) kind: MemoryKind,
    /// Processors next to which it is, though they allocate on another memory.
    pub(crate) beside: CpuSet,
}

impl Memory {
    /// The part of a node that belongs to the allowed processors.
    fn of(node: &RawNode, allowed: &CpuSet) -> Self {
        Self {
            node: Node(node.os_index),
            bytes: node.memory_bytes,
            kind: node.kind,
            beside: node.beside.intersection(allowed),
        }
    }
}

impl Topology {
    /// Builds the topology of the allowed part of a machine; `None` if nothing is allowed.
    pub(crate) fn assemble(raw: &RawMachine) -> Option<Topology> {
        if raw.allowed.is_empty() || !raw.nodes.iter().any(|node| node.allowed) {
            return None;
        }
        let home = |processor| {
            let home = home_of(raw, processor);
            (processor, (home, Node(raw.nodes[nearest(raw, home)].os_index)))
        };
        let allowed = raw.nodes.iter().filter(|node| node.allowed);
        let surroundings = Surroundings {
            efficiency: raw.efficiency.iter().copied().collect(),
            homes: raw.allowed.iter().map(home).collect(),
            memories: allowed.map(|node| Memory::of(node, &raw.allowed)).collect(),
        };
        let mut topology = build(&group_tree(raw), &surroundings);
        topology.distances = raw.distances.as_ref().map(|matrix| select(matrix, &raw.nodes, &topology.nodes));
        Some(topology)
    }

    /// Builds the topology whose tree has these groups below one of level `root`, outer groups
    /// before those inside; `None` if they do not form a tree.
    pub(crate) fn of_parts(
        root: Level,
        processors: &CpuSet,
        groups: Vec<RawGroup>,
        surroundings: &Surroundings,
    ) -> Option<Topology> {
        let all = RawGroup::plain(root, processors.clone(), None);
        let mut root = Branch::new(all);
        let threads = processors.iter();
        let threads =
            threads.map(|number| RawGroup::plain(Level::Thread, CpuSet::single(number), Some(number)));
        for group in groups.into_iter().chain(threads.collect::<Vec<_>>()) {
            if !group.processors.is_subset(processors) || !root.insert(group) {
                return None;
            }
        }
        root.sort();
        Some(build(&root, surroundings))
    }
}

/// The topology of a tree, without distances.
fn build(root: &Branch, surroundings: &Surroundings) -> Topology {
    let mut levels = Levels::default();
    let tree = finish(root, &mut levels);
    let mut order = Vec::new();
    root.leaves(&mut order);
    let threads = describe_threads(surroundings, &levels, &order);
    let position: BTreeMap<_, _> =
        threads.iter().enumerate().map(|(position, info)| (info.thread, position)).collect();
    let (nodes, memory_only) = describe_nodes(&surroundings.memories, &threads);
    let count = |level| levels.groups.get(&level).map_or(0, Vec::len);
    let counts = Counts {
        packages: count(Level::Package),
        numa_nodes: nodes.len(),
        l3_domains: count(Level::L3),
        cores: count(Level::Core),
        hardware_threads: threads.len(),
    };
    let caches = describe_caches(&levels, &order);
    Topology { threads, position, nodes, memory_only, distances: None, caches, tree, counts }
}

/// The tree of all groups, cut down to the allowed processors.
fn group_tree(raw: &RawMachine) -> Branch {
    let mut groups: Vec<RawGroup> = raw.groups.clone();
    groups.extend(raw.nodes.iter().filter(|node| node.allowed).map(|node| RawGroup {
        level: Level::Node,
        processors: node.processors.clone(),
        os_index: Some(node.os_index),
        cache_bytes: node.memory_bytes,
        line_bytes: 0,
    }));
    // Sizes are compared before the restriction: a socket with one allowed core left is still
    // larger than its caches.
    groups.sort_by_key(|group| (std::cmp::Reverse(group.processors.len()), group.level));
    let machine = RawGroup::plain(Level::Machine, raw.online.clone(), None);
    let mut root = Branch::new(machine);
    for group in groups {
        root.insert(group);
    }
    for processor in raw.online.iter() {
        root.insert(RawGroup::plain(Level::Thread, CpuSet::single(processor), Some(processor)));
    }
    cut(&mut root, &raw.allowed);
    root.sort();
    root
}

fn cut(branch: &mut Branch, allowed: &CpuSet) {
    branch.group.processors = branch.group.processors.intersection(allowed);
    branch.children.iter_mut().for_each(|child| cut(child, allowed));
    branch.children.retain(|child| !child.group.processors.is_empty());
}

/// Numbers the groups in fill order, and lists them by level.
fn finish(branch: &Branch, levels: &mut Levels) -> Group {
    Group {
        level: branch.group.level,
        logical_index: levels.add(&branch.group),
        os_index: branch.group.os_index,
        bytes: branch.group.cache_bytes,
        line_bytes: branch.group.line_bytes,
        thread_count: branch.group.processors.len() as u32,
        children: branch.children.iter().map(|child| finish(child, levels)).collect(),
    }
}

/// Gives each distinct key the next number, so that group numbers are dense and in fill order.
#[derive(Default)]
struct Numbering(BTreeMap<GroupKey, u32>);

impl Numbering {
    fn number(&mut self, key: GroupKey) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }
}

fn describe_threads(surroundings: &Surroundings, levels: &Levels, order: &[u32]) -> Vec<ThreadInfo> {
    let (mut cores, mut l2, mut l3) = (Numbering::default(), Numbering::default(), Numbering::default());
    let (mut dies, mut packages) = (Numbering::default(), Numbering::default());
    let (mut neighbourhoods, mut machines) = (Numbering::default(), Numbering::default());
    let mut siblings: BTreeMap<u32, u32> = BTreeMap::new();
    let mut threads = Vec::with_capacity(order.len());
    for &processor in order {
        let core = cores.number(levels.group_of(&[Level::Core], processor));
        let sibling = siblings.entry(core).or_default();
        let (home, node) = surroundings.homes[&processor];
        threads.push(ThreadInfo {
            thread: HardwareThread(processor),
            core,
            sibling: *sibling,
            l2_group: l2.number(levels.group_of(&[Level::L2, Level::Core], processor)),
            l3_domain: l3.number(levels.group_of(&[Level::L3, Level::L2, Level::Core], processor)),
            die: dies.number(levels.group_of(&[Level::Die, Level::Package, Level::Machine], processor)),
            package: packages.number(levels.group_of(&[Level::Package, Level::Machine], processor)),
            machine: machines.number(levels.group_of(&[Level::Machine], processor)),
            node,
            efficiency: surroundings.efficiency.get(&processor).copied().unwrap_or(0),
            neighbourhood: neighbourhoods.number(GroupKey { level: Level::Node, position: home }),
        });
        *sibling += 1;
    }
    threads
}

/// Position of the node next to a processor; the first node for a processor in no node.
fn home_of(raw: &RawMachine, processor: u32) -> usize {
    raw.nodes.iter().position(|node| node.processors.contains(processor)).unwrap_or(0)
}

/// Position of the allowed node nearest to node `home`. Ordinary nodes and nodes with allowed
/// processors are preferred.
fn nearest(raw: &RawMachine, home: usize) -> usize {
    let rank = |position: usize| {
        let distance = raw.distances.as_ref().map_or(0, |matrix| matrix[home][position]);
        let inhabited = !raw.nodes[position].processors.is_disjoint(&raw.allowed);
        (position != home, raw.nodes[position].kind, !inhabited, distance, position)
    };
    let allowed = (0..raw.nodes.len()).filter(|&position| raw.nodes[position].allowed);
    allowed.min_by_key(|&position| rank(position)).expect("assemble refuses machines without allowed memory")
}

/// Splits the allowed memories into those that hardware threads use, and the others.
fn describe_nodes(memories: &[Memory], threads: &[ThreadInfo]) -> (Vec<MemoryNode>, Vec<MemoryNode>) {
    let near = |node| threads.iter().filter(move |info| info.node == node).map(|info| info.thread).collect();
    let memories = memories.iter().map(|memory| MemoryNode {
        node: memory.node,
        memory_bytes: memory.bytes,
        threads: near(memory.node),
        kind: memory.kind,
        beside: memory.beside.iter().map(HardwareThread).collect(),
    });
    // By number, as hwloc and numactl list them, so that hops and distances are easy to read.
    let (mut nodes, memory_only): (Vec<_>, Vec<_>) = memories.partition(|memory| !memory.threads.is_empty());
    nodes.sort_by_key(|memory| memory.node);
    (nodes, memory_only)
}

/// The rows and columns of the chosen nodes.
fn select(matrix: &[Vec<u32>], all: &[RawNode], chosen: &[MemoryNode]) -> Vec<Vec<u32>> {
    let positions: Vec<usize> = chosen
        .iter()
        .filter_map(|memory| all.iter().position(|node| node.os_index == memory.node.0))
        .collect();
    positions.iter().map(|&row| positions.iter().map(|&column| matrix[row][column]).collect()).collect()
}

fn describe_caches(levels: &Levels, order: &[u32]) -> Vec<Cache> {
    let ranks: BTreeMap<u32, usize> = order.iter().copied().zip(0..).collect();
    let mut caches = Vec::new();
    for level in [Level::L4, Level::L3, Level::L2, Level::L1Data, Level::L1Instruction] {
        for group in levels.groups.get(&level).into_iter().flatten() {
            let mut inside: Vec<u32> =
                group.processors.iter().filter(|processor| ranks.contains_key(processor)).collect();
            inside.sort_unstable_by_key(|processor| ranks[processor]);
            caches.push(Cache {
                level,
                bytes: group.cache_bytes,
                line_bytes: group.line_bytes,
                threads: inside.into_iter().map(HardwareThread).collect(),
            });
        }
    }
    caches
}
