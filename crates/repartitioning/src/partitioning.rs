//! The first search of the paper: groups sub-partitions by load alone.
//!
//! Source: ATraPos, section V. Cores are filled one after the other with sub-partitions until their
//! load exceeds the average. Then the most under-utilized core gets another sub-partition of one of
//! its tables (or of another table, if it already has all of its own tables) while imbalance falls.
//! After each improvement the search begins again with the core that is most under-utilized then.
//! Deviation: among sub-partitions that improve balance equally, one adjacent to the core's own is
//! preferred, so that fewer partitions result.

use crate::cores::Core;
use crate::draft::{Draft, SearchContext};

/// Order in which cores are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Table by table, as in the paper: a core has mostly one table.
    ByTable,
    /// By the share of the table's load before the sub-partition: a core has the same part of all
    /// tables.
    ByShare,
}

/// Assigns sub-partitions to cores by load alone, with at most `steps_max` steps.
pub(crate) fn assign_by_load<'a>(context: &'a SearchContext<'a>, order: Order, steps_max: u64) -> Draft<'a> {
    let mut draft = fill(context, order);
    while draft.steps < steps_max && improve(&mut draft) {}
    draft
}

fn fill<'a>(context: &'a SearchContext<'a>, order: Order) -> Draft<'a> {
    let mut subs: Vec<(f64, usize)> = Vec::new();
    for table in &context.tables {
        let cost: f64 = table.clone().map(|sub| context.cost(sub)).sum();
        let mut before = 0.0;
        for sub in table.clone() {
            // The middle of its part of the table's load, or of the table's sub-partitions if the
            // table has no load.
            let share = match cost > 0.0 {
                true => (before + context.cost(sub) / 2.0) / cost,
                false => (sub - table.start) as f64 / table.len() as f64,
            };
            before += context.cost(sub);
            subs.push((if order == Order::ByTable { 0.0 } else { share }, sub));
        }
    }
    subs.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let mut owners = vec![context.present[0]; subs.len()];
    let (mut place, mut load) = (0, 0.0);
    for (_, sub) in subs {
        owners[sub] = context.present[place];
        load += context.cost(sub);
        if load > context.mean && place + 1 < context.present.len() {
            (place, load) = (place + 1, 0.0);
        }
    }
    Draft::new(context, owners)
}

/// Makes one improvement. Returns false if there is none.
fn improve(draft: &mut Draft<'_>) -> bool {
    let mut poor: Vec<Core> = draft.context.present.clone();
    poor.retain(|core| draft.load(*core) < draft.context.mean);
    poor.sort_by(|one, other| draft.load(*one).total_cmp(&draft.load(*other)));
    for core in poor {
        if let Some(sub) = best_gift(draft, core) {
            draft.set(sub, core);
            return true;
        }
    }
    false
}

/// Returns the sub-partition whose move to `core` improves balance most: of the core's tables, or
/// of all tables if the core already has all of its own.
fn best_gift(draft: &mut Draft<'_>, core: Core) -> Option<usize> {
    let context = draft.context;
    let has = |table: &&std::ops::Range<usize>, own: bool| {
        draft.owners[(*table).clone()].iter().any(|owner| (*owner == core) == own)
    };
    let mut tables: Vec<_> = context.tables.iter().filter(|table| has(table, true)).collect();
    if !tables.iter().any(|table| has(table, false)) {
        tables = context.tables.iter().collect();
    }
    let mut best: Option<(f64, usize)> = None;
    for sub in tables.into_iter().flat_map(Clone::clone) {
        let owner = draft.owners[sub];
        // Taking load from a core with less than the mean gains nothing.
        if owner == core || draft.load(owner) <= context.mean {
            continue;
        }
        draft.steps += 1;
        let balance = draft.balance_delta(owner, core, context.cost(sub));
        if balance >= -context.least {
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

    /// Assigns one table of sub-partitions with these costs to two cores.
    fn owners(costs: &[f64]) -> Vec<u16> {
        let domain = Range { low: 0, end: costs.len() as u64 };
        let map = PartitionMap::even(&[(Table(0), "t", domain)], &[Core(0)]).expect("a map");
        let grid = Grid::of(&map);
        let load = Load::new(0, costs.to_vec(), Vec::new());
        let cores = square(1, 2);
        let context = SearchContext::new(Model { cores: &cores, load: &load }, &grid);
        let draft = assign_by_load(&context, Order::ByTable, 1000);
        draft.owners.iter().map(|core| core.0).collect()
    }

    #[test]
    fn cores_are_filled_and_balanced() {
        // Filled past the mean of 5: 3 + 3 and 4. No move improves it.
        assert_eq!(owners(&[3.0, 3.0, 4.0]), [0, 0, 1]);
        // Filled past the mean of 6: 4 + 4 and 3 + 1. Moving 4 to the second core would not improve
        // it.
        assert_eq!(owners(&[4.0, 4.0, 3.0, 1.0]), [0, 0, 1, 1]);
        // Past the mean of 8: 1 + 1 + 7 and 7; the first 1 moves and leaves 8 and 8, though it is
        // further away than the other one.
        let evened = owners(&[1.0, 1.0, 7.0, 7.0]);
        assert_eq!(evened.iter().filter(|core| **core == 1).count(), 2);
        assert!(evened[2] == 0 && evened[3] == 1);
        // There is no load at all.
        assert_eq!(owners(&[0.0; 4]), [0; 4]);
    }
}
