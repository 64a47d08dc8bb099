//! `isles probe`: measures the machine it runs on, and describes it.
//!
//! The measuring code is that of `workloads::measure`, `ipc` and `memory`; here is what to measure, on which threads, and
//! what becomes of it. Everything runs on this machine's hardware; other load on it makes the figures worse, so medians
//! of short repetitions count.

mod measure;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use machine::{Description, Measurements, Topology};
use serde::Serialize;

use crate::arguments::ProbeArguments;
use crate::bad_input::BadInput;
use crate::errors::Failure;
use crate::machines;

/// How thorough to be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effort {
    /// Largest working set of the latency curve, in multiples of the L3.
    l3_multiple: usize,
    /// And at least this.
    largest_bytes: usize,
    repetitions: u64,
    /// Time for all pairs of threads together.
    pairs_nanos: u64,
    /// Time for each mechanism, and for each bandwidth.
    each_nanos: u64,
    fsyncs: usize,
}

const FULL: Effort = Effort {
    l3_multiple: 4,
    largest_bytes: 256 << 20,
    repetitions: 15,
    pairs_nanos: 15_000_000_000,
    each_nanos: 300_000_000,
    fsyncs: 200,
};

const QUICK: Effort = Effort {
    l3_multiple: 2,
    largest_bytes: 64 << 20,
    repetitions: 5,
    pairs_nanos: 2_000_000_000,
    each_nanos: 50_000_000,
    fsyncs: 20,
};

/// One point of the latency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Point {
    bytes: usize,
    ns: f64,
}

/// A mechanism of communication; the reason where it could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Channel {
    mechanism: &'static str,
    messages_per_second: Option<f64>,
    round_trip_us: Option<f64>,
    reason: Option<String>,
}

/// Flushing a file of a page that was just written.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Flush {
    path: PathBuf,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    reason: Option<String>,
}

/// Everything that was measured. Serialises as the result of `--json`.
#[derive(Clone, Debug, Serialize)]
struct Probe {
    version: &'static str,
    processor: String,
    /// Hardware threads, in the order of the matrix.
    hardware_threads: Vec<u32>,
    /// Core clock, from a chain of additions.
    clock_ghz: Option<f64>,
    /// Rate of the time stamp counter; null where it is not used.
    timer_ghz: Option<f64>,
    /// Reading the clock.
    timer_ns: f64,
    /// A modified line from one hardware thread to another.
    core_to_core_ns: Vec<Vec<Option<f64>>>,
    /// A load by size of the working set.
    load_curve: Vec<Point>,
    l1_ns: Option<f64>,
    l2_ns: Option<f64>,
    l3_ns: Option<f64>,
    /// Memory nodes, in the order of the matrices.
    nodes: Vec<u32>,
    /// A load from memory; row: node of the core.
    memory_ns: Vec<Vec<f64>>,
    /// Reading memory with all cores of a node; row: node of the cores.
    memory_gbps: Vec<Vec<f64>>,
    ipc: Vec<Channel>,
    fsync: Flush,
    /// How long it took.
    seconds: f64,
}

impl Probe {
    /// As a description needs it.
    fn measurements(&self, quick: bool) -> Measurements {
        let some = |matrix: &[Vec<f64>]| {
            Some(matrix.iter().map(|row| row.iter().copied().map(Some).collect()).collect())
        };
        let quick = if quick { " --quick" } else { "" };
        Measurements {
            name: "probed".to_owned(),
            processor: self.processor.clone(),
            source: format!("isles {} probe{quick}", self.version),
            clock_ghz: self.clock_ghz,
            l1_ns: self.l1_ns,
            l2_ns: self.l2_ns,
            l3_ns: self.l3_ns,
            memory_ns: some(&self.memory_ns),
            memory_gbps: some(&self.memory_gbps),
            core_to_core_ns: Some(self.core_to_core_ns.clone()),
            ..Measurements::default()
        }
    }
}

/// What goes on, on standard error.
fn say(what: &str) {
    // A closed standard error must not end the measurement.
    let _ = writeln!(std::io::stderr(), "isles: {what}");
}

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

/// The directory in which files are flushed.
fn directory(path: Option<&str>) -> Result<PathBuf, BadInput> {
    let Some(path) = path else { return Ok(std::env::temp_dir()) };
    if Path::new(path).is_dir() {
        return Ok(PathBuf::from(path));
    }
    Err(BadInput::value("--path", path, "not a directory", "a directory on the device to measure"))
}

/// Where the description goes. Opened first: a minute of measuring must not end with a path that was mistyped. An
/// existing file is replaced at the end.
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

/// What the machine calls its processors.
fn processor(topology: &Topology) -> String {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let Some((_, model)) = model else { return String::new() };
    let sockets = topology.socket_count();
    if sockets > 1 { format!("{sockets} x {}", model.trim()) } else { model.trim().to_owned() }
}
