//! Partitions that are split, merged and moved at planned moments, to measure the cost.
//!
//! A worker makes all changes between two of its transactions, as for the controller of partitions
//! that follow the workload.

use platform::Nanos;
use repartitioning::BorderAction;

use crate::error::RunError;
use crate::faults::failing::Failing;

/// Planned changes of borders between partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Their time, in seconds of the measured time.
    pub seconds: f64,
    /// The kind of the changes.
    pub action: BorderAction,
    /// Number of changes.
    pub count: usize,
}

/// The shifts that one worker still has to make.
pub(crate) struct Shifting {
    /// The next one comes last.
    left: Vec<Shift>,
}

impl Shifting {
    /// The shifts of this worker: the first worker that does not fail makes all shifts.
    pub(crate) fn of(shifts: &[Shift], worker: usize, failing: Option<&Failing>) -> Self {
        let stays = |worker: &usize| failing.is_none_or(|failing| failing.of_worker(*worker).is_none());
        let is_first = (0..).find(stays) == Some(worker);
        let mut left = if is_first { shifts.to_vec() } else { Vec::new() };
        left.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        Shifting { left }
    }

    /// Takes the changes that are due at `now`, of a measured time that began at `warm`.
    #[inline]
    pub(crate) fn due(&mut self, warm: Nanos, now: Nanos) -> Option<Shift> {
        self.left.pop_if(|shift| warm.plus((shift.seconds * 1e9) as u64) <= now)
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
