//! Progress reports of a run, and its early end.

use boundary::Stage;
use serde::{Deserialize, Serialize};

/// How a run goes at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds until the run ends, as far as known.
    pub seconds_left: f64,
    /// Commits per second since the last sample.
    pub throughput: f64,
    /// Aborts over attempts since the last sample.
    pub abort_ratio: f64,
}

/// Receiver of progress reports. All methods are called on the thread that called the driver, in
/// the order of the stages.
pub trait Progress {
    /// The opening of a database is at step `done` of `total` of this stage.
    fn recovering(&self, _stage: Stage, _done: u64, _total: u64) {}

    /// Loading of this many rows begins.
    fn loading(&self, _rows: u64) {}

    /// So many rows are loaded so far, in all.
    fn loaded(&self, _rows: u64) {}

    /// A run of about `seconds` begins; 0 if its length in seconds is not known.
    fn running(&self, _seconds: f64) {}

    /// The run goes on.
    fn tick(&self, _sample: Sample) {}

    /// A decision of the run about itself while it continues, in words.
    fn said(&self, _words: &str) {}

    /// The run is over, the consistency checks begin.
    fn checking(&self) {}
}

/// Ignores how the run goes.
pub struct Silence;

impl Progress for Silence {}

/// The two ways between a run and its caller.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Hears how the run goes.
    pub progress: &'a dyn Progress,
    /// True if to end the run early: loading fails, and a run ends with a valid measurement of what
    /// ran. Threads of the run ask every few milliseconds.
    pub stop_requested: &'a (dyn Fn() -> bool + Sync),
}

impl Control<'static> {
    /// The control of a run that is neither watched nor stopped.
    pub const NONE: Control<'static> = Control { progress: &Silence, stop_requested: &never };
}

/// Never ends a run early.
pub fn never() -> bool {
    false
}
