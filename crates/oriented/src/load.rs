//! What the partitions of a worker cost, for whoever wants to place them better.
//!
//! A worker has two arrays for each partition of the map: the cost of actions, and synchronization points with other workers, by *sub-partition*: [`SUBPARTITIONS`] ranges
//! of leading columns, or as many as the partition has columns (ATraPos, section V). They are the worker's own and never read by others: whoever
//! wants them asks the worker, which gives them away and begins anew. One run of actions in [`SAMPLE`] is measured by the clock, and counts for all of
//! them, so that the arrays can always be kept.

use engine::Route;

use crate::map::{Map, Partition};

/// Ranges of a partition that are told apart.
pub const SUBPARTITIONS: usize = 10;
/// One run of actions in so many is measured.
pub(crate) const SAMPLE: u32 = 8;

/// What a partition cost one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionLoad {
    /// Nanoseconds of actions, by sub-partition.
    pub nanos: [u64; SUBPARTITIONS],
    /// Synchronization points at which actions met those of other workers, by sub-partition.
    pub points: [u64; SUBPARTITIONS],
}

/// What all partitions cost one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// By table, by partition of the map that the worker has.
    pub tables: Vec<Vec<PartitionLoad>>,
}

impl Load {
    /// Nothing yet.
    pub(crate) fn of(map: &Map) -> Self {
        let partitions = |table| vec![PartitionLoad::default(); map.partitions(table).len()];
        Load { tables: (0..map.tables()).map(partitions).collect() }
    }

    /// The sub-partition that an action belongs to.
    #[inline]
    fn place(&mut self, map: &Map, home: &Route) -> Option<(&mut PartitionLoad, usize)> {
        let (column, _) = home.keys.partition_columns();
        let partitions = map.partitions(home.table);
        let behind = partitions.partition_point(|partition| partition.first <= column);
        let number = behind.saturating_sub(1);
        let Partition { first, columns, .. } = *partitions.get(number)?;
        let offset = usize::from(column.saturating_sub(first).min(columns - 1));
        let columns = usize::from(columns);
        let sub = if columns < SUBPARTITIONS { offset } else { offset * SUBPARTITIONS / columns };
        Some((self.tables.get_mut(home.table)?.get_mut(number)?, sub))
    }

    /// An action with this home took so long.
    #[inline]
    pub(crate) fn add_nanos(&mut self, map: &Map, home: &Route, nanos: u64) {
        if let Some((load, sub)) = self.place(map, home) {
            load.nanos[sub] += nanos;
        }
    }

    /// An action with this home met others.
    #[inline]
    pub(crate) fn add_point(&mut self, map: &Map, home: &Route) {
        if let Some((load, sub)) = self.place(map, home) {
            load.points[sub] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::{KeyRange, Partitioning, TableDivision};
    use platform::Intent;

    use super::*;

    #[test]
    fn actions_count_where_they_belong() {
        let table = |first, count, read_only| TableDivision {
            name: "rows".to_owned(),
            partitioning: Some(Partitioning { first, count }),
            read_only,
        };
        let tables = [table(0, 4, true), table(3, 40, false)];
        let map = Map::new(&tables, 2, &|part, parts| usize::from(part >= parts - 4)).expect("divided");
        let mut load = Load::of(&map);
        let route = |table, column: u16| Route { table, keys: KeyRange::of(&column), intent: Intent::Read };
        for column in 3..43 {
            load.add_nanos(&map, &route(1, column), 10);
        }
        load.add_point(&map, &route(1, 42));
        load.add_point(&map, &route(0, 2));
        assert_eq!(load.tables[0], []);
        let nanos: Vec<u64> = load.tables[1].iter().flat_map(|partition| partition.nanos).collect();
        // 36 columns in ten ranges, and 4 columns each by itself.
        let first = [40, 40, 30, 40, 30, 40, 40, 30, 40, 30];
        assert_eq!(nanos[..10], first);
        assert_eq!(nanos[10..], [10, 10, 10, 10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(load.tables[1][1].points, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}
