//! Memory nodes, which may be at several levels and of several kinds.
//!
//! Each processor belongs to one memory, on which its rows are placed. Ordinary memory (DRAM, or
//! not reported) takes processors before memory of a special kind, then the memory that fewer
//! processors share, which is the nearer one, then the memory with the smaller number. A memory
//! without processors remains next to those that it names.

use std::collections::BTreeMap;

use roxmltree::Node as Element;

use super::attributes::attribute_number;
use super::distances::Distances;
use crate::cpu_set::CpuSet;
use crate::raw::RawNode;
use crate::topology::MemoryKind;

/// A memory node as in the file.
struct Memory {
    os_index: u32,
    processors: CpuSet,
    bytes: u64,
    kind: MemoryKind,
    /// `gp_index`, by which attributes of memories refer to it.
    object: Option<u64>,
}

/// All memory nodes, in the order of the file.
#[derive(Default)]
pub(super) struct Memories(Vec<Memory>);

impl Memories {
    /// Adds the node of an object.
    pub(super) fn read(&mut self, object: &Element<'_, '_>, processors: CpuSet, os_index: Option<u32>) {
        let Some(os_index) = os_index else { return };
        self.0.push(Memory {
            os_index,
            processors,
            bytes: attribute_number(object, "local_memory").unwrap_or(0),
            kind: kind(object),
            object: attribute_number(object, "gp_index"),
        });
    }

    /// The operating system's numbers, in the order of the file.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|memory| memory.os_index).collect()
    }

    /// Gives each processor its memory; ascending by number.
    ///
    /// Memories of one kind next to the very same processors count as one (emulated nodes), unless
    /// according to the file one is farther from the other than from itself, or their `bandwidths`
    /// differ.
    pub(super) fn nodes(
        mut self,
        distances: Option<&Distances>,
        bandwidths: &BTreeMap<u64, String>,
    ) -> Vec<RawNode> {
        self.0.sort_by_key(|memory| {
            // A memory without processors takes none, wherever it is in the file.
            (memory.kind, memory.processors.len(), memory.os_index)
        });
        let bandwidth = |memory: &Memory| memory.object.and_then(|object| bandwidths.get(&object));
        let alike = |one: &Memory, other: &Memory| {
            let near = |distances: &Distances| {
                let way = |from: &Memory, to: &Memory| distances.relative(from.os_index, to.os_index);
                [way(one, other), way(other, one)].iter().flatten().all(|distance| *distance <= 10.0)
            };
            one.processors == other.processors
                && !one.processors.is_empty()
                && (one.kind, other.kind) == (MemoryKind::Ordinary, MemoryKind::Ordinary)
                && distances.is_none_or(near)
                && bandwidth(one) == bandwidth(other)
        };
        let mut distinct: Vec<Memory> = Vec::new();
        for memory in self.0 {
            match distinct.iter_mut().find(|other| alike(other, &memory)) {
                Some(twin) => twin.bytes += memory.bytes,
                None => distinct.push(memory),
            }
        }
        let mut taken = CpuSet::default();
        let mut nodes: Vec<RawNode> = Vec::new();
        for memory in distinct {
            let processors = memory.processors.difference(&taken);
            taken = taken.union(&processors);
            let beside = if processors.is_empty() { memory.processors } else { CpuSet::default() };
            let (kind, plain) = (memory.kind, RawNode::plain(memory.os_index, processors, memory.bytes));
            nodes.push(RawNode { kind, beside, ..plain });
        }
        nodes.sort_by_key(|node| node.os_index);
        nodes
    }
}

/// The bandwidth of each memory, by its object, as hwloc writes it: used for comparison only.
pub(super) fn bandwidths(root: &Element<'_, '_>) -> BTreeMap<u64, String> {
    let attributes = root.children().filter(|element| element.has_tag_name("memattr"));
    let mut named = attributes.filter(|element| element.attribute("name") == Some("Bandwidth"));
    let values = named.next().into_iter().flat_map(|element| element.children());
    let value = |element: Element<'_, '_>| {
        let object = attribute_number(&element, "target_obj_gp_index")?;
        Some((object, element.attribute("value")?.to_owned()))
    };
    values.filter_map(value).collect()
}

/// Kind of a memory: its subtype, or else the attributes of versions before 2.9.
fn kind(object: &Element<'_, '_>) -> MemoryKind {
    let infos = object.children().filter(|child| child.has_tag_name("info"));
    let named = infos.filter(|info| matches!(info.attribute("name"), Some("Type" | "DAXType")));
    let kind =
        object.attribute("subtype").into_iter().chain(named.filter_map(|info| info.attribute("value")));
    let kind = kind.map(str::trim).find(|text| !text.is_empty());
    match kind.map(str::to_ascii_uppercase).as_deref() {
        None | Some("DRAM") => MemoryKind::Ordinary,
        Some("HBM" | "MCDRAM" | "SPM") => MemoryKind::HighBandwidth,
        Some("NVM" | "NVDIMM") => MemoryKind::Persistent,
        Some(text) if text.starts_with("CXL") => MemoryKind::Cxl,
        Some(_) => MemoryKind::Other,
    }
}
