//! Events of a run that change its partitions, or the interval at which they are monitored.

use repartitioning::BorderAction;
use serde::{Deserialize, Serialize};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionEventKind {
    /// Planned: partitions are divided.
    Split,
    /// Planned: pairs of partitions are united.
    Merge,
    /// Planned: a split and a merge for each border.
    Rearrange,
    /// Decided by the controller of partitions that follow the workload.
    Adapt,
    /// The monitor's interval is another one from here on.
    Interval,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionEvent {
    /// Its beginning, in seconds of the measured time; negative in the warm-up.
    pub second: f64,
    /// Its kind.
    pub kind: PartitionEventKind,
    /// Splits, merges or rearrangements that were made; of `adapt` the number of changes of the
    /// map.
    pub actions: usize,
    /// The pause: time until all workers continued.
    pub seconds: f64,
    /// The monitor's interval in seconds; of `adapt` the one that ended with the decision. `None`
    /// if partitions do not follow the workload.
    pub interval: Option<f64>,
}

/// The result of planned changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shifted {
    /// The kind of the changes.
    pub action: BorderAction,
    /// Their beginning, in seconds of the measured time.
    pub at_seconds: f64,
    /// Splits, merges or rearrangements; fewer than planned if partitions became too small or too
    /// few.
    pub actions: usize,
    /// Number of splits, moves and merges.
    pub changes: usize,
    /// Time from the moment at which a worker began to make the new map, until all workers
    /// continued.
    pub took_seconds: f64,
}

impl Shifted {
    /// As an event of the run.
    pub(crate) fn event(&self) -> PartitionEvent {
        let kind = match self.action {
            BorderAction::Split => PartitionEventKind::Split,
            BorderAction::Merge => PartitionEventKind::Merge,
            BorderAction::Rearrange => PartitionEventKind::Rearrange,
        };
        let (second, seconds) = (self.at_seconds, self.took_seconds);
        PartitionEvent { second, kind, actions: self.actions, seconds, interval: None }
    }
}
