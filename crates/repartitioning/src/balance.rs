//! Decision whether a better map is worth its cost.

use terms::{Fault, Faults};

use crate::model::Figures;
use crate::search::Proposal;
use crate::settings::Settings;

/// Expected gain and cost of a repartitioning.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Balance {
    /// Share of the time that the same work would save.
    pub gain: f64,
    /// Smallest sufficient share.
    pub gain_min: f64,
    /// Cost in seconds of the whole machine.
    pub cost_seconds: f64,
    /// Expected time until the workload changes.
    pub stay_seconds: f64,
    /// Required multiple of the cost that the gain reaches by then.
    pub payback: f64,
}

/// Decision about a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Change the map.
    Change,
    /// The proposal is better but does not pay yet; it may if the workload stays.
    Later,
    /// The gain is too small.
    Stay,
}

/// The cores' time in which a load was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Its length in nanoseconds. 0: unknown, and only actions count.
    pub nanos: f64,
    /// Mean time that a core was busy, with actions and with other work. The map does not determine
    /// which core does the other work: a core with fewer actions does more of it.
    pub busy_nanos: f64,
}

/// Experience of a controller with the current workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorkloadHistory {
    /// The time in which the load was counted.
    pub spent: Spent,
    /// Cost of a change of the map, in seconds of the whole machine.
    pub change_seconds: f64,
    /// Expected time until the workload changes.
    pub stay_seconds: f64,
    /// Number of repartitionings that gained less than expected.
    pub doubts: u32,
}

/// Costs of a map for each core: the time that the busiest core needs for its actions, and the mean
/// time that a core waits for other owners.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CoreCosts {
    pub time: f64,
    pub asking: f64,
}

impl CoreCosts {
    pub(crate) fn of(figures: &Figures) -> Self {
        CoreCosts { time: figures.time(), asking: figures.asking_each() }
    }
}

/// Returns the share of a core's time that is saved if a map costs `after` instead of `before`. The
/// total work does not change: the actions of the busiest core cause no delay while they take less
/// than the mean time that cores are busy. Avoided waits are saved entirely.
pub(crate) fn gain(before: CoreCosts, after: CoreCosts, spent: Spent) -> f64 {
    let all = before.time.max(spent.nanos);
    let held_up = |actions: f64| actions.max(spent.busy_nanos.min(spent.nanos));
    let saved = held_up(before.time) - held_up(after.time) + before.asking - after.asking;
    if all > 0.0 { saved / all } else { 0.0 }
}

impl Balance {
    /// Estimates gain and cost of a proposal.
    pub(crate) fn of(proposal: &Proposal, settings: &Settings, history: WorkloadHistory) -> Self {
        let WorkloadHistory { spent, change_seconds, stay_seconds, doubts } = history;
        Balance {
            gain: gain(CoreCosts::of(&proposal.before), CoreCosts::of(&proposal.after), spent),
            gain_min: (settings.gain_min * f64::from(1u32 << doubts.min(8))).min(1.0),
            cost_seconds: change_seconds * proposal.changes.len() as f64,
            stay_seconds,
            payback: settings.payback,
        }
    }

    /// Decides if the map is changed. `must`: partitions belong to lost cores.
    pub(crate) fn decide(&self, proposal: &Proposal, must: bool, faults: Faults) -> Decision {
        if proposal.changes.is_empty() {
            Decision::Stay
        } else if must {
            Decision::Change
        } else if faults.has(Fault::UnweighedMoves) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_without_delays_gain_nothing() {
        let spent = |nanos, busy_nanos| Spent { nanos, busy_nanos };
        let gain = |before, after, spent| {
            let of = |time| CoreCosts { time, asking: 0.0 };
            super::gain(of(before), of(after), spent)
        };
        assert_eq!(gain(80.0, 20.0, Spent::default()), 0.75);
        assert_eq!(gain(80.0, 20.0, spent(100.0, 0.0)), 0.6);
        // All cores have other work, so that the actions of the busiest core cause no delay.
        assert_eq!(gain(80.0, 20.0, spent(100.0, 90.0)), 0.0);
        // The busiest core causes a delay until it is as busy as the mean of all cores.
        assert_eq!(gain(100.0, 20.0, spent(100.0, 60.0)), 0.4);
        assert_eq!(gain(100.0, 100.0, spent(100.0, 60.0)), 0.0);
        assert_eq!(gain(0.0, 0.0, Spent::default()), 0.0);
    }

    #[test]
    fn avoided_requests_save_their_waits() {
        let (one, both) = (CoreCosts { time: 50.0, asking: 40.0 }, CoreCosts { time: 25.0, asking: 0.0 });
        let spent = Spent { nanos: 100.0, busy_nanos: 60.0 };
        // The actions of the busiest core cause no delay.
        assert_eq!(gain(one, both, spent), 0.4);
        assert_eq!(gain(both, one, spent), -0.4);
    }
}
