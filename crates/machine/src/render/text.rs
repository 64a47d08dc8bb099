//! The tree in the style of `lstopo`, then distances and islands.

use std::fmt::Write;

use terms::{HardwareThread, Node};

use super::shown_islands;
use crate::cpu_set::CpuSet;
use crate::topology::{Group, Level, MemoryKind, MemoryNode, Topology};

/// Machines with more hardware threads than this have runs of equal parts drawn once.
const DRAWN_IN_FULL: usize = 64;
/// Largest number of islands listed by their members.
const LISTED_ISLANDS: usize = 8;

/// Draws the machine: an indented tree, the distances between memories, and the islands.
pub fn render_text(topology: &Topology) -> String {
    let mut text = String::new();
    let total = topology.memory_bytes();
    let special = match topology.special_memory_bytes() {
        0 => String::new(),
        bytes => format!(", and {} of other kinds", size(bytes)),
    };
    let memory = if total > 0 { format!(" ({} total{special})", size(total)) } else { String::new() };
    let mut drawing =
        Drawing { topology, text: &mut text, collapse: topology.threads().len() > DRAWN_IN_FULL };
    let machines = topology.machine_count();
    let what = if machines > 1 { format!("{machines} machines") } else { "Machine".to_owned() };
    drawing.line(0, &format!("{what}{memory}"));
    drawing.inside(topology.tree(), 1);
    for (index, memory) in topology.memory_only_nodes().iter().enumerate() {
        let logical = topology.nodes().len() + index;
        let kind = memory.kind.name().map_or(String::new(), |name| format!("{name} "));
        let label = format!("NUMANode L#{logical} (P#{} {kind}{})", memory.node.0, size(memory.memory_bytes));
        drawing.line(1, &format!("{label} {}", memory_location(memory)));
    }
    distances(topology, &mut text);
    islands(topology, &mut text);
    text
}

/// Location of a memory without hardware threads, and a note that rows are not placed there.
pub(super) fn memory_location(memory: &MemoryNode) -> String {
    let beside: Vec<u32> = memory.beside.iter().map(|thread| thread.0).collect();
    let place = match beside.as_slice() {
        [] => "without hardware threads".to_owned(),
        numbers => format!("beside P#{}", ranges(numbers)),
    };
    let special = memory.kind != MemoryKind::Ordinary;
    if special { format!("{place}, for rows only where a deployment names it") } else { place }
}

struct Drawing<'a> {
    topology: &'a Topology,
    text: &'a mut String,
    collapse: bool,
}

impl Drawing<'_> {
    fn line(&mut self, depth: usize, content: &str) {
        self.text.push_str(&"  ".repeat(depth));
        self.text.push_str(content);
        self.text.push('\n');
    }

    /// Draws the content of a group: first its own memory, as in lstopo, then its parts.
    fn inside(&mut self, parent: &Group, depth: usize) {
        if let [only] = parent.children.as_slice()
            && only.level == Level::Node
        {
            self.line(depth, &self.memory_label(only));
            return self.parts(&only.children, depth);
        }
        self.parts(&parent.children, depth);
    }

    fn parts(&mut self, parts: &[Group], depth: usize) {
        let mut index = 0;
        while index < parts.len() {
            let part = &parts[index];
            self.part(part, depth);
            index += 1;
            if !self.collapse || part.level == Level::Thread {
                continue;
            }
            let alike = parts[index..].iter().take_while(|other| same_shape(part, other)).count();
            if alike > 1 {
                self.more(&parts[index..index + alike], depth);
                index += alike;
            }
        }
    }

    /// One line for a run of parts that equal the one drawn before.
    fn more(&mut self, run: &[Group], depth: usize) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let mut threads = Vec::new();
        run.iter().for_each(|part| thread_numbers(part, &mut threads));
        let content = format!(
            "... {} more {} like it: L#{} to L#{}, P#{}",
            run.len(),
            if first.level == Level::Node { "Group" } else { name(first.level) },
            first.logical_index,
            last.logical_index,
            ranges(&threads)
        );
        self.line(depth, &content);
    }

    /// Draws a part; parts that hold exactly one other part share its line.
    fn part(&mut self, part: &Group, depth: usize) {
        if part.level == Level::Node {
            // Processors that share a memory and no other resource with a name.
            self.line(depth, &format!("Group L#{}", part.logical_index));
            self.line(depth + 1, &self.memory_label(part));
            return self.parts(&part.children, depth + 1);
        }
        let mut content = self.label(part);
        let mut innermost = part;
        while let [only] = innermost.children.as_slice() {
            if only.level == Level::Node {
                break;
            }
            content.push_str(" + ");
            content.push_str(&self.label(only));
            innermost = only;
        }
        self.line(depth, &content);
        self.inside(innermost, depth + 1);
    }

    fn memory_label(&self, node: &Group) -> String {
        let number = node.os_index.unwrap_or(0);
        let kind = self.topology.memory(Node(number)).and_then(|memory| memory.kind.name());
        let kind = kind.map_or(String::new(), |name| format!(" {name}"));
        let bytes = if node.bytes > 0 { format!(" {}", size(node.bytes)) } else { String::new() };
        format!("NUMANode L#{} (P#{number}{kind}{bytes})", node.logical_index)
    }

    fn label(&self, part: &Group) -> String {
        let mut label = format!("{} L#{}", name(part.level), part.logical_index);
        if let (Level::Thread, Some(number)) = (part.level, part.os_index) {
            let _ = write!(label, " (P#{number})");
        }
        if part.bytes > 0 && part.level != Level::Node {
            let _ = write!(label, " ({})", size(part.bytes));
        }
        if part.level == Level::Core && self.is_hybrid() {
            let mut inside = Vec::new();
            thread_numbers(part, &mut inside);
            let info = inside.first().and_then(|&number| self.topology.thread(HardwareThread(number)));
            let _ = info.map(|info| write!(label, " (efficiency class {})", info.efficiency));
        }
        label
    }

    fn is_hybrid(&self) -> bool {
        self.topology.threads().iter().any(|info| info.efficiency > 0)
    }
}

pub(super) fn name(level: Level) -> &'static str {
    match level {
        Level::Machines => "Machines",
        Level::Machine => "Machine",
        Level::Package => "Package",
        Level::Die => "Die",
        Level::L4 => "L4",
        Level::L3 => "L3",
        Level::Node => "NUMANode",
        Level::Cluster => "Cluster",
        Level::L2 => "L2",
        Level::L1Data => "L1d",
        Level::L1Instruction => "L1i",
        Level::Core => "Core",
        Level::Thread => "PU",
    }
}

/// True if two parts are alike but for their numbers (and small differences in memory size).
pub(super) fn same_shape(one: &Group, other: &Group) -> bool {
    let alike = one.level == other.level
        && (one.bytes == other.bytes || one.level == Level::Node)
        && one.children.len() == other.children.len();
    alike && one.children.iter().zip(&other.children).all(|(one, other)| same_shape(one, other))
}

pub(super) fn thread_numbers(part: &Group, numbers: &mut Vec<u32>) {
    if part.level == Level::Thread {
        numbers.extend(part.os_index);
    }
    part.children.iter().for_each(|child| thread_numbers(child, numbers));
}

/// Numbers as the kernel lists them: `0-3,8`.
fn ranges(numbers: &[u32]) -> String {
    numbers.iter().copied().collect::<CpuSet>().list()
}

/// A size as hwloc prints it: rounded, in the largest unit that leaves at least two digits.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..0xA0_0000 => format!("{}KB", ((bytes >> 9) + 1) >> 1),
        0xA0_0000..0x2_8000_0000 => format!("{}MB", ((bytes >> 19) + 1) >> 1),
        _ => format!("{}GB", ((bytes >> 29) + 1) >> 1),
    }
}

fn distances(topology: &Topology, text: &mut String) {
    let Some(matrix) = topology.distances() else {
        text.push_str("\nDistances between NUMA nodes: not reported\n");
        return;
    };
    text.push_str("\nDistances between NUMA nodes (P#)\n     ");
    for memory in topology.nodes() {
        let _ = write!(text, " {:>4}", memory.node.0);
    }
    text.push('\n');
    for (memory, row) in topology.nodes().iter().zip(matrix) {
        let _ = write!(text, " {:>4}", memory.node.0);
        for distance in row {
            let _ = write!(text, " {distance:>4}");
        }
        text.push('\n');
    }
}

fn islands(topology: &Topology, text: &mut String) {
    text.push_str("\nIslands\n");
    for (granularity, groups) in shown_islands(topology) {
        let sizes = groups.iter().map(Vec::len);
        let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
        let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let _ = write!(text, "  {:<8} {:>4} of {each}", granularity.to_string(), groups.len());
        if groups.len() <= LISTED_ISLANDS {
            let members = |group: &Vec<HardwareThread>| {
                format!("P#{}", ranges(&group.iter().map(|thread| thread.0).collect::<Vec<_>>()))
            };
            let _ = write!(text, ": {}", groups.iter().map(members).collect::<Vec<_>>().join(" | "));
        }
        text.push('\n');
    }
}
