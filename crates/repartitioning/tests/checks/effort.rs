//! Searches on a large machine: 80 cores and nine tables, which the example `searches` times.

use repartitioning::{Grid, Load, Meeting, PartitionMap, Range, Search, SubPartition, Table, search};

use crate::support::{all, machine};

/// Tables follow each other: each sub-partition meets that of the next table with the same
/// positions. Half of the work is on a fifth of each.
fn load(grid: &Grid) -> Load {
    let hot = |sub: usize| grid.place(SubPartition(sub as u32)).1.low < 160_000;
    let costs: Vec<f64> = (0..grid.count()).map(|sub| if hot(sub) { 4e6 } else { 1e6 }).collect();
    let each = grid.count() / 9;
    let meeting = |sub: usize| Meeting {
        members: [sub, sub + each].map(|sub| SubPartition(sub as u32)).to_vec(),
        count: 1000.0,
        bytes: costs[sub] / 10.0,
    };
    let meetings = (0..8 * each).map(meeting).collect();
    Load::new(grid.version(), costs, meetings)
}

/// However large the machine, a search ends after so many steps, of which the example says how long
/// they take; what it has by then is good.
#[test]
fn searches_end_in_time_with_something_good() {
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
        // With a tenth of the steps the end comes in a tenth of the time.
        let quick = Search { steps_max: how.steps_max / 10, ..how };
        let quick = search(&map, cores, &load, quick).expect("a map");
        assert!(quick.steps <= how.steps_max / 9, "{}", quick.steps);
    }
}
