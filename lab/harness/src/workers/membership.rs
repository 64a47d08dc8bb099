//! Which deployment a durable instance belongs to, and which of its instances it is.
//!
//! An instance says it in rows of the table that says that loading is complete, written together
//! with that one: so the directory of an instance can be told from any other, wherever it is copied
//! or mounted.

use std::path::PathBuf;

use platform::Platform;
use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// Bits of a row's number below the one that says what the row tells.
pub(crate) const KIND_SHIFT: u32 = 56;
/// The kinds (there are others in [`crate::workers::partitions`]): the number of the deployment,
/// the instance and how many there are, and how data are divided.
const KINDS: [u64; 3] = [1, 2, 3];
/// The least number of such a row.
pub(crate) const FIRST_ROW: u64 = KINDS[0] << KIND_SHIFT;
/// Bits of a deployment's number.
const NUMBER_BITS: u32 = 48;

/// Whose instance it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// A number that no other deployment has.
    pub deployment: u64,
    /// Which instance.
    pub instance: u16,
    /// Number of instances.
    pub instances: u16,
    /// [`distributed::DataOwners::sum`] of how data are divided.
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

/// A number for a new deployment: on simulated machines one follows from the seed.
pub(crate) fn new_number<P: Platform>(seed: u64) -> u64 {
    let moment = match P::VIRTUAL {
        true => seed,
        false => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(seed, |now| now.as_nanos() as u64) ^ u64::from(std::process::id()) << 40
        }
    };
    // Spread: those of one day differ in all bits.
    moment.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NUMBER_BITS)
}

/// The directory of an instance, as it was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub path: PathBuf,
    /// True if an earlier run has loaded data.
    pub is_loaded: bool,
    pub membership: Option<Membership>,
}

/// True if these are the instances of a deployment that divides data so, by their numbers; false:
/// none of them has data.
///
/// # Errors
/// One that does not belong to the others.
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

/// Refuses an instance of a deployment where a single database is wanted.
///
/// # Errors
/// It is one.
pub(crate) fn stands_alone(found: &Found) -> Result<(), RunError> {
    let Some(Membership { instance, instances, .. }) = found.membership else { return Ok(()) };
    let path = found.path.display();
    Err(RunError::Refused(format!(
        "{path}: is instance {instance} of a deployment of {instances}: name another directory, or run that deployment"
    )))
}
