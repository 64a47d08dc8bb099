//! Memory nodes, which may lie at several levels and be of several kinds.
//!
//! Each processor belongs to one memory, the one its rows come to. Ordinary memory (DRAM, or not
//! told) claims processors before memory of a kind of its own, then the memory that fewer
//! processors share, which is the nearer one, then the one with the smaller number. A memory that
//! gets no processor stays beside those it names.

use std::collections::BTreeMap;

use roxmltree::Node as Element;

use super::attributes::attribute_number;
use super::distances::Distances;
use crate::cpu_set::CpuSet;
use crate::raw::RawNode;
use crate::topology::MemoryKind;

/// A memory node as the file has it.
struct Memory {
    os_index: u32,
    processors: CpuSet,
    bytes: u64,
    kind: MemoryKind,
    /// `gp_index`, by which attributes of memories name it.
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
    /// Memories of one kind next to the very same processors are one (emulated nodes), unless the
    /// file says that one is further away from the other than from itself or that their
    /// `bandwidths` differ.
    pub(super) fn nodes(
        mut self,
        distances: Option<&Distances>,
        bandwidths: &BTreeMap<u64, String>,
    ) -> Vec<RawNode> {
        self.0.sort_by_key(|memory| {
            // A memory without processors claims none, wherever it stands.
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

/// The bandwidth of each memory, named by its object, as hwloc writes it: to compare, not to count
/// with.
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

/// What a memory is made of: its subtype, or else what versions before 2.9 say beside it.
fn kind(object: &Element<'_, '_>) -> MemoryKind {
    let infos = object.children().filter(|child| child.has_tag_name("info"));
    let named = infos.filter(|info| matches!(info.attribute("name"), Some("Type" | "DAXType")));
    let told =
        object.attribute("subtype").into_iter().chain(named.filter_map(|info| info.attribute("value")));
    let told = told.map(str::trim).find(|text| !text.is_empty());
    match told.map(str::to_ascii_uppercase).as_deref() {
        None | Some("DRAM") => MemoryKind::Ordinary,
        Some("HBM" | "MCDRAM" | "SPM") => MemoryKind::HighBandwidth,
        Some("NVM" | "NVDIMM") => MemoryKind::Persistent,
        Some(text) if text.starts_with("CXL") => MemoryKind::Cxl,
        Some(_) => MemoryKind::Other,
    }
}
