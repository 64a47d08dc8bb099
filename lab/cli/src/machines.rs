//! The machines that `--machine` names.

use std::path::Path;

use machine::{Description, FileError, Topology};

use crate::bad_input::BadInput;
use crate::machine_facts::{MachineFacts, NATIVE, threads_by_smt};

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

/// The facts of the machine that `--machine` names, `native` by default.
///
/// # Errors
/// There is no such machine, or this version has none.
pub fn facts(name: Option<&str>) -> Result<MachineFacts, BadInput> {
    let host = native()?;
    let name = name.unwrap_or(NATIVE);
    let memory = host.memory_bytes();
    let (topology, has_tlbs) = match name {
        NATIVE => (host, false),
        _ => {
            let description = described(name)?;
            (description.whole(), description.translation.is_some())
        }
    };
    let (threads_by_smt, sockets_by_smt) = threads_by_smt(&topology);
    Ok(MachineFacts {
        name: name.to_owned(),
        threads_by_smt,
        sockets_by_smt,
        machines: topology.machine_count(),
        host_memory_bytes: (memory > 0).then_some(memory),
        has_tlbs,
    })
}

/// The description of a machine that ships with Isles, or of the one in a file.
///
/// # Errors
/// There is neither of that name, or the file describes no machine.
fn in_file(name: &str) -> Result<Description, BadInput> {
    if let Some(shipped) = Description::shipped(name) {
        return Ok(shipped);
    }
    let path = Path::new(name);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !path.exists() && !name.contains('/') && !["xml", "toml", "csv"].contains(&ending) {
        return Err(BadInput::value("--machine", name, "unknown machine", accepted()));
    }
    Description::read(path).map_err(|error| match error {
        FileError::Read(_) => BadInput::value("--machine", name, error.to_string(), accepted()),
        // What the fault is of has its own expectations.
        _ => BadInput::value("--machine", name, error.to_string(), ""),
    })
}

/// The description of the machine that `--machine` names; of the native one, its structure with the
/// costs that machines of that shape usually have.
///
/// # Errors
/// There is no such machine, or the file describes none.
pub fn described(name: &str) -> Result<Description, BadInput> {
    match name {
        NATIVE => Ok(Description::of_topology(&native()?)),
        _ => in_file(name),
    }
}

fn accepted() -> String {
    let names: Vec<&str> = std::iter::once(NATIVE).chain(Description::names().iter().copied()).collect();
    format!("{}; or a file: a description, XML of lstopo, a core-to-core matrix", names.join(", "))
}
