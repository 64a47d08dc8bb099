//! The lengths of the parts of a run.

use crate::plan::{Length, Plan};

/// Intervals in which commits are counted.
pub const BINS: u64 = 400;
/// Longest run when its length is given in transactions.
const SECONDS_MAX: f64 = 86_400.0;
/// Seconds that such a run is expected to take, for the width of bins.
const SECONDS_EXPECTED: f64 = 10.0;

/// The lengths of a run, from the time at which all workers have arrived.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    pub warm_up_nanos: u64,
    pub nanos: u64,
    pub bin_nanos: u64,
    /// Commits of a worker after which all workers stop.
    pub commits_max: Option<u64>,
    /// Transactions of each worker.
    pub transactions_max: Option<u64>,
}

impl Schedule {
    /// The schedule of a plan.
    pub(crate) fn of(plan: &Plan) -> Schedule {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let (most, expected) = match plan.length {
            Length::Seconds(seconds) => (seconds, seconds),
            Length::Commits(_) | Length::Transactions(_) => (SECONDS_MAX, SECONDS_EXPECTED),
        };
        let (mut commits_max, mut transactions_max) = (None, None);
        match plan.length {
            Length::Seconds(_) => {}
            Length::Commits(count) => commits_max = Some(count),
            Length::Transactions(count) => transactions_max = Some(count),
        }
        Schedule {
            warm_up_nanos: nanos(plan.warm_up_seconds),
            nanos: nanos(most),
            bin_nanos: (nanos(expected) / BINS).max(1),
            commits_max,
            transactions_max,
        }
    }
}
