//! The lock experiment: no database, only locks or atomics.

use workloads::lock::{LockKind, LockSpec, LockThread, Watch, run_lock};

use crate::context::Context;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::measurement::values::{Measurement, ThreadFigures};
use crate::workloads::experiments::{Latencies, measurement, seconds};

/// Runs the experiment.
pub(crate) fn run<P: Host>(c: P::Core, wanted: &LockSpec, cx: Context<'_>) -> Result<Measurement, RunError> {
    let seconds = seconds(cx.plan.length);
    cx.control.progress.running(cx.plan.warm_up_seconds + seconds);
    let spec = LockSpec {
        threads: threads(cx.deployment),
        seed: cx.plan.seed,
        warm_up_nanos: (cx.plan.warm_up_seconds * 1e9) as u64,
        nanos: (seconds * 1e9) as u64,
        ..wanted.clone()
    };
    let latencies: Vec<Latencies> =
        spec.threads.iter().map(|_| Latencies::new()).collect::<Result<_, _>>()?;
    let watch = Watch {
        observe: &|thread, nanos| latencies[thread].record(nanos.saturating_mul(1000)),
        measuring: &mut P::reset_counters,
        stop: cx.control.stop_requested,
    };
    let result = run_lock::<P>(c, &spec, watch).map_err(RunError::of)?;
    // The writer makes the changes that pollers count.
    let acting = if spec.kind == LockKind::Poll { &result.threads[1..] } else { &result.threads[..] };
    let operations = acting.iter().map(|thread| thread.operations);
    let (timed, nanos) = acting
        .iter()
        .fold((0, 0), |(timed, nanos), thread| (timed + thread.timed, nanos + thread.timed_nanos));
    let latency = Latencies::of_all(latencies)?;
    let (name, outcome) = result.check;
    let mut measured = Measurement {
        checks: vec![(name.to_owned(), outcome.into())],
        threads: Some(ThreadFigures {
            operations_min: operations.clone().min().unwrap_or(0),
            operations_max: operations.clone().max().unwrap_or(0),
            refused: acting.iter().map(|thread| thread.refused).sum(),
            mean_ns: (timed > 0).then(|| nanos as f64 / timed as f64),
        }),
        ..measurement(cx, "operation", operations.sum(), result.elapsed_nanos, latency)
    };
    P::counts(c).enter(&mut measured, |_| Vec::new());
    Ok(measured)
}

/// The workers as threads: an island is a socket.
fn threads(deployment: &Deployment) -> Vec<LockThread> {
    let socket_of = deployment.sockets();
    let mut sockets = socket_of.clone();
    sockets.sort_unstable();
    sockets.dedup();
    let island = |socket: u32| sockets.iter().position(|other| *other == socket).unwrap_or(0);
    let places = deployment.places().into_iter().zip(deployment.nodes()).zip(socket_of);
    places.map(|((place, node), socket)| LockThread { place, node, island: island(socket) }).collect()
}
