//! Search for a better map for a load: both searches of the paper, the local search that improves
//! their results, and the choice among them.
//!
//! Three assignments are refined: that of the paper (by load, then by synchronization); one in
//! which each core has the same part of all tables, which is better if tables synchronize in the
//! same part; and the current one. The current one is preferred if it comes near the best, because
//! it needs the fewest changes.

use serde::{Deserialize, Serialize};

use crate::cores::{Core, Cores};
use crate::difference::difference;
use crate::draft::{Draft, SearchContext};
use crate::grid::Grid;
use crate::load::{Load, LoadError};
use crate::map::{Change, MapError, PartitionMap};
use crate::model::{Figures, Model};
use crate::partitioning::{Order, assign_by_load};
use crate::placement::place_by_synchronization;
use crate::refining::{explore, refine, rescue};

/// Effort and method of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Most cost differences that the search computes in total.
    pub steps_max: u64,
    /// Seed of its random choices.
    pub seed: u64,
    /// True if the search is limited to the method of the paper.
    pub plain: bool,
}

impl Search {
    /// Approximate nanoseconds of a step: 400,000 steps take 25 to 32 ms (docs/adaptation.md).
    pub const STEP_NANOS: u64 = 75;
    /// Steps of a search without a time limit.
    pub const STEPS_MAX: u64 = 400_000;
    /// Fewest useful steps.
    const STEPS_MIN: u64 = 20_000;

    /// Returns a search that takes about this time, within the limits of steps.
    pub fn within(seconds: f64) -> Self {
        let steps = (seconds * 1e9) as u64 / Search::STEP_NANOS;
        Search { steps_max: steps.clamp(Search::STEPS_MIN, Search::STEPS_MAX), ..Search::default() }
    }
}

impl Default for Search {
    fn default() -> Self {
        Search { steps_max: Search::STEPS_MAX, seed: 0, plain: false }
    }
}

/// Cost that may be given up to keep the current assignment, as a share of the load: each change of
/// a map takes time, and pays less if the map is already good.
const NEAR: f64 = 0.02;

/// The assignment from which the best map came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProposalOrigin {
    /// The current one, improved.
    Current,
    /// The one filled table by table and placed by synchronization.
    ByTable,
    /// The one in which each core has the same part of all tables.
    ByShare,
}

/// Error of a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// No core is present.
    #[error("no core is present: partitions cannot belong to anybody")]
    NoCores,
    /// The load belongs to another map.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The map names other cores; anything else is a bug.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// A better map for a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The map.
    pub map: PartitionMap,
    /// The changes that lead to it.
    pub changes: Vec<Change>,
    /// Costs under the current map.
    pub before: Figures,
    /// Costs under the proposed map.
    pub after: Figures,
    /// Synchronization between sockets under the current and under the proposed map
    /// ([`Model::socket_pairs`]).
    pub pairs: [Vec<Vec<f64>>; 2],
    /// Share of the load that moves to another core.
    pub moved: f64,
    /// The assignment from which it came.
    pub way: ProposalOrigin,
    /// Cost differences computed.
    pub steps: u64,
}

/// Searches for the best map for `load` over the cores that are present. The load belongs to `map`.
///
/// # Errors
/// [`SearchError`]: no core is present, or load, map and cores do not belong together.
pub fn search(map: &PartitionMap, cores: &Cores, load: &Load, how: Search) -> Result<Proposal, SearchError> {
    if cores.present().next().is_none() {
        return Err(SearchError::NoCores);
    }
    map.check_owners(|core| core.index() < cores.count())?;
    let grid = Grid::of(map);
    if load.version != map.version() {
        return Err(LoadError::Version { wanted: map.version(), found: load.version }.into());
    }
    if load.costs.len() != grid.count() {
        return Err(LoadError::Count { wanted: grid.count(), found: load.costs.len() }.into());
    }
    let model = Model { cores, load };
    let context = SearchContext::new(model, &grid);
    let (best, way, steps) = best(&context, &grid, how);
    let owners = relabelled(&context, best, grid.owners());
    let next = grid.map(&owners)?;
    let moved = grid.owners().iter().zip(&owners).zip(&load.costs);
    let moved: f64 = moved.filter(|((before, after), _)| before != after).map(|(_, cost)| cost).sum();
    Ok(Proposal {
        changes: difference(map, &next)?,
        map: next,
        before: model.figures(grid.owners()),
        after: model.figures(&owners),
        pairs: [model.socket_pairs(grid.owners()), model.socket_pairs(&owners)],
        moved: if moved > 0.0 { moved / load.total() } else { 0.0 },
        way,
        steps,
    })
}

/// Returns the best assignment, its origin, and the number of steps.
fn best(context: &SearchContext<'_>, grid: &Grid, how: Search) -> (Vec<Core>, ProposalOrigin, u64) {
    // Each of the three gets a quarter of the steps, and the restarts get the last quarter.
    let part = how.steps_max / 4;
    let mut plain = assign_by_load(context, Order::ByTable, part / 3);
    place_by_synchronization(&mut plain, part / 3);
    if how.plain {
        return (plain.owners, ProposalOrigin::ByTable, plain.steps);
    }
    let mut current = Draft::new(context, grid.owners().to_vec());
    rescue(&mut current);
    let aligned = assign_by_load(context, Order::ByShare, part / 3);
    let mut found = [
        (current, ProposalOrigin::Current),
        (plain, ProposalOrigin::ByTable),
        (aligned, ProposalOrigin::ByShare),
    ];
    found.iter_mut().for_each(|(draft, _)| refine(draft, part));
    let mut steps: u64 = found.iter().map(|(draft, _)| draft.steps).sum();
    let near = NEAR * context.model.load.total();
    // The current assignment is preferred among equals.
    let costs = found.each_ref().map(|(draft, _)| draft.cost());
    let least = (1..costs.len()).fold(0, |least, one| {
        let given_up = if least == 0 { near } else { 0.0 };
        if costs[one] < costs[least] - given_up { one } else { least }
    });
    let (mut draft, way) = found.into_iter().nth(least).expect("there are three");
    draft.steps = 0;
    explore(&mut draft, how.seed, how.steps_max.saturating_sub(steps));
    steps += draft.steps;
    (draft.owners, way, steps)
}

/// Permutes the cores within each socket to minimize first the waits for owners, then the load that
/// moves. Balance and synchronization do not change.
fn relabelled(context: &SearchContext<'_>, owners: Vec<Core>, before: &[Core]) -> Vec<Core> {
    let count = context.model.cores.count();
    let mut kept = vec![0.0; count * count];
    // A sub-partition without load has a small weight.
    let little = context.mean * 1e-6 + f64::MIN_POSITIVE;
    for (sub, (owner, former)) in owners.iter().zip(before).enumerate() {
        kept[owner.index() * count + former.index()] += NEAR * (context.cost(sub) + little);
        for (core, saved) in context.model.load.draws.saved(sub) {
            kept[owner.index() * count + core.index()] += saved;
        }
    }
    let mut pairs: Vec<(Core, Core)> = Vec::new();
    for one in &context.present {
        let same = context.present.iter().filter(|other| context.socket(**other) == context.socket(*one));
        pairs.extend(same.map(|other| (*one, *other)));
    }
    let kept = |(owner, former): &(Core, Core)| kept[owner.index() * count + former.index()];
    // Among equals, a core stays the same.
    let is_same = |(owner, former): &(Core, Core)| owner == former;
    pairs.sort_by(|one, other| {
        kept(other).total_cmp(&kept(one)).then(is_same(other).cmp(&is_same(one))).then(one.cmp(other))
    });
    let mut name: Vec<Option<Core>> = vec![None; count];
    let mut taken = vec![false; count];
    for (owner, former) in pairs {
        if name[owner.index()].is_none() && !taken[former.index()] {
            name[owner.index()] = Some(former);
            taken[former.index()] = true;
        }
    }
    owners.into_iter().map(|owner| name[owner.index()].unwrap_or(owner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::testing::square;
    use crate::grid::SubPartition;
    use crate::load::SynchronizationPoint;
    use crate::map::{Range, Table};

    /// Two tables with 40 positions each on two sockets of two cores; position i of one table
    /// synchronizes with position i of the other.
    fn dependent() -> (PartitionMap, Cores, Load) {
        let cores = square(2, 2);
        let domain = Range { low: 0, end: 40 };
        let owners: Vec<Core> = cores.present().collect();
        let map = PartitionMap::even(&[(Table(0), "a", domain), (Table(1), "b", domain)], &owners);
        let map = map.expect("a map");
        let meeting = |sub: u32| SynchronizationPoint {
            members: vec![SubPartition(sub), SubPartition(sub + 40)],
            count: 1.0,
            bytes: 10.0,
        };
        let meetings = (0..40).map(meeting).collect();
        let load = Load::new(0, vec![10.0; 80], meetings);
        (map, cores, load)
    }

    #[test]
    fn nothing_changes_where_nothing_is_better() {
        let (map, cores, load) = dependent();
        let found = search(&map, &cores, &load, Search::default()).expect("a map");
        assert_eq!((found.changes, found.way), (Vec::new(), ProposalOrigin::Current));
        assert_eq!((found.before.imbalance, found.after.synchronization), (0.0, 0.0));
    }

    #[test]
    fn synchronizing_sub_partitions_get_one_socket() {
        let (map, cores, load) = dependent();
        // Each core has a quarter of one table: the two halves of the cores synchronize across
        // sockets.
        let apart: Vec<Core> = (0..80u16).map(|sub| Core(sub / 20)).collect();
        let apart = Grid::of(&map).map(&apart).expect("a map");
        let grid = Grid::of(&apart);
        assert_eq!(grid.count(), 40);
        let meeting = |sub: u32| SynchronizationPoint {
            members: vec![SubPartition(sub), SubPartition(sub + 20)],
            count: 1.0,
            bytes: 20.0,
        };
        let meetings = (0..20).map(meeting).collect();
        let load = Load { version: 1, costs: vec![20.0; 40], meetings, ..load };
        for plain in [false, true] {
            let found = search(&apart, &cores, &load, Search { plain, ..Search::default() }).expect("a map");
            assert_eq!((found.before.imbalance, found.before.synchronization), (0.0, 400.0));
            // Filling cores past the mean separates sub-partitions that synchronize, and no move
            // and no swap of whole cores repairs that.
            let left = if plain { (40.0, 60.0) } else { (0.0, 0.0) };
            assert_eq!((found.after.imbalance, found.after.synchronization), left);
            assert_eq!(apart.changed(&found.changes).expect("they fit").tables(), found.map.tables());
        }
    }

    #[test]
    fn lost_cores_own_nothing() {
        let (map, cores, load) = dependent();
        for lost in 0..4 {
            let left = cores.with(|core| core != Core(lost));
            let found = search(&map, &left, &load, Search::default()).expect("a map");
            found.map.check_owners(|core| left.is_present(core)).expect("cores that are there");
            assert_eq!(found.before.stranded, 200.0);
            assert!(found.after.imbalance < 40.0, "{:?}", found.after);
        }
        let none = cores.with(|_| false);
        assert_eq!(search(&map, &none, &load, Search::default()), Err(SearchError::NoCores));
    }

    #[test]
    fn load_of_another_map_is_refused() {
        let (map, cores, load) = dependent();
        let other = Load { version: 3, ..load.clone() };
        let error = search(&map, &cores, &other, Search::default()).unwrap_err();
        assert!(error.to_string().contains("of version 3"), "{error}");
        let short = Load { costs: vec![1.0], ..load };
        assert!(matches!(search(&map, &cores, &short, Search::default()), Err(SearchError::Load(_))));
    }
}
