//! Measures the time of a search for a better map, and its result: 80 cores on eight sockets, nine
//! tables, skew.
//!
//!     cargo run --release -p isles-repartitioning --example searches

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Instant;

use repartitioning::{
    Core, Cores, Grid, Load, PartitionMap, Range, Search, SubPartition, SynchronizationPoint, Table, search,
};

/// Number of tables, and positions of each.
const TABLES: usize = 9;
const POSITIONS: u64 = 800_000;

/// Generates a load: half of the work on a fifth of each table, or uniform; synchronization of the
/// same positions of consecutive tables, or of random ones.
fn load(grid: &Grid, hot: bool, aligned: bool) -> Load {
    let share = |range: Range| range.low as f64 / POSITIONS as f64;
    let range = |sub: usize| grid.place(SubPartition(sub as u32)).1;
    let weight = |sub: usize| if hot && share(range(sub)) < 0.2 { 4.0 } else { 1.0 };
    let costs: Vec<f64> = (0..grid.count()).map(|sub| 1e6 * weight(sub)).collect();
    let spans: Vec<std::ops::Range<usize>> = grid.tables().collect();
    let meeting = |(number, sub): (usize, usize)| {
        let next = spans[number + 1].clone();
        let other = match aligned {
            true => next.start + (sub - spans[number].start) * next.len() / spans[number].len(),
            false => next.start + sub.wrapping_mul(7919) % next.len(),
        };
        let bytes = 1e5 * weight(sub);
        SynchronizationPoint {
            members: vec![SubPartition(sub as u32), SubPartition(other as u32)],
            count: 1e3,
            bytes,
        }
    };
    let meetings = (0..TABLES - 1).flat_map(|number| spans[number].clone().map(move |sub| (number, sub)));
    Load::new(grid.version(), costs, meetings.map(meeting).collect())
}

fn main() {
    let description = machine::Description::shipped("octo-socket").expect("a shipped machine");
    let threads = description.topology.hardware_threads();
    let cores = Cores::of(&description, &threads).expect("the machine's own threads");
    let owners: Vec<Core> = cores.present().collect();
    let names: Vec<String> = (0..TABLES).map(|table| format!("t{table}")).collect();
    let domain = Range { low: 0, end: POSITIONS };
    let tables: Vec<(Table, &str, Range)> = names
        .iter()
        .enumerate()
        .map(|(number, name)| (Table(number as u16), name.as_str(), domain))
        .collect();
    let map = PartitionMap::even(&tables, &owners).expect("a map");
    let grid = Grid::of(&map);
    let lost = cores.with(|core| cores.socket(core) != 3);
    println!("{} cores, {} sub-partitions", cores.count(), grid.count());
    for (name, hot, aligned, cores) in [
        ("even, tables meet in the same place", false, true, &cores),
        ("half of the work on a fifth", true, true, &cores),
        ("the same, tables meet anywhere", true, false, &cores),
        ("the same, a socket has failed", true, true, &lost),
    ] {
        let load = load(&grid, hot, aligned);
        for plain in [false, true] {
            let how = Search { plain, ..Search::default() };
            let begun = Instant::now();
            let found = search(&map, cores, &load, how).expect("a map");
            let took = begun.elapsed();
            let work = found.after.mean * found.after.present as f64;
            println!(
                "{name}{}: {:.1} ms, {} steps, {:?}; busiest {:.2} to {:.2} times the mean, imbalance {:.1} to {:.1} %, \
                 synchronization {:.1} to {:.1} %; {} partitions, {} changes, {:.1} % of the load moves",
                if plain { " (the paper's searches alone)" } else { "" },
                took.as_secs_f64() * 1e3,
                found.steps,
                found.way,
                found.before.hottest().1,
                found.after.hottest().1,
                100.0 * found.before.imbalance / work,
                100.0 * found.after.imbalance / work,
                100.0 * found.before.synchronization / work,
                100.0 * found.after.synchronization / work,
                found.map.partitions().count(),
                found.changes.len(),
                100.0 * found.moved
            );
        }
    }
}
