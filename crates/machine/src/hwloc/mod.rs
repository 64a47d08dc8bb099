//! Reads the XML that hwloc writes (`lstopo --of xml`), of its versions 1 to 3.
//!
//! The relevant objects of the tree are those with hardware threads and of known types: packages,
//! dies, caches, memory nodes, clusters, cores and threads; devices, memory-side caches and other
//! groups are skipped. Distances are those between memory nodes that mean latency. Versions differ
//! in names (`Socket`, `Cache` with a depth) and in the position of memory nodes; in all of them
//! processor sets show where an object belongs.
//!
//! Memories may be at two levels: those of a package beside those of its parts, DRAM beside HBM,
//! CXL or NVM. Processors belong to ordinary memory before any other kind, and to the memory of the
//! fewest processors among equals (`memories`).

mod attributes;
mod distances;
mod memories;

use roxmltree::{Document, Node as Element, ParsingOptions};

use attributes::attribute_number;
use distances::distances;
use memories::Memories;

use crate::cpu_set::CpuSet;
use crate::raw::{RawGroup, RawMachine, RawNode};
use crate::topology::{Level, Topology};

/// A machine that was read from XML.
#[derive(Clone, Debug)]
pub(crate) struct XmlMachine {
    pub(crate) topology: Topology,
    /// Processors, in prose; empty if the file does not name them.
    pub(crate) processor: String,
}

/// Reasons for which a file describes no machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// The file is not XML.
    #[error("not XML: {0}")]
    Syntax(String),
    /// The XML has another format.
    #[error(
        "no XML of hwloc: expected an element `topology` with a `Machine` in it, as `lstopo --of xml` writes"
    )]
    NoMachine,
    /// An object whose processors cannot be parsed.
    #[error("line {line}: `{attribute}` of a {kind} is `{found}`: expected a bitmap such as 0x0000000f")]
    Bitmap {
        /// Line of the object.
        line: u32,
        /// Type of the object.
        kind: String,
        /// The attribute.
        attribute: &'static str,
        /// Text of the attribute.
        found: String,
    },
    /// No hardware thread is there, or none is allowed.
    #[error("no hardware thread (`PU`) that may be used: expected at least one with its os_index")]
    NoThread,
}

/// Reads a machine.
pub(crate) fn read(text: &str) -> Result<XmlMachine, XmlError> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document =
        Document::parse_with_options(text, options).map_err(|error| XmlError::Syntax(error.to_string()))?;
    let root = document.root_element();
    let objects = |element: Element<'_, '_>| element.is_element() && element.has_tag_name("object");
    let machine = root.children().find(|element| objects(*element) && kind(element) == "Machine");
    let machine = machine.filter(|_| root.has_tag_name("topology")).ok_or(XmlError::NoMachine)?;
    let mut reader = Reader { raw: RawMachine::default(), memories: Memories::default() };
    for object in machine.descendants().filter(|element| objects(*element)) {
        reader.object(&object)?;
    }
    let Reader { mut raw, memories } = reader;
    if raw.online.is_empty() {
        return Err(XmlError::NoThread);
    }
    let in_file = memories.numbers();
    let distances = distances(&root, &machine, &in_file);
    raw.nodes = memories.nodes(distances.as_ref(), &memories::bandwidths(&root));
    raw.allowed = match bitmap(&machine, "allowed_cpuset")? {
        Some(allowed) => allowed.intersection(&raw.online),
        None => raw.online.clone(),
    };
    let allowed_nodes = bitmap(&machine, "allowed_nodeset")?.filter(|set| !set.is_empty());
    for node in &mut raw.nodes {
        node.allowed = allowed_nodes.as_ref().is_none_or(|set| set.contains(node.os_index));
    }
    if raw.nodes.iter().all(|node| node.processors.is_empty()) {
        let memory_bytes = attribute_number(&machine, "local_memory").unwrap_or(0);
        raw.nodes = vec![RawNode::plain(0, raw.online.clone(), memory_bytes)];
    } else {
        raw.distances = distances.and_then(|distances| distances.over(&raw.nodes));
    }
    raw.efficiency = efficiency(&root, &raw.online);
    let topology = Topology::assemble(&raw).ok_or(XmlError::NoThread)?;
    Ok(XmlMachine { processor: processor(&machine, topology.counts().packages), topology })
}

struct Reader {
    raw: RawMachine,
    memories: Memories,
}

impl Reader {
    fn object(&mut self, object: &Element<'_, '_>) -> Result<(), XmlError> {
        let Some(processors) = bitmap(object, "cpuset")? else { return Ok(()) };
        let os_index = attribute_number(object, "os_index").and_then(|number| u32::try_from(number).ok());
        match kind(object) {
            "PU" => {
                // A thread that is offline has an empty set in some versions.
                let online = os_index.filter(|index| processors.contains(*index));
                self.raw.online = online.into_iter().chain(self.raw.online.iter()).collect();
                return Ok(());
            }
            "NUMANode" | "Node" => {
                self.memories.read(object, processors, os_index);
                return Ok(());
            }
            _ => {}
        }
        let Some(level) = level(object).filter(|_| !processors.is_empty()) else { return Ok(()) };
        let number = |name| attribute_number(object, name).unwrap_or(0);
        let is_cache = !matches!(level, Level::Package | Level::Die | Level::Cluster | Level::Core);
        self.raw.groups.push(RawGroup {
            level,
            processors,
            os_index: os_index.filter(|_| !is_cache),
            cache_bytes: if is_cache { number("cache_size") } else { 0 },
            line_bytes: if is_cache { u32::try_from(number("cache_linesize")).unwrap_or(0) } else { 0 },
        });
        Ok(())
    }
}

fn kind<'a>(object: &Element<'a, '_>) -> &'a str {
    object.attribute("type").unwrap_or_default()
}

fn bitmap(object: &Element<'_, '_>, attribute: &'static str) -> Result<Option<CpuSet>, XmlError> {
    let Some(text) = object.attribute(attribute) else { return Ok(None) };
    CpuSet::parse_bitmap(text).map(Some).ok_or_else(|| XmlError::Bitmap {
        line: object.document().text_pos_at(object.range().start).row,
        kind: kind(object).to_owned(),
        attribute,
        found: text.chars().take(40).collect(),
    })
}

/// Level of an object; `None` if the object is skipped.
fn level(object: &Element<'_, '_>) -> Option<Level> {
    Some(match kind(object) {
        "Package" | "Socket" => Level::Package,
        "Die" => Level::Die,
        "Core" => Level::Core,
        "L4Cache" => Level::L4,
        "L3Cache" => Level::L3,
        "L2Cache" => Level::L2,
        "L1Cache" => Level::L1Data,
        "L1iCache" => Level::L1Instruction,
        "Group" if object.attribute("subtype") == Some("Cluster") => Level::Cluster,
        // Version 1: 0 is a unified cache, 1 one for data, 2 one for instructions.
        "Cache" => match (attribute_number(object, "depth")?, attribute_number(object, "cache_type")) {
            (1, Some(2)) => Level::L1Instruction,
            (1, _) => Level::L1Data,
            (_, Some(2)) => return None,
            (2, _) => Level::L2,
            (3, _) => Level::L3,
            (4, _) => Level::L4,
            _ => return None,
        },
        _ => return None,
    })
}

/// Efficiency classes: hwloc lists kinds of processors from slow to fast.
fn efficiency(root: &Element<'_, '_>, online: &CpuSet) -> Vec<(u32, u8)> {
    let kinds = root.children().filter(|element| element.has_tag_name("cpukind"));
    let sets: Vec<CpuSet> = kinds.filter_map(|element| bitmap(&element, "cpuset").ok().flatten()).collect();
    let all = sets.iter().fold(CpuSet::default(), |all, set| all.union(set));
    if sets.len() < 2 || !online.is_subset(&all) {
        return Vec::new();
    }
    let classes = sets.iter().enumerate();
    let class = |(class, set): (usize, &CpuSet)| {
        set.iter().map(move |thread| (thread, class.min(usize::from(u8::MAX)) as u8)).collect::<Vec<_>>()
    };
    classes.flat_map(class).collect()
}

/// Model and number of the processors.
fn processor(machine: &Element<'_, '_>, packages: usize) -> String {
    let infos = machine.descendants().filter(|element| element.has_tag_name("info"));
    let mut named = infos.filter(|info| info.attribute("name") == Some("CPUModel"));
    let model = named.find_map(|info| info.attribute("value")).unwrap_or_default();
    let model = model.split_whitespace().collect::<Vec<_>>().join(" ");
    if model.is_empty() || packages < 2 { model } else { format!("{packages} x {model}") }
}
