//! Loads of an executor that counts synchronization points by sub-partition, as the paper does, and not who met whom.
//!
//! Who met whom is guessed: a sub-partition met those of other tables that have the same positions, by how many points those tables have. It is true
//! where tables are divided by the same leading column and transactions stay with one value of it, and wrong elsewhere: [`Arrays`](crate::Arrays)
//! know.

use std::collections::BTreeMap;

use crate::grid::{Grid, SubPartition};
use crate::load::{Load, Meeting};
use crate::map::Table;

/// What workers have counted of a partition, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Nanoseconds of actions, by sub-partition ([`crate::division`]).
    pub nanos: Vec<u64>,
    /// Synchronization points, by sub-partition.
    pub points: Vec<u64>,
}

impl Load {
    /// Of these counts: `counts` has those of the partition at a place of a table. Each point takes so many bytes.
    pub fn counted<'a>(
        grid: &Grid,
        counts: impl Fn(Table, usize) -> Option<&'a PartitionCounts>,
        bytes_each: f64,
    ) -> Self {
        let mut costs = vec![0.0; grid.count()];
        let mut points = vec![0.0; grid.count()];
        let mut tables: BTreeMap<Table, f64> = BTreeMap::new();
        for (table, place, subs) in grid.partitions() {
            let Some(found) = counts(table, place) else { continue };
            let sum = |into: &mut [f64], from: &[u64]| {
                into[subs.clone()].iter_mut().zip(from).for_each(|(sum, count)| *sum += *count as f64);
            };
            sum(&mut costs, &found.nanos);
            sum(&mut points, &found.points);
            *tables.entry(table).or_default() += points[subs].iter().sum::<f64>();
        }
        let all: f64 = tables.values().sum();
        let mut met: BTreeMap<Vec<SubPartition>, f64> = BTreeMap::new();
        for (number, count) in points.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let sub = SubPartition(number as u32);
            let (own, range) = (grid.table(sub), grid.place(sub).1);
            let others = all - tables.get(&own).copied().unwrap_or(0.0);
            for (table, weight) in tables.iter().filter(|(table, weight)| **table != own && **weight > 0.0) {
                let Some(other) = grid.at(*table, range.low + range.len() / 2) else { continue };
                // Both sides of a point have counted it.
                *met.entry(vec![sub.min(other), sub.max(other)]).or_default() +=
                    count * weight / others / 2.0;
            }
        }
        let meeting = |(members, count)| Meeting { members, count, bytes: count * bytes_each };
        let meetings = met.into_iter().map(meeting).collect();
        Load { version: grid.version(), costs, meetings, unrecorded: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Core;
    use crate::map::{PartitionMap, Range};

    #[test]
    fn tables_meet_where_they_have_the_same_positions() {
        let domain = Range { low: 0, end: 20 };
        let tables = [(Table(0), "a", domain), (Table(3), "b", domain), (Table(4), "never", domain)];
        let map = PartitionMap::even(&tables, &[Core(0), Core(1)]).expect("a map");
        let grid = Grid::of(&map);
        let mut counts: BTreeMap<(Table, usize), PartitionCounts> = BTreeMap::new();
        let counted = |nanos: u64, points: u64| PartitionCounts {
            nanos: (0..10).map(|sub| nanos + sub).collect(),
            points: (0..10).map(|sub| if sub == 4 { points } else { 0 }).collect(),
        };
        counts.insert((Table(0), 0), counted(100, 6));
        counts.insert((Table(3), 0), counted(200, 4));
        counts.insert((Table(3), 1), counted(300, 0));
        let load = Load::counted(&grid, |table, place| counts.get(&(table, place)), 8.0);
        assert_eq!((load.costs[0], load.costs[9], load.costs[10]), (100.0, 109.0, 0.0));
        assert_eq!((load.costs[20], load.costs[39], load.costs[40]), (200.0, 309.0, 0.0));
        let members = vec![SubPartition(4), SubPartition(24)];
        assert_eq!(load.meetings, [Meeting { members, count: 5.0, bytes: 40.0 }]);
    }
}
