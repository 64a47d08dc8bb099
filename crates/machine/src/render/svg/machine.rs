//! The machine in the style of `lstopo`: nested boxes, a legend, and the islands.

use terms::HardwareThread;

use super::blocks::{Drawing, SLOWER_CORE, arrange, colour};
use super::canvas::{FAINT, Item, picture, text_width};
use crate::cpu_set::CpuSet;
use crate::description::Description;
use crate::islands::Granularity;
use crate::render::shown_islands;
use crate::render::text::{name, size};
use crate::topology::{Group, Level, Topology};

const MARGIN: f64 = 20.0;
const FONT: f64 = 12.0;
/// Machines with more hardware threads than this have runs of equal parts drawn once.
const DRAWN_IN_FULL: usize = 64;
/// Largest number of islands whose members are listed.
const LISTED_ISLANDS: usize = 4;

/// Draws the machine as SVG; with a description also its name, processors and links.
pub fn render_svg(topology: &Topology, description: Option<&Description>) -> String {
    let drawing = Drawing::new(topology, topology.threads().len() > DRAWN_IN_FULL);
    let mut blocks = vec![drawing.block(topology.tree())];
    blocks.extend(topology.memory_only_nodes().iter().map(|memory| {
        let group = Group {
            level: Level::Node,
            logical_index: 0,
            os_index: Some(memory.node.0),
            bytes: memory.memory_bytes,
            line_bytes: 0,
            thread_count: 0,
            children: Vec::new(),
        };
        drawing.block(&group)
    }));
    let whole = arrange(&blocks);
    let title = description.map_or("This machine", |known| &known.name);
    let mut page = Page { items: Vec::new(), width: whole.width, bottom: MARGIN };
    page.heading(title, topology, description);
    let top = page.bottom;
    page.items.extend(whole.items.into_iter().map(|item| item.moved(MARGIN, top)));
    page.bottom += whole.height + 22.0;
    page.legend(topology);
    page.islands(topology);
    picture(page.width + 2.0 * MARGIN, page.bottom + MARGIN, &format!("Topology of {title}"), &page.items)
}

/// The picture from top to bottom.
struct Page {
    items: Vec<Item>,
    width: f64,
    bottom: f64,
}

impl Page {
    fn line(&mut self, item: Item, width: f64, advance: f64) {
        self.items.push(item.moved(MARGIN, self.bottom));
        self.width = self.width.max(width);
        self.bottom += advance;
    }

    fn heading(&mut self, title: &str, topology: &Topology, description: Option<&Description>) {
        self.line(Item::text(0.0, 14.0, 18.0, title).bold(), text_width(title, 20.0), 22.0);
        let mut lines = vec![summary(topology)];
        if let Some(known) = description {
            lines.extend(
                [&known.processor, &known.links].into_iter().filter(|text| !text.is_empty()).cloned(),
            );
        }
        for line in lines {
            let width = text_width(&line, FONT);
            self.line(Item::text(0.0, 12.0, FONT, line).coloured(FAINT), width, 17.0);
        }
        self.bottom += 8.0;
    }

    /// The colours in use.
    fn legend(&mut self, topology: &Topology) {
        let mut used = Vec::new();
        levels(topology.tree(), &mut used);
        used.sort_unstable();
        let mut entries: Vec<(String, &str)> = used
            .iter()
            .filter(|level| ![Level::Machines, Level::Machine].contains(level))
            .map(|&level| (meaning(level), colour(level)))
            .collect();
        if topology.threads().iter().any(|info| info.efficiency > 0) {
            entries.push(("Core of a slower kind".to_owned(), SLOWER_CORE));
        }
        let mut left = 0.0;
        for (text, fill) in entries {
            let wide = 18.0 + text_width(&text, FONT) + 18.0;
            if left > 0.0 && left + wide > self.width {
                left = 0.0;
                self.bottom += 19.0;
            }
            let (x, y) = (MARGIN + left, self.bottom);
            self.items.push(Item::outlined(x, y, 13.0, 13.0, fill));
            self.items.push(Item::text(x + 18.0, y + 11.0, FONT, text));
            left += wide;
            self.width = self.width.max(left);
        }
        self.bottom += 32.0;
    }

    /// Islands of every granularity: their number, sizes and threads.
    fn islands(&mut self, topology: &Topology) {
        self.line(Item::text(0.0, 12.0, 13.0, "Islands that instances can take").bold(), 260.0, 20.0);
        for (granularity, groups) in shown_islands(topology) {
            let sizes = groups.iter().map(Vec::len);
            let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
            let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let columns = [
                (0.0, granularity.to_string()),
                (75.0, format!("{} of {each} hardware threads", groups.len())),
                (290.0, members(&groups)),
            ];
            for (left, text) in columns {
                self.width = self.width.max(left + text_width(&text, FONT));
                self.items.push(Item::text(MARGIN + left, self.bottom + 12.0, FONT, text));
            }
            let aside = same_as(topology, granularity, &groups);
            if let Some(other) = aside {
                let text = format!("the same as {other}");
                let left = 290.0 + text_width(&members(&groups), FONT) + 12.0;
                self.width = self.width.max(left + text_width(&text, FONT));
                self.items.push(Item::text(MARGIN + left, self.bottom + 12.0, FONT, text).coloured(FAINT));
            }
            self.bottom += 17.0;
        }
    }
}

/// A finer granularity with the same islands.
fn same_as(
    topology: &Topology,
    granularity: Granularity,
    groups: &[Vec<HardwareThread>],
) -> Option<Granularity> {
    let shown = shown_islands(topology);
    let finer = shown.into_iter().take_while(|(other, _)| *other != granularity);
    finer.filter(|(_, other)| other == groups).map(|(other, _)| other).next()
}

/// The members of a few islands.
fn members(groups: &[Vec<HardwareThread>]) -> String {
    let list = |group: &Vec<HardwareThread>| group.iter().map(|thread| thread.0).collect::<CpuSet>().list();
    let shown: Vec<String> = groups.iter().take(LISTED_ISLANDS).map(list).collect();
    let rest = if groups.len() > LISTED_ISLANDS { " | ..." } else { "" };
    let text = format!("P#{}{rest}", shown.join(" | "));
    match text.char_indices().nth(90) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

fn summary(topology: &Topology) -> String {
    let counts = topology.counts();
    let machines = topology.machine_count();
    let parts = [
        (if machines > 1 { machines } else { 0 }, "machine"),
        (counts.packages, "socket"),
        (counts.numa_nodes, "memory node"),
        (counts.l3_domains, "L3 domain"),
        (counts.cores, "core"),
        (counts.hardware_threads, "hardware thread"),
    ];
    let plural = |(count, name): &(usize, &str)| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    let mut texts: Vec<String> = parts.iter().filter(|(count, _)| *count > 0).map(plural).collect();
    if topology.memory_bytes() > 0 {
        texts.push(format!("{} of memory", size(topology.memory_bytes())));
    }
    texts.join(", ")
}

fn levels(group: &Group, used: &mut Vec<Level>) {
    if !used.contains(&group.level) {
        used.push(group.level);
    }
    group.children.iter().for_each(|child| levels(child, used));
}

fn meaning(level: Level) -> String {
    match level {
        Level::Package => "Package: a socket".to_owned(),
        Level::Node => "NUMANode: memory".to_owned(),
        Level::Thread => "PU: a hardware thread".to_owned(),
        Level::L4 | Level::L3 | Level::L2 => format!("{} cache", name(level)),
        Level::L1Data => "L1d: data cache".to_owned(),
        Level::L1Instruction => "L1i: instruction cache".to_owned(),
        level => name(level).to_owned(),
    }
}
