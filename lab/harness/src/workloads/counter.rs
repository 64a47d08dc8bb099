//! The counter experiment: no database, only latches.

use workloads::counter::{CounterSpec, CounterThread, run_counter};

use crate::context::Context;
use crate::error::RunError;
use crate::host::Host;
use crate::measurement::values::{Check, Kind, Latency, Measurement};
use crate::workloads::experiments::seconds;
use crate::workloads::workload::CounterGroups;

/// Runs the experiment.
pub(crate) fn run<P: Host>(
    c: P::Core,
    groups: CounterGroups,
    cx: Context<'_>,
) -> Result<Measurement, RunError> {
    let (socket_of, places, nodes) = (cx.deployment.sockets(), cx.deployment.places(), cx.deployment.nodes());
    let by_number = groups_by_number(socket_of);
    let group = |thread: usize| match groups {
        CounterGroups::All => 0,
        CounterGroups::Socket => by_number[thread],
        CounterGroups::None => thread,
    };
    let threads: Vec<CounterThread> = (0..places.len())
        .map(|thread| CounterThread { place: places[thread], node: nodes[thread], group: group(thread) })
        .collect();
    let groups = threads.iter().map(|thread| thread.group + 1).max().unwrap_or(1);
    // A counter is on the node of the first of its threads.
    let home =
        |group: usize| threads.iter().find(|thread| thread.group == group).and_then(|first| first.node);
    let counters = (0..groups).map(home).collect();
    let seconds = seconds(cx.plan.length);
    cx.control.progress.running(cx.plan.warm_up_seconds + seconds);
    let spec = CounterSpec {
        threads,
        counters,
        warm_up_nanos: (cx.plan.warm_up_seconds * 1e9) as u64,
        nanos: (seconds * 1e9) as u64,
    };
    let stop = cx.control.stop_requested;
    let result = run_counter::<P>(c, &spec, &mut P::reset_counters, stop).map_err(RunError::of)?;
    let commits = result.operations.iter().sum();
    let exact = if result.is_exact() {
        Check::Ok
    } else {
        let sum: u64 = result.values.iter().sum();
        Check::Violated(format!("the counters add up to {sum} after {} increments", result.all_operations))
    };
    let kind = Kind { commits, aborts: 0, rollbacks: 0, latency_us: Latency::default() };
    let mut measured = Measurement {
        elapsed_seconds: result.elapsed_nanos as f64 / 1e9,
        kinds: vec![("increment", kind)],
        bin_seconds: result.elapsed_nanos as f64 / 1e9,
        bins: vec![commits],
        checks: vec![("counter_sum".to_owned(), exact)],
        interrupted: (cx.control.stop_requested)(),
        ..Measurement::default()
    };
    P::counts(c).enter(&mut measured, |_| Vec::new());
    Ok(measured)
}

/// Divides the threads into as many groups as there are sockets in use, each with as many threads
/// as its socket, in the order of the threads' numbers. The placement determines if the threads of
/// a group share a socket.
fn groups_by_number(mut sockets: Vec<u32>) -> Vec<usize> {
    sockets.sort_unstable();
    let mut groups = Vec::with_capacity(sockets.len());
    for (thread, socket) in sockets.iter().enumerate() {
        let last = groups.last().copied().unwrap_or(0);
        groups.push(if thread > 0 && sockets[thread - 1] != *socket { last + 1 } else { last });
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::groups_by_number;

    #[test]
    fn groups_follow_numbers_and_not_sockets() {
        assert_eq!(groups_by_number(vec![0, 0, 0, 5, 5]), [0, 0, 0, 1, 1]);
        assert_eq!(groups_by_number(vec![0, 5, 0, 5, 0]), [0, 0, 0, 1, 1]);
        assert_eq!(groups_by_number(vec![3]), [0]);
    }
}
