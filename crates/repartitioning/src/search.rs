//! A better map for a load: both searches of the paper, what improves on them, and the choice among
//! what they find.
//!
//! Three assignments are tried and refined: that of the paper (by load, then by synchronization);
//! one in which each core has the same part of all tables, which is better where tables meet in the
//! same part; and the one that there is. The last one is kept if it comes near the best, because it
//! takes the fewest changes.

use serde::{Deserialize, Serialize};

use crate::cores::{Core, Cores};
use crate::difference::difference;
use crate::draft::{Draft, Ground};
use crate::grid::Grid;
use crate::load::{Load, LoadError};
use crate::map::{Change, MapError, PartitionMap};
use crate::model::{Figures, Model};
use crate::partitioning::{Order, by_load};
use crate::placement::by_synchronization;
use crate::refining::{explore, refine, rescue};

/// How far a search goes, and what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Differences of cost that it works out at most, for all that it tries.
    pub steps_max: u64,
    /// The seed of its random choices.
    pub seed: u64,
    /// True if it does what the paper does and nothing else.
    pub plain: bool,
}

impl Search {
    /// Nanoseconds that a step takes, roughly: 400,000 take 25 to 32 ms (docs/adaptation.md).
    pub const STEP_NANOS: u64 = 75;
    /// Steps of a search that may take as long as it likes.
    pub const STEPS_MAX: u64 = 400_000;
    /// Steps without which a search is none.
    const STEPS_MIN: u64 = 20_000;

    /// A search that takes no longer than this, if so few steps are enough for one.
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

/// The load that may be given up to keep the present map, as a share: each change of a map takes
/// time, and pays the less the better the map is already.
const NEAR: f64 = 0.02;

/// Which of the assignments that were tried was the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The one that there was, improved.
    Current,
    /// Filled table by table, and placed by synchronization.
    ByTable,
    /// Each core has the same part of all tables.
    ByShare,
}

/// Why no map can be proposed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// No core is left.
    #[error("no core is present: partitions cannot belong to anybody")]
    NoCores,
    /// The load is not of this map.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The map is not of these cores, or a bug.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// A map that a load would be better with.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The map.
    pub map: PartitionMap,
    /// The changes that lead to it.
    pub changes: Vec<Change>,
    /// The cost of the load with the present map.
    pub before: Figures,
    /// The cost of the load with the new map.
    pub after: Figures,
    /// Synchronization between sockets as it is, and as it would be ([`Model::socket_pairs`]).
    pub pairs: [Vec<Vec<f64>>; 2],
    /// The share of the load that moves to another core.
    pub moved: f64,
    /// How it was found.
    pub way: Way,
    /// Differences that were worked out.
    pub steps: u64,
}

/// Looks for the best map for `load` over the cores that are present. The load is of `map`.
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
    let ground = Ground::new(model, &grid);
    let (best, way, steps) = best(&ground, &grid, how);
    let owners = relabelled(&ground, best, grid.owners());
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

/// The best assignment, how it was found, and in how many steps.
fn best(ground: &Ground<'_>, grid: &Grid, how: Search) -> (Vec<Core>, Way, u64) {
    // A part of the steps for each of the three, and the last one for what is tried at the end.
    let part = how.steps_max / 4;
    let mut plain = by_load(ground, Order::ByTable, part / 3);
    by_synchronization(&mut plain, part / 3);
    if how.plain {
        return (plain.owners, Way::ByTable, plain.steps);
    }
    let mut current = Draft::new(ground, grid.owners().to_vec());
    rescue(&mut current);
    let aligned = by_load(ground, Order::ByShare, part / 3);
    let mut found = [(current, Way::Current), (plain, Way::ByTable), (aligned, Way::ByShare)];
    found.iter_mut().for_each(|(draft, _)| refine(draft, part));
    let mut steps: u64 = found.iter().map(|(draft, _)| draft.steps).sum();
    let near = NEAR * ground.model.load.total();
    // The first of the three wins where they are alike: the one that there is.
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

/// The same assignment with the names of cores of a socket exchanged, so that as little as possible
/// is waited for owners, and then as much load as possible stays where it is. Balance and
/// synchronization are the same.
fn relabelled(ground: &Ground<'_>, owners: Vec<Core>, before: &[Core]) -> Vec<Core> {
    let count = ground.model.cores.count();
    let mut kept = vec![0.0; count * count];
    // A sub-partition on which nothing was done counts a little.
    let little = ground.mean * 1e-6 + f64::MIN_POSITIVE;
    for (sub, (owner, former)) in owners.iter().zip(before).enumerate() {
        kept[owner.index() * count + former.index()] += NEAR * (ground.cost(sub) + little);
        for (core, saved) in ground.model.load.draws.saved(sub) {
            kept[owner.index() * count + core.index()] += saved;
        }
    }
    let mut pairs: Vec<(Core, Core)> = Vec::new();
    for one in &ground.present {
        let same = ground.present.iter().filter(|other| ground.socket(**other) == ground.socket(*one));
        pairs.extend(same.map(|other| (*one, *other)));
    }
    let kept = |(owner, former): &(Core, Core)| kept[owner.index() * count + former.index()];
    // Where nothing is kept either way, a core keeps its name.
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
    use crate::load::Meeting;
    use crate::map::{Range, Table};

    /// Two tables with 40 positions each on two sockets of two cores; position i of one table meets
    /// position i of the other.
    fn dependent() -> (PartitionMap, Cores, Load) {
        let cores = square(2, 2);
        let domain = Range { low: 0, end: 40 };
        let owners: Vec<Core> = cores.present().collect();
        let map = PartitionMap::even(&[(Table(0), "a", domain), (Table(1), "b", domain)], &owners);
        let map = map.expect("a map");
        let meeting = |sub: u32| Meeting {
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
        assert_eq!((found.changes, found.way), (Vec::new(), Way::Current));
        assert_eq!((found.before.imbalance, found.after.synchronization), (0.0, 0.0));
    }

    #[test]
    fn what_meets_comes_together() {
        let (map, cores, load) = dependent();
        // Each core has a quarter of one table: the two halves of the cores meet over sockets.
        let apart: Vec<Core> = (0..80u16).map(|sub| Core(sub / 20)).collect();
        let apart = Grid::of(&map).map(&apart).expect("a map");
        let grid = Grid::of(&apart);
        assert_eq!(grid.count(), 40);
        let meeting = |sub: u32| Meeting {
            members: vec![SubPartition(sub), SubPartition(sub + 20)],
            count: 1.0,
            bytes: 20.0,
        };
        let meetings = (0..20).map(meeting).collect();
        let load = Load { version: 1, costs: vec![20.0; 40], meetings, ..load };
        for plain in [false, true] {
            let found = search(&apart, &cores, &load, Search { plain, ..Search::default() }).expect("a map");
            assert_eq!((found.before.imbalance, found.before.synchronization), (0.0, 400.0));
            // Cores that are filled past the mean cut through what meets, and no gift and no swap
            // of whole cores mends that.
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
