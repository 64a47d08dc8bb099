//! Costs of a described machine, for people: every value with its confidence and source.

use std::fmt::Write;

use crate::description::{
    AccessCosts, CacheFacts, Confidence, Description, Fact, FactMatrix, Reach, TlbSize, Translation,
};

/// Draws the values of a description: a table with the confidence of each value and the number of
/// its source, matrices between nodes, and the sources. In matrices `f` marks a value of the
/// processor's family and `~` an estimate.
pub fn render_costs(description: &Description) -> String {
    let mut drawing = Costs { text: String::new(), sources: Vec::new() };
    drawing.text.push_str("Costs                            value        confidence  source\n");
    drawing.machine(description);
    drawing.caches(description);
    drawing.translation(description);
    drawing.matrix("Memory latency between nodes, ns (row = node of the core)", &description.memory_ns);
    drawing.matrix("Memory bandwidth between nodes, GB/s", &description.memory_gbps);
    drawing.lines(description);
    drawing.text.push_str("\nSources\n");
    for (index, source) in drawing.sources.iter().enumerate() {
        let _ = writeln!(drawing.text, "  [{}] {source}", index + 1);
    }
    drawing.text
}

struct Costs {
    text: String,
    /// Sources in the order of their numbers.
    sources: Vec<String>,
}

impl Costs {
    /// The number of a source, from 1.
    fn source(&mut self, source: &str) -> usize {
        if let Some(known) = self.sources.iter().position(|known| known == source) {
            return known + 1;
        }
        self.sources.push(source.to_owned());
        self.sources.len()
    }

    fn fact<T>(&mut self, name: &str, value: String, fact: &Fact<T>) {
        let source = self.source(&fact.source);
        let confidence = fact.confidence.to_string();
        let _ = writeln!(self.text, "  {name:<28} {value:>14}  {confidence:<10}  [{source}]");
    }

    fn machine(&mut self, description: &Description) {
        let ghz = format!("{} GHz", figure(description.clock_ghz.value));
        self.fact("clock", ghz, &description.clock_ghz);
        let line = format!("{} B", description.line_bytes.value);
        self.fact("cache line", line, &description.line_bytes);
        self.fact("link", format!("{} GB/s", figure(description.link_gbps.value)), &description.link_gbps);
        self.fact("links of a node", description.node_links.value.to_string(), &description.node_links);
        if let Some(network) = &description.network {
            let one_way = format!("{} us", figure(network.one_way_us.value));
            self.fact("network, one way", one_way, &network.one_way_us);
            if let Some(gbps) = &network.gbps {
                self.fact("network, a machine's port", format!("{} GB/s", figure(gbps.value)), gbps);
            }
            for (name, bytes) in [("header", &network.header_bytes), ("most data", &network.packet_bytes)] {
                self.fact(&format!("{name} of a packet"), format!("{} B", figure(bytes.value)), bytes);
            }
        }
        for known in description.smt_shares.iter().filter(|known| known.siblings > 1) {
            let name = format!("each of {} siblings", known.siblings);
            self.fact(&name, format!("{} of a core", figure(known.share.value)), &known.share);
        }
        for (cost, known) in description.core.all() {
            let (name, unit) = match cost.key().strip_suffix("_ns") {
                Some(name) => (name, " ns"),
                None => (cost.key(), ""),
            };
            self.fact(&name.replace('_', " "), format!("{}{unit}", figure(known.value)), known);
        }
        if let Some(sibling) = &description.sibling_ns {
            self.fact("line between siblings", format!("{} ns", figure(sibling.value)), sibling);
        }
    }

    fn caches(&mut self, description: &Description) {
        let levels =
            [("L1d", Some(&description.l1)), ("L2", Some(&description.l2)), ("L3", description.l3.as_ref())];
        for (name, cache) in levels {
            let Some(CacheFacts { bytes, load_ns }) = cache else { continue };
            self.fact(&format!("{name} size"), size(bytes.value), bytes);
            self.fact(&format!("{name} load to use"), format!("{} ns", figure(load_ns.value)), load_ns);
        }
    }

    fn translation(&mut self, description: &Description) {
        let Some(Translation { pages, levels }) = &description.translation else { return };
        let sizes = [("small pages", pages.value.small), ("huge pages", pages.value.huge)];
        for (name, bytes) in sizes {
            self.fact(name, size(bytes), pages);
        }
        self.fact("page table for a page", format!("{} B", pages.value.entry), pages);
        for (index, level) in levels.iter().enumerate() {
            for (name, TlbSize { entries, ways }) in level.arrays.value.named() {
                let name = if name == "shared" { "all" } else { name };
                let of = if ways == entries { "full".to_owned() } else { format!("{ways}-way") };
                let name = format!("TLB {} for {name} pages", index + 1);
                self.fact(&name, format!("{entries}, {of}"), &level.arrays);
            }
            if let Some(hit) = &level.hit_ns {
                let name = format!("hit in TLB {}", index + 1);
                self.fact(&name, format!("{} ns more", figure(hit.value)), hit);
            }
        }
    }

    fn matrix(&mut self, title: &str, matrix: &FactMatrix) {
        let source = self.source(&matrix.source);
        let _ = writeln!(self.text, "\n{title}  [{source}]");
        let width = 7;
        let _ = write!(self.text, "     ");
        (0..matrix.values.len()).for_each(|column| {
            let _ = write!(self.text, "{column:>width$} ");
        });
        self.text.push('\n');
        for (index, (row, confidence)) in matrix.values.iter().zip(&matrix.confidence).enumerate() {
            let _ = write!(self.text, " {index:>4}");
            for (value, confidence) in row.iter().zip(confidence) {
                let _ = write!(self.text, "{:>width$} ", marked(*value, *confidence));
            }
            self.text.push('\n');
        }
    }

    /// Costs of lines by access, state and distance; between nodes the smallest and the largest.
    fn lines(&mut self, description: &Description) {
        let several = description.memory_ns.values.len() > 1;
        self.text.push_str("\nLine held by another cache, ns       own core   same L3   same node");
        self.text.push_str(if several { "   other nodes  source\n" } else { "  source\n" });
        let kinds =
            [("load", &description.load), ("store", &description.store), ("atomic", &description.atomic)];
        for (access, AccessCosts { modified, exclusive, shared }) in kinds {
            for (state, reach) in [("modified", modified), ("exclusive", exclusive), ("shared", shared)] {
                let article = if state == "exclusive" { "an" } else { "a" };
                self.reach(&format!("{access} of {article} {state} line"), reach);
            }
        }
    }

    fn reach(&mut self, name: &str, reach: &Reach) {
        let mut sources = Vec::new();
        let mut cells = String::new();
        for (fact, width) in
            [(&reach.own_core_ns, 10), (&reach.same_domain_ns, 10), (&reach.same_node_ns, 12)]
        {
            let _ = write!(cells, "{:>width$}", marked(fact.value, fact.confidence));
            sources.push(self.source(&fact.source));
        }
        let between = &reach.between_nodes_ns;
        if between.values.len() > 1 {
            let _ = write!(cells, "{:>14}", remote(between));
            sources.push(self.source(&between.source));
        }
        sources.dedup();
        let sources: Vec<String> = sources.iter().map(usize::to_string).collect();
        let _ = writeln!(self.text, "  {name:<32}{cells}  [{}]", sources.join(", "));
    }
}

/// Smallest and largest value off the diagonal, with the lowest confidence among all.
fn remote(matrix: &FactMatrix) -> String {
    let size = matrix.values.len();
    let pairs = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
    let pairs: Vec<(usize, usize)> = pairs.filter(|(row, column)| row != column).collect();
    let values = pairs.iter().map(|&(row, column)| matrix.values[row][column]);
    let (least, most) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
    let worst = pairs.iter().map(|&(row, column)| matrix.confidence[row][column]).max();
    let worst = worst.unwrap_or(Confidence::Estimate);
    if figure(least) == figure(most) {
        return marked(least, worst);
    }
    format!("{}-{}", marked(least, worst), figure(most))
}

fn marked(value: f64, confidence: Confidence) -> String {
    let mark = match confidence {
        Confidence::Measured => "",
        Confidence::Family => "f",
        Confidence::Estimate => "~",
    };
    format!("{mark}{}", figure(value))
}

/// Formats a value with three digits, which is as precise as such values are.
pub(super) fn figure(value: f64) -> String {
    let digits = if value >= 100.0 { 0 } else { usize::from(value >= 10.0) };
    let digits = if value >= 10.0 { digits } else { 2 };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", figure(bytes as f64 / f64::from(1 << 20))),
    }
}
