//! The record of adaptation for reports, as values and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::balance::Balance;
use crate::cores::{Core, Cores};
use crate::map::{Change, Partition, PartitionMap};
use crate::model::Figures;
use crate::search::ProposalOrigin;
use crate::words::{counted, percent, seconds};

/// Most repartitionings that a story keeps. Later ones are only counted.
const KEPT_MAX: usize = 64;

/// A partition in a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryPartition {
    /// The table's name.
    pub table: String,
    /// The partition.
    pub partition: Partition,
}

/// State of the machine under a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// All partitions, table by table, ascending.
    pub partitions: Vec<StoryPartition>,
    /// Load of each core, as a multiple of the mean of the cores that are present.
    pub loads: Vec<f64>,
    /// Synchronization between each two sockets, as a share of the work.
    pub pairs: Vec<Vec<f64>>,
}

impl View {
    /// Makes the view of a map with these costs.
    pub fn of(map: &PartitionMap, figures: &Figures, pairs: &[Vec<f64>]) -> Self {
        let piece = |(table, partition): (&crate::map::TablePartitions, &Partition)| StoryPartition {
            table: table.name.clone(),
            partition: *partition,
        };
        View {
            partitions: map.partitions().map(piece).collect(),
            loads: multiples(&figures.loads, figures.mean),
            pairs: pairs.iter().map(|row| multiples(row, figures.mean * figures.present as f64)).collect(),
        }
    }

    /// Returns the core with the highest load, and its load.
    pub fn hottest(&self) -> (Core, f64) {
        let hottest = |best: (usize, f64), (core, load): (usize, &f64)| {
            if *load > best.1 { (core, *load) } else { best }
        };
        let (core, load) = self.loads.iter().enumerate().fold((0, 0.0), hottest);
        (Core(core as u16), load)
    }

    /// Returns the synchronization between all sockets, as a share of the work.
    pub fn synchronization(&self) -> f64 {
        self.pairs.iter().flatten().sum::<f64>() / 2.0
    }
}

fn multiples(values: &[f64], unit: f64) -> Vec<f64> {
    values.iter().map(|value| if unit > 0.0 { value / unit } else { 0.0 }).collect()
}

/// A repartitioning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repartitioning {
    /// Time of the decision, in seconds of the run.
    pub at_seconds: f64,
    /// The reason, as text.
    pub reason: String,
    /// The changes.
    pub changes: Vec<Change>,
    /// Expected gain and cost.
    pub balance: Balance,
    /// Origin of the new map.
    pub way: ProposalOrigin,
    /// The measured state before.
    pub before: View,
    /// The expected state after.
    pub after: View,
    /// Cores that were not present.
    pub absent: Vec<Core>,
    /// Duration of the change, once it is known.
    pub took_seconds: Option<f64>,
    /// Load of each core in the first measurement after it, as a multiple of the mean.
    pub seen: Option<Vec<f64>>,
}

/// An event of the cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoryNote {
    /// Time in seconds of the run.
    pub at_seconds: f64,
    /// The event, as text.
    pub words: String,
}

/// The adaptation of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// The socket of each core.
    pub sockets: Vec<usize>,
    /// Number of measurements.
    pub measurements: u64,
    /// Number of searches for a better map.
    pub searches: u64,
    /// Steps of all searches.
    pub steps: u64,
    /// The first repartitionings.
    pub repartitionings: Vec<Repartitioning>,
    /// Number of further repartitionings.
    pub untold: u64,
    /// The first events of the cores.
    pub notes: Vec<StoryNote>,
    /// The last decision, as text.
    pub last: String,
}

impl Story {
    /// Begins the story of a run on these cores.
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
        if self.repartitionings.len() < KEPT_MAX {
            self.repartitionings.push(one);
        } else {
            self.untold += 1;
        }
    }

    /// Something has happened to the cores.
    pub(crate) fn note(&mut self, at_seconds: f64, words: String) {
        if self.notes.len() < KEPT_MAX {
            self.notes.push(StoryNote { at_seconds, words });
        }
    }

    /// Removes the latest repartitioning, which was refused.
    pub(crate) fn remove_latest(&mut self) {
        if self.untold == 0 {
            self.repartitionings.pop();
        }
        self.untold = self.untold.saturating_sub(1);
    }

    /// Returns the latest repartitioning, if it was kept.
    pub(crate) fn latest(&mut self) -> Option<&mut Repartitioning> {
        if self.untold == 0 { self.repartitionings.last_mut() } else { None }
    }

    /// Returns the number of repartitionings.
    pub fn count(&self) -> u64 {
        self.repartitionings.len() as u64 + self.untold
    }

    /// Formats the numbers of measurements, searches and repartitionings.
    pub fn counts(&self) -> String {
        let (measurements, searches) =
            (counted(self.measurements, "measurement"), counted(self.searches, "search"));
        format!("{measurements}, {searches}, {}", counted(self.count(), "repartitioning"))
    }

    /// Formats the story: a paragraph for each repartitioning, with the partitions of each core
    /// before and after.
    pub fn text(&self) -> String {
        let mut text = String::new();
        line(&mut text, format_args!("{}; last: {}", self.counts(), self.last));
        for StoryNote { at_seconds, words } in &self.notes {
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
                self.write_view(&mut text, name, view, &one.absent);
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

    fn write_view(&self, text: &mut String, name: &str, view: &View, absent: &[Core]) {
        let (core, load) = view.hottest();
        line(
            text,
            format_args!(
                "  {name}: {core} at {load:.2} times the mean, synchronization between sockets {} of the work",
                percent(view.synchronization())
            ),
        );
        let mut of_core: BTreeMap<Core, Vec<&StoryPartition>> = BTreeMap::new();
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
    fn counts_have_plurals() {
        let story = Story { measurements: 5, searches: 1, ..Story::new(&square(1, 2)) };
        assert_eq!(story.counts(), "5 measurements, 1 search, 0 repartitionings");
        let story = Story { measurements: 1, searches: 2, untold: 1, ..story };
        assert_eq!(story.counts(), "1 measurement, 2 searches, 1 repartitioning");
    }
}
