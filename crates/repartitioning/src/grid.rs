//! Sub-partitions: the units by which load is measured and which the searches assign to cores.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cores::Core;
use crate::map::{MapError, Partition, PartitionMap, Range, Table, TablePartitions, share};

/// Sub-partitions of a partition, if it has enough positions.
pub const DIVISIONS: u64 = 10;

/// A sub-partition, by its number in the grid: table by table, ascending by positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubPartition(pub u32);

impl SubPartition {
    /// Returns its index in lists by sub-partition.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SubPartition {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "sub-partition {}", self.0)
    }
}

/// Returns the number of sub-partitions of a partition.
fn divisions(range: Range) -> u64 {
    range.len().min(DIVISIONS)
}

/// Divides the partitions of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    version: u64,
    /// The tables of the map.
    tables: Vec<GridTable>,
    /// Range of each sub-partition.
    ranges: Vec<Range>,
    owners: Vec<Core>,
}

#[derive(Clone, Debug, PartialEq)]
struct GridTable {
    table: Table,
    name: String,
    /// The first sub-partition of each partition, and the number behind the table's last one.
    first: Vec<u32>,
    end: u32,
}

impl Grid {
    /// Divides the partitions of a map.
    pub fn of(map: &PartitionMap) -> Self {
        let mut grid =
            Grid { version: map.version(), tables: Vec::new(), ranges: Vec::new(), owners: Vec::new() };
        for table in map.tables() {
            let mut first = Vec::with_capacity(table.partitions.len());
            for Partition { range, owner } in &table.partitions {
                first.push(grid.ranges.len() as u32);
                let parts = divisions(*range);
                let at = |part| range.low + share(range.len(), part, parts);
                grid.ranges.extend((0..parts).map(|part| Range { low: at(part), end: at(part + 1) }));
                grid.owners.resize(grid.ranges.len(), *owner);
            }
            let end = grid.ranges.len() as u32;
            grid.tables.push(GridTable { table: table.table, name: table.name.clone(), first, end });
        }
        grid
    }

    /// Returns the version of its map.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of sub-partitions.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the sub-partition of a position. Positions outside of the table belong to the first
    /// or the last one.
    pub fn at(&self, table: Table, position: u64) -> Option<SubPartition> {
        let number = self.tables.binary_search_by_key(&table, |one| one.table).ok()?;
        let (from, end) = (self.tables[number].first[0] as usize, self.tables[number].end as usize);
        let place = self.ranges[from..end].partition_point(|range| range.low <= position);
        Some(SubPartition((from + place.max(1) - 1) as u32))
    }

    /// Returns the index of its table in the map, and its positions.
    pub fn place(&self, sub: SubPartition) -> (usize, Range) {
        let table = self.tables.partition_point(|table| table.end <= sub.0);
        (table, self.ranges[sub.index()])
    }

    /// Returns its table.
    pub fn table(&self, sub: SubPartition) -> Table {
        self.tables[self.place(sub).0].table
    }

    /// Returns the range of sub-partitions of each table of the map.
    pub fn tables(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.tables.iter().map(|table| table.first[0] as usize..table.end as usize)
    }

    /// Returns all partitions of the map: table, index in the table, and sub-partitions.
    pub fn partitions(&self) -> impl Iterator<Item = (Table, usize, std::ops::Range<usize>)> + '_ {
        self.tables.iter().flat_map(|table| {
            let ends = table.first.iter().skip(1).copied().chain([table.end]);
            let spans = table.first.iter().zip(ends).enumerate();
            spans.map(move |(place, (first, end))| (table.table, place, *first as usize..end as usize))
        })
    }

    /// Returns the owner of each sub-partition in the map.
    pub fn owners(&self) -> &[Core] {
        &self.owners
    }

    /// Returns the map in which these cores own the sub-partitions. Adjacent sub-partitions of a
    /// table with the same owner form one partition.
    ///
    /// # Errors
    /// [`MapError`]: there are fewer owners than sub-partitions.
    pub fn map(&self, owners: &[Core]) -> Result<PartitionMap, MapError> {
        let of_table = |(table, span): (&GridTable, std::ops::Range<usize>)| {
            let mut partitions: Vec<Partition> = Vec::new();
            for (range, owner) in self.ranges[span.clone()].iter().zip(owners.get(span).unwrap_or_default()) {
                match partitions.last_mut().filter(|last| last.owner == *owner) {
                    Some(last) => last.range.end = range.end,
                    None => partitions.push(Partition { range: *range, owner: *owner }),
                }
            }
            TablePartitions { table: table.table, name: table.name.clone(), partitions }
        };
        let tables = self.tables.iter().zip(self.tables()).map(of_table).collect();
        PartitionMap::new(self.version + 1, tables)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map() -> PartitionMap {
        let tables = [(Table(0), "a", Range { low: 10, end: 65 }), (Table(4), "b", Range { low: 0, end: 3 })];
        PartitionMap::even(&tables, &[Core(0), Core(1)]).expect("a map")
    }

    #[test]
    fn partitions_have_ten_sub_partitions_if_possible() {
        let grid = Grid::of(&map());
        assert_eq!(grid.tables().collect::<Vec<_>>(), [0..20, 20..23]);
        assert_eq!(grid.place(SubPartition(20)), (1, Range { low: 0, end: 1 }));
        assert_eq!(grid.place(SubPartition(22)), (1, Range { low: 2, end: 3 }));
        assert_eq!(
            [0, 10, 37, 64, 99].map(|at| grid.at(Table(0), at)),
            [0, 0, 9, 19, 19].map(|n| Some(SubPartition(n)))
        );
        assert_eq!(grid.at(Table(1), 0), None);
    }

    #[test]
    fn owners_are_converted_to_a_map() {
        let (map, grid) = (map(), Grid::of(&map()));
        let same = grid.map(grid.owners()).expect("a map");
        assert_eq!((same.tables(), same.version()), (map.tables(), 1));
        let all_of_one = grid.map(&vec![Core(1); grid.count()]).expect("a map");
        assert_eq!(all_of_one.partitions().count(), 2);
        assert!(grid.map(&[Core(0)]).is_err());
    }

    proptest! {
        #[test]
        fn positions_are_in_their_sub_partitions(low in 0u64..1000, len in 1u64..200, at in 0u64..200) {
            let (range, position) = (Range { low, end: low + len }, low + at % len);
            let map = PartitionMap::even(&[(Table(0), "t", range)], &[Core(0)]).expect("a map");
            let grid = Grid::of(&map);
            let found = grid.at(Table(0), position).expect("the table is there");
            prop_assert!(grid.place(found).1.has(position));
            // Sub-partitions of a partition differ by one position at most.
            let lengths = (0..grid.count() as u32).map(|sub| grid.place(SubPartition(sub)).1.len());
            let (least, most) = lengths.fold((u64::MAX, 0), |(least, most), len| (least.min(len), most.max(len)));
            prop_assert!(most - least <= 1);
        }
    }
}
