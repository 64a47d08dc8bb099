//! Which instance, and which of its workers, an action belongs to.
//!
//! Tables are partitioned by the leading column of their keys; a part of the data is one value of
//! that column in all of them. A part belongs to one worker, and so to that worker's instance.
//! Tables that are never written are in all instances.

use std::fmt;

use boundary::TableDivision;
use schema::Routes;
use serde::{Deserialize, Serialize};
use terms::Abort;

/// A worker of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerName {
    /// Number of its instance.
    pub instance: u16,
    /// Its number among the workers of all instances.
    pub worker: u16,
}

impl fmt::Display for WorkerName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "worker {} of instance {}", self.worker, self.instance)
    }
}

/// Why data cannot be divided over several instances.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Rows that are written belong to no part.
    #[error("table {0} is written and not partitioned: it cannot be divided over instances")]
    Undivided(String),
    /// Tables are partitioned differently.
    #[error("table {table} has {partitions} partitions, where the data have {parts} parts")]
    Parts {
        /// The table.
        table: String,
        /// Its partitions.
        partitions: usize,
        /// Parts of the data.
        parts: usize,
    },
    /// An instance would have no data.
    #[error(
        "{parts} parts of data cannot be divided over {instances} instances: instance {idle} would have none"
    )]
    Idle {
        /// Parts of the data.
        parts: usize,
        /// Instances.
        instances: usize,
        /// The first without data.
        idle: usize,
    },
}

/// Where transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeInstance {
    /// In this instance alone.
    Here,
    /// In others too, or instead.
    Elsewhere,
    /// Unknown to the procedure: its actions decide.
    Unknown,
}

/// The owners of all parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// By number of the table: whether it is partitioned; otherwise it is in all instances.
    partitioned: Vec<bool>,
    /// The leading column of the keys of part 0.
    first: u16,
    /// By part.
    owners: Vec<WorkerName>,
}

impl Map {
    /// The map of these tables, with the owner of each part, over `instances` instances.
    ///
    /// # Errors
    /// [`MapError`]: the tables cannot be divided so.
    pub fn new(
        tables: &[TableDivision],
        owners: Vec<WorkerName>,
        instances: usize,
    ) -> Result<Self, MapError> {
        let mut first = None;
        for table in tables.iter().filter(|table| !table.read_only) {
            let Some(division) = table.partitioning else {
                return Err(MapError::Undivided(table.name.clone()));
            };
            let is_other = first.is_some_and(|first| first != division.first);
            if is_other || usize::from(division.count) != owners.len() {
                let (partitions, parts) = (usize::from(division.count), owners.len());
                return Err(MapError::Parts { table: table.name.clone(), partitions, parts });
            }
            first = Some(division.first);
        }
        let owns = |instance: &usize| owners.iter().any(|owner| usize::from(owner.instance) == *instance);
        if let Some(idle) = (0..instances).find(|instance| !owns(instance)) {
            return Err(MapError::Idle { parts: owners.len(), instances, idle });
        }
        let partitioned = tables.iter().map(|table| !table.read_only).collect();
        Ok(Map { partitioned, first: first.unwrap_or(0), owners })
    }

    /// The owner of the part with this leading column. Columns outside belong to the last part, as
    /// in every instance.
    #[inline]
    pub fn owner(&self, column: u16) -> WorkerName {
        let part = column.wrapping_sub(self.first);
        self.owners[usize::from(part).min(self.owners.len() - 1)]
    }

    /// By number of the table: whether instances share its rows, or each has all of them.
    pub fn divided(&self) -> &[bool] {
        &self.partitioned
    }

    /// The leading columns of the first and of the last part.
    pub fn columns(&self) -> (u16, u16) {
        (self.first, self.first + (self.owners.len() - 1) as u16)
    }

    /// The instance of each part.
    pub fn instances(&self) -> Vec<u16> {
        self.owners.iter().map(|owner| owner.instance).collect()
    }

    /// The owner of part `part`.
    pub fn owner_of_part(&self, part: usize) -> WorkerName {
        self.owners[part.min(self.owners.len() - 1)]
    }

    /// The worker that an action with these routes belongs to.
    ///
    /// # Errors
    /// [`Abort::Misuse`]: the action touches nothing, or several instances.
    pub fn place(&self, routes: &Routes) -> Result<WorkerName, Abort> {
        let divided = |table: usize| self.partitioned.get(table).copied().unwrap_or(false);
        let mut home = None;
        for route in routes.entries().iter().filter(|route| divided(route.table)) {
            let (low, high) = route.keys.partition_columns();
            let (low, high) = (self.owner(low), self.owner(high));
            let owner = *home.get_or_insert(low);
            if owner.instance != low.instance || owner.instance != high.instance {
                return Err(Abort::Misuse(
                    "an action touches several instances: its procedure is not divided",
                ));
            }
        }
        home.ok_or(Abort::Misuse("an action touches no table that is divided over instances"))
    }
}

#[cfg(test)]
mod tests {
    use schema::Partitioning;

    use super::*;

    fn table(name: &str, partitioning: Option<(u16, u16)>, read_only: bool) -> TableDivision {
        let partitioning = partitioning.map(|(first, count)| Partitioning { first, count });
        TableDivision { name: name.to_owned(), partitioning, read_only }
    }

    fn owners(instances: &[u16]) -> Vec<WorkerName> {
        instances.iter().map(|instance| WorkerName { instance: *instance, worker: *instance }).collect()
    }

    #[test]
    fn parts_have_owners() {
        let tables = [table("item", None, true), table("stock", Some((1, 3)), false)];
        let map = Map::new(&tables, owners(&[0, 1, 0]), 2).unwrap();
        let instances = [1, 2, 3, 4, 0].map(|column| map.owner(column).instance);
        assert_eq!(instances, [0, 1, 0, 0, 0]);
        assert_eq!(map.owner_of_part(1).instance, 1);
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let message = |tables: &[TableDivision], instances: &[u16], count| {
            Map::new(tables, owners(instances), count).unwrap_err().to_string()
        };
        let loose = [table("log", None, false)];
        let expected = "table log is written and not partitioned: it cannot be divided over instances";
        assert_eq!(message(&loose, &[0, 1], 2), expected);
        let stock = [table("stock", Some((0, 2)), false)];
        assert!(message(&stock, &[0, 1, 2], 3).contains("has 2 partitions, where the data have 3 parts"));
        let expected = "2 parts of data cannot be divided over 3 instances: instance 2 would have none";
        assert_eq!(message(&stock, &[0, 1], 3), expected);
        let two = [table("a", Some((0, 2)), false), table("b", Some((1, 2)), false)];
        assert!(message(&two, &[0, 1], 2).contains("table b"));
    }
}
