//! Input of a topology from discovery and descriptions: memories, and groups of processors that may
//! still contradict each other. `Topology::assemble` makes an immutable, consistent value of it.

use crate::cpu_set::CpuSet;
use crate::topology::{Level, MemoryKind};

/// A group of processors that share a resource.
#[derive(Clone, Debug)]
pub(crate) struct RawGroup {
    pub(crate) level: Level,
    pub(crate) processors: CpuSet,
    /// The operating system's number of the group, if it has a usable one.
    pub(crate) os_index: Option<u32>,
    /// Capacity and line size of a cache; zero for other groups or if unknown.
    pub(crate) cache_bytes: u64,
    pub(crate) line_bytes: u32,
}

impl RawGroup {
    pub(crate) fn plain(level: Level, processors: CpuSet, os_index: Option<u32>) -> Self {
        Self { level, processors, os_index, cache_bytes: 0, line_bytes: 0 }
    }
}

/// One memory node.
#[derive(Clone, Debug)]
pub(crate) struct RawNode {
    pub(crate) os_index: u32,
    pub(crate) processors: CpuSet,
    pub(crate) memory_bytes: u64,
    /// True if this process may allocate on it.
    pub(crate) allowed: bool,
    pub(crate) kind: MemoryKind,
    /// Processors next to which it is, though they allocate on another memory.
    pub(crate) beside: CpuSet,
}

impl RawNode {
    /// Ordinary memory of these processors, which is allowed.
    pub(crate) fn plain(os_index: u32, processors: CpuSet, memory_bytes: u64) -> Self {
        let (kind, beside) = (MemoryKind::Ordinary, CpuSet::default());
        Self { os_index, processors, memory_bytes, allowed: true, kind, beside }
    }
}

/// All facts about a machine, before restriction to the allowed processors.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawMachine {
    /// Processors that are online.
    pub(crate) online: CpuSet,
    /// Processors that may be used: a subset of `online`.
    pub(crate) allowed: CpuSet,
    /// Groups, in any order, at most one of a level for each processor.
    pub(crate) groups: Vec<RawGroup>,
    /// Memories with pairwise disjoint processors, ascending by number.
    pub(crate) nodes: Vec<RawNode>,
    /// Distances between `nodes` in the order of `nodes`.
    pub(crate) distances: Option<Vec<Vec<u32>>>,
    /// Processor number and efficiency class (0 is the slowest), if cores differ.
    pub(crate) efficiency: Vec<(u32, u8)>,
}
