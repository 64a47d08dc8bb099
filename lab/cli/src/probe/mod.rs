//! `isles probe`: measures the machine it runs on, and describes it.
//!
//! The measuring code is that of `workloads::measure`, `ipc` and `memory`; here is what to measure,
//! on which threads, and what becomes of it. Everything runs on this machine's hardware; other load
//! on it makes the figures worse, so medians of short repetitions count.

mod measure;
mod reads;
mod text;
mod types;

use std::path::{Path, PathBuf};
use std::time::Instant;

use machine::Description;

use crate::arguments::ProbeArguments;
use crate::bad_input::BadInput;
use crate::errors::Failure;
use crate::machines;

use types::{FULL, QUICK};

/// Measures, writes the description where asked, and gives the report for standard output.
///
/// # Errors
/// No machine, a path that cannot be written to, or no memory for the largest working set.
pub(crate) fn run(arguments: &ProbeArguments) -> Result<String, Failure> {
    let started = Instant::now();
    let topology = machines::native()?;
    let effort = if arguments.quick { QUICK } else { FULL };
    let directory = directory(arguments.path.as_deref())?;
    let out = arguments.out.as_deref().map(Target::open).transpose()?;
    let mut probe = measure::all(&topology, effort, &directory)?;
    probe.seconds = started.elapsed().as_secs_f64();
    let description = Description::of_measurements(&topology, &probe.measurements(arguments.quick));
    if let Some(target) = out {
        target.write(&description.to_toml())?;
    }
    if arguments.json {
        return Ok(serde_json::to_string(&probe).map_err(Failure::of)? + "\n");
    }
    Ok(text::render(&probe, &topology, arguments.out.as_deref()))
}

/// The directory in which files are flushed and read.
fn directory(path: Option<&str>) -> Result<PathBuf, BadInput> {
    let Some(path) = path else { return Ok(std::env::temp_dir()) };
    if Path::new(path).is_dir() {
        return Ok(PathBuf::from(path));
    }
    Err(BadInput::value("--path", path, "not a directory", "a directory on the device to measure"))
}

/// Where the description goes. Opened first: a minute of measuring must not end with a path that
/// was mistyped. An existing file is replaced at the end.
struct Target {
    path: PathBuf,
    partial: PathBuf,
}

impl Target {
    fn open(path: &str) -> Result<Target, BadInput> {
        let fault = |error: &dyn std::fmt::Display| {
            BadInput::value("--out", path, error.to_string(), "a file in a directory that can be written to")
        };
        let target = Path::new(path);
        let Some(name) = target.file_name().filter(|_| !target.is_dir()) else {
            return Err(fault(&"not a file"));
        };
        let mut partial = name.to_owned();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = target.with_file_name(partial);
        std::fs::File::create(&partial).map_err(|error| fault(&error))?;
        Ok(Target { path: target.to_owned(), partial })
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::Failed(format!("--out {}: {error}", self.path.display()));
        std::fs::write(&self.partial, text).map_err(failed)?;
        std::fs::rename(&self.partial, &self.path).map_err(failed)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Gone already if it was written.
        let _ = std::fs::remove_file(&self.partial);
    }
}
