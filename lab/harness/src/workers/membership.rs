//! The membership of a durable instance in a deployment.
//!
//! An instance stores it in rows of the table that marks the end of loading, in the same
//! transaction. So the directory of an instance is identified wherever it is copied or mounted.

use std::path::PathBuf;

use platform::Platform;
use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// Bits of a row's number below its kind.
pub(crate) const KIND_SHIFT: u32 = 56;
/// The kinds of rows (there are others in [`crate::workers::partitions`]): the number of the
/// deployment, the instance and the number of instances, and the division of the data.
const KINDS: [u64; 3] = [1, 2, 3];
/// The lowest number of such a row.
pub(crate) const FIRST_ROW: u64 = KINDS[0] << KIND_SHIFT;
/// Bits of a deployment's number.
const NUMBER_BITS: u32 = 48;

/// An instance of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// The unique number of the deployment.
    pub deployment: u64,
    /// The number of the instance.
    pub instance: u16,
    /// Number of instances.
    pub instances: u16,
    /// [`distributed::DataOwners::sum`] of the division of the data.
    pub owners: u32,
}

impl Membership {
    /// The numbers of its rows.
    pub(crate) fn rows(&self) -> [u64; 3] {
        let instance = u64::from(self.instance) << 16 | u64::from(self.instances);
        let values = [self.deployment, instance, u64::from(self.owners)];
        std::array::from_fn(|number| KINDS[number] << KIND_SHIFT | values[number])
    }

    /// The membership with these rows, if there are such rows.
    pub(crate) fn of_rows(rows: &[u64]) -> Option<Membership> {
        let value = |kind: u64| {
            let row = rows.iter().find(|row| **row >> KIND_SHIFT == kind);
            row.map(|row| row & ((1 << KIND_SHIFT) - 1))
        };
        let [deployment, instance, owners] = KINDS.map(value);
        let instance = instance?;
        Some(Membership {
            deployment: deployment?,
            instance: (instance >> 16) as u16,
            instances: instance as u16,
            owners: owners? as u32,
        })
    }
}

/// A number for a new deployment; on simulated machines it follows from the seed.
pub(crate) fn new_number<P: Platform>(seed: u64) -> u64 {
    let moment = match P::VIRTUAL {
        true => seed,
        false => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(seed, |now| now.as_nanos() as u64) ^ u64::from(std::process::id()) << 40
        }
    };
    // Spread, so that numbers of one day differ in all bits.
    moment.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NUMBER_BITS)
}

/// The content of the directory of an instance when it was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub path: PathBuf,
    /// True if an earlier run has loaded data.
    pub is_loaded: bool,
    pub membership: Option<Membership>,
}

/// True if these are, by their numbers, the instances of a deployment with this division of data;
/// false if none of them has data.
///
/// # Errors
/// An instance does not belong to the others.
pub(crate) fn belong_together(all: &[Found], owners: u32) -> Result<bool, RunError> {
    let Some(first) = all.iter().find(|found| found.is_loaded) else { return Ok(false) };
    let refused =
        |found: &Found, why: String| Err(RunError::Refused(format!("{}: {why}", found.path.display())));
    for (number, found) in all.iter().enumerate() {
        if !found.is_loaded {
            let why = format!(
                "holds no data, and {} does: bring back what was there, or remove all (loading may have been interrupted)",
                first.path.display()
            );
            return refused(found, why);
        }
        let Some(membership) = found.membership else {
            return refused(found, "is no instance of a deployment: name an empty or a new directory".into());
        };
        let Membership { deployment, instance, instances, .. } = membership;
        if first.membership.is_some_and(|first| first.deployment != deployment) {
            return refused(found, format!("is of another deployment than {}", first.path.display()));
        }
        if (usize::from(instance), usize::from(instances)) != (number, all.len()) {
            let why =
                format!("is instance {instance} of {instances}, and not instance {number} of {}", all.len());
            return refused(found, why);
        }
        if membership.owners != owners {
            return refused(found, "its deployment divides the data otherwise: ask for that one".into());
        }
    }
    Ok(true)
}

/// Refuses an instance of a deployment, if a single database is requested.
///
/// # Errors
/// The database is such an instance.
pub(crate) fn stands_alone(found: &Found) -> Result<(), RunError> {
    let Some(Membership { instance, instances, .. }) = found.membership else { return Ok(()) };
    let path = found.path.display();
    Err(RunError::Refused(format!(
        "{path}: is instance {instance} of a deployment of {instances}: name another directory, or run that deployment"
    )))
}
