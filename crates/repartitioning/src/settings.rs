//! Settings and rules of a controller.

use serde::{Deserialize, Serialize};

use crate::search::Search;

/// Settings and rules of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The shortest interval between two measurements.
    pub interval_seconds: f64,
    /// The longest interval, as a multiple of the shortest. Source: ATraPos has 1 s and 8 s.
    pub longest: f64,
    /// The workload counts as unchanged while throughput differs by at most this share from the
    /// mean of the last measurements. Source: ATraPos has 10 %.
    pub alike: f64,
    /// Number of these last measurements. Source: ATraPos has 5.
    pub remembered: usize,
    /// Smallest gain, as a share of the time, for which the map is changed.
    pub gain_min: f64,
    /// A repartitioning has to gain this multiple of its cost before the workload is expected to
    /// change again.
    pub payback: f64,
    /// Initial estimate of the cost of a split, a merge or a move, in seconds of the whole machine.
    pub change_seconds: f64,
    /// Initial estimate of the time between changes of the workload.
    pub stay_seconds: f64,
    /// Effort of searches.
    pub search: Search,
}

impl Settings {
    /// Returns settings with this shortest interval and the values of the paper. Values that the
    /// paper does not give: a gain of at least 10 %, paid back twice; 2 ms for a change (the paper
    /// measures less than 200 ms for 80 changes); a workload that stays for 64 of the shortest
    /// intervals; a search of at most an interval.
    pub fn new(interval_seconds: f64) -> Self {
        Settings {
            interval_seconds,
            longest: 8.0,
            alike: 0.1,
            remembered: 5,
            gain_min: 0.1,
            payback: 2.0,
            change_seconds: (interval_seconds / 100.0).min(0.002),
            stay_seconds: 64.0 * interval_seconds,
            search: Search::within(interval_seconds),
        }
    }
}
