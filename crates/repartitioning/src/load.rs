//! Measurements of monitoring: costs of the actions on each sub-partition, and the sub-partitions
//! that are synchronized, how often and with how many bytes.
//!
//! Each worker counts in [`Arrays`] of its own, which nobody else touches; one thread gathers all
//! of them to a [`Load`] and clears them. Source: ATraPos, section V, where a worker has two arrays
//! a partition. Deviations:
//! - A synchronization point is counted once, by the worker that coordinates the transaction, in a
//!   table of sets of sub-partitions. From two arrays by sub-partition the sets could be guessed
//!   only.
//! - Actions are counted by class, and what a class costs is the mean of those that any worker has
//!   measured. A worker can measure few in an interval: by its own measurements alone, chance would
//!   make one of many workers busier than the others.
//! - Who draws transactions is counted too ([`Draws`]). Classes come in pairs: those with even
//!   numbers are of the worker's own transactions, those behind them of others'; and a worker
//!   counts what it asks others for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cores::Core;
use crate::draws::{Drawn, Draws};
use crate::grid::SubPartition;

/// Sub-partitions of one synchronization point that are told apart. Of points where more meet, the
/// first so many are counted.
pub const MEMBERS_MAX: usize = 8;
/// Sets of sub-partitions that a worker counts, if it is told nothing else.
pub const MEETINGS_MAX: usize = 1024;
/// Places of the table that are looked at for a set.
const PROBES_MAX: usize = 8;
/// The assumed cost of an action of another owner before any was measured: two lines that come from
/// another socket.
pub const ASK_NANOS: f64 = 500.0;
/// Stands for no sub-partition.
const NOBODY: u32 = u32::MAX;

/// Why arrays cannot be gathered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Sub-partitions of another map.
    #[error("arrays of version {found} of the map are gathered with those of version {wanted}")]
    Version {
        /// The version of the load.
        wanted: u64,
        /// The version of the arrays.
        found: u64,
    },
    /// Sub-partitions of another map.
    #[error("arrays of {found} sub-partitions are gathered with those of {wanted}")]
    Count {
        /// Sub-partitions of the load.
        wanted: usize,
        /// Sub-partitions of the arrays.
        found: usize,
    },
}

/// Sub-partitions that meet, ascending, each once; [`NOBODY`] behind them.
type Members = [u32; MEMBERS_MAX];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    members: Members,
    count: u64,
    bytes: u64,
}

const NOTHING: Counted = Counted { members: [NOBODY; MEMBERS_MAX], count: 0, bytes: 0 };

/// Actions of a class that were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Measured {
    actions: u64,
    nanos: u64,
}

impl Measured {
    fn add(&mut self, actions: u64, nanos: u64) {
        self.actions = self.actions.saturating_add(actions);
        self.nanos = self.nanos.saturating_add(nanos);
    }

    /// The mean cost of an action.
    fn mean(self) -> Option<f64> {
        (self.actions > 0).then(|| self.nanos as f64 / self.actions as f64)
    }
}

/// The counts of one worker between two collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrays {
    version: u64,
    /// Actions, by sub-partition and class.
    actions: Vec<u32>,
    /// By class.
    measured: Vec<Measured>,
    /// Actions of the worker's own transactions that others were asked for, by sub-partition.
    asked: Vec<u32>,
    /// How long the worker has waited for answers, with nothing else to do.
    waited_nanos: u64,
    /// An open hash table; its length is a power of two.
    meetings: Vec<Counted>,
    /// Synchronization points for which the table had no room, and their bytes.
    unrecorded: (u64, u64),
    /// How long the worker has had nothing to do.
    idle_nanos: u64,
}

impl Arrays {
    /// For a worker, by the grid of this version with so many sub-partitions, of actions of so many
    /// classes. `meetings` sets of sub-partitions are counted, rounded up to a power of two
    /// ([`MEETINGS_MAX`] if there is no reason for another number).
    pub fn new(version: u64, (sub_partitions, classes): (usize, usize), meetings: usize) -> Self {
        let meetings = vec![NOTHING; meetings.max(1).next_power_of_two()];
        let (actions, measured) = (vec![0; sub_partitions * classes], vec![Measured::default(); classes]);
        let asked = vec![0; sub_partitions];
        let (unrecorded, waited_nanos, idle_nanos) = ((0, 0), 0, 0);
        Arrays { version, actions, measured, asked, waited_nanos, meetings, unrecorded, idle_nanos }
    }

    /// The version of the map by whose grid it counts.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Forgets everything, and counts by another grid from now on.
    pub fn clear(&mut self, version: u64, sub_partitions: usize) {
        self.version = version;
        self.actions.clear();
        self.actions.resize(sub_partitions * self.measured.len(), 0);
        self.measured.fill(Measured::default());
        self.asked.clear();
        self.asked.resize(sub_partitions, 0);
        self.waited_nanos = 0;
        self.meetings.fill(NOTHING);
        self.unrecorded = (0, 0);
        self.idle_nanos = 0;
    }

    /// There was an action of this class on this sub-partition.
    #[inline]
    pub fn act(&mut self, on: SubPartition, class: usize) {
        debug_assert!(class < self.measured.len(), "a class that there is");
        if let Some(count) = self.actions.get_mut(on.index() * self.measured.len() + class) {
            *count = count.saturating_add(1);
        }
    }

    /// Another worker is asked for an action on this sub-partition.
    #[inline]
    pub fn ask(&mut self, on: SubPartition) {
        if let Some(count) = self.asked.get_mut(on.index()) {
            *count = count.saturating_add(1);
        }
    }

    /// The worker has waited for answers for so long, and has had nothing else to do.
    #[inline]
    pub fn wait(&mut self, nanos: u64) {
        self.waited_nanos = self.waited_nanos.saturating_add(nanos);
        self.rest(nanos);
    }

    /// The worker has had nothing to do for so long.
    #[inline]
    pub fn rest(&mut self, nanos: u64) {
        self.idle_nanos = self.idle_nanos.saturating_add(nanos);
    }

    /// How long the worker has had nothing to do.
    pub fn idle_nanos(&self) -> u64 {
        self.idle_nanos
    }

    /// So many actions of this class have taken so long. Of what follows an action later there is
    /// the time alone, and no action.
    #[inline]
    pub fn measure(&mut self, class: usize, actions: u64, nanos: u64) {
        if let Some(measured) = self.measured.get_mut(class) {
            measured.add(actions, nanos);
        }
    }

    fn sub_partitions(&self) -> usize {
        self.asked.len()
    }

    /// Actions on a sub-partition of the worker's own transactions, wherever they ran.
    fn drawn(&self, sub: usize) -> u64 {
        let classes = self.measured.len();
        let own = self.actions[sub * classes..][..classes].iter().step_by(2);
        own.map(|count| u64::from(*count)).sum::<u64>() + u64::from(self.asked[sub])
    }

    /// Actions on these sub-partitions have met so many times at synchronization points, to which
    /// they brought so many bytes in all. One sub-partition alone meets nobody.
    #[inline]
    pub fn meet(&mut self, subs: impl IntoIterator<Item = SubPartition>, times: u64, bytes: u64) {
        let mut members = [NOBODY; MEMBERS_MAX];
        let mut count = 0;
        for SubPartition(sub) in subs {
            let place = members[..count].partition_point(|member| *member < sub);
            if count < MEMBERS_MAX && members[place] != sub {
                members.copy_within(place..count, place + 1);
                members[place] = sub;
                count += 1;
            }
        }
        if count > 1 {
            self.count(Counted { members, count: times, bytes });
        }
    }

    fn count(&mut self, met: Counted) {
        let mask = self.meetings.len() - 1;
        let first = hash(&met.members) as usize;
        for probe in 0..PROBES_MAX.min(self.meetings.len()) {
            let counted = &mut self.meetings[(first + probe) & mask];
            if counted.count == 0 {
                *counted = met;
                return;
            }
            if counted.members == met.members {
                counted.count += met.count;
                counted.bytes = counted.bytes.saturating_add(met.bytes);
                return;
            }
        }
        self.unrecorded.0 += met.count;
        self.unrecorded.1 = self.unrecorded.1.saturating_add(met.bytes);
    }
}

/// The same for the same members, in every run.
fn hash(members: &Members) -> u64 {
    let mix = |sum: u64, member: &u32| {
        (sum.rotate_left(23) ^ u64::from(*member)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let sum = members.iter().take_while(|member| **member != NOBODY).fold(0, mix);
    sum ^ sum >> 32
}

/// Sub-partitions that met at synchronization points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meeting {
    /// Which, ascending, two or more.
    pub members: Vec<SubPartition>,
    /// How often.
    pub count: f64,
    /// Bytes that they exchanged, all together.
    pub bytes: f64,
}

/// The counts of all workers in an interval: the trace W of the cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The version of the map whose sub-partitions these are.
    pub version: u64,
    /// Nanoseconds of actions, by sub-partition.
    pub costs: Vec<f64>,
    /// Synchronization points, ascending by members.
    pub meetings: Vec<Meeting>,
    /// Whose transactions they are of.
    pub draws: Draws,
    /// The share of synchronization points that no worker had room for. The bytes and counts of the
    /// others stand for them too.
    pub unrecorded: f64,
}

impl Load {
    /// Costs and synchronization points of transactions of which nobody knows who draws them.
    pub fn new(version: u64, costs: Vec<f64>, meetings: Vec<Meeting>) -> Self {
        Load { version, costs, meetings, draws: Draws::default(), unrecorded: 0.0 }
    }

    /// Gathers what the workers on these cores have counted. A class of which nobody has measured
    /// an action costs what the others cost.
    ///
    /// # Errors
    /// [`LoadError`]: arrays are of another map.
    pub fn gathered<'a>(
        version: u64,
        sub_partitions: usize,
        arrays: impl IntoIterator<Item = (Core, &'a Arrays)> + Clone,
    ) -> Result<Self, LoadError> {
        let mut classes: Vec<Measured> = Vec::new();
        let mut actions: Vec<u64> = Vec::new();
        let mut met: BTreeMap<Members, (u64, u64)> = BTreeMap::new();
        let mut unrecorded = (0u64, 0u64);
        for (_, one) in arrays.clone() {
            if one.version != version {
                return Err(LoadError::Version { wanted: version, found: one.version });
            }
            if one.sub_partitions() != sub_partitions {
                return Err(LoadError::Count { wanted: sub_partitions, found: one.sub_partitions() });
            }
            classes.resize(one.measured.len(), Measured::default());
            classes.iter_mut().zip(&one.measured).for_each(|(sum, one)| sum.add(one.actions, one.nanos));
            actions.resize(one.actions.len(), 0);
            actions.iter_mut().zip(&one.actions).for_each(|(sum, count)| *sum += u64::from(*count));
            for counted in one.meetings.iter().filter(|counted| counted.count > 0) {
                let (count, bytes) = met.entry(counted.members).or_default();
                (*count, *bytes) = (*count + counted.count, bytes.saturating_add(counted.bytes));
            }
            unrecorded.0 += one.unrecorded.0;
            unrecorded.1 = unrecorded.1.saturating_add(one.unrecorded.1);
        }
        let recorded = met
            .values()
            .fold((0u64, 0u64), |sum, (count, bytes)| (sum.0 + count, sum.1.saturating_add(*bytes)));
        let scale = |recorded: u64, missing: u64| match recorded {
            0 => 1.0,
            recorded => 1.0 + missing as f64 / recorded as f64,
        };
        let (counts, bytes) = (scale(recorded.0, unrecorded.0), scale(recorded.1, unrecorded.1));
        let meeting = |(members, (count, sum)): (Members, (u64, u64))| Meeting {
            members: members.into_iter().filter(|sub| *sub != NOBODY).map(SubPartition).collect(),
            count: count as f64 * counts,
            bytes: sum as f64 * bytes,
        };
        Ok(Load {
            version,
            costs: costs(&actions, &classes, sub_partitions),
            meetings: met.into_iter().map(meeting).collect(),
            draws: draws(sub_partitions, arrays),
            unrecorded: unrecorded.0 as f64 / (recorded.0 + unrecorded.0).max(1) as f64,
        })
    }

    /// Actions of no core take longer than the time in which they were counted: where the sum says
    /// so, they cost less there than they do on the average of all workers. `owners` has the core
    /// of each sub-partition.
    ///
    /// A worker whose data are in caches already, while others still bring theirs in, does more of
    /// its own actions than they do, and would pass for one that has too many.
    pub fn fit_in(&mut self, nanos: f64, owners: &[Core]) {
        let mut sums: BTreeMap<Core, f64> = BTreeMap::new();
        for (cost, owner) in self.costs.iter().zip(owners) {
            *sums.entry(*owner).or_default() += cost;
        }
        for (cost, owner) in self.costs.iter_mut().zip(owners) {
            *cost *= (nanos / sums[owner].max(f64::MIN_POSITIVE)).min(1.0);
        }
    }

    /// Nanoseconds of all actions.
    pub fn total(&self) -> f64 {
        self.costs.iter().sum()
    }
}

/// Nanoseconds by sub-partition, of these numbers of actions by sub-partition and class.
fn costs(actions: &[u64], classes: &[Measured], sub_partitions: usize) -> Vec<f64> {
    let mut all = Measured::default();
    classes.iter().for_each(|class| all.add(class.actions, class.nanos));
    let means: Vec<f64> = classes.iter().map(|class| class.mean().or(all.mean()).unwrap_or(1.0)).collect();
    let cost = |counts: &[u64]| counts.iter().zip(&means).map(|(count, mean)| *count as f64 * mean).sum();
    let mut costs: Vec<f64> = actions.chunks(classes.len().max(1)).map(cost).collect();
    costs.resize(sub_partitions, 0.0);
    costs
}

/// The draws of each core on each sub-partition, and the cost of an action of another owner.
fn draws<'a>(sub_partitions: usize, arrays: impl IntoIterator<Item = (Core, &'a Arrays)> + Clone) -> Draws {
    let count = |sub: usize| {
        let of_core = |(core, one): (Core, &Arrays)| (core, one.drawn(sub) as f64);
        Drawn::of(arrays.clone().into_iter().map(of_core).collect())
    };
    let by_sub = (0..sub_partitions).map(count).collect();
    let add = |(waited, asked): (f64, u64), (_, one): (Core, &Arrays)| {
        let more: u64 = one.asked.iter().map(|count| u64::from(*count)).sum();
        (waited + one.waited_nanos as f64, asked + more)
    };
    let ask_nanos = match arrays.clone().into_iter().fold((0.0, 0), add) {
        (_, 0) => ASK_NANOS,
        (waited, asked) => waited / asked as f64,
    };
    Draws { ask_nanos, by_sub }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subs(numbers: &[u32]) -> Vec<SubPartition> {
        numbers.iter().copied().map(SubPartition).collect()
    }

    #[test]
    fn workers_add_up() {
        let mut one = Arrays::new(3, (4, 3), 16);
        let mut other = one.clone();
        for (arrays, sub, class) in [(0, 1, 0), (0, 1, 0), (1, 1, 1), (1, 3, 2), (1, 4, 0)] {
            // The last one is outside of the grid: nobody's.
            [&mut one, &mut other][arrays].act(SubPartition(sub), class);
        }
        // Actions of the first class take 6 ns on the average, of the second 9 ns, and nobody knows
        // of the third.
        one.measure(0, 1, 5);
        other.measure(0, 3, 19);
        other.measure(1, 1, 9);
        one.meet(subs(&[3, 0, 3]), 1, 100);
        other.meet(subs(&[0, 3]), 1, 20);
        other.meet(subs(&[2, 2]), 1, 1000);
        other.meet(subs(&[1, 2, 0]), 1, 9);
        let load = Load::gathered(3, 4, [(Core(0), &one), (Core(1), &other)]).expect("one map");
        assert_eq!(load.costs, [0.0, 21.0, 0.0, 33.0 / 5.0]);
        let met = |members: &[u32], count, bytes| Meeting { members: subs(members), count, bytes };
        assert_eq!(load.meetings, [met(&[0, 1, 2], 1.0, 9.0), met(&[0, 3], 2.0, 120.0)]);
        assert_eq!((load.unrecorded, load.total()), (0.0, 27.6));
        one.rest(5);
        one.rest(6);
        assert_eq!(one.idle_nanos(), 11);
        one.clear(4, 4);
        assert_eq!(one, Arrays::new(4, (4, 3), 16));
        assert_eq!(Load::gathered(3, 4, [(Core(0), &one)]), Err(LoadError::Version { wanted: 3, found: 4 }));
        assert_eq!(Load::gathered(4, 5, [(Core(0), &one)]), Err(LoadError::Count { wanted: 5, found: 4 }));
    }

    #[test]
    fn no_core_works_longer_than_there_is_time() {
        let costs = vec![30.0, 10.0, 150.0, 50.0, 0.0];
        let mut load = Load::new(0, costs, Vec::new());
        load.fit_in(100.0, &[0, 0, 1, 1, 2].map(Core));
        assert_eq!(load.costs, [30.0, 10.0, 75.0, 25.0, 0.0]);
    }

    #[test]
    fn what_finds_no_room_is_stood_for() {
        let mut arrays = Arrays::new(0, (100, 1), 4);
        for round in 0..2 {
            (0..20).for_each(|sub| arrays.meet(subs(&[sub, sub + 1]), 1, 10 + round));
        }
        let load = Load::gathered(0, 100, [(Core(0), &arrays)]).expect("one map");
        assert_eq!(load.meetings.len(), 4);
        assert!((load.unrecorded - 0.8).abs() < 1e-9, "{}", load.unrecorded);
        let sum = |of: fn(&Meeting) -> f64| load.meetings.iter().map(of).sum::<f64>();
        assert!((sum(|met| met.count) - 40.0).abs() < 1e-9);
        assert!((sum(|met| met.bytes) - 420.0).abs() < 1e-9);
    }

    #[test]
    fn large_synchronization_points_are_counted_by_some_members() {
        let mut arrays = Arrays::new(0, (100, 1), 4);
        arrays.meet((0..20).rev().map(SubPartition), 1, 10);
        let load = Load::gathered(0, 100, [(Core(0), &arrays)]).expect("one map");
        assert_eq!(load.meetings[0].members, subs(&[12, 13, 14, 15, 16, 17, 18, 19]));
    }

    #[test]
    fn who_draws_is_told() {
        let mut one = Arrays::new(0, (2, 2), 4);
        let mut other = one.clone();
        // Nobody has asked: it costs what is believed.
        let load = Load::gathered(0, 2, [(Core(3), &one)]).expect("one map");
        assert_eq!((load.draws.ask_nanos, load.draws.by_sub[0].all), (ASK_NANOS, 0.0));
        // The first worker owns both: its own transactions are on the first one, the other's on the
        // second.
        (0..50).for_each(|_| one.act(SubPartition(0), 0));
        for _ in 0..40 {
            other.ask(SubPartition(1));
            one.act(SubPartition(1), 1);
        }
        other.wait(8_000);
        other.rest(5);
        let load = Load::gathered(0, 2, [(Core(3), &one), (Core(1), &other)]).expect("one map");
        let often: Vec<_> = load.draws.by_sub.iter().map(|drawn| drawn.often.clone()).collect();
        assert_eq!(often, [vec![(Core(3), 50.0)], vec![(Core(1), 40.0)]]);
        assert_eq!((load.draws.ask_nanos, other.idle_nanos()), (200.0, 8_005));
        other.clear(1, 3);
        assert_eq!(other, Arrays::new(1, (3, 2), 4));
    }
}
