//! The second search of the paper: places sets of sub-partitions on cores by synchronization alone.
//!
//! Source: ATraPos, section V. The search starts with each table spread over the sockets. Then it
//! swaps the sets of cores in different sockets while TS improves, so that costly synchronization
//! points become local to a socket. A swap exchanges everything that two cores own, so it does not
//! change balance.

use std::collections::BTreeMap;

use crate::cores::Core;
use crate::draft::{Draft, SearchContext};
use crate::model::spread;

/// The sets of sub-partitions that cores own, each of which moves as a whole.
struct CoreSets {
    /// Current core of each set.
    core: Vec<Core>,
    /// Sets that synchronize, and the bytes exchanged.
    meetings: Vec<(Vec<usize>, f64)>,
    /// The synchronization points of each set.
    of_set: Vec<Vec<usize>>,
}

/// Places the sets of the cores of `draft`, with at most `steps_max` further steps.
pub(crate) fn place_by_synchronization(draft: &mut Draft<'_>, steps_max: u64) {
    let context = draft.context;
    let mut sets = CoreSets::of(draft);
    let before = draft.owners.clone();
    spread_tables(draft, &mut sets);
    let end = draft.steps + steps_max;
    while draft.steps < end && improve(context, &mut sets, &mut draft.steps, end) {}
    let place = |core: &Core| context.present.binary_search(core).ok();
    for (sub, owner) in before.iter().enumerate() {
        if let Some(set) = place(owner) {
            draft.set(sub, sets.core[set]);
        }
    }
}

impl CoreSets {
    fn of(draft: &Draft<'_>) -> Self {
        let context = draft.context;
        let mut meetings: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for point in &context.model.load.meetings {
            let set = |sub: &crate::grid::SubPartition| {
                context.present.binary_search(&draft.owners[sub.index()]).ok()
            };
            let mut sets: Vec<usize> = point.members.iter().filter_map(set).collect();
            sets.sort_unstable();
            sets.dedup();
            if sets.len() > 1 {
                *meetings.entry(sets).or_default() += point.bytes;
            }
        }
        let mut of_set = vec![Vec::new(); context.present.len()];
        for (number, sets) in meetings.keys().enumerate() {
            sets.iter().for_each(|set| of_set[*set].push(number));
        }
        CoreSets { core: context.present.clone(), meetings: meetings.into_iter().collect(), of_set }
    }

    fn cost(&self, context: &SearchContext<'_>, meeting: usize) -> f64 {
        let (sets, bytes) = &self.meetings[meeting];
        spread(context.model.cores, sets.iter().map(|set| context.socket(self.core[*set]))) * bytes
    }

    /// Returns the cost of the synchronization points of two sets, counting each once.
    fn pair_cost(&self, context: &SearchContext<'_>, one: usize, other: usize) -> f64 {
        let of_other = self.of_set[other].iter().filter(|number| !self.meetings[**number].0.contains(&one));
        self.of_set[one].iter().chain(of_other).map(|number| self.cost(context, *number)).sum()
    }
}

/// Assigns the sets of each table to sockets round-robin. A set belongs to the table with most of
/// its load.
fn spread_tables(draft: &Draft<'_>, sets: &mut CoreSets) {
    let context = draft.context;
    let mut of_table = vec![vec![0.0; context.tables.len()]; sets.core.len()];
    for (number, table) in context.tables.iter().enumerate() {
        for sub in table.clone() {
            if let Ok(set) = context.present.binary_search(&draft.owners[sub]) {
                of_table[set][number] += context.cost(sub);
            }
        }
    }
    let main = |set: &usize| {
        let loads = &of_table[*set];
        (0..loads.len()).max_by(|one, other| loads[*one].total_cmp(&loads[*other]).then(other.cmp(one)))
    };
    let mut order: Vec<usize> = (0..sets.core.len()).collect();
    order.sort_by_key(|set| (main(set), *set));
    let mut free: Vec<Vec<Core>> = vec![Vec::new(); context.model.cores.socket_count()];
    context.present.iter().rev().for_each(|core| free[context.socket(*core)].push(*core));
    let sockets = free.len();
    let mut turn = 0;
    for set in order {
        while free[turn % sockets].is_empty() {
            turn += 1;
        }
        sets.core[set] = free[turn % sockets].pop().expect("it was not empty");
        turn += 1;
    }
}

/// Makes a pass over the synchronization points, the costliest first. Returns true if a swap
/// improved TS.
fn improve(context: &SearchContext<'_>, sets: &mut CoreSets, steps: &mut u64, end: u64) -> bool {
    let mut order: Vec<(f64, usize)> =
        (0..sets.meetings.len()).map(|number| (sets.cost(context, number), number)).collect();
    order.retain(|(cost, _)| *cost > 0.0);
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut improved = false;
    for (_, number) in order {
        let mut best: Option<(f64, usize, usize)> = None;
        let members = sets.meetings[number].0.clone();
        for mover in &members {
            for other in 0..sets.core.len() {
                let socket = context.socket(sets.core[other]);
                let is_there = |set: &usize| context.socket(sets.core[*set]) == socket;
                if members.contains(&other) || is_there(mover) || !members.iter().any(is_there) {
                    continue;
                }
                let before = sets.pair_cost(context, *mover, other);
                sets.core.swap(*mover, other);
                let delta = sets.pair_cost(context, *mover, other) - before;
                sets.core.swap(*mover, other);
                *steps += 1 + (sets.of_set[*mover].len() + sets.of_set[other].len()) as u64;
                if delta < best.map_or(-context.least, |(least, ..)| least) {
                    best = Some((delta, *mover, other));
                }
            }
            if *steps >= end {
                return improved;
            }
        }
        if let Some((_, one, other)) = best {
            sets.core.swap(one, other);
            improved = true;
        }
    }
    improved
}
