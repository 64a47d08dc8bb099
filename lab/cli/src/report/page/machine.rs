//! The picture of a machine, or of those of a cluster that were in use: nodes, the links between
//! neighbours, and how busy they were.
//!
//! Ports belong to nodes: a controller with its memory, and links that everything to and from a
//! node shares. So the half of a link that is nearer to a node has the colour of that node's
//! busiest link, and what happens between the two ends is not invented.

use std::f64::consts::TAU;

use ::machine::Description;
use experiments::pages::html::{escape, figure, table};
use experiments::pages::plot::{Anchor, Bar, Drawing, Rectangle, WIDTH, bars, load_colour};
use harness::{HotLine, MachineUse, PortKind, PortUse};

use super::super::result::Report;
use crate::numbers::{bytes, percent, thousands};

/// Ports and lines in the tables.
const BUSIEST: usize = 12;

/// The section about the machine: the picture, and tables where something is known of its parts.
pub(super) fn section(report: &Report, description: &Description) -> String {
    let known = report.machine_use.as_ref();
    let mut text = figure(&picture(description, known), &caption(description, known));
    let Some(known) = known else { return text };
    if !known.hot_lines.is_empty() {
        text.push_str("<h3>Hottest lines, by the structure they belong to</h3>\n");
        text.push_str(&hot_lines(known));
    }
    if !known.ports.is_empty() {
        text.push_str("<h3>Busiest memory controllers and links</h3>\n");
        text.push_str(&ports(known));
    }
    text
}

fn caption(description: &Description, known: Option<&MachineUse>) -> String {
    let links = match description.links.as_str() {
        "" => String::new(),
        links => format!(" The machine: {links}."),
    };
    match known {
        Some(_) => format!(
            "Share of the time in which memory controllers (left) and links (right) were occupied; a link has the colour of the \
             busiest link port at each end.{links}"
        ),
        None => format!("How busy its parts were is not known on this platform.{links}"),
    }
}

/// Nodes that stand together in a large picture: a chassis of the large machines that ship with
/// Isles.
const GROUP: usize = 4;
/// Groups side by side.
const GROUPS: usize = 4;

/// Sizes of a picture, by the number of nodes: on an ellipse, or in squares of four where there are
/// many.
struct Layout {
    height: f64,
    radius: (f64, f64),
    node: (f64, f64),
}

impl Layout {
    fn of(nodes: usize) -> Layout {
        let (height, radius, node) = match nodes {
            0..=1 => (100.0, (0.0, 0.0), (150.0, 64.0)),
            2 => (110.0, (200.0, 0.0), (150.0, 64.0)),
            3..=4 => (250.0, (200.0, 78.0), (150.0, 64.0)),
            5..=8 => (430.0, (290.0, 165.0), (132.0, 64.0)),
            _ => (168.0 * nodes.div_ceil(GROUP * GROUPS) as f64 + 20.0, (0.0, 0.0), (92.0, 60.0)),
        };
        Layout { height, radius, node }
    }

    /// The middle of a node. On an ellipse numbers go clockwise; the first ones lie left and right
    /// of the top, or side by side.
    fn place(&self, node: usize, nodes: usize) -> (f64, f64) {
        if nodes > 8 {
            let (group, within) = (node / GROUP, node % GROUP);
            let (column, row) = ((group % GROUPS) as f64, (group / GROUPS) as f64);
            let (right, below) = ((within % 2) as f64, (within / 2) as f64);
            return (50.0 + column * 217.0 + right * 104.0, 36.0 + row * 168.0 + below * 78.0);
        }
        let turn = if nodes == 2 { 0.5 } else { -0.25 - 0.5 / nodes as f64 };
        let angle = TAU * (turn + node as f64 / nodes as f64);
        let middle = (WIDTH / 2.0, (self.height - 22.0) / 2.0);
        (middle.0 + self.radius.0 * angle.cos(), middle.1 + self.radius.1 * angle.sin())
    }
}

fn picture(description: &Description, known: Option<&MachineUse>) -> String {
    let inside = description.topology.nodes().len().max(1);
    let machines = machines_in_use(inside, known);
    let nodes = inside * machines;
    let layout = Layout::of(nodes);
    let mut drawing = Drawing::new(layout.height, format!("the machine {}", description.name));
    let busy = |node: usize, kind: PortKind| known.map(|known| load(&known.ports, node, kind));
    let neighbours = description.neighbours();
    let of_machine = |machine: usize| {
        let first = machine * inside;
        neighbours.iter().map(move |(from, to)| (first + from, first + to))
    };
    for (from, to) in (0..machines).flat_map(of_machine) {
        let start = layout.place(from, nodes);
        let end = layout.place(to, nodes);
        let middle = (f64::midpoint(start.0, end.0), f64::midpoint(start.1, end.1));
        for ((x, y), node) in [(start, from), (end, to)] {
            let load = busy(node, PortKind::Link);
            let colour = load.map_or("var(--line)".to_owned(), load_colour);
            drawing.line(x, y, middle.0, middle.1, &colour, 1.5 + 3.0 * load.unwrap_or(0.0));
        }
    }
    for node in 0..nodes {
        let loads = [busy(node, PortKind::Memory), busy(node, PortKind::Link)];
        let (x, y) = layout.place(node, nodes);
        let (width, height) = layout.node;
        let area = Rectangle { x: x - width / 2.0, y: y - height / 2.0, width, height };
        draw_node(&mut drawing, area, node, description, loads);
    }
    if known.is_some() {
        legend(&mut drawing, layout.height);
    }
    drawing.finish()
}

/// The number of simulated machines of a cluster: each has ports.
fn machines_in_use(inside: usize, known: Option<&MachineUse>) -> usize {
    let nodes = known.iter().flat_map(|known| &known.ports).map(|port| port.node);
    nodes.max().map_or(1, |last| last / inside + 1)
}

/// The load of a node's busiest port of a kind.
fn load(ports: &[PortUse], node: usize, kind: PortKind) -> f64 {
    let own = ports.iter().filter(|port| port.node == node && port.kind == kind);
    own.map(|port| port.busy_share).fold(0.0, f64::max)
}

/// A box with the node's name, its cores, and a field for each of its loads.
fn draw_node(
    drawing: &mut Drawing,
    area: Rectangle,
    node: usize,
    description: &Description,
    loads: [Option<f64>; 2],
) {
    let Rectangle { x, y, width, height } = area;
    drawing.frame(area, 6.0, "var(--muted)");
    drawing.text(x + 8.0, y + 17.0, Anchor::Start, "strong", format!("node {node}"));
    let cores = cores_of(description, node % description.topology.nodes().len().max(1));
    if width > 120.0 {
        let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        drawing.text(x + width - 8.0, y + 17.0, Anchor::End, "muted small", cores);
    }
    let gap = 4.0;
    let field_width = (width - 3.0 * gap) / 2.0;
    let field_height = 30.0;
    for (position, (letter, load)) in ["M", "L"].into_iter().zip(loads).enumerate() {
        let Some(load) = load else { continue };
        let left = x + gap + position as f64 * (field_width + gap);
        let top = y + height - field_height - gap;
        let share = format!("{:.0} %", load * 100.0);
        let hint = format!("node {node}, {}: {share}", if letter == "M" { "memory" } else { "links" });
        let area = Rectangle { x: left, y: top, width: field_width, height: field_height };
        drawing.rectangle(area, 3.0, &load_colour(load), &hint);
        let text = if width > 120.0 { format!("{letter} {share}") } else { share };
        let baseline = top + field_height / 2.0 + 4.0;
        drawing.text(left + field_width / 2.0, baseline, Anchor::Middle, "dark small", text);
    }
}

fn cores_of(description: &Description, node: usize) -> usize {
    let Some(memory) = description.topology.nodes().get(node) else { return 0 };
    let mut cores: Vec<u32> = description
        .topology
        .threads()
        .iter()
        .filter(|thread| thread.node == memory.node)
        .map(|thread| thread.core)
        .collect();
    cores.dedup();
    cores.len()
}

/// Draws the legend of the colours.
fn legend(drawing: &mut Drawing, height: f64) {
    const STEPS: usize = 20;
    let (left, top, step) = (WIDTH - 260.0, height - 14.0, 8.0);
    drawing.text(left - 8.0, top + 9.0, Anchor::End, "muted small", "idle");
    for number in 0..STEPS {
        let load = number as f64 / (STEPS - 1) as f64;
        let area = Rectangle { x: left + number as f64 * step, y: top, width: step + 0.5, height: 10.0 };
        drawing.rectangle(area, 0.0, &load_colour(load), "");
    }
    let right = left + STEPS as f64 * step;
    drawing.text(right + 8.0, top + 9.0, Anchor::Start, "muted small", "always busy");
}

fn hot_lines(known: &MachineUse) -> String {
    let bar = |line: &HotLine| {
        let label = format!("{} +{:#x}", line.structure, line.offset);
        let hint = format!("{label}: {} misses, {}", thousands(line.misses), percent(line.share));
        Bar { label, value: line.misses as f64, hint }
    };
    let shown: Vec<Bar> = known.hot_lines.iter().take(BUSIEST).map(bar).collect();
    let share: f64 = known.hot_lines.iter().take(BUSIEST).map(|line| line.share).sum();
    let caption = format!(
        "Times that a line came from, or was taken from, another core. These {} are {} of all such misses.",
        shown.len(),
        percent(share)
    );
    figure(&bars("misses of the hottest lines", "misses", &shown), &caption)
}

fn ports(known: &MachineUse) -> String {
    let row = |port: &PortUse| {
        let busy = percent(port.busy_share);
        vec![escape(&port.name), bytes(port.bytes), busy]
    };
    let rows: Vec<Vec<String>> = known.ports.iter().take(BUSIEST).map(row).collect();
    table(&["port", "carried", "occupied"], &[1, 2], &rows)
}
