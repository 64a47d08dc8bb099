//! The plan of a probe and its results.

use std::path::PathBuf;

use machine::Measurements;
use serde::Serialize;

/// How thorough to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Effort {
    /// Largest working set of the latency curve, in multiples of the L3.
    pub l3_multiple: usize,
    /// And at least this.
    pub largest_bytes: usize,
    pub repetitions: u64,
    /// Time for all pairs of threads together.
    pub pairs_nanos: u64,
    /// Time for each mechanism, and for each bandwidth.
    pub each_nanos: u64,
    pub fsyncs: usize,
    /// Bytes of the file that is read at random.
    pub file_bytes: usize,
}

pub(super) const FULL: Effort = Effort {
    l3_multiple: 4,
    largest_bytes: 256 << 20,
    repetitions: 15,
    pairs_nanos: 15_000_000_000,
    each_nanos: 300_000_000,
    fsyncs: 200,
    file_bytes: 1 << 30,
};

pub(super) const QUICK: Effort = Effort {
    l3_multiple: 2,
    largest_bytes: 64 << 20,
    repetitions: 5,
    pairs_nanos: 2_000_000_000,
    each_nanos: 50_000_000,
    fsyncs: 20,
    file_bytes: 128 << 20,
};

/// One point of the latency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    pub bytes: usize,
    pub ns: f64,
}

/// A mechanism of communication; the reason where it could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Channel {
    pub mechanism: &'static str,
    pub messages_per_second: Option<f64>,
    pub round_trip_us: Option<f64>,
    pub reason: Option<String>,
}

/// Flushing a file of a page that was just written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Flush {
    pub path: PathBuf,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub reason: Option<String>,
}

/// Pages that are read at random past the operating system's cache, while this many reads are under
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ReadsAtDepth {
    pub depth: usize,
    pub per_second: f64,
}

/// Random reads of the device; the reason where they could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Reads {
    pub page_bytes: usize,
    pub depths: Vec<ReadsAtDepth>,
    pub reason: Option<String>,
}

/// Everything that was measured. Serialises as the result of `--json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Probe {
    pub version: &'static str,
    pub processor: String,
    /// Hardware threads, in the order of the matrix.
    pub hardware_threads: Vec<u32>,
    /// Core clock, from a chain of additions.
    pub clock_ghz: Option<f64>,
    /// Rate of the time stamp counter; null where it is not used.
    pub timer_ghz: Option<f64>,
    /// Reading the clock.
    pub timer_ns: f64,
    /// An atomic addition to a line in the own L1.
    pub atomic_ns: f64,
    /// One pause of a loop that spins.
    pub pause_ns: f64,
    /// A modified line from one hardware thread to another.
    pub core_to_core_ns: Vec<Vec<Option<f64>>>,
    /// A load by size of the working set.
    pub load_curve: Vec<Point>,
    pub l1_ns: Option<f64>,
    pub l2_ns: Option<f64>,
    pub l3_ns: Option<f64>,
    /// Memory nodes, in the order of the matrices.
    pub nodes: Vec<u32>,
    /// A load from memory; row: node of the core.
    pub memory_ns: Vec<Vec<f64>>,
    /// Reading memory with all cores of a node; row: node of the cores.
    pub memory_gbps: Vec<Vec<f64>>,
    pub ipc: Vec<Channel>,
    pub fsync: Flush,
    pub random_reads: Reads,
    /// How long it took.
    pub seconds: f64,
}

impl Probe {
    /// As a description needs it.
    pub(super) fn measurements(&self, quick: bool) -> Measurements {
        let some = |matrix: &[Vec<f64>]| {
            Some(matrix.iter().map(|row| row.iter().copied().map(Some).collect()).collect())
        };
        let quick = if quick { " --quick" } else { "" };
        Measurements {
            name: "probed".to_owned(),
            processor: self.processor.clone(),
            source: format!("isles {} probe{quick}", self.version),
            clock_ghz: self.clock_ghz,
            atomic_ns: Some(self.atomic_ns),
            clock_ns: Some(self.timer_ns),
            pause_ns: Some(self.pause_ns),
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
