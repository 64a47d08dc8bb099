//! Discovery of a machine from what the Linux kernel shows under `/sys`, `/proc` and `/dev/cpuset`.
//!
//! The kernels, firmwares and hypervisors of twenty years disagree on what they show, so every fact
//! has fallbacks: masks or lists, new names or old names, `/proc/cpuinfo` where sysfs has no
//! topology, and a flat machine where there is nothing at all. Facts that contradict each other are
//! dropped, as hwloc drops them.

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
/// [`DiscoverError`]: nothing to read, or nothing that may be used. Missing or contradictory detail
/// is no error.
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
