//! Nested boxes: measures the parts of a machine and arranges them side by side.

use terms::Node;

use super::canvas::{Anchor, FAINT, Item, text_width};
use crate::cpu_set::CpuSet;
use crate::render::text::{memory_location, name, same_shape, size, thread_numbers};
use crate::topology::{Group, Level, Topology};

/// Distance between boxes, and from a box to its content.
const GAP: f64 = 6.0;
const LINE: f64 = 20.0;
const FONT: f64 = 11.0;
/// Runs of equal parts longer than this are drawn once if the machine is large.
const RUN_IN_FULL: usize = 4;
/// Largest number of small boxes for a run of large parts.
const SUMMARIES_MAX: usize = 64;
/// Room for the threads of a large part, so that such parts are aligned.
const SUMMARY_LETTERS: usize = 18;
/// Intended width to height of groups of boxes.
const ASPECT: f64 = 1.7;

/// Colours by level, from a common family: warm for containers, cool for caches.
pub(super) fn colour(level: Level) -> &'static str {
    match level {
        Level::Machines | Level::Machine => "#ffffff",
        Level::Package => "#f3efe6",
        Level::Die => "#e9e3d3",
        Level::Node => "#f7d9d4",
        Level::Cluster => "#e3ebe0",
        Level::L4 | Level::L3 => "#cfe3f2",
        Level::L2 => "#dcecf6",
        Level::L1Data => "#eaf4fa",
        Level::L1Instruction => "#f4f9fc",
        Level::Core => "#d3dbd0",
        Level::Thread => "#ffffff",
    }
}

/// Cores of a slower kind.
pub(super) const SLOWER_CORE: &str = "#ece3f4";

/// A finished part of the picture, at the origin.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) items: Vec<Item>,
}

/// Draws the parts of one machine.
pub(super) struct Drawing<'a> {
    topology: &'a Topology,
    /// Runs of equal parts are drawn once.
    pub(super) collapse: bool,
    fastest: u8,
    /// The largest number of a hardware thread.
    greatest: u32,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(topology: &'a Topology, collapse: bool) -> Self {
        let fastest = topology.threads().iter().map(|info| info.efficiency).max().unwrap_or(0);
        let greatest = topology.threads().iter().map(|info| info.thread.0).max().unwrap_or(0);
        Self { topology, collapse, fastest, greatest }
    }

    /// A group with its content.
    pub(super) fn block(&self, group: &Group) -> Block {
        match group.level {
            Level::Thread => self.thread(group),
            Level::L4 | Level::L3 | Level::L2 | Level::L1Data | Level::L1Instruction => {
                let label = self.label(group);
                let missing = digits(self.greatest) - digits(group.logical_index).min(digits(self.greatest));
                bar(&label, missing, colour(group.level), self.children(group))
            }
            Level::Node => self.container("", colour(Level::Machine), self.inside(group)),
            Level::Core => {
                let slower = self.efficiency(group) < self.fastest;
                let fill = if slower { SLOWER_CORE } else { colour(Level::Core) };
                self.container(&self.label(group), fill, self.children(group))
            }
            _ => self.container(&self.label(group), colour(group.level), self.children(group)),
        }
    }

    fn efficiency(&self, group: &Group) -> u8 {
        let mut numbers = Vec::new();
        thread_numbers(group, &mut numbers);
        let first = numbers.first().and_then(|&number| self.topology.thread(crate::HardwareThread(number)));
        first.map_or(self.fastest, |info| info.efficiency)
    }

    /// Content of a group; a memory of its own is a bar above it.
    fn children(&self, group: &Group) -> Block {
        match group.children.as_slice() {
            [only] if only.level == Level::Node => self.inside(only),
            parts => self.parts(parts),
        }
    }

    /// A memory, and the parts next to it.
    fn inside(&self, node: &Group) -> Block {
        let bytes = if node.bytes > 0 { format!(" {}", size(node.bytes)) } else { String::new() };
        let number = node.os_index.unwrap_or(0);
        let memory = self.topology.memory(Node(number));
        let kind = memory.and_then(|memory| memory.kind.name());
        let kind = kind.map_or(String::new(), |name| format!(" {name}"));
        let alone = memory.filter(|memory| memory.threads.is_empty());
        let place = alone.map_or(String::new(), |memory| format!(" {}", memory_location(memory)));
        let label = format!("NUMANode P#{number}{kind}{bytes}{place}");
        bar(&label, 0, colour(Level::Node), self.children(node))
    }

    /// Runs of equal parts, each in its own rows.
    fn parts(&self, parts: &[Group]) -> Block {
        let runs = parts.chunk_by(same_shape).map(|run| {
            let full = !self.collapse || run.len() <= RUN_IN_FULL || run[0].level == Level::Thread;
            let drawn = if full { run.len() } else { 1 };
            let mut blocks: Vec<Block> = run[..drawn].iter().map(|part| self.block(part)).collect();
            if drawn < run.len() {
                blocks.push(self.more(&run[drawn..]));
            }
            arrange(&blocks)
        });
        arrange(&runs.collect::<Vec<_>>())
    }

    /// A box for the parts that equal the one before them.
    fn more(&self, run: &[Group]) -> Block {
        let large = run[0].thread_count >= 8 || run[0].level == Level::Package;
        if large && run.len() <= SUMMARIES_MAX {
            let boxes: Vec<Block> = run.iter().map(|part| self.summary(part)).collect();
            return arrange(&boxes);
        }
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let mut numbers = Vec::new();
        run.iter().for_each(|part| thread_numbers(part, &mut numbers));
        let kind = innermost(first);
        let lines = [
            format!("{} more like it", run.len()),
            format!("{} L#{} to L#{}", name(kind.level), kind.logical_index, innermost(last).logical_index),
            shortened(&numbers),
        ];
        note(&lines, 0, colour(Level::Machine))
    }

    /// A large part in short form.
    fn summary(&self, part: &Group) -> Block {
        let mut numbers = Vec::new();
        thread_numbers(part, &mut numbers);
        let cores = count(part, Level::Core);
        let lines = [
            self.label(part),
            match cores {
                0 => format!("{} PUs", part.thread_count),
                1 => format!("1 core, {} PUs", part.thread_count),
                _ => format!("{cores} cores, {} PUs", part.thread_count),
            },
            shortened(&numbers),
        ];
        note(&lines, SUMMARY_LETTERS, colour(part.level))
    }

    fn thread(&self, group: &Group) -> Block {
        let text = format!("PU P#{}", group.os_index.unwrap_or(0));
        // As wide as the thread with the longest number, so that rows are aligned.
        let width = text_width(&format!("PU P#{}", self.greatest), FONT) + 8.0;
        let items = vec![
            Item::outlined(0.0, 0.0, width, LINE, colour(Level::Thread)),
            Item::text(width / 2.0, 14.0, FONT, text).anchored(Anchor::Middle),
        ];
        Block { width, height: LINE, items }
    }

    fn label(&self, group: &Group) -> String {
        let bytes = match group.bytes {
            bytes if bytes > 0 && group.level != Level::Node => format!(" ({})", size(bytes)),
            _ => String::new(),
        };
        match group.level {
            Level::Node => format!("NUMANode P#{}", group.os_index.unwrap_or(0)),
            level => format!("{} L#{}{bytes}", name(level), group.logical_index),
        }
    }

    fn container(&self, label: &str, fill: &str, inner: Block) -> Block {
        let head = if label.is_empty() { GAP } else { LINE };
        let width = (inner.width + 2.0 * GAP).max(text_width(label, FONT) + 2.0 * GAP);
        let height = head + inner.height + GAP;
        let mut items = vec![Item::outlined(0.0, 0.0, width, height, fill)];
        if !label.is_empty() {
            items.push(Item::text(GAP, 14.0, FONT, label));
        }
        let left = (width - inner.width) / 2.0;
        items.extend(inner.items.into_iter().map(|item| item.moved(left, head)));
        Block { width, height, items }
    }
}

/// Descends through parts with exactly one other part to the core, the unit in which people count.
fn innermost(group: &Group) -> &Group {
    match group.children.as_slice() {
        [only] if group.level != Level::Core && only.level != Level::Thread => innermost(only),
        _ => group,
    }
}

fn count(group: &Group, level: Level) -> usize {
    usize::from(group.level == level) + group.children.iter().map(|child| count(child, level)).sum::<usize>()
}

/// Hardware threads as a list of limited length.
fn shortened(numbers: &[u32]) -> String {
    let list = numbers.iter().copied().collect::<CpuSet>().list();
    match list.char_indices().nth(22) {
        None => format!("P#{list}"),
        Some(_) => {
            let head: Vec<&str> = list.split(',').take(2).collect();
            format!("P#{},...", head.join(","))
        }
    }
}

/// Digits of a number.
fn digits(number: u32) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// A bar as wide as the block below it; `missing` is the number of additional digits that bars like
/// it have.
fn bar(label: &str, missing: usize, fill: &str, below: Block) -> Block {
    let widest = text_width(label, FONT) + text_width(&"0".repeat(missing), FONT);
    let width = below.width.max(widest + 2.0 * GAP);
    let mut items = vec![
        Item::outlined(0.0, 0.0, width, LINE, fill),
        Item::text(width / 2.0, 14.0, FONT, label).anchored(Anchor::Middle),
    ];
    let left = (width - below.width) / 2.0;
    items.extend(below.items.into_iter().map(|item| item.moved(left, LINE + 4.0)));
    Block { width, height: LINE + 4.0 + below.height, items }
}

/// A box of text lines for parts that are not drawn, at least as wide as this many letters.
fn note(lines: &[String], letters: usize, fill: &str) -> Block {
    let least = text_width(&"0".repeat(letters), FONT);
    let widest = lines.iter().map(|line| text_width(line, FONT)).fold(least, f64::max);
    let (width, height) = (widest + 2.0 * GAP, 15.0 * lines.len() as f64 + 10.0);
    let mut items = vec![Item::outlined(0.0, 0.0, width, height, fill).dashed()];
    for (index, line) in lines.iter().enumerate() {
        let text = Item::text(GAP, 17.0 + 15.0 * index as f64, FONT, line.clone());
        items.push(if index == 0 { text } else { text.coloured(FAINT) });
    }
    Block { width, height, items }
}

/// Arranges blocks side by side in rows, with a number in each row that gives the whole a pleasant
/// shape.
pub(super) fn arrange(blocks: &[Block]) -> Block {
    let strain = |columns: usize| {
        let block = placed(blocks, columns);
        let places = columns * blocks.len().div_ceil(columns);
        // Empty places in the last row look like missing parts.
        let empty = (places - blocks.len()) as f64 / places as f64;
        (block.width / block.height.max(1.0) / ASPECT).ln().abs() + empty
    };
    let tried = (1..=blocks.len()).map(|columns| (strain(columns), columns));
    let best = tried.min_by(|one, other| one.0.total_cmp(&other.0));
    placed(blocks, best.map_or(1, |(_, columns)| columns))
}

fn placed(blocks: &[Block], columns: usize) -> Block {
    let mut items = Vec::new();
    let (mut width, mut top) = (0.0_f64, 0.0);
    // Columns are as wide as their widest block, so that rows are aligned.
    let mut widths = vec![0.0_f64; columns];
    for (index, block) in blocks.iter().enumerate() {
        widths[index % columns] = widths[index % columns].max(block.width);
    }
    for row in blocks.chunks(columns) {
        let mut left = 0.0;
        for (block, width) in row.iter().zip(&widths) {
            items.extend(block.items.iter().map(|item| item.clone().moved(left, top)));
            left += width + GAP;
        }
        width = width.max(left - GAP);
        top += row.iter().map(|block| block.height).fold(0.0, f64::max) + GAP;
    }
    Block { width, height: (top - GAP).max(0.0), items }
}
