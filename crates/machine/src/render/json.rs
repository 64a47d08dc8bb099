//! JSON for programs.

use serde_json::{Map, Value, json};

use super::shown_islands;
use crate::description::Description;
use crate::topology::{Group, MemoryNode, Topology};

/// The machine as one JSON object.
///
/// `counts` {packages, numa_nodes, l3_domains, cores, hardware_threads}, 0 if the machine reports
/// none; `nodes` and `memory_only_nodes` [{node, memory_bytes, hardware_threads, kind, beside}],
/// `kind` null for ordinary memory; `distances`, a matrix over `nodes` or null; `islands`
/// {granularity: [[hardware threads]]} for the granularities that the machine reports; and `tree`,
/// nested objects {type, logical_index, os_index, bytes, line_bytes, children}, absent if unknown.
pub fn render_json(topology: &Topology) -> Value {
    let mut islands = Map::new();
    for (granularity, groups) in shown_islands(topology) {
        let numbers =
            |group: &Vec<crate::HardwareThread>| group.iter().map(|thread| thread.0).collect::<Vec<_>>();
        islands.insert(granularity.to_string(), json!(groups.iter().map(numbers).collect::<Vec<_>>()));
    }
    json!({
        "counts": topology.counts(),
        "nodes": topology.nodes().iter().map(memory_node).collect::<Vec<_>>(),
        "memory_only_nodes": topology.memory_only_nodes().iter().map(memory_node).collect::<Vec<_>>(),
        "distances": topology.distances(),
        "islands": islands,
        "tree": group(topology.tree()),
    })
}

/// Costs of a machine as one JSON object: every value as {value, confidence, source}, matrices over
/// `nodes` (in a cluster of one machine) as {values, confidence, source}.
///
/// `name`, `processor`, `links`, `machines`, `confidence`; `clock_ghz`, `line_bytes`, `link_gbps`;
/// `chassis_nodes` or null, `node_links`; `network` {one_way_us, gbps, header_bytes, packet_bytes}
/// or null; `caches` {l1, l2, l3: {bytes, load_ns} or null}; `memory_ns`, `memory_gbps`, `hops`;
/// `load`, `store`, `atomic` {modified, exclusive, shared: {own_core_ns, same_domain_ns,
/// same_node_ns, between_nodes_ns}}; `core` {key: fact}; `translation` {pages, levels} or null;
/// `smt_shares` [{siblings, share}]; `sibling_ns` or null; `core_to_core` {below_ns, source} or
/// null.
pub fn render_description_json(description: &Description) -> Value {
    json!({
        "name": description.name,
        "processor": description.processor,
        "links": description.links,
        "machines": description.machines,
        "confidence": description.confidence,
        "clock_ghz": description.clock_ghz,
        "line_bytes": description.line_bytes,
        "link_gbps": description.link_gbps,
        "chassis_nodes": description.chassis_nodes,
        "node_links": description.node_links,
        "network": description.network,
        "caches": { "l1": description.l1, "l2": description.l2, "l3": description.l3 },
        "memory_ns": description.memory_ns,
        "memory_gbps": description.memory_gbps,
        "hops": description.hops,
        "load": description.load,
        "store": description.store,
        "atomic": description.atomic,
        "core": description.core,
        "translation": description.translation,
        "smt_shares": description.smt_shares,
        "sibling_ns": description.sibling_ns,
        "core_to_core": description.core_to_core,
    })
}

fn memory_node(memory: &MemoryNode) -> Value {
    json!({
        "node": memory.node.0,
        "memory_bytes": memory.memory_bytes,
        "hardware_threads": memory.threads.iter().map(|thread| thread.0).collect::<Vec<_>>(),
        "kind": memory.kind.name(),
        "beside": memory.beside.iter().map(|thread| thread.0).collect::<Vec<_>>(),
    })
}

fn group(part: &Group) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), json!(part.level.type_name()));
    object.insert("logical_index".to_owned(), json!(part.logical_index));
    if let Some(os_index) = part.os_index {
        object.insert("os_index".to_owned(), json!(os_index));
    }
    if part.bytes > 0 {
        object.insert("bytes".to_owned(), json!(part.bytes));
    }
    if part.line_bytes > 0 {
        object.insert("line_bytes".to_owned(), json!(part.line_bytes));
    }
    if !part.children.is_empty() {
        object.insert("children".to_owned(), part.children.iter().map(group).collect());
    }
    Value::Object(object)
}
