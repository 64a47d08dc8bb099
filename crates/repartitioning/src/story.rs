//! The story of adaptation for a report: values, and the same as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::balance::Balance;
use crate::cores::{Core, Cores};
use crate::map::{Change, Partition, PartitionMap};
use crate::model::Figures;
use crate::search::Way;
use crate::words::{counted, percent, seconds};

/// Repartitionings that a story keeps: the first ones. Later ones are counted.
const TOLD_MAX: usize = 64;

/// A partition as a story has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The table's name.
    pub table: String,
    /// The partition.
    pub partition: Partition,
}

/// The machine under a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// All partitions, table by table, ascending.
    pub partitions: Vec<Piece>,
    /// Load by core, as a multiple of the mean of those that are present.
    pub loads: Vec<f64>,
    /// Synchronization by socket and socket, as a share of the work.
    pub pairs: Vec<Vec<f64>>,
}

impl View {
    /// The owners of a map with these costs.
    pub fn of(map: &PartitionMap, figures: &Figures, pairs: &[Vec<f64>]) -> Self {
        let piece = |(table, partition): (&crate::map::TablePartitions, &Partition)| Piece {
            table: table.name.clone(),
            partition: *partition,
        };
        View {
            partitions: map.partitions().map(piece).collect(),
            loads: multiples(&figures.loads, figures.mean),
            pairs: pairs.iter().map(|row| multiples(row, figures.mean * figures.present as f64)).collect(),
        }
    }

    /// The core with the highest load, and its load.
    pub fn hottest(&self) -> (Core, f64) {
        let hottest = |best: (usize, f64), (core, load): (usize, &f64)| {
            if *load > best.1 { (core, *load) } else { best }
        };
        let (core, load) = self.loads.iter().enumerate().fold((0, 0.0), hottest);
        (Core(core as u16), load)
    }

    /// All synchronization between sockets, as a share of the work.
    pub fn synchronization(&self) -> f64 {
        self.pairs.iter().flatten().sum::<f64>() / 2.0
    }
}

fn multiples(values: &[f64], unit: f64) -> Vec<f64> {
    values.iter().map(|value| if unit > 0.0 { value / unit } else { 0.0 }).collect()
}

/// One repartitioning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repartitioning {
    /// When it was decided, in seconds of the run.
    pub at_seconds: f64,
    /// Why, in words.
    pub reason: String,
    /// The changes.
    pub changes: Vec<Change>,
    /// Gain and cost.
    pub balance: Balance,
    /// How the map was found.
    pub way: Way,
    /// As it was, measured.
    pub before: View,
    /// As it should become.
    pub after: View,
    /// Cores that were not present.
    pub absent: Vec<Core>,
    /// How long the change took, once it is known.
    pub took_seconds: Option<f64>,
    /// Load by core in the first measurement after it, as a multiple of the mean.
    pub seen: Option<Vec<f64>>,
}

/// Something that has happened to the cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// When, in seconds of the run.
    pub at_seconds: f64,
    /// What, in words.
    pub words: String,
}

/// The story of adaptation in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// The socket of each core.
    pub sockets: Vec<usize>,
    /// Measurements.
    pub measurements: u64,
    /// Searches for a better map.
    pub searches: u64,
    /// Steps of these searches, all together.
    pub steps: u64,
    /// The repartitionings, the first ones if there were many.
    pub repartitionings: Vec<Repartitioning>,
    /// Repartitionings that are not told.
    pub untold: u64,
    /// Cores that came and went, the first ones if there were many.
    pub notes: Vec<Note>,
    /// The last decision, in words.
    pub last: String,
}

impl Story {
    /// The story of a run on these cores that begins.
    pub fn new(cores: &Cores) -> Self {
        let sockets = (0..cores.count()).map(|core| cores.socket(Core(core as u16))).collect();
        let last = "nothing was measured".to_owned();
        Story {
            sockets,
            measurements: 0,
            searches: 0,
            steps: 0,
            repartitionings: Vec::new(),
            untold: 0,
            notes: Vec::new(),
            last,
        }
    }

    /// Adds a repartitioning.
    pub(crate) fn add(&mut self, one: Repartitioning) {
        if self.repartitionings.len() < TOLD_MAX {
            self.repartitionings.push(one);
        } else {
            self.untold += 1;
        }
    }

    /// Something has happened to the cores.
    pub(crate) fn note(&mut self, at_seconds: f64, words: String) {
        if self.notes.len() < TOLD_MAX {
            self.notes.push(Note { at_seconds, words });
        }
    }

    /// The latest repartitioning has not been made.
    pub(crate) fn take_back(&mut self) {
        if self.untold == 0 {
            self.repartitionings.pop();
        }
        self.untold = self.untold.saturating_sub(1);
    }

    /// The latest repartitioning, if it is told.
    pub(crate) fn latest(&mut self) -> Option<&mut Repartitioning> {
        if self.untold == 0 { self.repartitionings.last_mut() } else { None }
    }

    /// How often the map was changed.
    pub fn count(&self) -> u64 {
        self.repartitionings.len() as u64 + self.untold
    }

    /// The number of each kind of change, in words.
    pub fn counts(&self) -> String {
        let (measurements, searches) =
            (counted(self.measurements, "measurement"), counted(self.searches, "search"));
        format!("{measurements}, {searches}, {}", counted(self.count(), "repartitioning"))
    }

    /// All of it as text: a paragraph for each repartitioning, with what each core has before and
    /// after.
    pub fn text(&self) -> String {
        let mut text = String::new();
        line(&mut text, format_args!("{}; last: {}", self.counts(), self.last));
        for Note { at_seconds, words } in &self.notes {
            line(&mut text, format_args!("at {}: {words}", seconds(*at_seconds)));
        }
        for (number, one) in self.repartitionings.iter().enumerate() {
            line(&mut text, format_args!(""));
            line(
                &mut text,
                format_args!("repartitioning {} at {}: {}", number + 1, seconds(one.at_seconds), one.reason),
            );
            if let Some(took) = one.took_seconds {
                line(&mut text, format_args!("it took {}", seconds(took)));
            }
            for (name, view) in [("before", &one.before), ("after", &one.after)] {
                self.tell(&mut text, name, view, &one.absent);
            }
            if let Some(seen) = &one.seen {
                let busiest = seen.iter().copied().fold(0.0, f64::max);
                line(
                    &mut text,
                    format_args!("  measured afterwards: the busiest core at {busiest:.2} times the mean"),
                );
            }
        }
        if self.untold > 0 {
            line(&mut text, format_args!("\n{} more are not told", self.untold));
        }
        text
    }

    fn tell(&self, text: &mut String, name: &str, view: &View, absent: &[Core]) {
        let (core, load) = view.hottest();
        line(
            text,
            format_args!(
                "  {name}: {core} at {load:.2} times the mean, synchronization between sockets {} of the work",
                percent(view.synchronization())
            ),
        );
        let mut of_core: BTreeMap<Core, Vec<&Piece>> = BTreeMap::new();
        for piece in &view.partitions {
            of_core.entry(piece.partition.owner).or_default().push(piece);
        }
        for (core, pieces) in of_core {
            let load = view.loads.get(core.index()).copied().unwrap_or(0.0);
            let socket = self.sockets.get(core.index()).copied().unwrap_or(0);
            let gone = if absent.contains(&core) { ", gone" } else { "" };
            let mut ranges = String::new();
            let mut table = "";
            for piece in pieces {
                let name = if piece.table == table { "," } else { piece.table.as_str() };
                let space = if piece.table == table || ranges.is_empty() { "" } else { "; " };
                ranges += &format!("{space}{name} {}", piece.partition.range);
                table = &piece.table;
            }
            line(text, format_args!("    {core} (socket {socket}{gone}), load {load:.2}: {ranges}"));
        }
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::testing::square;

    #[test]
    fn one_is_not_many() {
        let story = Story { measurements: 5, searches: 1, ..Story::new(&square(1, 2)) };
        assert_eq!(story.counts(), "5 measurements, 1 search, 0 repartitionings");
        let story = Story { measurements: 1, searches: 2, untold: 1, ..story };
        assert_eq!(story.counts(), "1 measurement, 2 searches, 1 repartitioning");
    }
}
