//! Who owns what: the partitions of each table, and their owners.
//!
//! A table is divided by the leading 16 bits of its primary keys, as its indexes are. A partition is a range of these columns, and belongs to one
//! worker. Tables that are never written belong to nobody: whoever needs them reads them.

use cc::Abort;
use engine::{Routes, TableDivision};

/// Why data cannot be divided among workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Rows that are written belong to no part.
    #[error("table {0} is written and not partitioned: it cannot be divided among workers")]
    Undivided(String),
    /// There are more workers than can be named.
    #[error("{0} workers: partitions can be divided among {max} at most", max = u16::MAX)]
    TooManyWorkers(usize),
}

/// Rows of a table with leading columns from `first` on, so many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The first leading column.
    pub first: u16,
    /// How many follow each other.
    pub columns: u16,
    /// The worker that owns it.
    pub owner: u16,
}

/// The partitions of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Divided {
    first: u16,
    /// By leading column, from the first on.
    owners: Vec<u16>,
    /// Ascending, without holes.
    partitions: Vec<Partition>,
}

impl Divided {
    /// The owner of a leading column. Columns outside belong to the last part, as in indexes.
    #[inline]
    fn owner(&self, column: u16) -> u16 {
        let place = usize::from(column.wrapping_sub(self.first));
        self.owners[place.min(self.owners.len() - 1)]
    }

    /// Whether these leading columns have one owner.
    fn has_one_owner(&self, low: u16, high: u16) -> bool {
        let owner = self.owner(low);
        let last = self.first + (self.owners.len() - 1) as u16;
        (low.max(self.first)..=high.min(last)).all(|column| self.owner(column) == owner)
            && self.owner(high) == owner
    }
}

/// Who owns what, in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    workers: usize,
    /// By number of the table; none of a table that is only read.
    tables: Vec<Option<Divided>>,
}

/// Where an action belongs.
const CROSSES: Abort = Abort::Misuse(
    "an action touches partitions of several owners: it cannot run where workers own partitions",
);

impl Map {
    /// Of these tables, among so many workers: `owner` has the owner of each part, the first of which is part 0. Parts that follow each other
    /// and have one owner are one partition.
    ///
    /// # Errors
    /// [`MapError`]: the tables cannot be divided.
    pub fn new(
        tables: &[TableDivision],
        workers: usize,
        owner: &dyn Fn(usize, usize) -> usize,
    ) -> Result<Self, MapError> {
        if workers > usize::from(u16::MAX) {
            return Err(MapError::TooManyWorkers(workers));
        }
        let divided = tables.iter().map(|table| match (table.read_only, table.partitioning) {
            (true, _) => Ok(None),
            (false, None) => Err(MapError::Undivided(table.name.clone())),
            (false, Some(division)) => {
                let parts = usize::from(division.count);
                let owners: Vec<u16> = (0..parts).map(|part| owner(part, parts) as u16).collect();
                let mut partitions: Vec<Partition> = Vec::new();
                for (column, owner) in (division.first..).zip(&owners) {
                    match partitions.last_mut() {
                        Some(last) if last.owner == *owner => last.columns += 1,
                        _ => partitions.push(Partition { first: column, columns: 1, owner: *owner }),
                    }
                }
                Ok(Some(Divided { first: division.first, owners, partitions }))
            }
        });
        Ok(Map { workers, tables: divided.collect::<Result<_, _>>()? })
    }

    /// Workers that may own something.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Tables, by number.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The partitions of a table, ascending; none of a table that is only read.
    pub fn partitions(&self, table: usize) -> &[Partition] {
        self.tables.get(table).and_then(Option::as_ref).map_or(&[], |divided| &divided.partitions)
    }

    /// Whether a table has owners.
    #[inline]
    pub fn is_owned(&self, table: usize) -> bool {
        self.tables.get(table).is_some_and(Option::is_some)
    }

    /// The owner of what has this leading column in a table; none of a table that is only read.
    pub fn owner_of_column(&self, table: usize, column: u16) -> Option<u16> {
        self.tables.get(table)?.as_ref().map(|divided| divided.owner(column))
    }

    /// Other partitions of a table, which cover the same columns.
    pub(crate) fn set_partitions(&mut self, table: usize, partitions: Vec<Partition>) {
        if let Some(Some(divided)) = self.tables.get_mut(table) {
            let owners = partitions
                .iter()
                .flat_map(|partition| std::iter::repeat_n(partition.owner, usize::from(partition.columns)));
            divided.owners = owners.collect();
            divided.partitions = partitions;
        }
    }

    /// The owner of all that an action with these routes touches; none if it touches only what is never written.
    ///
    /// # Errors
    /// [`Abort::Misuse`]: it touches what several workers own.
    #[inline]
    pub fn owner(&self, routes: &[engine::Route]) -> Result<Option<u16>, Abort> {
        let mut all = None;
        for route in routes {
            let Some(Some(divided)) = self.tables.get(route.table) else { continue };
            let (low, high) = route.keys.partition_columns();
            let owner = divided.owner(low);
            if *all.get_or_insert(owner) != owner {
                return Err(CROSSES);
            }
            if low != high && !divided.has_one_owner(low, high) {
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

#[cfg(test)]
mod tests {
    use engine::{KeyRange, Partitioning, Route};
    use platform::Intent;

    use super::*;

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
        let partitions =
            [Partition { first: 1, columns: 2, owner: 0 }, Partition { first: 3, columns: 2, owner: 1 }];
        assert_eq!((map.partitions(0), map.partitions(1)), (&[][..], &partitions[..]));
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let error = Map::new(&[table("log", None, false)], 2, &|_, _| 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "table log is written and not partitioned: it cannot be divided among workers"
        );
    }
}
