//! Pictures of a deployment of several instances: which instance had workers on which sockets, and
//! how many messages went from each instance to each other one.

use std::collections::BTreeMap;

use ::machine::Description;
use experiments::pages::html::figure;
use experiments::pages::plot::{Anchor, Drawing, Rectangle, WIDTH, load_colour};
use harness::{Deployed, WorkerPlace};

use crate::numbers::thousands;

/// Width of what stands left of the boxes.
const LABELS: f64 = 150.0;
/// Width and height of a worker's cell.
const CELL: (f64, f64) = (28.0, 22.0);
/// Between things.
const GAP: f64 = 4.0;
/// Most instances whose messages have numbers.
const NUMBERED_MAX: usize = 10;
/// Height and width of the picture of messages, at most.
const MATRIX: f64 = 460.0;

/// The section about the instances.
pub(super) fn section(deployed: &Deployed, description: &Description) -> String {
    let places = figure(
        &places(deployed, description),
        "A field is a worker, its number that of its instance, and each instance has a colour.",
    );
    let total: u64 = deployed.messages.iter().flatten().sum();
    let caption = format!(
        "Messages between instances over the measured time, {} in all: a row sends, a column receives.",
        thousands(total)
    );
    places + &figure(&matrix(deployed), &caption)
}

/// A worker with its instance and its number.
type Placed<'a> = (usize, usize, &'a WorkerPlace);

fn colour(instance: usize) -> String {
    // The golden angle: neighbours differ, and no two of many are the same.
    format!("hsl({:.0} 55% 62%)", (200.0 + 137.508 * instance as f64) % 360.0)
}

/// Sockets, or what stands for them, with the workers that ran there.
fn places(deployed: &Deployed, description: &Description) -> String {
    let mut sockets: BTreeMap<(u32, u32), Vec<Placed<'_>>> = BTreeMap::new();
    let mut number = 0;
    for (instance, of_instance) in deployed.instances.iter().enumerate() {
        for place in &of_instance.workers {
            sockets.entry((of_instance.machine, place.socket)).or_default().push((instance, number, place));
            number += 1;
        }
    }
    let columns = (((WIDTH - LABELS - 2.0 * GAP) / (CELL.0 + GAP)) as usize).max(1);
    let rows = |workers: usize| workers.div_ceil(columns);
    let height = |workers: usize| rows(workers) as f64 * (CELL.1 + GAP) + GAP;
    let total: f64 = sockets.values().map(|workers| height(workers.len()) + GAP).sum();
    let mut drawing = Drawing::new(total + GAP, "which instance ran where");
    let several = deployed.instances.iter().any(|instance| instance.machine > 0);
    let mut top = GAP;
    for ((machine, socket), workers) in &mut sockets {
        workers.sort_by_key(|(instance, number, place)| (*instance, place.thread, *number));
        let height = height(workers.len());
        let name = match several {
            true => format!("machine {machine}, socket {socket}"),
            false => format!("socket {socket}"),
        };
        drawing.text(0.0, top + height / 2.0 + 4.0, Anchor::Start, "strong", name);
        drawing.frame(Rectangle { x: LABELS, y: top, width: WIDTH - LABELS, height }, 6.0, "var(--muted)");
        for (position, (instance, number, place)) in workers.iter().enumerate() {
            let (row, column) = (position / columns, position % columns);
            let left = LABELS + GAP + column as f64 * (CELL.0 + GAP);
            let above = top + GAP + row as f64 * (CELL.1 + GAP);
            let hint = format!("worker {number} of instance {instance}: {}", whereabouts(place, description));
            let area = Rectangle { x: left, y: above, width: CELL.0, height: CELL.1 };
            drawing.rectangle(area, 3.0, &colour(*instance), &hint);
            let baseline = above + CELL.1 / 2.0 + 4.0;
            drawing.text(left + CELL.0 / 2.0, baseline, Anchor::Middle, "dark small", instance);
        }
        top += height + GAP;
    }
    drawing.finish()
}

fn whereabouts(place: &WorkerPlace, description: &Description) -> String {
    let Some(thread) = place.thread else { return "on any hardware thread".to_owned() };
    let known = description.topology.threads().iter().find(|known| known.thread == thread);
    let core = known.map_or(String::new(), |known| format!(" of core {}", known.core));
    let node = place.node.map_or(String::new(), |node| format!(", rows on node {}", node.0));
    format!("hardware thread {}{core}{node}", thread.0)
}

/// A field for each ordered pair of instances, coloured by its messages.
fn matrix(deployed: &Deployed) -> String {
    let instances = deployed.instances.len().max(1);
    let most = deployed.messages.iter().flatten().copied().max().unwrap_or(0).max(1);
    let cell = ((MATRIX - 20.0) / instances as f64).min(64.0);
    let mut drawing = Drawing::new(20.0 + cell * instances as f64 + GAP, "messages between instances");
    let labelled = |instance: usize| cell >= 12.0 || instance.is_multiple_of(8);
    for (from, row) in deployed.messages.iter().enumerate() {
        let top = 20.0 + from as f64 * cell;
        let left_of = |to: usize| LABELS + to as f64 * cell;
        if labelled(from) {
            let name = format!("instance {from}");
            drawing.text(LABELS - 8.0, top + cell / 2.0 + 4.0, Anchor::End, "small", name);
            drawing.text(left_of(from) + cell / 2.0, 14.0, Anchor::Middle, "muted small", from);
        }
        for (to, messages) in row.iter().enumerate().filter(|(to, _)| *to != from) {
            let hint = format!("from instance {from} to instance {to}: {} messages", thousands(*messages));
            let side = cell - 1.0;
            let left = left_of(to) + 0.5;
            let above = top + 0.5;
            let area = Rectangle { x: left, y: above, width: side, height: side };
            drawing.rectangle(area, 2.0, &load_colour(*messages as f64 / most as f64), &hint);
            if instances <= NUMBERED_MAX {
                let baseline = above + side / 2.0 + 4.0;
                drawing.text(left + side / 2.0, baseline, Anchor::Middle, "dark small", short(*messages));
            }
        }
    }
    drawing.finish()
}

/// A count in few characters.
fn short(count: u64) -> String {
    crate::numbers::si(count as f64).trim().to_owned()
}
