//! Local search: improves an assignment step by step, by load and synchronization together.
//!
//! This search is not in the paper, whose two searches consider load and synchronization
//! separately: balancing the load separates sub-partitions that synchronize, and swaps of whole
//! cores cannot repair that. A sub-partition moves to the core at which the cost falls most, alone
//! or with the sub-partitions that it synchronizes with, or swaps its core with another one. At the
//! end, while steps are left, some sub-partitions move to random cores, and the search begins again
//! from there.

use crate::cores::Core;
use crate::draft::Draft;
use terms::random::SplitMix;

/// Sub-partitions of another core that are tried for a swap: those with the most similar costs.
const PARTNERS_MAX: usize = 12;
/// Synchronization points of a sub-partition whose members' cores are tried.
const SYNCHRONIZATION_SETS_MAX: usize = 6;
/// Most sub-partitions that are moved as a group.
const GROUP_MAX: usize = 16;
/// Sub-partitions that move to random cores at a restart.
const KICKED: u64 = 3;
/// The search ends after this many restarts without an improvement.
const FRUITLESS_MAX: u32 = 60;

/// A seeded generator of random numbers.
struct Numbers(SplitMix);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }
}

/// Improves `draft` until no improvement is found, or after `steps_max` steps.
pub(crate) fn refine(draft: &mut Draft<'_>, steps_max: u64) {
    loop {
        while draft.steps < steps_max && pass(draft, steps_max, false) {}
        if draft.steps >= steps_max || !pass(draft, steps_max, true) {
            return;
        }
    }
}

/// Restarts from assignments near `draft`, within `steps_max` steps. `draft` becomes the best
/// assignment found.
pub(crate) fn explore(draft: &mut Draft<'_>, seed: u64, steps_max: u64) {
    let mut numbers = Numbers(SplitMix::new(seed));
    let (subs, cores) = (draft.owners.len(), draft.context.present.len());
    if subs == 0 || cores < 2 {
        return;
    }
    let mut best = draft.cost();
    let mut fruitless = 0;
    while fruitless < FRUITLESS_MAX && draft.steps < steps_max {
        let mut other = draft.clone();
        for _ in 0..KICKED {
            let sub = numbers.below(subs);
            other.set(sub, draft.context.present[numbers.below(cores)]);
        }
        refine(&mut other, steps_max);
        let cost = other.cost();
        draft.steps = other.steps;
        match cost < best - draft.context.least {
            true => {
                (best, fruitless) = (cost, 0);
                *draft = other;
            }
            false => fruitless += 1,
        }
    }
}

/// Moves the sub-partitions of cores that are not present to the cores with the least load, the
/// costliest first.
pub(crate) fn rescue(draft: &mut Draft<'_>) {
    let context = draft.context;
    let is_lost = |core: Core| !context.model.cores.is_present(core);
    let mut lost: Vec<usize> = (0..draft.owners.len()).filter(|sub| is_lost(draft.owners[*sub])).collect();
    lost.sort_by(|one, other| context.cost(*other).total_cmp(&context.cost(*one)).then(one.cmp(other)));
    for sub in lost {
        let least = context
            .present
            .iter()
            .copied()
            .min_by(|one, other| draft.load(*one).total_cmp(&draft.load(*other)).then(one.cmp(other)));
        draft.set(sub, least.expect("a core is present"));
    }
}

/// Tries to improve each sub-partition once, the costliest first. Returns true if one improved.
fn pass(draft: &mut Draft<'_>, steps_max: u64, swaps: bool) -> bool {
    let context = draft.context;
    let mut order: Vec<usize> = (0..draft.owners.len()).collect();
    order.sort_by(|one, other| context.cost(*other).total_cmp(&context.cost(*one)).then(one.cmp(other)));
    let mut of_core = vec![Vec::new(); draft.loads.len()];
    order.iter().for_each(|sub| of_core[draft.owners[*sub].index()].push(*sub));
    let mut improved = false;
    let mut targets = Vec::new();
    for sub in order {
        if draft.steps >= steps_max {
            return improved;
        }
        find_targets(draft, sub, &mut targets);
        let mut best = (-context.least, None);
        let saved_max = if targets.is_empty() { 0.0 } else { draft.synchronization(sub) };
        for target in &targets {
            if draft.cheap_delta(sub, *target) - saved_max >= best.0 {
                continue;
            }
            let delta = draft.move_delta(sub, *target);
            if delta < best.0 {
                best = (delta, Some(*target));
            }
        }
        let single = best.0;
        if let Some((others, target)) = find_group_move(draft, sub, &targets, single) {
            others.into_iter().for_each(|other| draft.set(other, target));
            improved = true;
        } else if let Some(target) = best.1 {
            draft.set(sub, target);
            improved = true;
        } else if swaps {
            improved |= swap(draft, sub, &targets, &of_core);
        }
    }
    improved
}

/// Finds a group move: the sub-partition with all sub-partitions of its core that it synchronizes
/// with, directly or indirectly, to the core with the least load in the same socket or in any
/// socket. Returns the group and the core if that improves the cost by more than `single`, the best
/// move of the sub-partition alone. Only overloaded cores give groups away.
fn find_group_move(
    draft: &mut Draft<'_>,
    sub: usize,
    targets: &[Core],
    single: f64,
) -> Option<(Vec<usize>, Core)> {
    let context = draft.context;
    let owner = draft.owners[sub];
    if draft.load(owner) <= context.mean {
        return None;
    }
    let mut group = vec![sub];
    let mut next = 0;
    while next < group.len() && group.len() <= GROUP_MAX {
        for number in context.meetings[group[next]].iter().take(SYNCHRONIZATION_SETS_MAX) {
            for other in &context.model.load.meetings[*number as usize].members {
                if draft.owners[other.index()] == owner && !group.contains(&other.index()) {
                    group.push(other.index());
                }
            }
        }
        next += 1;
    }
    if group.len() < 2 || group.len() > GROUP_MAX {
        return None;
    }
    let least = |near: bool| {
        let there = |core: &&Core| !near || context.socket(**core) == context.socket(owner);
        let assign_by_load = |one: &&Core, other: &&Core| draft.load(**one).total_cmp(&draft.load(**other));
        targets.iter().filter(there).min_by(assign_by_load).copied()
    };
    let mut best = (single.min(-context.least), None);
    for target in [least(true), least(false)].into_iter().flatten() {
        let mut delta = 0.0;
        for other in &group {
            delta += draft.move_delta(*other, target);
            draft.set(*other, target);
        }
        group.iter().for_each(|other| draft.set(*other, owner));
        if delta < best.0 {
            best = (delta, Some(target));
        }
    }
    best.1.map(|target| (group, target))
}

/// Finds the cores that may be better owners of a sub-partition: the least loaded core of each
/// socket, the owners of its neighbours and of the sub-partitions that it synchronizes with, and
/// the cores whose transactions access it.
fn find_targets(draft: &Draft<'_>, sub: usize, targets: &mut Vec<Core>) {
    let context = draft.context;
    targets.clear();
    let owner = draft.owners[sub];
    let has_meetings = !context.meetings[sub].is_empty();
    let draws = &context.model.load.draws;
    let is_elsewhere = draws.often(sub).next().is_some_and(|core| core != owner);
    // If the owner has less than the mean load, and the sub-partition has no synchronization points
    // and no requests from other cores, no other core is better.
    if !has_meetings
        && !is_elsewhere
        && draft.load(owner) <= context.mean
        && context.model.cores.is_present(owner)
    {
        return;
    }
    let mut least: Vec<Option<Core>> = vec![None; context.model.cores.socket_count()];
    for core in &context.present {
        let of_socket = &mut least[context.socket(*core)];
        if of_socket.is_none_or(|other| draft.load(*core) < draft.load(other)) {
            *of_socket = Some(*core);
        }
    }
    targets.extend(least.into_iter().flatten());
    let beside = [sub.checked_sub(1), (sub + 1 < draft.owners.len()).then_some(sub + 1)];
    targets.extend(beside.into_iter().flatten().map(|other| draft.owners[other]));
    for number in context.meetings[sub].iter().take(SYNCHRONIZATION_SETS_MAX) {
        let members = &context.model.load.meetings[*number as usize].members;
        targets.extend(members.iter().map(|other| draft.owners[other.index()]));
    }
    targets.extend(draws.often(sub));
    targets.sort_unstable();
    targets.dedup();
    targets.retain(|core| *core != owner && context.model.cores.is_present(*core));
}

/// Swaps a sub-partition with one of a core in `targets`, choosing the swap that improves most.
/// Returns true if there was one. `of_core` has the sub-partitions of each core at the begin of the
/// pass, the costliest first.
fn swap(draft: &mut Draft<'_>, sub: usize, targets: &[Core], of_core: &[Vec<usize>]) -> bool {
    let context = draft.context;
    let mut best = (-context.least, None);
    for target in targets {
        let others = &of_core[target.index()];
        let near = others.partition_point(|other| context.cost(*other) > context.cost(sub));
        let first = near.saturating_sub(PARTNERS_MAX / 2);
        for other in others.iter().skip(first).take(PARTNERS_MAX) {
            if draft.owners[*other] != *target {
                continue;
            }
            let delta = draft.swap_delta(sub, *other);
            if delta < best.0 {
                best = (delta, Some(*other));
            }
        }
    }
    let Some(other) = best.1 else { return false };
    let (from, to) = (draft.owners[sub], draft.owners[other]);
    draft.set(sub, to);
    draft.set(other, from);
    true
}
