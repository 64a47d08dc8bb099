//! Maps of partitions: the owner of each key as a versioned value, and the changes that lead from
//! one map to the next.
//!
//! Tables are divided into ranges of the leading part of their keys. The engine's tables are
//! divided by a leading column of 16 bits (`schema::KeyRange::partition_columns`), and a position
//! is a value of this column. Positions have 64 bits, so that longer prefixes of keys can be
//! positions too.
//!
//! Invariant, checked after every change: each position of a table is in exactly one partition.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cores::Core;

/// A table, by its number in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(pub u16);

/// Positions from `low` to below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    /// The first position.
    pub low: u64,
    /// The first position behind it.
    pub end: u64,
}

impl Range {
    /// Returns the number of positions.
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.low)
    }

    /// Returns true if the range has no positions.
    pub fn is_empty(self) -> bool {
        self.end <= self.low
    }

    /// Returns true if the position is in the range.
    pub fn has(self, position: u64) -> bool {
        (self.low..self.end).contains(&position)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} to {}", self.low, self.end.saturating_sub(1))
    }
}

/// A partition of a table, whose keys belong to one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Its positions.
    pub range: Range,
    /// The core that runs the actions on them.
    pub owner: Core,
}

/// A table's partitions, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePartitions {
    /// The table.
    pub table: Table,
    /// Its name, for texts.
    pub name: String,
    /// Its partitions, by ascending positions.
    pub partitions: Vec<Partition>,
}

impl TablePartitions {
    /// Returns all positions of the table.
    pub fn domain(&self) -> Range {
        let low = self.partitions.first().map_or(0, |partition| partition.range.low);
        Range { low, end: self.partitions.last().map_or(low, |partition| partition.range.end) }
    }

    /// Returns the index of the partition of a position. Positions outside belong to the first or
    /// the last partition.
    pub fn place(&self, position: u64) -> usize {
        self.partitions.partition_point(|partition| partition.range.low <= position).saturating_sub(1)
    }
}

/// A step from one map to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Change {
    /// Splits the partition of position `at` so that the second part begins there. Both parts keep
    /// the owner.
    Split {
        /// The table.
        table: Table,
        /// The first position of the second part.
        at: u64,
    },
    /// Merges the partition that begins at `at` with the previous one, which has the same owner.
    Merge {
        /// The table.
        table: Table,
        /// The first position of the second partition.
        at: u64,
    },
    /// Gives the partition that begins at `low` another owner.
    Move {
        /// The table.
        table: Table,
        /// Its first position.
        low: u64,
        /// Its new owner.
        to: Core,
    },
}

impl Change {
    /// Returns the changed table.
    pub fn table(&self) -> Table {
        match *self {
            Change::Split { table, .. } | Change::Merge { table, .. } | Change::Move { table, .. } => table,
        }
    }
}

/// Changes of borders between partitions, as planned in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BorderAction {
    /// Divides a partition in its middle. Both parts keep its owner.
    Split,
    /// Unites a partition with the next one. The owner of the first gets both.
    Merge,
    /// Gives the first position of a partition to the owner of the previous one: a split, a move
    /// and a merge.
    Rearrange,
}

/// Fault of a map, or reason why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// A table has no partitions.
    #[error("{0} has no partitions")]
    Empty(String),
    /// A partition has no positions.
    #[error("a partition of {0} that begins at {1} is empty")]
    EmptyPartition(String, u64),
    /// A key is in two partitions, or in none.
    #[error("a partition of {table} ends at {end}, and the next one begins at {low}")]
    Gap {
        /// The table.
        table: String,
        /// The first position behind a partition.
        end: u64,
        /// The first position of the next partition.
        low: u64,
    },
    /// A table occurs twice, or out of order.
    #[error("tables are not in ascending order at {0}")]
    Order(String),
    /// An owner does not exist.
    #[error("a partition of {0} belongs to {1}, which is not there")]
    Owner(String, Core),
    /// A change names a table that the map does not have.
    #[error("there is no table {}", .0.0)]
    Unknown(Table),
    /// A change does not fit the partitions.
    #[error("{0:?} does not fit the partitions: {1}")]
    Misfit(Change, &'static str),
}

/// The owner of each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedMap")]
pub struct PartitionMap {
    version: u64,
    tables: Vec<TablePartitions>,
}

/// A deserialized map, not validated.
#[derive(Deserialize)]
struct UncheckedMap {
    version: u64,
    tables: Vec<TablePartitions>,
}

impl TryFrom<UncheckedMap> for PartitionMap {
    type Error = MapError;

    fn try_from(unchecked: UncheckedMap) -> Result<Self, MapError> {
        PartitionMap::new(unchecked.version, unchecked.tables)
    }
}

impl PartitionMap {
    /// Makes a map of tables in ascending order with their partitions.
    ///
    /// # Errors
    /// [`MapError`]: a key is in no partition or in two, or tables are out of order.
    pub fn new(version: u64, tables: Vec<TablePartitions>) -> Result<Self, MapError> {
        let map = PartitionMap { version, tables };
        map.check()?;
        Ok(map)
    }

    /// Returns the map with which a run begins: each table has a partition of nearly equal size for
    /// each core. A table with fewer positions than cores has a partition for each position, owned
    /// by cores at proportional places of the list.
    ///
    /// # Errors
    /// [`MapError`]: a table is empty, or tables are out of order, or there are no cores.
    pub fn even(tables: &[(Table, &str, Range)], owners: &[Core]) -> Result<Self, MapError> {
        let of_table = |(table, name, domain): &(Table, &str, Range)| {
            let parts = (owners.len() as u64).min(domain.len());
            let at = |part: u64| domain.low + share(domain.len(), part, parts);
            let partition = |part: u64| Partition {
                range: Range { low: at(part), end: at(part + 1) },
                owner: owners[share(owners.len() as u64, part, parts) as usize],
            };
            TablePartitions {
                table: *table,
                name: (*name).to_owned(),
                partitions: (0..parts).map(partition).collect(),
            }
        };
        PartitionMap::new(0, tables.iter().map(of_table).collect())
    }

    /// Returns the version, which each repartitioning increases by one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the tables, ascending.
    pub fn tables(&self) -> &[TablePartitions] {
        &self.tables
    }

    /// Returns a table's partitions.
    pub fn table(&self, table: Table) -> Option<&TablePartitions> {
        let place = self.tables.binary_search_by_key(&table, |one| one.table).ok()?;
        Some(&self.tables[place])
    }

    /// Returns the core that owns a position; `None` if the map does not have the table.
    pub fn owner(&self, table: Table, position: u64) -> Option<Core> {
        let partitions = self.table(table)?;
        Some(partitions.partitions[partitions.place(position)].owner)
    }

    /// Returns all partitions, table by table.
    pub fn partitions(&self) -> impl Iterator<Item = (&TablePartitions, &Partition)> {
        self.tables.iter().flat_map(|table| table.partitions.iter().map(move |partition| (table, partition)))
    }

    /// Checks that each position of each table is in exactly one partition.
    ///
    /// # Errors
    /// [`MapError`] describes the fault.
    pub fn check(&self) -> Result<(), MapError> {
        for (number, table) in self.tables.iter().enumerate() {
            if number > 0 && self.tables[number - 1].table >= table.table {
                return Err(MapError::Order(table.name.clone()));
            }
            if table.partitions.is_empty() {
                return Err(MapError::Empty(table.name.clone()));
            }
            let mut end = table.domain().low;
            for Partition { range, .. } in &table.partitions {
                if range.is_empty() {
                    return Err(MapError::EmptyPartition(table.name.clone(), range.low));
                }
                if range.low != end {
                    return Err(MapError::Gap { table: table.name.clone(), end, low: range.low });
                }
                end = range.end;
            }
        }
        Ok(())
    }

    /// Checks that `is_there` returns true for all owners.
    ///
    /// # Errors
    /// [`MapError::Owner`] names the first other owner.
    pub fn check_owners(&self, is_there: impl Fn(Core) -> bool) -> Result<(), MapError> {
        let lost = self.partitions().find(|(_, partition)| !is_there(partition.owner));
        lost.map_or(Ok(()), |(table, partition)| Err(MapError::Owner(table.name.clone(), partition.owner)))
    }

    /// Returns the next version: this map after `changes`, in order.
    ///
    /// # Errors
    /// [`MapError`]: a change does not fit the map as those before have left it.
    pub fn changed(&self, changes: &[Change]) -> Result<Self, MapError> {
        let mut next = self.clone();
        changes.iter().try_for_each(|change| next.apply(change))?;
        next.version += 1;
        next.check()?;
        Ok(next)
    }

    /// Returns the changes of up to `count` actions, which go along all tables repeatedly. There
    /// are fewer if partitions become too small, or too few.
    pub fn border_changes(&self, action: BorderAction, count: usize) -> Vec<Vec<Change>> {
        let mut after = self.clone();
        let mut all = Vec::with_capacity(count);
        loop {
            let before = all.len();
            for (table, low) in after.begins(action) {
                if all.len() == count {
                    return all;
                }
                if let Some(changes) = after.border_change(action, table, low) {
                    changes
                        .iter()
                        .try_for_each(|change| after.apply(change))
                        .expect("partitions as they are");
                    all.push(changes);
                }
            }
            if all.len() == before {
                return all;
            }
        }
    }

    /// Returns the partitions that an action changes in one pass, as index of their table and first
    /// position; of pairs that are united the second one.
    fn begins(&self, action: BorderAction) -> Vec<(usize, u64)> {
        let (first, step) = if action == BorderAction::Merge { (1, 2) } else { (0, 1) };
        let of_table = |(number, table): (usize, &TablePartitions)| {
            let begins = table.partitions.iter().skip(first).step_by(step);
            begins.map(|partition| (number, partition.range.low)).collect::<Vec<_>>()
        };
        self.tables.iter().enumerate().flat_map(of_table).collect()
    }

    /// Returns the changes of an action on the partition that begins at `low`; `None` if it has too
    /// few positions, or no partition before it.
    fn border_change(&self, action: BorderAction, table: usize, low: u64) -> Option<Vec<Change>> {
        let all = &self.tables[table];
        let (table, partitions, place) = (all.table, &all.partitions, all.place(low));
        let this = partitions[place];
        if action == BorderAction::Split {
            let at = low + this.range.len() / 2;
            return (this.range.len() > 1).then(|| vec![Change::Split { table, at }]);
        }
        let before = partitions[place.checked_sub(1)?];
        let to = before.owner;
        let (moved, merged) = (Change::Move { table, low, to }, Change::Merge { table, at: low });
        match action {
            BorderAction::Merge if this.owner == to => Some(vec![merged]),
            BorderAction::Merge => Some(vec![moved, merged]),
            _ if this.owner == to || this.range.len() < 2 => None,
            _ => Some(vec![Change::Split { table, at: low + 1 }, moved, merged]),
        }
    }

    fn apply(&mut self, change: &Change) -> Result<(), MapError> {
        let wanted = change.table();
        let place = self.tables.binary_search_by_key(&wanted, |one| one.table);
        let table = &mut self.tables[place.map_err(|_| MapError::Unknown(wanted))?];
        let misfit = |why| Err(MapError::Misfit(*change, why));
        let begins = |low| table.partitions.binary_search_by_key(&low, |one| one.range.low);
        match *change {
            Change::Split { at, .. } => {
                if !table.domain().has(at) {
                    return misfit("it is outside of the table");
                }
                let place = table.place(at);
                let whole = table.partitions[place];
                if whole.range.low == at {
                    return misfit("a partition begins there already");
                }
                table.partitions[place].range.end = at;
                let range = Range { low: at, end: whole.range.end };
                table.partitions.insert(place + 1, Partition { range, ..whole });
            }
            Change::Merge { at, .. } => match begins(at) {
                Err(_) => return misfit("no partition begins there"),
                Ok(0) => return misfit("there is none before it"),
                Ok(place) => {
                    if table.partitions[place].owner != table.partitions[place - 1].owner {
                        return misfit("the two have different owners");
                    }
                    let second = table.partitions.remove(place);
                    table.partitions[place - 1].range.end = second.range.end;
                }
            },
            Change::Move { low, to, .. } => match begins(low) {
                Err(_) => return misfit("no partition begins there"),
                Ok(place) if table.partitions[place].owner == to => return misfit("it is there already"),
                Ok(place) => table.partitions[place].owner = to,
            },
        }
        Ok(())
    }
}

/// Returns the begin of part `part` of `parts` equal parts of `whole`: position i of the whole is
/// in part i * parts / whole.
pub(crate) fn share(whole: u64, part: u64, parts: u64) -> u64 {
    (u128::from(whole) * u128::from(part)).div_ceil(u128::from(parts.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Table = Table(3);

    fn map(pieces: &[(u64, u64, u16)]) -> PartitionMap {
        let partition = |&(low, end, owner)| Partition { range: Range { low, end }, owner: Core(owner) };
        let partitions = pieces.iter().map(partition).collect();
        PartitionMap::new(7, vec![TablePartitions { table: T, name: "t".to_owned(), partitions }])
            .expect("a map")
    }

    #[test]
    fn a_run_begins_evenly() {
        let owners = [0, 1, 2, 3].map(Core);
        let tables =
            [(Table(0), "wide", Range { low: 1, end: 11 }), (Table(2), "narrow", Range { low: 5, end: 7 })];
        let map = PartitionMap::even(&tables, &owners).expect("a map");
        let of = |table: u16| -> Vec<(u64, u64, u16)> {
            let table = map.table(Table(table)).expect("a table");
            table.partitions.iter().map(|one| (one.range.low, one.range.end, one.owner.0)).collect()
        };
        assert_eq!(of(0), [(1, 4, 0), (4, 6, 1), (6, 9, 2), (9, 11, 3)]);
        assert_eq!(of(2), [(5, 6, 0), (6, 7, 2)]);
        assert_eq!(map.owner(Table(0), 5), Some(Core(1)));
        // Positions outside of the table belong to the nearest partition.
        assert_eq!((map.owner(Table(0), 0), map.owner(Table(0), 99)), (Some(Core(0)), Some(Core(3))));
        assert_eq!(map.owner(Table(1), 5), None);
        assert!(PartitionMap::even(&[(T, "none", Range { low: 1, end: 1 })], &owners).is_err());
    }

    #[test]
    fn boundaries_shift_until_partitions_are_small() {
        let before = map(&[(0, 10, 0), (10, 13, 1), (13, 15, 2), (15, 20, 2)]);
        let shifts = |count| before.border_changes(BorderAction::Rearrange, count);
        let after = |count| before.changed(&shifts(count).concat()).expect("changes that fit");
        assert_eq!(after(0).tables(), before.tables());
        assert_eq!(after(1).tables(), map(&[(0, 11, 0), (11, 13, 1), (13, 15, 2), (15, 20, 2)]).tables());
        assert_eq!(after(3).tables(), map(&[(0, 12, 0), (12, 14, 1), (14, 15, 2), (15, 20, 2)]).tables());
        // The second partition has one more position to give after each that it gets.
        assert_eq!(shifts(9).len(), 4);
        assert_eq!(after(9).tables(), map(&[(0, 13, 0), (13, 14, 1), (14, 15, 2), (15, 20, 2)]).tables());
    }

    #[test]
    fn partitions_are_halved_and_united() {
        let before = map(&[(0, 10, 0), (10, 13, 1), (13, 14, 2)]);
        let after = |map: &PartitionMap, action, count| {
            let actions = map.border_changes(action, count);
            (actions.len(), map.changed(&actions.concat()).expect("changes that fit"))
        };
        let (_, split) = after(&before, BorderAction::Split, 2);
        assert_eq!(split.tables, map(&[(0, 5, 0), (5, 10, 0), (10, 11, 1), (11, 13, 1), (13, 14, 2)]).tables);
        // A partition of one position cannot be divided: 14 positions are 14 partitions in the end.
        assert_eq!(after(&before, BorderAction::Split, 99).0, 11);
        let (count, merged) = after(&split, BorderAction::Merge, 2);
        assert_eq!((count, &merged.tables), (2, &before.tables));
        let (count, merged) = after(&split, BorderAction::Merge, 99);
        assert_eq!((count, merged.tables), (4, map(&[(0, 14, 0)]).tables));
    }

    #[test]
    fn changes_split_merge_and_move() {
        let before = map(&[(0, 10, 0), (10, 20, 1)]);
        let changes = [
            Change::Split { table: T, at: 15 },
            Change::Move { table: T, low: 10, to: Core(0) },
            Change::Merge { table: T, at: 10 },
        ];
        let after = before.changed(&changes).expect("they fit");
        assert_eq!(after.tables, map(&[(0, 15, 0), (15, 20, 1)]).tables);
        assert_eq!((before.version(), after.version()), (7, 8));
    }

    #[test]
    fn changes_that_do_not_fit_are_refused() {
        let map = map(&[(0, 10, 0), (10, 20, 1)]);
        for change in [
            Change::Split { table: T, at: 10 },
            Change::Split { table: T, at: 20 },
            Change::Merge { table: T, at: 10 },
            Change::Merge { table: T, at: 0 },
            Change::Merge { table: T, at: 5 },
            Change::Move { table: T, low: 5, to: Core(1) },
            Change::Move { table: T, low: 0, to: Core(0) },
        ] {
            let error = map.changed(&[change]).unwrap_err();
            assert!(matches!(error, MapError::Misfit(..)), "{error}");
        }
        let other = Change::Split { table: Table(9), at: 5 };
        assert_eq!(map.changed(&[other]), Err(MapError::Unknown(Table(9))));
    }

    #[test]
    fn broken_maps_are_refused() {
        let broken = |pieces: &[(u64, u64)]| {
            let partition = |&(low, end)| Partition { range: Range { low, end }, owner: Core(0) };
            let partitions = pieces.iter().map(partition).collect();
            PartitionMap::new(0, vec![TablePartitions { table: T, name: "t".to_owned(), partitions }])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(broken(&[(0, 10), (9, 20)]), "a partition of t ends at 10, and the next one begins at 9");
        assert_eq!(
            broken(&[(0, 10), (11, 20)]),
            "a partition of t ends at 10, and the next one begins at 11"
        );
        assert_eq!(broken(&[(0, 10), (10, 10)]), "a partition of t that begins at 10 is empty");
        assert_eq!(broken(&[]), "t has no partitions");
        let map = map(&[(0, 10, 0), (10, 20, 1)]);
        let unchecked = serde_json::to_string(&map).expect("a value");
        assert_eq!(serde_json::from_str::<PartitionMap>(&unchecked).expect("a map"), map);
        let overlapping = unchecked.replace("\"low\":10", "\"low\":9");
        let error = serde_json::from_str::<PartitionMap>(&overlapping).unwrap_err();
        assert!(error.to_string().contains("the next one begins at 9"), "{error}");
        let lost = map.check_owners(|core| core == Core(0)).unwrap_err();
        assert_eq!(lost.to_string(), "a partition of t belongs to core 1, which is not there");
    }
}
