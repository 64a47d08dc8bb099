//! Writes complete description files: every value with its confidence and source, and the whole
//! topology.
//!
//! Numbers are written with as many digits as are needed to read the same number back.

use std::fmt::{Display, Write};

use super::fact::{Confidence, Fact, FactMatrix};
use super::measured::CoreToCore;
use super::translation::{TlbLevel, TlbSize, Translation};
use super::value::{AccessCosts, CacheFacts, Description, Network, Reach};
use crate::cpu_set::CpuSet;
use crate::parts::{PartMemory, Parts};
use crate::raw::RawGroup;

const HEAD: &str = "\
# A machine description of Isles, complete: every value has its confidence (measured, family or estimate) and source.
# Units: ns, us, GHz, GB/s (10^9 bytes a second), bytes. Matrices are over memory nodes, row = requester.
# Hardware threads are listed as in 0-3,8.

";

pub(super) fn write(description: &Description) -> String {
    // Without `..`: a new field does not compile before it is decided here whether files have it.
    let Description {
        name,
        processor,
        links,
        confidence,
        machines,
        network,
        topology,
        clock_ghz,
        line_bytes,
        l1,
        l2,
        l3,
        hops,
        memory_ns,
        memory_gbps,
        link_gbps,
        chassis_nodes,
        node_links,
        core,
        translation,
        load,
        store,
        atomic,
        smt_shares,
        sibling_ns,
        core_to_core,
    } = description;
    let mut file = File { text: HEAD.to_owned() };
    file.key("name", quoted(name));
    file.key("processor", quoted(processor));
    file.key("links", quoted(links));
    file.key("confidence", quoted(&confidence.to_string()));
    file.key("machines", machines);
    file.key("clock_ghz", fact(clock_ghz, number));
    file.key("line_bytes", fact(line_bytes, u32::to_string));
    file.key("link_gbps", fact(link_gbps, number));
    if let Some(nodes) = chassis_nodes {
        file.key("chassis_nodes", nodes);
    }
    file.key("node_links", fact(node_links, u32::to_string));
    if let Some(sibling) = sibling_ns {
        file.key("sibling_ns", fact(sibling, number));
    }
    file.rows("hops", hops.iter().map(|row| list(row.iter())));
    let share = |known: &super::SmtShare| {
        format!("{{ siblings = {}, share = {} }}", known.siblings, fact(&known.share, number))
    };
    file.rows("smt_shares", smt_shares.iter().map(share));
    file.network(network.as_ref());
    file.table("core");
    core.all().for_each(|(cost, value)| file.key(cost.key(), fact(value, number)));
    file.translation(translation.as_ref());
    let caches = [("l1", Some(l1)), ("l2", Some(l2)), ("l3", l3.as_ref())];
    caches.into_iter().for_each(|(name, cache)| file.cache(name, cache));
    file.matrix("memory_ns", memory_ns);
    file.matrix("memory_gbps", memory_gbps);
    for (name, costs) in [("load", load), ("store", store), ("atomic", atomic)] {
        file.costs(name, costs);
    }
    file.topology(&Parts::of(topology));
    file.core_to_core(core_to_core.as_ref());
    file.text
}

/// The text so far.
struct File {
    text: String,
}

impl File {
    fn key(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn table(&mut self, name: &str) {
        let _ = writeln!(self.text, "\n[{name}]");
    }

    /// A list with one entry on each line.
    fn rows(&mut self, key: &str, rows: impl Iterator<Item = String>) {
        let _ = writeln!(self.text, "{key} = [");
        rows.for_each(|row| {
            let _ = writeln!(self.text, "  {row},");
        });
        self.text.push_str("]\n");
    }

    fn translation(&mut self, translation: Option<&Translation>) {
        let Some(Translation { pages, levels }) = translation else { return };
        self.table("core.tlb");
        self.key("small_page_kib", pages.value.small >> 10);
        self.key("huge_page_kib", pages.value.huge >> 10);
        self.key("entry_bytes", pages.value.entry);
        self.key("confidence", quoted(&pages.confidence.to_string()));
        self.key("source", quoted(&pages.source));
        let level = |level: &TlbLevel| {
            let TlbLevel { arrays: Fact { value, confidence, source }, hit_ns } = level;
            let size = |(name, size): (&str, TlbSize)| {
                format!("{name} = {{ entries = {}, ways = {} }}", size.entries, size.ways)
            };
            let mut keys: Vec<String> = value.named().map(size).collect();
            keys.extend(hit_ns.as_ref().map(|hit| format!("hit_ns = {}", fact(hit, number))));
            keys.push(format!("confidence = \"{confidence}\", source = {}", quoted(source)));
            format!("{{ {} }}", keys.join(", "))
        };
        self.rows("levels", levels.iter().map(level));
    }

    fn network(&mut self, network: Option<&Network>) {
        let Some(Network { one_way_us, gbps, header_bytes, packet_bytes }) = network else { return };
        self.table("network");
        self.key("one_way_us", fact(one_way_us, number));
        if let Some(gbps) = gbps {
            self.key("gbps", fact(gbps, number));
        }
        self.key("header_bytes", fact(header_bytes, number));
        self.key("packet_bytes", fact(packet_bytes, number));
    }

    fn cache(&mut self, name: &str, cache: Option<&CacheFacts>) {
        let Some(CacheFacts { bytes, load_ns }) = cache else { return };
        self.table(name);
        self.key("bytes", fact(bytes, u64::to_string));
        self.key("load_ns", fact(load_ns, number));
    }

    fn matrix(&mut self, name: &str, matrix: &FactMatrix) {
        let FactMatrix { values, confidence, source } = matrix;
        self.table(name);
        self.rows("values", values.iter().map(|row| list(row.iter().map(number))));
        let first = confidence.first().and_then(|row| row.first()).copied().unwrap_or(Confidence::Estimate);
        let quoted_name = |confidence: &Confidence| quoted(&confidence.to_string());
        if confidence.iter().flatten().all(|other| *other == first) {
            self.key("confidence", quoted_name(&first));
        } else {
            self.rows("confidence", confidence.iter().map(|row| list(row.iter().map(quoted_name))));
        }
        self.key("source", quoted(source));
    }

    fn costs(&mut self, name: &str, costs: &AccessCosts) {
        let AccessCosts { modified, exclusive, shared } = costs;
        for (state, reach) in [("modified", modified), ("exclusive", exclusive), ("shared", shared)] {
            let Reach { own_core_ns, same_domain_ns, same_node_ns, between_nodes_ns } = reach;
            self.table(&format!("{name}.{state}"));
            self.key("own_core_ns", fact(own_core_ns, number));
            self.key("same_domain_ns", fact(same_domain_ns, number));
            self.key("same_node_ns", fact(same_node_ns, number));
            self.matrix(&format!("{name}.{state}.between_nodes_ns"), between_nodes_ns);
        }
    }

    fn topology(&mut self, parts: &Parts) {
        let Parts { groups, memories, distances, efficiency } = parts;
        self.table("topology");
        if let Some(matrix) = distances {
            self.rows("distances", matrix.iter().map(|row| list(row.iter())));
        }
        let classes: std::collections::BTreeSet<u8> = efficiency.values().copied().collect();
        if !classes.is_empty() {
            let members = |class: u8| -> CpuSet {
                efficiency.iter().filter(|(_, other)| **other == class).map(|(thread, _)| *thread).collect()
            };
            // From slow to fast: the first is class 0.
            self.rows("efficiency", classes.iter().map(|class| quoted(&members(*class).list())));
        }
        let alike = |one: &RawGroup, other: &RawGroup| {
            (one.level, one.cache_bytes, one.line_bytes, one.os_index.is_some())
                == (other.level, other.cache_bytes, other.line_bytes, other.os_index.is_some())
        };
        groups.chunk_by(alike).for_each(|groups| self.groups(groups));
        memories.iter().for_each(|memory| self.memory(memory));
    }

    /// Groups that differ in their members only.
    fn groups(&mut self, groups: &[RawGroup]) {
        let _ = writeln!(self.text, "\n[[topology.groups]]");
        self.key("type", quoted(groups[0].level.type_name()));
        for (key, value) in [("bytes", groups[0].cache_bytes), ("line_bytes", groups[0].line_bytes.into())] {
            if value > 0 {
                self.key(key, value);
            }
        }
        let numbers: Vec<u32> = groups.iter().filter_map(|group| group.os_index).collect();
        if !numbers.is_empty() {
            self.key("os_index", list(numbers.iter()));
        }
        let members: Vec<String> = groups.iter().map(|group| quoted(&group.processors.list())).collect();
        self.rows("threads", members.chunks(8).map(|line| line.join(", ")));
    }

    fn memory(&mut self, memory: &PartMemory) {
        let PartMemory { node, bytes, processors, kind, beside } = memory;
        let _ = writeln!(self.text, "\n[[topology.memories]]");
        self.key("node", node.0);
        self.key("bytes", bytes);
        self.key("threads", list(processors.iter().map(|set| quoted(&set.list()))));
        if let Some(kind) = kind.name() {
            self.key("kind", quoted(kind));
        }
        if !beside.is_empty() {
            self.key("beside", quoted(&beside.list()));
        }
    }

    fn core_to_core(&mut self, measured: Option<&CoreToCore>) {
        let Some(CoreToCore { below_ns, source }) = measured else { return };
        self.text.push_str(
            "\n# Row i: from hardware thread i, in fill order, to each of the i before it; - where not measured.",
        );
        self.table("core_to_core");
        self.key("source", quoted(source));
        let entry = |value: &Option<f64>| value.as_ref().map_or("-".to_owned(), number);
        let row = |row: &Vec<Option<f64>>| quoted(&row.iter().map(entry).collect::<Vec<_>>().join(" "));
        self.rows("below_ns", below_ns.iter().map(row));
    }
}

/// A number as a TOML float that reads back the same.
fn number(value: &f64) -> String {
    format!("{value:?}")
}

/// A text as TOML spells it, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", letter as u32);
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

fn fact<T>(fact: &Fact<T>, spell: impl Fn(&T) -> String) -> String {
    let Fact { value, confidence, source } = fact;
    format!("{{ value = {}, confidence = \"{confidence}\", source = {} }}", spell(value), quoted(source))
}

fn list(items: impl Iterator<Item = impl Display>) -> String {
    format!("[{}]", items.map(|item| item.to_string()).collect::<Vec<_>>().join(", "))
}
