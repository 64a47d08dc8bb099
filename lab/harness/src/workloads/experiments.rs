//! The experiments without a database that count operations of one kind: messages, and reads of
//! memory.

use std::sync::Mutex;

use hdrhistogram::Histogram;
use platform::link::{Links, Mechanism};
use platform::{Node, Place};
use workloads::ipc::{IpcResult, IpcSpec, run_ipc};
use workloads::memory::{MemorySpec, MemoryThread, READS_PER_CLOCK_READ, run_memory};

use crate::context::Context;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::measurement::values::{Kind, Latency, Measurement};
use crate::plan::Length;

/// Duration if the length is given in transactions: an experiment counts the operations in a fixed
/// time.
const SECONDS_OTHERWISE: f64 = 1.0;
/// Largest latency of the histograms, in picoseconds.
const LATENCY_PICOS_MAX: u64 = 60_000_000_000_000;
/// Decimal digits of the histograms.
const LATENCY_DIGITS: u8 = 2;

/// The length of an experiment.
pub(crate) fn seconds(length: Length) -> f64 {
    match length {
        Length::Seconds(seconds) => seconds,
        Length::Commits(_) | Length::Transactions(_) => SECONDS_OTHERWISE,
    }
}

/// Latencies in picoseconds that one thread at a time records.
pub(crate) struct Latencies(Mutex<Histogram<u64>>);

impl Latencies {
    pub(crate) fn new() -> Result<Self, RunError> {
        let histogram =
            Histogram::new_with_bounds(1, LATENCY_PICOS_MAX, LATENCY_DIGITS).map_err(RunError::of)?;
        Ok(Latencies(Mutex::new(histogram)))
    }

    pub(crate) fn record(&self, picos: u64) {
        if let Ok(mut histogram) = self.0.lock() {
            histogram.saturating_record(picos);
        }
    }

    /// The percentiles over all threads.
    pub(crate) fn of_all(each: Vec<Latencies>) -> Result<Latency, RunError> {
        let all = Latencies::new()?;
        for thread in each {
            if let (Ok(thread), Ok(mut all)) = (thread.0.into_inner(), all.0.lock()) {
                all.add(&thread).map_err(RunError::of)?;
            }
        }
        Ok(all.latency())
    }

    fn latency(self) -> Latency {
        let histogram = self.0.into_inner();
        histogram.map_or_else(|_| Latency::default(), |histogram| Latency::of_picos(&histogram))
    }
}

/// The measurement of an experiment that counts operations of one kind.
pub(crate) fn measurement(
    cx: Context<'_>,
    what: &'static str,
    count: u64,
    elapsed_nanos: u64,
    latency_us: Latency,
) -> Measurement {
    let elapsed_seconds = elapsed_nanos as f64 / 1e9;
    Measurement {
        elapsed_seconds,
        kinds: vec![(what, Kind { commits: count, aborts: 0, rollbacks: 0, latency_us })],
        latency: latency_us,
        bin_seconds: elapsed_seconds,
        bins: vec![count],
        interrupted: (cx.control.stop_requested)(),
        ..Measurement::default()
    }
}

/// The places of the two peers of the message experiment, and their memory nodes.
pub(crate) fn peers(deployment: &Deployment) -> Result<([Place; 2], [Option<Node>; 2]), RunError> {
    let (places, nodes) = (deployment.places(), deployment.nodes());
    if places.len() < 2 {
        return Err(RunError::Refused("messages need two workers: the deployment has one".to_owned()));
    }
    Ok(([places[0], places[1]], [nodes[0], nodes[1]]))
}

/// Runs the message experiment.
pub(crate) fn ipc<P: Host + Links>(
    c: P::Core,
    mechanism: Mechanism,
    message_bytes: usize,
    cx: Context<'_>,
) -> Result<Measurement, RunError> {
    let (plan, deployment) = (cx.plan, cx.deployment);
    let seconds = seconds(plan.length);
    cx.control.progress.running(plan.warm_up_seconds + seconds);
    let (places, nodes) = peers(deployment)?;
    let spec = IpcSpec {
        mechanism,
        message_bytes,
        places,
        nodes,
        wire: None,
        warm_up_nanos: (plan.warm_up_seconds * 1e9) as u64,
        nanos: (seconds * 1e9) as u64,
    };
    let latencies = Latencies::new()?;
    let observe = |nanos: u64| latencies.record(nanos.saturating_mul(1000));
    let result = run_ipc::<P>(c, &spec, &observe, cx.control.stop_requested).map_err(RunError::of)?;
    let mut measured = messages(cx, result, latencies);
    P::counts(c).enter(&mut measured, |_| Vec::new());
    measured.counters.messages = Some(result.messages);
    Ok(measured)
}

/// The measurement of messages.
pub(crate) fn messages(cx: Context<'_>, result: IpcResult, latencies: Latencies) -> Measurement {
    measurement(cx, "message", result.messages, result.elapsed_nanos, latencies.latency())
}

/// Runs the memory experiment.
pub(crate) fn memory<P: Host>(c: P::Core, rows: u64, cx: Context<'_>) -> Result<Measurement, RunError> {
    let (plan, deployment) = (cx.plan, cx.deployment);
    let seconds = seconds(plan.length);
    cx.control.progress.loading(rows * deployment.workers() as u64);
    let threads = deployment.places().into_iter().zip(deployment.nodes());
    let spec = MemorySpec {
        threads: threads.map(|(place, node)| MemoryThread { place, node }).collect(),
        rows,
        seed: plan.seed,
        warm_up_nanos: (plan.warm_up_seconds * 1e9) as u64,
        nanos: (seconds * 1e9) as u64,
    };
    let latencies: Vec<Latencies> =
        spec.threads.iter().map(|_| Latencies::new()).collect::<Result<_, _>>()?;
    let observe = |thread: usize, nanos: u64| {
        latencies[thread].record(nanos.saturating_mul(1000) / READS_PER_CLOCK_READ)
    };
    let result = run_memory::<P>(c, &spec, &observe, cx.control.stop_requested).map_err(RunError::of)?;
    let reads = result.reads.iter().sum();
    let mut measured = measurement(cx, "read", reads, result.elapsed_nanos, Latencies::of_all(latencies)?);
    P::counts(c).enter(&mut measured, |_| Vec::new());
    Ok(measured)
}
