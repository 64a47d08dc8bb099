//! Weighs the gain of a better map against the cost of the change.

use crate::model::Figures;
use crate::search::Proposal;
use crate::settings::{Rules, Settings};

/// Gain and cost of a repartitioning.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Balance {
    /// The share of the time that the same work would take less.
    pub gain: f64,
    /// A smaller share would not do.
    pub gain_min: f64,
    /// Its cost, in seconds of the whole machine.
    pub cost_seconds: f64,
    /// How long the workload is likely to stay as it is.
    pub stay_seconds: f64,
    /// How often the gain must be worth the cost by then.
    pub payback: f64,
}

/// The decision about a repartitioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The map is changed.
    Change,
    /// It would be better and does not pay yet: it may, if the workload stays.
    Later,
    /// There is not enough to gain.
    Stay,
}

/// The time of the cores in which a load was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// How long it was, in nanoseconds. 0: nobody knows, and actions are all that there is.
    pub nanos: f64,
    /// How much of it a core was busy, on average: with actions, and with all that it does beside.
    /// Which core does what is beside is not the map's choice: who has less to do with actions does
    /// more of it.
    pub busy_nanos: f64,
}

/// The cost of a map for each core: the time of the busiest core for its actions, and the mean time
/// of a core that waits for other owners.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Each {
    pub time: f64,
    pub asking: f64,
}

impl Each {
    pub(crate) fn of(figures: &Figures) -> Self {
        Each { time: figures.time(), asking: figures.asking_each() }
    }
}

/// The share of a core's time that is saved where a map costs `after` instead of `before`. All
/// cores together need what they need: below the mean of all that they do, the busiest one's
/// actions hold nobody up. What is not waited for is saved.
pub(crate) fn gain(before: Each, after: Each, spent: Spent) -> f64 {
    let all = before.time.max(spent.nanos);
    let held_up = |actions: f64| actions.max(spent.busy_nanos.min(spent.nanos));
    let saved = held_up(before.time) - held_up(after.time) + before.asking - after.asking;
    if all > 0.0 { saved / all } else { 0.0 }
}

impl Balance {
    /// The balance of a proposal for a load that was counted in `spent`, with this cost of changes
    /// and this expected stay of the workload. `doubts`: how often expectations have been
    /// disappointed.
    pub(crate) fn of(
        proposal: &Proposal,
        settings: &Settings,
        (change_seconds, spent): (f64, Spent),
        (stay_seconds, doubts): (f64, u32),
    ) -> Self {
        Balance {
            gain: gain(Each::of(&proposal.before), Each::of(&proposal.after), spent),
            gain_min: (settings.gain_min * f64::from(1u32 << doubts.min(8))).min(1.0),
            cost_seconds: change_seconds * proposal.changes.len() as f64,
            stay_seconds,
            payback: settings.payback,
        }
    }

    /// Decides whether the map is changed. `must`: partitions belong to cores that are gone.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_that_hold_nobody_up_are_nothing_to_gain() {
        let spent = |nanos, busy_nanos| Spent { nanos, busy_nanos };
        let gain = |before, after, spent| {
            let of = |time| Each { time, asking: 0.0 };
            super::gain(of(before), of(after), spent)
        };
        assert_eq!(gain(80.0, 20.0, Spent::default()), 0.75);
        assert_eq!(gain(80.0, 20.0, spent(100.0, 0.0)), 0.6);
        // All of them do so much else that the busiest one's actions fit in.
        assert_eq!(gain(80.0, 20.0, spent(100.0, 90.0)), 0.0);
        // It holds them up, until they are as busy as all of them together have to be.
        assert_eq!(gain(100.0, 20.0, spent(100.0, 60.0)), 0.4);
        assert_eq!(gain(100.0, 100.0, spent(100.0, 60.0)), 0.0);
        assert_eq!(gain(0.0, 0.0, Spent::default()), 0.0);
    }

    #[test]
    fn who_need_not_ask_saves_what_it_waits_for() {
        let (one, both) = (Each { time: 50.0, asking: 40.0 }, Each { time: 25.0, asking: 0.0 });
        let spent = Spent { nanos: 100.0, busy_nanos: 60.0 };
        // The busiest one's actions hold nobody up.
        assert_eq!(gain(one, both, spent), 0.4);
        assert_eq!(gain(both, one, spent), -0.4);
    }
}
