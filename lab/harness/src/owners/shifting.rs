//! Partitions that move at a moment because somebody wants to see what that costs, and not because
//! they should.
//!
//! A worker makes all of them between two of its transactions, as it does for the controller of
//! partitions that follow the workload.

use platform::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::faults::failing::Failing;

/// Borders between partitions that shift by one position each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// When, in seconds of the measured time.
    pub seconds: f64,
    /// How many.
    pub count: usize,
}

/// The result of the shifts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shifted {
    /// When it began, in seconds of the measured time.
    pub at_seconds: f64,
    /// Borders that have shifted; fewer than were asked for, if partitions became too small.
    pub rearrangements: usize,
    /// Splits, moves and merges of that.
    pub changes: usize,
    /// From the moment at which a worker began to make the new map, until all went on.
    pub took_seconds: f64,
}

impl Shifted {
    /// So many rearrangements by so many changes, from a moment to another, of a measured time that
    /// began at `warm`.
    pub(crate) fn of(
        (rearrangements, changes): (usize, usize),
        warm: Nanos,
        (began, ended): (Nanos, Nanos),
    ) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let (at_seconds, took_seconds) = (seconds(began.since(warm)), seconds(ended.since(began)));
        Shifted { at_seconds, rearrangements, changes, took_seconds }
    }
}

/// The shifts that one worker has still to make.
pub(crate) struct Shifting {
    /// The next one last: when, in nanoseconds of the measured time, and how many.
    left: Vec<(u64, usize)>,
}

impl Shifting {
    /// The shifts of this worker: the first worker that does not fail makes all.
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

    /// How many are due at `now`, of a measured time that began at `warm`.
    #[inline]
    pub(crate) fn due(&mut self, warm: Nanos, now: Nanos) -> Option<usize> {
        let (_, count) = self.left.pop_if(|(at, _)| warm.plus(*at) <= now)?;
        Some(count)
    }
}

/// Refuses shifts that nobody can make: where workers own no partitions, or partitions follow the
/// workload.
pub(crate) fn check(shifts: &[Shift], has_owners: bool, adapts: bool) -> Result<(), RunError> {
    let why = match () {
        () if shifts.is_empty() => return Ok(()),
        () if !has_owners => "workers own no partitions that could move",
        () if adapts => "partitions follow the workload, and are not moved by others",
        () => return Ok(()),
    };
    Err(RunError::Refused(why.to_owned()))
}
