//! The section on adaptation: for each repartitioning the reason, the owners before and after, the
//! load of each core, and the messages between sockets.

use experiments::pages::html::{escape, figure};
use experiments::pages::plot::{COLOURS, Column, HeatMaps, Segment, Strip, columns, heat_maps, strips};
use repartitioning::{Repartitioning, Story, View};

use crate::numbers::{percent, seconds};

/// Repartitionings that are drawn; of others there is the reason.
const DRAWN_MAX: usize = 6;
/// Height of the loads of cores.
const LOADS_HEIGHT: f64 = 190.0;

/// The section about adaptation.
pub(super) fn section(story: &Story) -> String {
    let mut text = format!("<p>{}. The last decision: {}.</p>\n", story.counts(), escape(&story.last));
    for note in &story.notes {
        text += &format!("<p>At {}: {}.</p>\n", seconds(note.at_seconds), escape(&note.words));
    }
    for (number, one) in story.repartitionings.iter().enumerate() {
        let took = one.took_seconds.map_or(String::new(), |took| format!(", in {}", seconds(took)));
        text += &format!("<h3>Repartitioning {} at {}{took}</h3>\n", number + 1, seconds(one.at_seconds));
        text += &format!("<p>{}.</p>\n", escape(&one.reason));
        if number < DRAWN_MAX {
            text += &drawings(story, one);
        }
    }
    if story.untold > 0 {
        text += &format!("<p>{} later ones are not told.</p>\n", story.untold);
    }
    text
}

fn drawings(story: &Story, one: &Repartitioning) -> String {
    let mut tables = rows("before", &one.before, story);
    tables.extend(rows("after", &one.after, story));
    let sockets = story.sockets.iter().copied().max().unwrap_or(0);
    let legend: Vec<(usize, String)> =
        (0..=sockets.min(COLOURS - 1)).map(|socket| (socket, format!("socket {socket}"))).collect();
    let mut text = figure(
        &strips("partitions of tables by the socket of their owners", &tables, &legend),
        "Who owns which keys: each partition has the colour of its owner's socket, and tells core and range",
    );
    let mut names = vec!["before", "expected"];
    if one.seen.is_some() {
        names.push("measured afterwards");
    }
    text += &figure(
        &columns("load of each core", &names, &cores(story, one), LOADS_HEIGHT, Some((1.0, "mean"))),
        "Load of each core, as a multiple of the mean of those that are there",
    );
    let most = [&one.before, &one.after].map(View::synchronization);
    if most.iter().any(|share| *share > 0.0) {
        let maps = HeatMaps {
            label: "synchronization between sockets".to_owned(),
            thing: "socket".to_owned(),
            maps: vec![
                ("before".to_owned(), one.before.pairs.clone()),
                ("expected".to_owned(), one.after.pairs.clone()),
            ],
        };
        let caption = format!(
            "Synchronization between sockets as a share of the work: {} before, {} expected",
            percent(most[0]),
            percent(most[1])
        );
        text += &figure(&heat_maps(&maps), &caption);
    }
    text
}

/// A strip for each table of a view.
fn rows(when: &str, view: &View, story: &Story) -> Vec<Strip> {
    let tables = view.partitions.chunk_by(|one, other| one.table == other.table);
    let strip = |pieces: &[repartitioning::StoryPartition]| {
        let (low, end) = (pieces[0].partition.range.low, pieces[pieces.len() - 1].partition.range.end);
        let place = |position: u64| (position - low) as f64 / (end - low).max(1) as f64;
        let segment = |piece: &repartitioning::StoryPartition| {
            let (range, owner) = (piece.partition.range, piece.partition.owner);
            let socket = story.sockets.get(owner.index()).copied().unwrap_or(0);
            Segment {
                from: place(range.low),
                to: place(range.end),
                colour: socket,
                name: owner.0.to_string(),
                hint: format!("{} {range}: {owner}, socket {socket}", piece.table),
            }
        };
        let name = format!("{} {when}", pieces[0].table);
        Strip { name, segments: pieces.iter().map(segment).collect() }
    };
    tables.map(strip).collect()
}

/// The load of each core before, as expected, and as it was measured.
fn cores(story: &Story, one: &Repartitioning) -> Vec<Column> {
    let column = |(core, socket): (usize, &usize)| {
        let mut all = vec![&one.before.loads, &one.after.loads];
        all.extend(one.seen.as_ref());
        let is_absent = one.absent.iter().any(|absent| absent.index() == core);
        let gone = if is_absent { ", gone" } else { "" };
        Column {
            marks: Vec::new(),
            group: format!("socket {socket}"),
            values: all.iter().map(|loads| loads.get(core).copied().unwrap_or(0.0)).collect(),
            hint: format!("core {core}{gone}"),
        }
    };
    story.sockets.iter().enumerate().map(column).collect()
}
