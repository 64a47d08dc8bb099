//! The division of a deployment into instances, workers and parts.

use crate::error::{Error, Result};

/// How a deployment is divided. [`Deployment`](super::Deployment) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Databases.
    pub instances: usize,
    /// Threads, of all instances together: at least one each.
    pub workers: usize,
    /// Parts of the data, numbered from 0: at least one for each worker. A durable deployment keeps
    /// the number for good.
    pub parts: u16,
}

impl Division {
    /// The worker that has a part.
    pub(super) fn worker(self, part: usize) -> usize {
        part % self.workers
    }

    /// The instance of a worker.
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
