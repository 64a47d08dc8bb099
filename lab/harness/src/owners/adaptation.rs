//! Settings of partitions that follow the workload of a run.

use repartitioning::{Cores, Settings};

/// The adaptation of partitions to the workload of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptation {
    /// Settings of the controller.
    pub settings: Settings,
    /// False: counts are kept and collected, and nothing is decided.
    pub decides: bool,
    /// The workers' cores; `None`: cores in the sockets of the deployment, all equally far from
    /// each other.
    pub cores: Option<Cores>,
}

impl Adaptation {
    /// Adaptation with this shortest interval between two measurements.
    pub fn every(seconds: f64) -> Self {
        let settings = Settings { change_seconds: CHANGE_SECONDS, ..Settings::new(seconds) };
        Adaptation { settings, decides: true, cores: None }
    }

    /// Counts are kept, and collected at the end of each interval of this length; nothing is
    /// decided, so partitions stay.
    pub fn monitoring(seconds: f64) -> Self {
        Adaptation { decides: false, ..Adaptation::every(seconds) }
    }
}

/// The assumed cost of a change until changes have been measured: workers stop for the time of
/// reaching all of them, for any number of changes, and nothing is copied. So the assumed cost of
/// 80 changes is a pause of 160 us.
const CHANGE_SECONDS: f64 = 2e-6;
