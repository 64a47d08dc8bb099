//! The machine as a plain, immutable value: hardware threads in fill order, their groups, and
//! memories.

use std::collections::BTreeMap;

use terms::{HardwareThread, Node};

/// Kinds of groups of hardware threads, from large to small where groups coincide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// All machines of a cluster.
    Machines,
    /// A whole machine.
    Machine,
    /// A socket.
    Package,
    /// A die of a socket that has several.
    Die,
    /// A cache beyond the third level.
    L4,
    /// A third-level cache.
    L3,
    /// The processors next to one memory.
    Node,
    /// A cluster of cores below the L3 (shared L3 tags, shared bus).
    Cluster,
    /// A second-level cache.
    L2,
    /// A first-level data (or unified) cache.
    L1Data,
    /// A first-level instruction cache.
    L1Instruction,
    /// A physical core.
    Core,
    /// One hardware thread.
    Thread,
}

impl Level {
    /// Levels between the machine and its hardware threads, and their names in files.
    pub(crate) const NAMED: [(Level, &'static str); 10] = [
        (Level::Package, "package"),
        (Level::Die, "die"),
        (Level::L4, "l4"),
        (Level::L3, "l3"),
        (Level::Node, "numa_node"),
        (Level::Cluster, "cluster"),
        (Level::L2, "l2"),
        (Level::L1Data, "l1d"),
        (Level::L1Instruction, "l1i"),
        (Level::Core, "core"),
    ];

    /// Name of the level in files.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Level::Machines => "machines",
            Level::Machine => "machine",
            Level::Thread => "hardware_thread",
            inner => Level::NAMED.iter().find(|(level, _)| *level == inner).map_or("", |(_, name)| name),
        }
    }
}

/// A hardware thread and the numbers of its groups.
///
/// Group numbers are logical: dense from zero, in fill order. If the machine does not report a
/// level, the group of the nearest reported level takes its place (a missing socket is the whole
/// machine, a missing die is the socket, a missing L2 is the core, a missing L3 is the L2).
/// [`Topology::counts`] returns the reported levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// The operating system's number.
    pub thread: HardwareThread,
    /// The physical core.
    pub core: u32,
    /// Position among the allowed hardware threads of the core, from 0.
    pub sibling: u32,
    /// The group of cores behind one L2.
    pub l2_group: u32,
    /// The group of cores behind one L3.
    pub l3_domain: u32,
    /// The die.
    pub die: u32,
    /// The socket.
    pub package: u32,
    /// The machine; 0 outside clusters.
    pub machine: u32,
    /// The memory to allocate on: the nearest one that is allowed.
    pub node: Node,
    /// Efficiency class: equal on machines with one kind of core, otherwise 0 is the slowest kind.
    pub efficiency: u8,
    /// The node whose processors include this one, allowed or not, as a dense number.
    pub(crate) neighbourhood: u32,
}

/// Technology of a memory, if it differs from the memory that processors use by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// DRAM, or not reported.
    #[default]
    Ordinary,
    /// On the package: wide and small (HBM, MCDRAM).
    HighBandwidth,
    /// Behind a CXL link.
    Cxl,
    /// Persistent (NVM).
    Persistent,
    /// Another kind, as the memory of a GPU.
    Other,
}

impl MemoryKind {
    /// Kinds that are not ordinary, and their names.
    const NAMED: [(MemoryKind, &'static str); 4] = [
        (MemoryKind::HighBandwidth, "HBM"),
        (MemoryKind::Cxl, "CXL"),
        (MemoryKind::Persistent, "NVM"),
        (MemoryKind::Other, "other"),
    ];

    /// Name of the kind; `None` for ordinary memory.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(kind, _)| *kind == self).map(|(_, name)| *name)
    }

    /// The kind of this name.
    pub(crate) fn named(text: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }

    /// All names, as messages list them.
    pub(crate) const NAMES: &'static str = "HBM, CXL, NVM or other";
}

/// A memory node that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// The operating system's number.
    pub node: Node,
    /// Capacity; 0 if unknown.
    pub memory_bytes: u64,
    /// Hardware threads that have this as their nearest memory, in fill order; empty for memory
    /// without processors.
    pub threads: Vec<HardwareThread>,
    /// Technology of the memory.
    pub kind: MemoryKind,
    /// Hardware threads next to which it is although another memory is their nearest, ascending;
    /// empty if unknown.
    pub beside: Vec<HardwareThread>,
}

/// A cache of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// `L4`, `L3`, `L2`, `L1Data` or `L1Instruction`.
    pub level: Level,
    /// Capacity; 0 if unknown.
    pub bytes: u64,
    /// Line size; 0 if unknown.
    pub line_bytes: u32,
    /// The hardware threads that share the cache, in fill order.
    pub threads: Vec<HardwareThread>,
}

/// A group of hardware threads in the containment tree of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Resource that the members share.
    pub level: Level,
    /// Number among the groups of this level, dense from zero, in fill order.
    pub logical_index: u32,
    /// The operating system's number, if there is one.
    pub os_index: Option<u32>,
    /// Capacity of a cache or of a node's memory; 0 if unknown.
    pub bytes: u64,
    /// Line size of a cache; 0 if unknown.
    pub line_bytes: u32,
    /// Number of hardware threads inside.
    pub thread_count: u32,
    /// Parts, in fill order.
    pub children: Vec<Group>,
}

/// Number of parts of each kind that the machine reports; 0 if it reports none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Sockets.
    pub packages: usize,
    /// Memory nodes that are allowed and have an allowed hardware thread next to them.
    pub numa_nodes: usize,
    /// Third-level caches.
    pub l3_domains: usize,
    /// Physical cores.
    pub cores: usize,
    /// Hardware threads.
    pub hardware_threads: usize,
}

/// A machine: its allowed hardware threads and memories, and their groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(crate) threads: Vec<ThreadInfo>,
    pub(crate) position: BTreeMap<HardwareThread, usize>,
    pub(crate) nodes: Vec<MemoryNode>,
    pub(crate) memory_only: Vec<MemoryNode>,
    pub(crate) distances: Option<Vec<Vec<u32>>>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) tree: Group,
    pub(crate) counts: Counts,
}

/// Distance that firmware reports between a node and itself.
const DISTANCE_LOCAL: u32 = 10;
/// Distance assumed between two nodes if firmware reports none.
const DISTANCE_REMOTE: u32 = 20;

impl Topology {
    /// All hardware threads in fill order: core by core (SMT siblings of a core first), socket by
    /// socket.
    pub fn threads(&self) -> &[ThreadInfo] {
        &self.threads
    }

    /// The operating system's numbers of all hardware threads, in fill order.
    pub fn hardware_threads(&self) -> Vec<HardwareThread> {
        self.threads.iter().map(|info| info.thread).collect()
    }

    /// A hardware thread with its groups; `None` if it is not allowed.
    pub fn thread(&self, thread: HardwareThread) -> Option<&ThreadInfo> {
        self.fill_position(thread).map(|position| &self.threads[position])
    }

    /// Position of a hardware thread in fill order.
    pub fn fill_position(&self, thread: HardwareThread) -> Option<usize> {
        self.position.get(&thread).copied()
    }

    /// The nearest allowed memory of a hardware thread.
    pub fn node_of(&self, thread: HardwareThread) -> Option<Node> {
        self.thread(thread).map(|info| info.node)
    }

    /// The (logical) socket of a hardware thread.
    pub fn socket_of(&self, thread: HardwareThread) -> Option<u32> {
        self.thread(thread).map(|info| info.package)
    }

    /// Allowed memory nodes with hardware threads next to them, ascending by number.
    pub fn nodes(&self) -> &[MemoryNode] {
        &self.nodes
    }

    /// Allowed memory nodes without any allowed hardware thread (memory expanders, memories beside
    /// the ordinary one, restricted cpusets). No placement puts rows there.
    pub fn memory_only_nodes(&self) -> &[MemoryNode] {
        &self.memory_only
    }

    /// An allowed memory by its number.
    pub fn memory(&self, node: Node) -> Option<&MemoryNode> {
        self.nodes.iter().chain(&self.memory_only).find(|memory| memory.node == node)
    }

    /// Position of a node in [`Topology::nodes`].
    pub fn node_position(&self, node: Node) -> Option<usize> {
        self.nodes.iter().position(|memory| memory.node == node)
    }

    /// The machine's distance matrix over [`Topology::nodes`]; `None` if it reports none or an
    /// inconsistent one.
    pub fn distances(&self) -> Option<&[Vec<u32>]> {
        self.distances.as_deref()
    }

    /// Relative distance between two nodes of [`Topology::nodes`]: the firmware's, or 10 to itself
    /// and 20 to others.
    pub fn distance(&self, from: Node, to: Node) -> u32 {
        let reported = self
            .distances
            .as_ref()
            .and_then(|matrix| Some(*matrix.get(self.node_position(from)?)?.get(self.node_position(to)?)?));
        reported.unwrap_or(if from == to { DISTANCE_LOCAL } else { DISTANCE_REMOTE })
    }

    /// All caches, by level and then in fill order.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The containment tree, the machine at its root, hardware threads as its leaves.
    pub fn tree(&self) -> &Group {
        &self.tree
    }

    /// Number of parts of each kind.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The machine of a hardware thread.
    pub fn machine_of(&self, thread: HardwareThread) -> Option<u32> {
        self.thread(thread).map(|info| info.machine)
    }

    /// Number of machines: more than one in a cluster.
    pub fn machine_count(&self) -> usize {
        self.threads.iter().map(|info| info.machine as usize + 1).max().unwrap_or(0)
    }

    /// Number of sockets used for placement: at least one, also if the machine reports none.
    pub fn socket_count(&self) -> usize {
        self.threads.iter().map(|info| info.package as usize + 1).max().unwrap_or(0)
    }

    /// Largest number of hardware threads on any one core.
    pub fn smt(&self) -> usize {
        self.threads.iter().map(|info| info.sibling as usize + 1).max().unwrap_or(0)
    }

    /// Total bytes of the allowed memories that rows are placed on by default: all memories but
    /// those of a special kind that are the nearest memory of no hardware thread.
    pub fn memory_bytes(&self) -> u64 {
        let expanders = self.memory_only.iter().filter(|memory| memory.kind == MemoryKind::Ordinary);
        self.nodes.iter().chain(expanders).map(|memory| memory.memory_bytes).sum()
    }

    /// Total bytes of the memories that [`Topology::memory_bytes`] leaves out.
    pub fn special_memory_bytes(&self) -> u64 {
        let special = self.memory_only.iter().filter(|memory| memory.kind != MemoryKind::Ordinary);
        special.map(|memory| memory.memory_bytes).sum()
    }

    /// Number of physical cores. A hardware thread without a reported core counts as one.
    pub fn core_count(&self) -> usize {
        self.threads.iter().map(|info| info.core as usize + 1).max().unwrap_or(0)
    }

    /// The first `count` hardware threads in fill order, using at most `smt` of each core.
    ///
    /// The result is shorter if the machine has fewer.
    pub fn cores_limited(&self, count: usize, smt: usize) -> Vec<HardwareThread> {
        let usable = self.threads.iter().filter(|info| (info.sibling as usize) < smt);
        usable.take(count).map(|info| info.thread).collect()
    }
}
