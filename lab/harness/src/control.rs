//! Progress reports of a run, and its early end.

use boundary::Stage;
use serde::{Deserialize, Serialize};

/// The progress of a run at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds until the run ends, as far as known.
    pub seconds_left: f64,
    /// Commits per second since the last sample.
    pub throughput: f64,
    /// Aborts over attempts since the last sample.
    pub abort_ratio: f64,
}

/// Receiver of progress reports. All methods are called on the thread that called the harness, in
/// the order of the stages.
pub trait Progress {
    /// The opening of a database is at step `done` of `total` of this stage.
    fn recovering(&self, _stage: Stage, _done: u64, _total: u64) {}

    /// Loading of this many rows begins.
    fn loading(&self, _rows: u64) {}

    /// This many rows are loaded so far, in total.
    fn loaded(&self, _rows: u64) {}

    /// A run of about `seconds` begins; 0 if its length in seconds is not known.
    fn running(&self, _seconds: f64) {}

    /// The run continues.
    fn tick(&self, _sample: Sample) {}

    /// A message about a decision that was made during the run.
    fn decided(&self, _words: &str) {}

    /// The run is over, the consistency checks begin.
    fn checking(&self) {}
}

/// Ignores progress reports.
pub struct Silence;

impl Progress for Silence {}

/// The channels between a run and its caller.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Receives progress reports.
    pub progress: &'a dyn Progress,
    /// Returns true to end the run early: loading fails, and a run ends with a valid measurement of
    /// the time so far. Threads of the run call it every few milliseconds.
    pub stop_requested: &'a (dyn Fn() -> bool + Sync),
}

impl Control<'static> {
    /// The control of a run without progress reports, which is not stopped.
    pub const NONE: Control<'static> = Control { progress: &Silence, stop_requested: &never };
}

/// Never ends a run early.
pub fn never() -> bool {
    false
}
