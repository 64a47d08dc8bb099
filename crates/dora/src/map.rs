//! The map: the partitions of each table, and their owners.
//!
//! A table is divided by the leading 16 bits of its primary keys, as its indexes are. A partition
//! is a range of these columns, and belongs to one worker. Tables that are never written belong to
//! no worker: a worker that needs them reads them.
//!
//! Tables that are divided into the same columns are one *division*: a partition is a range of
//! columns of all of them. An action may touch several tables and has one owner, so what has one
//! leading column has one owner. What a division's partitions are, and how they are split, merged
//! and moved, is [`repartitioning`]'s, to which a division is a table; here is what finds the owner
//! of an action in a few steps.

use boundary::TableDivision;
use repartitioning::{
    Change, Core, Grid, Partition, PartitionMap, Range, SubPartition, Table, TablePartitions,
};
use schema::{Partitioning, Route, Routes};
use terms::Abort;

/// Why data cannot be divided among workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Rows that are written belong to no part.
    #[error("table {0} is written and not partitioned: it cannot be divided among workers")]
    Undivided(String),
    /// There are more workers than can be named.
    #[error("{0} workers: partitions can be divided among {max} at most", max = u16::MAX)]
    TooManyWorkers(usize),
    /// The partitions do not cover their tables.
    #[error(transparent)]
    Partitions(#[from] repartitioning::MapError),
}

/// Whose a leading column is, and which sub-partition it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    owner: u16,
    sub: SubPartition,
}

/// The leading columns of a division.
#[derive(Clone, Debug, PartialEq)]
struct Columns {
    first: u16,
    /// By leading column, from the first on.
    places: Vec<Place>,
}

impl Columns {
    /// Where a leading column is. Columns outside belong to the last part, as in indexes.
    #[inline]
    fn place(&self, column: u16) -> Place {
        let place = usize::from(column.wrapping_sub(self.first));
        self.places[place.min(self.places.len() - 1)]
    }

    /// Returns true if these leading columns have one owner.
    fn has_one_owner(&self, low: u16, high: u16) -> bool {
        let owner = self.place(low).owner;
        let last = self.first + (self.places.len() - 1) as u16;
        (low.max(self.first)..=high.min(last)).all(|column| self.place(column).owner == owner)
            && self.place(high).owner == owner
    }
}

/// One version of the map.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    workers: usize,
    /// By number of the table: its division; none of a table that is only read.
    divisions: Vec<Option<usize>>,
    /// A division is a table there.
    partitions: PartitionMap,
    grid: Grid,
    /// By division.
    columns: Vec<Columns>,
}

/// Where an action belongs.
const CROSSES: Abort = Abort::Misuse(
    "an action touches partitions of several owners: it cannot run where workers own partitions",
);

impl Map {
    /// The map of these tables among this many workers: `owner` has the owner of each part, the
    /// first of which is part 0. Parts that follow each other and have one owner are one partition.
    ///
    /// # Errors
    /// [`MapError`]: the tables cannot be divided.
    pub fn new(
        tables: &[TableDivision],
        workers: usize,
        owner: &dyn Fn(usize, usize) -> usize,
    ) -> Result<Self, MapError> {
        Map::divided(tables, workers, false, &|_, part, parts| owner(part, parts))
    }

    /// As [`Self::new`], with a division for each table: `owner` also has the number of the table.
    /// For actions that touch one table each.
    ///
    /// # Errors
    /// [`MapError`]: the tables cannot be divided.
    pub fn by_table(
        tables: &[TableDivision],
        workers: usize,
        owner: &dyn Fn(usize, usize, usize) -> usize,
    ) -> Result<Self, MapError> {
        Map::divided(tables, workers, true, owner)
    }

    fn divided(
        tables: &[TableDivision],
        workers: usize,
        is_by_table: bool,
        owner: &dyn Fn(usize, usize, usize) -> usize,
    ) -> Result<Self, MapError> {
        if workers > usize::from(u16::MAX) {
            return Err(MapError::TooManyWorkers(workers));
        }
        // Each with the number of its first table.
        let mut alike: Vec<(Partitioning, usize, Vec<&str>)> = Vec::new();
        let division = |table: &'_ TableDivision| match (table.read_only, table.partitioning) {
            (true, _) => Ok(None),
            (false, None) => Err(MapError::Undivided(table.name.clone())),
            (false, Some(partitioning)) => Ok(Some(partitioning)),
        };
        let mut divisions = Vec::with_capacity(tables.len());
        for (number, table) in tables.iter().enumerate() {
            let Some(partitioning) = division(table)? else {
                divisions.push(None);
                continue;
            };
            let known = alike.iter().position(|(other, ..)| !is_by_table && *other == partitioning);
            let place = known.unwrap_or_else(|| {
                alike.push((partitioning, number, Vec::new()));
                alike.len() - 1
            });
            alike[place].2.push(&table.name);
            divisions.push(Some(place));
        }
        let of_division =
            |(number, (partitioning, table, names)): (usize, &(Partitioning, usize, Vec<&str>))| {
                let parts = usize::from(partitioning.count);
                let mut partitions: Vec<Partition> = Vec::new();
                for part in 0..parts {
                    let low = u64::from(partitioning.first) + part as u64;
                    let owner = Core(owner(*table, part, parts) as u16);
                    match partitions.last_mut().filter(|last| last.owner == owner) {
                        Some(last) => last.range.end = low + 1,
                        None => partitions.push(Partition { range: Range { low, end: low + 1 }, owner }),
                    }
                }
                TablePartitions { table: Table(number as u16), name: name_of(names), partitions }
            };
        let partitions = PartitionMap::new(0, alike.iter().enumerate().map(of_division).collect())?;
        Ok(Map::of(workers, divisions, partitions))
    }

    /// The map with these partitions of its divisions.
    fn of(workers: usize, divisions: Vec<Option<usize>>, partitions: PartitionMap) -> Self {
        let grid = Grid::of(&partitions);
        let of_division = |division: &TablePartitions| {
            let low = division.domain().low;
            let place = |column: u64| Place {
                owner: division.partitions[division.place(column)].owner.0,
                sub: grid.at(division.table, column).unwrap_or(SubPartition(0)),
            };
            Columns { first: low as u16, places: (low..division.domain().end).map(place).collect() }
        };
        let columns = partitions.tables().iter().map(of_division).collect();
        Map { workers, divisions, partitions, grid, columns }
    }

    /// The next version: this map after these changes, one after the other.
    ///
    /// # Errors
    /// [`repartitioning::MapError`]: one of them cannot be made, or names a worker that is not
    /// there.
    pub fn changed(&self, changes: &[Change]) -> Result<Self, repartitioning::MapError> {
        let partitions = self.partitions.changed(changes)?;
        partitions.check_owners(|core| core.index() < self.workers)?;
        Ok(Map::of(self.workers, self.divisions.clone(), partitions))
    }

    /// The first version, with these partitions of the same divisions.
    ///
    /// # Errors
    /// [`repartitioning::MapError`]: one belongs to a worker that is not there.
    ///
    /// # Panics
    /// They are of other divisions.
    pub fn with_partitions(self, partitions: PartitionMap) -> Result<Self, repartitioning::MapError> {
        let divisions =
            |map: &PartitionMap| map.tables().iter().map(|one| (one.table, one.domain())).collect::<Vec<_>>();
        assert_eq!(divisions(&self.partitions), divisions(&partitions), "partitions of the same divisions");
        partitions.check_owners(|core| core.index() < self.workers)?;
        Ok(Map::of(self.workers, self.divisions, partitions))
    }

    /// Some change of the first division, which may not fit: for tests. `below` draws a number
    /// below another one.
    pub fn any_change(&self, below: &mut dyn FnMut(u64) -> u64) -> Change {
        let (table, domain) = (Table(0), self.partitions.tables().first().map(TablePartitions::domain));
        let at = domain.map_or(0, |domain| domain.low + below(domain.len()));
        let begins =
            |at| self.partitions.table(table).map_or(at, |all| all.partitions[all.place(at)].range.low);
        match below(4) {
            0 => Change::Split { table, at },
            1 => Change::Merge { table, at: begins(at) },
            _ => Change::Move { table, low: begins(at), to: Core(below(self.workers as u64) as u16) },
        }
    }

    /// Workers that may own something.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Tables, by number.
    pub(crate) fn tables(&self) -> usize {
        self.divisions.len()
    }

    /// The tables of a division, which is a table of the partitions.
    pub(crate) fn tables_of(&self, division: Table) -> impl Iterator<Item = usize> {
        let is_of = move |place: &Option<usize>| *place == Some(usize::from(division.0));
        self.divisions.iter().enumerate().filter(move |(_, place)| is_of(place)).map(|(table, _)| table)
    }

    /// Which version it is: 0 is the first.
    pub fn version(&self) -> u64 {
        self.partitions.version()
    }

    /// The partitions, in which a table is a division.
    pub fn partitions(&self) -> &PartitionMap {
        &self.partitions
    }

    /// Sub-partitions of all divisions.
    pub fn sub_partitions(&self) -> usize {
        self.grid.count()
    }

    /// Leading columns of all divisions.
    pub(crate) fn columns(&self) -> usize {
        self.columns.iter().map(|columns| columns.places.len()).sum()
    }

    #[inline]
    fn columns_of(&self, table: usize) -> Option<&Columns> {
        let division = (*self.divisions.get(table)?)?;
        self.columns.get(division)
    }

    /// Returns true if a table has owners.
    #[inline]
    pub fn is_owned(&self, table: usize) -> bool {
        self.columns_of(table).is_some()
    }

    /// The owner of what has this leading column in a table; none of a table that is only read.
    pub fn owner_of_column(&self, table: usize, column: u16) -> Option<u16> {
        self.columns_of(table).map(|columns| columns.place(column).owner)
    }

    /// The sub-partition in which a route begins; none of a table that is only read.
    #[inline]
    pub(crate) fn sub_partition(&self, route: &Route) -> Option<SubPartition> {
        let (column, _) = route.keys.partition_columns();
        self.columns_of(route.table).map(|columns| columns.place(column).sub)
    }

    /// The owner of all that an action with these routes touches; none if it touches only what is
    /// never written.
    ///
    /// # Errors
    /// [`Abort::Misuse`]: it touches what several workers own.
    #[inline]
    pub fn owner(&self, routes: &[Route]) -> Result<Option<u16>, Abort> {
        let mut all = None;
        for route in routes {
            let Some(columns) = self.columns_of(route.table) else { continue };
            let (low, high) = route.keys.partition_columns();
            let owner = columns.place(low).owner;
            if *all.get_or_insert(owner) != owner {
                return Err(CROSSES);
            }
            if low != high && !columns.has_one_owner(low, high) {
                return Err(CROSSES);
            }
        }
        Ok(all)
    }

    /// The owner of a list of routes, which are of one action.
    ///
    /// # Errors
    /// As [`Self::owner`].
    pub fn owner_of(&self, routes: &Routes) -> Result<Option<u16>, Abort> {
        self.owner(routes.entries())
    }
}

/// The common name of these tables.
fn name_of(tables: &[&str]) -> String {
    match tables {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [first, others @ ..] => format!("{first} and {} others", others.len()),
    }
}

#[cfg(test)]
mod tests {
    use platform::Intent;
    use proptest::prelude::*;
    use schema::KeyRange;

    use super::*;

    const DIVISION: Table = Table(0);

    fn table(name: &str, partitioning: Option<(u16, u16)>, read_only: bool) -> TableDivision {
        let partitioning = partitioning.map(|(first, count)| Partitioning { first, count });
        TableDivision { name: name.to_owned(), partitioning, read_only }
    }

    fn route(table: usize, keys: KeyRange) -> Route {
        Route { table, keys, intent: Intent::Read }
    }

    fn map() -> Map {
        let tables = [table("item", None, true), table("stock", Some((1, 4)), false)];
        Map::new(&tables, 2, &|part, parts| part * 2 / parts).expect("divided")
    }

    /// Range and owner of each partition of a division.
    fn pieces(map: &Map, division: Table) -> Vec<(u64, u64, u16)> {
        let table = map.partitions().table(division).expect("a division");
        table.partitions.iter().map(|one| (one.range.low, one.range.end, one.owner.0)).collect()
    }

    #[test]
    fn actions_belong_to_owners() {
        let map = map();
        let of = |keys: KeyRange| map.owner(&[route(0, KeyRange::ALL), route(1, keys)]);
        for (column, owner) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (0, 1)] {
            assert_eq!(of(KeyRange::of(&(column as u16, 7u32))), Ok(Some(owner)), "{column}");
        }
        assert_eq!(of(KeyRange::between(&1u16, &2u16)), Ok(Some(0)));
        assert_eq!(of(KeyRange::between(&2u16, &3u16)), Err(CROSSES));
        assert_eq!(map.owner(&[route(0, KeyRange::ALL)]), Ok(None));
        let two = [route(1, KeyRange::of(&1u16)), route(1, KeyRange::of(&4u16))];
        assert_eq!(map.owner(&two), Err(CROSSES));
        assert_eq!(pieces(&map, DIVISION), [(1, 3, 0), (3, 5, 1)]);
        let sub = |table, column: u16| map.sub_partition(&route(table, KeyRange::of(&column)));
        assert_eq!((sub(0, 1), sub(1, 1), sub(1, 4)), (None, Some(SubPartition(0)), Some(SubPartition(3))));
    }

    /// The keys of an action have one owner after any move: tables with the same columns are one
    /// division.
    #[test]
    fn tables_that_are_divided_alike_move_together() {
        let alike = |name| table(name, Some((0, 6)), false);
        let tables = [alike("a"), table("read", Some((0, 6)), true), table("other", Some((0, 2)), false)];
        let tables = [&tables[..], &[alike("b"), alike("c")]].concat();
        let map = Map::new(&tables, 2, &|part, parts| part * 2 / parts).expect("divided");
        let names: Vec<&str> = map.partitions().tables().iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["a and 2 others", "other"]);
        let split = Change::Split { table: DIVISION, at: 5 };
        let moved = Change::Move { table: DIVISION, low: 5, to: Core(0) };
        let changed = map.changed(&[split, moved]).expect("possible");
        assert_eq!((map.version(), changed.version()), (0, 1));
        for (table, owner) in [(0, Some(0)), (1, None), (2, Some(1)), (3, Some(0)), (4, Some(0))] {
            assert_eq!(changed.owner_of_column(table, 5), owner, "{table}");
        }
        let absent = Change::Move { table: DIVISION, low: 0, to: Core(2) };
        let error = map.changed(&[absent]).unwrap_err().to_string();
        assert_eq!(error, "a partition of a and 2 others belongs to core 2, which is not there");
    }

    #[test]
    fn tables_can_be_placed_by_themselves() {
        let tables = ["a", "b"].map(|name| table(name, Some((0, 4)), false));
        let owner = |table, part, parts| table + 2 * (part * 2 / parts);
        let map = Map::by_table(&tables, 4, &owner).expect("divided");
        assert_eq!(pieces(&map, Table(0)), [(0, 2, 0), (2, 4, 2)]);
        assert_eq!(pieces(&map, Table(1)), [(0, 2, 1), (2, 4, 3)]);
        let both = [route(0, KeyRange::of(&1u16)), route(1, KeyRange::of(&1u16))];
        assert_eq!((map.owner(&both[1..]), map.owner(&both)), (Ok(Some(1)), Err(CROSSES)));
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let error = Map::new(&[table("log", None, false)], 2, &|_, _| 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "table log is written and not partitioned: it cannot be divided among workers"
        );
    }

    proptest! {
        /// After any changes, the columns have the owners and sub-partitions of the partitions.
        #[test]
        fn columns_follow_partitions(
            steps in prop::collection::vec((0u8..3, 0u64..30, 0u16..4), 0..60),
        ) {
            let mut map = Map::new(&[table("rows", Some((5, 12)), false)], 3, &|part, _| part / 4).expect("divided");
            for (kind, at, owner) in steps {
                let change = match kind {
                    0 => Change::Split { table: DIVISION, at },
                    1 => Change::Merge { table: DIVISION, at },
                    _ => Change::Move { table: DIVISION, low: at, to: Core(owner) },
                };
                if let Ok(changed) = map.changed(&[change]) {
                    prop_assert_eq!(changed.version(), map.version() + 1);
                    map = changed;
                }
                for column in 5u16..17 {
                    let owner = map.partitions().owner(DIVISION, column.into()).map(|core| core.0);
                    prop_assert_eq!(map.owner_of_column(0, column), owner);
                    prop_assert!(owner < Some(3));
                    let sub = map.sub_partition(&route(0, KeyRange::of(&column)));
                    prop_assert_eq!(sub, Grid::of(map.partitions()).at(DIVISION, column.into()));
                }
            }
        }
    }
}
