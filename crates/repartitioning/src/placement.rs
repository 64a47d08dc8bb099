//! Which core has what is together: the second search of the paper, by synchronization alone.
//!
//! Source: ATraPos, section V. It starts from each table spread over the sockets; then what cores
//! have is swapped between sockets, so that costly synchronization points become local to one,
//! while TS improves. A swap takes all that two cores have, so balance stays as it is.

use std::collections::BTreeMap;

use crate::cores::Core;
use crate::draft::{Draft, Ground};
use crate::model::spread;

/// The sub-partitions of the cores of a partitioning, in sets that move as a whole.
struct Sets {
    /// By set: the core that has it now.
    core: Vec<Core>,
    /// Sets that meet, and their bytes.
    meetings: Vec<(Vec<usize>, f64)>,
    /// By set: its meetings.
    of_set: Vec<Vec<usize>>,
}

/// Places what the cores of `draft` have, with at most so many steps more.
pub(crate) fn by_synchronization(draft: &mut Draft<'_>, steps_max: u64) {
    let ground = draft.ground;
    let mut sets = Sets::of(draft);
    let before = draft.owners.clone();
    spread_tables(draft, &mut sets);
    let end = draft.steps + steps_max;
    while draft.steps < end && improve(ground, &mut sets, &mut draft.steps, end) {}
    let place = |core: &Core| ground.present.binary_search(core).ok();
    for (sub, owner) in before.iter().enumerate() {
        if let Some(set) = place(owner) {
            draft.set(sub, sets.core[set]);
        }
    }
}

impl Sets {
    fn of(draft: &Draft<'_>) -> Self {
        let ground = draft.ground;
        let mut meetings: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for met in &ground.model.load.meetings {
            let set = |sub: &crate::grid::SubPartition| {
                ground.present.binary_search(&draft.owners[sub.index()]).ok()
            };
            let mut sets: Vec<usize> = met.members.iter().filter_map(set).collect();
            sets.sort_unstable();
            sets.dedup();
            if sets.len() > 1 {
                *meetings.entry(sets).or_default() += met.bytes;
            }
        }
        let mut of_set = vec![Vec::new(); ground.present.len()];
        for (number, sets) in meetings.keys().enumerate() {
            sets.iter().for_each(|set| of_set[*set].push(number));
        }
        Sets { core: ground.present.clone(), meetings: meetings.into_iter().collect(), of_set }
    }

    fn cost(&self, ground: &Ground<'_>, meeting: usize) -> f64 {
        let (sets, bytes) = &self.meetings[meeting];
        spread(ground.model.cores, sets.iter().map(|set| ground.socket(self.core[*set]))) * bytes
    }

    /// The cost of the synchronization points of two sets, each counted once.
    fn both(&self, ground: &Ground<'_>, (one, other): (usize, usize)) -> f64 {
        let of_other = self.of_set[other].iter().filter(|number| !self.meetings[**number].0.contains(&one));
        self.of_set[one].iter().chain(of_other).map(|number| self.cost(ground, *number)).sum()
    }
}

/// Gives the sets of each table, by what most of a set's load is of, to sockets in turns.
fn spread_tables(draft: &Draft<'_>, sets: &mut Sets) {
    let ground = draft.ground;
    let mut of_table = vec![vec![0.0; ground.tables.len()]; sets.core.len()];
    for (number, table) in ground.tables.iter().enumerate() {
        for sub in table.clone() {
            if let Ok(set) = ground.present.binary_search(&draft.owners[sub]) {
                of_table[set][number] += ground.cost(sub);
            }
        }
    }
    let main = |set: &usize| {
        let loads = &of_table[*set];
        (0..loads.len()).max_by(|one, other| loads[*one].total_cmp(&loads[*other]).then(other.cmp(one)))
    };
    let mut order: Vec<usize> = (0..sets.core.len()).collect();
    order.sort_by_key(|set| (main(set), *set));
    let mut free: Vec<Vec<Core>> = vec![Vec::new(); ground.model.cores.socket_count()];
    ground.present.iter().rev().for_each(|core| free[ground.socket(*core)].push(*core));
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

/// One pass over the meetings, the costliest first; whether a swap has improved TS.
fn improve(ground: &Ground<'_>, sets: &mut Sets, steps: &mut u64, end: u64) -> bool {
    let mut order: Vec<(f64, usize)> =
        (0..sets.meetings.len()).map(|number| (sets.cost(ground, number), number)).collect();
    order.retain(|(cost, _)| *cost > 0.0);
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut improved = false;
    for (_, number) in order {
        let mut best: Option<(f64, usize, usize)> = None;
        let members = sets.meetings[number].0.clone();
        for mover in &members {
            for other in 0..sets.core.len() {
                let socket = ground.socket(sets.core[other]);
                let is_there = |set: &usize| ground.socket(sets.core[*set]) == socket;
                if members.contains(&other) || is_there(mover) || !members.iter().any(is_there) {
                    continue;
                }
                let before = sets.both(ground, (*mover, other));
                sets.core.swap(*mover, other);
                let delta = sets.both(ground, (*mover, other)) - before;
                sets.core.swap(*mover, other);
                *steps += 1 + (sets.of_set[*mover].len() + sets.of_set[other].len()) as u64;
                if delta < best.map_or(-ground.least, |(least, ..)| least) {
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
