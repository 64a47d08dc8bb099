//! Partitions that move at planned moments, to measure the cost of moving them.
//!
//! A worker makes all changes between two of its transactions, as for the controller of partitions
//! that follow the workload.

use platform::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::faults::failing::Failing;

/// Borders between partitions that shift by one position each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The time of the shift, in seconds of the measured time.
    pub seconds: f64,
    /// Number of borders.
    pub count: usize,
}

/// The result of the shifts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shifted {
    /// The beginning of the shift, in seconds of the measured time.
    pub at_seconds: f64,
    /// Borders that have shifted; fewer than planned if partitions became too small.
    pub rearrangements: usize,
    /// Number of splits, moves and merges.
    pub changes: usize,
    /// Time from the moment at which a worker began to make the new map, until all workers
    /// continued.
    pub took_seconds: f64,
}

impl Shifted {
    /// The result of a shift between two times, of a measured time that began at `warm`.
    pub(crate) fn of(rearrangements: usize, changes: usize, warm: Nanos, began: Nanos, ended: Nanos) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let at_seconds = seconds(began.since(warm));
        let took_seconds = seconds(ended.since(began));
        Shifted { at_seconds, rearrangements, changes, took_seconds }
    }
}

/// The shifts that one worker still has to make.
pub(crate) struct Shifting {
    /// Times, in nanoseconds of the measured time, and numbers of borders; the next shift comes
    /// last.
    left: Vec<(u64, usize)>,
}

impl Shifting {
    /// The shifts of this worker: the first worker that does not fail makes all shifts.
    pub(crate) fn of(shifts: &[Shift], worker: usize, failing: Option<&Failing>) -> Self {
        let stays = |worker: &usize| failing.is_none_or(|failing| failing.of_worker(*worker).is_none());
        let is_first = (0..).find(stays) == Some(worker);
        let mut left: Vec<(u64, usize)> = match is_first {
            true => shifts.iter().map(|shift| ((shift.seconds * 1e9) as u64, shift.count)).collect(),
            false => Vec::new(),
        };
        left.sort_unstable();
        left.reverse();
        Shifting { left }
    }

    /// Takes the number of borders that are due at `now`, of a measured time that began at `warm`.
    #[inline]
    pub(crate) fn due(&mut self, warm: Nanos, now: Nanos) -> Option<usize> {
        let (_, count) = self.left.pop_if(|(at, _)| warm.plus(*at) <= now)?;
        Some(count)
    }
}

/// Refuses shifts if workers own no partitions, or if partitions follow the workload.
pub(crate) fn check(shifts: &[Shift], has_owners: bool, adapts: bool) -> Result<(), RunError> {
    let why = match () {
        () if shifts.is_empty() => return Ok(()),
        () if !has_owners => "workers own no partitions that could move",
        () if adapts => "partitions follow the workload, and are not moved by others",
        () => return Ok(()),
    };
    Err(RunError::Refused(why.to_owned()))
}
