//! Adds up the counters of the workers of a run.

use hdrhistogram::Histogram;
use workloads::Workload;

use crate::deployment::Deployment;
use crate::error::RunError;
use crate::measurement::partition_events::Shifted;
use crate::measurement::values::{Breakdown, Deployed, Kind, Latency, Measurement, RequestFigures};
use crate::plan::{Clients, Plan};
use crate::requests::{BATCH_REQUESTS, BATCHES};
use crate::workers::schedule::{BINS, Schedule};
use crate::workers::worker::{KindCounts, WorkerResult};

/// Adds the counts of all workers of a deployment to a measurement; returns commits by kind,
/// warm-up included.
pub(crate) fn enter<W: Workload>(
    measured: &mut Measurement,
    workload: &W,
    plan: &Plan,
    deployment: &Deployment,
    results: &[WorkerResult],
) -> Result<Vec<u64>, RunError> {
    measured.bin_seconds = seconds(Schedule::of(plan).bin_nanos);
    measured.instances = deployment.instances.len();
    summarise(measured, workload.kinds(), results)?;
    // The results of an instance that is missing in the end are not known.
    if results.len() == deployment.workers() {
        measured.instance_commits = vec![0; measured.instances];
        for (worker, result) in results.iter().enumerate() {
            let commits: u64 = result.kinds.iter().map(|kind| kind.commits).sum();
            measured.instance_commits[deployment.instance_of(worker)] += commits;
        }
    }
    if measured.instances > 1 || plan.execution.sharing().is_some() {
        summarise_messages(measured, deployment, results);
    }
    if plan.clients == Clients::Global {
        measured.requests = figures_of_requests(results)?;
    }
    let sum = |kind: usize| results.iter().map(|result| result.committed[kind]).sum();
    Ok((0..workload.kinds().len()).map(sum).collect())
}

/// Figures of the requests of clients; `None` if there were no clients.
fn figures_of_requests(results: &[WorkerResult]) -> Result<Option<RequestFigures>, RunError> {
    let mut queued = KindCounts::new()?.latency_nanos;
    for result in results {
        queued.add(&result.queued_nanos).map_err(RunError::of)?;
    }
    if queued.is_empty() {
        return Ok(None);
    }
    let idle: u64 = results.iter().map(|result| result.idle_nanos).sum();
    let measured: u64 = results.iter().map(|result| result.ended.since(result.warm)).sum();
    Ok(Some(RequestFigures {
        clients: results.len(),
        open_max: BATCH_REQUESTS * BATCHES as u32,
        queued_us: Latency::of_nanos(&queued),
        idle: idle as f64 / measured.max(1) as f64,
    }))
}

/// Adds up the messages between workers.
fn summarise_messages(measured: &mut Measurement, deployment: &Deployment, results: &[WorkerResult]) {
    let sum = |of: fn(&WorkerResult) -> u64| results.iter().map(of).sum::<u64>();
    let (messages, distributed) = (sum(|result| result.messages), sum(|result| result.distributed));
    let commits: u64 = measured.kinds.iter().map(|(_, kind)| kind.commits).sum();
    measured.counters.messages = Some(messages);
    measured.distributed_ratio = distributed as f64 / commits.max(1) as f64;
    measured.messages_per_distributed = (distributed > 0).then(|| messages as f64 / distributed as f64);
    (measured.refused, measured.losses) = (sum(|result| result.refused), sum(|result| result.losses));
    measured.troubles.echoes = sum(|result| result.echoes);
    // Messages that are lost with a link or an instance are not counted.
    measured.messages_amiss = match measured.losses + measured.returned.len() as u64 {
        0 => results.iter().map(|result| result.messages_missing).sum(),
        _ => 0,
    };
    if measured.instances == 1 {
        return;
    }
    // The results of an instance that is missing in the end are not known.
    if results.len() < deployment.workers() {
        return;
    }
    let instances = deployment.instances.clone();
    let mut messages = vec![vec![0; instances.len()]; instances.len()];
    for (worker, result) in results.iter().enumerate() {
        let sums = &mut messages[deployment.instance_of(worker)];
        sums.iter_mut().zip(&result.messages_to).for_each(|(sum, messages)| *sum += messages);
    }
    measured.deployment = Some(Deployed { instances, messages });
}

/// Adds up the workers' counts of transactions of these kinds.
fn summarise(
    measured: &mut Measurement,
    kinds: &[&'static str],
    results: &[WorkerResult],
) -> Result<(), RunError> {
    // The mean over workers, so that one long last transaction has little effect.
    let measured_nanos: u64 = results.iter().map(|result| result.ended.since(result.warm)).sum();
    measured.elapsed_seconds = seconds(measured_nanos / results.len().max(1) as u64);
    measured.bins = vec![0; BINS as usize];
    let mut breakdown = [0; terms::CATEGORIES];
    let mut all: Option<Histogram<u64>> = None;
    for (number, name) in kinds.iter().enumerate() {
        let mut sum = KindCounts::new()?;
        results.iter().for_each(|result| sum.add(&result.kinds[number]));
        let latency = &sum.latency_nanos;
        match &mut all {
            Some(all) => all.add(latency).map_err(RunError::of)?,
            None => all = Some(latency.clone()),
        }
        let KindCounts { commits, aborts, rollbacks, .. } = sum;
        let latency_us = Latency::of_nanos(latency);
        measured.kinds.push((name, Kind { commits, aborts, rollbacks, latency_us }));
    }
    for result in results {
        measured.bins.iter_mut().zip(&result.bins).for_each(|(sum, bin)| *sum += bin);
        breakdown.iter_mut().zip(&result.breakdown).for_each(|(sum, nanos)| *sum += nanos);
    }
    measured.shifted = results.iter().flat_map(|result| result.shifted.iter().copied()).collect();
    measured.events.extend(measured.shifted.iter().map(Shifted::event));
    measured.events.sort_by(|one, other| one.second.total_cmp(&other.second));
    measured.attempts_max = results.iter().map(|result| result.attempts_max).max();
    measured.latency = all.map_or_else(Latency::default, |all| Latency::of_nanos(&all));
    measured.breakdown = Breakdown::of_times(breakdown);
    Ok(())
}

pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
