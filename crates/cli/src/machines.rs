//! The machines that `--machine` names.

use std::path::Path;

use machine::{Description, Topology};

use crate::bad_input::BadInput;
use crate::config::MachineFacts;

/// The name of the machine this process runs on.
pub const NATIVE: &str = "native";

/// The machine this process runs on, as far as the process may use it.
///
/// # Errors
/// The machine shows nothing that may be used.
pub fn native() -> Result<Topology, BadInput> {
    machine::discover(None).map_err(|error| BadInput::new("--machine native", error.to_string(), ""))
}

/// The machine whose sys, proc and dev/cpuset lie under `root`.
///
/// # Errors
/// There is no machine there.
pub fn under(root: &str) -> Result<Topology, BadInput> {
    machine::discover(Some(Path::new(root))).map_err(|error| {
        BadInput::value("--sysroot", root, error.to_string(), "a directory that holds sys and proc")
    })
}

/// What a configuration must know of the machine that `--machine` names, `native` where it was not given.
///
/// # Errors
/// There is no such machine, or this version has none.
pub fn facts(name: Option<&str>) -> Result<MachineFacts, BadInput> {
    let host = native()?;
    let name = name.unwrap_or(NATIVE);
    let threads_by_smt = match name {
        NATIVE => threads_by_smt(&host),
        // Of a cluster, one machine: an instance lives on one.
        _ => threads_by_smt(&shipped(name)?.topology),
    };
    let memory = host.memory_bytes();
    Ok(MachineFacts {
        name: name.to_owned(),
        threads_by_smt,
        host_memory_bytes: (memory > 0).then_some(memory),
    })
}

/// The description of a machine that ships with Isles.
///
/// # Errors
/// None of that name.
pub fn shipped(name: &str) -> Result<Description, BadInput> {
    Description::shipped(name).ok_or_else(|| not_shipped(name))
}

/// The description of the machine that `--machine` names; of the native one, its structure with the costs that machines
/// of that shape usually have.
///
/// # Errors
/// There is no such machine.
pub fn described(name: &str) -> Result<Description, BadInput> {
    match name {
        NATIVE => Ok(Description::of_topology(&native()?)),
        _ => shipped(name),
    }
}

fn threads_by_smt(topology: &Topology) -> Vec<usize> {
    (1..=topology.smt().max(1)).map(|smt| topology.cores_limited(usize::MAX, smt).len()).collect()
}

fn not_shipped(name: &str) -> BadInput {
    let looks_like_file = name.contains('/') || name.ends_with(".xml") || name.ends_with(".toml");
    if looks_like_file || Path::new(name).exists() {
        return BadInput::later(format!("--machine {name}: description files"), accepted());
    }
    BadInput::value("--machine", name, "unknown machine", accepted())
}

fn accepted() -> String {
    let names: Vec<&str> = std::iter::once(NATIVE).chain(Description::names().iter().copied()).collect();
    names.join(", ")
}
