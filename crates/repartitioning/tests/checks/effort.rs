//! Searches on a large machine: 80 cores and nine tables, which the example `searches` times.

use repartitioning::{
    Grid, Load, PartitionMap, Range, Search, SubPartition, SynchronizationPoint, Table, search,
};

use crate::support::{all, machine};

/// Each sub-partition synchronizes with the sub-partition of the next table that has the same
/// positions. Half of the work is on a fifth of each table.
fn load(grid: &Grid) -> Load {
    let hot = |sub: usize| grid.place(SubPartition(sub as u32)).1.low < 160_000;
    let costs: Vec<f64> = (0..grid.count()).map(|sub| if hot(sub) { 4e6 } else { 1e6 }).collect();
    let each = grid.count() / 9;
    let meeting = |sub: usize| SynchronizationPoint {
        members: [sub, sub + each].map(|sub| SubPartition(sub as u32)).to_vec(),
        count: 1000.0,
        bytes: costs[sub] / 10.0,
    };
    let meetings = (0..8 * each).map(meeting).collect();
    Load::new(grid.version(), costs, meetings)
}

/// On a large machine, a search ends after its limit of steps (the example measures their time),
/// with a good result.
#[test]
fn searches_end_in_time_with_a_good_map() {
    let cores = machine(8, 10);
    let names: Vec<String> = (0..9).map(|table| format!("t{table}")).collect();
    let domain = Range { low: 0, end: 800_000 };
    let tables = names.iter().enumerate().map(|(number, name)| (Table(number as u16), name.as_str(), domain));
    let map = PartitionMap::even(&tables.collect::<Vec<_>>(), &all(&cores)).expect("a map");
    let load = load(&Grid::of(&map));
    let lost = cores.with(|core| cores.socket(core) != 3);
    for cores in [&cores, &lost] {
        let how = Search::default();
        let found = search(&map, cores, &load, how).expect("a map");
        // The step that goes over the limit may be a long one.
        assert!(found.steps <= how.steps_max + how.steps_max / 100, "{}", found.steps);
        let work = found.after.mean * found.after.present as f64;
        assert!(
            found.before.hottest().1 > 2.0 && found.after.hottest().1 < 1.05,
            "{:?}",
            found.after.hottest()
        );
        assert!(found.after.synchronization < 0.02 * work, "{}", found.after.synchronization / work);
        // A tenth of the steps takes a tenth of the time.
        let quick = Search { steps_max: how.steps_max / 10, ..how };
        let quick = search(&map, cores, &load, quick).expect("a map");
        assert!(quick.steps <= how.steps_max / 9, "{}", quick.steps);
    }
}
