//! Monitoring: the cost of the actions on each sub-partition, and the sub-partitions that
//! synchronize, with counts and bytes.
//!
//! Each worker counts in [`Arrays`] of its own, which no other thread accesses. One thread gathers
//! all arrays to a [`Load`] and clears them. Source: ATraPos, section V, where a worker has two
//! arrays for each partition. Deviations:
//! - A synchronization point is counted once, by the worker that coordinates the transaction, in a
//!   table of sets of sub-partitions. Two arrays by sub-partition would not determine the sets.
//! - Actions are counted by class, and the cost of a class is the mean of all workers'
//!   measurements. A worker measures only few actions in an interval, so by its own measurements
//!   alone, chance would make some worker seem busier than the others.
//! - The origins of transactions are counted too ([`Draws`]). Classes come in pairs: even numbers
//!   are for the worker's own transactions, the odd numbers behind them for those of other workers.
//!   A worker also counts the actions that it requests from other workers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cores::Core;
use crate::grid::SubPartition;
use crate::transaction_origins::{Drawn, Draws};

/// Most members of a synchronization point. Further members are ignored.
pub const MEMBERS_MAX: usize = 8;
/// CoreDefault number of sets of sub-partitions that a worker counts.
pub const SYNCHRONIZATION_SETS_MAX: usize = 1024;
/// Slots of the table that are probed for a set.
const PROBES_MAX: usize = 8;
/// Estimated cost of a request to another worker until it is measured: two lines from another
/// socket.
pub const ASK_NANOS: f64 = 500.0;
/// Marks the absence of a sub-partition.
const NO_MEMBER: u32 = u32::MAX;

/// Error of gathering arrays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The arrays belong to another map.
    #[error("arrays of version {found} of the map are gathered with those of version {wanted}")]
    Version {
        /// The version of the load.
        wanted: u64,
        /// The version of the arrays.
        found: u64,
    },
    /// The arrays belong to another map.
    #[error("arrays of {found} sub-partitions are gathered with those of {wanted}")]
    Count {
        /// Sub-partitions of the load.
        wanted: usize,
        /// Sub-partitions of the arrays.
        found: usize,
    },
}

/// Sub-partitions of a synchronization point, ascending, without duplicates, padded with
/// [`NO_MEMBER`].
type Members = [u32; MEMBERS_MAX];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountedSet {
    members: Members,
    count: u64,
    bytes: u64,
}

const EMPTY_SET: CountedSet = CountedSet { members: [NO_MEMBER; MEMBERS_MAX], count: 0, bytes: 0 };

/// Measured actions of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MeasuredActions {
    actions: u64,
    nanos: u64,
}

impl MeasuredActions {
    fn add(&mut self, actions: u64, nanos: u64) {
        self.actions = self.actions.saturating_add(actions);
        self.nanos = self.nanos.saturating_add(nanos);
    }

    /// Returns the mean cost of an action.
    fn mean(self) -> Option<f64> {
        (self.actions > 0).then(|| self.nanos as f64 / self.actions as f64)
    }
}

/// Counts of a worker between two gatherings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrays {
    version: u64,
    /// Actions, by sub-partition and class.
    actions: Vec<u32>,
    /// Measurements of each class.
    measured: Vec<MeasuredActions>,
    /// Actions of the worker's own transactions requested from other workers, by sub-partition.
    requested: Vec<u32>,
    /// Time that the worker has waited for answers without other work.
    waited_nanos: u64,
    /// Open-addressing hash table; its length is a power of two.
    meetings: Vec<CountedSet>,
    /// Synchronization points for which the table had no room, and their bytes.
    unrecorded: (u64, u64),
    /// Time that the worker has been idle.
    idle_nanos: u64,
}

impl Arrays {
    /// Returns the arrays of a worker for the grid of this version. `sets` is the number of sets of
    /// sub-partitions that can be counted, rounded up to a power of two;
    /// [`SYNCHRONIZATION_SETS_MAX`] is the usual value.
    pub fn new(version: u64, sub_partitions: usize, classes: usize, sets: usize) -> Self {
        let meetings = vec![EMPTY_SET; sets.max(1).next_power_of_two()];
        let (actions, measured) =
            (vec![0; sub_partitions * classes], vec![MeasuredActions::default(); classes]);
        let requested = vec![0; sub_partitions];
        let (unrecorded, waited_nanos, idle_nanos) = ((0, 0), 0, 0);
        Arrays { version, actions, measured, requested, waited_nanos, meetings, unrecorded, idle_nanos }
    }

    /// Returns the version of the map whose grid is counted.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Clears all counts, and counts by another grid from now on.
    pub fn clear(&mut self, version: u64, sub_partitions: usize) {
        self.version = version;
        self.actions.clear();
        self.actions.resize(sub_partitions * self.measured.len(), 0);
        self.measured.fill(MeasuredActions::default());
        self.requested.clear();
        self.requested.resize(sub_partitions, 0);
        self.waited_nanos = 0;
        self.meetings.fill(EMPTY_SET);
        self.unrecorded = (0, 0);
        self.idle_nanos = 0;
    }

    /// Counts an action of this class on this sub-partition.
    #[inline]
    pub fn act(&mut self, on: SubPartition, class: usize) {
        debug_assert!(class < self.measured.len(), "a class that there is");
        if let Some(count) = self.actions.get_mut(on.index() * self.measured.len() + class) {
            *count = count.saturating_add(1);
        }
    }

    /// Counts a request to another worker for an action on this sub-partition.
    #[inline]
    pub fn count_request(&mut self, on: SubPartition) {
        if let Some(count) = self.requested.get_mut(on.index()) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds time that the worker waited for answers without other work.
    #[inline]
    pub fn wait(&mut self, nanos: u64) {
        self.waited_nanos = self.waited_nanos.saturating_add(nanos);
        self.rest(nanos);
    }

    /// Adds time that the worker was idle.
    #[inline]
    pub fn rest(&mut self, nanos: u64) {
        self.idle_nanos = self.idle_nanos.saturating_add(nanos);
    }

    /// Time that the worker has been idle.
    pub fn idle_nanos(&self) -> u64 {
        self.idle_nanos
    }

    /// Adds a measurement of `actions` actions of this class. Work that follows an action later
    /// adds its time with 0 actions.
    #[inline]
    pub fn measure(&mut self, class: usize, actions: u64, nanos: u64) {
        if let Some(measured) = self.measured.get_mut(class) {
            measured.add(actions, nanos);
        }
    }

    fn sub_partitions(&self) -> usize {
        self.requested.len()
    }

    /// Returns the actions of the worker's own transactions on a sub-partition, on any worker.
    fn drawn(&self, sub: usize) -> u64 {
        let classes = self.measured.len();
        let own = self.actions[sub * classes..][..classes].iter().step_by(2);
        own.map(|count| u64::from(*count)).sum::<u64>() + u64::from(self.requested[sub])
    }

    /// Counts `times` synchronization points of these sub-partitions, which exchanged `bytes` in
    /// total. A single sub-partition is no synchronization point.
    #[inline]
    pub fn count_synchronization(
        &mut self,
        subs: impl IntoIterator<Item = SubPartition>,
        times: u64,
        bytes: u64,
    ) {
        let mut members = [NO_MEMBER; MEMBERS_MAX];
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
            self.count_set(CountedSet { members, count: times, bytes });
        }
    }

    fn count_set(&mut self, set: CountedSet) {
        let mask = self.meetings.len() - 1;
        let first = hash(&set.members) as usize;
        for probe in 0..PROBES_MAX.min(self.meetings.len()) {
            let counted = &mut self.meetings[(first + probe) & mask];
            if counted.count == 0 {
                *counted = set;
                return;
            }
            if counted.members == set.members {
                counted.count += set.count;
                counted.bytes = counted.bytes.saturating_add(set.bytes);
                return;
            }
        }
        self.unrecorded.0 += set.count;
        self.unrecorded.1 = self.unrecorded.1.saturating_add(set.bytes);
    }
}

/// Hashes a set of members deterministically.
fn hash(members: &Members) -> u64 {
    let mix = |sum: u64, member: &u32| {
        (sum.rotate_left(23) ^ u64::from(*member)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let sum = members.iter().take_while(|member| **member != NO_MEMBER).fold(0, mix);
    sum ^ sum >> 32
}

/// Synchronization points of one set of sub-partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SynchronizationPoint {
    /// The members: two or more, ascending.
    pub members: Vec<SubPartition>,
    /// Number of synchronization points.
    pub count: f64,
    /// Bytes exchanged in total.
    pub bytes: f64,
}

/// Counts of all workers in an interval: the trace W of the cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The version of the map to which the sub-partitions belong.
    pub version: u64,
    /// Nanoseconds of actions, by sub-partition.
    pub costs: Vec<f64>,
    /// Synchronization points, ascending by members.
    pub meetings: Vec<SynchronizationPoint>,
    /// Origins of the transactions.
    pub draws: Draws,
    /// Share of synchronization points for which the tables had no room. The counts and bytes of
    /// the others are scaled up to include them.
    pub unrecorded: f64,
}

impl Load {
    /// Returns a load of transactions with unknown origins.
    pub fn new(version: u64, costs: Vec<f64>, meetings: Vec<SynchronizationPoint>) -> Self {
        Load { version, costs, meetings, draws: Draws::default(), unrecorded: 0.0 }
    }

    /// Gathers the arrays of the workers on these cores. A class without measurements gets the mean
    /// cost of all classes.
    ///
    /// # Errors
    /// [`LoadError`]: arrays are of another map.
    pub fn gathered<'a>(
        version: u64,
        sub_partitions: usize,
        arrays: impl IntoIterator<Item = (Core, &'a Arrays)> + Clone,
    ) -> Result<Self, LoadError> {
        let mut classes: Vec<MeasuredActions> = Vec::new();
        let mut actions: Vec<u64> = Vec::new();
        let mut sets: BTreeMap<Members, (u64, u64)> = BTreeMap::new();
        let mut unrecorded = (0u64, 0u64);
        for (_, one) in arrays.clone() {
            if one.version != version {
                return Err(LoadError::Version { wanted: version, found: one.version });
            }
            if one.sub_partitions() != sub_partitions {
                return Err(LoadError::Count { wanted: sub_partitions, found: one.sub_partitions() });
            }
            classes.resize(one.measured.len(), MeasuredActions::default());
            classes.iter_mut().zip(&one.measured).for_each(|(sum, one)| sum.add(one.actions, one.nanos));
            actions.resize(one.actions.len(), 0);
            actions.iter_mut().zip(&one.actions).for_each(|(sum, count)| *sum += u64::from(*count));
            for counted in one.meetings.iter().filter(|counted| counted.count > 0) {
                let (count, bytes) = sets.entry(counted.members).or_default();
                (*count, *bytes) = (*count + counted.count, bytes.saturating_add(counted.bytes));
            }
            unrecorded.0 += one.unrecorded.0;
            unrecorded.1 = unrecorded.1.saturating_add(one.unrecorded.1);
        }
        let recorded = sets
            .values()
            .fold((0u64, 0u64), |sum, (count, bytes)| (sum.0 + count, sum.1.saturating_add(*bytes)));
        let scale = |recorded: u64, missing: u64| match recorded {
            0 => 1.0,
            recorded => 1.0 + missing as f64 / recorded as f64,
        };
        let (counts, bytes) = (scale(recorded.0, unrecorded.0), scale(recorded.1, unrecorded.1));
        let meeting = |(members, (count, sum)): (Members, (u64, u64))| SynchronizationPoint {
            members: members.into_iter().filter(|sub| *sub != NO_MEMBER).map(SubPartition).collect(),
            count: count as f64 * counts,
            bytes: sum as f64 * bytes,
        };
        Ok(Load {
            version,
            costs: costs(&actions, &classes, sub_partitions),
            meetings: sets.into_iter().map(meeting).collect(),
            draws: draws(sub_partitions, arrays),
            unrecorded: unrecorded.0 as f64 / (recorded.0 + unrecorded.0).max(1) as f64,
        })
    }

    /// Scales the costs of a core down if their sum exceeds the time in which they were counted:
    /// its actions are then cheaper than the mean of all workers. `owners` has the core of each
    /// sub-partition.
    ///
    /// Without this, a worker whose data are already in the caches, while other workers still load
    /// theirs, would execute more actions than the others and seem overloaded.
    pub fn fit_in(&mut self, nanos: f64, owners: &[Core]) {
        let mut sums: BTreeMap<Core, f64> = BTreeMap::new();
        for (cost, owner) in self.costs.iter().zip(owners) {
            *sums.entry(*owner).or_default() += cost;
        }
        for (cost, owner) in self.costs.iter_mut().zip(owners) {
            *cost *= (nanos / sums[owner].max(f64::MIN_POSITIVE)).min(1.0);
        }
    }

    /// Returns the nanoseconds of all actions.
    pub fn total(&self) -> f64 {
        self.costs.iter().sum()
    }
}

/// Returns the nanoseconds of each sub-partition, from numbers of actions by sub-partition and
/// class.
fn costs(actions: &[u64], classes: &[MeasuredActions], sub_partitions: usize) -> Vec<f64> {
    let mut all = MeasuredActions::default();
    classes.iter().for_each(|class| all.add(class.actions, class.nanos));
    let means: Vec<f64> = classes.iter().map(|class| class.mean().or(all.mean()).unwrap_or(1.0)).collect();
    let cost = |counts: &[u64]| counts.iter().zip(&means).map(|(count, mean)| *count as f64 * mean).sum();
    let mut costs: Vec<f64> = actions.chunks(classes.len().max(1)).map(cost).collect();
    costs.resize(sub_partitions, 0.0);
    costs
}

/// Returns the origins of transactions on each sub-partition, and the cost of a request.
fn draws<'a>(sub_partitions: usize, arrays: impl IntoIterator<Item = (Core, &'a Arrays)> + Clone) -> Draws {
    let count = |sub: usize| {
        let of_core = |(core, one): (Core, &Arrays)| (core, one.drawn(sub) as f64);
        Drawn::of(arrays.clone().into_iter().map(of_core).collect())
    };
    let by_sub = (0..sub_partitions).map(count).collect();
    let add = |(waited, requested): (f64, u64), (_, one): (Core, &Arrays)| {
        let more: u64 = one.requested.iter().map(|count| u64::from(*count)).sum();
        (waited + one.waited_nanos as f64, requested + more)
    };
    let ask_nanos = match arrays.clone().into_iter().fold((0.0, 0), add) {
        (_, 0) => ASK_NANOS,
        (waited, requested) => waited / requested as f64,
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
    fn arrays_of_workers_are_added() {
        let mut one = Arrays::new(3, 4, 3, 16);
        let mut other = one.clone();
        for (arrays, sub, class) in [(0, 1, 0), (0, 1, 0), (1, 1, 1), (1, 3, 2), (1, 4, 0)] {
            // The last one is outside of the grid, and is not counted.
            [&mut one, &mut other][arrays].act(SubPartition(sub), class);
        }
        // Actions of the first class take 6 ns on average, of the second 9 ns, and the third is not
        // measured.
        one.measure(0, 1, 5);
        other.measure(0, 3, 19);
        other.measure(1, 1, 9);
        one.count_synchronization(subs(&[3, 0, 3]), 1, 100);
        other.count_synchronization(subs(&[0, 3]), 1, 20);
        other.count_synchronization(subs(&[2, 2]), 1, 1000);
        other.count_synchronization(subs(&[1, 2, 0]), 1, 9);
        let load = Load::gathered(3, 4, [(Core(0), &one), (Core(1), &other)]).expect("one map");
        assert_eq!(load.costs, [0.0, 21.0, 0.0, 33.0 / 5.0]);
        let set =
            |members: &[u32], count, bytes| SynchronizationPoint { members: subs(members), count, bytes };
        assert_eq!(load.meetings, [set(&[0, 1, 2], 1.0, 9.0), set(&[0, 3], 2.0, 120.0)]);
        assert_eq!((load.unrecorded, load.total()), (0.0, 27.6));
        one.rest(5);
        one.rest(6);
        assert_eq!(one.idle_nanos(), 11);
        one.clear(4, 4);
        assert_eq!(one, Arrays::new(4, 4, 3, 16));
        assert_eq!(Load::gathered(3, 4, [(Core(0), &one)]), Err(LoadError::Version { wanted: 3, found: 4 }));
        assert_eq!(Load::gathered(4, 5, [(Core(0), &one)]), Err(LoadError::Count { wanted: 5, found: 4 }));
    }

    #[test]
    fn costs_fit_into_the_interval() {
        let costs = vec![30.0, 10.0, 150.0, 50.0, 0.0];
        let mut load = Load::new(0, costs, Vec::new());
        load.fit_in(100.0, &[0, 0, 1, 1, 2].map(Core));
        assert_eq!(load.costs, [30.0, 10.0, 75.0, 25.0, 0.0]);
    }

    #[test]
    fn unrecorded_points_are_scaled() {
        let mut arrays = Arrays::new(0, 100, 1, 4);
        for round in 0..2 {
            (0..20).for_each(|sub| arrays.count_synchronization(subs(&[sub, sub + 1]), 1, 10 + round));
        }
        let load = Load::gathered(0, 100, [(Core(0), &arrays)]).expect("one map");
        assert_eq!(load.meetings.len(), 4);
        assert!((load.unrecorded - 0.8).abs() < 1e-9, "{}", load.unrecorded);
        let sum = |of: fn(&SynchronizationPoint) -> f64| load.meetings.iter().map(of).sum::<f64>();
        assert!((sum(|set| set.count) - 40.0).abs() < 1e-9);
        assert!((sum(|set| set.bytes) - 420.0).abs() < 1e-9);
    }

    #[test]
    fn large_synchronization_points_are_truncated() {
        let mut arrays = Arrays::new(0, 100, 1, 4);
        arrays.count_synchronization((0..20).rev().map(SubPartition), 1, 10);
        let load = Load::gathered(0, 100, [(Core(0), &arrays)]).expect("one map");
        assert_eq!(load.meetings[0].members, subs(&[12, 13, 14, 15, 16, 17, 18, 19]));
    }

    #[test]
    fn origins_of_transactions_are_gathered() {
        let mut one = Arrays::new(0, 2, 2, 4);
        let mut other = one.clone();
        // Without requests the cost is the estimate.
        let load = Load::gathered(0, 2, [(Core(3), &one)]).expect("one map");
        assert_eq!((load.draws.ask_nanos, load.draws.by_sub[0].all), (ASK_NANOS, 0.0));
        // The first worker owns both sub-partitions: its own transactions access the first, those
        // of the other worker the second.
        (0..50).for_each(|_| one.act(SubPartition(0), 0));
        for _ in 0..40 {
            other.count_request(SubPartition(1));
            one.act(SubPartition(1), 1);
        }
        other.wait(8_000);
        other.rest(5);
        let load = Load::gathered(0, 2, [(Core(3), &one), (Core(1), &other)]).expect("one map");
        let often: Vec<_> = load.draws.by_sub.iter().map(|drawn| drawn.often.clone()).collect();
        assert_eq!(often, [vec![(Core(3), 50.0)], vec![(Core(1), 40.0)]]);
        assert_eq!((load.draws.ask_nanos, other.idle_nanos()), (200.0, 8_005));
        other.clear(1, 3);
        assert_eq!(other, Arrays::new(1, 3, 2, 4));
    }
}
