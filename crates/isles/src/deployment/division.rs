//! Division of the data into parts, and of the parts among workers and instances.

use schema::{KeyOrder, Row, ValueType};

use crate::error::{Error, Result};

/// Division of a deployment into instances, workers and parts. [`Deployment`](crate::Deployment)
/// has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Number of instances.
    pub instances: usize,
    /// Number of worker threads of all instances together: at least one for each instance.
    pub workers: usize,
    /// Number of parts of the data, which are numbered from 0: at least one for each worker. The
    /// number is fixed when a durable deployment is created.
    pub parts: u16,
}

impl Division {
    /// Returns the worker that has a part.
    pub(super) fn worker(self, part: usize) -> usize {
        part % self.workers
    }

    /// Returns the instance of a worker.
    pub(super) fn instance(self, worker: usize) -> usize {
        worker * self.instances / self.workers
    }

    pub(super) fn check(self) -> Result<()> {
        let Division { instances, workers, parts } = self;
        let wrong = if instances == 0 {
            "a deployment has at least one instance".to_owned()
        } else if workers < instances {
            format!("{instances} instances with {workers} workers: each has at least one")
        } else if usize::from(parts) < workers {
            format!("{workers} workers with {parts} parts of the data: each has at least one")
        } else {
            return Ok(());
        };
        Err(Error::Deployment(wrong))
    }
}

/// Returns the reason why rows of this type cannot be divided, if there is one.
pub(super) fn undivided<R: Row>() -> Option<String> {
    let leading = R::INDEXES[0].columns[0];
    let column = R::COLUMNS.iter().find(|column| column.name == leading);
    let is_ascending = R::INDEXES[0].order(0) == KeyOrder::ASCENDING;
    if !is_ascending || column.is_none_or(|column| (column.kind)() != ValueType::Unsigned(2)) {
        return Some(format!(
            "its key begins with `{leading}`: a table that is divided has a `u16` there, the part"
        ));
    }
    let unique = R::INDEXES[1..].iter().find(|index| {
        index.unique && (index.columns[0] != leading || index.order(0) != KeyOrder::ASCENDING)
    })?;
    let name = unique.name;
    Some(format!(
        "index `{name}` does not begin with `{leading}`: it cannot be unique over several instances"
    ))
}
