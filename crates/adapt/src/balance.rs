//! Whether a better map is worth changing to.

use crate::search::Proposal;

use crate::settings::{Rules, Settings};

/// What speaks for and against a repartitioning.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Balance {
    /// The share of the time that the same work would take less.
    pub gain: f64,
    /// A smaller share would not do.
    pub gain_min: f64,
    /// What it costs, in seconds of the whole machine.
    pub cost_seconds: f64,
    /// How long the workload is likely to stay as it is.
    pub stay_seconds: f64,
    /// How often the gain must be worth the cost by then.
    pub payback: f64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The map is changed.
    Change,
    /// It would be better and does not pay yet: it may, if the workload stays.
    Later,
    /// There is not enough to gain.
    Stay,
}

/// The share of a core's time that is saved where the busiest one needs `after` instead of `before` for its actions. What its actions leave of the time in which
/// they were counted stays as it is.
pub(crate) fn gain(before: f64, after: f64, core_nanos: f64) -> f64 {
    let all = before.max(core_nanos);
    if all > 0.0 { (before - after) / all } else { 0.0 }
}

impl Balance {
    /// Of a proposal for a load that was counted in `core_nanos`, when changes cost so much and the workload is likely to stay for so long. `doubts`: how
    /// often expectations have been disappointed.
    pub(crate) fn of(
        proposal: &Proposal,
        settings: &Settings,
        (change_seconds, core_nanos): (f64, f64),
        (stay_seconds, doubts): (f64, u32),
    ) -> Self {
        Balance {
            gain: gain(proposal.before.time(), proposal.after.time(), core_nanos),
            gain_min: (settings.gain_min * f64::from(1u32 << doubts.min(8))).min(1.0),
            cost_seconds: change_seconds * proposal.changes.len() as f64,
            stay_seconds,
            payback: settings.payback,
        }
    }

    /// Whether the map is changed. `must`: partitions belong to cores that are gone.
    pub(crate) fn decide(&self, proposal: &Proposal, must: bool, rules: Rules) -> Decision {
        if proposal.changes.is_empty() {
            Decision::Stay
        } else if must {
            Decision::Change
        } else if !rules.weighs {
            if self.gain > 0.0 { Decision::Change } else { Decision::Stay }
        } else if self.gain < self.gain_min {
            Decision::Stay
        } else if self.gain * self.stay_seconds < self.payback * self.cost_seconds {
            Decision::Later
        } else {
            Decision::Change
        }
    }
}
