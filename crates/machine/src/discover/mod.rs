//! Discovery of a machine from the Linux kernel's files under `/sys`, `/proc` and `/dev/cpuset`.
//!
//! The kernels, firmwares and hypervisors of twenty years differ in the files that they provide, so
//! every fact has fallbacks: masks or lists, new names or old names, `/proc/cpuinfo` if sysfs has
//! no topology, and a flat machine if there is nothing at all. Contradictory facts are dropped, as
//! in hwloc.

mod allowed;
mod caches;
mod cpuinfo;
mod error;
mod kinds;
mod memory;
mod processors;
mod root;

use std::path::Path;

use crate::raw::RawMachine;
use crate::topology::Topology;
use root::Root;

pub use error::DiscoverError;

/// Discovers a machine.
///
/// `None` is the machine this process runs on, restricted to the process's affinity and cpuset.
/// `Some(root)` reads sys, proc and dev/cpuset under `root` and ignores this process.
///
/// # Errors
/// [`DiscoverError`]: nothing to read, or nothing is allowed. Missing or contradictory details are
/// no errors.
pub fn discover(root: Option<&Path>) -> Result<Topology, DiscoverError> {
    let files = Root::open(root.unwrap_or(Path::new("/")))?;
    let affinity = match root {
        None => allowed::affinity()?,
        Some(_) => None,
    };
    let mut raw = RawMachine::default();
    let cpuinfo = cpuinfo::read(&files);
    processors::read(&files, &cpuinfo, affinity.as_ref(), &mut raw)?;
    if raw.online.is_empty() {
        return Err(DiscoverError::NoProcessor { path: files.path().to_owned() });
    }
    caches::read(&files, &mut raw);
    memory::read(&files, &mut raw)?;
    kinds::read(&files, &mut raw);
    let limits = allowed::read(&files, affinity)?;
    raw.allowed = limits.processors.map_or_else(|| raw.online.clone(), |set| set.intersection(&raw.online));
    if let Some(memories) = limits.memories {
        raw.nodes.iter_mut().for_each(|node| node.allowed = memories.contains(node.os_index));
    }
    let nothing = |what| DiscoverError::NothingAllowed { path: files.path().to_owned(), what };
    if raw.allowed.is_empty() {
        return Err(nothing("processors"));
    }
    Topology::assemble(&raw).ok_or_else(|| nothing("memories"))
}
