//! Making an assignment better step by step, by load and synchronization together.
//!
//! Not of the paper, whose two searches look at one of them each: what balances load cuts through
//! sub-partitions that meet, and swaps of whole cores cannot mend that. Sub-partitions go to where
//! the cost falls most, one by one or with those that they meet, or change places; at the end, as
//! long as there are steps left, some go anywhere, and the search begins again from there.

use crate::cores::Core;
use crate::draft::Draft;
use terms::random::SplitMix;

/// Sub-partitions of another core that one is tried to change places with: those whose costs are
/// the nearest.
const PARTNERS_MAX: usize = 12;
/// Meetings of a sub-partition whose other members' cores are tried.
const MEETINGS_MAX: usize = 6;
/// Sub-partitions that meet and are tried to go together, at most.
const GROUP_MAX: usize = 16;
/// Sub-partitions that go anywhere at once.
const KICKED: u64 = 3;
/// Attempts to begin again that change nothing, after which the search ends.
const FRUITLESS_MAX: u32 = 60;

/// Numbers that look random, the same for the same seed.
struct Numbers(SplitMix);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }
}

/// Improves `draft` until nothing more is found, or it has taken `steps_max` steps.
pub(crate) fn refine(draft: &mut Draft<'_>, steps_max: u64) {
    loop {
        while draft.steps < steps_max && pass(draft, steps_max, false) {}
        if draft.steps >= steps_max || !pass(draft, steps_max, true) {
            return;
        }
    }
}

/// Begins again and again from places near `draft`, which becomes the best that was found, within
/// `steps_max` steps.
pub(crate) fn explore(draft: &mut Draft<'_>, seed: u64, steps_max: u64) {
    let mut numbers = Numbers(SplitMix::new(seed));
    let (subs, cores) = (draft.owners.len(), draft.ground.present.len());
    if subs == 0 || cores < 2 {
        return;
    }
    let mut best = draft.cost();
    let mut fruitless = 0;
    while fruitless < FRUITLESS_MAX && draft.steps < steps_max {
        let mut other = draft.clone();
        for _ in 0..KICKED {
            let sub = numbers.below(subs);
            other.set(sub, draft.ground.present[numbers.below(cores)]);
        }
        refine(&mut other, steps_max);
        let cost = other.cost();
        draft.steps = other.steps;
        match cost < best - draft.ground.least {
            true => {
                (best, fruitless) = (cost, 0);
                *draft = other;
            }
            false => fruitless += 1,
        }
    }
}

/// Sends what belongs to cores that are not present to those that have least, the costliest first.
pub(crate) fn rescue(draft: &mut Draft<'_>) {
    let ground = draft.ground;
    let is_lost = |core: Core| !ground.model.cores.is_present(core);
    let mut lost: Vec<usize> = (0..draft.owners.len()).filter(|sub| is_lost(draft.owners[*sub])).collect();
    lost.sort_by(|one, other| ground.cost(*other).total_cmp(&ground.cost(*one)).then(one.cmp(other)));
    for sub in lost {
        let least = ground
            .present
            .iter()
            .copied()
            .min_by(|one, other| draft.load(*one).total_cmp(&draft.load(*other)).then(one.cmp(other)));
        draft.set(sub, least.expect("a core is present"));
    }
}

/// Looks at each sub-partition once, the costliest first; whether something has improved.
fn pass(draft: &mut Draft<'_>, steps_max: u64, swaps: bool) -> bool {
    let ground = draft.ground;
    let mut order: Vec<usize> = (0..draft.owners.len()).collect();
    order.sort_by(|one, other| ground.cost(*other).total_cmp(&ground.cost(*one)).then(one.cmp(other)));
    let mut of_core = vec![Vec::new(); draft.loads.len()];
    order.iter().for_each(|sub| of_core[draft.owners[*sub].index()].push(*sub));
    let mut improved = false;
    let mut targets = Vec::new();
    for sub in order {
        if draft.steps >= steps_max {
            return improved;
        }
        find_targets(draft, sub, &mut targets);
        let mut best = (-ground.least, None);
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
        if let Some((others, target)) = together(draft, sub, &targets, single) {
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

/// The sub-partition with all of its core that it meets, directly or through others, and the core
/// with least load, there or in any socket, where all of them are better off than `single` says
/// that it is alone. From a core with too much they go where one alone would leave the others
/// behind.
fn together(draft: &mut Draft<'_>, sub: usize, targets: &[Core], single: f64) -> Option<(Vec<usize>, Core)> {
    let ground = draft.ground;
    let owner = draft.owners[sub];
    if draft.load(owner) <= ground.mean {
        return None;
    }
    let mut group = vec![sub];
    let mut next = 0;
    while next < group.len() && group.len() <= GROUP_MAX {
        for number in ground.meetings[group[next]].iter().take(MEETINGS_MAX) {
            for other in &ground.model.load.meetings[*number as usize].members {
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
        let there = |core: &&Core| !near || ground.socket(**core) == ground.socket(owner);
        let by_load = |one: &&Core, other: &&Core| draft.load(**one).total_cmp(&draft.load(**other));
        targets.iter().filter(there).min_by(by_load).copied()
    };
    let mut best = (single.min(-ground.least), None);
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

/// The cores that a sub-partition may be better with: those with least load in each socket, of its
/// neighbours, of those that it meets, and of those whose transactions act on it.
fn find_targets(draft: &Draft<'_>, sub: usize, targets: &mut Vec<Core>) {
    let ground = draft.ground;
    targets.clear();
    let owner = draft.owners[sub];
    let has_meetings = !ground.meetings[sub].is_empty();
    let draws = &ground.model.load.draws;
    let is_elsewhere = draws.often(sub).next().is_some_and(|core| core != owner);
    // With less than the mean, nobody to meet and nobody else who asks for it, nothing is gained
    // elsewhere.
    if !has_meetings
        && !is_elsewhere
        && draft.load(owner) <= ground.mean
        && ground.model.cores.is_present(owner)
    {
        return;
    }
    let mut least: Vec<Option<Core>> = vec![None; ground.model.cores.socket_count()];
    for core in &ground.present {
        let of_socket = &mut least[ground.socket(*core)];
        if of_socket.is_none_or(|other| draft.load(*core) < draft.load(other)) {
            *of_socket = Some(*core);
        }
    }
    targets.extend(least.into_iter().flatten());
    let beside = [sub.checked_sub(1), (sub + 1 < draft.owners.len()).then_some(sub + 1)];
    targets.extend(beside.into_iter().flatten().map(|other| draft.owners[other]));
    for number in ground.meetings[sub].iter().take(MEETINGS_MAX) {
        let members = &ground.model.load.meetings[*number as usize].members;
        targets.extend(members.iter().map(|other| draft.owners[other.index()]));
    }
    targets.extend(draws.often(sub));
    targets.sort_unstable();
    targets.dedup();
    targets.retain(|core| *core != owner && ground.model.cores.is_present(*core));
}

/// Lets a sub-partition change places with one of a core in `targets`, where that improves most;
/// whether it did. `of_core` is what cores had when the pass began, the costliest first.
fn swap(draft: &mut Draft<'_>, sub: usize, targets: &[Core], of_core: &[Vec<usize>]) -> bool {
    let ground = draft.ground;
    let mut best = (-ground.least, None);
    for target in targets {
        let others = &of_core[target.index()];
        let near = others.partition_point(|other| ground.cost(*other) > ground.cost(sub));
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
