//! Reads complete description files, which have every value; see `write.rs` for their form.

use terms::Node;

use super::core::{self, CoreCosts};
use super::fact::{Confidence, Fact, FactMatrix};
use super::keys::{DescriptionError, Keys, confidence};
use super::measured::CoreToCore;
use super::shape;
use super::tlbs;
use super::value::{AccessCosts, CacheFacts, Description, Network, Reach, SmtShare};
use crate::cpu_set::CpuSet;
use crate::parts::{PartMemory, Parts};
use crate::raw::RawGroup;
use crate::topology::{Level, MemoryKind, Topology};

const KEYS: &[&str] = &[
    "name",
    "processor",
    "links",
    "confidence",
    "machines",
    "clock_ghz",
    "line_bytes",
    "link_gbps",
    "chassis_nodes",
    "node_links",
    "core",
    "sibling_ns",
    "hops",
    "smt_shares",
    "network",
    "l1",
    "l2",
    "l3",
    "memory_ns",
    "memory_gbps",
    "load",
    "store",
    "atomic",
    "topology",
    "core_to_core",
];

/// Largest capacity of a cache or memory, 2^50 bytes.
const BYTES_MAX: u64 = 1 << 50;
/// Largest number of hops between two nodes.
const HOPS_MAX: u32 = 64;
/// Largest relative distance; firmware gives tenths of the local latency.
const DISTANCE_MAX: u32 = 1 << 20;
/// Largest number of a package, core or node by the operating system.
const INDEX_MAX: u32 = u32::MAX;
/// Largest number of siblings with a share.
const SIBLINGS_MAX: usize = 64;

pub(super) fn read(keys: &Keys) -> Result<Description, DescriptionError> {
    keys.only(KEYS)?;
    let topology = topology(&required(keys, "topology")?)?;
    let size = topology.nodes().len();
    let text = |key: &str| Ok(keys.text(key)?.unwrap_or_default());
    let network = keys.below("network")?.map(|keys| network(&keys)).transpose()?;
    let has_l3 = keys.has("l3");
    let (clock_ghz, l1) = (fact(keys, "clock_ghz")?, cache(&required(keys, "l1")?)?);
    // In files that are older than the table these values follow from rules.
    let given = keys.below("core")?;
    let tlb = given.as_ref().map(|table| table.below("tlb")).transpose()?.flatten();
    let given = given.map(|table| core::read(&table, &["tlb"], fact)).transpose()?.unwrap_or_default();
    let basis =
        core::Basis { clock_ghz: clock_ghz.value, l1_ns: l1.load_ns.value, year: None, pause_ns: 0.0 };
    Ok(Description {
        core: CoreCosts::complete(&given, basis),
        translation: tlb.map(|table| tlbs::read(&table, fact)).transpose()?,
        name: keys.text("name")?.ok_or_else(|| keys.missing("name"))?,
        processor: text("processor")?,
        links: text("links")?,
        confidence: confidence(keys)?,
        machines: shape::machines(keys, topology.threads().len())?,
        network,
        clock_ghz,
        line_bytes: line_bytes(keys)?,
        l1,
        l2: cache(&required(keys, "l2")?)?,
        l3: if has_l3 { Some(cache(&required(keys, "l3")?)?) } else { None },
        hops: hops(keys, size)?,
        memory_ns: matrix(&required(keys, "memory_ns")?, size)?,
        memory_gbps: matrix(&required(keys, "memory_gbps")?, size)?,
        link_gbps: fact(keys, "link_gbps")?,
        chassis_nodes: keys.count("chassis_nodes")?,
        node_links: node_links(keys)?,
        load: costs(&required(keys, "load")?, size)?,
        store: costs(&required(keys, "store")?, size)?,
        atomic: costs(&required(keys, "atomic")?, size)?,
        smt_shares: smt_shares(keys)?,
        sibling_ns: if keys.has("sibling_ns") { Some(fact(keys, "sibling_ns")?) } else { None },
        core_to_core: core_to_core(keys, topology.threads().len())?,
        topology,
    })
}

fn required(keys: &Keys, key: &str) -> Result<Keys, DescriptionError> {
    keys.below(key)?.ok_or_else(|| keys.missing(key))
}

/// `KEY = { value, confidence, source }`.
fn fact(keys: &Keys, key: &str) -> Result<Fact<f64>, DescriptionError> {
    let table = required(keys, key)?;
    table.only(&["value", "confidence", "source"])?;
    trusted(&table, table.required_number("value")?)
}

fn trusted<T>(table: &Keys, value: T) -> Result<Fact<T>, DescriptionError> {
    Ok(Fact { value, confidence: confidence(table)?, source: table.text("source")?.unwrap_or_default() })
}

fn line_bytes(keys: &Keys) -> Result<Fact<u32>, DescriptionError> {
    keys.line_bytes(fact(keys, "line_bytes")?)
}

fn node_links(keys: &Keys) -> Result<Fact<u32>, DescriptionError> {
    let table = required(keys, "node_links")?;
    table.only(&["value", "confidence", "source"])?;
    trusted(&table, table.required_count("value")? as u32)
}

fn network(keys: &Keys) -> Result<Network, DescriptionError> {
    keys.only(&["one_way_us", "gbps", "header_bytes", "packet_bytes"])?;
    let given = |key: &str| if keys.has(key) { fact(keys, key).map(Some) } else { Ok(None) };
    Ok(Network {
        one_way_us: fact(keys, "one_way_us")?,
        gbps: given("gbps")?,
        // In files that are older than these keys the values follow from rules.
        header_bytes: given("header_bytes")?.unwrap_or_else(Network::header_by_rule),
        packet_bytes: given("packet_bytes")?.unwrap_or_else(Network::packet_by_rule),
    })
}

fn cache(keys: &Keys) -> Result<CacheFacts, DescriptionError> {
    keys.only(&["bytes", "load_ns"])?;
    let table = required(keys, "bytes")?;
    table.only(&["value", "confidence", "source"])?;
    let bytes = table.whole("value", BYTES_MAX)?.ok_or_else(|| table.missing("value"))?;
    if bytes < 1024 {
        return Err(table.invalid("value", bytes, "at least 1024 bytes"));
    }
    Ok(CacheFacts { bytes: trusted(&table, bytes)?, load_ns: fact(keys, "load_ns")? })
}

fn hops(keys: &Keys, size: usize) -> Result<Vec<Vec<u32>>, DescriptionError> {
    let hops = keys.whole_matrix("hops", size, HOPS_MAX)?.ok_or_else(|| keys.missing("hops"))?;
    let wrong = |&(row, column): &(usize, usize)| (hops[row][column] == 0) != (row == column);
    let mut pairs = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
    match pairs.find(wrong) {
        None => Ok(hops),
        Some((row, column)) => {
            let expected = "0 from a node to itself and positive numbers to others";
            Err(keys.invalid(&format!("hops[{row}][{column}]"), hops[row][column], expected))
        }
    }
}

/// A table with `values`, `confidence` (one for all, or a matrix) and `source`.
fn matrix(keys: &Keys, size: usize) -> Result<FactMatrix, DescriptionError> {
    keys.only(&["values", "confidence", "source"])?;
    let values = keys.matrix("values", size)?.ok_or_else(|| keys.missing("values"))?;
    let source = keys.text("source")?.unwrap_or_default();
    let confidence = match keys.text_matrix("confidence", size)? {
        None => vec![vec![confidence(keys)?; size]; size],
        Some(names) => {
            let read = |(row, names): (usize, &Vec<String>)| -> Result<Vec<Confidence>, DescriptionError> {
                let read = |(column, name): (usize, &String)| {
                    Confidence::parse(name).ok_or_else(|| {
                        let key = format!("confidence[{row}][{column}]");
                        keys.invalid(&key, name, Confidence::NAMES)
                    })
                };
                names.iter().enumerate().map(read).collect()
            };
            names.iter().enumerate().map(read).collect::<Result<_, _>>()?
        }
    };
    Ok(FactMatrix { values, confidence, source })
}

fn costs(keys: &Keys, size: usize) -> Result<AccessCosts, DescriptionError> {
    keys.only(&["modified", "exclusive", "shared"])?;
    let reach = |state: &str| {
        let keys = required(keys, state)?;
        keys.only(&["own_core_ns", "same_domain_ns", "same_node_ns", "between_nodes_ns"])?;
        Ok(Reach {
            own_core_ns: fact(&keys, "own_core_ns")?,
            same_domain_ns: fact(&keys, "same_domain_ns")?,
            same_node_ns: fact(&keys, "same_node_ns")?,
            between_nodes_ns: matrix(&required(&keys, "between_nodes_ns")?, size)?,
        })
    };
    Ok(AccessCosts { modified: reach("modified")?, exclusive: reach("exclusive")?, shared: reach("shared")? })
}

fn smt_shares(keys: &Keys) -> Result<Vec<SmtShare>, DescriptionError> {
    let mut shares: Vec<SmtShare> = Vec::new();
    for keys in keys.tables("smt_shares")? {
        keys.only(&["siblings", "share"])?;
        let siblings = keys.required_count("siblings")?;
        let after = shares.last().map_or(0, |known| known.siblings);
        // Shares are interpolated: the first must be that of one sibling, and each number may be
        // given once.
        let expected = if after == 0 { 1..=1 } else { after + 1..=SIBLINGS_MAX };
        if !expected.contains(&siblings) {
            let expected = format!("a number from {} to {}", expected.start(), expected.end());
            return Err(keys.invalid("siblings", siblings, &expected));
        }
        shares.push(SmtShare { siblings, share: fact(&keys, "share")? });
    }
    if shares.is_empty() {
        return Err(keys.invalid("smt_shares", "empty", "at least the share of one sibling"));
    }
    Ok(shares)
}

fn topology(keys: &Keys) -> Result<Topology, DescriptionError> {
    keys.only(&["distances", "efficiency", "groups", "memories"])?;
    let memories = memories(keys)?;
    let inhabited = memories.iter().filter(|memory| !memory.processors.is_empty()).count();
    let mut groups = Vec::new();
    for keys in keys.tables("groups")? {
        read_groups(&keys, &mut groups)?;
    }
    let mut efficiency = std::collections::BTreeMap::new();
    for (class, list) in keys.texts("efficiency")?.unwrap_or_default().iter().enumerate() {
        let set = threads(keys, &format!("efficiency[{class}]"), list)?;
        efficiency.extend(set.iter().map(|thread| (thread, class.min(usize::from(u8::MAX)) as u8)));
    }
    let distances = keys.whole_matrix("distances", inhabited, DISTANCE_MAX)?;
    let zero = distances.iter().flatten().flatten().any(|&distance| distance == 0);
    if zero {
        return Err(keys.invalid("distances", "a matrix with zeros", "positive numbers"));
    }
    let parts = Parts { groups, memories, distances, efficiency };
    parts.topology().ok_or_else(|| {
        let expected = "groups of threads that memories have, each inside of one before it or apart from it";
        keys.invalid("groups", "a list that makes no tree", expected)
    })
}

fn memories(keys: &Keys) -> Result<Vec<PartMemory>, DescriptionError> {
    let mut memories: Vec<PartMemory> = Vec::new();
    let mut taken = CpuSet::default();
    for keys in keys.tables("memories")? {
        keys.only(&["node", "bytes", "threads", "kind", "beside"])?;
        let node = keys.whole("node", INDEX_MAX.into())?.ok_or_else(|| keys.missing("node"))?;
        let node = Node(node as u32);
        if memories.iter().any(|memory| memory.node == node) {
            return Err(keys.invalid("node", node.0, "a number that no memory before it has"));
        }
        let lists = keys.texts("threads")?.ok_or_else(|| keys.missing("threads"))?;
        let mut processors = Vec::new();
        for (index, list) in lists.iter().enumerate() {
            let key = format!("threads[{index}]");
            let set = threads(&keys, &key, list)?;
            if !set.is_disjoint(&taken) {
                return Err(keys.invalid(&key, list, "hardware threads that no memory before it has"));
            }
            taken = taken.union(&set);
            processors.push(set);
        }
        let bytes = keys.whole("bytes", BYTES_MAX)?.unwrap_or(0);
        let (kind, beside) = (memory_kind(&keys)?, beside(&keys)?);
        memories.push(PartMemory { node, bytes, processors, kind, beside });
    }
    let stray = memories.iter().find(|memory| !memory.beside.is_subset(&taken));
    if let Some(memory) = stray {
        let found = format!("beside \"{}\" for node {}", memory.beside.list(), memory.node.0);
        return Err(keys.invalid("memories", found, "hardware threads that some memory has"));
    }
    if taken.is_empty() {
        return Err(keys.invalid(
            "memories",
            "a list without hardware threads",
            "at least one hardware thread",
        ));
    }
    // The topology lists memories with processors ascending by number, and so do matrices.
    memories.sort_by_key(|memory| memory.node);
    Ok(memories)
}

fn memory_kind(keys: &Keys) -> Result<MemoryKind, DescriptionError> {
    let Some(name) = keys.text("kind")? else { return Ok(MemoryKind::Ordinary) };
    MemoryKind::named(&name).ok_or_else(|| keys.invalid("kind", &name, MemoryKind::NAMES))
}

/// Hardware threads next to which a memory is.
fn beside(keys: &Keys) -> Result<CpuSet, DescriptionError> {
    keys.text("beside")?.map_or(Ok(CpuSet::default()), |list| threads(keys, "beside", &list))
}

fn threads(keys: &Keys, key: &str, list: &str) -> Result<CpuSet, DescriptionError> {
    let set = CpuSet::parse_list(list).filter(|set| !set.is_empty());
    set.ok_or_else(|| keys.invalid(key, format!("\"{list}\""), "hardware threads such as 0-3,8"))
}

fn read_groups(keys: &Keys, groups: &mut Vec<RawGroup>) -> Result<(), DescriptionError> {
    keys.only(&["type", "bytes", "line_bytes", "os_index", "threads"])?;
    let name = keys.text("type")?.ok_or_else(|| keys.missing("type"))?;
    let level = Level::NAMED.iter().find(|(_, known)| *known == name).map(|(level, _)| *level);
    let level = level.ok_or_else(|| {
        let names: Vec<&str> = Level::NAMED.iter().map(|(_, name)| *name).collect();
        keys.invalid("type", &name, &format!("one of {}", names.join(", ")))
    })?;
    let lists = keys.texts("threads")?.ok_or_else(|| keys.missing("threads"))?;
    let numbers = keys.whole_numbers("os_index", INDEX_MAX)?;
    if let Some(numbers) = numbers.as_ref().filter(|numbers| numbers.len() != lists.len()) {
        let found = format!("a list of {} entries", numbers.len());
        return Err(keys.invalid("os_index", found, &format!("{} entries, as `threads` has", lists.len())));
    }
    let cache_bytes = keys.whole("bytes", BYTES_MAX)?.unwrap_or(0);
    let line_bytes = keys.whole("line_bytes", 4096)?.unwrap_or(0) as u32;
    for (index, list) in lists.iter().enumerate() {
        let processors = threads(keys, &format!("threads[{index}]"), list)?;
        let os_index = numbers.as_ref().map(|numbers| numbers[index]);
        groups.push(RawGroup { level, processors, os_index, cache_bytes, line_bytes });
    }
    Ok(())
}

/// Rows as texts: row i has i times, separated by blanks, `-` if not measured.
fn core_to_core(keys: &Keys, size: usize) -> Result<Option<CoreToCore>, DescriptionError> {
    let Some(keys) = keys.below("core_to_core")? else { return Ok(None) };
    keys.only(&["below_ns", "source"])?;
    let rows = keys.texts("below_ns")?.ok_or_else(|| keys.missing("below_ns"))?;
    if rows.len() != size {
        let found = format!("a list of {} rows", rows.len());
        return Err(keys.invalid("below_ns", found, &format!("{size} rows, one a hardware thread")));
    }
    let mut below_ns = Vec::with_capacity(size);
    for (index, row) in rows.iter().enumerate() {
        let entry = |text: &str| match text {
            "-" => Some(None),
            text => text.parse::<f64>().ok().filter(|ns| ns.is_finite() && *ns > 0.0).map(Some),
        };
        let read: Option<Vec<Option<f64>>> = row.split_whitespace().map(entry).collect();
        let read = read.filter(|row| row.len() == index).ok_or_else(|| {
            let expected = format!("{index} positive numbers or - with blanks between");
            keys.invalid(&format!("below_ns[{index}]"), "something else", &expected)
        })?;
        below_ns.push(read);
    }
    Ok(Some(CoreToCore { below_ns, source: keys.text("source")?.unwrap_or_default() }))
}
