//! Events of a run that change its partitions, or the interval at which they are monitored.

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
