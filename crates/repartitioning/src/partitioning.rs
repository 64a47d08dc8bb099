//! Which sub-partitions are together: the first search of the paper, by load alone.
//!
//! Source: ATraPos, section V. Cores are filled one after the other with sub-partitions until their
//! load exceeds the average. Then the most under-utilized core is given another sub-partition of
//! one of its tables (of another table, if it has all of its own) while imbalance falls; after each
//! improvement the search begins again with the core that is under-utilized most then. Deviation:
//! of several sub-partitions that improve as much, one beside what the core has already is taken,
//! so that fewer partitions come of it.

use crate::cores::Core;
use crate::draft::{Draft, Ground};

/// In which order cores are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Table by table, as in the paper: a core has little but one table.
    ByTable,
    /// By the share of its table that lies before the sub-partition: a core has the same part of
    /// all tables.
    ByShare,
}

/// Gives sub-partitions to cores by load alone, with at most so many steps.
pub(crate) fn by_load<'a>(ground: &'a Ground<'a>, order: Order, steps_max: u64) -> Draft<'a> {
    let mut draft = fill(ground, order);
    while draft.steps < steps_max && improve(&mut draft) {}
    draft
}

fn fill<'a>(ground: &'a Ground<'a>, order: Order) -> Draft<'a> {
    let mut subs: Vec<(f64, usize)> = Vec::new();
    for table in &ground.tables {
        let cost: f64 = table.clone().map(|sub| ground.cost(sub)).sum();
        let mut before = 0.0;
        for sub in table.clone() {
            // The middle of its part of the table's load; of its sub-partitions, if nothing was
            // done there.
            let share = match cost > 0.0 {
                true => (before + ground.cost(sub) / 2.0) / cost,
                false => (sub - table.start) as f64 / table.len() as f64,
            };
            before += ground.cost(sub);
            subs.push((if order == Order::ByTable { 0.0 } else { share }, sub));
        }
    }
    subs.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let mut owners = vec![ground.present[0]; subs.len()];
    let (mut place, mut load) = (0, 0.0);
    for (_, sub) in subs {
        owners[sub] = ground.present[place];
        load += ground.cost(sub);
        if load > ground.mean && place + 1 < ground.present.len() {
            (place, load) = (place + 1, 0.0);
        }
    }
    Draft::new(ground, owners)
}

/// One improvement; whether there was one.
fn improve(draft: &mut Draft<'_>) -> bool {
    let mut poor: Vec<Core> = draft.ground.present.clone();
    poor.retain(|core| draft.load(*core) < draft.ground.mean);
    poor.sort_by(|one, other| draft.load(*one).total_cmp(&draft.load(*other)));
    for core in poor {
        if let Some(sub) = best_gift(draft, core) {
            draft.set(sub, core);
            return true;
        }
    }
    false
}

/// The sub-partition whose going to `core` improves balance most: of the core's tables, or of all
/// if there is no other of them.
fn best_gift(draft: &mut Draft<'_>, core: Core) -> Option<usize> {
    let ground = draft.ground;
    let has = |table: &&std::ops::Range<usize>, own: bool| {
        draft.owners[(*table).clone()].iter().any(|owner| (*owner == core) == own)
    };
    let mut tables: Vec<_> = ground.tables.iter().filter(|table| has(table, true)).collect();
    if !tables.iter().any(|table| has(table, false)) {
        tables = ground.tables.iter().collect();
    }
    let mut best: Option<(f64, usize)> = None;
    for sub in tables.into_iter().flat_map(Clone::clone) {
        let owner = draft.owners[sub];
        // From a core with less than the mean nothing is gained.
        if owner == core || draft.load(owner) <= ground.mean {
            continue;
        }
        draft.steps += 1;
        let balance = draft.balance_delta(owner, core, ground.cost(sub));
        if balance >= -ground.least {
            continue;
        }
        let delta = balance + draft.boundary_delta(sub, core);
        if best.is_none_or(|(least, _)| delta < least) {
            best = Some((delta, sub));
        }
    }
    best.map(|(_, sub)| sub)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::testing::square;
    use crate::grid::Grid;
    use crate::load::Load;
    use crate::map::{PartitionMap, Range, Table};
    use crate::model::Model;

    /// One table of so many sub-partitions with these costs on two cores.
    fn owners(costs: &[f64]) -> Vec<u16> {
        let domain = Range { low: 0, end: costs.len() as u64 };
        let map = PartitionMap::even(&[(Table(0), "t", domain)], &[Core(0)]).expect("a map");
        let grid = Grid::of(&map);
        let load = Load::new(0, costs.to_vec(), Vec::new());
        let cores = square(1, 2);
        let ground = Ground::new(Model { cores: &cores, load: &load }, &grid);
        let draft = by_load(&ground, Order::ByTable, 1000);
        draft.owners.iter().map(|core| core.0).collect()
    }

    #[test]
    fn cores_are_filled_and_evened_out() {
        // Filled past the mean of 5: 3 + 3 and 4. No gift improves it.
        assert_eq!(owners(&[3.0, 3.0, 4.0]), [0, 0, 1]);
        // Filled past the mean of 6: 4 + 4 and 3 + 1. Going over to the second core, 4 would worsen
        // it.
        assert_eq!(owners(&[4.0, 4.0, 3.0, 1.0]), [0, 0, 1, 1]);
        // Past the mean of 8: 1 + 1 + 7 and 7; the first 1 goes over and leaves 8 and 8, though it
        // lies further away than the other one.
        let evened = owners(&[1.0, 1.0, 7.0, 7.0]);
        assert_eq!(evened.iter().filter(|core| **core == 1).count(), 2);
        assert!(evened[2] == 0 && evened[3] == 1);
        // Nothing is done at all.
        assert_eq!(owners(&[0.0; 4]), [0; 4]);
    }
}
